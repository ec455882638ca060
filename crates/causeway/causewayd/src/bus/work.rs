//! Work that one turn of the loop does not finish. Whatever may be long (a signal to very many, the end of a client with tens of
//! thousands of names, a list of everything) is done in parts, and goes on in the next turn where it stopped.
//!
//! What the bus does in a turn is counted in steps: a condition that is compared is one, a copy that is delivered a few. When the steps of
//! the turn are used up, the rest waits. *Ordered* work has its place among all messages: until it is done, whatever the bus says waits
//! behind it, and the loop passes no further messages. Work *beside* them goes on while messages pass, each a few parts at a time.

use std::collections::VecDeque;
use std::fmt;

use super::{Action, Bus};
use crate::message::Output;

/// Steps of a turn.
pub const TURN_STEPS: usize = 5_000;
/// Parts of one work beside messages before the next has its turn.
pub(crate) const PARTS: usize = 32;
/// Steps of an entry that is taken out of a table, and of one whose end is told.
pub(super) const ENTRY: usize = 4;
pub(super) const TOLD: usize = 16;
/// Steps of a message that is forgotten.
const FORGOTTEN: usize = 2;
/// So many messages are forgotten at once.
const FORGOTTEN_AT_ONCE: usize = 64;

/// Something that is done in parts.
pub(crate) trait Work: fmt::Debug {
    /// Does a few parts; true when none is left.
    fn go_on(&mut self, bus: &mut Bus) -> bool;

    /// Is it for nothing when the order log has ended?
    fn is_of_log(&self) -> bool {
        false
    }
}

/// To be done outside of the bus, behind what stands before it.
#[derive(Debug)]
pub(super) struct Later(Option<Action>);

impl Later {
    pub(super) fn new(action: Action) -> Later {
        Later(Some(action))
    }
}

impl Work for Later {
    fn go_on(&mut self, bus: &mut Bus) -> bool {
        bus.step(1);
        bus.actions.extend(self.0.take());
        true
    }

    fn is_of_log(&self) -> bool {
        matches!(self.0, Some(Action::UpdateDirectory(_) | Action::Append { .. }))
    }
}

/// Messages that nobody gets any more.
#[derive(Debug)]
struct Forgotten(Output);

impl Work for Forgotten {
    fn go_on(&mut self, bus: &mut Bus) -> bool {
        for _ in 0..PARTS * PARTS {
            if self.0.pop_front().is_none() || !bus.step(FORGOTTEN) {
                break;
            }
        }
        self.0.is_empty()
    }
}

/// What is to be done, and the steps that are left in this turn.
#[derive(Debug)]
pub(super) struct Agenda {
    ordered: VecDeque<Box<dyn Work>>,
    /// Ordered work that what is done now has begun: it comes before all other.
    begun: Vec<Box<dyn Work>>,
    beside: VecDeque<Box<dyn Work>>,
    steps: usize,
    /// What is done now stood at the front of the ordered work.
    is_going_on: bool,
    /// The most steps of one turn.
    most: usize,
    used: usize,
}

impl Default for Agenda {
    fn default() -> Agenda {
        Agenda {
            ordered: VecDeque::new(),
            begun: Vec::new(),
            beside: VecDeque::new(),
            steps: TURN_STEPS,
            is_going_on: false,
            most: 0,
            used: 0,
        }
    }
}

impl Bus {
    /// A turn of the loop begins.
    pub fn begin_turn(&mut self) {
        self.agenda.steps = TURN_STEPS;
        self.agenda.used = 0;
    }

    /// Takes so many steps; false if none are left now.
    pub(crate) fn step(&mut self, count: usize) -> bool {
        let agenda = &mut self.agenda;
        agenda.used += count;
        agenda.most = agenda.most.max(agenda.used);
        agenda.steps = agenda.steps.saturating_sub(count);
        agenda.steps > 0
    }

    pub(super) fn steps_left(&self) -> usize {
        self.agenda.steps
    }

    /// The most steps of one turn.
    pub fn most_steps(&self) -> usize {
        self.agenda.most
    }

    /// Must something be done before any further message is passed?
    pub fn is_passing(&self) -> bool {
        !self.agenda.ordered.is_empty()
    }

    /// Has something begun that goes on in the next turn?
    pub fn has_work(&self) -> bool {
        self.is_passing() || !self.agenda.beside.is_empty()
    }

    /// May ordered work begin now, because nothing stands before it?
    pub(super) fn is_first(&self) -> bool {
        self.agenda.begun.is_empty() && (self.agenda.is_going_on || self.agenda.ordered.is_empty())
    }

    /// Leaves something to be done outside, behind ordered work.
    pub(crate) fn push_action(&mut self, action: Action) {
        if self.is_first() {
            self.actions.push(action);
        } else {
            self.put(Later::new(action));
        }
    }

    /// Leaves ordered work for later, behind what there is.
    pub(super) fn put(&mut self, work: impl Work + 'static) {
        let agenda = &mut self.agenda;
        if agenda.is_going_on {
            agenda.begun.push(Box::new(work));
        } else {
            agenda.ordered.push_back(Box::new(work));
        }
    }

    /// Does ordered work, in this turn as far as its steps go.
    pub(crate) fn begin(&mut self, mut work: impl Work + 'static) {
        while self.is_first() && self.agenda.steps > 0 {
            if work.go_on(self) {
                return;
            }
        }
        self.put(work);
    }

    /// Has work done beside the messages.
    pub(super) fn begin_beside(&mut self, work: impl Work + 'static) {
        self.agenda.beside.push_back(Box::new(work));
    }

    /// The order log has ended: what was to be said in it is said nowhere, and a new one is shown everything as it is then.
    pub(super) fn forget_log(&mut self) {
        self.agenda.ordered.retain(|work| !work.is_of_log());
        self.agenda.beside.retain(|work| !work.is_of_log());
    }

    /// Goes on with ordered work, as far as the steps of this turn go. Then members that leave are to be settled.
    pub fn go_on(&mut self) {
        while self.agenda.steps > 0
            && let Some(mut work) = self.agenda.ordered.pop_front()
        {
            self.agenda.is_going_on = true;
            let is_done = work.go_on(self);
            self.agenda.is_going_on = false;
            let agenda = &mut self.agenda;
            let rest = (!is_done).then_some(work);
            for work in agenda.begun.drain(..).chain(rest).rev() {
                agenda.ordered.push_front(work);
            }
        }
    }

    /// Goes on with one work beside the messages; false if there is none, or nothing more can be done in this turn.
    pub(super) fn go_on_beside(&mut self) -> bool {
        if self.is_passing() || self.agenda.steps == 0 {
            return false;
        }
        let Some(mut work) = self.agenda.beside.pop_front() else { return false };
        if !work.go_on(self) {
            self.agenda.beside.push_back(work);
        }
        true
    }

    /// A client has gone that was to get these messages.
    pub fn forget(&mut self, output: Output) {
        if output.len() > FORGOTTEN_AT_ONCE {
            self.begin_beside(Forgotten(output));
        }
    }
}
