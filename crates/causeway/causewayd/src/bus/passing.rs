//! Broadcasts in parts: a message that is compared with very many rules, or that very many get, takes several turns of
//! the loop.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::work::Work;
use super::{Bus, RoutedMessage, View};
use crate::matches::Cursor;
use crate::member::MemberId;
use crate::message::{LazyArgs, Message};

/// Steps of a copy that is delivered.
const DELIVERY: usize = 8;

/// Whose rules decide who gets a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Audience {
    Members,
    Monitors,
}

/// How far a message has been passed to those with a rule for it.
#[derive(Debug)]
struct Progress {
    audience: Audience,
    /// Who has it already.
    except: Option<MemberId>,
    cursor: Cursor,
    is_compared: bool,
    /// Those that want it, in order once all rules are compared.
    found: Found,
}

/// Members, each once.
#[derive(Debug)]
enum Found {
    /// Of a message that was compared at once: in no order, until it is sorted.
    Few(Vec<MemberId>),
    Many(BTreeSet<MemberId>),
}

impl Found {
    fn add(&mut self, new: &mut Vec<MemberId>) {
        match self {
            Found::Few(few) => few.append(new),
            Found::Many(many) => many.extend(new.drain(..)),
        }
    }

    /// More come in a later turn.
    fn keep(&mut self) {
        if let Found::Few(few) = self {
            *self = Found::Many(std::mem::take(few).into_iter().collect());
        }
    }

    /// All are there: in order, the last one first.
    fn sort(&mut self) {
        if let Found::Few(few) = self {
            few.sort_unstable_by(|one, other| other.cmp(one));
            few.dedup();
        }
    }

    fn next(&mut self) -> Option<MemberId> {
        match self {
            Found::Few(few) => few.pop(),
            Found::Many(many) => many.pop_first(),
        }
    }
}

/// A message that some have got, and others get later.
#[derive(Debug)]
pub(super) struct Broadcast {
    progress: Progress,
    from: Option<MemberId>,
    message: Rc<Message>,
    is_requested_reply: bool,
}

impl Work for Broadcast {
    fn go_on(&mut self, bus: &mut Bus) -> bool {
        let Broadcast { progress, from, message, is_requested_reply } = self;
        let (from, is_requested_reply) = (*from, *is_requested_reply);
        let header = message.header();
        let args = LazyArgs::new(&header, message.bytes());
        let routed = RoutedMessage { from, header: &header, args: &args, message, is_requested_reply };
        bus.pass_on(progress, routed)
    }
}

impl Bus {
    /// Passes a message to those whose rules match, but to `except`, in this turn or behind what waits. One that is being made a monitor
    /// does not see how it loses its names.
    pub(super) fn spread(&mut self, routed: RoutedMessage<'_>, audience: Audience, except: Option<MemberId>) {
        let except = if audience == Audience::Monitors { except.or(self.new_monitor) } else { except };
        let rules = if audience == Audience::Members { &self.matches } else { &self.monitors };
        if !rules.may_match(routed.header) {
            return;
        }
        let (cursor, found) = (Cursor::default(), Found::Few(Vec::new()));
        let mut progress = Progress { audience, except, cursor, is_compared: false, found };
        if self.is_first() && self.pass_on(&mut progress, routed) {
            return;
        }
        let RoutedMessage { from, is_requested_reply, .. } = routed;
        let message = Rc::clone(routed.message);
        self.put(Broadcast { progress, from, message, is_requested_reply });
    }

    /// True if everybody has it.
    fn pass_on(&mut self, progress: &mut Progress, routed: RoutedMessage<'_>) -> bool {
        if !progress.is_compared {
            let rules = if progress.audience == Audience::Members { &self.matches } else { &self.monitors };
            let (mut new, before) = (Vec::new(), self.steps_left());
            let mut left = before;
            let (args, owners) = (|| routed.args.get(), View(&self.names));
            progress.is_compared =
                rules.compare(&mut progress.cursor, routed.header, &args, &owners, &mut left, &mut new);
            progress.found.add(&mut new);
            self.step(before - left);
            if !progress.is_compared {
                progress.found.keep();
                return false;
            }
            progress.found.sort();
        }
        while let Some(id) = progress.found.next() {
            if Some(id) != progress.except {
                self.hand_copy(id, progress.audience, routed);
                if !self.step(DELIVERY) {
                    progress.found.keep();
                    return false;
                }
            }
        }
        true
    }
}
