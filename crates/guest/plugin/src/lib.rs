//! A plugin of qemu's code generator (TCG) that counts a guest's instructions by address and call stack.
//!
//! qemu translates a guest's code block by block. The plugin is called for each translation, where it finds calls, returns and
//! marks among the instructions, and for each execution of a block, which executes all of its instructions. So it counts
//! exactly, and by the same rule as the clock of `-icount shift=0`.
//!
//! It counts inside windows only, which the guest marks by instructions that do nothing ([`decode::MARK`]). At the third kind of mark it
//! writes what it counted ([`counts::Counts::write`]) to the file that its argument `out=FILE` names. Names of functions are none of its
//! business: `weighbridge-guest` reads the file, and has the names from the guest.
//!
//! | file | what it does |
//! |---|---|
//! | `decode.rs` | which instructions are calls, returns, marks |
//! | `stacks.rs` | call stacks by the addresses at which return addresses are stored |
//! | `counts.rs` | executions of blocks by call stack, and the file that holds them |
//! | `plugin.rs` | what qemu calls |
//! | `qemu.rs` | what of qemu is called |
//!
//! The plugin uses version 1 of the interface, and was tried with qemu 7.2.

#[cfg(test)]
#[macro_use]
extern crate causeway_testkit;

pub mod counts;
pub mod decode;
// A test is a program of its own, in which there is no qemu.
#[cfg(not(test))]
mod plugin;
#[cfg(not(test))]
mod qemu;
pub mod stacks;
