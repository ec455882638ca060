//! Answers that list very much, written in parts.
//!
//! Names, and those that wait for one, are listed as ordered work: the answer is as of its beginning, and what changes after that is told behind it. Match rules are
//! listed beside the messages: all are there that were all the time, and one may stand there twice if others were removed meanwhile.

use std::ops::Bound;
use std::rc::Rc;

use causeway_dbus_wire::wire::{Body, Builder, FLAG_NO_REPLY_EXPECTED, Growing, OpenArray};

use super::work::{PARTS, Work};
use super::{Bus, DRIVER};
use crate::descriptors::Descriptors;
use crate::error;
use crate::member::{MemberId, Stage};
use crate::message::Message;

/// Steps of a name, and of a rule whose text is made.
const NAME: usize = 1;
const RULE: usize = 8;

/// How far a list has been written.
#[derive(Debug)]
enum Cursor {
    /// Unique names up to that of this member.
    Members(MemberId),
    /// Other names up to this one.
    Names(Rc<str>),
    /// Those that wait for a name, from this place on.
    Queue(Rc<str>, usize),
    /// Rules of members up to this one.
    Rules(MemberId),
    /// Of the rules of this member so many are left, and of the next one so many copies have been written.
    RulesOf {
        member: MemberId,
        left: usize,
        copies: u32,
        array: OpenArray,
    },
    Done,
}

/// An answer that is being written.
#[derive(Debug)]
pub(super) struct Listing {
    caller: MemberId,
    serial: u32,
    /// The answer and the array in it, until it is sent.
    reply: Option<(Growing, OpenArray)>,
    cursor: Cursor,
}

impl Work for Listing {
    fn go_on(&mut self, bus: &mut Bus) -> bool {
        // Nobody may wait for it any more.
        let Some((reply, _)) = self.reply.as_mut().filter(|_| bus.is_reachable(self.caller)) else {
            return true;
        };
        for _ in 0..PARTS {
            let steps = bus.list_part(&mut self.cursor, reply);
            if matches!(self.cursor, Cursor::Done) || reply.is_too_long() {
                if let Some((reply, array)) = self.reply.take() {
                    bus.send_grown(self.caller, self.serial, reply, array);
                }
                return true;
            }
            if !bus.step(steps) {
                break;
            }
        }
        false
    }
}

impl Bus {
    /// Answers a call with all names.
    pub(crate) fn list_names(&mut self, caller: MemberId, serial: u32) {
        let mut listing = self.listing(caller, serial, ("as", 4), Cursor::Members(MemberId(0)));
        listing.reply.iter_mut().for_each(|(reply, _)| reply.out().text(DRIVER));
        self.begin(listing);
    }

    /// Answers a call with the owner of a name and those that wait for it.
    pub(crate) fn list_queue(&mut self, caller: MemberId, serial: u32, name: &str) {
        let listing = self.listing(caller, serial, ("as", 4), Cursor::Queue(name.into(), 0));
        self.begin(listing);
    }

    /// Answers a call with all match rules of all members.
    pub(crate) fn list_rules(&mut self, caller: MemberId, serial: u32) {
        let listing = self.listing(caller, serial, ("a{sas}", 8), Cursor::Rules(MemberId(0)));
        self.begin_beside(listing);
    }

    fn listing(
        &self,
        caller: MemberId,
        serial: u32,
        (types, alignment): (&str, usize),
        cursor: Cursor,
    ) -> Listing {
        let mut reply = self.growing_reply(caller, serial, types);
        let array = reply.begin_array(alignment);
        Listing { caller, serial, reply: Some((reply, array)), cursor }
    }

    /// An answer with arguments of these types, which are to be written.
    pub(crate) fn growing_reply(&self, caller: MemberId, serial: u32, types: &str) -> Growing {
        let reply = Builder::reply(serial).sender(DRIVER).flags(FLAG_NO_REPLY_EXPECTED);
        Growing::new(reply.destination(&caller.unique_name()), types)
    }

    /// Writes some entries; returns the steps that were taken.
    fn list_part(&self, cursor: &mut Cursor, out: &mut Growing) -> usize {
        let further = |after| (Bound::Excluded(after), Bound::Unbounded);
        let mut count = 0;
        match cursor {
            Cursor::Members(after) => {
                for (id, member) in self.members.range(further(*after)).take(PARTS) {
                    if member.stage == Stage::Active {
                        out.out().text(&member.name);
                    }
                    (*after, count) = (*id, count + 1);
                }
                if count < PARTS {
                    *cursor = Cursor::Names("".into());
                }
                1 + count * NAME
            }
            Cursor::Names(after) => {
                let mut last = None;
                for name in self.names.after(after).take(PARTS) {
                    out.out().text(name);
                    (last, count) = (Some(name), count + 1);
                }
                *cursor = match last {
                    Some(last) if count == PARTS => Cursor::Names(Rc::clone(last)),
                    _ => Cursor::Done,
                };
                1 + count * NAME
            }
            Cursor::Queue(name, place) => {
                for member in self.names.queue_from(name, *place).take(PARTS) {
                    out.out().text(&member.unique_name());
                    count += 1;
                }
                *place += count;
                if count < PARTS {
                    *cursor = Cursor::Done;
                }
                1 + count * NAME
            }
            Cursor::Rules(after) => {
                let mut active =
                    self.members.range(further(*after)).filter(|(_, member)| member.stage == Stage::Active);
                *cursor = match active.next() {
                    Some((&id, member)) => {
                        out.out().align(8);
                        out.out().text(&member.name);
                        let array = out.begin_array(4);
                        Cursor::RulesOf { member: id, left: self.matches.of(id).len(), copies: 0, array }
                    }
                    None => Cursor::Done,
                };
                RULE
            }
            Cursor::RulesOf { left: 0, .. } => {
                let of = std::mem::replace(cursor, Cursor::Done);
                if let Cursor::RulesOf { member, array, .. } = of {
                    out.end_array(array);
                    *cursor = Cursor::Rules(member);
                }
                1
            }
            Cursor::RulesOf { member, left, copies, .. } => {
                match self.matches.at(*member, *left - 1) {
                    Some((rule, count)) if *copies < count => {
                        let text = rule.to_string();
                        let most = count.min(*copies + PARTS as u32);
                        (*copies..most).for_each(|_| out.out().text(&text));
                        *copies = most;
                    }
                    _ => (*left, *copies) = (*left - 1, 0),
                }
                RULE
            }
            Cursor::Done => 1,
        }
    }

    /// Sends an answer that has grown to its end, which is this array.
    pub(crate) fn send_grown(&mut self, caller: MemberId, serial: u32, mut reply: Growing, array: OpenArray) {
        if !self.is_reachable(caller) {
            return;
        }
        if reply.is_too_long() {
            let why = Body::default().text("the list would be longer than an array may be, 64 MiB");
            return self.send(caller, Builder::error(serial, error::LIMITS_EXCEEDED).body(why));
        }
        reply.end_array(array);
        let message = Rc::new(Message::new(reply.finish(self.next_serial()), Descriptors::default()));
        self.hand_out(Some(caller), &message, true);
    }
}
