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
/// The kernel looks up the page of a shared futex for writing. For a read-only mapping this fails, and the kernel repeats the lookup
/// for reading under the lock of the address space, which doubles the cost of the system call. The word therefore lies in a page
/// that both sides map for writing.
#[derive(Clone, Debug)]
pub struct WakeWord {
    log: Arc<MappedLog>,
    page: Option<(Arc<WakePage>, usize)>,
}

impl WakeWord {
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

    pub fn continue_in(&mut self, log: Arc<MappedLog>) {
        self.log = log;
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
