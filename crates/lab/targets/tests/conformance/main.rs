//! Everything that is measured keeps its promises.
//!
//! Each test runs real peers: fresh processes of this very program, which hands over to [`peer::main`](weighbridge_harness::peer::main) when
//! it is started as one. Tests run one after the other in the main thread, because they count what this process holds, and because
//! peers end with the thread that started them. A filter selects: `mechanism/pipe/`, `fan-out/`, `duet/`, `defects/`.

#![allow(clippy::print_stderr, reason = "a filter without a test is an error")]

mod all_to_all;
mod calls;
mod carrying;
mod conditions;
mod defective;
mod defects;
mod duet;
mod each;
mod fan;
mod fan_in;
mod fan_out;
mod faults;
#[cfg(feature = "iceoryx2")]
mod iceoryx2;
mod idle;
mod killed;
mod limits;
mod many;
mod marks;
mod measured;
mod memory;
mod own;
mod pairs;
mod primitives;
mod runs;
mod search;
mod transfer;
mod warm;

use std::process::{Command, ExitCode};

use libtest_mimic::Trial;
use weighbridge_harness::catalogue;
use weighbridge_harness::contract::Caps;
use weighbridge_harness::host::Host;
use weighbridge_targets::mechanism;

fn main() -> ExitCode {
    weighbridge_targets::register();
    catalogue::add(defective::FAMILIES);
    #[cfg(feature = "iceoryx2")]
    if let Some(code) = iceoryx2::coordinate_if_asked() {
        return code;
    }
    // The folder of what it compiles stays until the last test has ended, for each run loads that again.
    let _folder = match own::begin() {
        Ok(folder) => folder,
        Err(code) => return code,
    };
    runs::main(trials)
}

fn trials(host: &'static Host) -> Vec<Trial> {
    let mut trials = Vec::new();
    for target in mechanism::ALL.iter().filter(|target| !target.caps.has(Caps::HARNESS)) {
        trials.extend(runs::trials_of(host, target, pairs::PROMISES));
    }
    trials.extend(own::trials(host));
    trials.extend(primitives::trials(host));
    trials.extend(fan::trials(host));
    trials.extend(all_to_all::trials(host));
    #[cfg(feature = "iceoryx2")]
    trials.extend(iceoryx2::trials(host));
    let of_the_harness = [
        ("runs", TESTS),
        ("calls", calls::TESTS),
        ("conditions", conditions::TESTS),
        ("idle", idle::TESTS),
        ("marks", marks::TESTS),
        ("warm", warm::TESTS),
        ("fan", fan::TESTS),
        ("all-to-all", all_to_all::TESTS),
        ("duet", duet::TESTS),
        ("defects", defects::TESTS),
        ("memory", memory::TESTS),
        ("transfer", transfer::TESTS),
    ];
    for (group, tests) in of_the_harness {
        trials.extend(runs::named(host, group, tests));
    }
    trials.extend(duet::trials(host));
    trials
}

/// A promise of the laboratory as a whole.
type Test = (&'static str, fn(&Host));

const TESTS: &[Test] = &[
    ("settings_are_made_and_read_back", limits::settings_are_read_back),
    ("what_exceeds_a_limit_is_refused_with_its_name_and_how_to_raise_it", limits::refusals_name_the_limit),
    ("the_largest_message_that_a_limit_allows_is_carried", limits::largest_messages),
    ("a_buffer_below_the_kernels_minimum_is_not_taken_in_silence", limits::too_small_a_buffer),
    ("a_low_limit_on_message_queues_is_named", limits::low_msgqueue_limit),
    ("a_peer_killed_in_verify_is_a_failure_in_verify", faults::killed_in_verify),
    ("a_peer_that_never_goes_on_is_a_failure_within_the_deadline", faults::stopped_for_good),
    ("the_deadline_for_the_start_does_not_wake_the_coordinator", faults::coordinator_sleeps_past_the_start),
    ("a_failure_at_attach_death_and_a_stall_are_told_apart", faults::mock_faults),
    ("single_round_trips_are_timed_and_counted", each::timed),
    ("round_trips_are_timed_singly_where_that_costs_next_to_nothing", each::auto),
    ("an_open_loop_counts_from_when_a_request_was_due", each::open_loop),
    ("calls_come_when_they_are_due_by_every_way_to_call", each::calls_at_a_rate),
    ("round_trips_that_the_clock_cannot_tell_are_refused", each::too_short),
    ("a_search_by_measuring_ends_around_the_known_crossing", search::ends_around_the_crossing),
    ("a_run_that_makes_no_progress_uses_the_budget", search::stall_uses_the_budget),
    ("many_runs_leave_nothing_behind", many::nothing_is_left),
    ("a_filter_that_names_no_mechanism_is_an_error", unknown_mechanism),
];

fn unknown_mechanism(_host: &Host) {
    let listed = |filter: &str| Command::new("/proc/self/exe").args([filter, "--list"]).output().unwrap();
    assert!(listed("mechanism/pipe/").status.success());
    let refused = listed("mechanism/nothing-like-it/");
    let why = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && why.contains("mechanism/nothing-like-it/"), "{why}");
}
