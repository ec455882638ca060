//! Ends of a fan-out that note when messages begin, are written, are waited for and are read.

use super::message;
use super::multicast::{MulticastReceiver, MulticastSender};
use crate::prelude::*;
use weighbridge_harness::marks::Numbered;

/// A sender that notes what it does.
pub(super) struct Sender<'a, E> {
    pub(super) end: E,
    pub(super) marks: Numbered<'a>,
}

impl<E: MulticastSender> MulticastSender for Sender<'_, E> {
    #[inline]
    fn send(&mut self, write: impl FnOnce(&mut [u8])) -> io::Result<()> {
        self.marks.write_begins();
        self.end.send(write)?;
        self.marks.written();
        Ok(())
    }

    fn facts(&self) -> Facts {
        self.end.facts()
    }
}

/// A receiver that notes what it does.
pub(super) struct Receiver<'a, E> {
    pub(super) end: E,
    pub(super) marks: Numbered<'a>,
    /// Is the number of a message the one that it carries, because others may be lost?
    pub(super) is_lossy: bool,
}

impl<E: MulticastReceiver> MulticastReceiver for Receiver<'_, E> {
    #[inline]
    fn take(&mut self) -> io::Result<Option<&[u8]>> {
        self.marks.wait_begins();
        let message = self.end.take()?;
        match message {
            Some(message) if self.is_lossy => self.marks.read_as(message::sequence(message)),
            Some(_) => self.marks.read(),
            None => {}
        }
        Ok(message)
    }

    fn facts(&self) -> Facts {
        self.end.facts()
    }
}
