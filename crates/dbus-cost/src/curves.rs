//! Costs of a broker by size, from a record of the suite `dbus-curves`.

use std::collections::BTreeMap;

use weighbridge_dbus::traffic::Work;
use weighbridge_record::{CaseId, Line, PerOp, Run, Summary};
use weighbridge_stats::Evidence;

/// The process beside the roles whose counts a record has.
const BROKER: &str = "broker";
/// The calls to the broker itself that are measured, and the work that they stand for.
const CALLS: [(&str, Work); 4] = [
    ("GetId", Work::DriverCall),
    ("NameHasOwner", Work::DriverCall),
    ("GetNameOwner", Work::DriverCall),
    ("match", Work::MatchRule),
];
/// An operation `match` adds a rule and removes it.
const CALLS_OF_MATCH: f64 = 2.0;
/// A round trip is two messages that are relayed.
const MESSAGES_OF_ROUND_TRIP: f64 = 2.0;

/// A value with its interval at 95 %.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantity {
    /// The value.
    pub value: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Quantity {
    fn scaled(self, by: f64) -> Quantity {
        Quantity { value: self.value * by, low: self.low * by, high: self.high * by }
    }

    /// Part way to another.
    fn towards(self, other: Quantity, part: f64) -> Quantity {
        let between = |from: f64, to: f64| from + (to - from) * part;
        Quantity {
            value: between(self.value, other.value),
            low: between(self.low, other.low),
            high: between(self.high, other.high),
        }
    }

    fn mean(all: &[Quantity]) -> Option<Quantity> {
        let mean = |of: fn(&Quantity) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
        (!all.is_empty()).then(|| Quantity {
            value: mean(|of| of.value),
            low: mean(|of| of.low),
            high: mean(|of| of.high),
        })
    }
}

/// CPU time in nanoseconds and context switches of one message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Price {
    pub(crate) cpu_ns: Quantity,
    pub(crate) switches: Quantity,
}

impl Price {
    fn scaled(self, by: f64) -> Price {
        Price { cpu_ns: self.cpu_ns.scaled(by), switches: self.switches.scaled(by) }
    }

    fn towards(self, other: Price, part: f64) -> Price {
        Price {
            cpu_ns: self.cpu_ns.towards(other.cpu_ns, part),
            switches: self.switches.towards(other.switches, part),
        }
    }
}

/// Prices by bytes of the body.
type Curve = BTreeMap<u64, Price>;

/// Everything that a record says of one broker.
#[derive(Clone, Debug, Default)]
pub struct Curves {
    relayed: Curve,
    /// By number of recipients.
    broadcast: BTreeMap<u64, Curve>,
    driver_calls: Vec<Price>,
    match_rules: Option<Price>,
}

impl Curves {
    /// The curves of each broker of a record, by its name. Brokers whose curves have a gap are left out, with the reason.
    pub fn of_record(lines: &[Line]) -> (BTreeMap<String, Curves>, Vec<String>) {
        let mut runs: BTreeMap<&CaseId, Vec<&PerOp>> = BTreeMap::new();
        for run in lines.iter().filter_map(|line| if let Line::Run(run) = line { Some(run) } else { None }) {
            runs.entry(&run.case).or_default().extend(of_broker(run));
        }
        let mut brokers: BTreeMap<String, Curves> = BTreeMap::new();
        for line in lines {
            let Line::Summary(summary) = line else { continue };
            let Some(price) = price(summary, runs.get(&summary.case).map_or(&[], Vec::as_slice)) else {
                continue;
            };
            brokers.entry(summary.case.mechanism.clone()).or_default().take(&summary.case, price);
        }
        let mut gaps = Vec::new();
        brokers.retain(|name, curves| match curves.gap() {
            None => true,
            Some(gap) => {
                gaps.push(format!("{name}: the record has no {gap}"));
                false
            }
        });
        (brokers, gaps)
    }

    fn take(&mut self, case: &CaseId, price: Price) {
        let axis = |name: &str| case.axes.get(name).map(String::as_str);
        let others = |known: &[&str]| case.axes.keys().any(|name| !known.contains(&name.as_str()));
        match case.pattern.as_str() {
            "roundtrip" if !others(&[]) => {
                self.relayed.insert(case.payload_bytes, price.scaled(1.0 / MESSAGES_OF_ROUND_TRIP));
            }
            "fan-out" if !others(&["receivers"]) => {
                let receivers = axis("receivers").map_or(Some(10), |count| count.parse().ok());
                if let Some(receivers) = receivers {
                    self.broadcast.entry(receivers).or_default().insert(case.payload_bytes, price);
                }
            }
            "solo" if !others(&["call"]) => {
                let call = axis("call").unwrap_or("GetNameOwner");
                match CALLS.iter().find(|(name, _)| *name == call) {
                    Some((_, Work::MatchRule)) => self.match_rules = Some(price.scaled(1.0 / CALLS_OF_MATCH)),
                    Some(_) => self.driver_calls.push(price),
                    None => {}
                }
            }
            _ => {}
        }
    }

    fn gap(&self) -> Option<&'static str> {
        let lacks = [
            (self.relayed.is_empty(), "round trips"),
            (
                self.broadcast.values().filter(|curve| !curve.is_empty()).count() < 2,
                "signals to two numbers of receivers",
            ),
            (self.driver_calls.is_empty(), "calls to the broker"),
            (self.match_rules.is_none(), "match rules"),
        ];
        lacks.into_iter().find_map(|(lacks, what)| lacks.then_some(what))
    }

    /// What one message costs.
    pub(crate) fn price(&self, work: Work, body_bytes: u64, recipients: u64) -> Option<Price> {
        match work {
            Work::Relay => at(&self.relayed, body_bytes),
            Work::MatchRule => self.match_rules,
            Work::DriverCall => {
                let of = |quantity: fn(&Price) -> Quantity| {
                    Quantity::mean(&self.driver_calls.iter().map(quantity).collect::<Vec<_>>())
                };
                Some(Price { cpu_ns: of(|price| price.cpu_ns)?, switches: of(|price| price.switches)? })
            }
            Work::Broadcast => {
                let ends = (self.broadcast.first_key_value()?, self.broadcast.last_key_value()?);
                let ((fewest, least), (most, greatest)) = ends;
                let (low, high) = (at(least, body_bytes)?, at(greatest, body_bytes)?);
                // Each further recipient costs the same.
                let part = (recipients as f64 - *fewest as f64) / (*most as f64 - *fewest as f64);
                Some(low.towards(high, part))
            }
        }
    }
}

/// The price at a size: a straight line between two points, and on beyond the ends.
fn at(curve: &Curve, bytes: u64) -> Option<Price> {
    let mut below = curve.range(..=bytes).rev();
    let mut above = curve.range(bytes..);
    let (from, to) = match (below.next(), above.next()) {
        (Some((_, price)), Some((at, _))) if *at == bytes => return Some(*price),
        (Some(from), Some(to)) => (from, to),
        (None, Some(first)) => return Some(*first.1),
        (Some(last), None) => match below.next() {
            Some(before) => (before, last),
            None => return Some(*last.1),
        },
        (None, None) => return None,
    };
    let part = (bytes as f64 - *from.0 as f64) / (*to.0 as f64 - *from.0 as f64);
    Some(from.1.towards(*to.1, part))
}

fn of_broker(run: &Run) -> Option<&PerOp> {
    run.roles.iter().find(|role| role.role == BROKER).map(|role| &role.per_op)
}

/// What the broker did for an operation of a case, with intervals from its runs.
fn price(summary: &Summary, runs: &[&PerOp]) -> Option<Price> {
    let middle = summary.beside.get(BROKER)?;
    let quantity = |of: fn(&PerOp) -> f64| {
        let value = of(middle);
        let logs: Vec<f64> = runs.iter().map(|run| of(run)).filter(|of| *of > 0.0).map(f64::ln).collect();
        match Evidence::Paired(logs).interval(0.95) {
            Some(interval) => {
                Quantity { value, low: interval.low.min(value), high: interval.high.max(value) }
            }
            None => Quantity { value, low: value, high: value },
        }
    };
    Some(Price {
        cpu_ns: quantity(|of| of.cpu_ns),
        switches: quantity(|of| of.voluntary_switches + of.involuntary_switches),
    })
}
