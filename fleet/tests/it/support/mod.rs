//! What the tests share.

pub mod world;
