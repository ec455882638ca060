//! A subscriber of a group.

mod ends;
mod epoch;
mod health;
mod in_place;
mod keep;
mod losses;
mod receive;
mod references;
mod sequences;
mod wait;

pub use health::Health;
pub use in_place::InPlace;
#[cfg(feature = "tokio")]
pub(crate) use wait::DRAIN_READS_MAX;
pub use wait::Waited;

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use causeway_os::handshake::{Offer, Part};
use causeway_os::memory::Access;

use crate::connection::Membership;
use crate::error::{Error, Result};
use crate::log::layout::SUBSCRIBERS_MAX;
use crate::log::mapped::MappedLog;
use crate::log::pages::{StatusPages, SubscriberPage};
use crate::log::wait::{WaitTarget, Waiter, topic_bit};
use crate::log::wake_word::WakeWord;
use crate::log::word::{GRANULE_BYTES, HEADER_BYTES};
use crate::log::{Frame, Loss, Position, Reader, Start};
use crate::options::{Policy, SubscribeOptions};
use crate::request::Request;
use crate::serve::Host;
use crate::spin::{Pace, Spin};
use crate::subscriber_handle::own_process;
use crate::trust::Trust;
use crate::watch::Watch;
use crate::wire::{
    ANSWER_TIME, Message, Op, answer, ask, ask_within, check_offer, granted, take_fds_and_wake_page,
};
use keep::Kept;
use losses::Demotion;
use sequences::Sequences;
pub(crate) use wait::check_doorbell;
use wait::{check_lifeline, futex_of};

/// Receives messages. [`Group::subscribe`](crate::Group::subscribe) makes one.
///
/// `try_…` never waits, [`Subscriber::recv`] waits, [`Subscriber::recv_timeout`] waits for a limited time. A program with an
/// event loop of its own uses [`Subscriber::arm`] and the file descriptor.
#[derive(Debug)]
pub struct Subscriber {
    /// First, so that it ends before what it gave the right to is gone.
    socket: Membership,
    reader: Reader<Arc<MappedLog>>,
    log: Arc<MappedLog>,
    page: Arc<SubscriberPage>,
    wake_word: WakeWord,
    status: StatusPages,
    doorbell: OwnedFd,
    /// Hangs up when the server and all publishers are gone.
    lifeline: Arc<OwnedFd>,
    slot: usize,
    generation: u32,
    policy: Policy,
    trust: Trust,
    waiter: Waiter,
    wait_target: WaitTarget,
    spin: Spin,
    pace: Pace,
    watch: Option<Watch>,
    /// How often the program polled without finding a message; modulo 2³².
    empty_polls: u32,
    /// The cursor that publishers see.
    published_cursor: u64,
    /// The frame that [`InPlace`] shows.
    frame: Frame,
    /// The next call must look at more than the log: there is a loss to return, this subscriber is disconnected, its policy
    /// bounds its lag, it wants some topics only, or it keeps what it received.
    needs_care: bool,
    /// The topics that it wants; `None` for all.
    topics: Option<BTreeSet<u32>>,
    /// What it keeps of what it received; `None` if it keeps nothing.
    kept: Option<Kept>,
    /// A loss that was detected and not yet returned.
    lost: Option<Loss>,
    demotion: Demotion,
    /// This subscriber missed its deadline and has left the group: how many messages it had not received.
    disconnected: Option<u64>,
    /// The server has removed this subscriber.
    removed: bool,
    /// All other ends of the doorbell are closed: it is rung no more.
    doorbell_closed: bool,
    /// All other ends of the lifeline are closed: the server and all publishers are gone.
    lifeline_closed: bool,
    buffer: Vec<u8>,
    received: u64,
    lost_messages: u64,
    lost_bytes: u64,
    sequences: Sequences,
    /// What [`Message::lost_before`] says of the last message.
    lost_before: Option<u32>,
    /// The formats that it has.
    own: Offer,
    _host: Option<Arc<Host>>,
}

/// Payload bytes in the cache line of the header.
const SHORT_BYTES: usize = (GRANULE_BYTES - HEADER_BYTES) as usize;

/// The filter of these topics. Never 0, which stands for all topics.
fn filter_of(topics: &BTreeSet<u32>) -> u32 {
    topics.iter().fold(0, |filter, topic| filter | topic_bit(*topic)).max(u32::from(topics.is_empty()))
}

/// Tells the server how far this subscriber is, and waits for its answer.
fn confirm(socket: &OwnedFd, step: Request) -> Result<()> {
    granted(ask(socket, step)?, "a subscriber").map(drop)
}

impl Subscriber {
    /// Becomes a subscriber over a new connection.
    pub(crate) fn join(
        socket: OwnedFd,
        options: SubscribeOptions,
        host: Option<Arc<Host>>,
        own: Offer,
    ) -> Result<Subscriber> {
        let request = Request::Subscribe { policy: Some(options.policy), fingerprint: options.fingerprint };
        let request = Message::from(request).with_offer(own);
        let start = Instant::now();
        let timeout = options.timeout.unwrap_or(Duration::MAX);
        // A server that works answers at once, if only that the grant follows later.
        let mut answered = ask_within(&socket, request, timeout.min(ANSWER_TIME))?;
        if answered.0.op == Op::Waiting {
            let left = options.timeout.map(|timeout| timeout.saturating_sub(start.elapsed()));
            answered = answer(&socket, left)?;
        }
        check_offer(&answered.0, own, Part::Reads)?;
        let ([slot, generation, trust, ..], fds) = granted(answered, "a subscriber")?;
        if slot as usize >= SUBSCRIBERS_MAX {
            return Err(Error::invalid("answer", format!("slot {slot}")));
        }
        let trust =
            Trust::from_word(trust).ok_or_else(|| Error::invalid("answer", "an unknown kind of trust"))?;
        let ([status, log, page, doorbell, lifeline], wake_page) = take_fds_and_wake_page(fds)?;
        if wake_page.is_some() != (trust == Trust::SameUser) {
            let why = "a wake page is for processes of one user, and for them only";
            return Err(Error::invalid("answer", why));
        }
        check_doorbell(&doorbell)?;
        check_lifeline(&lifeline)?;
        let log = Arc::new(MappedLog::open(&log, Access::ReadOnly, own)?);
        let page = Arc::new(SubscriberPage::open_own(&page)?);
        let wake_word = WakeWord::open(Arc::clone(&log), wake_page)?;
        page.words().process.store(own_process(), Ordering::Relaxed);
        let filter = options.topics.as_ref().map_or(0, filter_of);
        page.words().topics.store(u64::from(filter), Ordering::Relaxed);
        // From the answer on, publishers keep what this subscriber has not read.
        confirm(&socket, Request::Ready)?;
        let mut reader = Reader::join(Arc::clone(&log))?;
        page.words().cursor.store(reader.position(), Ordering::Release);
        if options.start == Start::Next {
            reader.skip_to_end()?;
            page.words().cursor.store(reader.position(), Ordering::Release);
        }
        // From the answer on, others see that it is there.
        confirm(&socket, Request::Placed)?;
        let published_cursor = reader.position();
        Ok(Subscriber {
            reader,
            log,
            page,
            wake_word,
            status: StatusPages::open(&status)?,
            socket: Membership::new(Arc::new(socket)),
            doorbell,
            lifeline: Arc::new(lifeline),
            slot: slot as usize,
            generation,
            policy: options.policy,
            waiter: Waiter::new(),
            wait_target: futex_of(trust),
            trust,
            spin: Spin::default(),
            pace: Pace::default(),
            watch: None,
            empty_polls: 0,
            published_cursor,
            frame: Frame::default(),
            needs_care: options.policy.lag_bytes_max().is_some() || options.topics.is_some() || options.keep,
            kept: options.keep.then(|| Kept::from(published_cursor)),
            topics: options.topics,
            lost: None,
            demotion: Demotion::None,
            disconnected: None,
            removed: false,
            doorbell_closed: false,
            lifeline_closed: false,
            buffer: vec![0; SHORT_BYTES],
            received: 0,
            lost_messages: 0,
            lost_bytes: 0,
            sequences: Sequences::default(),
            lost_before: None,
            own,
            _host: host,
        })
    }

    /// Number of this subscriber in its group.
    pub fn id(&self) -> u32 {
        self.slot as u32
    }

    /// How far the subscribers of this group trust each other, as its creator decided.
    pub fn trust(&self) -> Trust {
        self.trust
    }

    /// The position up to which every message was received or lost.
    pub fn position(&self) -> Position {
        Position(self.reader.position())
    }

    /// A number that this group has from its creation to its end, drawn at random: another group at the same path has another one.
    pub fn group_number(&self) -> u64 {
        self.log.group_number()
    }

    /// Messages published in the group before [`Subscriber::position`], since the group began; those that were lost count, too.
    pub fn messages_before(&self) -> u64 {
        self.reader.messages_before()
    }

    /// The log of the group that it reads: the first one has the number 0, and each that follows ([`Group::resize`](crate::Group::resize))
    /// the next. Right after a receive, that of the message.
    pub fn epoch(&self) -> u64 {
        self.log.epoch()
    }
}
