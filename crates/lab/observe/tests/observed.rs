//! Real cases, observed by what can be used here. The peers are fresh processes of this very program.

#[path = "../../targets/tests/conformance/runs.rs"]
#[allow(dead_code, clippy::print_stderr, reason = "targets use the rest")]
mod runs;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::ExitCode;
use std::thread;

use causeway_testkit::{Cause, skipped};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use weighbridge_harness::contract::Prepared;
use weighbridge_harness::coordinator::{self, Coordinator, PeerStart};
use weighbridge_harness::host::Host;
use weighbridge_harness::interrupt::Interrupt;
use weighbridge_harness::planner::Timing;
use weighbridge_observe::probe::{Probe, Probes, Status, Tried};
use weighbridge_observe::{Observed, Observer, Outcome, Settings};
use weighbridge_probe::counters::EventSwitch;
use weighbridge_record::Profile;

const PROGRAM: &str = "/proc/self/exe";
/// Long enough for some tens of samples.
const TIMING: Timing = Timing { sample_ns: 2_000_000, samples: 20, least_samples: 4, run_ns: 40_000_000 };

fn main() -> ExitCode {
    weighbridge_targets::register();
    runs::main(|host| {
        let trial = |name: &str, test: fn(&Host)| runs::watched(name, move || test(host));
        vec![
            trial("a_round_trip_over_a_pipe_switches_twice_on_one_cpu", counts),
            trial("samples_find_the_pipe_in_the_kernel", samples),
            trial("what_fails_while_observed_is_said_and_the_unobserved_figure_kept", failures),
            trial("events_that_cannot_be_started_end_the_run_with_the_reason", refused_events),
            trial("threads_and_many_roles_are_observed_too", other_patterns),
            trial("without_rights_each_means_names_what_would_allow_it", unprivileged),
        ]
    })
}

fn prepare(host: &Host, id: &str) -> Option<Prepared> {
    runs::prepare_or_skip(host, &id.parse().unwrap())
}

fn observe(host: &Host, id: &str, probes: &Probes, rounds: u32) -> Option<Observed> {
    let case = prepare(host, id)?;
    let interrupt = Interrupt::install().unwrap();
    let coordinator = Coordinator::new(host, &interrupt, PROGRAM.into(), 1);
    let settings = Settings { rounds, timing: TIMING, ..Settings::new(1) };
    match Observer::new(settings, coordinator, &interrupt, probes).observe(&case).unwrap() {
        Outcome::Observed(observed) => Some(*observed),
        other => panic!("{id}: {other:?}"),
    }
}

fn probes(host: &Host) -> Probes {
    Probes::of(host.measured_cpus[0], Path::new(PROGRAM))
}

/// Does it work here? If not, prints the skip of the test.
fn has(probes: &Probes, probe: Probe) -> bool {
    let tried = probes.all.iter().find(|tried| tried.probe == probe);
    if !probes.has(probe) {
        let cause = match probe {
            Probe::Software | Probe::Sampling => Cause::Rights("perf"),
            Probe::Tracepoints | Probe::Interrupts | Probe::Halts => Cause::Kernel("tracefs"),
            Probe::Hardware => Cause::Hardware("PMU"),
            Probe::SystemCalls => Cause::Rights("ptrace"),
        };
        skipped(cause, format!("{tried:?}"));
    }
    probes.has(probe)
}

fn counts(host: &Host) {
    let probes = probes(host);
    let Some(observed) = observe(host, "roundtrip/pipe/1/same-cpu", &probes, 1) else { return };
    let of = &observed.observation;
    assert!(of.unobserved > 0.0 && of.cpus.len() == 1, "{of:?}");
    let usable = probes.all.iter().filter(|tried| probes.has(tried.probe)).count();
    assert_eq!(of.refused.len() + usable, Probe::ALL.len());
    let per_op = |event: &str| of.counts.iter().find(|count| count.event == event).map(|count| count.per_op);
    // Each way needs a switch. Whatever else runs on this CPU adds to that, and can take none away.
    let at_least = |event: &str, least: f64| {
        let found = per_op(event).unwrap_or_else(|| panic!("no {event}: {of:?}"));
        assert!((least * 0.98..least * 3.0 + 1.0).contains(&found), "{event}: {found} per round trip");
    };
    if has(&probes, Probe::Software) {
        at_least("context-switches", 2.0);
    }
    if has(&probes, Probe::Tracepoints) {
        at_least("sched:sched_switch", 2.0);
        // A process that takes the CPU before the other one sleeps need not wake it.
        assert!(per_op("sched:sched_waking").is_some_and(|waking| waking > 0.0), "{of:?}");
        at_least("raw_syscalls:sys_enter", 4.0);
    }
    if has(&probes, Probe::SystemCalls) {
        let calls = of.system_calls.as_ref().expect("they can be counted here");
        assert!((3.9..5.0).contains(&calls.per_op), "{calls:?}");
    }
    for look in &of.looks {
        assert!(look.pairs == 1 && look.slowdown.is_some_and(|slowdown| slowdown > 0.0), "{look:?}");
    }
}

fn samples(host: &Host) {
    let probes = probes(host);
    if !has(&probes, Probe::Sampling) {
        return;
    }
    let Some(observed) = observe(host, "roundtrip/pipe/1/same-cpu", &probes, 2) else { return };
    let profile = observed.profile.expect("samples can be taken here");
    assert!(profile.samples > 20 && profile.runs == 2 && profile.ops > 0, "{profile:?}");
    assert_eq!(observed.folded.iter().map(|(_, count)| count).sum::<u64>(), profile.samples);
    for role in ["client", "server"] {
        let part = profile.parts.iter().find(|part| part.role == role);
        assert!(part.is_some_and(|part| part.user_ns + part.kernel_ns > 0.0), "{role}: {:?}", profile.parts);
    }
    if let Some(why) = &profile.symbols_hidden {
        return skipped(Cause::Rights("kernel symbols"), why);
    }
    let pipe = profile.symbols.iter().find(|of| of.in_kernel && of.symbol.contains("pipe_"));
    assert!(pipe.is_some_and(|of| of.total_ns > 0.0), "{:?}", profile.symbols);
    // The roles are in the kernel most of the time, and beside a load there are few samples of them.
    let ours = |profile: &Profile| {
        profile.symbols.iter().any(|of| !of.in_kernel && of.symbol.contains("weighbridge"))
    };
    let again =
        || observe(host, "roundtrip/pipe/1/same-cpu", &probes, 2).and_then(|observed| observed.profile);
    assert!(
        ours(&profile) || (0..10).filter_map(|_| again()).any(|profile| ours(&profile)),
        "no function of ours"
    );
}

fn failures(host: &Host) {
    let mut probes = probes(host);
    let hardware = probes.all.iter_mut().find(|tried| tried.probe == Probe::Hardware).unwrap();
    if !matches!(hardware.status, Status::Refused(_)) {
        return skipped(Cause::Hardware("no PMU"), "this machine has what the test pretends to have");
    }
    hardware.status = Status::Usable;
    let Some(observed) = observe(host, "roundtrip/pipe/1/same-cpu", &probes, 3) else { return };
    let look = observed.observation.looks.iter().find(|look| look.means == "hardware").expect("it was tried");
    assert_eq!((look.failures.len(), look.pairs, look.slowdown), (2, 0, None), "tried twice: {look:?}");
    assert!(look.failures[0].starts_with("observe: "), "{look:?}");
    assert!(observed.observation.unobserved > 0.0);
}

fn refused_events(host: &Host) {
    let Some(case) = prepare(host, "roundtrip/pipe/1/same-cpu") else { return };
    let interrupt = Interrupt::install().unwrap();
    let mut coordinator = Coordinator::new(host, &interrupt, PROGRAM.into(), 1);
    let no_event = OwnedFd::from(std::fs::File::open("/proc/self/status").unwrap());
    let start = PeerStart { events: Some(EventSwitch::new(vec![no_event])), ..PeerStart::default() };
    match coordinator.run_from(&case, &start, TIMING) {
        coordinator::Outcome::Failed { why, .. } => {
            assert!(why.contains("cannot start perf events"), "{why}")
        }
        other => panic!("{other:?}"),
    }
}

fn other_patterns(host: &Host) {
    let probes = probes(host);
    for id in [
        "stream/pipe/4096/two-cpus",
        "roundtrip/pipe/1/free/peers=thread",
        "parallel/getppid/0/two-cpus/roles=2",
        "fan-out/unix-stream/64/same-cpu/receivers=3",
    ] {
        let Some(observed) = observe(host, id, &probes, 1) else { continue };
        let looks = &observed.observation.looks;
        assert!(looks.iter().all(|look| look.failures.is_empty() && look.pairs == 1), "{id}: {looks:?}");
        let Some(profile) = observed.profile else { continue };
        let ours: f64 = profile
            .parts
            .iter()
            .filter(|part| !part.role.starts_with('('))
            .map(|part| part.user_ns + part.kernel_ns)
            .sum();
        assert!(ours > 0.0, "{id}: no sample of a role: {:?}", profile.parts);
    }
    let Some(calls) = observe(host, "solo/getppid/0/same-cpu", &probes, 1) else { return };
    let found = calls.observation.counts.iter().find(|count| count.event == "raw_syscalls:sys_enter");
    if has(&probes, Probe::Tracepoints) {
        let per_op = found.expect("it can be counted").per_op;
        assert!((0.98..1.5).contains(&per_op), "one call an operation: {per_op}");
    }
}

fn unprivileged(host: &Host) {
    let cpu = host.measured_cpus[0];
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    if paranoid.trim().parse().is_ok_and(|paranoid: i64| paranoid < 1) {
        return skipped(Cause::Kernel("kernel.perf_event_paranoid"), "everybody may look here");
    }
    // Capabilities belong to a thread.
    let probed = thread::spawn(move || {
        let none = CapabilitySet::empty();
        set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
            .unwrap();
        Probes::of(cpu, Path::new(PROGRAM)).all
    });
    let probed: Vec<Tried> = probed.join().unwrap();
    let why = |probe: Probe| match &probed.iter().find(|tried| tried.probe == probe).unwrap().status {
        Status::Refused(why) => why.clone(),
        other => panic!("{probe:?}: {other:?}"),
    };
    for probe in [Probe::Software, Probe::Sampling] {
        let why = why(probe);
        let remedies =
            ["perf_event_paranoid=0", "seccomp", "lockdown", "CONFIG_PERF_EVENTS", "security module"];
        assert!(remedies.iter().any(|remedy| why.contains(remedy)), "{probe:?}: {why}");
    }
    assert!(!why(Probe::Tracepoints).is_empty());
}
