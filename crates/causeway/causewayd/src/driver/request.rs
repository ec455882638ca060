//! A call of the driver, and what a method answers.

use causeway_dbus_wire::wire::{Arg, Body, Builder, FLAG_NO_REPLY_EXPECTED, Leaf, walk};

use crate::bus::{Bus, RoutedMessage};
use crate::error;
use crate::member::MemberId;

/// A call of the driver, whose arguments have the types of the method.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    pub from: MemberId,
    pub routed: RoutedMessage<'a>,
}

/// Why a call fails: the name of the error and a sentence.
pub struct Refusal(pub &'static str, pub String);

/// The arguments of a reply; `None` if it was sent already or comes later.
pub type Answer = Result<Option<Body>, Refusal>;

pub fn refused<T>(name: &'static str, why: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal(name, why.into()))
}

/// The error for a name that nobody has.
pub fn no_owner<T>(name: &str) -> Result<T, Refusal> {
    refused(error::NAME_HAS_NO_OWNER, format!("the name {name} has no owner"))
}

/// Answers a call, if its caller waits for that.
pub fn reply(bus: &mut Bus, request: Request<'_>, body: Body) {
    if request.expects_reply() {
        bus.send(request.from, Builder::reply(request.routed.header.serial).body(body));
    }
}

impl<'a> Request<'a> {
    /// Does its caller wait for an answer?
    pub fn expects_reply(&self) -> bool {
        self.routed.header.flags & FLAG_NO_REPLY_EXPECTED == 0
    }

    /// The argument at this index, which is a string.
    pub fn text(&self, index: usize) -> &'a str {
        match self.routed.args.get().get(index) {
            Some(Arg::Text(text)) => text,
            other => unreachable!("the signature was compared, and here is {other:?}"),
        }
    }

    /// The argument at this index, which is a `u`.
    pub fn number(&self, index: usize) -> u32 {
        match self.routed.args.get().get(index) {
            Some(Arg::U32(number)) => *number,
            other => unreachable!("the signature was compared, and here is {other:?}"),
        }
    }

    /// All strings of the body, those inside of containers included.
    pub fn texts(&self) -> Vec<&'a str> {
        let (mut texts, header) = (Vec::new(), self.routed.header);
        let message = self.routed.message;
        let body = &message.bytes()[message.header().header_bytes..];
        walk(header, body, &mut |leaf, _| {
            if let Leaf::Text(text) = leaf {
                texts.push(text);
            }
        })
        .expect("the body was checked");
        texts
    }
}
