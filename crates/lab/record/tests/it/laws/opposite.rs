//! Figures that follow from each other and yet say opposite things: a ratio of neighbors is one of neighbors, and medians of all have its
//! direction.

use weighbridge_record::{ComparedSet, Comparison, Line, Run, SliceSeries};
use weighbridge_stats::median;

use super::sound::{compared, sound};
use super::{FIFO, STREAM, UDP, UNIX, broken, changed, runs};

/// Costs of twelve neighbors: in eight of them the one costs three times the other, and over all its median is far below.
fn reversed(index: usize) -> [u64; 2] {
    [[3, 1], [3000, 1000], [3, 1000]][index / 4]
}

fn set_costs(of: &mut SliceSeries, costs: impl Fn(usize) -> u64) {
    for (index, (elapsed_ns, ops)) in of.elapsed_ns.iter_mut().zip(&of.ops).enumerate() {
        *elapsed_ns = costs(index) * ops;
    }
}

#[test]
fn a_ratio_to_the_hub_has_the_direction_of_the_medians() {
    let reverse = |run: &mut Run| {
        if run.run == 3 {
            let slices = run.slices.as_mut().unwrap();
            set_costs(&mut slices.of_case, |index| reversed(index)[0]);
            set_costs(&mut slices.of_hub, |index| reversed(index)[1]);
            run.samples = (0..run.samples.len()).map(|index| reversed(index)[0] as f64).collect();
            run.value = median(&run.samples);
        }
    };
    let found = broken(&changed(sound(), &runs(UNIX, reverse)));
    assert!(found.contains(&("turns".into(), UNIX.into())), "{found:?}");
}

#[test]
fn a_ratio_of_two_sides_has_the_direction_of_their_medians() {
    let reverse = |set: &mut ComparedSet| {
        set_costs(set.b.slices.as_mut().unwrap(), |index| reversed(index)[0]);
        set_costs(set.a.slices.as_mut().unwrap(), |index| reversed(index)[1]);
        // It follows from the slices: neighbor by neighbor B costs three times A.
        set.log_ratio = 3f64.ln();
        (set.control, set.control_log_ratio) = (Some(set.a.clone()), None);
        let later = set.control.as_mut().and_then(|side| side.slices.as_mut()).unwrap();
        later.start_ns.iter_mut().for_each(|ns| *ns += 60_000_000);
    };
    let lines = changed(compared(), &|line| {
        if let Line::ComparedSet(set) = line {
            reverse(set);
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
