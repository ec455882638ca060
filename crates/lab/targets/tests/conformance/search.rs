//! Sessions of real peers: the search for the size at which two mechanisms are equally fast, with costs that are known, and what
//! a run that never ends does to the others.

use std::io;
use std::time::Duration;

use weighbridge_harness::coordinator::Deadlines;
use weighbridge_harness::crossover::{self, Listener, Search};
use weighbridge_harness::host::Host;
use weighbridge_harness::interrupt::Interrupt;
use weighbridge_harness::session::{Ended, Progress, Session, Settings, Sink};
use weighbridge_record::{CaseId, Earlier, Line};

use crate::runs::{SHORT, coordinator, prepare};

/// The lines that a session writes.
#[derive(Default)]
pub struct Record(pub Vec<Line>);

impl Sink for Record {
    fn line(&mut self, line: Line) -> io::Result<()> {
        self.0.push(line);
        Ok(())
    }

    fn progress(&mut self, _progress: &Progress<'_>) {}
}

/// Those of a short session, without a budget.
pub const SETTINGS: Settings = Settings {
    precision: 0.02,
    budget: Duration::ZERO,
    timing: SHORT,
    seed: 7,
    max_runs: 6,
    first_round: 0,
    duet: false,
    count_calls: false,
    is_short: false,
    earlier: Earlier::none(),
};

/// A copy of 1,000 ns and 100 ns a KiB, and a file of 8,000 ns: they meet at 70 KiB. All runs are made by real peers, in
/// virtual time.
pub fn ends_around_the_crossing(host: &Host) {
    const MEET: u64 = 70 << 10;
    let copy = |bytes| CaseId::new("roundtrip", "mock", bytes, "free").with("latency-ns-per-kib", "100");
    let file = |bytes| CaseId::new("roundtrip", "mock", bytes, "free").with("latency-ns", "8000");
    let sizes = [1 << 10, 16 << 10, 64 << 10, 256 << 10];
    let cases = sizes.iter().flat_map(|bytes| [copy(*bytes), file(*bytes)]);
    let cases = cases.map(|id| prepare(host, &id).unwrap()).collect();
    let settings = Settings { budget: Duration::from_secs(120), ..SETTINGS };
    let interrupt = Interrupt::install().unwrap();
    let coordinator = || coordinator(host, &interrupt);
    let mut record = Record::default();
    let mut listener = Listener::new(&mut record, 0);
    let ended = Session::new(settings.clone(), coordinator(), &interrupt, cases).run(&mut listener).unwrap();
    assert_eq!(ended, Ended::Complete);
    let (summaries, first_round) = listener.heard();
    let search = Search::between(&copy(1), &file(1), &summaries).unwrap();
    assert_eq!(search.bracket(), (64 << 10, 256 << 10));

    let settings = Settings { first_round, ..settings };
    let ended = crossover::run(vec![search], host, &settings, &interrupt, coordinator, &mut record).unwrap();
    assert_eq!(ended, Ended::Complete);
    // Everything is in the record like all else: six runs and a summary of each case, in rounds that go on.
    let summary = |line: &Line| if let Line::Summary(summary) = line { Some(summary.clone()) } else { None };
    let measured: Vec<_> = record.0.iter().filter_map(summary).collect();
    assert!(measured.iter().all(|summary| summary.runs == 6), "{measured:?}");
    let round = |line: &Line| if let Line::Run(run) = line { Some(run.round) } else { None };
    let rounds: Vec<u32> = record.0.iter().filter_map(round).collect();
    assert!(rounds.is_sorted() && rounds.iter().max().unwrap() >= &(2 * first_round), "{rounds:?}");
    let (low, high) = Search::between(&copy(1), &file(1), &measured).unwrap().bracket();
    assert!(low <= MEET && MEET <= high && high - low <= low / 33 + 1, "{low} to {high}");
}

/// A run that makes no progress has used the time that it took: what does not fit into the budget any more is skipped with that reason.
pub fn stall_uses_the_budget(host: &Host) {
    let stalls = |bytes| CaseId::new("roundtrip", "mock", bytes, "free").with("fault", "stalls");
    let setup = Duration::from_secs(3);
    let settings = Settings { budget: setup, ..SETTINGS };
    let interrupt = Interrupt::install().unwrap();
    let coordinator =
        coordinator(host, &interrupt).with_deadlines(Deadlines { setup, ..Deadlines::default() });
    let cases = [1, 2, 3].map(|bytes| prepare(host, &stalls(bytes)).unwrap()).into();
    let mut record = Record::default();
    Session::new(settings, coordinator, &interrupt, cases).run(&mut record).unwrap();
    let why: Vec<&str> = record
        .0
        .iter()
        .map(|line| if let Line::Skipped(skipped) = line { skipped.why.as_str() } else { panic!("{line:?}") })
        .collect();
    let [first, rest @ ..] = &why[..] else { panic!("nothing was skipped") };
    assert!(first.contains("no progress: stopped after"), "{first}");
    assert!(rest.len() == 2 && rest.iter().all(|why| why.contains("the budget was used up")), "{rest:?}");
}
