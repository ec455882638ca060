//! What the traffic costs each broker, as tables.

use std::collections::BTreeMap;

use weighbridge_dbus_traffic::cost::{Cost, Paced, Placement};
use weighbridge_dbus_traffic::traffic::Work;
use weighbridge_report::{Section, Table, grouped};

/// The sections of the costs; none without a broker.
pub fn sections(costs: &BTreeMap<String, Cost>) -> Vec<Section> {
    if costs.is_empty() { Vec::new() } else { vec![at_full_speed(costs), as_recorded(costs)] }
}

fn ms(ns: f64) -> String {
    format!("{:.1}", ns / 1e6)
}

/// One run of each curve has no interval.
fn interval(ends: [f64; 2], shown: fn(f64) -> String) -> String {
    match ends {
        [low, high] if low < high => format!("{} to {}", shown(low), shown(high)),
        _ => "–".into(),
    }
}

fn at_full_speed(costs: &BTreeMap<String, Cost>) -> Section {
    let rows: Vec<(&String, &Cost)> = costs.iter().collect();
    let bounds = rows.iter().map(|(name, cost)| {
        let [least, most] = cost.cpu_ns_bounds.map(ms);
        let switches = grouped(cost.switches_at_most.round() as u64);
        format!("{name} {least} to {most} ms and {switches} switches at most")
    });
    let about = [
        "CPU time of each broker as fast as causes allow, if programs take no time, and its parts. The prices are those of the record."
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
        let shares = [
            &[Work::Connection, Work::Name][..],
            &[Work::DriverCall],
            &[Work::MatchRule],
            &[Work::Relay],
            &[Work::Broadcast, Work::DriverSignal],
        ];
        let figures = [(*name).clone(), ms(cost.cpu_ns), interval(cost.cpu_ns_ci95, ms)];
        figures.into_iter().chain(shares.map(share)).collect()
    };
    let head = ["broker", "CPU ms", "interval"];
    let head =
        [&head[..], &["connections, names", "driver calls", "match rules", "relayed", "broadcasts"]].concat();
    Section::of("Cost", about, Table::of_first(&head, 1, rows.len(), &rows, row).blocks())
}

fn as_recorded(costs: &BTreeMap<String, Cost>) -> Section {
    let about = [
        "CPU time and context switches of each broker at the times of the capture, where a message that comes when all before it are done finds the \
         broker asleep. On one CPU each program that the broker wakes may preempt it, as often as clients do that work less than the broker; on a CPU \
         of its own none does."
            .to_owned(),
    ];
    let rows: Vec<(&String, &Placement, &Paced)> = costs
        .iter()
        .flat_map(|(name, cost)| {
            cost.at_recorded_speed.iter().map(move |(place, paced)| (name, place, paced))
        })
        .collect();
    let whole = |count: f64| grouped(count.round() as u64);
    let row = |(name, place, paced): &(&String, &Placement, &Paced)| {
        let place = match place {
            Placement::SameCpu => "one CPU for all",
            Placement::TwoCpus => "a CPU of its own",
        };
        vec![
            (*name).clone(),
            place.to_owned(),
            ms(paced.cpu_ns),
            interval(paced.cpu_ns_ci95, ms),
            whole(paced.switches),
            interval(paced.switches_ci95, |count| grouped(count.round() as u64)),
            whole(paced.preemptions),
            grouped(paced.wake_ups),
        ]
    };
    let head =
        ["broker", "where", "CPU ms", "interval", "switches", "interval", "of them preempted", "wake-ups"];
    let table = Table::of_first(&head, 2, rows.len(), &rows, row);
    Section::of("Cost at the recorded times", about, table.blocks())
}
