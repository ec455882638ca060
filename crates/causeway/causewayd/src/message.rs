//! A message that the bus has accepted: valid, with its sender filled in, shared by all that get it.

use std::cell::OnceCell;

use causeway_bus::Bytes;
use causeway_dbus_wire::wire::{Arg, Args, Header};

use crate::descriptors::Descriptors;

/// Bytes of one valid message, and the descriptors that travel with it.
#[derive(Debug)]
pub struct Message {
    bytes: Bytes,
    /// As many as the header says.
    pub descriptors: Descriptors,
}

impl Message {
    /// A message whose header and body were checked.
    pub fn new(bytes: impl Into<Bytes>, descriptors: Descriptors) -> Message {
        Message { bytes: bytes.into(), descriptors }
    }

    pub fn header(&self) -> Header<'_> {
        Header::parse(&self.bytes).expect("only valid messages are accepted")
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// The arguments of a message, read when they are asked for and not before.
#[derive(Debug)]
pub struct LazyArgs<'a> {
    header: &'a Header<'a>,
    body: &'a [u8],
    read: OnceCell<Vec<Arg<'a>>>,
}

impl<'a> LazyArgs<'a> {
    pub fn new(header: &'a Header<'a>, bytes: &'a [u8]) -> LazyArgs<'a> {
        LazyArgs { header, body: &bytes[header.header_bytes..], read: OnceCell::new() }
    }

    pub fn get(&self) -> &[Arg<'a>] {
        self.read.get_or_init(|| Args::for_rules(self.header, self.body).collect())
    }
}
