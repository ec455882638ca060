//! Installed brokers answer every question. That they answer it the same way again is seen with `weighbridge dbus exam --rounds 10`.

use causeway_testkit::watchdog::extend_limit;
use weighbridge_dbus_client::brokers::Program;
use weighbridge_dbus_exam::{Bus, Outcome, Property, properties};

use crate::{EXAMINATION, start};

/// An examination waits most of the time, for what must not come: this many of one broker are under way at once.
const AT_ONCE: usize = 2;

/// A property with a broker of its own.
fn examine(program: Program, property: &Property) {
    let broker = start(program).expect("only installed brokers are examined");
    let bus = Bus::new(broker.address(), Some(broker.pid()));
    let (id, outcome) = (property.id, property.examine(&bus));
    println!("{program} {id}: {} — {}", outcome.cell(), outcome.evidence());
    let is_left_out = program.is_native() && property.not_native.is_some();
    let is_answered = match outcome {
        Outcome::Seen(_) => !is_left_out,
        Outcome::Skipped(_) => is_left_out,
        Outcome::Failed(_) => false,
    };
    assert!(is_answered, "{program} {id}: {outcome:?}");
    // A promise of the bus of native members, where no process is between them.
    assert!(!(program.is_native() && outcome.is_violation()), "{id}: {outcome:?}");
}

#[test]
fn installed_brokers_answer_every_question() {
    let all: Vec<&Property> = properties().collect();
    extend_limit(EXAMINATION * all.len() as u32);
    std::thread::scope(|scope| {
        for program in Program::ALL.into_iter().filter(|program| start(*program).is_some()) {
            for part in all.chunks(all.len().div_ceil(AT_ONCE)) {
                scope.spawn(move || part.iter().for_each(|property| examine(program, property)));
            }
        }
    });
}
