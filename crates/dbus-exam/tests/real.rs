//! Installed brokers answer every question. That they answer it the same way again is seen with `weighbridge dbus exam --times 10`.
#![allow(clippy::print_stdout)]

use weighbridge_dbus_brokers::{Broker, Error, Limits, Program};
use weighbridge_dbus_exam::{Bus, MATCH_RULES, NOT_EXAMINED, Outcome, QUEUED_BYTES, properties};

const LIMITS: Limits = Limits { queued_bytes: QUEUED_BYTES, match_rules: MATCH_RULES };

/// Each property with a broker of its own.
fn examined(program: Program) -> Vec<(&'static str, Outcome)> {
    let one = |property: &'static weighbridge_dbus_exam::Property| {
        let broker = Broker::start(program, &LIMITS).unwrap();
        let bus = Bus::new(broker.address(), Some(broker.pid()));
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
                    let is_left_out =
                        program.is_native() && NOT_EXAMINED.iter().any(|(known, _)| *known == id);
                    let is_answered = match outcome {
                        Outcome::Seen(_) => !is_left_out,
                        Outcome::Skipped(_) => is_left_out,
                        Outcome::Failed(_) => false,
                    };
                    assert!(is_answered, "{program} {id}: {outcome:?}");
                    // A promise of the bus of native members, where no process is between them.
                    assert!(!(program.is_native() && outcome.is_violation()), "{id}: {outcome:?}");
                }
            });
        }
    });
}
