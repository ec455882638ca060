//! Services that are looked up or being started, and what waits for them. No files, no processes: the caller reads and starts them, and
//! says what became of them.

use std::collections::btree_map::IntoValues;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::member::MemberId;
use crate::message::Message;

/// What a message that waits is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// The service is to get it.
    Delivery,
    /// The policy denies it to its sender, who is told so if a file provides the name, and otherwise that none does.
    Refusal,
    /// It is a call of `StartServiceByName`.
    Start,
    /// It is a call of `ListActivatableNames`, which waits under [`ALL_NAMES`].
    Names,
}

/// The answer to `StartServiceByName` where the service was started.
pub const STARTED: u32 = 1;
/// The answer to it where the service is there already.
pub const ALREADY_RUNNING: u32 = 2;

impl Wants {
    /// Why nothing that wants this can have a service of this name, which no file provides.
    pub fn without(self, name: &str) -> String {
        if self == Wants::Start {
            format!("no .service file with an Exec= provides the name {name}")
        } else if name.starts_with(':') {
            // Connections alone have these names, and never the same one twice.
            format!("there is no connection {name}")
        } else {
            format!("the name {name} has no owner, and no .service file with an Exec= provides it")
        }
    }
}

/// In place of a name, for those who wait for all of them.
pub const ALL_NAMES: &str = "";

#[derive(Clone, Debug)]
pub struct Waiting {
    /// Nobody is the bus itself.
    pub sender: Option<MemberId>,
    pub message: Rc<Message>,
    pub wants: Wants,
    /// Have monitors seen it?
    pub is_shown: bool,
    /// Its place among all that wait for services; nothing before it has one.
    place: u64,
}

impl Waiting {
    /// A message of a member, or of the bus itself, which monitors have seen.
    pub fn of(sender: Option<MemberId>, message: &Rc<Message>, wants: Wants) -> Waiting {
        Waiting { sender, message: Rc::clone(message), wants, is_shown: true, place: 0 }
    }
}

/// How far a start is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It is not known yet which file provides the name.
    LookedUp,
    /// A program was started.
    Program,
    /// systemd was asked for this unit.
    Unit(String),
    /// Nobody starts it: it comes of itself.
    Expected,
}

#[derive(Debug)]
struct Start {
    number: u64,
    begun: Instant,
    deadline: Instant,
    phase: Phase,
    /// By their places: messages for the service, and calls that ask for its file or its start.
    messages: BTreeMap<u64, Waiting>,
    calls: BTreeMap<u64, Waiting>,
}

impl Start {
    fn of(&mut self, wants: Wants) -> &mut BTreeMap<u64, Waiting> {
        if wants == Wants::Delivery { &mut self.messages } else { &mut self.calls }
    }
}

/// Those that have waited: messages for the service first, each in their order.
pub type Waited = std::iter::Chain<IntoValues<u64, Waiting>, IntoValues<u64, Waiting>>;

fn waited(messages: BTreeMap<u64, Waiting>, calls: BTreeMap<u64, Waiting>) -> Waited {
    messages.into_values().chain(calls.into_values())
}

/// How far monitors have seen what waits for a service: up to this place, of messages or, behind all of them, of calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    has_messages: bool,
    up_to: u64,
}

/// Names that are looked up although nobody waits for them any more.
const ALONE_MAX: usize = 64;

#[derive(Debug, Default)]
pub struct Starts {
    by_name: BTreeMap<Rc<str>, Start>,
    by_number: BTreeMap<u64, Rc<str>>,
    by_deadline: BTreeSet<(Instant, u64)>,
    /// Those whose names are still to be looked up.
    asked: BTreeSet<u64>,
    /// Those that are looked up, and for which nobody waits any more.
    alone: BTreeSet<u64>,
    /// For what each member's messages and calls wait, by their places.
    of_sender: BTreeMap<(MemberId, u64), Rc<str>>,
    places: u64,
    /// Of those, the services that a program or systemd is starting.
    running: usize,
    count: u64,
}

impl Phase {
    fn is_running(&self) -> bool {
        matches!(self, Phase::Program | Phase::Unit(_))
    }
}

impl Starts {
    /// Services that a program or systemd is starting now.
    pub fn len(&self) -> usize {
        self.running
    }

    pub fn phase(&self, name: &str) -> Option<&Phase> {
        self.by_name.get(name).map(|start| &start.phase)
    }

    /// The number of a start for which a program was started.
    pub fn program_of(&self, name: &str) -> Option<u64> {
        self.by_name.get(name).filter(|start| start.phase == Phase::Program).map(|start| start.number)
    }

    /// Lets a message wait for a service that is looked up or being started; gives it back if it is not.
    pub fn join(&mut self, name: &str, mut waiting: Waiting) -> Result<(), Waiting> {
        let Some((name, _)) = self.by_name.get_key_value(name) else { return Err(waiting) };
        let name = Rc::clone(name);
        self.places += 1;
        waiting.place = self.places;
        if let Some(sender) = waiting.sender {
            self.of_sender.insert((sender, self.places), Rc::clone(&name));
        }
        let start = self.by_name.get_mut(&name).expect("it is there");
        self.alone.remove(&start.number);
        start.of(waiting.wants).insert(self.places, waiting);
        Ok(())
    }

    /// This waits no more, and was taken from the start for which it waited.
    pub fn left(&mut self, waiting: &Waiting) {
        if let Some(sender) = waiting.sender {
            self.of_sender.remove(&(sender, waiting.place));
        }
    }

    /// A member leaves: what it sent last waits no longer, and what it sent before that after the next call. Nothing when nothing waits.
    pub fn take_last_of(&mut self, member: MemberId) -> Option<Waiting> {
        loop {
            let all = (member, 0)..=(member, u64::MAX);
            let (&key, _) = self.of_sender.range(all).next_back()?;
            let name = self.of_sender.remove(&key)?;
            // Its start may have ended, and it is being told.
            let Some(start) = self.by_name.get_mut(&name) else { continue };
            let taken = start.messages.remove(&key.1).or_else(|| start.calls.remove(&key.1));
            if start.messages.is_empty() && start.calls.is_empty() && start.phase == Phase::LookedUp {
                // Who says that a service is to be started need not wait for it. But nobody is charged for that any more.
                self.alone.insert(start.number);
                let is_denied = taken.as_ref().is_some_and(|taken| taken.wants == Wants::Refusal);
                if is_denied || self.alone.len() > ALONE_MAX {
                    drop(self.end(&name));
                }
            }
            if taken.is_some() {
                return taken;
            }
        }
    }

    /// Something waits for a service from now on, until its deadline; returns the number of this start.
    pub fn begin(
        &mut self,
        name: &str,
        phase: Phase,
        begun: Instant,
        limit: Duration,
        waiting: Waiting,
    ) -> u64 {
        self.count += 1;
        let (number, name): (u64, Rc<str>) = (self.count, name.into());
        self.running += usize::from(phase.is_running());
        if phase == Phase::LookedUp {
            self.asked.insert(number);
        }
        let deadline = begun + limit;
        let (messages, calls) = (BTreeMap::new(), BTreeMap::new());
        let start = Start { number, begun, deadline, phase, messages, calls };
        self.by_deadline.insert((deadline, number));
        self.by_number.insert(number, Rc::clone(&name));
        self.by_name.insert(Rc::clone(&name), start);
        self.join(&name, waiting).expect("it has begun");
        number
    }

    /// A service that was looked up is being started in this way; returns the number of its start.
    pub fn advance(&mut self, name: &str, phase: Phase) -> Option<u64> {
        let start = self.by_name.get_mut(name)?;
        self.running += usize::from(phase.is_running());
        self.running -= usize::from(start.phase.is_running());
        start.phase = phase;
        self.alone.remove(&start.number);
        Some(start.number)
    }

    /// The next names to be looked up, at most so many.
    pub fn take_asked(&mut self, most: usize) -> Vec<String> {
        let numbers = std::iter::from_fn(|| self.asked.pop_first()).take(most);
        numbers.filter_map(|number| self.by_number.get(&number)).map(|name| name.to_string()).collect()
    }

    /// These names were not found; they are looked up again if somebody still waits for them.
    pub fn ask_again(&mut self, names: impl IntoIterator<Item = String>) {
        for name in names {
            let start = self.by_name.get(name.as_str()).filter(|start| start.phase == Phase::LookedUp);
            self.asked.extend(start.map(|start| start.number));
        }
    }

    /// How long ago the start of this service began; nothing if it is not being started.
    pub fn age(&self, name: &str, now: Instant) -> Option<Duration> {
        self.by_name.get(name).map(|start| now.saturating_duration_since(start.begun))
    }

    /// What waits for a service, messages first.
    pub fn waiting(&mut self, name: &str) -> impl Iterator<Item = &mut Waiting> {
        let start = self.by_name.get_mut(name);
        start.into_iter().flat_map(|start| start.messages.values_mut().chain(start.calls.values_mut()))
    }

    /// The next that waits for a service and that monitors have not seen: they see it now.
    pub fn next_unseen(&mut self, name: &str, seen: &mut Seen) -> Option<Waiting> {
        let start = self.by_name.get_mut(name)?;
        loop {
            let waiting = if seen.has_messages { &mut start.calls } else { &mut start.messages };
            match waiting.range_mut(seen.up_to..).find(|(_, waiting)| !waiting.is_shown) {
                Some((place, waiting)) => {
                    seen.up_to = place + 1;
                    let before = waiting.clone();
                    waiting.is_shown = true;
                    return Some(before);
                }
                None if seen.has_messages => return None,
                None => *seen = Seen { has_messages: true, up_to: 0 },
            }
        }
    }

    /// Takes out what waits for a service to learn that it is there and the policy denies it. For each, [`left`](Starts::left) must be called.
    pub fn take_denied(&mut self, name: &str) -> Vec<Waiting> {
        let Some(start) = self.by_name.get_mut(name) else { return Vec::new() };
        let denied = start.calls.iter().filter(|(_, waiting)| waiting.wants == Wants::Refusal);
        let places: Vec<u64> = denied.map(|(place, _)| *place).collect();
        places.iter().filter_map(|place| start.calls.remove(place)).collect()
    }

    /// Is there anything for which a service that was looked up is to be started?
    pub fn is_wanted(&self, name: &str) -> bool {
        let start = self.by_name.get(name);
        start.is_some_and(|start| {
            !start.messages.is_empty() || !start.calls.is_empty() || self.alone.contains(&start.number)
        })
    }

    /// Who waits for a service first.
    pub fn first_for(&self, name: &str) -> Option<MemberId> {
        let start = self.by_name.get(name)?;
        let first = [&start.messages, &start.calls]
            .into_iter()
            .filter_map(BTreeMap::first_key_value)
            .min_by_key(|(at, _)| **at);
        first?.1.sender
    }

    /// The service is there, or will not come: what has waited for it. For each, [`left`](Starts::left) must be called.
    pub fn end(&mut self, name: &str) -> Waited {
        let Some(start) = self.by_name.remove(name) else { return waited(BTreeMap::new(), BTreeMap::new()) };
        self.running -= usize::from(start.phase.is_running());
        self.by_number.remove(&start.number);
        self.asked.remove(&start.number);
        self.alone.remove(&start.number);
        self.by_deadline.remove(&(start.deadline, start.number));
        waited(start.messages, start.calls)
    }

    /// The service is there: what has waited for it, as [`end`](Starts::end) returns it. What asks for its file goes on waiting for that.
    pub fn came(&mut self, name: &str) -> Waited {
        match self.by_name.get_mut(name) {
            Some(Start { phase: Phase::LookedUp, messages, calls, .. }) if !calls.is_empty() => {
                waited(std::mem::take(messages), BTreeMap::new())
            }
            _ => self.end(name),
        }
    }

    /// The name that a start is for, unless it has ended.
    pub fn name_of(&self, number: u64) -> Option<Rc<str>> {
        self.by_number.get(&number).cloned()
    }

    /// The names that this unit of systemd is to provide.
    pub fn of_unit(&self, unit: &str) -> Vec<Rc<str>> {
        let is_of = |start: &Start| matches!(&start.phase, Phase::Unit(other) if other == unit);
        self.by_name.iter().filter(|(_, start)| is_of(start)).map(|(name, _)| Rc::clone(name)).collect()
    }

    pub fn next_deadline(&self) -> Option<Instant> {
        self.by_deadline.first().map(|(deadline, _)| *deadline)
    }

    /// A service whose time is over.
    pub fn expired(&self, now: Instant) -> Option<Rc<str>> {
        let (deadline, number) = self.by_deadline.first()?;
        (*deadline <= now).then(|| Rc::clone(&self.by_number[number]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptors::Descriptors;
    use causeway_dbus_wire::wire::Builder;

    fn waiting(sender: u64, wants: Wants) -> Waiting {
        let bytes = Builder::call("/", "M").build(1).unwrap();
        let message = Rc::new(Message::new(bytes, Descriptors::default()));
        Waiting::of(Some(MemberId(sender)), &message, wants)
    }

    fn senders(starts: &mut Starts, waited: Waited) -> Vec<u64> {
        let each = waited.inspect(|waiting| starts.left(waiting));
        each.map(|waiting| waiting.sender.unwrap().0).collect()
    }

    #[test]
    fn messages_wait_in_order_until_the_start_ends() {
        let (mut starts, now) = (Starts::default(), Instant::now());
        let limit = Duration::from_secs(1);
        let later = now + limit;
        let first = starts.join("a.B", waiting(1, Wants::Delivery)).unwrap_err();
        let number = starts.begin("a.B", Phase::LookedUp, now, limit, first);
        for sender in [2, 3, 2] {
            starts.join("a.B", waiting(sender, Wants::Delivery)).unwrap();
        }
        assert_eq!(starts.len(), 0);
        assert_eq!(starts.advance("a.B", Phase::Unit("b.service".into())), Some(number));
        assert_eq!((starts.len(), starts.of_unit("b.service").len(), starts.of_unit("b").len()), (1, 1, 0));
        assert_eq!(starts.name_of(number).as_deref(), Some("a.B"));
        assert_eq!((starts.expired(now), starts.next_deadline()), (None, Some(later)));
        assert_eq!(starts.expired(later).as_deref(), Some("a.B"));
        assert_eq!((starts.age("a.B", later), starts.age("a.C", later)), (Some(limit), None));
        assert_eq!(std::iter::from_fn(|| starts.take_last_of(MemberId(2))).count(), 2);
        let ended = starts.end("a.B");
        assert_eq!(senders(&mut starts, ended), [1, 3]);
        assert!(starts.of_sender.is_empty());
        assert_eq!((starts.name_of(number), starts.len(), starts.next_deadline()), (None, 0, None));
    }

    #[test]
    fn who_asks_for_a_file_waits_for_it_although_the_service_has_come() {
        let (mut starts, now) = (Starts::default(), Instant::now());
        starts.begin("a.B", Phase::LookedUp, now, Duration::from_secs(1), waiting(1, Wants::Start));
        starts.join("a.B", waiting(2, Wants::Delivery)).unwrap();
        let came = starts.came("a.B");
        assert_eq!(senders(&mut starts, came), [2]);
        assert_eq!(starts.phase("a.B"), Some(&Phase::LookedUp));
        starts.advance("a.B", Phase::Program);
        // Of those that are being told, one leaves.
        starts.join("a.B", waiting(1, Wants::Start)).unwrap();
        let came = starts.came("a.B");
        assert!(starts.take_last_of(MemberId(1)).is_none());
        assert_eq!(senders(&mut starts, came), [1, 1]);
        assert_eq!((starts.phase("a.B"), starts.len()), (None, 0));
    }

    #[test]
    fn a_name_is_looked_up_once_and_only_while_somebody_waits_for_it() {
        let (mut starts, now) = (Starts::default(), Instant::now());
        let begin = |starts: &mut Starts, name: &str, sender| {
            starts.begin(name, Phase::LookedUp, now, Duration::from_secs(1), waiting(sender, Wants::Start));
        };
        ["a.B", "a.C", "a.D"].into_iter().for_each(|name| begin(&mut starts, name, 1));
        assert_eq!(starts.take_asked(2), ["a.B", "a.C"]);
        // The time of one is over, and it is asked for again, any number of times.
        for _ in 0..3 {
            let ended = starts.end("a.D");
            senders(&mut starts, ended);
            begin(&mut starts, "a.D", 2);
        }
        starts.join("a.B", waiting(2, Wants::Delivery)).unwrap();
        let leave = |starts: &mut Starts, member| {
            std::iter::from_fn(|| starts.take_last_of(MemberId(member))).count()
        };
        assert_eq!(leave(&mut starts, 1), 2);
        // Nobody waits for its name, and its service is started all the same.
        assert_eq!(starts.phase("a.C"), Some(&Phase::LookedUp));
        starts.ask_again(["a.B", "a.C", "a.B", "a.X"].map(str::to_owned));
        assert_eq!(starts.take_asked(9), ["a.B", "a.C", "a.D"]);
        assert_eq!(starts.take_asked(9), [""; 0]);
        // But not of any number of names.
        (0..ALONE_MAX).for_each(|number| begin(&mut starts, &format!("a.E{number}"), 3));
        assert_eq!(leave(&mut starts, 3), ALONE_MAX);
        assert_eq!((starts.alone.len(), starts.by_name.len()), (ALONE_MAX, ALONE_MAX + 2));
        assert_eq!(starts.take_asked(ALONE_MAX).len(), ALONE_MAX - 1);
        starts.join("a.C", waiting(2, Wants::Start)).unwrap();
        assert!(!starts.alone.contains(&2));
        assert_eq!(leave(&mut starts, 2), 3);
        assert_eq!((starts.alone.len(), starts.by_name.len()), (ALONE_MAX, ALONE_MAX));
        // A program that is being started is waited for.
        begin(&mut starts, "a.F", 1);
        starts.advance("a.F", Phase::Program);
        assert_eq!(leave(&mut starts, 1), 1);
        assert_eq!(starts.phase("a.F"), Some(&Phase::Program));
    }
}
