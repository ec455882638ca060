//! Which messages find the broker asleep where programs take no time: the queue of a replay as fast as causes allow.
//!
//! A connection sends its next message as soon as it has received what it had received before it in the capture. A connection begins when
//! all before it is done, and broadcasts and changes of rules wait for each other, as in a replay. The broker handles messages in the order in
//! which they arrive. If it has done with one and no other has arrived, it sleeps, and what follows from that message wakes it. How long the
//! broker takes makes no difference to this; programs that take time let it sleep more often.

use std::collections::{BTreeSet, HashMap, VecDeque};

use crate::traffic::{Handled, Work};

use crate::cost::curves::Quantity;

/// What is kept of a capture; what follows it waits until all of it is done.
const MOST_STEPS: usize = 1 << 18;

/// Takes the messages of a capture, and plays them.
#[derive(Debug, Default)]
pub(crate) struct FullSpeed {
    messages: Vec<Message>,
    /// What each connection does, in the order of the capture.
    scripts: Vec<Vec<Step>>,
    script_of: HashMap<u32, usize>,
    steps: usize,
    found: Sleeps,
}

/// Messages that find the broker asleep.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sleeps {
    pub(crate) messages: u64,
    /// What they cost beyond messages that do not.
    pub(crate) cpu_ns: Quantity,
}

#[derive(Debug)]
struct Message {
    work: Work,
    receivers: Vec<usize>,
    after_sleep_ns: Quantity,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Sends(usize),
    Receives(usize),
}

impl FullSpeed {
    /// The next message of the capture, and what it costs more if it finds the broker asleep.
    pub(crate) fn take(&mut self, handled: &Handled<'_>, after_sleep_ns: Quantity) {
        // The broker tells of a change while it handles the message that asks for it.
        if handled.work != Work::DriverSignal {
            if self.steps >= MOST_STEPS {
                self.play();
            }
            self.step(handled.sender, Step::Sends(self.messages.len()));
            self.messages.push(Message { work: handled.work, receivers: Vec::new(), after_sleep_ns });
        }
        let Some(number) = self.messages.len().checked_sub(1) else { return };
        for receiver in handled.receivers {
            let script = self.step(*receiver, Step::Receives(number));
            self.messages[number].receivers.push(script);
        }
    }

    pub(crate) fn finish(mut self) -> Sleeps {
        self.play();
        self.found
    }

    fn step(&mut self, connection: u32, step: Step) -> usize {
        let script = *self.script_of.entry(connection).or_insert_with(|| {
            self.scripts.push(Vec::new());
            self.scripts.len() - 1
        });
        self.scripts[script].push(step);
        self.steps += 1;
        script
    }

    fn play(&mut self) {
        let is_first = self.found.messages == 0;
        let sleeps = Play::new(&self.messages, &self.scripts).play(is_first);
        self.found.messages += sleeps.messages;
        self.found.cpu_ns = self.found.cpu_ns.plus(sleeps.cpu_ns);
        *self = FullSpeed { found: self.found, ..FullSpeed::default() };
    }
}

/// Messages that others wait for, in the order of the capture.
struct InOrder {
    numbers: Vec<usize>,
    done: usize,
}

impl InOrder {
    fn first(&mut self, done: &[bool]) -> Option<usize> {
        while self.numbers.get(self.done).is_some_and(|number| done[*number]) {
            self.done += 1;
        }
        self.numbers.get(self.done).copied()
    }
}

struct Play<'m> {
    messages: &'m [Message],
    scripts: &'m [Vec<Step>],
    next: Vec<usize>,
    done: Vec<bool>,
    /// Messages that the broker has not handled, in the order of their arrival.
    arrived: VecDeque<usize>,
    /// Scripts whose next message waits for messages of others.
    held: BTreeSet<usize>,
    all: InOrder,
    rules: InOrder,
    broadcasts: InOrder,
}

impl<'m> Play<'m> {
    fn new(messages: &'m [Message], scripts: &'m [Vec<Step>]) -> Play<'m> {
        let of = |is_one: fn(Work) -> bool| {
            let numbers = (0..messages.len()).filter(|number| is_one(messages[*number].work));
            InOrder { numbers: numbers.collect(), done: 0 }
        };
        Play {
            messages,
            scripts,
            next: vec![0; scripts.len()],
            done: vec![false; messages.len()],
            arrived: VecDeque::new(),
            held: BTreeSet::new(),
            all: of(|_| true),
            rules: of(|work| work == Work::MatchRule),
            broadcasts: of(|work| work == Work::Broadcast),
        }
    }

    fn play(mut self, mut is_asleep: bool) -> Sleeps {
        let mut sleeps = Sleeps::default();
        (0..self.scripts.len()).for_each(|script| self.go_on(script));
        self.arrived.make_contiguous().sort_unstable();
        let mut count = 0;
        while let Some(number) = self.arrived.pop_front() {
            let message = &self.messages[number];
            if is_asleep {
                sleeps.messages += 1;
                sleeps.cpu_ns = sleeps.cpu_ns.plus(message.after_sleep_ns);
            }
            count += 1;
            self.done[number] = true;
            is_asleep = self.arrived.is_empty();
            message.receivers.iter().for_each(|script| self.go_on(*script));
            std::mem::take(&mut self.held).into_iter().for_each(|script| self.go_on(script));
        }
        assert_eq!(count, self.messages.len(), "messages wait for earlier ones only");
        sleeps
    }

    /// Takes the steps of a script that nothing stands in the way of.
    fn go_on(&mut self, script: usize) {
        while let Some(step) = self.scripts[script].get(self.next[script]) {
            match *step {
                Step::Receives(number) if !self.done[number] => return,
                Step::Receives(_) => {}
                Step::Sends(number) if self.is_held(number) => {
                    self.held.insert(script);
                    return;
                }
                Step::Sends(number) => self.arrived.push_back(number),
            }
            self.next[script] += 1;
        }
    }

    fn is_held(&mut self, number: usize) -> bool {
        let before = match self.messages[number].work {
            Work::Connection => self.all.first(&self.done),
            Work::Broadcast => self.rules.first(&self.done),
            Work::MatchRule => self.broadcasts.first(&self.done),
            _ => None,
        };
        before.is_some_and(|before| before < number)
    }
}

#[cfg(test)]
mod tests {
    use crate::bus::Unmatched;

    use super::*;

    /// From whom, what, to whom.
    type Told<'a> = (u32, Work, &'a [u32]);

    fn sleeps(messages: &[Told<'_>]) -> u64 {
        let mut queue = FullSpeed::default();
        for (sender, work, receivers) in messages {
            let (sender, work) = (*sender, *work);
            let unmatched = Unmatched::default();
            let handled = Handled { time_ns: 0, work, body_bytes: 0, unmatched, sender, receivers };
            queue.take(&handled, Quantity { value: 2.0, low: 1.0, high: 3.0 });
        }
        let found = queue.finish();
        let each = found.messages as f64;
        assert_eq!(found.cpu_ns, Quantity { value: 2.0 * each, low: each, high: 3.0 * each });
        found.messages
    }

    fn relay(from: u32, to: &[u32]) -> Told<'_> {
        (from, Work::Relay, to)
    }

    #[test]
    fn a_message_that_follows_from_the_last_one_alone_finds_the_broker_asleep() {
        let (call, reply) = (relay(1, &[2]), relay(2, &[1]));
        assert_eq!(sleeps(&[]), 0);
        assert_eq!(sleeps(&[call, reply, call, reply]), 4, "each waits for the one before");
        assert_eq!(sleeps(&[call, call, call]), 1, "none waits for an answer");
        let (other_call, other_reply) = (relay(3, &[4]), relay(4, &[3]));
        assert_eq!(sleeps(&[call, other_call, reply, other_reply]), 1, "there is always one on its way");
        let pairs = [call, reply, other_call, other_reply];
        assert_eq!(sleeps(&pairs), 1, "the order of the capture is none of its causes");
        assert_eq!(sleeps(&[call, reply, call, reply, other_call]), 3, "the other call comes with the first");
    }

    #[test]
    fn connections_rules_and_broadcasts_wait_as_in_a_replay() {
        let call = relay(1, &[2]);
        assert_eq!(sleeps(&[call, call, (3, Work::Connection, &[3])]), 2);
        let (rule, signal): (Told<'_>, Told<'_>) = ((3, Work::MatchRule, &[3]), (1, Work::Broadcast, &[3]));
        assert_eq!(sleeps(&[rule, signal]), 2);
        assert_eq!(sleeps(&[signal, rule]), 2);
        assert_eq!(
            sleeps(&[signal, rule, call]),
            1,
            "the call comes with the signal, and the rule meanwhile"
        );
        let name: [Told<'_>; 3] = [(1, Work::Name, &[1]), (0, Work::DriverSignal, &[2]), relay(2, &[1])];
        assert_eq!(sleeps(&name), 2, "the second connection waits for what the driver tells");
    }

    #[test]
    fn a_capture_of_any_length_is_played_in_pieces() {
        let call = relay(1, &[2]);
        assert_eq!(sleeps(&vec![call; 2 * MOST_STEPS]), 1);
        let both = [call, relay(2, &[1])];
        let count = MOST_STEPS as u64;
        let found = sleeps(&both.repeat(MOST_STEPS / 2));
        assert!((count - 2..=count).contains(&found), "{found}: a piece begins awake");
    }
}
