//! Broadcasts in parts: a message that is compared with very many rules, or that very many get, takes several turns of the loop.
//!
//! What the bus does in a turn is counted in steps: a condition that is compared is one, a copy that is delivered a few. When the steps of
//! the turn are used up, the rest of the broadcast waits for the next turn, and behind it whatever the bus says meanwhile, so that the order of
//! all messages stays what it is. Until nothing waits, the loop passes no further messages.

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use super::{Action, Bus, RoutedMessage, View};
use crate::matches::Place;
use crate::member::MemberId;
use crate::message::{LazyArgs, Message};

/// Steps of a turn.
pub const TURN_STEPS: usize = 5_000;
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
    place: Place,
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

/// What waits for the next turn.
#[derive(Debug)]
enum Rest {
    Broadcast { progress: Progress, from: Option<MemberId>, message: Rc<Message>, is_requested_reply: bool },
    Act(Action),
}

/// What waits, in order, and the steps that are left in this turn.
#[derive(Debug)]
pub(super) struct Waiting {
    rest: VecDeque<Rest>,
    steps: usize,
    /// What is done now stood at the front.
    is_going_on: bool,
    /// The most steps of one turn.
    most: usize,
    used: usize,
}

impl Default for Waiting {
    fn default() -> Waiting {
        Waiting { rest: VecDeque::new(), steps: TURN_STEPS, is_going_on: false, most: 0, used: 0 }
    }
}

impl Bus {
    /// A turn of the loop begins.
    pub fn begin_turn(&mut self) {
        self.waiting.steps = TURN_STEPS;
        self.waiting.used = 0;
    }

    /// Takes so many steps; false if none are left now.
    pub(super) fn step(&mut self, count: usize) -> bool {
        let waiting = &mut self.waiting;
        waiting.used += count;
        waiting.most = waiting.most.max(waiting.used);
        waiting.steps = waiting.steps.saturating_sub(count);
        waiting.steps > 0
    }

    /// The most steps of one turn.
    pub fn most_steps(&self) -> usize {
        self.waiting.most
    }

    /// Must something be passed on before any further message is?
    pub fn is_passing(&self) -> bool {
        !self.waiting.rest.is_empty()
    }

    /// Leaves something to be done, behind what waits.
    pub(crate) fn act(&mut self, action: Action) {
        if self.waiting.is_going_on || self.waiting.rest.is_empty() {
            self.actions.push(action);
        } else {
            self.waiting.rest.push_back(Rest::Act(action));
        }
    }

    /// The order log has ended: what was to be said in it is said nowhere, and a new one is shown everything as it is then.
    pub(super) fn forget_log(&mut self) {
        let is_of_log =
            |rest: &Rest| matches!(rest, Rest::Act(Action::UpdateDirectory(_) | Action::Append { .. }));
        self.waiting.rest.retain(|rest| !is_of_log(rest));
    }

    /// Goes on with what waits, as far as the steps of this turn go. Then members that leave are to be settled.
    pub fn go_on(&mut self) {
        while self.waiting.steps > 0
            && let Some(rest) = self.waiting.rest.pop_front()
        {
            self.waiting.is_going_on = true;
            if let Some(rest) = self.go_on_with(rest) {
                self.waiting.rest.push_front(rest);
            }
            self.waiting.is_going_on = false;
        }
    }

    fn go_on_with(&mut self, rest: Rest) -> Option<Rest> {
        match rest {
            Rest::Act(action) => {
                self.step(1);
                self.actions.push(action);
                None
            }
            Rest::Broadcast { mut progress, from, message, is_requested_reply } => {
                let header = message.header();
                let args = LazyArgs::new(&header, message.bytes());
                let routed = RoutedMessage {
                    from,
                    header: &header,
                    args: &args,
                    message: &message,
                    is_requested_reply,
                };
                let is_done = self.pass_on(&mut progress, routed);
                (!is_done).then(|| Rest::Broadcast {
                    progress,
                    from,
                    message: Rc::clone(&message),
                    is_requested_reply,
                })
            }
        }
    }

    /// Passes a message to those whose rules match, but to `except`, in this turn or behind what waits.
    pub(super) fn spread(&mut self, routed: RoutedMessage<'_>, audience: Audience, except: Option<MemberId>) {
        let rules = if audience == Audience::Members { &self.matches } else { &self.monitors };
        if !rules.may_match(routed.header) {
            return;
        }
        let (place, found) = (Place::default(), Found::Few(Vec::new()));
        let mut progress = Progress { audience, except, place, is_compared: false, found };
        let is_first = self.waiting.is_going_on || self.waiting.rest.is_empty();
        if is_first && self.pass_on(&mut progress, routed) {
            return;
        }
        let RoutedMessage { from, is_requested_reply, .. } = routed;
        let message = Rc::clone(routed.message);
        self.waiting.rest.push_back(Rest::Broadcast { progress, from, message, is_requested_reply });
    }

    /// True if everybody has it.
    fn pass_on(&mut self, progress: &mut Progress, routed: RoutedMessage<'_>) -> bool {
        if !progress.is_compared {
            let rules = if progress.audience == Audience::Members { &self.matches } else { &self.monitors };
            let (mut new, before) = (Vec::new(), self.waiting.steps);
            let mut left = before;
            let (args, owners) = (|| routed.args.get(), View(&self.names));
            progress.is_compared =
                rules.compare(&mut progress.place, routed.header, &args, &owners, &mut left, &mut new);
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
