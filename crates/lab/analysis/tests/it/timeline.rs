//! Made events give the phases, lanes and trace files that they must.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use weighbridge_analysis::timeline::{
    Event, Gap, Happened, Mark, Operation, Point, Role, Subject, Trace,
    broker::{Part, Spans, split, uncounted},
    chrome, lanes, phases, picture,
};

const CLIENT: u32 = 10;
const SERVER: u32 = 11;
const BROKER: u32 = 12;

fn happened(at_ns: u64, event: Event) -> Happened {
    Happened { at_ns, cpu: 0, event }
}

fn switch(at_ns: u64, from: u32, to: u32) -> Happened {
    happened(at_ns, Event::Switch { from, is_runnable: false, to })
}

fn waking(at_ns: u64, by: u32, woken: u32) -> Happened {
    happened(at_ns, Event::Waking { by, woken })
}

fn mark(at_ns: u64, point: Point, number: u64) -> Mark {
    Mark { at_ns, point, number: Some(number) }
}

fn role(name: &str, thread: u32, marks: Vec<Mark>) -> Role {
    let kind = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == ' ').into();
    Role { name: name.into(), kind, threads: vec![thread], marks }
}

fn trace(events: Vec<Happened>) -> Trace {
    let cpus: BTreeSet<u32> = events.iter().map(|of| of.cpu).collect();
    let known_from_ns = cpus.into_iter().map(|cpu| (cpu, 0)).collect();
    Trace { events, known_from_ns, ..Trace::default() }
}

/// Round trips over a pipe on one CPU, of 1000 ns each.
fn round_trips(count: u64) -> Subject {
    let (mut client, mut server, mut events) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..count {
        let at = |ns: u64| 10_000 + number * 1000 + ns;
        client.extend([
            mark(at(0), Point::WriteBegins, number),
            mark(at(150), Point::Written, number),
            mark(at(160), Point::WaitBegins, number),
            mark(at(900), Point::Read, number),
        ]);
        server.extend([
            mark(at(400), Point::Read, number),
            mark(at(420), Point::WriteBegins, number),
            mark(at(600), Point::Written, number),
            mark(at(610), Point::WaitBegins, number + 1),
        ]);
        events.extend([
            waking(at(100), CLIENT, SERVER),
            switch(at(300), CLIENT, SERVER),
            waking(at(550), SERVER, CLIENT),
            switch(at(800), SERVER, CLIENT),
        ]);
    }
    let roles = vec![role("client", CLIENT, client), role("server", SERVER, server)];
    Subject { roles, trace: Some(trace(events)), ..Subject::default() }
}

/// The first parts of an operation, and that all of them last as long as it does.
fn parts(subject: &Subject, first: &[(&str, u64)]) {
    let operations = subject.operations();
    let found = phases::divide(subject, operations[operations.len() / 2]);
    let named: Vec<(&str, u64)> = found.iter().map(|(name, ns)| (name.as_str(), *ns)).collect();
    assert_eq!(named[..first.len()], *first);
    assert_eq!(found.iter().map(|(_, ns)| ns).sum::<u64>(), 1000, "no gap and no overlap: {named:?}");
}

#[test]
fn a_round_trip_on_one_cpu_is_write_wake_switch_read_and_back() {
    let subject = round_trips(10);
    let expected = [
        ("client writes, until server is woken", 100),
        ("client returns from its write", 60),
        ("client blocks, switch to server", 140),
        ("server runs, until the message is read", 100),
        ("server: from its read to its write", 20),
        ("server writes, until client is woken", 130),
        ("server returns from its write", 60),
        ("server blocks, switch to client", 190),
        ("client runs, until the message is read", 100),
        ("client: from its read to its next write", 100),
    ];
    parts(&subject, &expected);
}

#[test]
fn the_figures_are_medians_and_shares_of_all_operations() {
    let subject = round_trips(10);
    let operations = subject.operations();
    // The last has no successor, and of the first the server's mark before it is not known.
    assert!((7..=9).contains(&operations.len()), "{operations:?}");
    let figures = phases::figures(&subject, &operations);
    assert_eq!(figures.operation_ns, [1000.0; 3]);
    assert_eq!(figures.switches_per_operation, Some(2.0));
    assert_eq!(figures.phases[0].phase_ns, [100.0; 3]);
    assert!((figures.phases[0].share.unwrap() - 0.1).abs() < 1e-9);
    let sum: f64 = figures.phases.iter().filter_map(|phase| phase.share).sum();
    assert!((sum - 1.0).abs() < 1e-9);
}

#[test]
fn switches_are_not_counted_where_a_role_may_have_run_unseen() {
    let subject = Subject { unrecorded_cpus: vec![16], ..round_trips(10) };
    let figures = phases::figures(&subject, &subject.operations());
    assert_eq!((figures.switches_per_operation, figures.unrecorded_cpus), (None, vec![16]));
}

/// Some kernels record how a CPU becomes idle and not how it ceases to be.
#[test]
fn switches_that_a_kernel_does_not_record_are_noticed_and_no_lane_is_short() {
    let mut subject = round_trips(10);
    // The server on a CPU of its own, whose idle task is never seen to leave.
    let of_server = |at_ns: u64, from, to| Happened { cpu: 1, ..switch(at_ns, from, to) };
    let trace = subject.trace.as_mut().unwrap();
    trace.events.retain(|of| !matches!(of.event, Event::Switch { .. }));
    for number in 0..10 {
        let at = |ns: u64| 10_000 + number * 1000 + ns;
        trace.events.extend([
            switch(at(170), CLIENT, 0),
            of_server(at(620), SERVER, 0),
            switch(at(800), 0, CLIENT),
        ]);
    }
    trace.known_from_ns.insert(1, 0);
    trace.events.sort_by_key(|of| of.at_ns);
    let operations = subject.operations();
    let figures = phases::figures(&subject, &operations);
    let [missing] = &figures.missing_switches[..] else { panic!("{figures:?}") };
    assert_eq!((missing.cpu, missing.count), (1, missing.from_idle));
    assert!(missing.count >= operations.len() as u64 - 1, "{missing:?} of {} operations", operations.len());
    assert_eq!((figures.switches_per_operation, figures.preempted_per_operation.len()), (None, 0));
    // Also where the picture ends before the next switch.
    let (lanes, _) = lanes::lanes(&subject, 14_000, 14_500);
    let shown: Vec<Vec<(lanes::What, u64, u64)>> = lanes
        .iter()
        .map(|lane| {
            let base = lane.spans.iter().filter(|span| !span.what.is_above());
            base.map(|span| (span.what, span.from_ns - 14_000, span.to_ns - 14_000)).collect()
        })
        .collect();
    let names: Vec<&str> = lanes.iter().map(|lane| lane.name.as_str()).collect();
    assert_eq!(names, ["CPU 0", "CPU 1", "client", "server"], "a CPU whose roles are not seen is shown too");
    assert_eq!(shown[1], [(lanes::What::Lost, 0, 500)]);
    assert_eq!(shown[3], [(lanes::What::Lost, 100, 500)], "from its wake-up on");
    // With the missing switches it is as ever.
    let trace = subject.trace.as_mut().unwrap();
    trace.events.extend((0..10).map(|number| of_server(10_300 + number * 1000, 0, SERVER)));
    trace.events.sort_by_key(|of| of.at_ns);
    let figures = phases::figures(&subject, &operations);
    assert_eq!((figures.missing_switches.len(), figures.switches_per_operation), (0, Some(4.0)));
    let gap = Gap { cpu: 1, from_ns: 12_310, to_ns: 12_610, lost: None };
    let trace = subject.trace.as_mut().unwrap();
    trace.events.retain(|of| !(12_305..12_615).contains(&of.at_ns) || of.cpu == 0);
    trace.gaps.push(gap);
    assert_eq!(subject.missing_switches(0, u64::MAX), [], "what is lost is said elsewhere");
    let (strangers, trace) = ([(13_310, 77, 78), (13_320, 79, 0)], subject.trace.as_mut().unwrap());
    trace.events.extend(strangers.map(|(at_ns, from, to)| Happened { cpu: 2, ..switch(at_ns, from, to) }));
    trace.events.sort_by_key(|of| of.at_ns);
    assert_eq!(subject.missing_switches(0, u64::MAX), [], "those of others are not counted anyway");
}

#[test]
fn without_the_kernels_events_a_hop_is_one_part() {
    let subject = Subject { trace: None, ..round_trips(10) };
    let expected = [
        ("client writes, server reads", 400),
        ("server: from its read to its write", 20),
        ("server writes, client reads", 480),
        ("client: from its read to its next write", 100),
    ];
    parts(&subject, &expected);
    assert_eq!(phases::figures(&subject, &subject.operations()).switches_per_operation, None);
}

#[test]
fn a_role_that_was_preempted_needs_no_wake_up() {
    let mut subject = round_trips(6);
    for of in &mut subject.trace.as_mut().unwrap().events {
        if let Event::Switch { from: CLIENT, is_runnable, .. } = &mut of.event {
            *is_runnable = true;
        }
    }
    let events = &mut subject.trace.as_mut().unwrap().events;
    events.retain(|of| !matches!(of.event, Event::Waking { by: SERVER, .. }));
    let preempted = subject.preempted_per_operation(&subject.operations());
    assert_eq!(preempted, BTreeMap::from([("client".to_owned(), 1.0)]));
    let expected = [
        ("client writes, until server is woken", 100),
        ("server is woken, client is preempted or yields", 200),
        ("server runs, until the message is read", 100),
        ("server: from its read to its write", 20),
        ("server writes, client is ready already", 190),
        ("server blocks, switch to client", 190),
        ("client runs, until the message is read", 100),
        ("client: from its read to its next write", 100),
    ];
    parts(&subject, &expected);
}

#[test]
fn another_cpu_has_to_leave_idle_first() {
    let mut subject = round_trips(4);
    let trace = subject.trace.as_mut().unwrap();
    for of in &mut trace.events {
        if of.event == (Event::Switch { from: CLIENT, is_runnable: false, to: SERVER }) {
            (of.cpu, of.event) = (1, Event::Switch { from: 0, is_runnable: false, to: SERVER });
        }
    }
    for number in 0..4 {
        let at_ns = 10_000 + number * 1000 + 250;
        trace.events.push(Happened { at_ns, cpu: 1, event: Event::Idle(None) });
    }
    trace.events.sort_by_key(|of| of.at_ns);
    let expected = [
        ("client writes, until server is woken", 100),
        ("server is woken, its CPU leaves idle", 150),
        ("switch from idle to server", 50),
    ];
    parts(&subject, &expected);
}

#[test]
fn a_message_through_a_broker_is_the_way_over_the_broker() {
    let (mut client, mut server, mut events) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..4 {
        let at = |ns: u64| 10_000 + number * 1000 + ns;
        client.extend([mark(at(0), Point::WriteBegins, number), mark(at(900), Point::Read, number)]);
        server.extend([mark(at(400), Point::Read, number), mark(at(410), Point::WriteBegins, number)]);
        events.extend([
            waking(at(50), CLIENT, BROKER),
            switch(at(120), CLIENT, BROKER),
            waking(at(200), BROKER, SERVER),
            switch(at(320), BROKER, SERVER),
            waking(at(500), SERVER, BROKER),
            switch(at(560), SERVER, BROKER),
            waking(at(700), BROKER, CLIENT),
            switch(at(850), BROKER, CLIENT),
        ]);
    }
    let roles = vec![
        role("client", CLIENT, client),
        role("broker", BROKER, Vec::new()),
        role("server", SERVER, server),
    ];
    let subject = Subject { roles, trace: Some(trace(events)), ..Subject::default() };
    let expected = [
        ("client writes, until broker is woken", 50),
        ("broker is woken, until it runs", 70),
        ("broker runs, until server is woken", 80),
        ("server is woken, until it runs", 120),
        ("server runs, until the message is read", 80),
    ];
    parts(&subject, &expected);
    assert_eq!(subject.switches_per_operation(&subject.operations()), Some(4.0));
}

#[test]
fn a_message_to_many_has_a_first_and_a_last_read() {
    let write = |number: u64| mark(10_000 + number * 1000, Point::WriteBegins, number);
    let read = |number: u64, ns: u64| mark(10_000 + number * 1000 + ns, Point::Read, number);
    let roles = vec![
        role("sender", 1, (0..5).map(write).collect()),
        role("receiver 1", 2, (0..5).map(|number| read(number, 300)).collect()),
        role("receiver 2", 3, (0..5).map(|number| read(number, 700)).collect()),
    ];
    let expected = [
        ("sender writes, receiver reads", 300),
        ("from the first of 2 reads to the last", 400),
        ("sender: from the last read to its next write", 300),
    ];
    parts(&Subject { roles, ..Subject::default() }, &expected);
}

/// Each message takes longer than the time to the next one.
#[test]
fn parts_that_overlap_have_no_share() {
    let at = |number: u64, ns: u64| 10_000 + number * 1000 + ns;
    let write = |number| {
        [mark(at(number, 0), Point::WriteBegins, number), mark(at(number, 200), Point::Written, number)]
    };
    let roles = vec![
        role("sender", 1, (0..20).flat_map(write).collect()),
        role("receiver", 2, (0..20).map(|number| mark(at(number, 2500), Point::Read, number)).collect()),
    ];
    let subject = Subject { roles, ..Subject::default() };
    let figures = phases::figures(&subject, &subject.operations());
    assert!(figures.operations > 5, "{figures:?}");
    let names: Vec<&str> = figures.phases.iter().map(|phase| phase.phase.as_str()).collect();
    assert_eq!(names, ["sender writes", "from written to read by receiver"]);
    assert_eq!(figures.phases[1].phase_ns, [2300.0; 3]);
    assert!(figures.phases.iter().all(|phase| phase.share.is_none()));
}

#[test]
fn operations_near_a_gap_are_left_out_and_the_gap_is_shown() {
    let mut subject = round_trips(10);
    let all = subject.operations().len();
    let gap = Gap { cpu: 0, from_ns: 14_200, to_ns: 14_700, lost: Some(7) };
    subject.trace.as_mut().unwrap().gaps.push(gap);
    let operations = subject.operations();
    assert_eq!(operations.len(), all - 1);
    assert_eq!(phases::figures(&subject, &operations).lost_events, 7);
    let (lanes, _) = lanes::lanes(&subject, 14_000, 15_000);
    let lost = lanes[0].spans.iter().find(|span| span.what == lanes::What::Lost).unwrap();
    assert_eq!((lost.from_ns, lost.to_ns, lost.name.as_str()), (14_200, 14_700, "7 events lost"));
}

#[test]
fn lanes_say_who_runs_and_arrows_who_wakes_whom() {
    let subject = round_trips(4);
    let (lanes, arrows) = lanes::lanes(&subject, 11_000, 12_000);
    let names: Vec<&str> = lanes.iter().map(|lane| lane.name.as_str()).collect();
    assert_eq!(names, ["CPU 0", "client", "server"]);
    let of = |lane: usize, what: lanes::What| -> Vec<(u64, u64)> {
        let spans = lanes[lane].spans.iter().filter(|span| span.what == what);
        spans.map(|span| (span.from_ns, span.to_ns)).collect()
    };
    assert_eq!(of(0, lanes::What::Run(Some(1))), [(11_300, 11_800)]);
    assert_eq!(of(1, lanes::What::Run(Some(0))), [(11_000, 11_300), (11_800, 12_000)]);
    assert_eq!(of(2, lanes::What::Ready), [(11_100, 11_300)]);
    assert_eq!(of(1, lanes::What::Write), [(11_000, 11_150)]);
    assert_eq!(of(1, lanes::What::Wait), [(11_160, 11_900)]);
    let ends: Vec<_> =
        arrows.iter().map(|of| (of.is_message, of.from, of.from_ns, of.to, of.to_ns)).collect();
    assert_eq!(
        ends,
        [
            (true, 1, 11_000, 2, 11_400),
            (true, 2, 11_420, 1, 11_900),
            (false, 1, 11_100, 2, 11_300),
            (false, 2, 11_550, 1, 11_800),
        ]
    );
}

#[test]
fn each_role_writes_in_its_own_color_without_the_kernels_events_too() {
    let subject = Subject { trace: None, ..round_trips(30) };
    let picture = picture::picture(&subject, &subject.operations());
    let writers = |lane: usize| -> BTreeSet<Option<u64>> {
        let spans = picture.lanes[lane].spans.iter().filter(|span| span.what == "write");
        spans.map(|span| span.role).collect()
    };
    assert_eq!((writers(0), writers(1)), (BTreeSet::from([Some(0)]), BTreeSet::from([Some(1)])));
}

#[test]
fn a_picture_shows_operations_of_usual_length() {
    let subject = round_trips(30);
    let operations = subject.operations();
    let picture = picture::picture(&subject, &operations);
    assert_eq!(picture.length_ns, 3000 + 2 * 60);
    assert_eq!(picture.lanes.len(), 3);
    assert!(picture.arrows.iter().filter(|arrow| arrow.is_message).count() >= 6);
    assert_eq!(picture::picture(&subject, &[] as &[Operation]).lanes.len(), 0);
}

/// What the format asks of a file, as far as this program writes it.
fn check_trace_file(file: &Value) {
    let events = file["traceEvents"].as_array().expect("a list of events");
    let (mut named, mut used) = (BTreeSet::new(), BTreeSet::new());
    let mut flows: BTreeMap<u64, Vec<(&str, f64)>> = BTreeMap::new();
    let mut open: BTreeMap<(u64, u64), Vec<f64>> = BTreeMap::new();
    let mut last_ts = 0.0;
    for event in events {
        let ts = event["ts"].as_f64().unwrap_or_else(|| panic!("no ts: {event}"));
        let track = (event["pid"].as_u64().expect("pid"), event["tid"].as_u64().expect("tid"));
        assert!(event["name"].is_string(), "{event}");
        assert!(ts >= last_ts, "times go back: {event}");
        last_ts = ts;
        match event["ph"].as_str().expect("ph") {
            "M" => {
                let is_name = event["name"] == "process_name" || event["name"] == "thread_name";
                assert!(!is_name || event["args"]["name"].is_string(), "{event}");
                if event["name"] == "thread_name" {
                    named.insert(track);
                }
            }
            "X" => {
                let end = ts + event["dur"].as_f64().expect("dur");
                assert!(end >= ts, "{event}");
                used.insert(track);
                // Events of a thread nest, or follow each other.
                let open = open.entry(track).or_default();
                open.retain(|until| *until > ts + 1e-6);
                assert!(open.iter().all(|until| end <= until + 1e-6), "overlaps what encloses it: {event}");
                open.push(end);
            }
            phase @ ("s" | "f") => {
                assert!(phase == "s" || event["bp"] == "e", "{event}");
                flows.entry(event["id"].as_u64().expect("id")).or_default().push((phase, ts));
            }
            other => panic!("{other} is not written: {event}"),
        }
    }
    assert!(!used.is_empty() && used.is_subset(&named), "{used:?} have no names in {named:?}");
    assert!(!flows.is_empty());
    for (id, ends) in flows {
        let [("s", from), ("f", to)] = ends[..] else { panic!("flow {id} is not a pair: {ends:?}") };
        assert!(from <= to, "flow {id} goes back in time");
    }
}

#[test]
fn a_trace_file_is_of_the_trace_event_format() {
    let mut subject = round_trips(20);
    let gap = Gap { cpu: 0, from_ns: 12_300, to_ns: 12_300, lost: None };
    subject.trace.as_mut().unwrap().gaps.push(gap);
    subject.message_names = BTreeMap::from([(5, "call Frobnicate".into())]);
    let file = chrome::trace_file(&subject, "a case", 10_000, 29_000);
    check_trace_file(&file);
    let text = file.to_string();
    assert!(text.contains("writes call Frobnicate") && text.contains("\"CPUs\""), "{text:.500}");
    let without = Subject { trace: None, ..subject };
    check_trace_file(&chrome::trace_file(&without, "a case", 10_000, 29_000));
}

/// A broker that receives, dispatches and sends, and is preempted by the receiver that it wakes in the middle of a send.
fn brokered() -> Subject {
    let (mut client, mut server, mut events) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..20 {
        let at = |ns: u64| 10_000 + number * 1000 + ns;
        let call = |ns: u64, name| happened(at(ns), Event::CallBegins(BROKER, name));
        let back = |ns: u64| happened(at(ns), Event::CallEnds(BROKER));
        client.extend([
            mark(at(0), Point::WriteBegins, number),
            mark(at(50), Point::Written, number),
            mark(at(60), Point::WaitBegins, number),
        ]);
        server.extend([mark(at(690), Point::Read, number), mark(at(700), Point::WaitBegins, number + 1)]);
        events.extend([
            waking(at(30), CLIENT, BROKER),
            switch(at(100), CLIENT, BROKER),
            back(110),
            call(120, "recvmsg"),
            back(200),
            call(400, "sendmsg"),
            waking(at(500), BROKER, SERVER),
            happened(at(600), Event::Switch { from: BROKER, is_runnable: true, to: SERVER }),
            switch(at(800), SERVER, BROKER),
            back(850),
            call(860, "epoll_wait"),
            switch(at(900), BROKER, CLIENT),
        ]);
    }
    let broker =
        Role { name: "broker".into(), kind: "broker".into(), threads: vec![BROKER], marks: Vec::new() };
    let roles = vec![role("client", CLIENT, client), broker, role("server", SERVER, server)];
    Subject { roles, trace: Some(trace(events)), ..Subject::default() }
}

#[test]
fn a_brokers_time_is_divided_at_its_calls_and_what_preempts_it_is_no_part_of_it() {
    let subject = brokered();
    let operations = subject.operations();
    let split = split(&subject, "broker", &operations).unwrap();
    let count = split.operations;
    let parts = [Part::Receiving, Part::Dispatch, Part::Sending, Part::Waiting].map(|part| {
        let Spans { ns, count: spans } = split.parts[&part];
        [ns, spans].map(|of| of / count)
    });
    // It has the CPU for 600 of 1,000 ns.
    assert_eq!(parts, [[80, 1], [220, 3], [250, 2], [50, 2]]);
    assert_eq!(split.all(), Spans { ns: 600 * count, count: 8 * count });
    assert!(split.calls.values().all(|calls| *calls == count) && split.calls.len() == 3, "{split:?}");
    let (lanes, _) = lanes::lanes(&subject, 10_000, 11_000);
    let broker = lanes.iter().find(|lane| lane.name == "broker").unwrap();
    let calls: Vec<(&str, &str)> = broker
        .spans
        .iter()
        .filter(|span| span.what.is_above())
        .map(|span| (span.what.word(), span.name.as_str()))
        .collect();
    assert_eq!(
        calls[..4],
        [("dispatch", "dispatch"), ("call", "recvmsg"), ("dispatch", "dispatch"), ("write", "sendmsg")]
    );
    // Where calls are not recorded there is nothing to divide.
    let mut without = brokered();
    let trace = without.trace.as_mut().unwrap();
    trace.events.retain(|of| !matches!(of.event, Event::CallBegins(..) | Event::CallEnds(_)));
    assert_eq!(self::split(&without, "broker", &operations), None);
}

/// It is preempted 100 ns after it has woken the receiver, and takes the CPU itself 70 ns after it was woken.
#[test]
fn what_passes_from_a_wake_up_to_the_switch_that_it_causes_is_counted_for_who_is_woken() {
    let mut subject = brokered();
    let operations = subject.operations();
    let found = uncounted(&subject, "broker", &operations).unwrap();
    let count = found.operations;
    let spans = |ns: u64, of: u64| Spans { ns: ns * count, count: of * count };
    // The client blocked: nobody preempts it.
    assert_eq!((found.lacks, found.has_more), (spans(100, 1), spans(0, 0)));
    assert_eq!(found.of_one_ns(10.0), 90.0);
    for of in &mut subject.trace.as_mut().unwrap().events {
        if let Event::Switch { from: CLIENT, is_runnable, .. } = &mut of.event {
            *is_runnable = true;
        }
    }
    let found = uncounted(&subject, "broker", &operations).unwrap();
    assert_eq!((found.lacks, found.has_more), (spans(100, 1), spans(70, 1)));
    assert_eq!(found.of_one_ns(10.0), 30.0);
}

#[test]
fn a_wake_up_and_the_tick_are_two_reasons_to_lose_the_cpu() {
    let by = |subject: &Subject| subject.preempted_by(&subject.operations());
    assert_eq!(by(&brokered()).into_keys().collect::<Vec<_>>(), ["wake-up"]);
    let with = |event: fn(u64) -> Vec<Happened>| {
        let mut subject = brokered();
        let trace = subject.trace.as_mut().unwrap();
        trace.events.retain(|of| !matches!(of.event, Event::Waking { by: BROKER, .. }));
        trace.events.extend((0..20).flat_map(|number| event(10_000 + number * 1000)));
        trace.events.sort_by_key(|of| of.at_ns);
        by(&subject)
    };
    let tick = with(|at_ns| {
        let begins = Event::InterruptBegins("timer".into());
        vec![happened(at_ns + 590, begins), happened(at_ns + 595, Event::InterruptEnds)]
    });
    assert!((tick["tick"] - 1.0).abs() < 1e-9 && tick.len() == 1, "{tick:?}");
    assert_eq!(with(|_| Vec::new()).into_keys().collect::<Vec<_>>(), ["other"], "it yielded");
}
