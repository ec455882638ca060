//! Whether a run is what its case says, as soon as it is over: the laws of one run ([`laws`]), looked at before anything is made of it; and what
//! the machine withheld from it meanwhile. A run that breaks any of them is void.

use weighbridge_record::laws::{self, Violation};

use crate::contract::Prepared;
use crate::coordinator::Measured;
use crate::ctx::Time;
use crate::summary;

/// The step of a run that is void because it breaks a law.
pub const STEP: &str = "conditions";

/// The step of a run that is void because CPU time was withheld.
pub const THROTTLED: &str = "throttled";

/// The step of a run that is void because its processes were stopped for a while.
pub const STOPPED: &str = "stopped";

/// Does a void run in this step say nothing of the next one?
pub fn may_pass(step: &str) -> bool {
    [THROTTLED, STOPPED].contains(&step)
}

/// CPU time that a control group withheld during a run, which makes it void: the kernel stops every role of a throttled group.
pub fn throttled(case: &Prepared, measured: &Measured) -> Option<String> {
    let throttling = measured.noise.throttling.filter(|throttling| throttling.periods > 0)?;
    let (periods, ms) = (throttling.periods, throttling.ns as f64 / 1e6);
    let why = "the control group of this program was throttled in";
    (case.target.time() != Time::Virtual)
        .then(|| format!("{why} {periods} periods, for {ms:.1} ms; give it more CPU time (cpu.max)"))
}

/// Roles that somebody stopped (SIGSTOP, Ctrl-Z) and let go on: the gap is in their times.
pub fn stopped(case: &Prepared, measured: &Measured) -> Option<String> {
    let names = case.role_names();
    let role = measured.roles.iter().find(|report| report.was_stopped)?;
    Some(format!("the process of its {} was stopped and went on; the run is thrown away", names[role.role]))
}

/// Why a run has no number, with the step in which that was seen.
pub fn void(case: &Prepared, measured: &Measured) -> Option<(&'static str, String)> {
    let passing = [(THROTTLED, throttled(case, measured)), (STOPPED, stopped(case, measured))];
    for (step, why) in passing {
        if let Some(why) = why {
            return Some((step, format!("the run is void: {why}")));
        }
    }
    match &violations(case, measured)[..] {
        [] => None,
        found => Some((STEP, format!("the run is void: {}", found.join("; ")))),
    }
}

/// Every law of one run that a run breaks, a sentence each. Any of it makes the run void.
pub fn violations(case: &Prepared, measured: &Measured) -> Vec<String> {
    let line = summary::case_line(case, &measured.facts, None);
    let run = summary::run_of(case, measured, 0, 0);
    laws::of_run(&line, &run, None).violations.iter().map(Violation::to_string).collect()
}
