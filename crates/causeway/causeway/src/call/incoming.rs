//! The reading end of one direction of a connection, and how it waits.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use causeway_os::process::poll;
use causeway_os::{clock, futex};
use causeway_waiting::polling::{Pollable, Polling};
use rustix::event::epoll::EventFlags;
use rustix::net::RecvFlags;

use crate::connection::has_ended;
use crate::error::{Error, Result};
use crate::log::mapped::MappedLog;
use crate::log::pages::SubscriberPage;
use crate::log::wait::{WaitTarget, Waiter, advance_cursor};
use crate::log::wake_word::WakeWord;
use crate::log::{Frame, Memory, Peek, Reader};
use crate::spin::{self, Spin};
use crate::watch::{End, Watch};

/// Reads of a doorbell in a row: what a hostile process leaves in it makes one wait end early.
const DRAIN_READS_MAX: usize = 64;

/// Reads the messages that one other process writes, and waits for them. Knows when that process is gone.
#[derive(Debug)]
pub struct Incoming {
    log: Arc<MappedLog>,
    reader: Reader<Arc<MappedLog>>,
    page: Arc<SubscriberPage>,
    /// Where it sleeps if the other end is a process of the same user.
    wake_word: WakeWord,
    published_cursor: u64,
    buffer: Vec<u8>,
    /// The other process has overwritten what it must keep.
    is_damaged: bool,
    waiter: Waiter,
    spin: Spin,
    peer: Peer,
    watch: Option<Watch>,
}

#[derive(Debug)]
pub struct Peer {
    /// The connection. Its end shows that the process has left.
    pub socket: Arc<OwnedFd>,
    /// The process, if it is known. A forked child may keep its end of the connection.
    pub pidfd: Option<Arc<OwnedFd>>,
    /// Made readable by the other process when this one waits for it.
    pub doorbell: OwnedFd,
    /// Whether it is a process of the same user. Another one could move a sleeping thread from its futex.
    pub is_same_user: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum WaitOutcome {
    /// There may be a message.
    Ready,
    TimedOut,
    /// There is no message, and the other process is gone.
    Gone,
}

impl Incoming {
    pub fn new(
        log: Arc<MappedLog>,
        page: SubscriberPage,
        wake_word: WakeWord,
        peer: Peer,
    ) -> Result<Incoming> {
        let reader = Reader::join(Arc::clone(&log))?;
        Ok(Incoming {
            published_cursor: reader.position(),
            reader,
            log,
            page: Arc::new(page),
            wake_word,
            buffer: Vec::new(),
            is_damaged: false,
            waiter: Waiter::new(),
            spin: Spin::default(),
            peer,
            watch: None,
        })
    }

    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// How long to poll before sleeping, at most.
    pub fn spin_at_most(&mut self, longest: Duration) {
        self.spin = Spin::up_to(longest);
    }

    /// The next message, its payload copied into the buffer. `None` if there is none.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the other process overwrote what it must keep, or wrote an invalid message.
    #[inline]
    pub fn try_take(&mut self) -> Result<Option<Frame>> {
        let frame = match self.reader.peek()? {
            Peek::Frame(frame) if !self.is_damaged => frame,
            Peek::Empty(_) if !self.is_damaged => return Ok(None),
            // A writer waits for its one reader.
            Peek::Frame(_) | Peek::Empty(_) | Peek::Lost(_) => return Err(self.corrupt()),
            Peek::Sealed => return Err(Error::Disconnected),
        };
        let length = frame.payload_bytes as usize;
        if self.buffer.len() < length {
            let more = length - self.buffer.len();
            self.buffer.try_reserve(more).map_err(|_| {
                Error::os("allocate", format!("a buffer of {length} bytes"), rustix::io::Errno::NOMEM)
            })?;
            self.buffer.resize(length, 0);
        }
        if !self.reader.copy(&frame, &mut self.buffer[..length]) {
            return Err(self.corrupt());
        }
        self.reader.advance_to(frame.end);
        let from = std::mem::replace(&mut self.published_cursor, frame.end);
        let step = (from, frame.end);
        if advance_cursor(self.log.tail(), self.page.words(), self.log.capacity_bytes(), step, || {}) {
            let _ = futex::wake(self.page.cursor_futex(), u32::MAX);
        }
        Ok(Some(frame))
    }

    #[cold]
    fn corrupt(&self) -> Error {
        Error::Corrupt { position: self.reader.position() }
    }

    /// The payload of the message that was taken last, which has this length.
    #[inline]
    pub fn payload(&self, frame: &Frame) -> &[u8] {
        &self.buffer[..frame.payload_bytes as usize]
    }

    /// Replaces the buffer by another one, and returns what is in that.
    pub fn replace_buffer(&mut self, with: Vec<u8>) -> &[u8] {
        self.buffer = with;
        &self.buffer
    }

    pub fn payload_bytes_max(&self) -> usize {
        (self.log.capacity_bytes() / 4) as usize
    }

    /// Whether [`Incoming::try_take`] returns a message or fails.
    #[inline]
    fn is_ready(&mut self) -> bool {
        match self.reader.is_ready() {
            Some(ready) => ready || self.is_damaged,
            None => self.is_ready_slow(),
        }
    }

    #[cold]
    fn is_ready_slow(&mut self) -> bool {
        match self.reader.peek() {
            Ok(Peek::Empty(_)) => self.is_damaged,
            // The reader has moved on: what it tells now, it does not tell again.
            Ok(Peek::Lost(_)) => {
                self.is_damaged = true;
                true
            }
            Ok(Peek::Frame(_) | Peek::Sealed) | Err(_) => true,
        }
    }

    /// Waits for a message, at most until `deadline`.
    pub fn wait(&mut self, deadline: Option<Instant>) -> Result<WaitOutcome> {
        if self.is_ready() {
            return Ok(WaitOutcome::Ready);
        }
        if !self.spin.look_where(self.log.tail().last_cpu.load(Ordering::Relaxed)) {
            return self.sleep_until(deadline);
        }
        let start_ns = clock::monotonic_ns();
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let left_ns = left.map_or(u64::MAX, |left| u64::try_from(left.as_nanos()).unwrap_or(u64::MAX));
        if spin::poll(self, start_ns, start_ns.saturating_add(left_ns))? {
            return Ok(WaitOutcome::Ready);
        }
        let waited = self.sleep_until(deadline);
        spin::slept(self, start_ns);
        waited
    }

    fn sleep_until(&mut self, deadline: Option<Instant>) -> Result<WaitOutcome> {
        let target = if self.peer.is_same_user { WaitTarget::SharedFutex } else { WaitTarget::Doorbell };
        if target == WaitTarget::SharedFutex && self.watch.is_none() {
            let mut ends = vec![(&self.peer.socket, EventFlags::RDHUP, End::AllPeers)];
            // A forked child may keep the socket open.
            ends.extend(self.peer.pidfd.iter().map(|pidfd| (pidfd, EventFlags::IN, End::AllPeers)));
            self.watch = Some(Watch::start(&ends, self.wake_word.clone(), Arc::clone(&self.page))?);
        }
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            self.watch.iter().for_each(|watch| watch.watched().ends().announce(0));
            let armed = self.waiter.arm(&self.wake_word, self.page.words(), target);
            // After arming, and the log after that: what the process wrote before it died is received.
            let is_gone = self.is_gone();
            let is_ready = self.is_ready();
            let is_late = left.is_some_and(|left| left.is_zero());
            let slept = match &self.watch {
                watch if is_ready || is_gone || is_late => {
                    watch.iter().for_each(|watch| watch.watched().ends().awake());
                    Ok(())
                }
                Some(watch) => watch
                    .watched()
                    .sleep(0, || futex::wait(&self.wake_word, armed.wake_seq, left))
                    .map_err(|error| Error::os("wait for", "a message", error)),
                None => self.sleep_on_descriptors(left),
            };
            self.waiter.disarm(self.page.words());
            slept?;
            if is_ready || self.is_ready() {
                return Ok(WaitOutcome::Ready);
            }
            if is_gone {
                return Ok(WaitOutcome::Gone);
            }
            if is_late {
                return Ok(WaitOutcome::TimedOut);
            }
        }
    }

    /// Whether the other process is gone or has left, as far as this costs no system call where a thread watches it.
    fn is_gone(&self) -> bool {
        match &self.watch {
            Some(watch) => watch.watched().all_peers_gone(),
            None => self.ask_whether_gone(),
        }
    }

    pub fn ask_whether_gone(&self) -> bool {
        has_ended(&*self.peer.socket, self.peer.pidfd.as_ref())
    }

    /// A stranger could leave a thread asleep on a futex for ever. It has no way to do so on descriptors.
    fn sleep_on_descriptors(&self, left: Option<Duration>) -> Result<()> {
        use rustix::event::{PollFd, PollFlags, poll};
        let left = left.and_then(|left| rustix::time::Timespec::try_from(left).ok());
        let mut ends = vec![
            PollFd::new(&self.peer.doorbell, PollFlags::IN),
            PollFd::new(&*self.peer.socket, PollFlags::RDHUP),
        ];
        ends.extend(self.peer.pidfd.iter().map(|pidfd| PollFd::new(&**pidfd, PollFlags::IN)));
        match poll(&mut ends, left.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::os("wait for", "a message", error)),
        }
        self.drain_doorbell();
        Ok(())
    }

    fn drain_doorbell(&self) {
        let mut notifications = [0; 64];
        for _ in 0..DRAIN_READS_MAX {
            match rustix::net::recv(&self.peer.doorbell, &mut notifications[..], RecvFlags::DONTWAIT) {
                Ok((_, length)) if length == notifications.len() => {}
                _ => return,
            }
        }
    }

    /// Prepares a wait in an event loop. After `true` the next message makes the peer's doorbell readable; after
    /// `false` there may be a message already.
    #[cfg(feature = "tokio")]
    pub fn arm(&mut self) -> bool {
        self.drain_doorbell();
        let _ = self.waiter.arm(&self.wake_word, self.page.words(), WaitTarget::Doorbell);
        if self.is_ready() {
            self.waiter.disarm(self.page.words());
            return false;
        }
        true
    }

    /// Whether the connection has something to be read at this moment.
    pub fn socket_is_readable(&self) -> Result<bool> {
        Ok(poll(&[self.peer.socket.as_fd()], Some(Duration::ZERO))?[0])
    }
}

impl Pollable for Incoming {
    type Error = Error;

    #[inline(always)]
    fn polling(&mut self) -> &mut Polling {
        self.spin.polling()
    }

    #[inline(always)]
    fn is_over(&mut self) -> Result<bool> {
        Ok(self.is_ready())
    }
}
