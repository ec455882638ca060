//! Brokers that are killed in the middle of a run.

use std::thread;

use causeway_testkit::{eventually, proc};
use rustix::process::{Pid, Signal, kill_process};
use weighbridge_harness::contract::Prepared;
use weighbridge_harness::coordinator::Outcome;
use weighbridge_harness::host::Host;
use weighbridge_harness::planner::Timing;

use crate::runs;

/// Long enough to be killed in.
pub const LONG: Timing =
    Timing { sample_ns: 20_000_000, samples: 200, least_samples: 200, run_ns: 4_000_000_000 };

/// Processes of a broker that hang below this one.
pub fn brokers(name: &str) -> Vec<u32> {
    let mut children = proc::children(std::process::id());
    children.retain(|pid| proc::name(*pid).as_deref() == Some(name));
    children
}

/// The broker of a round trip is killed while the processes of both roles run: the run fails, and the reason tells of a lost connection.
pub fn broker_killed(host: &Host, case: &Prepared) {
    // Native members are served by causewayd.
    let broker = if case.target.id == "causeway-bus" { "causewayd" } else { case.target.id };
    let outcome = thread::scope(|scope| {
        scope.spawn(|| {
            eventually("all are started", || !brokers(broker).is_empty() && runs::peers().len() == 2);
            for pid in brokers(broker) {
                kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
            }
        });
        runs::run(host, case, LONG)
    });
    let Outcome::Failed { why, .. } = outcome else { panic!("{}: {outcome:?}", case.params.id) };
    // Either an end was on the bus already, or it was about to connect.
    let words = [
        "the broker closed the connection",
        "is gone",
        "Connection reset",
        "Connection refused",
        "Broken pipe",
        "onnect",
        "Input/output error",
    ];
    assert!(words.iter().any(|words| why.contains(words)), "{}: {why}", case.params.id);
}
