//! What the traffic costs each broker, as a table.

use std::collections::BTreeMap;

use weighbridge_dbus::traffic::Work;
use weighbridge_dbus_cost::Cost;

use super::document::{Section, Table};
use super::sections::grouped;

/// The section of the costs; none without a broker.
pub fn section(costs: &BTreeMap<String, Cost>) -> Option<Section> {
    let rows: Vec<(&String, &Cost)> = costs.iter().collect();
    let ms = |ns: f64| format!("{:.1}", ns / 1e6);
    let bounds = rows.iter().map(|(name, cost)| {
        let [least, most] = cost.cpu_ns_bounds.map(ms);
        let switches = grouped(cost.switches_at_most.round() as u64);
        format!("{name} {least} to {most} ms and {switches} switches at most")
    });
    let about = vec![
        "CPU time of each broker as fast as causes allow, if programs take no time, and its parts; then CPU time and context switches at the times of \
         the capture, where a message that comes when all before it are done finds the broker asleep. The prices are those of the record."
            .to_owned(),
        format!(
            "From a broker that is never asleep when a message for one connection comes to one that always is: {}.",
            bounds.collect::<Vec<_>>().join(", ")
        ),
    ];
    let row = |(name, cost): &(&String, &Cost)| {
        let share = |works: &[Work]| {
            let of = cost.parts.iter().filter(|part| works.contains(&part.work));
            let part: f64 = of.map(|part| part.cpu_ns).sum();
            format!("{:.0} %", 100.0 * part / cost.cpu_ns.max(1.0))
        };
        let paced = &cost.at_recorded_speed;
        vec![
            (*name).clone(),
            ms(cost.cpu_ns),
            // One run of each curve has no interval.
            match cost.cpu_ns_ci95 {
                [low, high] if low < high => format!("{} to {}", ms(low), ms(high)),
                _ => "–".into(),
            },
            share(&[Work::Connection, Work::Name]),
            share(&[Work::DriverCall]),
            share(&[Work::MatchRule]),
            share(&[Work::Relay]),
            share(&[Work::Broadcast, Work::DriverSignal]),
            ms(paced.cpu_ns),
            grouped(paced.switches.round() as u64),
        ]
    };
    let head = [
        "broker",
        "CPU ms",
        "interval",
        "connections, names",
        "driver calls",
        "match rules",
        "relayed",
        "broadcasts",
        "CPU ms as recorded",
        "switches as recorded",
    ];
    (!rows.is_empty()).then(|| Section {
        heading: "Cost",
        about,
        table: Some(Table::new(&head, 1, rows.len(), &rows, row)),
    })
}
