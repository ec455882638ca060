//! Services that are being started, and what waits for them. No processes: the caller starts them and says what became of them.

use std::rc::Rc;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use crate::member::MemberId;
use crate::message::Message;

#[derive(Clone, Debug)]
pub struct Waiting {
    pub sender: MemberId,
    /// A call of `StartServiceByName`, or a message to the service itself.
    pub message: Rc<Message>,
    pub asks_to_start: bool,
}

#[derive(Debug)]
struct Start {
    number: u64,
    begun: Instant,
    deadline: Instant,
    waiting: Vec<Waiting>,
}

#[derive(Debug, Default)]
pub struct Starts {
    by_name: FxHashMap<Rc<str>, Start>,
    count: u64,
}

impl Starts {
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Lets a message wait for a service that is being started; gives it back if it is not.
    pub fn join(&mut self, name: &str, waiting: Waiting) -> Result<(), Waiting> {
        match self.by_name.get_mut(name) {
            Some(start) => {
                start.waiting.push(waiting);
                Ok(())
            }
            None => Err(waiting),
        }
    }

    /// A service is being started now; returns the number of this start.
    pub fn begin(&mut self, name: &str, begun: Instant, limit: Duration, waiting: Waiting) -> u64 {
        self.count += 1;
        let start = Start { number: self.count, begun, deadline: begun + limit, waiting: vec![waiting] };
        self.by_name.insert(name.into(), start);
        self.count
    }

    /// How long ago the start of this service began; nothing if it is not being started.
    pub fn age(&self, name: &str, now: Instant) -> Option<Duration> {
        self.by_name.get(name).map(|start| now.saturating_duration_since(start.begun))
    }

    /// The service is there, or will not come: what has waited for it, in order.
    pub fn end(&mut self, name: &str) -> Vec<Waiting> {
        self.by_name.remove(name).map(|start| start.waiting).unwrap_or_default()
    }

    /// The name that a start is for, unless it has ended.
    pub fn name_of(&self, number: u64) -> Option<Rc<str>> {
        self.by_name.iter().find(|(_, start)| start.number == number).map(|(name, _)| Rc::clone(name))
    }

    /// A member is gone: what it sent waits no longer. Returns that.
    pub fn remove(&mut self, member: MemberId) -> Vec<Waiting> {
        let starts = self.by_name.values_mut();
        starts.flat_map(|start| start.waiting.extract_if(.., |waiting| waiting.sender == member)).collect()
    }

    pub fn next_deadline(&self) -> Option<Instant> {
        self.by_name.values().map(|start| start.deadline).min()
    }

    /// A service whose time is over.
    pub fn expired(&self, now: Instant) -> Option<Rc<str>> {
        self.by_name.iter().find(|(_, start)| start.deadline <= now).map(|(name, _)| Rc::clone(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptors::Descriptors;
    use causeway_dbus_wire::wire::Builder;

    fn waiting(sender: u64) -> Waiting {
        let bytes = Builder::call("/", "M").build(1).unwrap();
        let message = Rc::new(Message::new(bytes, Descriptors::default()));
        Waiting { sender: MemberId(sender), message, asks_to_start: false }
    }

    #[test]
    fn messages_wait_in_order_until_the_start_ends() {
        let (mut starts, now) = (Starts::default(), Instant::now());
        let limit = Duration::from_secs(1);
        let later = now + limit;
        let first = starts.join("a.B", waiting(1)).unwrap_err();
        let number = starts.begin("a.B", now, limit, first);
        for sender in [2, 3, 2] {
            starts.join("a.B", waiting(sender)).unwrap();
        }
        assert_eq!(starts.name_of(number).as_deref(), Some("a.B"));
        assert_eq!((starts.expired(now), starts.next_deadline()), (None, Some(later)));
        assert_eq!(starts.expired(later).as_deref(), Some("a.B"));
        assert_eq!((starts.age("a.B", later), starts.age("a.C", later)), (Some(limit), None));
        assert_eq!(starts.remove(MemberId(2)).len(), 2);
        let senders: Vec<u64> = starts.end("a.B").iter().map(|waiting| waiting.sender.0).collect();
        assert_eq!(senders, [1, 3]);
        assert_eq!((starts.name_of(number), starts.len()), (None, 0));
    }
}
