//! Figures that follow from each other and yet say opposite things: a ratio of neighbors is one of neighbors, and slices that are apart have
//! its direction.

use weighbridge_record::{ComparedSet, Comparison, Line, Run, SideOfSet, SliceSeries};
use weighbridge_stats::median;

use super::sound::{compared, sound};
use super::{FIFO, STREAM, UDP, UNIX, broken, changed, runs};

/// Beside each neighbor three times as expensive, and yet cheaper by far in most slices, of which none has a neighbor.
fn set_opposite(of: &mut SliceSeries, against: &mut SliceSeries) {
    set_costs(of, 3000);
    set_costs(against, 1000);
    let lone = 5 * of.ops.len() as u64;
    let later = |start_ns: &mut u64| *start_ns += lone;
    of.start_ns.iter_mut().chain(&mut against.start_ns).for_each(later);
    of.start_ns.splice(..0, 0..lone);
    of.elapsed_ns.splice(..0, (0..lone).map(|_| 1));
    of.ops.splice(..0, (0..lone).map(|_| 1));
}

fn set_costs(of: &mut SliceSeries, cost_ns: u64) {
    of.elapsed_ns.iter_mut().zip(&of.ops).for_each(|(elapsed_ns, ops)| *elapsed_ns = cost_ns * ops);
}

#[test]
fn a_ratio_to_the_hub_has_the_direction_in_which_slices_are_apart() {
    let oppose = |run: &mut Run| {
        if run.run == 3 {
            let slices = run.slices.as_mut().unwrap();
            set_opposite(&mut slices.of_case, &mut slices.of_hub);
            let of = &slices.of_case;
            run.samples = of.elapsed_ns.iter().zip(&of.ops).map(|(ns, ops)| (ns / ops) as f64).collect();
            run.value = median(&run.samples);
        }
    };
    let found = broken(&changed(sound(), &runs(UNIX, oppose)));
    assert!(found.contains(&("turns".into(), UNIX.into())), "{found:?}");
}

#[test]
fn two_states_of_the_machine_that_hit_one_party_more_break_no_law_of_directions() {
    // Beside each neighbor three times as expensive in eight of twelve, and by the medians of all cheaper by far.
    let cost_ns = |index: usize, party: usize| [[3, 1], [3000, 1000], [3, 1000]][index / 4 % 3][party];
    let reverse = |run: &mut Run| {
        if run.run == 3 {
            let slices = run.slices.as_mut().unwrap();
            for (party, of) in [&mut slices.of_case, &mut slices.of_hub].into_iter().enumerate() {
                let each = of.elapsed_ns.iter_mut().zip(&of.ops).enumerate();
                each.for_each(|(index, (elapsed_ns, ops))| *elapsed_ns = cost_ns(index, party) * ops);
            }
            run.samples = (0..run.samples.len()).map(|index| cost_ns(index, 0) as f64).collect();
            run.value = median(&run.samples);
        }
    };
    let found = broken(&changed(sound(), &runs(UNIX, reverse)));
    assert!(!found.iter().any(|(law, _)| law == "turns"), "{found:?}");
}

#[test]
fn a_ratio_of_two_sides_has_the_direction_in_which_their_slices_are_apart() {
    let oppose = |set: &mut ComparedSet| {
        let slices = |side: &SideOfSet| side.slices.clone().unwrap();
        let (mut b, mut a) = (slices(&set.b), slices(&set.a));
        set_opposite(&mut b, &mut a);
        (set.a.slices, set.b.slices) = (Some(a), Some(b));
        // It follows from the slices: neighbor by neighbor B costs three times A.
        set.log_ratio = 3f64.ln();
        (set.control, set.control_log_ratio) = (None, None);
    };
    let lines = changed(compared(), &|line| {
        if let Line::ComparedSet(set) = line {
            oppose(set);
        }
    });
    let found = broken(&lines);
    assert!(found.iter().any(|(law, _)| law == "side-ratio"), "{found:?}");
}

#[test]
fn a_verdict_has_the_direction_of_the_figures_of_both_sides() {
    let exchange = |line: &mut Line| {
        if let Line::ComparedSet(set) = line {
            std::mem::swap(&mut set.a.value, &mut set.b.value);
        }
    };
    let found = broken(&changed(compared(), &exchange));
    assert!(found.iter().any(|(law, _)| law == "verdict"), "{found:?}");
}

#[test]
fn a_multiple_of_the_hub_has_the_direction_of_the_figures_of_its_runs() {
    let cheaper = |run: &mut Run| {
        run.samples.iter_mut().for_each(|sample| *sample /= 40.0);
        run.value /= 40.0;
    };
    let found = broken(&changed(sound(), &runs(FIFO, cheaper)));
    assert!(found.contains(&("summary".into(), FIFO.into())), "{found:?}");
}

#[test]
fn a_speed_up_without_a_common_hub_has_the_direction_of_the_figures() {
    let with = |speedup: f64| {
        let mut lines = sound();
        for line in &mut lines {
            if let Line::Summary(summary) = line {
                summary.ci95 = Some([summary.median * 0.99, summary.median * 1.01]);
            }
        }
        lines.push(Line::Comparison(Comparison {
            case: UDP.parse().unwrap(),
            baseline: STREAM.parse().unwrap(),
            speedup,
            ci95: None,
            pairs: 8,
        }));
        broken(&lines)
    };
    assert_eq!(with(0.04), []);
    assert_eq!(with(23.0), [("speed-up".to_owned(), UDP.to_owned())]);
}

#[test]
fn roles_that_are_not_pinned_may_run_on_the_same_cpus_in_every_set() {
    let free = |cpus_of: fn(u32) -> &'static str| {
        move |run: &mut Run| {
            for role in &mut run.roles {
                role.cpu = None;
                role.whereabouts.iter_mut().for_each(|at| at.allowed = cpus_of(run.run).into());
            }
        }
    };
    let placed = ("placed".to_owned(), UNIX.to_owned());
    let found = broken(&changed(sound(), &runs(UNIX, free(|_| "0-1"))));
    assert!(!found.contains(&placed), "{found:?}");
    // A CPU is taken away between two sets, in neither of which anything moves.
    let found = broken(&changed(sound(), &runs(UNIX, free(|run| if run < 3 { "0-1" } else { "0" }))));
    assert!(found.contains(&placed), "{found:?}");
}
