//! What the kernel did while a case ran: counts, time by function, what it cost to look, and how two cases differ.

use weighbridge_record::{
    BrokerTime, Difference, DifferenceRow, EventCount, Look, Observation, Profile, ProfilePart, RefusedMeans,
    SymbolTime, Timeline,
};

use super::Context;
use super::timeline::{cost_of_looking, parts};
use crate::calls;
use crate::chart::Drawing;
use crate::document::{Block, Item, Section, Table};
use crate::flame::Flame;
use crate::model::{Report, Sourced};
use crate::suite::broker_time;
use crate::units::{count, range, significant, with_unit};
use crate::words::{many, plain};

/// Where other processes have more of the CPUs than this share, a report says so.
const MOST_OF_OTHERS: f64 = 0.1;
/// Functions that are listed of a case, or of a difference, where no number was asked for.
const MOST_SYMBOLS: usize = 15;

/// How many functions are listed: `--top`.
fn top(report: &Report, source: usize) -> usize {
    let header = report.sources.get(source).and_then(|source| source.header.as_ref());
    let asked = header.and_then(|header| header.settings.get("top")?.parse().ok());
    asked.unwrap_or(MOST_SYMBOLS)
}

const ABOUT: &str = "Counts and samples come from runs of their own, in turns with runs that are not observed. Their figures are no results: \
                     they are slower by the cost of looking. Everything on the CPUs of the roles and of a broker counts, whichever process it belongs to.";

const ABOUT_PROFILE: &str = "Samples rank functions, and are no exact times: one that falls where interrupts are off is taken where they come \
                             back on, and taking it costs time as well.";

const ABOUT_FLAME: &str = "A box is as wide as its samples and stands on its caller, the role at the bottom; functions of the kernel are orange. \
                           Boxes below 0.5 %, other processes and idle CPUs are left out. Stacks in user mode end where a function keeps no frame pointer.";

/// None where no case was observed.
pub fn sections(cx: &Context<'_>) -> Vec<Section> {
    let report = cx.report;
    let mut blocks = Vec::new();
    for observation in &report.observations {
        let of_it = report.profiles.iter().find(|profile| {
            profile.source == observation.source && profile.what.case == observation.what.case
        });
        let top = top(report, observation.source);
        blocks.extend(of_case(&observation.what));
        let subject = observation.what.case.to_string();
        let of_subject =
            |line: &&Sourced<Timeline>| line.source == observation.source && line.what.subject == subject;
        let broker = report.timelines.iter().find(of_subject).and_then(|line| line.what.broker.as_ref());
        let uncounted_ns = broker.and_then(|broker| broker.uncounted_ns);
        blocks.extend(of_it.into_iter().flat_map(|profile| of_profile(&profile.what, uncounted_ns, top)));
    }
    let two = |difference: &Sourced<Difference>| of_two(&difference.what, top(report, difference.source));
    blocks.extend(report.differences.iter().flat_map(two));
    if !blocks.is_empty() {
        blocks.insert(0, Block::Paragraph(ABOUT.into()));
        let refused = report.observations.first().map_or(&[][..], |first| &first.what.refused);
        let sentence = |of: &RefusedMeans| Item::from(plain(&format!("{}: {}", of.means, of.why)));
        blocks.extend(Block::headed("Not used here", refused.iter().map(sentence).collect()));
    }
    Section::new("observation", "What the kernel does meanwhile", blocks)
}

fn of_case(of: &Observation) -> Vec<Block> {
    let shown = |ends| format!(" (in this session {})", range(ends, |end| with_unit(&of.unit, end)));
    let range = of.unobserved_ci95.map_or(String::new(), shown);
    let cpus: Vec<String> = of.cpus.iter().map(u32::to_string).collect();
    let mut blocks = vec![
        Block::Heading(plain(&of.case.to_string())),
        Block::Paragraph(format!(
            "{}{range} unobserved; {}, CPU {}.",
            with_unit(&of.unit, of.unobserved),
            many(of.rounds as usize, "round"),
            cpus.join(", ")
        )),
    ];
    let calls = of.system_calls.as_ref();
    let of_calls =
        calls.map(|calls| ["system calls".into(), count(calls.per_op), String::new(), "system-calls".into()]);
    let counts: Vec<[String; 4]> = of.counts.iter().map(counted).chain(of_calls).collect();
    if !counts.is_empty() {
        let heads = ["event", "per operation", "least … most", "means"];
        blocks.push(Block::Table(Table::new("Events", heads, counts)));
    }
    blocks.extend(calls.map(calls::by_role).filter(|said| !said.is_empty()).map(Block::Paragraph));
    if !of.looks.is_empty() {
        let heads = ["means", "cost of looking", "pairs of runs"];
        blocks.push(Block::Table(Table::new("Cost of looking", heads, of.looks.iter().map(cost))));
    }
    let failure = |(what, failures): (&str, &[String])| {
        let (last, times) = (failures.last()?, failures.len());
        Some(plain(&format!("{what} failed in {}: {last}", many(times, "run"))))
    };
    let looks = of.looks.iter().map(|look| (look.means.as_str(), &look.failures[..]));
    let all = std::iter::once(("the unobserved case", &of.unobserved_failures[..])).chain(looks);
    let failures: Vec<String> = all.filter_map(failure).collect();
    blocks.extend((!failures.is_empty()).then(|| Block::sentences(failures)));
    blocks
}

fn counted(of: &EventCount) -> [String; 4] {
    let [least, most] = of.range.map(count);
    [plain(&of.event), count(of.per_op), format!("{least} … {most}"), plain(&of.means)]
}

fn cost(look: &Look) -> [String; 3] {
    let cost = match (look.slowdown, look.ci95) {
        (None, _) => "it failed".into(),
        (Some(slowdown), None) => format!("× {}", significant(slowdown)),
        (Some(slowdown), Some([low, high])) => {
            format!("× {} ({} … {})", significant(slowdown), significant(low), significant(high))
        }
    };
    [plain(&look.means), cost, look.pairs.to_string()]
}

fn of_profile(of: &Profile, uncounted_ns: Option<f64>, top: usize) -> Vec<Block> {
    let lost = match of.lost {
        0 => "none was lost".to_owned(),
        lost => format!("{lost} more were lost"),
    };
    let mut facts = format!(
        "{} of the {} in {}, one in {} µs of each CPU; {lost}",
        many(of.samples as usize, "sample"),
        plain(&of.clock),
        many(of.runs as usize, "run"),
        significant(of.period_ns / 1e3)
    );
    if of.throttled > 0 {
        facts += &format!("; the kernel has stopped sampling {}", many(of.throttled as usize, "time"));
    }
    let hidden = of
        .symbols_hidden
        .as_ref()
        .map_or(String::new(), |why| format!(" Functions of the kernel have no names: {}.", plain(why)));
    let mut blocks = vec![Block::Paragraph(format!("{facts}.{hidden} {ABOUT_PROFILE}"))];
    let sum = |is_meant: &dyn Fn(&str) -> bool| -> f64 {
        let parts = of.parts.iter().filter(|part| is_meant(&part.role));
        parts.map(|part| part.user_ns + part.kernel_ns).sum()
    };
    let (all, of_others) = (sum(&|_| true), sum(&|role| role == Profile::OTHERS));
    let taking_part = sum(&Profile::takes_part);
    let percent = |ns: f64, of: f64| format!("{} %", significant(100.0 * ns / of.max(f64::MIN_POSITIVE)));
    if of_others > MOST_OF_OTHERS * all {
        blocks.push(Block::Paragraph(format!(
            "Other processes had {} of the time of these CPUs: the counts above have their events too. Observe on a machine that does \
             nothing else.",
            percent(of_others, all)
        )));
    }
    let part = |part: &ProfilePart| {
        let sum = part.user_ns + part.kernel_ns;
        [plain(&part.role), significant(part.user_ns), significant(part.kernel_ns), percent(sum, all)]
    };
    let heads = ["time of", "user\nns/op", "kernel\nns/op", "share"];
    blocks.push(Block::Table(Table::new("Time by role", heads, of.parts.iter().map(part))));
    blocks.extend(of_broker(of, uncounted_ns));
    // A time is so many samples of a period each over the operations.
    let samples = |ns: f64| format!("{:.0}", ns * of.ops as f64 / of.period_ns.max(f64::MIN_POSITIVE));
    let symbol = |symbol: &SymbolTime| {
        [
            short(&symbol.symbol),
            if symbol.in_kernel { "kernel" } else { "user" }.into(),
            plain(&symbol.role),
            samples(symbol.self_ns),
            significant(symbol.self_ns),
            significant(symbol.total_ns),
            percent(symbol.self_ns, taking_part),
        ]
    };
    let heads = ["function", "in", "role", "samples", "itself\nns/op", "with calls\nns/op", "itself"];
    let rows = of.symbols.iter().filter(|symbol| symbol.self_ns > 0.0).take(top).map(symbol);
    blocks.push(Block::Paragraph(format!(
        "Shares by role are of all the time of these CPUs{}; shares by function below are of the {} ns/op of those that take part.",
        if of_others > 0.0 { ", other processes among it" } else { "" },
        significant(taking_part)
    )));
    blocks.push(Block::Table(Table::new("Time by function", heads, rows).with_texts([1, 2])));
    let of_roles = of.folded.iter().filter(|(line, _)| Profile::takes_part(line));
    let flame = Flame::of(&of_roles.cloned().collect::<Vec<_>>(), "samples");
    let title = format!("Flame graph: {}", plain(&of.case.to_string()));
    blocks.push(Block::chart(title, ABOUT_FLAME, Drawing::Flame(flame), None));
    blocks
}

/// Functions of the kernel that receive, send and wait, and what each broker calls to find who wants a message.
const RECEIVING: [&str; 4] = ["__sys_recvmsg", "__sys_recvmmsg", "__sys_recvfrom", "ksys_read"];
const SENDING: [&str; 4] = ["__sys_sendmsg", "__sys_sendmmsg", "__sys_sendto", "ksys_write"];
const WAITING: [&str; 3] = ["do_epoll_wait", "do_sys_poll", "do_select"];
const MATCHING: [&str; 3] =
    ["bus_matchmaker_get_recipients", "match_registry_get_subscribers", "Matches::compare"];

/// Half an interval of 95 % of a count that is a matter of chance, over the root of the count.
const SAMPLES_OFF: f64 = 1.96;

/// A broker's time by the calls in which samples found it.
fn of_broker(of: &Profile, uncounted_ns: Option<f64>) -> Vec<Block> {
    const BROKER: &str = "broker";
    let Some(part) = of.parts.iter().find(|part| part.role == BROKER) else { return Vec::new() };
    let own = || of.symbols.iter().filter(|symbol| symbol.role == BROKER);
    let kernel = |names: &[&str]| -> f64 {
        own().filter(|of| of.in_kernel && names.contains(&of.symbol.as_str())).map(|of| of.total_ns).sum()
    };
    let matching: f64 = own()
        .filter(|of| !of.in_kernel && MATCHING.iter().any(|name| of.symbol.ends_with(name)))
        .map(|of| of.total_ns)
        .sum();
    let [receiving_ns, sending_ns, waiting_ns] = [&RECEIVING[..], &SENDING, &WAITING].map(kernel);
    let time = BrokerTime {
        receiving_ns,
        sending_ns,
        waiting_ns,
        dispatch_ns: part.user_ns,
        other_calls_ns: (part.kernel_ns - receiving_ns - sending_ns - waiting_ns).max(0.0),
        matching_ns: (matching > 0.0).then_some(matching),
        ..BrokerTime::default()
    };
    let table = broker_time(
        "The broker's time of an operation by the system calls in which samples found it, µs; beside it those of a signal to 10 subscribers in 2011",
        &[("here".into(), Some(&time))],
        &["277 B", "17 kB"],
    );
    let has_names = own().any(|of| !of.in_kernel && !of.symbol.starts_with('['));
    let matching = match time.matching_ns {
        Some(_) => "",
        None if has_names => "; of it, no sample found match rules",
        None => {
            "; of it, match rules cannot be told apart: the broker's file has no symbols, which a package of debug symbols would bring"
        }
    };
    let said = format!("what it does outside of system calls is dispatch{matching}");
    let mut sentences = vec![said];
    if let Some(beside) = of.beside.as_ref().filter(|beside| beside.role == BROKER) {
        let time = BrokerTime { counted_ns: beside.sampled_ns, uncounted_ns, ..time };
        sentences.extend(parts(&time, "of the same runs"));
        let off = SAMPLES_OFF / (time.sum_ns() * of.ops as f64 / of.period_ns).sqrt();
        sentences
            .push(format!("samples alone may be ±{:.1} % off, in 95 of 100 such observations", 100.0 * off));
        sentences.push(format!(
            "the cost of looking, which is in the parts: {}; {} when nobody looks",
            cost_of_looking(beside.looking_ratio, of.runs.into()),
            with_unit("ns", beside.unobserved_ns),
        ));
    }
    vec![table, Block::sentences(sentences)]
}

/// A name as a table has room for it. The record and the flame graph have it in full.
fn short(name: &str) -> String {
    const MOST: usize = 44;
    let name = plain(name);
    match name.chars().count() {
        count if count <= MOST => name,
        count => std::iter::once('…').chain(name.chars().skip(count - MOST + 1)).collect(),
    }
}

fn of_two(of: &Difference, top: usize) -> Vec<Block> {
    let row = |row: &DifferenceRow, show: fn(f64) -> String| {
        let side = |value: Option<f64>| value.map_or("not counted".into(), show);
        let difference = row.difference.map(|difference| match difference {
            0.0 => "0".into(),
            difference if difference > 0.0 => format!("+{}", show(difference)),
            difference => format!("−{}", show(-difference)),
        });
        [short(&row.name), side(row.a), side(row.b), difference.unwrap_or_default()]
    };
    let block = |title: &str, what: &str, rows: &[DifferenceRow], show: fn(f64) -> String| {
        let shown = rows.iter().take(top).map(|of| row(of, show));
        let table = Table::new(title, [what, "A", "B", "B − A"], shown);
        (!rows.is_empty()).then_some(Block::Table(table))
    };
    let mut blocks = vec![
        Block::Heading("B against A, per operation".into()),
        Block::Facts(vec![("A".into(), plain(&of.a.to_string())), ("B".into(), plain(&of.b.to_string()))]),
    ];
    blocks.extend(block("Difference of events", "event", &of.counts, count));
    blocks.extend(block("Difference of time by role, ns", "time of", &of.parts, significant));
    blocks.extend(block("Difference of time by function, ns", "function itself", &of.symbols, significant));
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{html, json, markdown, text};
    use serde_json::json as value;
    use weighbridge_record::{Reading, looking_ratio};

    fn report() -> Report {
        let [a, b] = ["roundtrip/pipe/1/same-cpu", "roundtrip/unix-stream/1/same-cpu"];
        let looks = value!([
            { "means": "software", "slowdown": 1.02, "ci95": [1.01, 1.03], "pairs": 8, "failures": [] },
            { "means": "halts", "slowdown": null, "pairs": 8, "failures": ["observe: x", "observe: no <such> event"] },
        ]);
        let counts = value!([{ "event": "context-switches", "means": "software", "per_op": 2.004, "range": [2.0, 2.01] }]);
        let observation = value!({
            "kind": "observation", "case": a, "cpus": [0], "unit": "ns/roundtrip", "unobserved": 4000.0,
            "unobserved_ci95": [3960.0, 4040.0], "rounds": 8, "unobserved_failures": ["batches: the peer ended"],
            "looks": looks, "counts": counts, "refused": [{ "means": "hardware", "why": "no counters" }],
        });
        let parts = value!([
            { "role": "client", "user_ns": 100.0, "kernel_ns": 300.0 },
            { "role": Profile::OTHERS, "user_ns": 100.0, "kernel_ns": 0.0 },
        ]);
        let symbols = value!([
            { "role": "client", "symbol": "pipe_read", "in_kernel": true, "self_ns": 300.0, "total_ns": 400.0 },
        ]);
        let profile = value!({
            "kind": "profile", "case": a, "clock": "cpu-clock", "period_ns": 487_000.0, "runs": 8, "ops": 1_298_667,
            "samples": 1000, "lost": 3, "throttled": 1, "parts": parts, "symbols": symbols,
            "folded": [["client;main;pipe_read_[k]", 800], [Profile::OTHERS, 200]],
        });
        let rows = value!([{ "name": "context-switches", "a": 2.0, "b": 1.5, "difference": -0.5 }]);
        let difference =
            value!({ "kind": "difference", "a": a, "b": b, "counts": rows, "parts": [], "symbols": [] });
        let lines = [observation, profile, difference].map(|line| serde_json::from_value(line).unwrap());
        Report::from_reading(Reading { lines: lines.into(), problems: Vec::new() })
    }

    /// 400 ns of its samples, beside 380 that the kernel counts of the same runs and 20 more that a time line found.
    #[test]
    fn what_the_parts_of_a_broker_come_to_is_said_with_what_looking_costs() {
        let profile: Profile = serde_json::from_value(value!({
            "case": "roundtrip/dbus-daemon/1/same-cpu", "clock": "cpu-clock", "period_ns": 1000.0, "runs": 1, "ops": 1000,
            "samples": 400, "lost": 0, "throttled": 0, "folded": [],
            "parts": [{ "role": "broker", "user_ns": 100.0, "kernel_ns": 300.0 }],
            "symbols": [
                { "role": "broker", "symbol": "__sys_sendmsg", "in_kernel": true, "self_ns": 0.0, "total_ns": 200.0 },
                { "role": "broker", "symbol": "dispatch", "in_kernel": false, "self_ns": 100.0, "total_ns": 100.0 },
            ],
            "beside": {
                "role": "broker", "sampled_ns": 380.0, "unobserved_ns": 370.0, "looking_ratio": [1.03, 0.99, 1.05],
            },
        }))
        .unwrap();
        let said = |uncounted_ns| format!("{:?}", of_broker(&profile, uncounted_ns));
        for words in [
            "the parts come to 400 ns, 105 % of the 380 ns of CPU time",
            "are 100 % of what it counts and that",
            "may be ±9.8 % off",
            "+3.0 % of the broker's CPU time (−1.0 to +5.0 %, 1 round); 370 ns when nobody looks",
            "no sample found match rules",
        ] {
            assert!(said(Some(20.0)).contains(words), "{words}: {}", said(Some(20.0)));
        }
        assert!(!said(None).contains("what it counts and that"), "nothing is known of it");
        let of_two = cost_of_looking(looking_ratio(&[(100.0, 107.0), (100.0, 109.0)]).unwrap(), 2);
        assert_eq!(of_two, "+8.0 % of the broker's CPU time (no interval, 2 rounds)");
    }

    #[test]
    fn counts_costs_losses_and_what_failed_are_said_in_every_format() {
        let report = report();
        for out in [text(&report, crate::Style::default()), markdown(&report), html(&report)] {
            for said in [
                "context-switches",
                "× 1.02",
                "3 more were lost",
                "failed in 2 runs",
                "the peer ended",
                "no counters",
                "−0.5",
                "Other processes had 20.0 %",
            ] {
                assert!(out.contains(said), "{said} is missing: {out}");
            }
        }
        let of_what =
            "other processes among it; shares by function below are of the 400 ns/op of those that take part";
        assert!(markdown(&report).contains(of_what), "{}", markdown(&report));
        let json = json(&report);
        assert!(json.contains("\"slowdown\": 1.02") && json.contains("\"lost\": 3"), "{json}");
        let page = html(&report);
        assert!(page.contains("<svg class=\"flame\"") && page.contains("<title>pipe_read, kernel: 100 %"));
        assert!(page.contains("no &lt;such&gt; event") && !page.contains("<such>"));
    }

    #[test]
    fn as_many_functions_are_listed_as_were_asked_for_each_with_its_samples() {
        let mut report = report();
        let listed = |report: &Report| {
            let text = text(report, crate::Style { color: false, width: Some(120), ascii: false });
            text.lines().filter(|line| line.contains("pipe_read")).map(str::to_owned).collect::<Vec<_>>()
        };
        // 300 ns of 1,298,667 operations, in periods of 487 µs.
        let line = &listed(&report)[0];
        let cells: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(cells[..5], ["pipe_read", "kernel", "client", "800", "300"], "{line}");
        let profile = &mut report.profiles[0].what;
        let more = (0..40).map(|_| profile.symbols[0].clone()).collect::<Vec<_>>();
        profile.symbols.extend(more);
        assert_eq!(listed(&report).len(), MOST_SYMBOLS);
        let settings = [("top".to_owned(), "30".to_owned())].into();
        let header = weighbridge_record::Header { settings, ..Default::default() };
        report.sources[0].header = Some(header);
        assert_eq!(listed(&report).len(), 30);
    }

    #[test]
    fn a_long_name_keeps_its_end() {
        let name = "core::slice::raw::from_raw_parts_mut::precondition_check";
        assert_eq!(short(name).chars().count(), 44);
        assert!(short(name).starts_with('…') && short(name).ends_with("::precondition_check"));
        assert_eq!(short("pipe_read"), "pipe_read");
    }
}
