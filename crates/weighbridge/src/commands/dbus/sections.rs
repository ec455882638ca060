//! Facts as a report: sentences, tables, and pictures for the page.

use std::collections::BTreeMap;

use weighbridge_dbus_traffic::cost::{ClassTime, Cost};
use weighbridge_dbus_traffic::lint::{Finding, Level};
use weighbridge_dbus_traffic::traffic::{BROAD, Facts, Habits, MOST_STEPS, SizeClass, Step};
use weighbridge_report::{
    Block, Chart, Columns, Document, Drawing, Kind, Look, Message, Section, Stack, Table, grouped,
};

use super::costs;
use super::lint::who;
use super::read::Source;

/// The report of an analysis; `top` rows of each table.
pub fn document(
    facts: &Facts,
    findings: &[Finding],
    sources: &[Source],
    (costs, transmission): (&BTreeMap<String, Cost>, &BTreeMap<String, Vec<ClassTime>>),
    top: usize,
) -> Document {
    let files: Vec<&str> = sources.iter().map(|source| source.file.as_str()).collect();
    let title = format!("D-Bus traffic of {}", files.join(", "));
    let lead = Section::of(&title, lead(facts), Vec::new());
    let mut sections = vec![lead, rate(facts), types(facts), members(facts, top), senders(facts, top)];
    sections
        .extend([sizes(facts, transmission), calls(facts, top), errors(facts, top)].into_iter().flatten());
    sections.extend(habits(&facts.habits, top));
    sections.push(recipients(facts));
    sections.extend(
        [signals(facts, top), broadest(facts, top), woken(facts, top), rules(findings, top)]
            .into_iter()
            .flatten(),
    );
    sections.extend(costs::sections(costs));
    sections.extend(sequence(&facts.sequence));
    Document { title, warnings: Vec::new(), sections }
}

/// Each type of message with its color in all pictures: told apart with any kind of color vision.
const KINDS: [(&str, usize); 4] = [("method_call", 0), ("method_return", 5), ("error", 1), ("signal", 4)];

fn picture(title: &str, drawing: Drawing) -> Vec<Block> {
    vec![Block::Chart(Box::new(Chart { title: title.into(), about: String::new(), drawing, figures: None }))]
}

/// Messages per second over time, by type.
fn rate(facts: &Facts) -> Section {
    let bucket_ns = facts.timeline.bucket_ns;
    let per_second = 1e9 / bucket_ns.max(1) as f64;
    let stack = |(at, counts): (usize, &[u64; 4])| Stack {
        name: format!("{:.3} s", at as f64 * bucket_ns as f64 / 1e9),
        parts: counts.map(|count| count as f64 * per_second).into(),
    };
    let kinds = KINDS.map(|(name, look)| Kind { name: name.into(), look: Look::nth(look) });
    let unit = "messages per second";
    let drawing = Drawing::Columns(Columns {
        unit: unit.into(),
        kinds: kinds.into(),
        stacks: facts.timeline.counts.iter().enumerate().map(stack).collect(),
    });
    Section::of("Messages per second", [], picture("Messages per second", drawing))
}

/// Messages of each class.
fn classes(classes: impl Iterator<Item = (String, u64)>) -> Drawing {
    let stack = |(name, count)| Stack { name, parts: vec![count as f64] };
    Drawing::Columns(Columns {
        unit: "messages".into(),
        kinds: vec![Kind { name: String::new(), look: Look::nth(0) }],
        stacks: classes.map(stack).collect(),
    })
}

/// The messages of the window, one by one.
fn sequence(steps: &[Step]) -> Option<Section> {
    let (from, to) = (steps.first()?.time_ns as f64 / 1e9, steps.last()?.time_ns as f64 / 1e9);
    let message = |step: &Step| {
        let to = (!step.to.is_empty()).then(|| step.to.clone());
        let recipients = to.clone().unwrap_or_else(|| format!("{} recipients", step.recipients));
        let look = KINDS.iter().find(|(kind, _)| *kind == step.kind).map_or(6, |(_, look)| *look);
        Message {
            at: format!("{:.4} s", step.time_ns as f64 / 1e9),
            from: step.from.clone(),
            label: step.what.rsplit('.').next().unwrap_or_default().into(),
            tooltip: format!("{} {} from {} to {recipients}", step.kind, step.what, step.from),
            to,
            look: Look::nth(look),
        }
    };
    let about = format!(
        "From {from:.4} s to {to:.4} s, at most {MOST_STEPS} messages; a dot is a broadcast. Another window: --window FROM..TO."
    );
    let drawing = Drawing::Sequence(steps.iter().map(message).collect());
    Some(Section::of("Sequence", [about], picture("Messages one by one", drawing)))
}

fn lead(facts: &Facts) -> Vec<String> {
    let (totals, capture) = (&facts.totals, &facts.capture);
    let bytes = totals.bytes.map_or(", of sizes that the capture does not tell".into(), |bytes| {
        format!(", {} bytes", grouped(bytes))
    });
    let mut lead = vec![format!(
        "{} messages{bytes} in {} s. {} of them to or from the driver.",
        grouped(totals.messages),
        seconds(capture.duration_ns),
        percent(totals.driver_messages, totals.messages),
    )];
    let invalid = capture.invalid.iter().map(|row| row.messages).sum();
    for (count, before, after) in [
        (totals.of_capture, "", "of them are of the recording program or of other monitors."),
        (
            capture.cut,
            "The bodies of ",
            "messages are cut; arguments beyond the cut are missing from rules and recipients.",
        ),
        (capture.back_in_time, "", "messages have a time before that of an earlier one."),
        (invalid, "", "packets are not valid messages and are in no count."),
    ] {
        lead.extend((count > 0).then(|| format!("{before}{} {after}", grouped(count))));
    }
    if !capture.has_driver_replies && totals.driver_calls > 0 {
        lead.push(
            "The capture has no replies of the driver, so its calls are not counted as unanswered.".into(),
        );
    }
    lead
}

fn types(facts: &Facts) -> Section {
    let totals = &facts.totals;
    let rows = [
        ("method calls", totals.method_calls),
        ("method returns", totals.method_returns),
        ("errors", totals.errors),
        ("signals", totals.signals),
        ("calls to the driver", totals.driver_calls),
        ("AddMatch", totals.add_match_calls),
    ];
    let row =
        |(name, count): &(&str, u64)| vec![(*name).into(), grouped(*count), percent(*count, totals.messages)];
    let table = Table::of_first(&["type", "messages", "share"], 1, 6, &rows, row);
    Section::of("Types", [], table.blocks())
}

fn members(facts: &Facts, top: usize) -> Section {
    let head = ["type", "member", "messages", "share", "bytes"];
    let table = Table::of_first(&head, 2, top, &facts.by_member, |row| {
        let name = match (row.interface.as_str(), row.member.as_str()) {
            ("", "") => "(call not in the capture)".into(),
            (interface, member) => dotted(interface, member),
        };
        let share = percent(row.messages, facts.totals.messages);
        vec![row.kind.into(), name, grouped(row.messages), share, grouped(row.bytes)]
    });
    Section::of("Members", [], table.blocks())
}

fn senders(facts: &Facts, top: usize) -> Section {
    let head = ["connection", "name", "process", "sent", "received", "broadcasts"];
    let table = Table::of_first(&head, 2, top, &facts.connections, |row| {
        let pid = row.pid.map_or(String::new(), |pid| pid.to_string());
        let counts = [row.sent, row.received, row.broadcasts].map(grouped);
        [vec![row.unique.clone(), row.name.clone(), pid], counts.to_vec()].concat()
    });
    Section::of("Connections", [], table.blocks())
}

fn sizes(facts: &Facts, transmission: &BTreeMap<String, Vec<ClassTime>>) -> Option<Section> {
    let words = transmission.keys().map(|broker| format!("{broker}, ms"));
    let head: Vec<String> = ["bytes of a message", "messages", "share", "bytes together"]
        .map(String::from)
        .into_iter()
        .chain(words)
        .collect();
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let table = Table::of_first(&head, 1, 20, &facts.sizes, |row| {
        let class = format!("{} … {}", grouped(row.from_bytes), grouped(row.to_bytes));
        let share = percent(row.messages, facts.totals.messages);
        let times = transmission.values().map(|classes| {
            let of = classes.iter().find(|class| class.to_bytes == row.to_bytes);
            of.map_or(String::new(), |class| format!("{:.3}", class.transmission_ns / 1e6))
        });
        [vec![class, grouped(row.messages), share, grouped(row.bytes)], times.collect()].concat()
    });
    let name = |row: &SizeClass| format!("≤ {}", grouped(row.to_bytes));
    let drawing = classes(facts.sizes.iter().map(|row| (name(row), row.messages)));
    let mut blocks = table.charted("Messages by size", drawing);
    let mut about = vec![];
    about.extend(
        facts
            .totals
            .peak_message_bytes
            .map(|bytes| format!("The largest message has {} bytes.", grouped(bytes))),
    );
    if !transmission.is_empty() {
        about.push(TRANSMISSION.to_owned());
        blocks.extend(picture("Time on the way by size", time_by_size(facts, transmission)));
    }
    (!facts.sizes.is_empty()).then(|| Section::of("Sizes", about, blocks))
}

const TRANSMISSION: &str = "ms: what the messages of a class take on their way, one after the other, by half of a call of their size and straight lines \
                            between the sizes of the record. A call's size there is that of its array, which is some 100 bytes less than the message.";

/// A column for each class of size, a part of it for each broker.
fn time_by_size(facts: &Facts, transmission: &BTreeMap<String, Vec<ClassTime>>) -> Drawing {
    let kind = |(index, name): (usize, &String)| Kind { name: name.clone(), look: Look::nth(index) };
    let stack = |(index, row): (usize, &SizeClass)| Stack {
        name: format!("≤ {}", grouped(row.to_bytes)),
        parts: transmission
            .values()
            .map(|of| of.get(index).map_or(0.0, |of| of.transmission_ns / 1e6))
            .collect(),
    };
    Drawing::Columns(Columns {
        unit: "milliseconds".into(),
        kinds: transmission.keys().enumerate().map(kind).collect(),
        stacks: facts.sizes.iter().enumerate().map(stack).collect(),
    })
}

fn calls(facts: &Facts, top: usize) -> Option<Section> {
    let calls = &facts.calls;
    if calls.expecting_reply == 0 {
        return None;
    }
    let all = &calls.latency;
    let mut about = vec![format!(
        "{} calls expect a reply; {} have none after 25 s, {} were open at the end, {} replies answer a call from before. \
         From call to reply, as the recording program saw them: half within {}, 90 % within {}, 99 % within {}, all within {}.",
        grouped(calls.expecting_reply),
        grouped(calls.unanswered),
        grouped(calls.open_at_end),
        grouped(calls.without_call),
        micros(all.p50_us),
        micros(all.p90_us),
        micros(all.p99_us),
        micros(all.max_us),
    )];
    if calls.deepest_nesting > 1 {
        let (depth, which) = (calls.deepest_nesting, calls.deepest.join(" → "));
        about.push(format!("{depth} calls inside each other: {which}."));
    }
    let head = ["destination", "method", "calls", "errors", "unanswered", "p50", "p99", "max", "waited"];
    let table = Table::of_first(&head, 2, top, &calls.methods, |row| {
        let latency = &row.latency;
        let times = [latency.p50_us, latency.p99_us, latency.max_us, latency.total_us];
        let mut cells = vec![row.destination.clone(), dotted(&row.interface, &row.member)];
        cells.extend([row.calls, row.errors, row.unanswered].map(grouped));
        cells.extend(times.map(|time| if latency.count == 0 { "–".into() } else { micros(time) }));
        cells
    });
    Some(Section::of("Calls", about, table.blocks()))
}

/// The first rows of a table with a sentence before it, where there are rows; columns before `numbers_from` are words.
fn listed<R>(
    title: &str,
    about: &str,
    head: &[&str],
    numbers_from: usize,
    top: usize,
    rows: &[R],
    cells: impl Fn(&R) -> Vec<String>,
) -> Option<Section> {
    let about = Some(about.to_owned()).filter(|about| !about.is_empty());
    let table = Table::of_first(head, numbers_from, top, rows, cells);
    (!rows.is_empty()).then(|| Section::of(title, about, table.blocks()))
}

fn errors(facts: &Facts, top: usize) -> Option<Section> {
    listed("Errors", "", &["error", "messages"], 1, top, &facts.errors, |row| {
        vec![row.name.clone(), grouped(row.messages)]
    })
}

fn habits(habits: &Habits, top: usize) -> impl Iterator<Item = Section> {
    let about = "What connections send in the first second of their life.";
    let head = ["connection", "at", "messages", "to the driver", "AddMatch"];
    let starts = listed("Busy starts", about, &head, 1, top, &habits.starts, |row| {
        let counts = [row.messages, row.driver_calls, row.add_match_calls].map(grouped);
        [vec![row.connection.clone(), at(row.start_ns)], counts.to_vec()].concat()
    });
    let about = "One call after the other, each sent after the reply of the one before; sent together they would wait once.";
    let head = ["caller", "methods", "calls", "at", "took", "waiting"];
    let chains = listed("Chains of calls", about, &head, 2, top, &habits.chains, |row| {
        let methods: Vec<String> =
            row.methods.iter().map(|row| format!("{} × {}", row.messages, row.name)).collect();
        let waiting = percent(row.waiting_ns, row.duration_ns);
        let times = [at(row.start_ns), micros(row.duration_ns / 1_000), waiting];
        [vec![row.caller.clone(), methods.join(", "), grouped(row.calls)], times.to_vec()].concat()
    });
    let about = "Properties fetched one by one; GetAll fetches those of an interface, ObjectManager those of all objects.";
    let head = ["caller", "destination", "gets", "objects", "interfaces", "at", "took"];
    let gets = listed("Properties one by one", about, &head, 2, top, &habits.repeated_gets, |row| {
        let counts = [row.gets, row.objects, row.interfaces].map(grouped);
        let times = vec![at(row.start_ns), micros(row.duration_ns / 1_000)];
        [vec![row.caller.clone(), row.destination.clone()], counts.to_vec(), times].concat()
    });
    let about = "The same call at even intervals; a signal would come when something changes.";
    let head = ["caller", "destination", "method", "calls", "every"];
    let polling = listed("Polling", about, &head, 3, top, &habits.polling, |row| {
        let method = dotted(&row.interface, &row.member);
        let every = micros(row.interval_ns / 1_000);
        vec![row.caller.clone(), row.destination.clone(), method, grouped(row.calls), every]
    });
    [starts, chains, gets, polling].into_iter().flatten()
}

fn recipients(facts: &Facts) -> Section {
    let recipients = &facts.recipients;
    let coverage = &recipients.coverage;
    let [broadcasts, deliveries] = [recipients.broadcasts, recipients.deliveries].map(grouped);
    let about = match (recipients.unwanted, recipients.wakeups_at_most) {
        (Some(unwanted), Some(wakeups)) => vec![
            format!(
                "{broadcasts} broadcasts went to {deliveries} recipients together; {} of them to nobody. All messages caused {} wake-ups at \
                 most: the bus and each recipient.",
                grouped(unwanted),
                grouped(wakeups),
            ),
            format!("The rules of all {} connections are known.", coverage.connections),
        ],
        _ => {
            let unknown = format!(
                "How many recipients the {broadcasts} broadcasts had is unknown: all rules are known of {} of {} connections. By the known \
                 rules they went to {deliveries} recipients together.",
                coverage.rules_known, coverage.connections
            );
            std::iter::once(unknown).chain(coverage.gaps()).collect()
        }
    };
    let by_rules = if coverage.is_complete() { "recipients" } else { "recipients by known rules" };
    let head = [by_rules, "broadcasts", "share"];
    let table = Table::of_first(&head, 0, 40, &recipients.histogram, |row| {
        vec![grouped(row.recipients), grouped(row.signals), percent(row.signals, recipients.broadcasts)]
    });
    if recipients.histogram.is_empty() {
        return Section::of("Recipients", about, table.blocks());
    }
    let drawing = classes(recipients.histogram.iter().map(|row| (row.recipients.to_string(), row.signals)));
    Section::of("Recipients", about, table.charted("Broadcasts by recipients", drawing))
}

fn signals(facts: &Facts, top: usize) -> Option<Section> {
    let head = ["signal", "broadcasts", "recipients together", "most", "to nobody"];
    listed("Broadcasts", "", &head, 1, top, &facts.recipients.signals, |row| {
        let counts = [row.signals, row.deliveries, row.most_recipients].map(grouped);
        let unwanted = row.unwanted.map_or("unknown".into(), grouped);
        [vec![dotted(&row.interface, &row.member)], counts.to_vec(), vec![unwanted]].concat()
    })
}

fn broadest(facts: &Facts, top: usize) -> Option<Section> {
    let about = format!("Signals of which more than {BROAD} connections got one.");
    let head = ["signal", "most recipients", "to more than 3", "broadcasts"];
    listed("Broadest signals", &about, &head, 1, top, &facts.recipients.broadest, |row| {
        let counts = [row.most_recipients, row.broad, row.signals].map(grouped);
        [vec![dotted(&row.interface, &row.member)], counts.to_vec()].concat()
    })
}

fn woken(facts: &Facts, top: usize) -> Option<Section> {
    let head = ["connection", "broadcasts", "bytes"];
    listed("Woken by broadcasts", "", &head, 1, top, &facts.recipients.woken, |row| {
        vec![row.name.clone(), grouped(row.messages), grouped(row.bytes)]
    })
}

fn rules(findings: &[Finding], top: usize) -> Option<Section> {
    let [errors, warnings, infos] = [Level::Error, Level::Warning, Level::Info]
        .map(|level| findings.iter().filter(|finding| finding.level == level).count());
    let about = format!(
        "{errors} errors, {warnings} warnings, {infos} of information; `weighbridge dbus lint` explains each."
    );
    let head = ["level", "finding", "connection", "rule", "count"];
    listed("Match rules", &about, &head, 4, top, findings, |finding| {
        let words = [finding.level.word(), finding.kind].map(String::from);
        [words.to_vec(), vec![who(finding), finding.rule.clone(), grouped(finding.count)]].concat()
    })
}

fn dotted(interface: &str, member: &str) -> String {
    if interface.is_empty() { member.into() } else { format!("{interface}.{member}") }
}

fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "–".into() } else { format!("{:.1} %", part as f64 * 100.0 / whole as f64) }
}

fn seconds(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1e9)
}

fn at(ns: u64) -> String {
    format!("{} s", seconds(ns))
}

fn micros(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => format!("{:.1} ms", us as f64 / 1e3),
        _ => format!("{:.2} s", us as f64 / 1e6),
    }
}
