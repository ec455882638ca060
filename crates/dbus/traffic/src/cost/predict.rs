//! The cost of a capture: the price of each message, and how often the broker has nothing to do before one.
//!
//! The broker is a queue with one server, and messages arrive at the times of the capture: the waiting time of each follows from that of the
//! one before (Lindley 1952, "The theory of queues with a single server"). A message that finds the queue empty finds the broker asleep,
//! and pays for its waking. No message arrives before its sender has received what was sent to it earlier in the capture. A replay as fast as
//! causes allow is the same queue without the times of the capture (`full_speed`).

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use crate::cost::curves::{Curves, Placement, Price, Quantity};
use crate::cost::full_speed::FullSpeed;
use crate::traffic::{Handled, Work};

/// What the traffic costs one broker.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// CPU time as fast as causes allow, in nanoseconds, if programs take no time.
    pub cpu_ns: f64,
    /// From the intervals of all prices, as if all erred to the same side.
    pub cpu_ns_ci95: [f64; 2],
    /// Messages that find the broker asleep then. Programs that take time let it sleep more often.
    pub sleeps: u64,
    /// CPU time if no message that is relayed finds the broker asleep, and if each does.
    pub cpu_ns_bounds: [f64; 2],
    /// Context switches if the broker sleeps before each message: no speed takes more.
    pub switches_at_most: f64,
    /// The same traffic at the times of the capture, by where the broker and its clients run.
    pub at_recorded_speed: BTreeMap<Placement, Paced>,
    /// By what the broker does.
    pub parts: Vec<Part>,
}

/// Cost of traffic whose messages arrive at given times.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Paced {
    /// CPU time, in nanoseconds.
    pub cpu_ns: f64,
    /// As in [`Cost`].
    pub cpu_ns_ci95: [f64; 2],
    /// Context switches of the broker, voluntary and not.
    pub switches: f64,
    /// As `cpu_ns_ci95`.
    pub switches_ci95: [f64; 2],
    /// Of these, those that are not voluntary: another process took the CPU from the broker, above all one that it had woken.
    pub preemptions: f64,
    /// Messages that find the broker asleep.
    pub wake_ups: u64,
}

/// One kind of work.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Part {
    /// Which.
    pub work: Work,
    /// Messages, calls or connections.
    pub messages: u64,
    /// CPU time for all of them, in nanoseconds, as fast as causes allow.
    pub cpu_ns: f64,
}

/// Adds up what messages cost a broker of these curves.
#[derive(Debug)]
pub struct Predictor<'c> {
    curves: &'c Curves,
    busy: Quantity,
    /// What it adds if each message finds the broker asleep for a moment.
    all_asleep: Quantity,
    full_speed: FullSpeed,
    switches_at_most: f64,
    parts: BTreeMap<Work, Part>,
    paced: Vec<PacedSum>,
}

/// What messages cost at the times of the capture, in one placement.
#[derive(Debug)]
struct PacedSum {
    placement: Placement,
    queue: Queue,
    sum: Price,
    wake_ups: u64,
}

/// The broker as a queue with one server. Times are nanoseconds from the first message.
#[derive(Debug, Default)]
struct Queue {
    first_ns: Option<u64>,
    /// When everything that has arrived is done.
    done_ns: f64,
    /// Did the last message find the broker asleep?
    was_asleep: bool,
    /// When a connection received the latest.
    received_ns: HashMap<u32, f64>,
}

impl<'c> Predictor<'c> {
    /// For one broker; no message yet.
    #[must_use]
    pub fn new(curves: &'c Curves) -> Predictor<'c> {
        Predictor {
            curves,
            busy: Quantity::ZERO,
            all_asleep: Quantity::ZERO,
            full_speed: FullSpeed::default(),
            switches_at_most: 0.0,
            parts: BTreeMap::new(),
            paced: curves.placements().into_iter().map(PacedSum::new).collect(),
        }
    }

    /// Adds the next message of the capture.
    pub fn add(&mut self, handled: &Handled<'_>) {
        let recipients = handled.receivers.len() as u64;
        let busy = self.curves.busy(handled.work, handled.body_bytes, recipients, &handled.unmatched);
        let mut most: f64 = 0.0;
        for paced in &mut self.paced {
            let waking = self.curves.waking(paced.placement, handled.work, recipients);
            most = most.max(waking.switches.value);
            paced.add(handled, busy, waking);
        }
        self.switches_at_most += most;
        self.busy = self.busy.plus(busy);
        let after_sleep = self.curves.after_sleep(handled.work, handled.body_bytes);
        self.all_asleep = self.all_asleep.plus(after_sleep);
        self.full_speed.take(handled, after_sleep);
        let work = handled.work;
        let part = self.parts.entry(work).or_insert(Part { work, messages: 0, cpu_ns: 0.0 });
        part.messages += 1;
        part.cpu_ns += busy.value;
    }

    /// What all of them cost.
    #[must_use]
    pub fn finish(mut self) -> Cost {
        let sleeps = self.full_speed.finish();
        // Only they differ in price.
        if let Some(relayed) = self.parts.get_mut(&Work::Relay) {
            relayed.cpu_ns += sleeps.cpu_ns.value;
        }
        let cpu_ns = self.busy.plus(sleeps.cpu_ns);
        Cost {
            cpu_ns: cpu_ns.value,
            cpu_ns_ci95: [cpu_ns.low, cpu_ns.high],
            sleeps: sleeps.messages,
            cpu_ns_bounds: [self.busy.value, self.busy.plus(self.all_asleep).value],
            switches_at_most: self.switches_at_most,
            at_recorded_speed: self.paced.into_iter().map(PacedSum::finish).collect(),
            parts: self.parts.into_values().collect(),
        }
    }
}

impl PacedSum {
    fn new(placement: Placement) -> PacedSum {
        PacedSum { placement, queue: Queue::default(), sum: Price::ZERO, wake_ups: 0 }
    }

    /// Adds the next message, which costs `busy_ns`, and `waking` where it finds the broker asleep.
    fn add(&mut self, handled: &Handled<'_>, busy_ns: Quantity, waking: Price) {
        self.sum.cpu_ns = self.sum.cpu_ns.plus(busy_ns);
        if self.queue.take(handled, busy_ns.value, waking.cpu_ns.value) {
            self.sum = self.sum.plus(waking);
            self.wake_ups += u64::from(handled.work != Work::DriverSignal);
        }
    }

    fn finish(self) -> (Placement, Paced) {
        let Price { cpu_ns, switches, preemptions } = self.sum;
        let paced = Paced {
            cpu_ns: cpu_ns.value,
            cpu_ns_ci95: [cpu_ns.low, cpu_ns.high],
            switches: switches.value,
            switches_ci95: [switches.low, switches.high],
            preemptions: preemptions.value,
            wake_ups: self.wake_ups,
        };
        (self.placement, paced)
    }
}

impl Queue {
    /// A message arrives and is handled; true if it finds the broker asleep.
    fn take(&mut self, handled: &Handled<'_>, busy_ns: f64, waking_ns: f64) -> bool {
        let first_ns = *self.first_ns.get_or_insert(handled.time_ns);
        let recorded_ns = handled.time_ns.saturating_sub(first_ns) as f64;
        // The broker makes signals of its own in the middle of its work for the message before.
        if handled.work != Work::DriverSignal {
            let cause_ns = self.received_ns.get(&handled.sender).copied().unwrap_or(0.0);
            let arrival_ns = recorded_ns.max(cause_ns);
            self.was_asleep = arrival_ns >= self.done_ns;
            self.done_ns = self.done_ns.max(arrival_ns);
        }
        self.done_ns += busy_ns + if self.was_asleep { waking_ns } else { 0.0 };
        self.received_ns.extend(handled.receivers.iter().map(|receiver| (*receiver, self.done_ns)));
        self.was_asleep
    }
}

#[cfg(test)]
mod tests {
    use crate::bus::Unmatched;
    use weighbridge_record::{CaseId, Line, PerOp, Summary};

    use super::*;

    /// A broker that takes 2 µs and 2 ns a byte for a message, 1 µs more after a moment's sleep, 3 µs for each recipient of a broadcast besides 4 µs, 10 µs for a call to
    /// itself, 20 µs for a change of rules, 30 µs for one of names, 50 µs for a connection, and 10 ns for each rule that it compares. At
    /// rest everything takes 5 µs more, and one switch; a recipient preempts it. With a CPU of its own these are 9 µs, and it is never preempted.
    fn record() -> Vec<Line> {
        let with_preemptions = |case: CaseId, cpu_ns, voluntary_switches, involuntary_switches| {
            let broker = PerOp { cpu_ns, voluntary_switches, involuntary_switches, ..PerOp::default() };
            let beside = BTreeMap::from([("broker".to_owned(), broker)]);
            Line::Summary(Summary { beside, ..Summary::new(case, "ns/roundtrip", 6, 1.0) })
        };
        let line = |case, cpu_ns, switches| with_preemptions(case, cpu_ns, switches, 0.0);
        let case = |pattern: &str, bytes| CaseId::new(pattern, "dbus-daemon", bytes, "same-cpu");
        let mut lines = Vec::new();
        for bytes in [1, 1000, 100_000] {
            let relayed = 2000.0 + 2.0 * bytes as f64;
            lines.push(line(case("roundtrip", bytes), 2.0 * (relayed + 1000.0), 2.0));
            lines.push(line(case("stream", bytes), relayed, 0.1));
            lines.push(line(case("fan-out", bytes).with("receivers", "1"), 7000.0, 1.0));
            lines.push(line(case("fan-out", bytes), 34_000.0, 1.0));
        }
        for (by, each_ns) in [("path", 10.0), ("arg0", 10.0), ("interface", 0.0)] {
            for rules in [100, 10_000] {
                let with = |case: CaseId| if by == "path" { case } else { case.with("rules-by", by) };
                let id = with(case("fan-out", 128).with("receivers", "1").with("rules", &rules.to_string()));
                lines.push(line(id, 7000.0 + each_ns * f64::from(rules), 1.0));
            }
        }
        for (call, cpu_ns) in [
            ("GetNameOwner", 10_000.0),
            ("match", 20_000.0),
            ("name", 30_000.0),
            ("connect", 50_000.0),
            ("relay", 2000.0),
            ("signal", 4000.0),
        ] {
            let id = case("solo", 0);
            let id = if call == "GetNameOwner" { id } else { id.with("call", call) };
            if !matches!(call, "relay" | "signal") {
                lines.push(line(id.clone(), cpu_ns, 1.0));
            }
            let preemptions = if call == "relay" { 1.0 } else { 0.0 };
            let id = id.with("pause-us", "1000");
            lines.push(line(id.clone().with("broker", "own"), cpu_ns + 9000.0, 1.0));
            lines.push(with_preemptions(id, cpu_ns + 5000.0, 1.0, preemptions));
        }
        lines
    }

    fn handled(work: Work, body_bytes: u64, receivers: &[u32]) -> Handled<'_> {
        Handled { time_ns: 0, work, body_bytes, unmatched: Unmatched::default(), sender: 1, receivers }
    }

    fn cost<'a>(all: impl IntoIterator<Item = Handled<'a>>) -> Cost {
        let (brokers, gaps) = Curves::of_record(&record());
        assert_eq!(gaps, [""; 0]);
        let mut predictor = Predictor::new(&brokers["dbus-daemon"]);
        all.into_iter().for_each(|handled| predictor.add(&handled));
        predictor.finish()
    }

    /// At the times of the capture, on one CPU.
    fn paced(cost: Cost) -> Paced {
        cost.at_recorded_speed[&Placement::SameCpu].clone()
    }

    #[test]
    fn each_placement_has_its_own_wake_ups_and_preemptions() {
        let relayed = |time_ns| Handled { time_ns, ..handled(Work::Relay, 0, &[2]) };
        // Done after 7 µs on one CPU, and after 11 µs on two.
        let found = cost([relayed(0), relayed(8000)]).at_recorded_speed;
        let of = |placement| {
            let Paced { cpu_ns, switches, preemptions, wake_ups, .. } = found[&placement];
            (cpu_ns.round(), switches, preemptions, wake_ups)
        };
        assert_eq!(of(Placement::SameCpu), (14_000.0, 4.0, 2.0, 2));
        assert_eq!(of(Placement::TwoCpus), (13_002.0, 1.0, 0.0, 1));
        let without = |line: &Line| !matches!(line, Line::Summary(of) if of.case.axes.contains_key("broker"));
        let lines: Vec<Line> = record().into_iter().filter(without).collect();
        let (brokers, gaps) = Curves::of_record(&lines);
        assert_eq!((brokers["dbus-daemon"].placements(), gaps.len()), (vec![Placement::SameCpu], 0));
    }

    #[test]
    fn a_known_broker_is_predicted_between_and_beyond_the_sizes_that_were_measured() {
        for (work, body_bytes, recipients, cpu_ns) in [
            (Work::Relay, 500, 1, 4000.0),
            (Work::Relay, 200_000, 1, 403_000.0),
            (Work::Broadcast, 200, 0, 4000.0),
            (Work::Broadcast, 200, 5, 19_000.0),
            (Work::Broadcast, 200, 100, 304_000.0),
            (Work::DriverSignal, 200, 0, 0.0),
            (Work::DriverSignal, 200, 5, 15_000.0),
            (Work::DriverCall, 20, 1, 10_000.0),
            (Work::MatchRule, 20, 1, 20_000.0),
            (Work::Name, 20, 1, 30_000.0),
            (Work::Connection, 20, 1, 50_000.0),
        ] {
            let receivers = vec![2; recipients];
            let found = cost([handled(work, body_bytes, &receivers)]);
            assert!((found.cpu_ns - cpu_ns).abs() < 1.0, "{work:?} {body_bytes} {recipients}: {found:?}");
        }
        let both = cost([handled(Work::Relay, 0, &[2]), handled(Work::DriverCall, 0, &[1])]);
        assert!(both.cpu_ns_ci95[0] <= both.cpu_ns && both.cpu_ns <= both.cpu_ns_ci95[1]);
        let parts: Vec<_> = both.parts.iter().map(|part| (part.work, part.messages)).collect();
        assert_eq!(parts, [(Work::DriverCall, 1), (Work::Relay, 1)]);
    }

    #[test]
    fn a_broadcast_pays_for_the_rules_that_a_broker_without_an_index_compares() {
        let with = |unmatched| cost([Handled { unmatched, ..handled(Work::Broadcast, 200, &[]) }]).cpu_ns;
        let rules = Unmatched { without_arguments: 50, with_arguments: 1000, other_interface: 70_000 };
        let many = Unmatched { without_arguments: 20_000, ..Unmatched::default() };
        for (rules, cpu_ns) in [(rules, 4000.0 + 10.0 * 1050.0), (many, 204_000.0)] {
            assert!((with(rules) - cpu_ns).abs() < 1.0, "{rules:?}: {}", with(rules));
        }
    }

    #[test]
    fn a_message_wakes_the_broker_if_everything_before_it_is_done() {
        // Each message takes 2 µs, and 5 µs more after a sleep.
        let relayed =
            |time_ns, sender, receiver| Handled { time_ns, sender, ..handled(Work::Relay, 0, receiver) };
        let wake_ups = |times: &[u64]| {
            let to = |(number, time_ns): (usize, &u64)| relayed(*time_ns, 10 + number as u32, &[1]);
            paced(cost(times.iter().enumerate().map(to)))
        };
        assert_eq!(wake_ups(&[0, 1_000_000, 2_000_000]).wake_ups, 3);
        let together = wake_ups(&[0, 100, 200]);
        assert_eq!((together.wake_ups, together.switches), (1, 2.0));
        assert!((together.cpu_ns - 11_004.0).abs() < 1.0, "{together:?}");
        assert_eq!(wake_ups(&[0, 6900, 8900, 20_000]).wake_ups, 2, "the third waits for the second");
        // A reply cannot arrive before its call, however close to it the capture has it.
        let call_and_reply = paced(cost([relayed(0, 1, &[2]), relayed(100, 2, &[1])]));
        assert_eq!(call_and_reply.wake_ups, 2);
    }

    #[test]
    fn at_full_speed_a_message_pays_for_a_sleep_if_nothing_else_is_on_its_way() {
        let relayed = |sender, receiver| Handled { sender, ..handled(Work::Relay, 500, receiver) };
        let in_turn = cost([relayed(1, &[2]), relayed(2, &[1]), relayed(1, &[2])]);
        assert_eq!((in_turn.sleeps, in_turn.cpu_ns.round()), (3, 12_000.0), "{in_turn:?}");
        let together = cost([relayed(1, &[2]), relayed(1, &[2]), relayed(1, &[2])]);
        assert_eq!((together.sleeps, together.cpu_ns.round()), (1, 10_000.0), "{together:?}");
        for of in [in_turn, together] {
            assert_eq!(of.cpu_ns_bounds.map(f64::round), [9000.0, 12_000.0]);
            assert_eq!(of.parts[0].cpu_ns, of.cpu_ns);
        }
    }

    #[test]
    fn what_the_driver_tells_wakes_only_those_that_want_it() {
        let call = handled(Work::Name, 0, &[1]);
        let told = Handled { sender: 0, ..handled(Work::DriverSignal, 0, &[2, 3, 4]) };
        let found = paced(cost([call, told]));
        let why = "each of three reads, and so wakes a broker that waits for room";
        assert_eq!((found.wake_ups, found.switches), (1, 4.0), "{why}");
    }

    #[test]
    fn a_record_without_a_curve_is_named() {
        let without = |is_left_out: &dyn Fn(&CaseId) -> bool| {
            let is_kept = |line: &Line| !matches!(line, Line::Summary(of) if is_left_out(&of.case));
            Curves::of_record(&record().into_iter().filter(is_kept).collect::<Vec<_>>())
        };
        let has = |case: &CaseId, name: &str, value: &str| case.axes.get(name).is_some_and(|is| is == value);
        type Which<'w> = &'w dyn Fn(&CaseId) -> bool;
        let cases: [(Which<'_>, &str); 8] = [
            (&|case| case.pattern == "roundtrip", "round trips"),
            (&|case| case.pattern == "stream", "streams"),
            (&|case| case.pattern == "fan-out", "receivers"),
            (&|case| case.pattern == "solo", "calls to the broker"),
            (&|case| has(case, "call", "connect"), "connections that come and go"),
            (&|case| has(case, "call", "name"), "names"),
            (&|case| has(case, "rules-by", "arg0"), "rules that do not match"),
            (&|case| has(case, "pause-us", "1000") && !case.axes.contains_key("broker"), "at rest"),
        ];
        for (is_left_out, gap) in cases {
            let (brokers, gaps) = without(is_left_out);
            assert!(brokers.is_empty() && gaps.len() == 1 && gaps[0].contains(gap), "{gap}: {gaps:?}");
        }
        assert!(Curves::of_record(&[]).0.is_empty());
    }
}
