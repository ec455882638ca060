//! Habits of callers that cost round trips or wake-ups: chains, properties one by one, polling, busy starts.

use std::collections::HashSet;

use super::calls::{Answered, MethodKey};
use super::facts::{Chain as ChainFacts, Count, Habits as HabitFacts, Polling, RepeatedGets, Start};
use super::tally::greatest;
use crate::symbols::Sym;
use rustc_hash::FxHashMap;

/// A caller that sends its next call later than this after a reply has done something else in between.
const CHAIN_GAP_NS: u64 = 5_000_000;
/// Calls that make a chain worth telling.
const CHAIN_CALLS: u64 = 10;
/// Methods of a chain that are told apart.
const CHAIN_METHODS: usize = 16;
/// Calls of `Properties.Get` further apart than this do not belong together.
const GET_GAP_NS: u64 = 100_000_000;
const FEWEST_GETS: u64 = 5;
const FEWEST_POLLS: u64 = 5;
/// Calls closer together are a loop, not polling.
const SHORTEST_POLL_NS: f64 = 20e6;
/// Standard deviation of intervals over their mean, up to which they are even.
const EVEN: f64 = 0.3;
/// Distinct calls that are watched for polling.
const MOST_WATCHED: usize = 1 << 15;
const START_NS: u64 = 1_000_000_000;
const BUSY_START: u64 = 20;

/// Caller, destination, object, interface, member, hash of the arguments.
type Watched = ([Sym; 5], u64);

#[derive(Debug, Default)]
pub(super) struct Habits {
    callers: FxHashMap<Sym, Caller>,
    gets: FxHashMap<(Sym, Sym), Gets>,
    watched: FxHashMap<Watched, Intervals>,
    is_full: bool,
    chains: Vec<(Sym, Chain)>,
    repeated: Vec<((Sym, Sym), Gets)>,
}

#[derive(Debug, Default)]
struct Caller {
    open: u32,
    chain: Chain,
    /// Since its Hello, without its name; the start is the time of the capture.
    start: Option<Start>,
}

impl Caller {
    /// Its start, if this is a part of it.
    fn start_at(&mut self, time_ns: u64) -> Option<&mut Start> {
        self.start.as_mut().filter(|start| time_ns.saturating_sub(start.start_ns) <= START_NS)
    }
}

#[derive(Debug, Default)]
struct Chain {
    calls: u64,
    first_ns: u64,
    last_reply_ns: u64,
    waiting_ns: u64,
    methods: Vec<(MethodKey, u64)>,
}

#[derive(Debug, Default)]
struct Gets {
    count: u64,
    first_ns: u64,
    last_ns: u64,
    objects: HashSet<Sym>,
    interfaces: HashSet<Sym>,
}

/// Mean and sum of squared deviations of intervals, by Welford's method.
#[derive(Debug, Default)]
struct Intervals {
    calls: u64,
    last_ns: u64,
    mean_ns: f64,
    squares: f64,
}

/// What habits look at in a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub caller: Sym,
    pub method: MethodKey,
    pub path: Sym,
    /// Whose property `Properties.Get` asks for.
    pub property_interface: Sym,
    pub args_hash: u64,
    pub expects_reply: bool,
    pub is_to_driver: bool,
    pub is_hello: bool,
    pub is_add_match: bool,
    pub time_ns: u64,
}

impl Habits {
    /// A message of any type passes.
    pub fn sent(&mut self, sender: Sym, time_ns: u64) {
        if let Some(start) = self.callers.entry(sender).or_default().start_at(time_ns) {
            start.messages += 1;
        }
    }

    pub fn call(&mut self, call: &Call) {
        self.watch(call);
        if call.property_interface != Sym::NONE {
            self.get(call);
        }
        let caller = self.callers.entry(call.caller).or_default();
        if call.is_hello {
            let start = Start { start_ns: call.time_ns, messages: 1, ..Start::default() };
            *caller = Caller { start: Some(start), ..Caller::default() };
        }
        if let Some(start) = caller.start_at(call.time_ns) {
            start.driver_calls += u64::from(call.is_to_driver);
            start.add_match_calls += u64::from(call.is_add_match);
        }
        if !call.expects_reply {
            return;
        }
        let pause_ns = call.time_ns.saturating_sub(caller.chain.last_reply_ns);
        if caller.open > 0 || caller.chain.calls == 0 || pause_ns > CHAIN_GAP_NS {
            let first = Chain { first_ns: call.time_ns, ..Chain::default() };
            let ended = std::mem::replace(&mut caller.chain, first);
            self.chains.extend((ended.calls >= CHAIN_CALLS).then_some((call.caller, ended)));
        }
        // A call while another is open ends a chain and begins none.
        if caller.open == 0 {
            caller.chain.add(call.method);
        }
        caller.open += 1;
        trim(&mut self.chains, |(_, chain)| chain.waiting_ns);
    }

    /// The reply to a call of `caller` passes.
    pub fn reply(&mut self, caller: Sym, answered: Answered, time_ns: u64) {
        let caller = self.callers.entry(caller).or_default();
        caller.open = caller.open.saturating_sub(1);
        if caller.open == 0 && caller.chain.calls > 0 {
            caller.chain.last_reply_ns = time_ns;
            caller.chain.waiting_ns += answered.latency_ns;
        }
    }

    pub fn finish(mut self, start_ns: u64, name: impl Fn(Sym) -> String) -> HabitFacts {
        let since = |time_ns: u64| time_ns.saturating_sub(start_ns);
        let mut starts = Vec::new();
        for (sym, caller) in self.callers {
            self.chains.extend((caller.chain.calls >= CHAIN_CALLS).then_some((sym, caller.chain)));
            let start = caller.start.filter(|start| start.driver_calls >= BUSY_START);
            let told =
                |start: Start| Start { connection: name(sym), start_ns: since(start.start_ns), ..start };
            starts.extend(start.map(told));
        }
        let chains = self.chains.into_iter().map(|(caller, chain)| ChainFacts {
            caller: name(caller),
            calls: chain.calls,
            start_ns: since(chain.first_ns),
            duration_ns: chain.last_reply_ns.saturating_sub(chain.first_ns),
            waiting_ns: chain.waiting_ns,
            methods: methods(&chain.methods, &name),
        });
        self.repeated.extend(self.gets.into_iter().filter(|(_, gets)| gets.count >= FEWEST_GETS));
        let repeated = self.repeated.into_iter().map(|((caller, destination), gets)| RepeatedGets {
            caller: name(caller),
            destination: name(destination),
            gets: gets.count,
            objects: gets.objects.len() as u64,
            interfaces: gets.interfaces.len() as u64,
            start_ns: since(gets.first_ns),
            duration_ns: gets.last_ns - gets.first_ns,
        });
        let polling = self.watched.into_iter().filter(|(_, seen)| seen.are_even());
        let polling = polling.map(|(([caller, destination, path, interface, member], _), seen)| Polling {
            caller: name(caller),
            destination: name(destination),
            path: name(path),
            interface: name(interface),
            member: name(member),
            calls: seen.calls,
            interval_ns: seen.mean_ns as u64,
        });
        HabitFacts {
            chains: greatest(chains, |row| row.waiting_ns, |row| row.start_ns),
            repeated_gets: greatest(repeated, |row| row.gets, |row| row.start_ns),
            polling: greatest(
                polling,
                |row| row.calls,
                |row| (row.caller.clone(), row.path.clone(), row.interval_ns),
            ),
            starts: greatest(starts, |row| row.driver_calls, |row| row.start_ns),
        }
    }

    fn get(&mut self, call: &Call) {
        let key = (call.caller, call.method[0]);
        let gets = self.gets.entry(key).or_default();
        if call.time_ns.saturating_sub(gets.last_ns) > GET_GAP_NS {
            let ended = std::mem::replace(gets, Gets { first_ns: call.time_ns, ..Gets::default() });
            self.repeated.extend((ended.count >= FEWEST_GETS).then_some((key, ended)));
            trim(&mut self.repeated, |(_, gets)| gets.count);
        }
        gets.count += 1;
        gets.last_ns = call.time_ns.max(gets.first_ns);
        gets.objects.insert(call.path);
        gets.interfaces.insert(call.property_interface);
    }

    fn watch(&mut self, call: &Call) {
        // Rules that are added again are a matter of their own.
        if self.is_full || call.is_add_match {
            return;
        }
        if self.watched.len() >= MOST_WATCHED {
            // What came once is no polling yet; where half of the rest came often, the table is full of findings.
            self.watched.retain(|_, seen| seen.calls > 1);
            self.is_full = self.watched.len() >= MOST_WATCHED / 2;
        }
        let [destination, interface, member] = call.method;
        let key = ([call.caller, destination, call.path, interface, member], call.args_hash);
        self.watched.entry(key).or_default().add(call.time_ns);
    }
}

/// The greatest of many, now and then, so that a list does not grow with the capture.
fn trim<T>(rows: &mut Vec<T>, value: impl Fn(&T) -> u64) {
    if rows.len() >= 4 * super::facts::MOST_ROWS {
        rows.sort_by_key(|row| std::cmp::Reverse(value(row)));
        rows.truncate(super::facts::MOST_ROWS);
    }
}

fn methods(called: &[(MethodKey, u64)], name: &impl Fn(Sym) -> String) -> Vec<Count> {
    let row = |([_, interface, member], calls): &(MethodKey, u64)| Count {
        name: format!("{}.{}", name(*interface), name(*member)),
        messages: *calls,
        bytes: 0,
    };
    let mut rows: Vec<Count> = called.iter().map(row).collect();
    rows.sort_by(|a, b| b.messages.cmp(&a.messages).then_with(|| a.name.cmp(&b.name)));
    rows.truncate(3);
    rows
}

impl Chain {
    fn add(&mut self, method: MethodKey) {
        self.calls += 1;
        if let Some((_, calls)) = self.methods.iter_mut().find(|(known, _)| known[1..] == method[1..]) {
            *calls += 1;
        } else if self.methods.len() < CHAIN_METHODS {
            self.methods.push((method, 1));
        }
    }
}

impl Intervals {
    fn add(&mut self, time_ns: u64) {
        if self.calls > 0 {
            let interval = time_ns.saturating_sub(self.last_ns) as f64;
            let off = interval - self.mean_ns;
            self.mean_ns += off / self.calls as f64;
            self.squares += off * (interval - self.mean_ns);
        }
        self.calls += 1;
        self.last_ns = time_ns;
    }

    fn are_even(&self) -> bool {
        let variance = self.squares / (self.calls.max(2) - 1) as f64;
        self.calls >= FEWEST_POLLS
            && self.mean_ns >= SHORTEST_POLL_NS
            && variance.sqrt() <= EVEN * self.mean_ns
    }
}
