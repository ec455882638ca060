//! Costs of a broker by size, from a record of the suite `dbus-curves`.

use std::collections::BTreeMap;

use crate::bus::Unmatched;
use crate::traffic::Work;
use serde::Serialize;
use weighbridge_record::{CaseId, Line, PerOp, Summary};
use weighbridge_stats::Evidence;

/// The auxiliary process whose counts a record has.
const BROKER: &str = "broker";
/// What one program does with a broker alone, and the work that it stands for.
const ALONE: [(&str, Work); 8] = [
    ("GetId", Work::DriverCall),
    ("NameHasOwner", Work::DriverCall),
    ("GetNameOwner", Work::DriverCall),
    ("match", Work::MatchRule),
    ("name", Work::Name),
    ("connect", Work::Connection),
    ("relay", Work::Relay),
    ("signal", Work::Broadcast),
];
/// A round trip is two messages that are relayed.
const MESSAGES_OF_ROUND_TRIP: f64 = 2.0;

/// A value with its interval at 95 %.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quantity {
    /// The value.
    pub value: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Quantity {
    pub(crate) const ZERO: Quantity = Quantity { value: 0.0, low: 0.0, high: 0.0 };

    /// Both together, as if both erred to the same side.
    pub(crate) fn plus(self, other: Quantity) -> Quantity {
        Quantity { value: self.value + other.value, low: self.low + other.low, high: self.high + other.high }
    }

    /// What it exceeds another by, as if both erred to opposite sides; nothing where it does not.
    pub(crate) fn beyond(self, other: Quantity) -> Quantity {
        let beyond = |of: f64, other: f64| (of - other).max(0.0);
        Quantity {
            value: beyond(self.value, other.value),
            low: beyond(self.low, other.high),
            high: beyond(self.high, other.low),
        }
    }

    fn scaled(self, by: f64) -> Quantity {
        Quantity { value: self.value * by, low: self.low * by, high: self.high * by }
    }

    /// Part way to another, or past either: the one that is subtracted then errs to the opposite side.
    fn towards(self, other: Quantity, part: f64) -> Quantity {
        let ends = |of: Quantity, share: f64| if share < 0.0 { [of.high, of.low] } else { [of.low, of.high] };
        let ([low, high], [other_low, other_high]) = (ends(self, 1.0 - part), ends(other, part));
        let at = |of: f64, other: f64| (1.0 - part) * of + part * other;
        Quantity { value: at(self.value, other.value), low: at(low, other_low), high: at(high, other_high) }
    }

    fn mean(all: impl ExactSizeIterator<Item = Quantity>) -> Option<Quantity> {
        let count = all.len() as f64;
        all.reduce(Quantity::plus).map(|sum| sum.scaled(1.0 / count))
    }
}

/// CPU time in nanoseconds and context switches of one message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Price {
    pub(crate) cpu_ns: Quantity,
    /// Voluntary and not.
    pub(crate) switches: Quantity,
    /// Of these, those that are not voluntary.
    pub(crate) preemptions: Quantity,
}

impl Price {
    pub(crate) const ZERO: Price =
        Price { cpu_ns: Quantity::ZERO, switches: Quantity::ZERO, preemptions: Quantity::ZERO };

    fn with(self, other: Price, of: impl Fn(Quantity, Quantity) -> Quantity) -> Price {
        Price {
            cpu_ns: of(self.cpu_ns, other.cpu_ns),
            switches: of(self.switches, other.switches),
            preemptions: of(self.preemptions, other.preemptions),
        }
    }

    pub(crate) fn plus(self, other: Price) -> Price {
        self.with(other, Quantity::plus)
    }

    fn scaled(self, by: f64) -> Price {
        self.with(Price::ZERO, |of, _| of.scaled(by))
    }

    fn towards(self, other: Price, part: f64) -> Price {
        self.with(other, |of, other| of.towards(other, part))
    }
}

type Curve = BTreeMap<u64, Price>;

/// Where a broker runs and where its clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// The broker and its clients have one CPU: a client that the broker wakes may preempt it.
    SameCpu,
    /// The broker has one CPU, its clients have another one.
    TwoCpus,
}

impl Placement {
    const ALL: [Placement; 2] = [Placement::SameCpu, Placement::TwoCpus];

    /// Of a case whose roles have one CPU.
    fn of(case: &CaseId) -> Option<Placement> {
        match case.axes.get("broker").map(String::as_str) {
            _ if case.placement != "same-cpu" => None,
            None => Some(Placement::SameCpu),
            Some("own") => Some(Placement::TwoCpus),
            Some(_) => None,
        }
    }
}

/// Everything that a record says of one broker.
#[derive(Clone, Debug, Default)]
pub struct Curves {
    /// Of a message that finds the broker asleep for a moment, as each of a round trip does.
    relayed: Curve,
    /// Of one among others that follow each other.
    streamed: Curve,
    broadcast: BTreeMap<u64, Curve>,
    /// Calls to the broker, rules, names and connections: one price for each case.
    alone: BTreeMap<Work, Vec<Price>>,
    /// The same and messages, each after a while in which nothing happened.
    at_rest: BTreeMap<Placement, BTreeMap<Work, Price>>,
    /// Broadcasts to one, by number of rules that do not match, with their payload: other paths, arguments, interfaces.
    beside_rules: [BTreeMap<u64, (u64, Price)>; 3],
    /// What the rules add to a broadcast, from none on.
    comparisons: [Curve; 3],
}

impl Curves {
    /// The curves of each broker of a record, by its name. Brokers whose curves have a gap are left out, with the reason.
    pub fn of_record(lines: &[Line]) -> (BTreeMap<String, Curves>, Vec<String>) {
        let mut runs: BTreeMap<&CaseId, Vec<&PerOp>> = BTreeMap::new();
        for line in lines {
            let Line::Run(run) = line else { continue };
            let of_broker = run.roles.iter().find(|role| role.role == BROKER);
            runs.entry(&run.case).or_default().extend(of_broker.map(|role| &role.per_op));
        }
        let mut brokers: BTreeMap<String, Curves> = BTreeMap::new();
        for line in lines {
            let Line::Summary(summary) = line else { continue };
            let runs = runs.get(&summary.case).map_or(&[][..], Vec::as_slice);
            if let Some(price) = price(summary, runs) {
                brokers.entry(summary.case.mechanism.clone()).or_default().take(&summary.case, price);
            }
        }
        let mut gaps = Vec::new();
        brokers.retain(|name, curves| match curves.gap() {
            None => {
                curves.comparisons = std::array::from_fn(|class| curves.comparisons_with(class));
                true
            }
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
            "stream" if !others(&[]) => drop(self.streamed.insert(case.payload_bytes, price)),
            "fan-out" if !others(&["receivers", "rules", "rules-by"]) => {
                let receivers: Option<u64> = axis("receivers").map_or(Some(10), |count| count.parse().ok());
                let rules: Option<u64> = axis("rules").map_or(Some(0), |count| count.parse().ok());
                let class = match axis("rules-by") {
                    None | Some("path") => 0,
                    Some("arg0") => 1,
                    Some(_) => 2,
                };
                match (receivers, rules) {
                    (Some(receivers), Some(0)) => {
                        self.broadcast.entry(receivers).or_default().insert(case.payload_bytes, price);
                    }
                    (Some(1), Some(rules)) => {
                        self.beside_rules[class].insert(rules, (case.payload_bytes, price));
                    }
                    _ => {}
                }
            }
            "solo" if !others(&["broker", "call", "pause-us"]) => {
                let call = axis("call").unwrap_or("GetNameOwner");
                let Some((_, work)) = ALONE.iter().find(|(name, _)| *name == call) else { return };
                match (Placement::of(case), axis("pause-us")) {
                    (Some(placement), Some(_)) => {
                        self.at_rest.entry(placement).or_default().insert(*work, price);
                    }
                    (Some(Placement::SameCpu), None) => self.alone.entry(*work).or_default().push(price),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn gap(&self) -> Option<&'static str> {
        let lacks_alone = |work| !self.alone.contains_key(&work);
        let is_never_at_rest = !self.placements().contains(&Placement::SameCpu);
        let lacks = [
            (self.relayed.is_empty(), "round trips"),
            (self.streamed.is_empty(), "streams of calls that want no reply"),
            (self.broadcast.len() < 2, "signals to two numbers of receivers"),
            (lacks_alone(Work::DriverCall), "calls to the broker"),
            (lacks_alone(Work::MatchRule), "match rules"),
            (lacks_alone(Work::Name), "names that are requested and released"),
            (lacks_alone(Work::Connection), "connections that come and go"),
            (self.beside_rules.iter().any(BTreeMap::is_empty), "rules that do not match"),
            (is_never_at_rest, "messages to a broker at rest on the CPU of its clients"),
        ];
        lacks.into_iter().find_map(|(lacks, what)| lacks.then_some(what))
    }

    /// The placements of which the record has the prices of everything that finds a broker at rest.
    pub(crate) fn placements(&self) -> Vec<Placement> {
        let has_all = |placement: &Placement| {
            let at_rest = self.at_rest.get(placement);
            at_rest.is_some_and(|prices| ALONE.iter().all(|(_, work)| prices.contains_key(work)))
        };
        Placement::ALL.into_iter().filter(has_all).collect()
    }

    /// What one message costs in CPU time where message follows message. One that is relayed finds the broker awake; other work has its price in
    /// loops in which the broker sleeps for a moment before each.
    pub(crate) fn busy(&self, work: Work, body_bytes: u64, recipients: u64, rules: &Unmatched) -> Quantity {
        let price = match work {
            Work::Relay => at(&self.streamed, body_bytes),
            Work::Broadcast => self.sent_to(body_bytes, recipients),
            // What is told of has its own price, with the telling.
            Work::DriverSignal => self
                .each_recipient(body_bytes)
                .map(|each| Price { cpu_ns: each.scaled(recipients as f64), ..Price::ZERO }),
            Work::DriverCall | Work::MatchRule | Work::Name | Work::Connection => {
                let all = self.alone[&work].iter().map(|price| price.cpu_ns);
                Quantity::mean(all).map(|cpu_ns| Price { cpu_ns, ..Price::ZERO })
            }
        };
        let counts = [rules.without_arguments, rules.with_arguments, rules.other_interface];
        let of_rules = self.comparisons.iter().zip(counts).filter(|(_, count)| *count > 0);
        let of_rules =
            of_rules.filter_map(|(curve, count)| Some(at(curve, count)?.cpu_ns.beyond(Quantity::ZERO)));
        of_rules.fold(price.expect("curves have no gaps").cpu_ns, Quantity::plus)
    }

    /// What a message costs beyond [`busy`](Curves::busy) that finds the broker asleep for a moment.
    pub(crate) fn after_sleep(&self, work: Work, body_bytes: u64) -> Quantity {
        match (work, at(&self.relayed, body_bytes), at(&self.streamed, body_bytes)) {
            (Work::Relay, Some(asleep), Some(busy)) => asleep.cpu_ns.beyond(busy.cpu_ns),
            _ => Quantity::ZERO,
        }
    }

    /// What a message costs beyond [`busy`](Curves::busy) that finds the broker at rest, in one of [`placements`](Curves::placements): CPU time, and all
    /// of the switches.
    pub(crate) fn waking(&self, placement: Placement, work: Work, recipients: u64) -> Price {
        let at_rest = &self.at_rest[&placement];
        let (nobody, one) = (at_rest[&Work::Broadcast], at_rest[&Work::Relay]);
        // What a recipient adds: it is asleep too, and may wake the broker when it has read.
        let further = one.with(nobody, Quantity::beyond).scaled(recipients as f64);
        let all = match work {
            Work::Broadcast => nobody.plus(further),
            // Nobody sends it, so it wakes only those that get it.
            Work::DriverSignal => Price::ZERO.plus(further),
            _ => at_rest[&work],
        };
        let busy = self.busy(work, 0, recipients, &Unmatched::default());
        Price { cpu_ns: all.cpu_ns.beyond(busy), ..all }
    }

    fn sent_to(&self, body_bytes: u64, recipients: u64) -> Option<Price> {
        let ([fewest, most], low, high) = self.fewest_and_most(body_bytes)?;
        // Each further recipient costs the same.
        Some(low.towards(high, (recipients as f64 - fewest) / (most - fewest)))
    }

    /// CPU time that a further recipient of a broadcast adds.
    fn each_recipient(&self, body_bytes: u64) -> Option<Quantity> {
        let ([fewest, most], low, high) = self.fewest_and_most(body_bytes)?;
        Some(high.cpu_ns.beyond(low.cpu_ns).scaled(1.0 / (most - fewest)))
    }

    /// The least and the greatest number of recipients that were measured, and the price of a broadcast to each.
    fn fewest_and_most(&self, body_bytes: u64) -> Option<([f64; 2], Price, Price)> {
        let (fewest, least) = self.broadcast.first_key_value()?;
        let (most, greatest) = self.broadcast.last_key_value()?;
        Some(([*fewest as f64, *most as f64], at(least, body_bytes)?, at(greatest, body_bytes)?))
    }

    /// CPU time beyond that of the same broadcast without rules that do not match.
    fn comparisons_with(&self, class: usize) -> Curve {
        let without = |bytes: u64| self.sent_to(bytes, 1).map_or(Quantity::ZERO, |price| price.cpu_ns);
        let beyond = |(count, (bytes, price)): (&u64, &(u64, Price))| {
            (*count, Price { cpu_ns: price.cpu_ns.beyond(without(*bytes)), ..Price::ZERO })
        };
        std::iter::once((0, Price::ZERO)).chain(self.beside_rules[class].iter().map(beyond)).collect()
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

/// What the broker did for an operation of a case, with intervals from its runs.
fn price(summary: &Summary, runs: &[&PerOp]) -> Option<Price> {
    let middle = summary.beside.get(BROKER)?;
    let quantity = |of: fn(&PerOp) -> f64| {
        let value = of(middle);
        let logs: Vec<f64> = runs.iter().map(|run| of(run)).filter(|of| *of > 0.0).map(f64::ln).collect();
        let ends = Evidence::paired(logs).interval(0.95).map(|interval| [interval.low, interval.high]);
        let [low, high] = ends.unwrap_or([value; 2]);
        Quantity { value, low: low.min(value), high: high.max(value) }
    };
    Some(Price {
        cpu_ns: quantity(|of| of.cpu_ns),
        switches: quantity(|of| of.voluntary_switches + of.involuntary_switches),
        preemptions: quantity(|of| of.involuntary_switches),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_has_the_uncertainty_of_both_and_is_not_below_nothing() {
        let (ten, four) =
            (Quantity { value: 10.0, low: 9.0, high: 12.0 }, Quantity { value: 4.0, low: 3.0, high: 6.0 });
        assert_eq!(ten.beyond(four), Quantity { value: 6.0, low: 3.0, high: 9.0 });
        assert_eq!(four.beyond(ten), Quantity::ZERO);
        let eight = Quantity { value: 8.0, low: 5.0, high: 11.0 };
        assert_eq!(ten.beyond(eight), Quantity { value: 2.0, low: 0.0, high: 7.0 });
    }

    #[test]
    fn a_line_between_two_intervals_is_wider_outside_of_them() {
        let (from, to) =
            (Quantity { value: 10.0, low: 9.0, high: 11.0 }, Quantity { value: 20.0, low: 18.0, high: 24.0 });
        assert_eq!(from.towards(to, 0.5), Quantity { value: 15.0, low: 13.5, high: 17.5 });
        assert_eq!(from.towards(to, 2.0), Quantity { value: 30.0, low: 25.0, high: 39.0 });
        assert_eq!(from.towards(to, -1.0), Quantity { value: 0.0, low: -6.0, high: 4.0 });
    }
}
