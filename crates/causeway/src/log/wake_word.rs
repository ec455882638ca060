//! Where the subscribers of a log sleep on one word, and how it is woken.

use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use causeway_os::futex;

use super::Memory;
use super::mapped::MappedLog;
use super::pages::WakePage;
use crate::error::Result;

/// The counter of wake-ups of a log: in the wake page for processes of one user, who sleep on it; in the log for strangers, who
/// only compare it.
///
/// The kernel finds the page behind a futex as if it were to write to it. Where the mapping is read-only it tries in vain, takes
/// the lock of the address space, and begins again: that doubles the cost of the system call. So a page of its own, which both
/// sides can write.
#[derive(Clone, Debug)]
pub struct WakeWord {
    log: Arc<MappedLog>,
    page: Option<(Arc<WakePage>, usize)>,
}

impl WakeWord {
    /// The word in the log.
    pub fn in_log(log: Arc<MappedLog>) -> WakeWord {
        WakeWord { log, page: None }
    }

    /// The first (0) or second (1) word in a wake page.
    pub fn in_page(log: Arc<MappedLog>, page: Arc<WakePage>, index: usize) -> WakeWord {
        WakeWord { log, page: Some((page, index)) }
    }

    /// The first word of the page with this descriptor, if there is one; otherwise that in the log.
    pub fn open(log: Arc<MappedLog>, page: Option<OwnedFd>) -> Result<WakeWord> {
        Ok(match page {
            Some(page) => WakeWord::in_page(log, Arc::new(WakePage::open(&page)?), 0),
            None => WakeWord::in_log(log),
        })
    }

    /// Wakes the threads that sleep on the word with one of these bits. Returns whether the kernel did it.
    pub fn wake(&self, bits: u32) -> bool {
        match bits {
            u32::MAX => futex::wake(self, u32::MAX).is_ok(),
            bits => futex::wake_bitset(self, u32::MAX, bits).is_ok(),
        }
    }
}

impl Deref for WakeWord {
    type Target = AtomicU32;

    #[inline(always)]
    fn deref(&self) -> &AtomicU32 {
        match &self.page {
            Some((page, index)) => &page.words().wake_seq[*index],
            None => &self.log.tail().wake_seq,
        }
    }
}
