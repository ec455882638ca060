//! The logs of a group: the present one, those that have ended, and the next one. What is done with them is in
//! [`epochs`](super::epochs).

use std::collections::{BTreeSet, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::log::Memory;
use crate::log::mapped::MappedLog;

#[derive(Debug)]
pub struct Logs {
    pub present: Arc<MappedLog>,
    pub present_fd: OwnedFd,
    /// Those that have ended and that somebody needs, oldest first.
    pub ended: VecDeque<Ended>,
    /// The next one, while publishers map it.
    pub next: Option<Next>,
    /// Publishers that join with it: connection and slot.
    pub joiners: Vec<(u64, u8)>,
    /// The capacity of a log that is to be made.
    pub wanted: Option<u64>,
    pub is_making: bool,
    /// Messages up to the end of the newest log that was dropped.
    pub dropped_messages: u64,
    /// The group was closed: no log follows the present one.
    pub is_closed: bool,
}

impl Logs {
    pub fn new(present: Arc<MappedLog>, present_fd: OwnedFd) -> Logs {
        Logs {
            present,
            present_fd,
            ended: VecDeque::new(),
            next: None,
            joiners: Vec::new(),
            wanted: None,
            is_making: false,
            dropped_messages: 0,
            is_closed: false,
        }
    }

    /// Those that have ended and the present one, in their order, with their descriptors.
    pub fn kept(&self) -> impl Iterator<Item = (&Arc<MappedLog>, &OwnedFd)> {
        let ended = self.ended.iter().map(|ended| (&ended.log, &ended.fd));
        ended.chain([(&self.present, &self.present_fd)])
    }

    /// Subscribers that have not come further sleep with the words of these logs.
    pub fn change_wake_words_of_ended(&self) {
        for ended in &self.ended {
            ended.log.tail().wake_seq.fetch_add(1, Ordering::Release); // PAIR wake-seq
        }
    }
}

#[derive(Debug)]
pub struct Ended {
    pub log: Arc<MappedLog>,
    pub fd: OwnedFd,
    pub since: Instant,
}

/// The log that publishers map.
#[derive(Debug)]
pub struct Next {
    pub log: Arc<MappedLog>,
    pub fd: OwnedFd,
    /// The connections whose publishers map it.
    pub awaited: BTreeSet<u64>,
    /// The slots of publishers that do not get it, a bit each.
    pub outcasts: u64,
    pub deadline: Instant,
    /// The deadline is never later, however many publishers come meanwhile.
    pub latest: Instant,
    /// The deadline has passed: subscribers that join are not waited for any more.
    pub is_overdue: bool,
}

/// Logs of this size are freed by a thread of their own: the kernel takes long, and others wait for the server.
const LARGE_BYTES: u64 = 16 << 20;

pub fn free(ended: Ended) {
    if ended.log.capacity_bytes() >= LARGE_BYTES {
        // Without threads it is freed here.
        let _ = crate::reservation::spawn("causeway-free", move || drop(ended));
    }
}
