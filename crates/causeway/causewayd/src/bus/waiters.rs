//! What becomes of those that wait for one thing, in parts: of a service or a configuration there may be very many.

use std::rc::Rc;

use causeway_dbus_wire::wire::{Body, Builder, FLAG_NO_REPLY_EXPECTED};

use super::route::DENIED;
use super::work::{PARTS, TOLD, Work};
use super::{Bus, RoutedMessage};
use crate::activation::{STARTED, Waiting, Wants};
use crate::error;
use crate::member::{MemberId, Stage};
use crate::message::LazyArgs;

/// Bytes of an answer that are one step.
const STEP_BYTES: usize = 256;

/// What they get.
#[derive(Debug)]
pub(super) enum Outcome {
    /// This is the owner of the name that they wait for.
    Owner(MemberId),
    Answer(Body),
    /// This error, with a sentence.
    Refusal(Rc<str>, Rc<str>),
    /// No file provides this name.
    NoService(Rc<str>),
    /// A file provides the name, and the policy denies it to them.
    Denied,
}

/// Those that wait, in order.
pub(super) struct Waiters {
    waiting: Box<dyn Iterator<Item = Waiting>>,
    outcome: Outcome,
}

impl std::fmt::Debug for Waiters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiters").field("outcome", &self.outcome).finish_non_exhaustive()
    }
}

impl Work for Waiters {
    fn go_on(&mut self, bus: &mut Bus) -> bool {
        for _ in 0..PARTS {
            let Some(waiting) = self.waiting.next() else { return true };
            let steps = bus.tell(&waiting, &self.outcome);
            if !bus.step(steps) || !bus.is_first() {
                break;
            }
        }
        false
    }
}

impl Bus {
    /// Tells all of these what has become of what they wait for, before any further message is passed.
    pub(super) fn tell_waiting(
        &mut self,
        waiting: impl IntoIterator<Item = Waiting, IntoIter: 'static>,
        outcome: Outcome,
    ) {
        let mut waiting = waiting.into_iter().peekable();
        if waiting.peek().is_some() {
            self.begin(Waiters { waiting: Box::new(waiting), outcome });
        }
    }

    /// Tells one of them what they wait for; returns the steps that it took.
    fn tell(&mut self, waiting: &Waiting, outcome: &Outcome) -> usize {
        self.finish_waiting(waiting);
        let mut steps = TOLD;
        // One that has left, or is a monitor now, waits for nothing.
        let is_active = |id| self.members.get(&id).is_some_and(|member| member.stage == Stage::Active);
        match outcome {
            _ if !waiting.sender.is_none_or(is_active) => {}
            Outcome::Owner(_) | Outcome::Answer(_) | Outcome::Refusal(..) | Outcome::Denied
                if waiting.wants == Wants::Refusal =>
            {
                self.refuse_waiting(waiting, error::ACCESS_DENIED, DENIED);
            }
            Outcome::Denied => unreachable!("others are not denied what they wait for"),
            Outcome::Owner(owner) => self.pass_to_service(*owner, waiting),
            Outcome::Answer(body) => {
                steps += body.bytes().len() / STEP_BYTES;
                self.answer(waiting, body.clone());
            }
            Outcome::Refusal(error, why) => self.refuse_waiting(waiting, error, why),
            Outcome::NoService(name) => {
                let why = waiting.wants.without(name);
                self.refuse_waiting(waiting, error::SERVICE_UNKNOWN, &why);
            }
        }
        steps
    }

    /// Answers a call that has waited, if its sender is there and wants it.
    pub(super) fn answer(&mut self, waiting: &Waiting, body: Body) {
        let header = waiting.message.header();
        if let Some(sender) = waiting.sender
            && header.flags & FLAG_NO_REPLY_EXPECTED == 0
        {
            self.send(sender, Builder::reply(header.serial).body(body));
        }
    }

    fn refuse_waiting(&mut self, waiting: &Waiting, error: &str, why: &str) {
        if let Some(sender) = waiting.sender {
            self.refuse(sender, &waiting.message.header(), error, why);
        }
    }

    /// What has waited for a name gets its owner.
    fn pass_to_service(&mut self, owner: MemberId, waiting: &Waiting) {
        let Some(sender) = waiting.sender else { return self.hand_out(Some(owner), &waiting.message, false) };
        // It may have left meanwhile.
        if !self.members.contains_key(&owner) {
            return;
        }
        if waiting.wants == Wants::Start {
            return self.answer(waiting, Body::default().u32(STARTED));
        }
        let header = waiting.message.header();
        let args = LazyArgs::new(&header, waiting.message.bytes());
        let routed = RoutedMessage::of(sender, &header, &args, &waiting.message);
        self.unicast(sender, owner, routed);
    }
}
