//! Making runs, and seeing that nothing is left of them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Trial};
use weighbridge_harness::catalogue::{self, Refusal};
use weighbridge_harness::conditions;
use weighbridge_harness::contract::{Prepared, Target};
use weighbridge_harness::coordinator::{Coordinator, Deadlines, Measured, Outcome};
use weighbridge_harness::host::Host;
use weighbridge_harness::interrupt::Interrupt;
use weighbridge_harness::peer;
use weighbridge_harness::planner::Timing;
use weighbridge_record::CaseId;

/// Short: what is promised does not depend on how long it is measured.
pub const SHORT: Timing = Timing { sample_ns: 200_000, samples: 3, least_samples: 2, run_ns: 600_000 };

pub const PLACEMENTS: [&str; 2] = ["same-cpu", "two-cpus"];
pub const PATTERNS: [&str; 2] = ["roundtrip", "stream"];

/// The main function of a test program whose peers are this very program: a peer when it is started as one, else the
/// tests, one after the other in the main thread.
pub fn main(trials: impl FnOnce(&'static Host) -> Vec<Trial>) -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if let [_, first, parent] = &args[..]
        && first == peer::ARGUMENT
    {
        let parent = parent.parse().expect("the coordinator passes its process id");
        let control = causeway_os::process::inherited_fd(3).expect("the coordinator passes a socket");
        return peer::main(parent, control);
    }
    // Before there are other threads: it may enter an IPC namespace of its own.
    let host: &'static Host = Box::leak(Box::new(Host::look().expect("looking at the machine")));
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    let trials = trials(host);
    if let Some(filter) = arguments.filter.as_deref().filter(|filter| names_no_target(filter, &trials)) {
        eprintln!(
            "error: no test's name contains `{filter}`: is the id right, and is there a line for it in the list ALL?"
        );
        return ExitCode::FAILURE;
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Does a filter such as `mechanism/NAME/` select nothing of a kind that this program tests? Without an error, no test would look
/// like tests that passed.
fn names_no_target(filter: &str, trials: &[Trial]) -> bool {
    let Some((kind, _)) = filter.split_once('/') else { return false };
    let is_of_kind = |trial: &Trial| trial.name().split('/').next() == Some(kind);
    trials.iter().any(is_of_kind) && !trials.iter().any(|trial| trial.name().contains(filter))
}

/// Promises that each target of a kind keeps, by name.
pub type Promises = &'static [(&'static str, fn(&Host, &'static Target))];

/// A test of each promise of a target, after which nothing is left. Its name begins with `mechanism/NAME/`, or with the
/// pattern in place of `mechanism` where the target has one of its own, so that `mechanism/pipe/` selects one mechanism.
pub fn trials_of(
    host: &'static Host,
    target: &'static Target,
    promises: Promises,
) -> impl Iterator<Item = Trial> {
    let kind = match target.patterns[0].id {
        "roundtrip" => "mechanism",
        pattern => pattern,
    };
    promises.iter().map(move |(promise, test)| {
        trial(format!("{kind}/{}/{promise}", target.id), move || test(host, target))
    })
}

/// Tests of the host, by name.
pub type Named = &'static [(&'static str, fn(&Host))];

/// Such tests, in a group.
pub fn named(host: &'static Host, group: &str, tests: Named) -> impl Iterator<Item = Trial> {
    tests.iter().map(move |(name, test)| trial(format!("{group}/{name}"), move || test(host)))
}

/// A test after which nothing is left.
pub fn trial(name: impl Into<String>, test: impl FnOnce() + Send + 'static) -> Trial {
    Trial::test(name, move || {
        leaving_nothing(test);
        Ok(())
    })
}

/// Prepares a case that exists, or says why the machine has no place for it.
pub fn prepare(host: &Host, id: &CaseId) -> Result<Prepared, String> {
    catalogue::prepare(id, host).map_err(|refusal| match refusal {
        Refusal::NotHere(why) => why,
        Refusal::NoSuchCase(why) => panic!("{id}: {why}"),
    })
}

/// The same; `None` and a printed reason where the machine has no place for it.
pub fn prepare_or_skip(host: &Host, id: &CaseId) -> Option<Prepared> {
    prepare(host, id).inspect_err(|why| eprintln!("skipped: {id}: {why}")).ok()
}

/// One run with default deadlines.
pub fn run(host: &Host, case: &Prepared, timing: Timing) -> Outcome {
    run_within(host, case, timing, Deadlines::default())
}

/// One run.
pub fn run_within(host: &Host, case: &Prepared, timing: Timing, deadlines: Deadlines) -> Outcome {
    let interrupt = Interrupt::install().unwrap();
    let mut coordinator =
        Coordinator::new(host, &interrupt, "/proc/self/exe".into(), 1).with_deadlines(deadlines);
    coordinator.run(case, timing)
}

/// One run that must give numbers: samples, counts of both roles that agree with the payload, and facts.
pub fn measure(host: &Host, case: &Prepared, timing: Timing) -> Measured {
    let id = &case.params.id;
    let measured = match run(host, case, timing) {
        Outcome::Measured(measured) => *measured,
        other => panic!("{id}: {other:?}"),
    };
    assert!(!measured.samples.is_empty(), "{id}: no samples");
    assert!(measured.samples.iter().all(|sample| sample.elapsed_ns > 0 && sample.ops > 0), "{id}");
    assert_eq!(conditions::violations(case, &measured), [] as [&str; 0], "{id}");
    assert!(measured.facts.contains_key("policy"), "{id}: {:?}", measured.facts);
    let own_facts = measured.facts.keys().filter(|name| !["policy", "nice"].contains(&name.as_str()));
    assert!(own_facts.count() >= 2, "{id}: {:?}", measured.facts);
    let [first, second] = &measured.roles[..] else { panic!("{id}: {} roles", measured.roles.len()) };
    let is_both_ways = id.pattern == "roundtrip" && case.params.axis("direction") == "both";
    if is_both_ways {
        assert_eq!(first.counted.received_bytes, first.counted.ops * id.payload_bytes, "{id}");
    }
    assert_eq!(second.counted.received_bytes, second.counted.ops * id.payload_bytes, "{id}");
    assert!(second.counted.ops > 0, "{id}");
    measured
}

/// The ids of a mechanism in both patterns and placements, with a payload.
pub fn everywhere(target: &Target, payload_bytes: u64) -> Vec<CaseId> {
    PATTERNS
        .iter()
        .flat_map(|pattern| PLACEMENTS.iter().map(move |placement| (pattern, placement)))
        .map(|(pattern, placement)| CaseId::new(pattern, target.id, payload_bytes, placement))
        .collect()
}

/// Where a mechanism is measured when one place is enough: on one CPU, unless it spins.
pub fn anywhere(target: &Target, host: &Host) -> Option<&'static str> {
    PLACEMENTS
        .into_iter()
        .find(|placement| prepare(host, &CaseId::new("roundtrip", target.id, 1, placement)).is_ok())
}

/// What this process holds, and what of ours has a name.
#[derive(Debug, PartialEq, Eq)]
struct Belongings {
    descriptors: BTreeSet<String>,
    children: usize,
    threads: usize,
    names: BTreeSet<String>,
    /// Processes of this very program, wherever they hang now.
    of_this_program: usize,
}

impl Belongings {
    fn now() -> Belongings {
        let entries = |dir: &str| -> Vec<_> { fs::read_dir(dir).into_iter().flatten().flatten().collect() };
        // The descriptor that lists the others is gone when its link is read.
        let descriptors = entries("/proc/self/fd")
            .iter()
            .filter_map(|fd| Some(format!("{:?} {:?}", fd.file_name(), fs::read_link(fd.path()).ok()?)))
            .collect();
        let temporary = std::env::temp_dir();
        let named = ["/dev/shm", "/dev/mqueue", temporary.to_str().unwrap()].into_iter().flat_map(entries);
        let ours = format!("-{}-", std::process::id());
        Belongings {
            descriptors,
            children: children().len(),
            threads: entries("/proc/self/task").len(),
            names: named
                .map(|entry| entry.path().display().to_string())
                .filter(|path| path.contains("weighbridge-") && path.contains(&ours))
                .collect(),
            of_this_program: entries("/proc").iter().filter(|entry| is_this_program(&entry.path())).count(),
        }
    }
}

/// How many queues, semaphores and segments of System V there are. Without an IPC namespace of its own, this program sees those
/// of others.
fn system_v_objects() -> [usize; 3] {
    ["msg", "sem", "shm"].map(|table| {
        fs::read_to_string(format!("/proc/sysvipc/{table}")).map_or(0, |table| table.lines().count())
    })
}

fn is_this_program(process: &Path) -> bool {
    let program = |process: &Path| fs::read_link(process.join("exe"));
    program(process).is_ok_and(|theirs| program(Path::new("/proc/self")).is_ok_and(|ours| ours == theirs))
}

/// Process ids of our children, in the order in which they were started (until numbers begin anew).
pub fn children() -> Vec<i32> {
    let us = std::process::id();
    let parent_of = |pid: i32| -> Option<u32> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
    };
    let mut pids: Vec<i32> = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| parent_of(*pid) == Some(us))
        .collect();
    pids.sort_unstable();
    pids
}

/// The peers among them, in the order of their roles: a mechanism may have processes of its own.
pub fn peers() -> Vec<i32> {
    let is_peer = |pid: &i32| {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split('\0').any(|word| word == peer::ARGUMENT)
    };
    children().into_iter().filter(is_peer).collect()
}

/// Runs a test, after which everything is as it was before.
pub fn leaving_nothing(test: impl FnOnce()) {
    let (before, objects_before) = (Belongings::now(), system_v_objects());
    test();
    // A thread that was joined may be listed for a moment longer, and programs beside this one may make and remove objects.
    const DEADLINE: Duration = Duration::from_secs(30);
    let since = Instant::now();
    loop {
        let (now, objects) = (Belongings::now(), system_v_objects());
        let no_more_objects = objects.iter().zip(objects_before).all(|(now, before)| *now <= before);
        if now == before && no_more_objects {
            return;
        }
        assert!(
            since.elapsed() < DEADLINE,
            "left behind: {now:?} and System V {objects:?}, before: {before:?} and {objects_before:?}"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}
