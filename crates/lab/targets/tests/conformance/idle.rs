//! `idle=busy`: while roles run, each of their CPUs has a spinner of the lowest priority, and afterwards it is gone.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use weighbridge_harness::conditions::violations;
use weighbridge_harness::coordinator::Outcome;
use weighbridge_harness::host::Host;
use weighbridge_harness::hub;
use weighbridge_harness::planner::Timing;

use crate::runs::{children, prepare, prepare_or_skip, run};

pub const TESTS: &[crate::Test] = &[
    ("each_measured_cpu_has_a_spinner_while_the_roles_run", spins),
    ("a_hub_shares_the_spinners_of_its_case", hub_too),
    ("roles_of_the_same_policy_are_refused", refused),
];

const TIMING: Timing = Timing { sample_ns: 4_000_000, samples: 12, least_samples: 12, run_ns: 48_000_000 };

/// `SCHED_IDLE`.
const IDLE: &str = "5";

/// The CPUs of our children that have this policy, each as `/proc` lists what it may run on.
fn spinners() -> BTreeSet<String> {
    let policy_of = |pid: i32| -> Option<String> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // Field 41, of which two stand before the closing parenthesis.
        Some(stat.rsplit_once(") ")?.1.split(' ').nth(38)?.to_owned())
    };
    let cpus_of = |pid: i32| -> Option<String> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        Some(line.trim().to_owned())
    };
    let spins = |pid: &i32| policy_of(*pid).as_deref() == Some(IDLE);
    children().into_iter().filter(spins).filter_map(cpus_of).collect()
}

fn spins(host: &Host) {
    for placement in ["same-cpu", "two-cpus"] {
        let id = format!("roundtrip/pipe/64/{placement}/idle=busy").parse().unwrap();
        let Some(case) = prepare_or_skip(host, &id) else { continue };
        let wanted: BTreeSet<String> = case.params.cpus.iter().map(u32::to_string).collect();
        let is_over = AtomicBool::new(false);
        let (outcome, seen) = thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                let mut most = BTreeSet::new();
                while !is_over.load(Ordering::Relaxed) && most != wanted {
                    most = most.into_iter().chain(spinners()).collect();
                }
                most
            });
            let outcome = run(host, &case, TIMING);
            is_over.store(true, Ordering::Relaxed);
            (outcome, watcher.join().expect("it only looks"))
        });
        let Outcome::Measured(measured) = outcome else { panic!("{id}: {outcome:?}") };
        assert_eq!(violations(&case, &measured), [""; 0], "{id}");
        assert_eq!(seen, wanted, "{id}: CPUs with a spinner");
        assert_eq!(spinners(), BTreeSet::new(), "{id}: after the run");
    }
}

fn hub_too(host: &Host) {
    for (case, hub) in [
        ("roundtrip/unix-stream/64/same-cpu/idle=busy", "roundtrip/pipe/1/same-cpu/idle=busy"),
        ("roundtrip/unix-stream/64/same-cpu", "roundtrip/pipe/1/same-cpu"),
    ] {
        let case = prepare(host, &case.parse().unwrap()).expect("every machine has one CPU");
        assert_eq!(hub::of(&case).map(|id| id.to_string()), Ok(hub.to_owned()));
    }
}

fn refused(host: &Host) {
    let why = prepare(host, &"roundtrip/pipe/64/same-cpu/idle=busy/sched=other:idle".parse().unwrap());
    assert!(why.as_ref().is_err_and(|why| why.contains("idle=busy")), "{why:?}");
}
