//! What words select. What is refused is in tests/it/mistakes.rs.

use std::collections::BTreeSet;

use super::*;

fn found(words: &[&str], suite: Option<&str>) -> Selected {
    crate::register();
    let words: Vec<String> = words.iter().map(ToString::to_string).collect();
    let suite = suite.map(|name| Suite::find(name).unwrap());
    select(&words, suite, &Changes::default()).unwrap_or_else(|why| panic!("{words:?}: {why}"))
}

fn selected(words: &[&str]) -> Vec<String> {
    found(words, None).ids().map(CaseId::to_string).collect()
}

#[test]
fn a_glob_sets_the_size_the_placement_and_the_axes_that_it_spells_out() {
    let ids = selected(&["roundtrip/pi?e/{1,77}/free"]);
    assert_eq!(ids, ["roundtrip/pipe/1/free", "roundtrip/pipe/77/free"]);
    let waits = selected(&["roundtrip/pipe/1/same-cpu/wait=*"]);
    assert!(waits.contains(&"roundtrip/pipe/1/same-cpu/wait=poll".into()), "{waits:?}");
    assert!(waits.contains(&"roundtrip/pipe/1/same-cpu".into()), "its default is one of them: {waits:?}");
    assert_eq!(selected(&["fan-out/pipe-tee/64/free/receivers={3,10}"]).len(), 2);
    assert!(selected(&["2097152"]).iter().all(|id| id.contains("/2097152/")));
}

#[test]
fn a_star_crosses_slashes_and_a_path_selects_what_is_below_it() {
    let ids = selected(&["roundtrip/pipe/*"]);
    assert!(ids.len() == 6 && ids.iter().all(|id| id.starts_with("roundtrip/pipe/")), "{ids:?}");
    assert_eq!((&selected(&["roundtrip/pipe"]), &selected(&["roundtrip/pipe/"])), (&ids, &ids));
    assert_eq!(selected(&["{roundtrip,stream}/pipe"]).len(), 12);
}

#[test]
fn a_word_selects_every_case_that_has_it_as_a_part() {
    let ids = selected(&["pipe"]);
    for case in ["roundtrip/pipe/1/same-cpu", "stream/pipe/4096/two-cpus", "fan-in/pipe/1/two-cpus"] {
        assert!(ids.contains(&case.into()), "{case} is not in {ids:?}");
    }
    assert!(ids.iter().all(|id| id.contains("/pipe/")), "{ids:?}");
    assert!(selected(&["stream"]).iter().all(|id| id.starts_with("stream/")), "not unix-stream");
    assert_eq!(selected(&["getpid"]), ["solo/getpid/0/same-cpu", "parallel/getpid/0/spread"]);
}

#[test]
fn everything_that_is_listed_exists_once_and_is_selected_by_its_name() {
    crate::register();
    let all = offer::all(Wanted::default());
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "each case is there once");
    assert!(all.iter().all(|id| catalogue::resolve(id).is_ok()));
    for mechanism in all.iter().map(|id| id.mechanism.as_str()).collect::<BTreeSet<_>>() {
        let of_mechanism: BTreeSet<&CaseId> = all.iter().filter(|id| id.mechanism == mechanism).collect();
        let found = found(&[&format!("*/{mechanism}/*")], None);
        assert_eq!(found.ids().collect::<BTreeSet<_>>(), of_mechanism, "{mechanism}");
    }
    let everything = selected(&["*"]);
    let by_name_only = |id: &String| id.contains("/noop/") || id.contains("/mock/");
    assert!(everything.len() > 300 && !everything.iter().any(by_name_only), "{everything:?}");
}

#[test]
fn with_a_suite_only_its_cases_are_selected() {
    let fan_out = found(&["fan-out/*"], Some("causeway"));
    assert!(
        fan_out.ids().all(|id| id.to_string().starts_with("fan-out/causeway-sw/64/free/")),
        "{fan_out:?}"
    );
    let in_place = found(&["receive=in-place"], Some("causeway"));
    assert!(in_place.ids().all(|id| id.axes["receive"] == "in-place"), "{in_place:?}");
}

#[test]
fn a_complete_id_needs_no_suite_and_has_one_spelling() {
    let ids =
        selected(&["roundtrip/mock/7/free/latency-ns=5/touch=all", "roundtrip/mock/7/free/latency-ns=5"]);
    assert_eq!(ids, ["roundtrip/mock/7/free/latency-ns=5"]);
    let with = found(&["roundtrip/mock/7/free", "fan-out"], Some("causeway"));
    assert_eq!(with.words[0].source, Source::Itself);
}

#[test]
fn the_explanation_adds_up() {
    for words in [&["fan-out/*"][..], &["pipe", "tcp"], &["*"], &["solo", "roundtrip/pipe/1/free"]] {
        let selected = found(words, None);
        let text = explain(&selected, 0);
        let groups = text.lines().filter(|line| line.starts_with("    "));
        let of_groups: usize =
            groups.map(|line| line.rsplit_once(" = ").unwrap().1.parse::<usize>().unwrap()).sum();
        let alone = selected.words.iter().filter(|word| word.ids.len() == 1).count();
        assert_eq!(of_groups + alone, selected.ids().count(), "{text}");
    }
}
