//! What the tests share.

pub mod proxy;
pub mod servers;
pub mod world;
