//! Sessions that count and sessions that do not: neighbors, clones, attempts, clocks, what is missing (acceptance 9 and more).

use weighbridge_fleet::analysis::{Options, analyze};
use weighbridge_fleet::lake::{Lake, SessionPart};
use weighbridge_record::Ending;

use crate::support::world::{DAY_US, Kind, World};

const MINUTE_US: i64 = 60_000_000;

fn world() -> World {
    World::new(Kind::Normal, 12, 6, 1)
}

fn lake(parts: impl IntoIterator<Item = SessionPart>) -> Lake {
    let mut lake = Lake::new();
    parts.into_iter().for_each(|part| lake.add(part, None));
    lake.settle();
    lake
}

/// The same boot once more, `later` after it began.
fn again(part: &SessionPart, later_us: i64, name: &str) -> SessionPart {
    let record = format!("{name}-{}", part.record);
    let (started_us, ended_us) = (part.started_us + later_us, part.ended_us.map(|end| end + later_us));
    SessionPart { record, started_us, ended_us, ..part.clone() }
}

#[test]
fn sessions_that_overlap_in_one_boot_are_flagged_and_consecutive_ones_are_not() {
    let first = world().session(0, 0, 0, &[]);
    let other_name = SessionPart { machine: "job-17".into(), ..again(&first, MINUTE_US / 2, "beside") };
    let found = analyze(&lake([first.clone(), other_name]), &Options::default()).interference;
    assert_eq!((found.sessions, found.machines), (2, 1), "{found:?}");
    assert_eq!(found.overlaps[0].seconds, 30.0);
    assert_eq!(found.overlaps[0].other, "job-17");
    let found =
        analyze(&lake([first.clone(), again(&first, MINUTE_US, "after")]), &Options::default()).interference;
    assert_eq!(found.sessions, 0, "{found:?}");
    // Its start was cut to whole seconds.
    let right_after = again(&first, MINUTE_US - 900_000, "right after");
    let found = analyze(&lake([first.clone(), right_after]), &Options::default()).interference;
    assert_eq!(found.sessions, 0, "{found:?}");
    let elsewhere = SessionPart { boot: "another".into(), ..again(&first, MINUTE_US / 2, "elsewhere") };
    assert_eq!(analyze(&lake([first, elsewhere]), &Options::default()).interference.sessions, 0);
}

#[test]
fn what_ran_beside_another_session_is_no_claim() {
    let world = World::new(Kind::Normal, 40, 8, 2).with_bad_hosts(1, 0.2);
    let bad = world.bad_hosts[0];
    let both = |host| [world.session(host, 0, 0, &[]), world.session(host, 1, 1, &[])];
    let sure = |lake: &Lake| {
        analyze(lake, &Options::default()).classes[0].hosts.iter().filter(|host| host.is_sure).count()
    };
    let mut all: Vec<SessionPart> = (0..40).flat_map(both).collect();
    assert_eq!(sure(&lake(all.clone())), 1);
    let beside: Vec<SessionPart> =
        both(bad).iter().map(|part| again(part, MINUTE_US / 2, "beside")).collect();
    all.extend(beside);
    assert_eq!(sure(&lake(all)), 0);
}

#[test]
fn a_name_that_is_in_two_boots_at_once_is_two_machines() {
    let world = world();
    let first = world.session(3, 0, 0, &[]);
    let clone = SessionPart { boot: "of-the-clone".into(), ..again(&first, MINUTE_US / 2, "clone") };
    let found =
        analyze(&lake([first.clone(), clone, world.session(4, 0, 0, &[])]), &Options::default()).trouble;
    assert_eq!(found.clones, [world.name(3)]);
    // In turns: a boot that is over comes back.
    let turns = ["x", "y", "x"].iter().enumerate().map(|(at, boot)| {
        let part = again(&first, at as i64 * 2 * MINUTE_US, &at.to_string());
        SessionPart { boot: (*boot).into(), ..part }
    });
    assert_eq!(analyze(&lake(turns), &Options::default()).trouble.clones, [world.name(3)]);
    let reboot = SessionPart { boot: "next".into(), ..again(&first, 2 * MINUTE_US, "next") };
    assert_eq!(analyze(&lake([first, reboot]), &Options::default()).trouble.clones, [] as [String; 0]);
}

#[test]
fn of_two_attempts_the_later_figure_counts_and_both_are_kept() {
    let plan = Some(("plan".to_owned(), 1, 3));
    let first = SessionPart { plan: plan.clone(), ..world().session(0, 0, 0, &[]) };
    let mut second = SessionPart { attempt: 1, ..again(&first, 2 * MINUTE_US, "second") };
    second.rows.truncate(2);
    second.rows[0].figures.cost += 1.0;
    second.rows[1].figures.ending = Ending::Void;
    let lake = lake([first, second]);
    assert_eq!(lake.sessions.len(), 2);
    let found = analyze(&lake, &Options::default());
    assert_eq!(found.coverage.missing_shards, [("plan".to_owned(), vec![2, 3])]);
    // One boot, of which each case counts once: had both attempts counted, that would be their middle.
    let usable = found.classes[0].clone();
    assert_eq!((usable.boots, usable.cases), (1, 6));
    assert_eq!(found.coverage.unmeasured[0].outcome, "void");
}

#[test]
fn what_is_missing_is_told_by_machine_case_and_reason() {
    let world = world();
    let mut parts: Vec<SessionPart> = (0..12).map(|host| world.session(host, 0, 0, &[])).collect();
    let skipped = &mut parts[5].rows[2];
    skipped.figures.ending = Ending::Skipped;
    skipped.why = "two-cpus needs 2 CPUs".into();
    parts[6].rows.pop();
    let options = Options { expected: vec![world.name(0), "n-gone".into()], ..Options::default() };
    let coverage = analyze(&lake(parts), &options).coverage;
    assert_eq!(coverage.missing_machines, ["n-gone"]);
    assert_eq!((coverage.missing_cells, coverage.missing_cases.len()), (2, 2), "{coverage:?}");
    let reason = &coverage.unmeasured[0];
    assert_eq!(
        (reason.outcome, reason.why.as_str(), reason.machines),
        ("skipped", "two-cpus needs 2 CPUs", 1)
    );
}

#[test]
fn clocks_that_are_ahead_and_records_that_come_late_are_told() {
    let world = world();
    let mut lake = Lake::new();
    for (host, written) in [(0, -3 * DAY_US), (1, 5 * DAY_US), (2, DAY_US / 2)] {
        let part = world.session(host, 0, 0, &[]);
        let at = part.started_us + written;
        lake.add(part, Some(at));
    }
    lake.settle();
    let trouble = analyze(&lake, &Options::default()).trouble;
    assert_eq!((trouble.clocks_ahead, trouble.late_sessions), (vec![world.name(0)], 1));
}
