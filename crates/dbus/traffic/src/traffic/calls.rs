//! Calls and their replies: how long they take, which never come, which are inside which.

use hdrhistogram::Histogram;
use rustc_hash::FxHashMap;

use super::facts::{Calls as CallFacts, Latency, Method as MethodFacts};
use super::tally::greatest;
use crate::symbols::Sym;

/// The time-out of libdbus and most other libraries.
const TIMEOUT_NS: u64 = 25_000_000_000;
/// Methods that are told apart; calls of others are counted together.
const MOST_METHODS: usize = 8_192;
/// Calls waiting for a reply, above which the table is searched for those that never get one.
const MANY_OPEN: usize = 1 << 16;
/// Calls of one callee that may be the reason of a call that it makes.
const MOST_SERVED: usize = 32;

/// Destination, interface, member.
pub(super) type MethodKey = [Sym; 3];
type CallKey = (Sym, u32);

#[derive(Debug)]
struct Open {
    time_ns: u64,
    method: MethodKey,
    outer: Option<CallKey>,
}

/// A call that its callee has not answered yet.
#[derive(Debug)]
struct Served {
    call: CallKey,
    depth: u32,
    time_ns: u64,
}

/// A call that was answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answered {
    pub method: MethodKey,
    pub latency_ns: u64,
}

#[derive(Debug, Default)]
pub(super) struct Times {
    histogram: Option<Histogram<u32>>,
    total_ns: u64,
    max_ns: u64,
}

/// Without its names and its latency, which are made at the end.
#[derive(Debug, Default)]
struct Method {
    facts: MethodFacts,
    times: Times,
}

#[derive(Debug, Default)]
pub(super) struct Calls {
    open: FxHashMap<CallKey, Open>,
    /// Calls that a connection has not answered yet.
    serving: FxHashMap<Sym, Vec<Served>>,
    methods: FxHashMap<MethodKey, Method>,
    times: Times,
    /// Counts, and the depth of the deepest calls.
    facts: CallFacts,
    deepest: Vec<Sym>,
}

impl Calls {
    /// A call passes. `destination` is the connection, not a name of it.
    pub fn call(
        &mut self,
        key: CallKey,
        method: MethodKey,
        expects_reply: bool,
        is_driver: bool,
        time_ns: u64,
    ) {
        let is_told_apart = self.methods.len() < MOST_METHODS || self.methods.contains_key(&method);
        let method = if is_told_apart { method } else { [Sym::NONE; 3] };
        self.methods.entry(method).or_default().facts.calls += 1;
        if !expects_reply {
            return;
        }
        self.facts.expecting_reply += 1;
        if let Some(replaced) = self.open.remove(&key) {
            self.give_up(key, &replaced);
        }
        // The caller has timed out by then: what the callee calls now is not nested in that call.
        let is_awaited = |served: &&Served| time_ns.saturating_sub(served.time_ns) < TIMEOUT_NS;
        let outer = self.serving.get(&key.0).and_then(|served| served.iter().rev().find(is_awaited));
        let depth = outer.map_or(1, |served| served.depth + 1);
        let outer = outer.map(|served| served.call);
        self.open.insert(key, Open { time_ns, method, outer });
        if !is_driver {
            let served = self.serving.entry(method[0]).or_default();
            if served.len() == MOST_SERVED {
                served.remove(0);
            }
            served.push(Served { call: key, depth, time_ns });
        }
        if depth > self.facts.deepest_nesting {
            self.facts.deepest_nesting = depth;
            self.deepest = self.connections_of(key, method[0]);
        }
        if self.open.len() > MANY_OPEN {
            self.sweep(time_ns);
        }
    }

    pub fn reply(&mut self, key: CallKey, is_error: bool, time_ns: u64) -> Option<Answered> {
        let Some(open) = self.open.remove(&key) else {
            self.facts.without_call += 1;
            return None;
        };
        self.serves_no_longer(key, &open);
        let latency_ns = time_ns.saturating_sub(open.time_ns);
        let method = self.methods.entry(open.method).or_default();
        method.facts.errors += u64::from(is_error);
        method.times.add(latency_ns);
        self.times.add(latency_ns);
        Some(Answered { method: open.method, latency_ns })
    }

    /// What became of all calls. `driver` is left out of those without a reply where the capture has none of its replies.
    pub fn finish(mut self, end_ns: u64, driver: Option<Sym>, name: impl Fn(Sym) -> String) -> CallFacts {
        for (key, open) in std::mem::take(&mut self.open) {
            if driver == Some(open.method[0]) {
                continue;
            }
            if end_ns.saturating_sub(open.time_ns) < TIMEOUT_NS {
                self.facts.open_at_end += 1;
            } else {
                self.give_up(key, &open);
            }
        }
        // Calls that were given up on the way count no more than those at the end.
        for (_, method) in self.methods.iter_mut().filter(|(method, _)| driver == Some(method[0])) {
            self.facts.unanswered -= std::mem::take(&mut method.facts.unanswered);
        }
        let mut merged: FxHashMap<(String, Sym, Sym), Method> = FxHashMap::default();
        for ([destination, interface, member], method) in self.methods {
            merged.entry((name(destination), interface, member)).or_default().add(method);
        }
        let methods = merged.into_iter().map(|((destination, interface, member), method)| MethodFacts {
            destination,
            interface: name(interface),
            member: name(member),
            latency: method.times.latency(),
            ..method.facts
        });
        let tie =
            |row: &MethodFacts| (std::cmp::Reverse(row.calls), row.destination.clone(), row.member.clone());
        CallFacts {
            latency: self.times.latency(),
            methods: greatest(methods, |row| row.latency.total_us, tie),
            deepest: self.deepest.iter().map(|sym| name(*sym)).collect(),
            ..self.facts
        }
    }

    fn serves_no_longer(&mut self, key: CallKey, open: &Open) {
        if let Some(served) = self.serving.get_mut(&open.method[0]) {
            served.retain(|served| served.call != key);
        }
    }

    fn give_up(&mut self, key: CallKey, open: &Open) {
        self.serves_no_longer(key, open);
        self.facts.unanswered += 1;
        self.methods.entry(open.method).or_default().facts.unanswered += 1;
    }

    /// Counts calls that wait beyond every time-out, so that the table does not grow with them.
    fn sweep(&mut self, now_ns: u64) {
        let is_late = |open: &Open| now_ns.saturating_sub(open.time_ns) > 4 * TIMEOUT_NS;
        let late: Vec<(CallKey, Open)> = self.open.extract_if(|_, open| is_late(open)).collect();
        late.iter().for_each(|(key, open)| self.give_up(*key, open));
    }

    /// Callers from the outermost call to this one, and its callee.
    fn connections_of(&self, key: CallKey, callee: Sym) -> Vec<Sym> {
        let mut connections = vec![callee, key.0];
        let mut at = self.open.get(&key).and_then(|open| open.outer);
        while let Some(key) = at {
            connections.push(key.0);
            at = self.open.get(&key).and_then(|open| open.outer);
        }
        connections.reverse();
        connections
    }
}

impl Method {
    fn add(&mut self, other: Method) {
        self.facts.calls += other.facts.calls;
        self.facts.errors += other.facts.errors;
        self.facts.unanswered += other.facts.unanswered;
        self.times.total_ns += other.times.total_ns;
        self.times.max_ns = self.times.max_ns.max(other.times.max_ns);
        match (&mut self.times.histogram, other.times.histogram) {
            (Some(sum), Some(other)) => {
                sum.add(other).expect("histograms of the same kind grow as they must")
            }
            (none @ None, other) => *none = other,
            (Some(_), None) => {}
        }
    }
}

/// Upwards: a part of a microsecond is not nothing, and what is said to take at most so long does.
fn whole_us(ns: u64) -> u64 {
    ns.div_ceil(1_000)
}

impl Times {
    fn add(&mut self, latency_ns: u64) {
        let histogram =
            self.histogram.get_or_insert_with(|| Histogram::new(2).expect("two digits are a precision"));
        histogram.record(whole_us(latency_ns)).expect("a histogram that grows takes every value");
        self.max_ns = self.max_ns.max(latency_ns);
        self.total_ns += latency_ns;
    }

    fn latency(&self) -> Latency {
        let Some(histogram) = &self.histogram else { return Latency::default() };
        let max_us = whole_us(self.max_ns);
        let share = |share| histogram.value_at_quantile(share).min(max_us);
        Latency {
            count: histogram.len(),
            p50_us: share(0.5),
            p90_us: share(0.9),
            p99_us: share(0.99),
            max_us,
            total_us: self.total_ns / 1_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::Symbols;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn a_call_that_nobody_waits_for_any_more_is_no_reason_of_a_later_one() {
        let mut symbols = Symbols::default();
        let [app, service, other] = [":1.1", ":1.2", ":1.3"].map(|name| symbols.add(name));
        let nesting = |replies: bool, replaced: bool, gap_ns: u64| {
            let mut calls = Calls::default();
            calls.call((app, 1), [service, Sym::NONE, Sym::NONE], true, false, 0);
            if replies {
                calls.reply((app, 1), false, 10);
            }
            if replaced {
                // The same serial again, to somebody else.
                calls.call((app, 1), [other, Sym::NONE, Sym::NONE], true, false, 20);
            }
            calls.call((service, 1), [other, Sym::NONE, Sym::NONE], true, false, gap_ns);
            calls.facts.deepest_nesting
        };
        assert_eq!(nesting(false, false, SECOND_NS), 2);
        assert_eq!(nesting(true, false, SECOND_NS), 1);
        assert_eq!(nesting(false, true, SECOND_NS), 1);
        assert_eq!(nesting(false, false, 30 * SECOND_NS), 1);
    }

    #[test]
    fn calls_of_a_driver_whose_answers_are_missing_are_not_unanswered() {
        let mut symbols = Symbols::default();
        let [app, driver] = [":1.1", "org.freedesktop.DBus"].map(|name| symbols.add(name));
        let unanswered = |ignored| {
            let mut calls = Calls::default();
            // The second has the serial of the first, and so ends the wait for it.
            for time_ns in [0, 1] {
                calls.call((app, 1), [driver, Sym::NONE, Sym::NONE], true, true, time_ns);
            }
            let facts = calls.finish(100 * SECOND_NS, ignored, |sym| sym.0.to_string());
            (facts.unanswered, facts.methods[0].unanswered)
        };
        assert_eq!(unanswered(None), (2, 2));
        assert_eq!(unanswered(Some(driver)), (0, 0));
    }

    #[test]
    fn a_latency_below_a_microsecond_is_not_nothing() {
        let mut times = Times::default();
        (0..20).for_each(|_| times.add(900));
        let latency = times.latency();
        assert_eq!((latency.p50_us, latency.p99_us, latency.max_us, latency.total_us), (1, 1, 1, 18));
    }
}
