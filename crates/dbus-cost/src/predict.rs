//! The cost of a capture: the price of each class of its messages times their number.

use serde::Serialize;
use weighbridge_dbus::traffic::{Load, Work};

use crate::curves::{Curves, Quantity};

/// What the traffic costs one broker.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// CPU time, in nanoseconds.
    pub cpu_ns: f64,
    /// From the intervals of all prices, as if all erred to the same side.
    pub cpu_ns_ci95: [f64; 2],
    /// Context switches of the broker, if it sleeps after each message as it did when the curves were measured.
    pub switches: f64,
    /// As `cpu_ns_ci95`.
    pub switches_ci95: [f64; 2],
    /// By what the broker does.
    pub parts: Vec<Part>,
}

/// One kind of work.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Part {
    /// Which.
    pub work: Work,
    /// Messages, or calls.
    pub messages: u64,
    /// CPU time for all of them, in nanoseconds.
    pub cpu_ns: f64,
}

/// What these messages cost a broker of these curves.
pub fn predict(loads: &[Load], curves: &Curves) -> Cost {
    let mut parts: Vec<Part> = Vec::new();
    let nothing = Quantity { value: 0.0, low: 0.0, high: 0.0 };
    let (mut cpu, mut switches) = (nothing, nothing);
    for load in loads {
        let Some(price) = curves.price(load.work, load.body_bytes, load.recipients) else { continue };
        let times = load.messages as f64;
        for (sum, of) in [(&mut cpu, price.cpu_ns), (&mut switches, price.switches)] {
            sum.value += of.value * times;
            sum.low += of.low * times;
            sum.high += of.high * times;
        }
        let part = match parts.iter_mut().find(|part| part.work == load.work) {
            Some(part) => part,
            None => {
                parts.push(Part { work: load.work, messages: 0, cpu_ns: 0.0 });
                parts.last_mut().expect("just added")
            }
        };
        part.messages += load.messages;
        part.cpu_ns += price.cpu_ns.value * times;
    }
    Cost {
        cpu_ns: cpu.value,
        cpu_ns_ci95: [cpu.low, cpu.high],
        switches: switches.value,
        switches_ci95: [switches.low, switches.high],
        parts,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use weighbridge_record::{CaseId, Line, PerOp, Summary};

    use super::*;

    /// A broker that takes 2 µs and 2 ns a byte for a message, 3 µs for each recipient of a broadcast besides 4 µs, 10 µs for a call to
    /// itself and 20 µs for a match rule, and sleeps once for each.
    fn record() -> Vec<Line> {
        let line = |case: CaseId, cpu_ns: f64, switches: f64| {
            let broker = PerOp { cpu_ns, voluntary_switches: switches, ..PerOp::default() };
            Line::Summary(Summary {
                beside: BTreeMap::from([("broker".to_owned(), broker)]),
                ..Summary::new(case, "ns/roundtrip", 6, 1.0)
            })
        };
        let case = |pattern: &str, bytes| CaseId::new(pattern, "dbus-daemon", bytes, "same-cpu");
        let mut lines = Vec::new();
        for bytes in [1, 1000, 100_000] {
            let relayed = 2000.0 + 2.0 * bytes as f64;
            lines.push(line(case("roundtrip", bytes), 2.0 * relayed, 2.0));
            lines.push(line(case("fan-out", bytes).with("receivers", "1"), 7000.0, 1.0));
            lines.push(line(case("fan-out", bytes), 34_000.0, 1.0));
        }
        lines.push(line(case("solo", 0), 10_000.0, 1.0));
        lines.push(line(case("solo", 0).with("call", "match"), 40_000.0, 2.0));
        lines
    }

    fn load(work: Work, body_bytes: u64, recipients: u64, messages: u64) -> Load {
        Load { work, body_bytes, recipients, messages }
    }

    #[test]
    fn a_known_broker_is_predicted_between_and_beyond_the_sizes_that_were_measured() {
        let (brokers, gaps) = Curves::of_record(&record());
        assert_eq!(gaps, [""; 0]);
        let cost = |loads: &[Load]| predict(loads, &brokers["dbus-daemon"]);
        for (loads, cpu_ns) in [
            (load(Work::Relay, 500, 1, 10), 30_000.0),
            (load(Work::Relay, 200_000, 1, 1), 402_000.0),
            (load(Work::Broadcast, 200, 0, 2), 8000.0),
            (load(Work::Broadcast, 200, 5, 1), 19_000.0),
            (load(Work::Broadcast, 200, 100, 1), 304_000.0),
            (load(Work::DriverCall, 20, 1, 3), 30_000.0),
            (load(Work::MatchRule, 20, 1, 3), 60_000.0),
        ] {
            let found = cost(&[loads]);
            assert!((found.cpu_ns - cpu_ns).abs() < 1.0, "{loads:?}: {found:?}");
            assert!((found.switches - loads.messages as f64).abs() < 1e-9, "{loads:?}: {found:?}");
        }
        let both = cost(&[load(Work::Relay, 0, 1, 1), load(Work::DriverCall, 0, 1, 4)]);
        assert!(both.cpu_ns_ci95[0] <= both.cpu_ns && both.cpu_ns <= both.cpu_ns_ci95[1]);
        assert_eq!(both.parts.iter().map(|part| part.messages).collect::<Vec<_>>(), [1, 4]);
    }

    #[test]
    fn a_record_without_a_curve_is_named() {
        let without = |pattern: &str| {
            let is_kept = |line: &Line| !matches!(line, Line::Summary(of) if of.case.pattern == pattern);
            Curves::of_record(&record().into_iter().filter(is_kept).collect::<Vec<_>>())
        };
        for (pattern, gap) in
            [("roundtrip", "round trips"), ("fan-out", "receivers"), ("solo", "calls to the broker")]
        {
            let (brokers, gaps) = without(pattern);
            assert!(
                brokers.is_empty() && gaps.iter().all(|said| said.contains(gap)) && gaps.len() == 1,
                "{gaps:?}"
            );
        }
        assert!(Curves::of_record(&[]).0.is_empty());
    }
}
