//! What all programs do alike on a command line.
//!
//! [`mistakes`]: what was typed wrongly, in one sentence. [`ascii`]: when text is in ASCII alone.

#[cfg(test)]
#[macro_use]
extern crate causeway_testkit;

pub mod ascii;
pub mod mistakes;
