//! The receivers of a group, as one publisher knows them: whom it must not overwrite, and whom to wake.
//!
//! The server announces every receiver on the publisher's socket and then changes a number in the status page. A
//! publisher looks at that number after each commit and around each freeing of space, and reads its socket only when
//! the number has changed.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use causeway_os::futex;
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::log::Gate;
use crate::log::layout::{RECEIVERS_MAX, Tail};
use crate::log::pages::{ReceiverPage, StatusPage};
use crate::log::sleep::{Sleepy, wake_sleepers};
use crate::member::Member;
use crate::options::Policy;
use crate::wire::{ANSWER_TIME, FDS_MAX, Incoming, Message, Op, answer, receive};

/// While the server is alive it wakes publishers when a receiver dies. This bounds the wait if both die at once.
const SLICE: Duration = Duration::from_millis(100);
/// Without a server a publisher looks for itself whether the receiver that it waits for still lives.
const SLICE_ALONE: Duration = Duration::from_millis(5);

/// A publisher that tries again so many times, without waiting, looks once whether the server still lives: one system
/// call.
const TRIES: u32 = 16;

/// The receivers of a group.
#[derive(Debug)]
pub struct Audience {
    socket: OwnedFd,
    status: StatusPage,
    members: Vec<Member>,
    /// The number in the status page that `members` corresponds to.
    known: u64,
    server_gone: bool,
    /// A receiver joined and this publisher could not take it in.
    deaf: Option<Errno>,
    /// Since when the publisher has been held up, if it is.
    held_since: Option<Instant>,
    /// How often the log was found full; modulo 2³².
    fulls: u32,
}

impl Audience {
    /// The audience that is announced on `socket`, which will no longer block. `present` receivers are there already;
    /// a publisher that began without knowing them all could overwrite what they have not read.
    pub fn new(socket: OwnedFd, status: StatusPage, present: u32) -> Result<Audience> {
        let mut members = Vec::new();
        for _ in 0..present.min(RECEIVERS_MAX as u32) {
            match answer(&socket, Some(ANSWER_TIME))? {
                (message, fds) if message.op == Op::Joined => members.push(admit(message, fds)?),
                (message, _) => {
                    return Err(Error::invalid("notice", format!("{:?} to a publisher", message.op)));
                }
            }
        }
        rustix::io::ioctl_fionbio(&socket, true)
            .map_err(|error| Error::os("prepare", "a group's socket", error))?;
        Ok(Audience {
            socket,
            status,
            members,
            known: 0,
            server_gone: false,
            deaf: None,
            held_since: None,
            fulls: 0,
        })
    }

    /// Whether the process that serves the group is gone, as far as this publisher has noticed.
    pub fn server_is_gone(&mut self) -> bool {
        if !self.server_gone {
            self.refresh();
        }
        self.server_gone
    }

    /// Looks whether somebody joined or left. One load if nobody did.
    #[inline(always)]
    pub fn look(&mut self) {
        if self.status.words().members.load(Ordering::Acquire) != self.known {
            self.refresh(); // PAIR members
        }
    }

    #[cold]
    fn refresh(&mut self) {
        let known = self.status.words().members.load(Ordering::SeqCst);
        self.take_notices();
        let alive = &self.status.words().receivers;
        self.members.retain(|member| alive[member.slot].load(Ordering::Acquire) == member.generation);
        self.known = known;
    }

    fn take_notices(&mut self) {
        loop {
            match receive(&self.socket, FDS_MAX) {
                Ok(Incoming::Message(message, fds)) if message.op == Op::Joined => {
                    match admit(message, fds) {
                        Ok(member) => {
                            self.members.retain(|other| other.slot != member.slot);
                            self.members.push(member);
                        }
                        Err(error) => self.deaf = Some(errno_of(&error)),
                    }
                }
                Ok(Incoming::Message(..) | Incoming::Nonsense) => {}
                Ok(Incoming::Nothing) => return,
                Ok(Incoming::End) => {
                    self.server_gone = true;
                    return;
                }
                Err(error) => {
                    self.deaf = Some(errno_of(&error));
                    return;
                }
            }
        }
    }

    /// Wakes whoever sleeps, after a commit. No system call if nobody does.
    #[inline(always)]
    pub fn wake(&mut self, tail: &Tail) {
        self.look();
        let somebody = wake_sleepers(tail, &mut self.members, || {
            let _ = futex::wake(&tail.wake_seq, u32::MAX);
        });
        if somebody {
            tail.last_cpu.store(causeway_os::sched::current_cpu() + 1, Ordering::Relaxed);
        }
    }

    /// Fails if a receiver joined that this publisher could not take in, for want of descriptors or memory. It could
    /// overwrite what that receiver has not read, and would not wake it. So it leaves the group: the server then wakes
    /// everybody. To be called without a claim or a lock.
    #[inline(always)]
    pub fn check_complete(&self) -> Result<()> {
        match self.deaf {
            None => Ok(()),
            Some(errno) => Err(self.leave(errno)),
        }
    }

    #[cold]
    fn leave(&self, errno: Errno) -> Error {
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
        Error::os(
            "take in",
            "a new receiver, for which this publisher has left the group (make a new publisher)",
            errno,
        )
    }

    /// Space was found: nobody holds this publisher up.
    #[inline(always)]
    pub fn not_held_up(&mut self) {
        self.held_since = None;
    }

    /// The receiver furthest behind among those that hold space, and its cursor.
    fn slowest(&mut self, tail: &Tail) -> Option<(usize, u64)> {
        (0..self.members.len())
            .filter_map(|index| self.members[index].holds_space_from(tail).map(|cursor| (index, cursor)))
            .min_by_key(|(_, cursor)| *cursor)
    }

    /// The log is full. If the receiver in the way has used up its deadline, publishers stop waiting for it; returns
    /// whether that is so. To be called each time the log is found full.
    pub fn expel_if_late(&mut self, tail: &Tail) -> bool {
        let since = *self.held_since.get_or_insert_with(Instant::now);
        let Some((index, _)) = self.slowest(tail) else { return false };
        let member = &self.members[index];
        if member.policy.patience().is_some_and(|patience| since.elapsed() >= patience) {
            tail.expelled[member.slot].store(member.generation, Ordering::Release);
            return true;
        }
        false
    }

    /// The log is full. Without a server, a publisher that only tries again, and never waits, sees for itself now and then
    /// whether a receiver is in the way that has died; returns whether that was so.
    pub fn drop_dead_in_the_way(&mut self) -> bool {
        self.fulls = self.fulls.wrapping_add(1);
        if !self.fulls.is_multiple_of(TRIES) || !self.server_is_gone() {
            return false;
        }
        let before = self.members.len();
        self.drop_the_dead();
        self.members.len() != before
    }

    /// Sleeps until the slowest receiver moves on, dies, or has used up its deadline, or until `deadline`. The
    /// publisher has said that it waits for space and has looked again since.
    pub fn sleep_until_space(&mut self, seen: Option<(usize, u64)>, deadline: Option<Instant>) -> Result<()> {
        let mut slice = if self.server_is_gone() { SLICE_ALONE } else { SLICE };
        let member = seen.and_then(|(slot, _)| self.members.iter().find(|member| member.slot == slot));
        let (Some(member), Some((_, cursor))) = (member, seen) else {
            // Another publisher's unfinished frame is in the way, whose end is not announced to anybody; or the receiver
            // left just now.
            std::thread::sleep(Duration::from_micros(50));
            return Ok(());
        };
        let now = Instant::now();
        if let (Some(patience), Some(since)) = (member.policy.patience(), self.held_since) {
            slice = slice.min((since + patience).saturating_duration_since(now));
        }
        if let Some(deadline) = deadline {
            slice = slice.min(deadline.saturating_duration_since(now));
        }
        // The page's own value and the highest one seen differ only if the receiver lies; then the slice ends this.
        let _ = member
            .page
            .cursor_to_wait_for()
            .wait(cursor as u32, Some(slice))
            .map_err(|error| Error::os("wait for", "space in a log", error))?;
        if self.server_gone {
            self.drop_the_dead();
        }
        Ok(())
    }

    /// The receiver to sleep on; see [`Audience::sleep_until_space`].
    pub fn whom_to_wait_for(&mut self, tail: &Tail) -> Option<(usize, u64)> {
        self.look();
        self.slowest(tail).map(|(index, cursor)| (self.members[index].slot, cursor))
    }

    /// The page of the receiver in `slot`.
    #[cfg(feature = "tokio")]
    pub fn page_of(&self, slot: usize) -> Option<Arc<ReceiverPage>> {
        self.members.iter().find(|member| member.slot == slot).map(|member| Arc::clone(&member.page))
    }

    /// Without a server: receivers whose end of the doorbell is closed are gone.
    fn drop_the_dead(&mut self) {
        use rustix::event::{PollFd, PollFlags};
        self.members.retain(|member| {
            let mut bell = [PollFd::new(&member.bell, PollFlags::empty())];
            let polled = rustix::event::poll(&mut bell, Some(&rustix::time::Timespec::default()));
            !(polled.is_ok() && bell[0].revents().intersects(PollFlags::HUP | PollFlags::ERR))
        });
    }

    /// The gate for freeing space.
    #[inline(always)]
    pub fn gate<'a>(&'a mut self, tail: &'a Tail) -> AudienceGate<'a> {
        AudienceGate { audience: self, tail }
    }
}

impl Member {
    /// Its cursor, never lower than before, if publishers wait for it.
    fn holds_space_from(&mut self, tail: &Tail) -> Option<u64> {
        let expelled = tail.expelled[self.slot].load(Ordering::Acquire) == self.generation;
        if !self.policy.holds_space() || expelled {
            return None;
        }
        self.seen = self.seen.max(self.words().cursor.load(Ordering::Acquire)); // PAIR cursor
        Some(self.seen)
    }
}

/// The receivers as [`Gate`].
#[derive(Debug)]
pub struct AudienceGate<'a> {
    audience: &'a mut Audience,
    tail: &'a Tail,
}

impl Gate for AudienceGate<'_> {
    fn members(&mut self) -> u64 {
        self.audience.look();
        self.audience.known
    }

    fn lowest(&mut self) -> u64 {
        if self.audience.deaf.is_some() {
            return 0;
        }
        self.audience.slowest(self.tail).map_or(u64::MAX, |(_, cursor)| cursor)
    }
}

/// The number of an error of the kernel; that of nonsense for others.
fn errno_of(error: &Error) -> Errno {
    match error {
        Error::Os(error) => error.raw_os_error().map_or(Errno::INVAL, Errno::from_raw_os_error),
        _ => Errno::INVAL,
    }
}

/// The member that a notice describes.
fn admit(message: Message, fds: Vec<OwnedFd>) -> Result<Member> {
    let [page, bell] = crate::wire::take_fds(fds)?;
    let [slot, generation, kind, deadline, ..] = message.words;
    let policy =
        Policy::from_words([kind, deadline]).ok_or_else(|| Error::invalid("notice", "unknown policy"))?;
    if slot as usize >= RECEIVERS_MAX {
        return Err(Error::invalid("notice", format!("slot {slot}")));
    }
    let page = Arc::new(ReceiverPage::open(&page)?);
    Ok(Member { slot: slot as usize, generation, policy, page, bell, seen: 0, rung: 0 })
}
