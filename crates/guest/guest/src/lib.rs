//! A Linux kernel in an emulated machine that counts instructions, with this program as its first process.
//!
//! [`Kernel::find`](kernel::Kernel::find) finds a kernel, [`program::image`] packs the program, its libraries and a
//! [`Job`](job::Job) into an initramfs, [`boot::boot`] starts qemu and reads what comes back, and [`init::main`] is what runs
//! inside. [`counted`] turns nanoseconds of such a machine into what they are: instructions.
//!
//! | file | what it does |
//! |---|---|
//! | `kernel.rs`, `debian.rs` | which kernel: a file, a folder, an unpacked package, the host's |
//! | `config.rs` | in what two kernels differ: options, compilers |
//! | `bloat.rs`, `module_sizes.rs` | in what two ELF files differ: sizes of symbols and sections; the same of all modules |
//! | `modules.rs` | modules of a kernel, in the order in which they must be loaded |
//! | `program.rs`, `archive.rs` | the program with its libraries, as an initramfs |
//! | `job.rs`, `port.rs` | what the guest shall do, and what it answers over its second serial port |
//! | `init.rs` | the first process of the guest |
//! | `boot.rs`, `qemu.rs`, `console.rs` | the emulated machine from outside, and why it ended |
//! | `kernel_bench.rs` | the tests of our kernel module, run in a guest |
//! | `net_bench.rs`, `pktgen.rs` | packets through a veth pair into a drop, an accept, a forward, in a guest |
//! | `counted.rs` | lines of a record in instructions |
//! | `plugin.rs`, `symbols.rs`, `functions.rs` | instructions by function: what counts them, names of addresses, both together |

#[cfg(test)]
#[macro_use]
extern crate causeway_testkit;

mod archive;
pub mod bloat;
pub mod boot;
pub mod config;
mod console;
pub mod counted;
mod debian;
mod error;
pub mod functions;
pub mod init;
pub mod job;
pub mod kernel;
pub mod kernel_bench;
pub mod module_sizes;
pub mod modules;
pub mod net_bench;
mod pktgen;
pub mod plugin;
pub mod port;
pub mod program;
pub mod qemu;
pub mod symbols;

pub use error::Error;
