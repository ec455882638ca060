//! Match rules: generated texts, most of them wrong in some way, are given to both brokers.

use causeway_dbus_wire::random::Random;
use causeway_dbus_wire::wire::Body;

use super::{answer, both};
use crate::support::*;

const KEYS: &[&str] = &[
    "type",
    "sender",
    "interface",
    "member",
    "path",
    "path_namespace",
    "destination",
    "eavesdrop",
    "arg0",
    "arg1",
    "arg63",
    "arg64",
    "arg0path",
    "arg1path",
    "arg0namespace",
    "arg1namespace",
    "arg00",
    "arg0x1",
    "arg010",
    "arg08",
    "arg+1",
    "arg-1",
    "arg-0",
    "arg",
    "arg0xpath",
    "argfoo",
    "Type",
    "",
    "foo",
    "arg 0",
    "arg18446744073709551616",
    "arg0pathpath",
    "arg0Path",
    "arg0namespacex",
];
const VALUES: &[&str] = &[
    "signal",
    "method_call",
    "method_return",
    "error",
    "invalid",
    "",
    "a.b",
    "a",
    "com.example.A",
    ":1.1",
    ":1",
    ":",
    ":.a",
    ":a..b",
    "a..b",
    ".a",
    "a.",
    "1.a",
    "a.1",
    "a-b.c",
    "a.b-c",
    "/",
    "/a",
    "/a/",
    "//",
    "a/b",
    "true",
    "false",
    "True",
    "0",
    "M",
    "M.x",
    "9a",
    "_",
    "é",
    "x y",
    "a,b",
    "a=b",
    r"a\b",
    r"\",
    "'",
    "\"",
    " a",
    "a ",
    "\t",
    "*",
];
/// Values that a key accepts, so that many rules are right.
const GOOD: &[(&str, &str)] = &[
    ("type", "signal"),
    ("sender", ":"),
    ("interface", "a.b"),
    ("member", "M"),
    ("path", "/a"),
    ("path_namespace", "/"),
    ("destination", "a.b"),
    ("eavesdrop", "true"),
    ("arg0namespace", ":1"),
];
/// Rules that people have written, or that are at the edge of what is one.
const FIXED: &[&str] = &[
    "",
    " ",
    "=",
    " =",
    "==",
    "=,",
    ",",
    "a",
    "type",
    "type=",
    "type=signal",
    "type=\"signal\"",
    "arg0namespace=':1'",
    "sender=':'",
    "type='signal',",
    "type='signal',,",
    "type='signal', ,member='M'",
    "type='signal',=x",
    "eavesdrop='true',eavesdrop='false'",
    r"arg0=a\,b",
    r"arg0=\\'a'",
];

/// A value as it stands in a rule: in quotes as it should, in quotes or not as it is, or with escapes alone.
fn quoted(random: &mut Random, value: &str) -> String {
    match random.below(6) {
        0..=2 => format!("'{}'", value.replace('\'', r"'\''")),
        3 => value.to_owned(),
        4 => format!("'{value}'"),
        _ => value.replace('\'', r"\'"),
    }
}

fn rule(random: &mut Random) -> String {
    let count = [0, 1, 1, 1, 2, 2, 3, 4, 8, 15][random.below(10)];
    let mut parts = Vec::new();
    for _ in 0..count {
        let (mut key, mut value) = (random.one_of(KEYS).to_owned(), random.one_of(VALUES));
        if random.below(2) == 0 {
            let (good, fits) = GOOD[random.below(GOOD.len())];
            (key, value) = (good.to_owned(), fits);
        }
        if count > 8 && random.below(2) == 0 {
            key = format!("arg{}", random.below(64));
        }
        let before = random.one_of(&["", "", "", " ", "\t", "\n"]);
        let equals = random.one_of(&["=", "=", "=", "=", " =", "= ", "", "=="]);
        let after = random.one_of(&["", "", "", " "]);
        parts.push(format!("{before}{key}{equals}{}{after}", quoted(random, value)));
    }
    let separator = random.one_of(&[",", ",", ",", ", ", " ,", ";", " ", ",,"]);
    let mut text = parts.join(separator) + random.one_of(&["", "", "", ",", " ", "=", r"\", "'"]);
    if random.below(3) == 0 && !text.is_empty() {
        let at = random.below(text.len());
        let at = (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let other =
            random.one_of(&["", "=", ",", "'", r"\", " ", "\t", "\u{b}", "\u{a0}", "x", ":", ".", "1"]);
        let end = at + text[at..].chars().next().map_or(0, char::len_utf8);
        text.replace_range(at..end, other);
    }
    text
}

#[test]
fn match_rules_are_accepted_as_by_dbus_daemon() {
    let folder = temp_dir("rules");
    let limits = "<limit name='max_match_rules_per_connection'>1000000</limit>";
    let Some(brokers) = both(configuration(&folder, limits).as_ref(), folder.path()) else { return };
    let [mut ours, mut theirs] = brokers.each_ref().map(Broker::client);
    let (mut accepted, mut compared, mut wrong) = (0, 0, Vec::new());
    let mut compare = |text: &str| {
        for member in ["AddMatch", "RemoveMatch"] {
            let answers =
                [&mut ours, &mut theirs].map(|client| answer(client, member, Body::default().text(text)));
            compared += 1;
            accepted += usize::from(answers[0] == "ok");
            if answers[0] != answers[1] {
                wrong
                    .push(format!("{member} {text:?}: causewayd {}, dbus-daemon {}", answers[0], answers[1]));
            }
        }
    };
    FIXED.iter().for_each(|text| compare(text));
    for length in [1023, 1024, 1025] {
        compare(&format!("arg0='{}'", "x".repeat(length - 7)));
    }
    for seed in 1..=3 {
        let mut random = Random(seed);
        (0..1500).for_each(|_| compare(&rule(&mut random)));
    }
    assert!(wrong.is_empty(), "{} of {compared}: {}", wrong.len(), wrong.join("\n"));
    assert!(accepted > compared / 10, "{accepted} of {compared} are accepted");
}

/// dbus-daemon reads sixteen parts of a rule and no more: a rule that says more matches more than it says.
#[test]
fn all_parts_of_a_long_rule_count() {
    let folder = temp_dir("rules");
    let Some(brokers) = both(configuration(&folder, "").as_ref(), folder.path()) else { return };
    let parts: Vec<String> = (0..16).map(|index| format!("arg{index}='a'")).collect();
    let sixteen = parts.join(",");
    for (rule, ours, theirs) in
        [(&*sixteen, "ok", "ok"), (&format!("{sixteen},color='red'"), "MatchRuleInvalid", "ok")]
    {
        let answers = brokers
            .each_ref()
            .map(|broker| answer(&mut broker.client(), "AddMatch", Body::default().text(rule)));
        assert_eq!(answers, [ours, theirs], "{rule}");
    }
}
