//! What the tests share.

pub mod programs;
pub mod proxy;
pub mod servers;
pub mod world;
