//! Fuzzing of texts: match rules, addresses and descriptions of objects.

use causeway_dbus_wire::random::Random;
use causeway_dbus_wire::rule::{MatchRule, RULE_BYTES_MAX, parts};
use causeway_dbus_wire::wire::{Args, Header};
use causeway_dbus_wire::{address, introspection};
use causeway_testkit::fuzz;

const WORDS: &[&str] = &[
    "type='signal'",
    "sender=':1.1'",
    "interface='a.B'",
    "member='M'",
    "path='/a'",
    "path_namespace='/a'",
    "arg0='org.a'",
    "arg0path='/a/'",
    "arg0namespace='org'",
    "arg63=",
    "eavesdrop='true'",
    "destination=",
    ",",
    "'",
    r"'\''",
    r"\'",
    r"\",
    "=",
    "\n",
    "é",
];

/// The input is two rules, each on a line.
#[test]
fn rule_is_printed_as_the_same_and_subsumes_only_what_it_matches() {
    fuzz::run(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/rule"), WORDS, |input| {
        let Ok(text) = str::from_utf8(input) else { return Vec::new() };
        let rules = text.splitn(2, '\n').map(|text| (text, text.parse::<MatchRule>())).collect::<Vec<_>>();
        for (text, rule) in &rules {
            let parts = parts(text);
            match rule {
                Ok(rule) => {
                    let printed = rule.to_string();
                    assert!(
                        printed.len() > RULE_BYTES_MAX || printed.parse().as_ref() == Ok(rule),
                        "{printed}"
                    );
                    assert!(rule.subsumes(rule), "{rule}");
                    let mut end = 0;
                    for part in parts.unwrap() {
                        assert!(part.at.start > end && text[..part.at.start].ends_with('='), "{part:?}");
                        end = part.at.end;
                    }
                }
                Err(why) => assert!(!why.is_empty() && why.len() < 100 + text.len(), "{why}"),
            }
        }
        if let [(_, Ok(wide)), (_, Ok(narrow))] = &rules[..]
            && wide.subsumes(narrow)
        {
            let mut random = Random(1 + input.len() as u64);
            for number in 0..20 {
                let signal = random.signal(None, number).sender(":1.1").build(1).unwrap();
                let header = Header::parse(&signal).unwrap();
                let args: Vec<_> = Args::for_rules(&header, &signal[header.header_bytes..]).collect();
                let matches = |rule: &MatchRule| rule.matches(&header, &args, &());
                assert!(matches(wide) || !matches(narrow), "{wide} does not match what {narrow} does");
            }
        }
        let word = |why: String| why.split('`').step_by(2).collect::<String>();
        rules.into_iter().map(|(_, rule)| rule.map(|rule| rule.args.len()).map_err(word)).collect()
    });
}

/// The input is an address, or a document of an object.
#[test]
fn address_and_description_are_read_within_their_text() {
    let words =
        ["unix:path=", "%2f", ",", "<interface name=\"", "<property ", "type='", "<!--", "-->", "/>", ">"];
    fuzz::run(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/introspection"), &words, |input| {
        let Ok(text) = str::from_utf8(input) else { return (0, false) };
        if let Some(value) = address::unescaped(text) {
            assert_eq!(address::unescaped(&address::escaped(&value)), Some(value));
        }
        let path = address::value(text, "unix", "path");
        let properties = introspection::properties(text);
        assert!(properties.len() <= text.matches("property").count());
        (properties.len(), path.is_some())
    });
}
