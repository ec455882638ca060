//! Installed brokers answer every question. That they answer it the same way again is seen with `weighbridge dbus exam --times 10`.
#![allow(clippy::print_stdout)]

use weighbridge_dbus_brokers::{Broker, Error, Limits, Program};
use weighbridge_dbus_exam::{Bus, MATCH_RULES, Outcome, QUEUED_BYTES, QUIET, properties};

const LIMITS: Limits = Limits { queued_bytes: QUEUED_BYTES, match_rules: MATCH_RULES };

/// Each property with a broker of its own.
fn examined(program: Program) -> Vec<(&'static str, Outcome)> {
    let one = |property: &'static weighbridge_dbus_exam::Property| {
        let broker = Broker::start(program, &LIMITS).unwrap();
        let bus =
            Bus { address: broker.address(), private_pid: Some(broker.pid()), quiet: QUIET, notes: None };
        (property.id, property.examine(&bus))
    };
    properties().map(one).collect()
}

#[test]
fn installed_brokers_answer_every_question() {
    std::thread::scope(|scope| {
        for program in Program::ALL {
            match Broker::start(program, &LIMITS) {
                Err(error @ Error::Missing(_)) => {
                    println!("skipped: {error}");
                    continue;
                }
                started => drop(started.unwrap()),
            }
            scope.spawn(move || {
                for (id, outcome) in examined(program) {
                    println!("{program} {id}: {} — {}", outcome.cell(), outcome.evidence());
                    assert!(matches!(outcome, Outcome::Seen(_)), "{program} {id}: {outcome:?}");
                }
            });
        }
    });
}
