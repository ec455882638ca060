//! Lanes and arrows in the Trace Event Format, which ui.perfetto.dev and chrome://tracing open.
//!
//! Source: "Trace Event Format", Google, 2016. Complete events (`X`) of one thread must nest, so what a role does and whether it has a CPU
//! are threads of their own. Flow events (`s`, `f`) bind to the events that they lie in.

use serde_json::{Value, json};

use crate::timeline::lanes::{Arrow, Lane, Of, What, lanes};
use crate::timeline::subject::Subject;

/// The processes of the trace file.
const CPUS: u64 = 1;
const ROLES: u64 = 2;
/// Threads of the trace file for each lane: what it does, and what lies above that.
const TRACKS: u64 = 2;

/// The trace file from `from_ns` to `to_ns`. Times in it count from `from_ns`.
pub fn trace_file(subject: &Subject, title: &str, from_ns: u64, to_ns: u64) -> Value {
    let (lanes, arrows) = lanes(subject, from_ns, to_ns);
    let busy: Vec<[Busy; 2]> =
        lanes.iter().map(|lane| [false, true].map(|is_above| Busy::of(lane, is_above))).collect();
    let mut events: Vec<(u64, Value)> = Vec::new();
    for (index, lane) in lanes.iter().enumerate() {
        let above = lane.spans.iter().any(|span| span.what.is_above());
        events.extend(names(index, lane, above).map(|event| (0, event)));
        events.extend(lane.spans.iter().map(|span| {
            let (pid, tid) = track(index, lane, span.what.is_above());
            let duration_ns = span.to_ns - span.from_ns;
            let mut event = json!({
                "ph": "X", "ts": micros(span.from_ns - from_ns), "dur": micros(duration_ns), "pid": pid, "tid": tid,
                "cat": span.what.word(), "name": span.name,
            });
            if span.what == What::Lost {
                event["cname"] = "terrible".into();
            }
            (span.from_ns, event)
        }));
    }
    for (number, arrow) in arrows.iter().enumerate() {
        events.extend(flow(number, arrow, (&lanes, &busy), from_ns));
    }
    // Names come first; what begins at one time begins with the longest.
    events.sort_by(|(a_ns, a), (b_ns, b)| {
        let duration = |event: &Value| event["dur"].as_f64().unwrap_or(0.0);
        a_ns.cmp(b_ns).then(duration(b).total_cmp(&duration(a)))
    });
    let events: Vec<Value> = events.into_iter().map(|(_, event)| event).collect();
    json!({
        "displayTimeUnit": "ns",
        "otherData": { "subject": title, "clock": "CLOCK_MONOTONIC", "begins_ns": from_ns.to_string() },
        "traceEvents": events,
    })
}

/// The trace file's unit, with the nanoseconds behind the point.
fn micros(ns: u64) -> f64 {
    ns as f64 / 1e3
}

fn track(index: usize, lane: &Lane, is_above: bool) -> (u64, u64) {
    let pid = match lane.of {
        Of::Cpu(_) => CPUS,
        Of::Role(..) => ROLES,
    };
    // The calls of a role stand above its states, the interrupts of a CPU below what runs there.
    let second = is_above == matches!(lane.of, Of::Cpu(_));
    (pid, index as u64 * TRACKS + 1 + u64::from(second))
}

/// The names of the tracks of a lane, and their order.
fn names(index: usize, lane: &Lane, has_above: bool) -> impl Iterator<Item = Value> {
    let meta = |what: &str, pid: u64, tid: u64, args: Value| json!({ "ph": "M", "ts": 0, "pid": pid, "tid": tid, "name": what, "args": args });
    let (process, of_above) = match lane.of {
        Of::Cpu(_) => ("CPUs", "interrupts and idle states"),
        Of::Role(..) => ("roles", "calls"),
    };
    let of_base = if process == "CPUs" { "" } else { " on a CPU" };
    let tracks = [(false, format!("{}{of_base}", lane.name)), (true, format!("{}: {of_above}", lane.name))];
    let tracks = tracks.into_iter().filter(move |(is_above, _)| !is_above || has_above);
    let all: Vec<Value> = tracks
        .flat_map(|(is_above, name)| {
            let (pid, tid) = track(index, lane, is_above);
            [
                meta("process_name", pid, tid, json!({ "name": process })),
                meta("process_sort_index", pid, tid, json!({ "sort_index": pid })),
                meta("thread_name", pid, tid, json!({ "name": name })),
                meta("thread_sort_index", pid, tid, json!({ "sort_index": tid })),
            ]
        })
        .collect();
    all.into_iter()
}

/// The times in which a track has something, joined where they touch: in order and apart from each other.
struct Busy(Vec<(u64, u64)>);

impl Busy {
    /// Of one of the tracks of a lane, whose spans stand by their beginning.
    fn of(lane: &Lane, is_above: bool) -> Busy {
        let mut times: Vec<(u64, u64)> = Vec::new();
        for span in lane.spans.iter().filter(|span| span.what.is_above() == is_above) {
            match times.last_mut() {
                Some((_, to_ns)) if span.from_ns <= *to_ns => *to_ns = span.to_ns.max(*to_ns),
                _ => times.push((span.from_ns, span.to_ns)),
            }
        }
        Busy(times)
    }

    fn holds(&self, at_ns: u64) -> bool {
        let next = self.0.partition_point(|(from_ns, _)| *from_ns <= at_ns);
        next > 0 && at_ns < self.0[next - 1].1
    }
}

/// The two ends of an arrow, inside of what they belong to: a message in the calls, a wake-up in what runs. Where one has no place, there is no
/// arrow.
fn flow(
    number: usize,
    arrow: &Arrow,
    (lanes, busy): (&[Lane], &[[Busy; 2]]),
    from_ns: u64,
) -> Vec<(u64, Value)> {
    let holds = |lane: usize, at_ns: u64| busy[lane][usize::from(arrow.is_message)].holds(at_ns);
    // What is read is the end of a wait.
    let to_ns = if arrow.is_message { arrow.to_ns.saturating_sub(1) } else { arrow.to_ns };
    let from_at = arrow.from_ns.min(to_ns);
    if !holds(arrow.from, from_at) || !holds(arrow.to, to_ns) {
        return Vec::new();
    }
    let (category, name) =
        if arrow.is_message { ("message", arrow.name.as_str()) } else { ("wake-up", "wakes") };
    let end = |phase: &str, lane: usize, at_ns: u64| {
        let (pid, tid) = track(lane, &lanes[lane], arrow.is_message);
        let mut event = json!({
            "ph": phase, "ts": micros(at_ns - from_ns), "pid": pid, "tid": tid, "cat": category, "name": name, "id": number,
        });
        if phase == "f" {
            event["bp"] = "e".into();
        }
        (at_ns, event)
    };
    vec![end("s", arrow.from, from_at), end("f", arrow.to, to_ns)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::lanes::Span;

    #[test]
    fn a_track_is_busy_from_the_beginning_of_its_spans_to_before_their_ends() {
        let span = |from_ns, to_ns, what| Span { from_ns, to_ns, what, name: String::new() };
        let spans = vec![
            span(10, 30, What::Ready),
            span(12, 14, What::Write),
            span(15, 20, What::Idle),
            span(30, 40, What::Idle),
            span(50, 60, What::Idle),
        ];
        let lane = Lane { name: "x".into(), of: Of::Cpu(0), spans };
        let of = |is_above, times: &[u64]| -> Vec<bool> {
            times.iter().map(|at_ns| Busy::of(&lane, is_above).holds(*at_ns)).collect()
        };
        assert_eq!(of(false, &[9, 10, 25, 35, 40, 55, 60]), [false, true, true, true, false, true, false]);
        assert_eq!(of(true, &[11, 12, 14]), [false, true, false]);
    }
}
