//! When each thing happens in an operation: phases with their shares, and a picture of a few operations.

use weighbridge_record::{BrokerTime, MissingSwitches, Phase, Timeline, looking_interval};

use super::Context;
use crate::chart::Drawing;
use crate::document::{Block, Section, Table};
use crate::suite::broker_time;
use crate::units::{count, with_unit};
use crate::words::{many, plain};

const ABOUT: &str = "Each of these is a marked run: its times are longer than those of a measurement and are no result. A share is the part of all \
                     operations together, where phases follow each other; a median is over the operations that have the phase. In a picture each lane is a CPU or a process; the \
                     upper bar shows calls of a role, or halts and interrupts of a CPU, the lower bar shows what runs. The pointer on a bar or \
                     an arrow shows its name and length.";

/// Fewer such switches for an operation than this, or half this share of a broker's time, are not worth a word.
const SELDOM: f64 = 0.05;
/// More than this times as slow is not the same broker.
const MOST_LOOKING: f64 = 1.1;
/// Time lines that are not folded.
const OPEN: usize = 2;

/// None where no record has a time line.
pub fn sections(cx: &Context<'_>) -> Vec<Section> {
    let mut blocks: Vec<Block> = Vec::new();
    for (index, timeline) in cx.report.timelines.iter().enumerate() {
        let subject = plain(&timeline.what.subject);
        let inside = of(&timeline.what);
        if index >= OPEN {
            blocks.push(Block::fold(subject, inside));
        } else {
            blocks.push(Block::Heading(subject));
            blocks.extend(inside);
        }
    }
    if !blocks.is_empty() {
        blocks.insert(0, Block::Paragraph(ABOUT.into()));
    }
    Section::new("timeline", "Time line", blocks)
}

fn of(timeline: &Timeline) -> Vec<Block> {
    let mut blocks = vec![Block::sentences(sentences(timeline))];
    let figures = (!timeline.phases.is_empty()).then(|| phases(timeline));
    blocks.extend(timeline.broker.iter().flat_map(broker));
    if timeline.picture.lanes.is_empty() {
        blocks.extend(figures.map(Block::Table));
    } else {
        let title = format!("Operations of usual length of {}", plain(&timeline.subject));
        blocks.push(Block::chart(title, "", Drawing::Timeline(timeline.picture.clone()), figures));
    }
    blocks
}

fn sentences(timeline: &Timeline) -> Vec<String> {
    let mut sentences = Vec::new();
    let ns = |value: f64| with_unit("ns", value);
    if timeline.operations == 0 {
        sentences.push("no operation was seen whole, from its beginning to its end".into());
    } else {
        let [p10, median, p90] = timeline.operation_ns.map(ns);
        // One run each, in this order: their ratio would say more than is known.
        let unmarked = timeline.unmarked_ns.map(|value| format!("; median {} in an unmarked run", ns(value)));
        sentences.push(format!(
            "{} operations: median {median}, 10 % below {p10}, 10 % above {p90}{}",
            timeline.operations,
            unmarked.unwrap_or_default()
        ));
    }
    if let Some(switches) = timeline.switches_per_operation {
        let preempted = timeline.preempted_per_operation.iter().filter(|(_, times)| **times >= SELDOM);
        let preempted: Vec<String> =
            preempted.map(|(role, times)| format!("{} {}", plain(role), count(*times))).collect();
        let away = "; of them away from a role that could have gone on (preempted, or it yielded): ";
        let away = if preempted.is_empty() { "" } else { away };
        let (switches, preempted) = (count(switches), preempted.join(", "));
        sentences.push(format!(
            "{switches} context switches an operation, from and to its processes{away}{preempted}"
        ));
        let by = timeline.preempted_by.iter().filter(|(_, times)| **times >= SELDOM);
        let by: Vec<String> =
            by.map(|(cause, times)| format!("{} {}", words(cause), count(*times))).collect();
        if !by.is_empty() {
            sentences.push(format!("why they lost the CPU: {}", by.join(", ")));
        }
    }
    if let Some(mark_ns) = timeline.mark_ns {
        sentences.push(format!("a mark costs {}, by two that follow each other", ns(mark_ns)));
    }
    if let Some(why) = &timeline.refused {
        sentences.push(format!(
            "only the roles' own marks, because the kernel's events are not available: {}",
            plain(why)
        ));
    }
    if !timeline.unrecorded_cpus.is_empty() {
        let cpus: Vec<String> = timeline.unrecorded_cpus.iter().map(u32::to_string).collect();
        sentences.push(format!(
            "its processes may run on CPU {}, which was not recorded: switches are not counted, and a hop there looks like one without a \
             wake-up",
            cpus.join(", ")
        ));
    }
    sentences.extend(timeline.missing_switches.iter().map(missing));
    if timeline.lost_events > 0 {
        sentences.push(format!(
            "at least {} events were lost; operations near them are left out, and a picture marks them red",
            timeline.lost_events
        ));
    }
    sentences
}

/// A reason for a preemption.
fn words(cause: &str) -> String {
    match cause {
        "wake-up" => "another thread was woken".into(),
        "tick" => "the timer ended a time slice".into(),
        "other" => "yielded, or not recorded".into(),
        other => plain(other),
    }
}

/// What the parts of a broker's time come to, beside what the kernel counts.
pub(super) fn parts(time: &BrokerTime, when: &str) -> Vec<String> {
    let BrokerTime { counted_ns, .. } = *time;
    let (ns, percent) = (|value| with_unit("ns", value), |of: f64| time.sum_ns() / of * 100.0);
    let mut said = vec![format!(
        "broker: the parts come to {}, {:.0} % of the {} of CPU time that the kernel counts for an operation {when}",
        ns(time.sum_ns()),
        percent(counted_ns),
        ns(counted_ns),
    )];
    let uncounted = time.uncounted_ns.filter(|ns| ns.abs() >= SELDOM / 2.0 * counted_ns);
    said.extend(uncounted.map(|uncounted_ns| {
        format!(
            "from a wake-up to the switch that it causes pass {} for an operation (time line), which the kernel counts for who is woken: the parts are \
             {:.0} % of what it counts and that",
            ns(uncounted_ns),
            percent(time.expected_ns()),
        )
    }));
    said
}

/// What it costs a broker to be looked at.
pub(super) fn cost_of_looking(looking_ratio: [f64; 3], rounds: u64) -> String {
    let percent = |ratio: f64| format!("{:+.1}", (ratio - 1.0) * 100.0).replace('-', "−");
    let interval = looking_interval(looking_ratio)
        .map_or("no interval".to_owned(), |[low, high]| format!("{} to {} %", percent(low), percent(high)));
    format!(
        "{} % of the broker's CPU time ({interval}, {})",
        percent(looking_ratio[0]),
        many(rounds as usize, "round")
    )
}

/// What the broker does, by its system calls.
fn broker(time: &BrokerTime) -> Vec<Block> {
    let [ratio, ..] = time.looking_ratio;
    let mut said = parts(time, "when nobody looks");
    let within = if ratio > MOST_LOOKING {
        "; that is much, and `--only kernel` has the parts by samples for less"
    } else {
        ""
    };
    said.push(format!(
        "the cost of looking, which is taken off the parts: {}{within}",
        cost_of_looking(time.looking_ratio, time.rounds),
    ));
    let calls: Vec<String> =
        time.calls.iter().map(|(name, times)| format!("{} {}", plain(name), count(*times))).collect();
    said.push(format!("its system calls for an operation: {}", calls.join(", ")));
    said.push("dispatch is what it does outside of system calls: parsing, matching, marshalling".into());
    let table = broker_time(
        "The broker's CPU time of an operation by its system calls, µs; beside it those of a signal to 10 subscribers in 2011",
        &[("here".into(), Some(time))],
        &["277 B", "17 kB"],
    );
    vec![table, Block::sentences(said)]
}

fn missing(of: &MissingSwitches) -> String {
    let MissingSwitches { cpu, count, from_idle } = of;
    let from_idle = match from_idle {
        0 => String::new(),
        all if all == count => ", all of them away from its idle task".into(),
        some => format!(", {some} of them away from its idle task"),
    };
    format!(
        "the kernel did not record at least {count} switches on CPU {cpu}{from_idle}: a role may have run there unseen, switches are not counted, \
         a hop may look like one without a wake-up, and a picture marks these times red"
    )
}

fn phases(timeline: &Timeline) -> Table {
    let row = |phase: &Phase| {
        let [p10, median, p90] = phase.phase_ns.map(|value| with_unit("ns", value));
        let share = phase.share.map_or("–".into(), |share| format!("{:.1} %", share * 100.0));
        [plain(&phase.phase), share, median, p10, p90, phase.count.to_string()]
    };
    let heads = ["phase", "share", "median", "10 % below", "10 % above", "operations"];
    Table::new("", heads, timeline.phases.iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_that_are_not_recorded_are_said_with_their_cpu() {
        let said = |count, from_idle| {
            let missing_switches = vec![MissingSwitches { cpu: 1, count, from_idle }];
            let lines = sentences(&Timeline { missing_switches, ..Timeline::default() });
            lines.iter().any(|line| line.contains("120 switches on CPU 1")).then(|| lines.join("\n"))
        };
        assert!(said(120, 0).unwrap().contains("on CPU 1: a role"));
        assert!(said(120, 120).unwrap().contains("CPU 1, all of them away from its idle task"));
        assert!(said(120, 7).unwrap().contains("CPU 1, 7 of them away from its idle task"));
    }
}
