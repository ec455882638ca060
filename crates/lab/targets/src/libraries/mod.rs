//! Other people's libraries as mechanisms, so that they are measured in one run with ours.
//!
//! Each is behind a feature of its own that is off by default: neither the default build nor the tests of the workspace
//! compile them. A library is used as its own documentation shows it, with its defaults wherever a promise of the harness does not
//! ask for something else; what does is said in the mechanism.
//!
//! * `iceoryx2`: [iceoryx2](https://crates.io/crates/iceoryx2) 0.10, MIT or Apache-2.0. Needs no tool beside the Rust
//!   toolchain; it is some 50 crates, a minute of CPU time.

#[cfg(feature = "iceoryx2")]
pub mod iceoryx2;
