//! How a subscriber goes on in the next log of its group, after the last message of its own.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use causeway_os::memory::Access;

use super::Subscriber;
use crate::error::{Error, Refusal, Result};
use crate::log::mapped::MappedLog;
use crate::log::{Loss, Reader};
use crate::request::Request;
use crate::wire::{Message, answer, ask, from_halves, granted, take_fds};

/// Answers that a server may have left unread; it has no space for more.
const LATE_ANSWERS_MAX: usize = 16;

impl Subscriber {
    /// Whether the group goes on in another log than the one that is read. Then the next receive, and [`Subscriber::arm`], may ask the
    /// server for that one, and wait until it answers. That is so at this moment: the group may go on before the next call.
    pub fn has_next_log(&self) -> bool {
        self.status.words().epoch.load(Ordering::Acquire) != self.log.epoch() // PAIR epoch
    }

    /// Asks the server for something that comes with descriptors. Answers that came too late for earlier requests are thrown away.
    pub(crate) fn ask_server(&self, request: Request) -> Result<(Message, Vec<std::os::fd::OwnedFd>)> {
        for _ in 0..LATE_ANSWERS_MAX {
            if matches!(answer(&self.socket, Some(Duration::ZERO)), Err(Error::NoAnswer | Error::ServerGone))
            {
                break;
            }
        }
        ask(&self.socket, request)
    }

    /// Goes on in the next log. Returns what lay in logs between that were not kept for this subscriber, because publishers do not
    /// wait for it.
    ///
    /// # Errors
    /// [`Error::Disconnected`] if no log follows: the group was closed. [`Error::ServerGone`] if the server is gone, which has the next log.
    #[cold]
    pub(super) fn begin_next_log(&mut self) -> Result<Loss> {
        let own = self.log.epoch();
        if !self.has_next_log() {
            return Err(Error::Disconnected);
        }
        let answered = match self.ask_server(Request::Follow { epoch: own }) {
            Err(Error::Refused(Refusal::Ended)) => return Err(Error::Disconnected),
            answered => answered?,
        };
        let (words, fds) = granted(answered, "a request for the next log")?;
        let [epoch, messages] = [0, 2].map(|at: usize| from_halves([words[at], words[at + 1]]));
        let [log] = take_fds(fds)?;
        let log = Arc::new(MappedLog::open(&log, Access::ReadOnly, self.own)?);
        let (position, counted) =
            log.start().ok_or_else(|| Error::invalid("log header", "it has not begun"))?;
        let here = self.reader.position();
        let is_next = log.epoch() == epoch && epoch > own && position >= here;
        if !is_next || (epoch == own + 1 && position != here) {
            return Err(Error::invalid("answer", "a log that does not follow the one before it"));
        }
        self.reader = Reader::begin(Arc::clone(&log), position, counted);
        self.wake_word.continue_in(Arc::clone(&log));
        if let Some(kept) = &mut self.kept {
            kept.end_log(Arc::clone(&self.log), here);
        }
        self.log = log;
        // It holds the word of the old log.
        self.watch = None;
        Ok(Loss { messages, bytes: position - here })
    }

    /// As [`Subscriber::begin_next_log`], in the course of receiving.
    #[cold]
    pub(super) fn follow(&mut self) -> Result<()> {
        let loss = self.begin_next_log()?;
        if loss.messages != 0 {
            self.note_loss(loss)?;
        }
        Ok(())
    }
}
