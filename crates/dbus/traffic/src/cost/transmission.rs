//! What a message takes by its size, from a record of the suite `dbus-ping-pong`, or of `weighbridge dbus ping-pong` on a bus that runs.

use std::collections::BTreeMap;

use serde::Serialize;
use weighbridge_record::{CaseId, Line};
use weighbridge_stats::curve::interpolate;

use crate::traffic::SizeClass;

/// A call and its reply are two messages, each with the array.
const MESSAGES_OF_ROUND_TRIP: f64 = 2.0;

/// What the calls of `weighbridge dbus ping-pong` are named in its record.
const OF_A_BUS: &str = "dbus-ping-pong:call";

/// Nanoseconds of a message by its size, through one broker: between two sizes that were measured on the straight line.
#[derive(Clone, Debug, PartialEq)]
pub struct Transmission(Vec<(f64, f64)>);

/// What the messages of one class of size take together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ClassTime {
    /// Most bytes of a message of the class.
    pub to_bytes: u64,
    /// The time of all its messages, one after the other.
    pub transmission_ns: f64,
}

impl Transmission {
    /// Those of each broker whose calls the record has at two sizes or more: of the suite on one CPU, of a bus that runs where it runs.
    #[must_use]
    pub fn of_record(lines: &[Line]) -> BTreeMap<String, Transmission> {
        let mut points: BTreeMap<String, BTreeMap<u64, f64>> = BTreeMap::new();
        for line in lines {
            let Line::Summary(summary) = line else { continue };
            let CaseId { pattern, placement, mechanism, payload_bytes, axes, .. } = &summary.case;
            let is_of_suite = pattern == "roundtrip" && placement == "same-cpu";
            let is_of_bus = pattern == "imported" && mechanism == OF_A_BUS && summary.unit == "ns/roundtrip";
            if (is_of_suite || is_of_bus) && axes.is_empty() {
                let of_broker = points.entry(mechanism.clone()).or_default();
                of_broker.insert(*payload_bytes, summary.median / MESSAGES_OF_ROUND_TRIP);
            }
        }
        let points = points.into_iter().filter(|(_, points)| points.len() > 1);
        points
            .map(|(name, points)| {
                let points = points.into_iter().map(|(bytes, ns)| (bytes as f64, ns));
                (name, Transmission(points.collect()))
            })
            .collect()
    }

    /// Of one message: as the smallest that was measured below it, and on the last line beyond the largest.
    #[must_use]
    pub fn message_ns(&self, bytes: f64) -> f64 {
        let ((first, first_ns), last) = (self.0[0], self.0.len() - 1);
        if bytes <= first {
            return first_ns;
        }
        interpolate(&self.0, bytes).unwrap_or_else(|| {
            let ((x0, y0), (x1, y1)) = (self.0[last - 1], self.0[last]);
            y1 + (y1 - y0) / (x1 - x0) * (bytes - x1)
        })
    }

    /// Of all messages of each class, by their mean size: the ends of classes are sizes that the suite measures, so that the line of a class is
    /// straight.
    #[must_use]
    pub fn of_classes(&self, sizes: &[SizeClass]) -> Vec<ClassTime> {
        let class = |class: &SizeClass| ClassTime {
            to_bytes: class.to_bytes,
            transmission_ns: class.messages as f64
                * self.message_ns(class.bytes as f64 / class.messages.max(1) as f64),
        };
        sizes.iter().map(class).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use weighbridge_record::import::{About, Import, Input};

    use super::*;

    #[test]
    fn a_message_takes_what_lies_on_the_line_between_two_sizes() {
        let of = Transmission(vec![(1.0, 10.0), (101.0, 20.0), (201.0, 60.0)]);
        for (bytes, ns) in
            [(0.0, 10.0), (1.0, 10.0), (51.0, 15.0), (101.0, 20.0), (151.0, 40.0), (301.0, 100.0)]
        {
            assert!((of.message_ns(bytes) - ns).abs() < 1e-9, "{bytes} bytes: {}", of.message_ns(bytes));
        }
        let class = |to_bytes, messages, bytes| SizeClass { from_bytes: 1, to_bytes, messages, bytes };
        let times = of.of_classes(&[class(100, 2, 102), class(316, 10, 1510), class(1000, 0, 0)]);
        let ns: Vec<f64> = times.iter().map(|class| class.transmission_ns).collect();
        assert_eq!(ns, [30.0, 400.0, 0.0]);
    }

    #[test]
    fn calls_of_a_bus_that_runs_tell_what_messages_take_as_those_of_the_suite_do() {
        let text = include_str!("../../../../lab/record/tests/files/dbus-ping-pong.json");
        let mut import = Import::default();
        assert_eq!(import.add(Input { path: Path::new("calls.json"), text }).problems, []);
        let lines: Vec<_> = import.into_lines(&About::default()).collect();
        let of = Transmission::of_record(&lines);
        let [(name, of)] = of.iter().collect::<Vec<_>>()[..] else { panic!("one bus: {of:?}") };
        assert_eq!((name.as_str(), of.0.len()), (OF_A_BUS, 2));
        assert!(of.message_ns(1.0) > 0.0);
    }
}
