//! A wake-up of nothing: what it costs to ask whether somebody sleeps.

use std::io;
use std::sync::atomic::AtomicU32;

use causeway_os::futex;

use super::{Op, OpContext};

/// `FUTEX_WAKE` of a word on which nobody sleeps.
#[derive(Debug)]
pub struct FutexWake(AtomicU32);

impl Op for FutexWake {
    const ID: &'static str = "futex-wake";
    const ABOUT: &'static str = "FUTEX_WAKE of a word on which no thread sleeps";

    fn setup(_context: &OpContext<'_>) -> io::Result<FutexWake> {
        Ok(FutexWake(AtomicU32::new(0)))
    }

    #[inline]
    fn once(&mut self) -> io::Result<u64> {
        futex::wake(&self.0, 1).map(u64::from)
    }

    fn each(&self) -> Option<u64> {
        Some(0)
    }
}
