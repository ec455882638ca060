//! The receiving end of a group.

mod health;
mod wait;

pub use health::Health;
#[cfg(feature = "tokio")]
pub(crate) use wait::HUSH_READS;
pub use wait::Waited;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use causeway_os::futex;
use causeway_os::memory::Access;
use rustix::io::Errno;

use crate::error::{Error, Gone, Result};
use crate::in_place::InPlace;
use crate::log::layout::RECEIVERS_MAX;
use crate::log::mapped::MappedLog;
use crate::log::pages::{ReceiverPage, StatusPage};
use crate::log::sleep::{Bed, Sleeper, moved_on};
use crate::log::word::{GRANULE_BYTES, HEADER_BYTES};
use crate::log::{Frame, Glance, Look, Loss, Memory, Peek, Reader, Start};
use crate::options::{Policy, SubscribeOptions};
use crate::publisher::Position;
use crate::serve::Host;
use crate::spin::{Pace, Spin};
use crate::watch::Watch;
use crate::wire::{self, ANSWER_TIME, Op, answer, ask, take_fds};
use wait::check_doorbell;

/// A message, copied out of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The payload.
    pub bytes: &'a [u8],
    /// Where it lies in the one order of the group.
    pub position: Position,
    /// Which publisher sent it: its [`id`](crate::Publisher::id).
    pub publisher: u8,
    /// How many messages that publisher had sent before, modulo 2³².
    pub sequence: u32,
    /// What it is about, in the publisher's words; 0 if it did not say.
    pub topic: u32,
}

/// What a look into the log gives. All three are normal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Received<'a> {
    /// The next message.
    Message(Message<'a>),
    /// This receiver was too slow: so much was overwritten since the last message that it got.
    Lost {
        /// Messages, exactly.
        messages: u64,
        /// Bytes of log in which they lay.
        bytes: u64,
    },
    /// Nothing yet.
    Empty,
}

/// Receives messages. Made by [`Group::subscribe`](crate::Group::subscribe).
#[derive(Debug)]
pub struct Subscriber {
    pub(crate) reader: Reader<Arc<MappedLog>>,
    pub(crate) log: Arc<MappedLog>,
    page: ReceiverPage,
    status: StatusPage,
    socket: Arc<OwnedFd>,
    bell: Arc<OwnedFd>,
    slot: usize,
    generation: u32,
    policy: Policy,
    sleeper: Sleeper,
    bed: Bed,
    spin: Spin,
    pace: Pace,
    watch: Option<Watch>,
    /// Looks of the program's own that found nothing; modulo 2³².
    in_vain: u32,
    /// The cursor that publishers know.
    announced: u64,
    /// The message that is read in place.
    pub(crate) frame: Frame,
    /// A loss that was found and not yet told.
    lost: Option<Loss>,
    /// All other ends of the doorbell are closed.
    alone: bool,
    buffer: Vec<u8>,
    received: u64,
    lost_messages: u64,
    lost_bytes: u64,
    _host: Option<Arc<Host>>,
}

/// Payload that shares the line of its header.
const SHORT_BYTES: usize = (GRANULE_BYTES - HEADER_BYTES) as usize;

/// So often a receiver is overtaken while it copies the same message, before it takes the log for corrupt. The floor only
/// rises: the first look after a copy that was overtaken finds the loss. Only a publisher that moves the floor to and fro gets
/// further.
const COPY_ATTEMPTS: usize = 100;

/// So many looks in vain make a program one that only looks.
const LOOKS: u32 = 64;

impl Subscriber {
    /// Becomes a receiver over a fresh connection.
    pub(crate) fn join(
        socket: OwnedFd,
        options: SubscribeOptions,
        host: Option<Arc<Host>>,
    ) -> Result<Subscriber> {
        let request = wire::Message::new(Op::Subscribe, &options.policy.to_words());
        let start = Instant::now();
        let patience = options.patience.unwrap_or(Duration::MAX);
        // Some answer is owed at once, so that a server that hangs is not waited for.
        let (mut granted, mut fds) = ask(&socket, request, Some(patience.min(ANSWER_TIME)))?;
        if granted.op == Op::Waiting {
            let left = options.patience.map(|patience| patience.saturating_sub(start.elapsed()));
            (granted, fds) = answer(&socket, left)?;
        }
        let [slot, generation, ..] = granted.words;
        if granted.op != Op::Granted || slot as usize >= RECEIVERS_MAX {
            return Err(Error::invalid("answer", format!("{:?} to a receiver", granted.op)));
        }
        let [status, log, page, bell] = take_fds(fds)?;
        check_doorbell(&bell)?;
        let log = Arc::new(MappedLog::open(&log, Access::ReadOnly)?);
        let page = ReceiverPage::open_own(&page)?;
        let mut reader = Reader::join(Arc::clone(&log))?;
        page.words().cursor.store(reader.position(), Ordering::Release);
        if options.start == Start::Next {
            reader.skip_to_end()?;
            page.words().cursor.store(reader.position(), Ordering::Release);
        }
        let announced = reader.position();
        Ok(Subscriber {
            reader,
            log,
            page,
            status: StatusPage::open(&status)?,
            socket: Arc::new(socket),
            bell: Arc::new(bell),
            slot: slot as usize,
            generation,
            policy: options.policy,
            sleeper: Sleeper::new(generation),
            bed: Bed::Futex,
            spin: Spin::default(),
            pace: Pace::default(),
            watch: None,
            in_vain: 0,
            announced,
            frame: Frame::default(),
            lost: None,
            alone: false,
            buffer: vec![0; SHORT_BYTES],
            received: 0,
            lost_messages: 0,
            lost_bytes: 0,
            _host: host,
        })
    }

    /// Takes the next message out of the log, without waiting.
    ///
    /// The payload is copied into a buffer of this receiver, so that nothing a publisher does later can change it. To
    /// read it in place see [`Subscriber::receive_in_place`].
    ///
    /// # Errors
    /// [`Error::PeerGone`] when everything was received and nobody is left to publish: the normal end of a group. A
    /// program that only looks, and never waits, is told so too if the others were killed: 64 looks in vain start the
    /// thread that notices. [`Error::Closed`] when everything was
    /// received and the group was closed; [`Error::Late`] when this receiver was late and its policy says that it then
    /// leaves; [`Error::Corrupt`] when a publisher broke the protocol.
    #[inline(always)]
    pub fn receive(&mut self) -> Result<Received<'_>> {
        let Some(mut frame) = self.find()? else { return Ok(self.nothing_to_receive()) };
        if !self.copy(&frame)? {
            match self.find_and_copy_again()? {
                Some(another) => frame = another,
                None => return Ok(self.nothing_to_receive()),
            }
        }
        self.pass(frame.end);
        let Frame { position, publisher, sequence, topic, .. } = frame;
        let bytes = &self.buffer[..frame.payload_bytes as usize];
        let position = Position(position);
        Ok(Received::Message(Message { bytes, position, publisher, sequence, topic }))
    }

    /// Copies the payload into the buffer. False if it was overwritten meanwhile.
    #[inline(always)]
    fn copy(&mut self, frame: &Frame) -> Result<bool> {
        let length = frame.payload_bytes as usize;
        if self.buffer.len() < length {
            self.enlarge(length)?;
        }
        // What shares the header's line is copied whole, without a loop.
        Ok(match self.buffer.first_chunk_mut::<SHORT_BYTES>() {
            Some(short) if length <= SHORT_BYTES => self.reader.copy(frame, short),
            _ => self.reader.copy(frame, &mut self.buffer[..length]),
        })
    }

    /// This receiver was overtaken while it copied. The next look says by how much: `None`, with the loss in `lost`.
    #[cold]
    #[inline(never)]
    fn find_and_copy_again(&mut self) -> Result<Option<Frame>> {
        for _ in 0..COPY_ATTEMPTS {
            let Some(frame) = self.find()? else { return Ok(None) };
            if self.copy(&frame)? {
                return Ok(Some(frame));
            }
        }
        Err(Error::Corrupt { position: self.reader.position() })
    }

    #[inline(never)]
    fn nothing_to_receive(&mut self) -> Received<'static> {
        match self.lost.take() {
            Some(loss) => Received::Lost { messages: loss.messages, bytes: loss.bytes },
            None => {
                self.looked_in_vain();
                Received::Empty
            }
        }
    }

    #[cold]
    fn enlarge(&mut self, length: usize) -> Result<()> {
        self.buffer
            .try_reserve(length - self.buffer.len())
            .map_err(|_| Error::os("make room for", format!("a message of {length} bytes"), Errno::NOMEM))?;
        self.buffer.resize(length, 0);
        Ok(())
    }

    /// The next message, left where it lies; `None` when there is none or when messages were lost: then
    /// [`Subscriber::receive`] says which.
    ///
    /// # Errors
    /// As [`Subscriber::receive`].
    #[inline(always)]
    pub fn receive_in_place(&mut self) -> Result<Option<InPlace<'_>>> {
        let Some(frame) = self.find()? else {
            self.looked_in_vain();
            return Ok(None);
        };
        self.frame = frame;
        Ok(Some(InPlace::new(self)))
    }

    /// Looking does not say that everybody was killed. A program that goes on looking without ever waiting gets the
    /// thread that hears of it.
    #[inline(always)]
    fn looked_in_vain(&mut self) {
        self.in_vain = self.in_vain.wrapping_add(1);
        if self.in_vain.is_multiple_of(LOOKS) && self.watch.is_none() {
            self.watch_over();
        }
    }

    #[cold]
    fn watch_over(&mut self) {
        // Without descriptors or threads for it now, it is tried again after as many looks.
        self.watch = Watch::start(&self.socket, &self.bell, Arc::clone(&self.log)).ok();
    }

    /// The next message. If there is none: nothing, or a loss that now waits in `lost`.
    #[inline(always)]
    fn find(&mut self) -> Result<Option<Frame>> {
        if self.lost.is_none() {
            match self.reader.glance() {
                Glance::Frame(frame) => return Ok(Some(frame)),
                Glance::Empty if !self.nobody_publishes() => return Ok(None),
                Glance::Empty | Glance::Other => {}
            }
        }
        self.find_at_length()
    }

    #[inline(never)]
    fn find_at_length(&mut self) -> Result<Option<Frame>> {
        if self.lost.is_some() {
            return Ok(None);
        }
        match self.reader.peek()? {
            Peek::Frame(frame) => return Ok(Some(frame)),
            Peek::Empty(_) => {
                self.announce();
                self.nothing_yet()?;
            }
            Peek::Lost(loss) => self.note_loss(loss)?,
            Peek::Sealed => return Err(Error::Closed),
        }
        Ok(None)
    }

    fn nothing_yet(&mut self) -> Result<()> {
        if !self.nobody_publishes() {
            return Ok(());
        }
        // The last publisher may have published and left between the look at the log and the look at the status.
        match self.reader.peek()? {
            Peek::Empty(_) => Err(Error::PeerGone(Gone::Publishers)),
            Peek::Lost(loss) => self.note_loss(loss),
            Peek::Frame(_) | Peek::Sealed => Ok(()),
        }
    }

    /// Whether no message can come any more.
    #[inline(always)]
    fn nobody_publishes(&self) -> bool {
        self.status.words().phase.load(Ordering::Acquire) == 2
            || self.is_alone()
            || (self.server_is_gone() && self.remote_publishers() == 0)
    }

    /// Publishers that do not die with the server.
    fn remote_publishers(&self) -> u64 {
        let status = self.status.words();
        status.publishers.load(Ordering::Acquire) & !status.local_publishers.load(Ordering::Acquire)
    }

    #[inline(always)]
    fn is_alone(&self) -> bool {
        self.alone || self.watch.as_ref().is_some_and(|watch| watch.watched().everybody_is_gone())
    }

    #[inline(always)]
    fn server_is_gone(&self) -> bool {
        self.alone || self.watch.as_ref().is_some_and(|watch| watch.watched().server_is_gone())
    }

    #[cold]
    fn note_loss(&mut self, loss: Loss) -> Result<()> {
        self.lost_messages += loss.messages;
        self.lost_bytes += loss.bytes;
        let words = self.page.words();
        words.lost_messages.store(self.lost_messages, Ordering::Relaxed);
        words.lost_bytes.store(self.lost_bytes, Ordering::Relaxed);
        self.announce();
        if self.is_expelled() && matches!(self.policy, Policy::DeadlineOrLeave(_)) {
            return Err(Error::Late);
        }
        self.lost = Some(loss);
        Ok(())
    }

    fn is_expelled(&self) -> bool {
        self.log.tail().expelled[self.slot].load(Ordering::Acquire) == self.generation
    }

    /// The reader has moved over what nobody receives, padding or messages that were lost: publishers may have its space all
    /// the same. A publisher may sleep until then that saw this receiver before another one stopped to wait for it.
    #[cold]
    fn announce(&mut self) {
        let (from, to) = (self.announced, self.reader.position());
        if from == to {
            return;
        }
        self.announced = to;
        if moved_on(self.log.tail(), self.page.words(), self.log.capacity_bytes(), from, to) {
            self.wake_publishers();
        }
    }

    /// Moves behind the message here, which goes to `end`, and lets publishers have its space.
    #[inline(always)]
    pub(crate) fn pass(&mut self, end: u64) {
        // From the last cursor, not from the frame's start: an eighth may have been crossed in the padding between.
        let from = std::mem::replace(&mut self.announced, end);
        self.reader.advance_to(end);
        self.received += 1;
        let words = self.page.words();
        words.received.store(self.received, Ordering::Relaxed);
        if moved_on(self.log.tail(), words, self.log.capacity_bytes(), from, end) {
            self.wake_publishers();
        }
    }

    #[cold]
    fn wake_publishers(&self) {
        let _ = futex::wake(self.page.cursor_futex(), u32::MAX);
    }

    /// Whether [`Subscriber::receive`] would have anything to say. Takes nothing.
    ///
    /// # Errors
    /// As [`Subscriber::receive`].
    #[inline(always)]
    pub fn is_ready(&mut self) -> Result<bool> {
        let ready = self.ready()?;
        if !ready {
            self.looked_in_vain();
        }
        Ok(ready)
    }

    /// The same, on the way to a wait.
    #[inline(always)]
    fn ready(&mut self) -> Result<bool> {
        if self.lost.is_none() {
            match self.reader.look() {
                Look::Frame => return Ok(true),
                Look::Empty if !self.nobody_publishes() => return Ok(false),
                Look::Empty | Look::Other => {}
            }
        }
        Ok(self.find_at_length()?.is_some() || self.lost.is_some())
    }

    /// Which receiver of the group this is.
    pub fn id(&self) -> u32 {
        self.slot as u32
    }

    /// Everything before this position was received or lost.
    pub fn position(&self) -> Position {
        Position(self.reader.position())
    }

    /// Messages lost since this receiver joined, in all.
    pub fn lost_messages(&self) -> u64 {
        self.lost_messages
    }
}
