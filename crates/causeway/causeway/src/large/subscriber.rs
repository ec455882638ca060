//! Receiving by reference.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::file::{ReusedFile, SealedPayload};
use super::payload::{Announced, LargeMessage, LargePayload};
use super::reference::{CORRELATION, Reference};
use crate::error::{Error, Refusal, Result};
use crate::log::Frame;
use crate::message::Received;
use crate::outcome::{RecvTimeoutError, TryRecvError, or_none};
use crate::request::Request;
use crate::subscriber::{Subscriber, Waited};
use crate::wire::{granted, take_fds};

/// Receives payloads by reference. [`Group::large_subscribe`](crate::Group::large_subscribe) makes one.
///
/// The first reference to a file asks the process that serves the group for it. When that process is gone, payloads in files that
/// this subscriber has received before still arrive, and others are reported as lost.
///
/// A subscriber can hold 16 payloads at a time. One that publishers do not wait for, or of another user than the server's, can hold a
/// quarter of the sealed files of a pool, and all such subscribers together half: what they cannot have is reported as lost.
#[derive(Debug)]
pub struct LargeSubscriber {
    subscriber: Subscriber,
    files: Files,
}

impl LargeSubscriber {
    pub(super) fn new(subscriber: Subscriber) -> LargeSubscriber {
        LargeSubscriber { subscriber, files: Files::default() }
    }

    /// The next message, or the loss before it. Does not wait, except for a file that it has to ask the server for.
    ///
    /// # Errors
    /// As [`Subscriber::try_recv`]. [`TryRecvError::Failed`] with [`Error::TooManyReferences`] when this subscriber holds too many
    /// payloads: drop one, and receive again. With [`Error::Invalid`] for a file that is not sealed as it should be, or for an
    /// invalid reference: its publisher violated the protocol, and that message is skipped. With [`Error::Os`] without memory or
    /// descriptors.
    pub fn try_recv(&mut self) -> Result<Received<LargeMessage>, TryRecvError> {
        self.files.try_recv(&mut self.subscriber)
    }

    /// The next message, or the loss before it. Waits for it, without a limit of time.
    ///
    /// # Errors
    /// [`Error::Disconnected`] when every message was received and none will come, and those of [`TryRecvError::Failed`] at
    /// [`LargeSubscriber::try_recv`].
    pub fn recv(&mut self) -> Result<Received<LargeMessage>> {
        loop {
            if let Some(received) = or_none(self.try_recv())? {
                return Ok(received);
            }
            let _ = self.subscriber.wait(None)?;
        }
    }

    /// As [`LargeSubscriber::recv`], but waits at most for `timeout`.
    ///
    /// # Errors
    /// [`RecvTimeoutError::Timeout`] when nothing came until then; otherwise as [`LargeSubscriber::try_recv`].
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<Received<LargeMessage>, RecvTimeoutError> {
        let deadline = Instant::now().checked_add(timeout);
        loop {
            if let Some(received) = or_none(self.try_recv())? {
                return Ok(received);
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if self.subscriber.wait(left)? == Waited::TimedOut {
                return Err(RecvTimeoutError::Timeout);
            }
        }
    }

    /// How many payloads were reported as lost although their references had been received: their files were gone or used again.
    pub fn lost_payloads(&self) -> u64 {
        self.files.lost
    }

    /// The subscriber of the references, for waits in event loops.
    pub fn get_mut(&mut self) -> &mut Subscriber {
        &mut self.subscriber
    }

    #[cfg(feature = "tokio")]
    pub(super) fn into_parts(self) -> (Subscriber, Files) {
        (self.subscriber, self.files)
    }
}

/// The files that are used again and that this subscriber has mapped.
#[derive(Debug, Default)]
pub struct Files {
    mapped: BTreeMap<u64, Mapped>,
    lost: u64,
}

#[derive(Debug)]
struct Mapped {
    file: Arc<ReusedFile>,
    publisher: u8,
}

/// Why a reference leads to no payload.
enum Miss {
    /// The file is gone, or used again.
    Gone,
    /// Too many payloads are held: by this subscriber, or by others together with it.
    Held,
    Failed(Error),
}

impl From<Error> for Miss {
    fn from(error: Error) -> Miss {
        match error {
            Error::ServerGone | Error::Refused(Refusal::PayloadGone) => Miss::Gone,
            Error::Refused(Refusal::PayloadsHeld) => Miss::Held,
            error => Miss::Failed(error),
        }
    }
}

impl Files {
    /// See [`LargeSubscriber::try_recv`].
    pub fn try_recv(&mut self, subscriber: &mut Subscriber) -> Result<Received<LargeMessage>, TryRecvError> {
        let Some(frame) = subscriber.copy_next()? else { return subscriber.no_message() };
        if frame.correlation != CORRELATION {
            let payload = LargePayload::copied(subscriber.copied(&frame));
            return Ok(message(subscriber, &frame, payload));
        }
        let Some(reference) = Reference::from_bytes(subscriber.copied(&frame)) else {
            subscriber.pass(&frame);
            return Err(Error::invalid("message", "it is not a reference to a payload").into());
        };
        let (page, log) = subscriber.page_and_log();
        // Before the cursor passes the message: from there on publishers look at the reference. PAIR payload-reference
        let Some(announced) = Announced::new(page, log, reference.file) else {
            return Err(Error::TooManyReferences.into());
        };
        let is_only = announced.is_only();
        match self.find(subscriber, reference, frame.publisher, announced) {
            Ok(payload) => Ok(message(subscriber, &frame, payload)),
            Err(Miss::Held) if !is_only => Err(Error::TooManyReferences.into()),
            Err(Miss::Gone | Miss::Held) => {
                self.lost += 1;
                Ok(Received::lost(subscriber.pass_as_lost(&frame)))
            }
            Err(Miss::Failed(error)) => {
                if matches!(error, Error::Invalid { .. }) {
                    subscriber.pass(&frame);
                }
                Err(error.into())
            }
        }
    }

    fn find(
        &mut self,
        subscriber: &Subscriber,
        reference: Reference,
        publisher: u8,
        announced: Announced,
    ) -> Result<LargePayload, Miss> {
        let too_short = || Error::invalid("payload descriptor", "it is shorter than its reference says");
        if reference.is_sealed() {
            let file = SealedPayload::open(&fetch(subscriber, reference)?)?;
            if file.len() as u64 != reference.payload_bytes {
                return Err(too_short().into());
            }
            return Ok(LargePayload::sealed(file, announced));
        }
        let file = match self.mapped.get(&reference.file) {
            Some(mapped) => Arc::clone(&mapped.file),
            None => self.map(subscriber, reference, publisher)?,
        };
        if !file.is_in_use(reference.use_number) {
            return Err(Miss::Gone);
        }
        match usize::try_from(reference.payload_bytes) {
            Ok(bytes) if bytes <= file.payload_bytes_max() => {
                Ok(LargePayload::reused(file, reference.use_number, bytes, announced))
            }
            _ => Err(too_short().into()),
        }
    }

    fn map(
        &mut self,
        subscriber: &Subscriber,
        reference: Reference,
        publisher: u8,
    ) -> Result<Arc<ReusedFile>, Miss> {
        // Those of publishers that have left are not needed any more, nor those of an earlier pool of the same publisher.
        let present = subscriber.present_publishers();
        let pool = reference.file >> 32;
        self.mapped.retain(|number, mapped| {
            let is_earlier = mapped.publisher == publisher && number >> 32 != pool;
            present & (1 << mapped.publisher) != 0 && !is_earlier
        });
        let file = Arc::new(ReusedFile::open(&fetch(subscriber, reference)?)?);
        self.mapped.insert(reference.file, Mapped { file: Arc::clone(&file), publisher });
        Ok(file)
    }
}

/// Passes the message of this frame, which has this payload.
fn message(subscriber: &mut Subscriber, frame: &Frame, payload: LargePayload) -> Received<LargeMessage> {
    subscriber.pass(frame);
    Received::Message(subscriber.message(frame).with(payload))
}

/// The descriptor of a file, from the server.
fn fetch(subscriber: &Subscriber, reference: Reference) -> Result<std::os::fd::OwnedFd> {
    let wanted @ [pool, index] = reference.pool_and_index();
    let (words, fds) =
        granted(subscriber.ask_server(Request::Payload { pool, index })?, "a request for a payload")?;
    if words[..2] != wanted {
        return Err(Error::invalid("answer", "another payload than that which was asked for"));
    }
    let [fd] = take_fds(fds)?;
    Ok(fd)
}
