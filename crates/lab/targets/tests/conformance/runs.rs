//! Making runs, and seeing that nothing is left of them.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use causeway_testkit::watchdog::Test;
use causeway_testkit::{Cause, skipped};
use libtest_mimic::{Arguments, Trial};
use rustix::process::{Pid, Signal, kill_process};
use weighbridge_harness::catalogue::{self, Refusal};
use weighbridge_harness::conditions;
use weighbridge_harness::contract::{Prepared, Target};
use weighbridge_harness::coordinator::{Coordinator, Deadlines, Measured, Outcome};
use weighbridge_harness::host::Host;
use weighbridge_harness::interrupt::Interrupt;
use weighbridge_harness::peer;
use weighbridge_harness::planner::Timing;
use weighbridge_harness::shared::{Shared, Step};
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

/// A test that the watchdog ends if it hangs.
pub fn watched(name: impl Into<String>, test: impl FnOnce() + Send + 'static) -> Trial {
    let name = name.into();
    Trial::test(name.clone(), move || {
        let _test = Test::start(env!("CARGO_PKG_NAME"), "", &name);
        // Roles would have it as well, and no case would be what it says.
        match causeway_os::sched::nice().unwrap() {
            0 => test(),
            nice => skipped(Cause::Setting("nice=0"), format!("this program runs with nice {nice}")),
        }
        Ok(())
    })
}

/// A test after which nothing is left.
pub fn trial(name: impl Into<String>, test: impl FnOnce() + Send + 'static) -> Trial {
    watched(name, || leaving_nothing(test))
}

const TWO_CPUS: Cause = Cause::Hardware("two CPUs");

/// Why a case may be refused: what the machine lacks, and `None` where every machine refuses it.
const REFUSALS: &[(&str, Option<Cause>)] = &[
    ("has no `self`", None),
    ("no other role to hand", None),
    ("tee into a full pipe", None),
    // A role that spins needs a CPU of its own, and every machine refuses it on one.
    ("spin", Some(TWO_CPUS)),
    ("needs two CPUs", Some(TWO_CPUS)),
    ("io_uring", Some(Cause::Kernel("io_uring"))),
    ("CONFIG_SYSVIPC", Some(Cause::Kernel("CONFIG_SYSVIPC"))),
    ("CONFIG_POSIX_MQUEUE", Some(Cause::Kernel("CONFIG_POSIX_MQUEUE"))),
    ("it needs networks of its own", Some(Cause::Rights("namespaces"))),
    ("no network here can forward", Some(Cause::Rights("namespaces"))),
    ("NETLINK_USERSOCK", Some(Cause::Rights("root"))),
    ("RLIMIT_NOFILE", Some(Cause::Rights("open files"))),
    ("not an x86-64", Some(Cause::Hardware("x86-64"))),
    ("is not installed here", Some(Cause::Missing("an allocator"))),
];

/// Prints that this machine has no place for a case, unless no machine has.
pub fn skip(host: &Host, id: &CaseId, why: &str) {
    let known = REFUSALS.iter().find(|(words, _)| why.contains(words)).map(|(_, cause)| *cause);
    match known.unwrap_or(Some(Cause::Kernel("a mechanism"))) {
        Some(TWO_CPUS) if host.topology.cpus.len() > 1 => {}
        Some(cause) => skipped(cause, format!("{id}: {why}")),
        None => {}
    }
}

/// Prepares a case that exists, or says why the machine has no place for it.
pub fn prepare(host: &Host, id: &CaseId) -> Result<Prepared, String> {
    catalogue::prepare(id, host).map_err(|refusal| match refusal {
        Refusal::NotHere(why) => why,
        Refusal::NoSuchCase(why) => panic!("{id}: {why}"),
    })
}

/// The same; `None`, with the skip printed, where the machine has no place for it.
pub fn prepare_or_skip(host: &Host, id: &CaseId) -> Option<Prepared> {
    prepare(host, id).inspect_err(|why| skip(host, id, why)).ok()
}

/// The case with these axes set as well.
pub fn with(id: CaseId, axes: &[(&str, &str)]) -> CaseId {
    axes.iter().fold(id, |id, (name, value)| id.with(name, value))
}

/// Refuses each of these cases in a sentence with all of its words.
pub fn refuses(host: &Host, cases: &[(&str, &[&str])]) {
    for (id, words) in cases {
        let why = prepare(host, &id.parse().unwrap()).map(|_| ()).expect_err(id);
        assert!(words.iter().all(|word| why.contains(word)), "{id}: {why}");
    }
}

/// What starts the peers of a run: this very program.
pub fn coordinator<'a>(host: &'a Host, interrupt: &'a Interrupt) -> Coordinator<'a> {
    Coordinator::new(host, interrupt, "/proc/self/exe".into(), 1)
}

/// One run with default deadlines.
pub fn run(host: &Host, case: &Prepared, timing: Timing) -> Outcome {
    run_within(host, case, timing, Deadlines::default())
}

/// One run.
pub fn run_within(host: &Host, case: &Prepared, timing: Timing, deadlines: Deadlines) -> Outcome {
    let interrupt = Interrupt::install().unwrap();
    coordinator(host, &interrupt).with_deadlines(deadlines).run(case, timing)
}

/// What is measured, at one of several attempts: ends that spin beside others' work may hand over once in a time slice, and a batch whose size a
/// quiet moment gave then has no end.
pub fn measured_at_last(id: &CaseId, mut run: impl FnMut() -> Outcome) -> Measured {
    let mut stalled = 0;
    loop {
        match run() {
            Outcome::Measured(measured) => return *measured,
            Outcome::Failed { why, .. } if stalled < 4 && why.starts_with("no progress") => stalled += 1,
            other => panic!("{id}, stalled {stalled} times before: {other:?}"),
        }
    }
}

/// A run that must be measured, at one of several attempts; a machine that is busy may leave it without a sample.
pub fn measured(host: &Host, case: &Prepared, timing: Timing) -> Measured {
    let id = &case.params.id;
    let measured = measured_at_last(id, || run(host, case, timing));
    assert!(measured.samples.iter().all(|sample| sample.elapsed_ns > 0), "{id}");
    measured
}

/// The same; `None`, with the skip printed, where the machine has no place for the case.
pub fn measured_or_skip(host: &Host, id: &str, timing: Timing) -> Option<(Prepared, Measured)> {
    let case = prepare_or_skip(host, &id.parse().unwrap())?;
    let measured = measured(host, &case, timing);
    Some((case, measured))
}

/// One run of two ends: counts of both roles that agree with the payload, and facts.
pub fn measure(host: &Host, case: &Prepared, timing: Timing) -> Measured {
    let id = &case.params.id;
    let measured = measured(host, case, timing);
    assert!(!measured.samples.is_empty(), "{id}: no samples");
    assert!(measured.samples.iter().all(|sample| sample.ops > 0), "{id}");
    assert_eq!(conditions::violations(case, &measured), [""; 0], "{id}");
    let own_facts = measured.facts.keys().filter(|name| !["policy", "nice"].contains(&name.as_str()));
    let is_told = measured.facts.contains_key("policy") && own_facts.count() >= 2;
    assert!(is_told, "{id}: {:?}", measured.facts);
    let [first, second] = &measured.roles[..] else { panic!("{id}: {} roles", measured.roles.len()) };
    if id.pattern == "roundtrip" && case.params.axis("direction") == "both" {
        assert_eq!(first.counted.received_bytes, first.counted.ops * id.payload_bytes, "{id}");
    }
    assert_eq!(second.counted.received_bytes, second.counted.ops * id.payload_bytes, "{id}");
    assert!(second.counted.ops > 0, "{id}");
    measured
}

/// The run that the main thread makes, as a thread beside it sees it. What that waits for may never come: `None` says that the run
/// is over.
pub struct Watched<'a> {
    pub shared: Shared,
    is_over: &'a AtomicBool,
}

/// Makes a run while `meddle` does something to it from a thread beside. `None` where the run was over before that was done.
pub fn beside<T: Send>(
    run: impl FnOnce() -> Outcome,
    meddle: impl FnOnce(&Watched<'_>) -> Option<T> + Send,
) -> (Outcome, Option<(T, Shared)>) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let meddler = scope.spawn(|| {
            let shared = until(&is_over, memory_of_the_run)?;
            let watched = Watched { shared, is_over: &is_over };
            meddle(&watched).map(|done| (done, watched.shared))
        });
        let outcome = run();
        is_over.store(true, Ordering::Relaxed);
        (outcome, meddler.join().expect("the meddler does not panic"))
    })
}

/// The words of the run that this process coordinates, by the name of their memory.
fn memory_of_the_run() -> Option<Shared> {
    fs::read_dir("/proc/self/fd").unwrap().flatten().find_map(|entry| {
        let link = fs::read_link(entry.path()).ok()?;
        if !link.to_str()?.starts_with("/memfd:weighbridge-run") {
            return None;
        }
        let file = File::options().read(true).write(true).open(entry.path()).ok()?;
        Shared::open(file.into()).ok()
    })
}

fn until<T>(is_over: &AtomicBool, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    loop {
        if let found @ Some(_) = look() {
            return found;
        }
        if is_over.load(Ordering::Relaxed) {
            return None;
        }
        thread::sleep(Duration::from_micros(50));
    }
}

impl Watched<'_> {
    /// The peer of a role, once it runs this program as a peer.
    pub fn peer(&self, role: usize) -> Option<i32> {
        until(self.is_over, || peers().get(role).copied())
    }

    pub fn await_step(&self, role: usize, step: Step) -> Option<()> {
        until(self.is_over, || (self.shared.step(role) >= step).then_some(()))
    }

    /// Stops a process, and waits until it is stopped, or gone.
    pub fn stop(&self, pid: i32) -> Option<()> {
        send(pid, Signal::STOP);
        until(self.is_over, || {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['T', 'Z', 'X'])).then_some(())
        })
    }
}

/// Sends a signal; to somebody who is gone already, it is not sent.
pub fn send(pid: i32, signal: Signal) {
    let _ = kill_process(Pid::from_raw(pid).unwrap(), signal);
}

/// The ids of a mechanism in both patterns and placements, with a payload.
pub fn everywhere(target: &Target, payload_bytes: u64) -> Vec<CaseId> {
    let of = |pattern| PLACEMENTS.map(|placement| CaseId::new(pattern, target.id, payload_bytes, placement));
    PATTERNS.map(of).concat()
}

/// Where a mechanism is measured when one place is enough: on one CPU, unless it spins. `None`, with the skip printed, where it has no place.
pub fn anywhere(target: &Target, host: &Host) -> Option<&'static str> {
    let [first, second] = PLACEMENTS.map(|place| (place, CaseId::new("roundtrip", target.id, 1, place)));
    if prepare(host, &first.1).is_ok() {
        return Some(first.0);
    }
    prepare_or_skip(host, &second.1).map(|_| second.0)
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

/// Process ids of our children, in the order in which they were started.
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
    // Numbers begin anew: where two neighbors are further apart than half of all, the larger was started first.
    let all: i32 = fs::read_to_string("/proc/sys/kernel/pid_max").unwrap().trim().parse().unwrap();
    let first = pids.windows(2).position(|pair| pair[1] - pair[0] > all / 2).map_or(0, |at| at + 1);
    pids.rotate_left(first);
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
        thread::sleep(Duration::from_millis(1));
    }
}
