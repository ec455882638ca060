//! Laws that need what a record does not tell: each says so by its name, and none is broken.

use weighbridge_record::laws;
use weighbridge_record::{Case, Line, Reading};

use super::sound::sound;
use super::{FIFO, STREAM, UDP, UNIX, case, changed, runs};

const GETPPID: &str = "solo/getppid/0/same-cpu";
const NOOP: &str = "solo/noop/0/same-cpu";

#[test]
fn each_law_that_lacks_what_it_needs_says_so() {
    type Lack = (&'static str, &'static str, Box<dyn Fn(&mut Line)>);
    let polls_without_traits = |case: &mut Case| {
        case.traits = None;
        case.axes.insert("wait".into(), "poll".into());
    };
    let lacks: Vec<Lack> = vec![
        (
            "placement",
            FIFO,
            Box::new(|line| {
                if let Line::Header(header) = line {
                    header.machine.cpus.clear();
                }
            }),
        ),
        (
            "placed",
            UNIX,
            Box::new(runs(UNIX, |run| run.slices.iter_mut().for_each(|slices| slices.hub_roles.clear()))),
        ),
        ("stream-bytes", STREAM, Box::new(runs(STREAM, |run| run.sampled_total = None))),
        ("moved", UNIX, Box::new(runs(UNIX, |run| run.roles.iter_mut().for_each(|role| role.io = None)))),
        ("blocks", UNIX, Box::new(runs(UNIX, |run| run.roles.iter_mut().for_each(|role| role.io = None)))),
        ("loss-told", UDP, Box::new(case(UDP, |case| case.traits = None))),
        ("own-loop", GETPPID, Box::new(case(NOOP, |case| case.mechanism = "nothing".into()))),
        ("harness-calls", NOOP, Box::new(case(NOOP, |case| case.traits = None))),
        ("waits", FIFO, Box::new(case(FIFO, polls_without_traits))),
    ];
    for (law, id, change) in lacks {
        let mut reading = Reading { lines: changed(sound(), &*change), problems: Vec::new() };
        assert_eq!(laws::audit(&mut reading), [], "{law}");
        let not_checked: Vec<&String> = reading
            .lines
            .iter()
            .filter_map(|line| match line {
                Line::Summary(summary) if summary.case.to_string() == id => Some(&summary.not_checked),
                _ => None,
            })
            .flatten()
            .collect();
        let is_named = |said: &&String| said.starts_with(&format!("law `{law}`: the record does not tell"));
        assert!(not_checked.iter().any(is_named), "{law}: {not_checked:?}");
    }
}
