//! How it ends for a subscriber: the group has ended, the server has removed it, or it has missed its deadline.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::event::epoll::EventFlags;

use super::Subscriber;
use crate::connection::hang_up;
use crate::error::{Error, Result};
use crate::log::{Memory, Peek};
use crate::options::Policy;
use crate::watch::{End, Watch};

/// After this many empty polls the library watches the sockets for the program.
const EMPTY_POLLS_PER_WATCH: u32 = 64;

impl Subscriber {
    /// Polling the log does not show that all other processes were killed. A program that polls and never waits gets the
    /// thread that watches the sockets.
    #[inline(always)]
    pub(super) fn count_empty_poll(&mut self) {
        self.empty_polls = self.empty_polls.wrapping_add(1);
        if self.empty_polls.is_multiple_of(EMPTY_POLLS_PER_WATCH) {
            self.poll_with_care();
        }
    }

    #[cold]
    fn poll_with_care(&mut self) {
        self.needs_care |= matches!(self.policy, Policy::DisconnectAfter(_)) && self.is_demoted();
        self.find_demotion();
        if self.watch.is_some() {
            return;
        }
        // Without descriptors or threads for it now, this is tried again after as many empty polls.
        let _ = self.start_watch();
    }

    /// Has a thread watch the ends of this subscriber.
    pub(super) fn start_watch(&mut self) -> Result<()> {
        let ends = [
            (&*self.socket, EventFlags::RDHUP, End::Server),
            (&self.lifeline, EventFlags::RDHUP, End::AllPeers),
        ];
        self.watch = Some(Watch::start(&ends, self.wake_word.clone(), Arc::clone(&self.page))?);
        Ok(())
    }

    /// There is no message: fails if none will come.
    pub(super) fn check_end(&mut self) -> Result<()> {
        if !self.has_ended() {
            return Ok(());
        }
        // The last publisher may have published and left after the peek and before the status was read.
        match self.reader.peek()? {
            Peek::Empty(_) => Err(Error::Disconnected),
            Peek::Lost(loss) => self.note_loss(loss),
            Peek::Frame(_) | Peek::Sealed => Ok(()),
        }
    }

    /// Whether no further message will be published.
    #[inline(always)]
    pub(super) fn has_ended(&self) -> bool {
        self.status.words().phase.load(Ordering::Acquire) == 2
            || ((self.lifeline_closed || self.server_is_gone()) && self.no_publisher_is_left())
    }

    /// Whether no publisher is left, where some process is known to be gone.
    #[cold]
    fn no_publisher_is_left(&self) -> bool {
        self.all_peers_gone()
            || (self.server_is_gone() && (self.status.words().remote_publishers() == 0 || self.is_removed()))
    }

    /// Whether the server has removed this subscriber. A server that died leaves the list as it was.
    fn is_removed(&self) -> bool {
        self.status.words().subscribers[self.slot].load(Ordering::Acquire) != self.generation
    }

    fn all_peers_gone(&self) -> bool {
        self.lifeline_closed || self.watch.as_ref().is_some_and(|watch| watch.watched().all_peers_gone())
    }

    #[inline(always)]
    pub(super) fn server_is_gone(&self) -> bool {
        self.doorbell_closed || self.watch.as_ref().is_some_and(|watch| watch.watched().server_is_gone())
    }

    /// Publishers do not wait for a subscriber that the server has removed, and it must not go on as if they did. Checked once
    /// in each eighth of the ring, and when there is no message.
    #[cold]
    pub(super) fn check_membership(&mut self) {
        if self.is_removed() {
            (self.removed, self.needs_care) = (true, true);
        }
        self.find_demotion();
    }

    /// Fails if this subscriber missed the deadline after which its policy disconnects it.
    pub(super) fn check_deadline(&mut self) -> Result<()> {
        match self.disconnected {
            None if matches!(self.policy, Policy::DisconnectAfter(_)) && self.is_demoted() => {
                self.disconnect()
            }
            None => Ok(()),
            Some(lost_messages) => Err(Error::MissedDeadline { lost_messages }),
        }
    }

    /// Leaves the group. What was not received counts as lost, the loss that was found already too.
    #[cold]
    fn disconnect(&mut self) -> Result<()> {
        let found = self.take_loss().map_or(0, |loss| loss.messages);
        let (position, mut unread) = (self.reader.position(), 0);
        loop {
            let before = self.reader.messages_before();
            // A log that is corrupt has no end; then what was counted so far is what is known.
            let is_at_end = self.reader.skip_to_end().is_ok();
            unread += self.reader.messages_before().wrapping_sub(before);
            match self.reader.peek() {
                Ok(Peek::Sealed) if is_at_end => {}
                _ => break,
            }
            let Ok(between) = self.begin_next_log() else { break };
            unread += between.messages;
        }
        self.lost_messages += unread;
        self.lost_bytes += self.reader.position() - position;
        self.page.words().lost_messages.store(self.lost_messages, Ordering::Relaxed);
        self.publish_cursor();
        (self.disconnected, self.needs_care) = (Some(found + unread), true);
        hang_up(&self.socket);
        Err(Error::MissedDeadline { lost_messages: found + unread })
    }

    pub(super) fn is_demoted(&self) -> bool {
        self.log.tail().demoted[self.slot].load(Ordering::Acquire) == self.generation
    }
}
