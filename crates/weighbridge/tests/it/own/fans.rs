//! Fan-out and fan-in through mechanisms of the user: what they get, and what is seen of one that does not bring every message to
//! every receiver, in its order.

use super::*;

const FANS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/own/fans.c");

/// A folder with `fans.so`, or none where there is no compiler.
fn with_fans() -> Option<tempfile::TempDir> {
    let folder = with_compiler()?;
    compiled(folder.path(), "fans.so", Path::new(FANS), &[]);
    Some(folder)
}

#[test]
fn a_target_that_says_so_reaches_many_and_hears_many_also_at_a_rate() {
    let Some(folder) = with_fans() else { return };
    let cases = "fan-out/fans/64/free fan-out/fans/4096/free/burst=10/receivers=3 fan-out/fans/64/free/rate=1000/receivers=2 \
                 fan-out/fans/64/free/peers=thread/receivers=2 fan-in/fans/64/free fan-in/fans/4096/free/writers=3 \
                 fan-in/fans/64/free/rate=1000/writers=2 fan-in/fans/64/free/touch=none fan-in/fans/64/same-cpu/writers=1";
    let lines = measured(folder.path(), &format!("--target ./fans.so {cases} --runs 2"));
    assert_eq!(reasons(&lines), BTreeMap::new());
    assert_eq!(measured_of(&lines).iter().filter(|name| *name == "fans").count(), 9);
    for case in all!(lines, Case).iter().filter(|case| case.mechanism == "fans") {
        assert_eq!(case.facts["target_version"], "1", "{:?}", case.facts);
    }
    let with_rate: Vec<_> =
        all!(lines, Run).into_iter().filter(|run| run.case.axes.contains_key("rate")).collect();
    assert!(!with_rate.is_empty());
    for run in with_rate {
        assert!(run.series.contains_key("late_ns"), "{}: {:?}", run.case, run.series.keys());
    }
    let listed = shown(folder.path(), "list fans --target ./fans.so");
    assert!(listed.contains("fan-out") && listed.contains("fan-in"), "{listed}");
}

#[test]
fn a_target_gets_only_the_patterns_for_which_it_states_a_capability() {
    let Some(folder) = with_fans() else { return };
    let plan = |case: &str| said(folder.path(), &format!("plan --target ./fans.so {case}"));
    assert!(plan("fan-out/only-out").with(0).stdout.contains("fan-out/only-out"));
    for case in ["fan-in/only-out", "fan-out/neither", "fan-in/neither"] {
        let refused = plan(case).with(2);
        assert!(refused.stderr.contains(&format!("`{case}` selects nothing")), "{}", refused.stderr);
    }
}

#[test]
fn a_message_that_one_of_many_does_not_get_in_its_order_and_whole_ends_the_case_in_a_sentence() {
    let Some(folder) = with_fans() else { return };
    let cases =
        "fan-out/{fans,lose,twice,damage,swap}/64/free/burst=10/receivers=3 fan-in/fans/4/free/writers=3";
    let lines = measured(folder.path(), &format!("--target ./fans.so {cases} --runs 2"));
    let why = reasons(&lines);
    for (name, number) in [("lose", 67), ("twice", 68), ("damage", 67), ("swap", 67)] {
        let wanted = format!("message {number} of 64 bytes arrived damaged");
        assert!(why[name].contains(&wanted), "{name}: {why:?}");
    }
    assert!(why["fans"].contains("at least 8 bytes in fan-in"), "{why:?}");
    std::fs::remove_file(folder.path().join("r.jsonl")).unwrap();
    let lines = measured(
        folder.path(),
        "--target ./fans.so fan-in/{fans,lose,twice,damage,swap}/64/free/writers=3 --runs 2",
    );
    let why = reasons(&lines);
    for (name, words) in [
        ("lose", "message 68 of writer 2 arrived where message 67 was due"),
        ("twice", "message 67 of writer 2 arrived where message 68 was due"),
        ("damage", "message 67 of writer 2 arrived damaged"),
        ("swap", "message 68 of writer 2 arrived where message 67 was due"),
    ] {
        assert!(why[name].contains(words), "{name}: {why:?}");
    }
    let measured = measured_of(&lines);
    assert_eq!(measured.iter().filter(|name| *name != "noop").collect::<Vec<_>>(), ["fans"]);
}
