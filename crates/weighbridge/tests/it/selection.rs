//! What words select: `plan` and `run` mean the same by them, and the cases are those that the words name.

use std::collections::BTreeSet;

use weighbridge_dbus_client::brokers::Program;

use crate::{all, folder, measured, said, shown, valid_record};

/// The ids that a plan prints before its first empty line; the plan too.
fn planned(words: &str) -> (Vec<String>, String) {
    let plan = shown(folder().path(), &format!("plan {words}"));
    let ids = plan.lines().take_while(|line| line.matches('/').count() >= 3);
    (ids.map(str::to_owned).collect(), plan)
}

/// In virtual time with few operations in a sample, so that a debug build too can run them all.
#[test]
fn a_run_measures_what_the_plan_of_the_same_words_prints() {
    for words in [
        "mock --sizes 1..2 --place free",
        "*/mock/64",
        "roundtrip/mock/1/*/latency-ns={50000,60000} roundtrip/pipe/0/free",
        "roundtrip/mock/2/free/latency-ns=70000 stream/mock/1/free --set touch=none,all",
        "{roundtrip,stream}/mock/{1,2}/free",
        "solo/get*pid",
        "solo/noop --suite quick roundtrip/noop/1/same-cpu",
        "roundtrip/mock/1/free roundtrip/mock/1/free",
    ] {
        let folder = folder();
        let plan = said(folder.path(), &format!("plan {words}"));
        let run = said(folder.path(), &format!("run {words} --runs 1 --quiet --html none --out r.jsonl"));
        assert_eq!(run.code, plan.code, "{words}");
        if run.code != Some(0) {
            continue;
        }
        let (planned, plan) = planned(words);
        let lines = valid_record(folder.path().join("r.jsonl")).lines;
        let run: BTreeSet<String> = all!(lines, Case).iter().map(|case| case.case.to_string()).collect();
        assert_eq!(run, planned.iter().cloned().collect::<BTreeSet<_>>(), "{words}\n{plan}");
        assert_eq!(run.len(), planned.len(), "{words}: each case once\n{plan}");
        let is_skipped = all!(lines, Skipped).iter().any(|skip| skip.step == "fit");
        assert_eq!(plan.contains("\nskipped:\n"), is_skipped, "{words}\n{plan}");
    }
}

/// The mechanisms of the ids of one pattern.
fn mechanisms(ids: &[String]) -> BTreeSet<&str> {
    ids.iter().filter_map(|id| id.split('/').nth(1)).collect()
}

#[test]
fn a_pattern_an_axis_and_a_whole_setting_select_every_mechanism_that_has_them() {
    let (all, plan) = planned("fan-out/*");
    // A broker of D-Bus that is not installed is selected and skipped.
    let brokers = Program::ALL.iter().filter(|program| program.path().is_some()).count();
    // Only root may send to a multicast group of netlink.
    let netlink = "netlink-multicast";
    let is_left_out = plan.contains(netlink) && !mechanisms(&all).contains(netlink);
    let expected = 9 + brokers - usize::from(is_left_out);
    assert!(mechanisms(&all).len() == expected, "eight, the harness and {brokers} brokers: {plan}");
    let sized = format!("fan-out: {} mechanisms (", 8 + Program::ALL.len());
    assert!(plan.contains(&sized) && plan.contains(" × 3 sizes (1, 4096, 65536) × "), "{plan}");
    let (set, plan) = planned("fan-out --set receivers=5");
    assert_eq!(mechanisms(&set), mechanisms(&all), "{plan}");
    assert!(set.iter().all(|id| id.ends_with("/receivers=5")), "{plan}");
    let (whole, plan) = planned("fan-out/*/64/same-cpu/receivers=5");
    assert_eq!(whole.len(), 9 + brokers, "{plan}");
    let (harness, others): (Vec<&String>, Vec<&String>) = whole.iter().partition(|id| id.contains("/noop/"));
    assert_eq!(harness, ["fan-out/noop/1/same-cpu/receivers=5"], "{plan}");
    assert!(others.iter().all(|id| id.ends_with("/64/same-cpu/receivers=5")), "{plan}");
}

#[test]
fn a_plan_explains_each_word_and_what_was_left_out() {
    let (_, plan) = planned("roundtrip/pipe all-to-all/pipe/64 --wait poll");
    for line in [
        "  `roundtrip/pipe` (all that `weighbridge list` shows): 6 cases",
        "    roundtrip with wait=poll: 1 mechanism (pipe) × 3 sizes (1, 4096, 65536) × 2 placements (same-cpu, two-cpus) = 6",
        "  `all-to-all/pipe/64` (all that `weighbridge list` shows): 0 cases",
        "  the harness (noop), once for each pattern: 1 case",
        "left out:",
        "  2 cases: all-to-all/pipe has no axis `wait`",
    ] {
        assert!(plan.lines().any(|there| there == line), "{line} is not in\n{plan}");
    }
    let (_, plan) = planned("--suite causeway fan-out/*");
    assert!(plan.contains("\n  `fan-out/*` (suite causeway): 1 case\n"), "{plan}");
}

#[test]
fn a_record_names_its_suite_only_where_the_cases_are_from_one() {
    let suite = |words: &str| {
        let lines = measured(folder().path(), &format!("{words} --runs 1"));
        all!(lines, Header)[0].settings.get("suite").cloned()
    };
    assert_eq!(suite("roundtrip/mock/1/free"), None);
    assert_eq!(suite("roundtrip/mock/1/free --suite ipc").as_deref(), Some("ipc"));
}
