//! A message that the bus has accepted: valid, with its sender filled in, shared by all that get it.

use std::cell::{OnceCell, RefCell};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::{LazyLock, mpsc};
use std::time::Instant;

use causeway_bus::Bytes;
use causeway_dbus_wire::wire::{Arg, Args, Header};

use crate::descriptors::Descriptors;
use crate::pool::start;

/// Messages with more bytes are long: nothing in proportion to their bytes is done at once.
pub const LONG_BYTES: usize = 1 << 20;
/// Messages that wait to be given back. The next is given back at once.
const GIVEN_BACK_MAX: usize = 256;

/// Bytes of one valid message, and the descriptors that travel with it.
#[derive(Debug)]
pub struct Message {
    bytes: Bytes,
    /// The file in which the bytes lie, until it is known that no native member gets it.
    pub file: RefCell<Option<OwnedFd>>,
    /// As many as the header says.
    pub descriptors: Descriptors,
}

impl Message {
    /// A message whose header and body were checked.
    pub fn new(bytes: impl Into<Bytes>, descriptors: Descriptors) -> Message {
        Message { bytes: bytes.into(), file: RefCell::default(), descriptors }
    }

    /// A long one, which lies in a sealed file.
    pub fn in_file(bytes: Bytes, file: OwnedFd, descriptors: Descriptors) -> Message {
        Message { bytes, file: RefCell::new(Some(file)), descriptors }
    }

    pub fn header(&self) -> Header<'_> {
        Header::parse(&self.bytes).expect("only valid messages are accepted")
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        if self.bytes.len() > LONG_BYTES {
            // The mapping goes last, and the memory with it.
            self.file.take();
            give_back(std::mem::replace(&mut self.bytes, Vec::new().into()));
        }
    }
}

/// Gives the memory of a long message back in another thread: for 128 MiB that takes the kernel milliseconds.
fn give_back(bytes: Bytes) {
    static GIVEN_BACK: LazyLock<mpsc::SyncSender<Bytes>> = LazyLock::new(|| {
        let (sender, receiver) = mpsc::sync_channel(GIVEN_BACK_MAX);
        // Where there is no thread, sending fails.
        let _ = start::<{ 64 << 10 }>("giver-back", Box::new(move || receiver.iter().for_each(drop)));
        sender
    });
    drop(GIVEN_BACK.try_send(bytes));
}

/// Messages that wait for a client, each with the time since when it does.
pub type Output = VecDeque<(Rc<Message>, Instant)>;

/// The arguments of a message, read when they are asked for and not before.
#[derive(Debug)]
pub struct LazyArgs<'a> {
    header: &'a Header<'a>,
    body: &'a [u8],
    read: OnceCell<Vec<Arg<'a>>>,
}

impl<'a> LazyArgs<'a> {
    /// Those of a message with this header, whose own may have another sender.
    pub fn new(header: &'a Header<'a>, bytes: &'a [u8]) -> LazyArgs<'a> {
        LazyArgs { header, body: &bytes[bytes.len() - header.body_bytes..], read: OnceCell::new() }
    }

    pub fn get(&self) -> &[Arg<'a>] {
        self.read.get_or_init(|| Args::for_rules(self.header, self.body).collect())
    }
}
