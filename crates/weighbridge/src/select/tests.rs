//! What words select, and what is refused.

use std::collections::BTreeSet;

use super::*;

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).into()).collect()
}

fn found(globs: &[&str], suite: Option<&str>, changes: &Changes) -> Selected {
    crate::register();
    let suite = suite.map(|name| Suite::find(name).unwrap());
    select(&words(globs), suite, changes).unwrap_or_else(|why| panic!("{globs:?}: {why}"))
}

fn selected(globs: &[&str]) -> Vec<String> {
    found(globs, None, &Changes::default()).ids().map(CaseId::to_string).collect()
}

fn refused(globs: &[&str], suite: Option<&str>, changes: &Changes) -> String {
    crate::register();
    let suite = suite.map(|name| Suite::find(name).unwrap());
    select(&words(globs), suite, changes).unwrap_err().to_string()
}

fn axes(axis: &str, values: &[&str]) -> Changes {
    Changes { axes: vec![(axis.into(), words(values))], ..Changes::default() }
}

fn mechanisms(ids: &[String]) -> BTreeSet<String> {
    ids.iter().map(|id| id.split('/').nth(1).unwrap().to_owned()).collect()
}

/// What can fan out here, the harness aside.
fn fanning_out() -> BTreeSet<String> {
    crate::register();
    let all = catalogue::all().filter(|target| target.patterns.iter().any(|pattern| pattern.id == "fan-out"));
    all.map(|target| target.id.to_owned()).filter(|id| id != "noop").collect()
}

#[test]
fn without_words_all_of_the_suite_is_selected() {
    let ids = selected(&[]);
    assert!(ids.contains(&"roundtrip/noop/1/same-cpu".into()));
    assert!(ids.contains(&"roundtrip/pipe/4096/two-cpus/idle=busy".into()));
}

#[test]
fn a_pattern_is_selected_with_all_that_it_can_drive() {
    let ids = selected(&["fan-out/*"]);
    assert_eq!(mechanisms(&ids), fanning_out());
    assert_eq!(ids.len(), fanning_out().len() * 3 * 2, "{ids:?}");
    assert!(ids.iter().all(|id| !id.contains('=')), "axes at their defaults: {ids:?}");
    assert_eq!(selected(&["fan-out"]), ids);
}

#[test]
fn an_axis_holds_for_all_that_is_selected() {
    let ids: Vec<String> =
        found(&["fan-out"], None, &axes("receivers", &["5"])).ids().map(CaseId::to_string).collect();
    assert_eq!(mechanisms(&ids), fanning_out());
    assert!(ids.iter().all(|id| id.ends_with("/receivers=5")), "{ids:?}");
    assert_eq!(selected(&["fan-out/receivers=5"]), ids);
}

#[test]
fn a_glob_sets_the_size_the_placement_and_the_axes_that_it_spells_out() {
    let ids = selected(&["fan-out/*/64/same-cpu/receivers=5"]);
    assert_eq!(ids.len(), fanning_out().len());
    assert_eq!(mechanisms(&ids), fanning_out());
    assert!(ids.iter().all(|id| id.ends_with("/64/same-cpu/receivers=5")), "{ids:?}");
    assert_eq!(
        selected(&["roundtrip/pi?e/{1,77}/free"]),
        ["roundtrip/pipe/1/free", "roundtrip/pipe/77/free"]
    );
    let waits = selected(&["roundtrip/pipe/1/same-cpu/wait=*"]);
    assert!(waits.contains(&"roundtrip/pipe/1/same-cpu/wait=poll".into()), "{waits:?}");
    assert!(waits.contains(&"roundtrip/pipe/1/same-cpu".into()), "its default is one of them: {waits:?}");
    assert_eq!(selected(&["fan-out/pipe-tee/64/free/receivers={3,10}"]).len(), 2);
    assert!(selected(&["2097152"]).iter().all(|id| id.contains("/2097152/")));
}

#[test]
fn a_star_crosses_slashes_and_a_path_selects_what_is_below_it() {
    let ids = selected(&["roundtrip/pipe/*"]);
    assert_eq!(ids.len(), 6);
    assert!(ids.iter().all(|id| id.starts_with("roundtrip/pipe/")), "{ids:?}");
    assert_eq!(selected(&["roundtrip/pipe"]), ids);
    assert_eq!(selected(&["roundtrip/pipe/"]), ids);
    assert_eq!(selected(&["{roundtrip,stream}/pipe"]).len(), 12);
}

#[test]
fn a_word_selects_every_case_that_has_it_as_a_part() {
    let ids = selected(&["pipe"]);
    for case in ["roundtrip/pipe/1/same-cpu", "stream/pipe/4096/two-cpus", "fan-in/pipe/1/two-cpus"] {
        assert!(ids.contains(&case.into()), "{case} is not in {ids:?}");
    }
    assert!(ids.iter().all(|id| id.contains("/pipe/")), "{ids:?}");
    assert!(selected(&["ring-*"]).iter().any(|id| id.contains("ring-futex")));
    assert!(selected(&["stream"]).iter().all(|id| id.starts_with("stream/")), "not unix-stream");
    assert_eq!(selected(&["getpid"]), ["solo/getpid/0/same-cpu", "parallel/getpid/0/spread"]);
}

#[test]
fn the_harness_and_the_mock_are_selected_by_name_only() {
    let all = selected(&["*"]);
    assert!(!all.iter().any(|id| id.contains("/noop/") || id.contains("/mock/")), "{all:?}");
    assert!(all.len() > 300, "{}", all.len());
    assert!(selected(&["mock"]).contains(&"stream/mock/1/two-cpus".into()));
    assert!(selected(&["roundtrip/noop"]).iter().all(|id| id.starts_with("roundtrip/noop/")));
    assert!(refused(&["mo[c]k"], None, &Changes::default()).contains("write a case id of theirs in full"));
}

#[test]
fn everything_that_is_listed_is_selected_by_its_name() {
    let all = offer::all(Wanted::default());
    let mechanisms: BTreeSet<&str> = all.iter().map(|id| id.mechanism.as_str()).collect();
    for mechanism in mechanisms {
        let of_mechanism: BTreeSet<&CaseId> = all.iter().filter(|id| id.mechanism == mechanism).collect();
        let found = found(&[&format!("*/{mechanism}/*")], None, &Changes::default());
        assert_eq!(found.ids().collect::<BTreeSet<_>>(), of_mechanism, "{mechanism}");
    }
}

#[test]
fn with_a_suite_only_its_cases_are_selected() {
    let ids: Vec<String> =
        found(&["fan-out/*"], Some("causeway"), &Changes::default()).ids().map(CaseId::to_string).collect();
    assert!(
        !ids.is_empty() && ids.iter().all(|id| id.starts_with("fan-out/causeway-sw/64/free/")),
        "{ids:?}"
    );
    let in_place = found(&["receive=in-place"], Some("causeway"), &Changes::default());
    assert!(in_place.ids().all(|id| id.axes["receive"] == "in-place"), "{in_place:?}");
    let why = refused(&["roundtrip/pipe/2097152"], Some("quick"), &Changes::default());
    assert_eq!(
        why,
        "`roundtrip/pipe/2097152` selects nothing in suite quick; leave --suite out to select from all that \
         `weighbridge list` shows"
    );
}

#[test]
fn a_complete_id_needs_no_suite_and_has_one_spelling() {
    assert_eq!(
        selected(&["roundtrip/mock/7/free/latency-ns=5/touch=all", "roundtrip/mock/7/free/latency-ns=5"]),
        ["roundtrip/mock/7/free/latency-ns=5"]
    );
    let why = refused(&["roundtrip/pip/1/same-cpu"], None, &Changes::default());
    assert!(why.contains("there is no `pip` to roundtrip"), "{why}");
    assert!(why.contains("the nearest are roundtrip/pipe/1/same-cpu"), "{why}");
    let with = found(&["roundtrip/mock/7/free", "fan-out"], Some("causeway"), &Changes::default());
    assert_eq!(with.words[0].source, Source::Itself);
}

#[test]
fn what_selects_nothing_is_refused_with_what_is_near() {
    let why = |word: &str| refused(&[word], None, &Changes::default());
    assert_eq!(why("ring-futx"), "`ring-futx` selects nothing; the nearest is ring-futex");
    assert!(why("carrier-pigeon").contains("weighbridge list"));
    assert!(why("roundtrip/pipe/4K/same-cpu").contains("write 4096 for `4K`"));
    assert!(why("roundtrip/pipe/many/same-cpu").contains("is not a case id: the third part is the payload"));
    assert!(why("roundtrip/[pipe").contains("is not a glob"));
    assert!(why("/").contains("empty"));
    assert_eq!(why("akbench"), "`akbench` is a suite; write --suite akbench");
    assert!(why("receivers").contains("is an axis; give it a value, as in receivers=VALUE"));
}

#[test]
fn an_axis_leaves_out_the_cases_that_do_not_have_it_and_says_so() {
    for found in [
        found(&["roundtrip/*/1/same-cpu"], None, &axes("wait", &["poll"])),
        found(&["roundtrip/*/1/same-cpu/wait=poll"], None, &Changes::default()),
    ] {
        assert!(found.ids().any(|id| id.to_string() == "roundtrip/pipe/1/same-cpu/wait=poll"), "{found:?}");
        assert!(found.ids().all(|id| id.axes["wait"] == "poll"), "{found:?}");
        assert!(found.left_out_note().unwrap().contains("does not wait by poll"), "{found:?}");
    }
}

#[test]
fn an_axis_or_a_value_that_no_case_has_is_refused() {
    let why = refused(&["pipe"], None, &axes("color", &["red"]));
    assert!(why.starts_with("no selected case has an axis `color`; there are wait, touch"), "{why}");
    assert_eq!(
        refused(&["pipe/color=red"], None, &Changes::default()),
        why.replace("pipe/color=red", "pipe")
    );
    let why = refused(&["roundtrip/pipe"], None, &axes("touch", &["all", "everything"]));
    assert!(why.contains("axis touch takes none, first, "), "{why}");
    assert!(why.ends_with("not `everything`"), "{why}");
    let why = refused(&["roundtrip/pipe/wait=z*"], None, &Changes::default());
    assert!(why.contains("like `z*` on an axis `wait`"), "{why}");
}

#[test]
fn what_is_set_twice_is_refused() {
    let found = found(&["roundtrip/mock/1/free"], None, &axes("latency-ns", &["5", "6"]));
    assert_eq!(found.ids().count(), 2);
    let sizes = Changes { sizes: Some(vec![2]), ..Changes::default() };
    assert!(refused(&["roundtrip/mock/1/free"], None, &sizes).contains("is complete"));
    let why = refused(&["roundtrip/pipe/64"], None, &sizes);
    assert!(why.starts_with("the payload size is set twice, by --sizes and in `roundtrip/pipe/64`"), "{why}");
    let place = Changes { placements: Some(vec!["free".into()]), ..Changes::default() };
    assert!(refused(&["pipe/same-cpu", "*/same-cpu"], None, &place).contains("the placement is set twice"));
    let why = refused(&["roundtrip/pipe/wait=poll"], None, &axes("wait", &["epoll"]));
    assert!(why.starts_with("axis wait is set twice, by --set wait and in"), "{why}");
}

#[test]
fn sizes_and_placements_take_the_place_of_the_few() {
    let changes = Changes {
        sizes: Some(vec![7, 8]),
        placements: Some(vec!["free".into()]),
        axes: vec![("touch".into(), words(&["all", "none"]))],
    };
    let ids = found(&["roundtrip/pipe", "pingpong/futex"], None, &changes);
    let ids: Vec<String> = ids.ids().map(CaseId::to_string).collect();
    assert_eq!(
        ids,
        [
            "roundtrip/pipe/7/free",
            "roundtrip/pipe/7/free/touch=none",
            "roundtrip/pipe/8/free",
            "roundtrip/pipe/8/free/touch=none"
        ],
        "a signal has nothing to touch, and is left out"
    );
}

#[test]
fn the_explanation_adds_up() {
    for globs in [&["fan-out/*"][..], &["pipe", "tcp"], &["*"], &["solo", "roundtrip/pipe/1/free"]] {
        let selected = found(globs, None, &Changes::default());
        let text = explain(&selected, 0);
        let of_groups: usize = text
            .lines()
            .filter(|line| line.starts_with("    "))
            .map(|line| line.rsplit_once(" = ").unwrap().1.parse::<usize>().unwrap())
            .sum();
        let alone = selected.words.iter().filter(|word| word.ids.len() == 1).count();
        assert_eq!(of_groups + alone, selected.ids().count(), "{text}");
    }
    let text = explain(&found(&["fan-out/*/receivers=5"], None, &Changes::default()), 1);
    assert!(
        text.starts_with("understood:\n  `fan-out/*/receivers=5` (all that `weighbridge list` shows): "),
        "{text}"
    );
    let product = " × 3 sizes (1, 4096, 65536) × 2 placements (same-cpu, two-cpus) = ";
    assert!(text.contains("\n    fan-out with receivers=5: ") && text.contains(product), "{text}");
    assert!(text.ends_with("  the harness (noop), once for each pattern: 1 case\n"), "{text}");
}
