//! What reports claim of fleets whose truth is known: acceptance 5 and 6 of the design. `FLEET_SEEDS=20 FLEET_HOSTS=10000` is the whole of it;
//! `FLEET_KIND=two-bands` is a part.
#![allow(clippy::print_stdout, reason = "rates are printed for who asks with --nocapture")]

use std::collections::BTreeSet;

use weighbridge_fleet::analysis::{Findings, Options, analyze};
use weighbridge_fleet::lake::Lake;

use crate::support::world::{KINDS, Kind, World};

const MARGIN: f64 = 0.03;

fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn kinds() -> impl Iterator<Item = Kind> {
    let only = std::env::var("FLEET_KIND").ok();
    KINDS
        .into_iter()
        .filter(move |(name, _)| only.as_deref().is_none_or(|only| only == *name))
        .map(|(_, kind)| kind)
}

fn hosts() -> usize {
    setting("FLEET_HOSTS", 4000) as usize
}

/// Each machine once, then what the report wants to be measured again, in another boot, as a fleet would.
fn measured(world: &World) -> (Lake, Findings) {
    let mut lake = world.first_session();
    let options = Options::default();
    let plan = analyze(&lake, &options).remeasure;
    for asked in &plan.hosts {
        let host: usize = asked.machine[1..].parse().unwrap();
        lake.add(world.session(host, 1, 1, &asked.cases), None);
    }
    lake.settle();
    let findings = analyze(&lake, &options);
    (lake, findings)
}

fn claimed(findings: &Findings) -> BTreeSet<usize> {
    let sure = findings.classes.iter().flat_map(|class| &class.hosts).filter(|host| host.is_sure);
    sure.map(|host| host.machine[1..].parse().unwrap()).collect()
}

#[test]
fn bad_machines_are_found_and_few_claims_are_wrong_in_all_four_fleets() {
    for kind in kinds() {
        let (mut found, mut claims, mut wrong, mut cells, mut wrong_cells) = (0, 0, 0, 0, 0);
        let seeds = setting("FLEET_SEEDS", 3);
        for seed in 1..=seeds {
            let world = World::new(kind, hosts(), 30, seed)
                .with_bad_hosts(10, (2.0 * MARGIN).ln_1p())
                .with_bad_cells(10, 0.2_f64.ln_1p());
            let (_, findings) = measured(&world);
            let sure = claimed(&findings);
            found += world.bad_hosts.iter().filter(|host| sure.contains(host)).count();
            claims += sure.len();
            wrong += sure.iter().filter(|host| world.hosts[**host].abs() <= MARGIN.ln_1p()).count();
            let of_cells = findings.classes.iter().flat_map(|class| &class.cells).filter(|cell| cell.is_sure);
            for cell in of_cells {
                let at = (
                    cell.machine[1..].parse().unwrap(),
                    world.cases.iter().position(|case| *case == cell.case).unwrap(),
                );
                if world.bad_cells.contains(&at) { cells += 1 } else { wrong_cells += 1 }
            }
        }
        let told = format!(
            "{kind:?}, {seeds} seeds of {} machines: {found} of {} bad machines found, {wrong} of {claims} claims wrong; {cells} of {} bad cells, {wrong_cells} wrong",
            hosts(),
            10 * seeds,
            10 * seeds
        );
        println!("{told}");
        assert!(found as u64 >= 7 * seeds, "{told}");
        assert!(wrong as f64 <= 0.05 * claims as f64 + 1.0, "{told}");
        assert!(cells as u64 >= 7 * seeds && wrong_cells as u64 <= seeds, "{told}");
    }
}

#[test]
fn a_fleet_within_the_margin_gives_no_claim() {
    let seeds = setting("FLEET_SEEDS", 3);
    for kind in kinds() {
        let with_claims = (1..=seeds).filter(|seed| {
            let world = World::new(kind, hosts(), 30, 1000 + seed).within(MARGIN.ln_1p());
            let (_, findings) = measured(&world);
            let cells =
                findings.classes.iter().flat_map(|class| &class.cells).filter(|cell| cell.is_sure).count();
            println!("{kind:?} {seed}: {} machines and {cells} cells claimed", claimed(&findings).len());
            !claimed(&findings).is_empty() || cells > 0
        });
        let with_claims = with_claims.count();
        assert!(
            with_claims as u64 <= seeds.div_ceil(20),
            "{kind:?}: claims in {with_claims} of {seeds} fleets"
        );
    }
}

#[test]
fn two_bands_are_told_as_two_bands() {
    let (_, findings) = measured(&World::new(Kind::TwoBands, 2000, 30, 5));
    let [lower, upper] = findings.classes[0].bands.expect("two bands");
    assert!(
        (upper[0] - 0.3).abs() < 0.05 && (upper[1] - lower[1] - 0.04).abs() < 0.006,
        "{lower:?} {upper:?}"
    );
    for kind in [Kind::Normal, Kind::HeavyCells, Kind::HeavyHosts] {
        let (_, findings) = measured(&World::new(kind, 2000, 30, 5));
        assert_eq!(findings.classes[0].bands, None, "{kind:?}");
    }
}

#[test]
fn a_setting_that_costs_is_named_with_its_copies_and_one_that_does_nothing_is_not() {
    let world = World::new(Kind::Normal, 600, 20, 7).with_facts(60, Some(0.015));
    let settings = analyze(&world.first_session(), &Options::default()).settings;
    let names: Vec<&str> = settings.groups[0].settings.iter().map(|setting| setting.name.as_str()).collect();
    assert_eq!(settings.groups.len(), 1, "{settings:?}");
    assert_eq!(BTreeSet::from_iter(names), BTreeSet::from(["sysctl:guilty", "power:copy", "limit:nearly"]));
    assert!(settings.groups[0].settings.iter().any(|setting| setting.with_first.abs() < 1.0), "{settings:?}");
    let seeds = 4 * setting("FLEET_SEEDS", 3);
    let with_claims = (1..=seeds).filter(|seed| {
        let world = World::new(Kind::Normal, 200, 20, 100 + seed).with_facts(60, None);
        !analyze(&world.first_session(), &Options::default()).settings.groups.is_empty()
    });
    let with_claims = with_claims.count() as u64;
    assert!(with_claims <= 1 + seeds / 10, "{with_claims} of {seeds}");
}

#[test]
fn scatter_comes_back_as_its_components() {
    let world = World::new(Kind::Normal, 300, 30, 3);
    let mut lake = world.first_session();
    (0..100).for_each(|host| lake.add(world.session(host, 1, 1, &[]), None));
    lake.settle();
    let scatter = analyze(&lake, &Options::default()).scatter;
    // A machine in a case: its own effect and that of the cell. A boot: its own effect and the noise of the session, less that of runs.
    let (host, boot) = (scatter.host.unwrap().median, scatter.boot.unwrap().median);
    assert!((host - 0.0112).abs() < 0.0025, "{host}");
    assert!((boot - 0.0127).abs() < 0.0025, "{boot}");
    assert!((scatter.run.unwrap().median - 0.01).abs() < 1e-9);
    assert!(scatter.needed.iter().all(|needed| needed.a_side.unwrap() >= needed.paired.unwrap()));
}

#[test]
fn a_new_kernel_on_many_machines_is_one_event_with_its_name() {
    let mut world = World::new(Kind::Normal, 60, 8, 11);
    world.event = Some((7, 30, 0.08));
    let mut lake = Lake::new();
    for day in 0..14 {
        (0..60).for_each(|host| lake.add(world.session(host, u64::from(day >= 7), day, &[]), None));
    }
    lake.settle();
    let events = analyze(&lake, &Options::default()).events;
    assert_eq!(events.len(), 1, "{events:?}");
    let event = &events[0];
    assert_eq!((event.day.as_str(), event.cases.len(), event.of), ("2026-11-09", 8, 60), "{event:?}");
    assert!(event.machines >= 28 && event.machines <= 31 && (event.change - 0.083).abs() < 0.01, "{event:?}");
    assert_eq!(event.kernel, Some(["6.1.0".into(), "6.1.9".into()]));
}
