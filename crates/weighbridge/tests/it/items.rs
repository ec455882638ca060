//! The table of what the project starts from, to the last item: each has a command that the programs understand, or says what
//! is missing. What a command shows is not tried here; that it can be given is.

use std::collections::BTreeMap;

use crate::documents::read;
use crate::dry;
use crate::markdown::{commands, split_code};

/// From the root of the repository.
pub const TABLE: &str = "docs/items.md";

/// How many items each document has, and how many of all cannot apply.
const ITEMS: &[(&str, usize)] = &[("000", 39), ("001", 29), ("002", 27), ("003", 62), ("004", 46)];
const NOT_APPLICABLE: usize = 16;

/// The command of an item that nothing shows yet.
const NOT_YET: &str = "not yet";

#[test]
fn every_item_has_a_command_that_is_understood_or_says_what_is_missing() {
    let found = complaints(&read(TABLE), ITEMS, NOT_APPLICABLE);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Each row of the fixture but the first has one mistake.
#[test]
fn a_table_with_mistakes_is_refused_row_by_row() {
    let text = read("crates/weighbridge/tests/fixtures/items.md");
    let found = complaints(&text, &[("000", 10), ("001", 2)], 2);
    let expected = [
        "000.2: weighbridge run roundtrip/pipe/64/same-cpu/no-such-axis=1",
        "000.3: weighbridge run --suite no-such-suite",
        "000.4: weighbridge run pipe --no-such-flag",
        "000.5: weighbridge compare --a wait=no-such-wait --b wait=poll roundtrip/pipe/64/same-cpu",
        "000.6: weighbridge explain roundtrip/no-such-mechanism/64/same-cpu",
        "000.7: weighbridge run fan-out/{no-such-mechanism,udp-multicast}/64/same-cpu",
        "000.8: `ls` is not a command of ours",
        "000.9: has no command; one that nothing shows yet is `not yet`",
        "000.10: does not say what is shown or missing",
        "001: 1 item in place of 2",
        "001.2: is row 1 of 001",
        "1 item that cannot apply in place of 2",
    ];
    assert_eq!(found.len(), expected.len(), "{}", found.join("\n"));
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found}\nis not\n{expected}");
    }
}

/// What is wrong with a table: in its rows, then in their number.
fn complaints(text: &str, items: &[(&str, usize)], not_applicable: usize) -> Vec<String> {
    let rows: Vec<_> = text.lines().filter(|line| line.starts_with("| 0")).map(cells).collect();
    let (mut found, mut refusals) = (Vec::new(), BTreeMap::new());
    for &(document, expected) in items {
        let own = |row: &&Vec<&str>| row[0].split_once('.').is_some_and(|(of, _)| of == document);
        let own: Vec<_> = rows.iter().filter(own).collect();
        if own.len() != expected {
            found.push(format!("{document}: {} in place of {expected}", counted(own.len())));
        }
        for (index, row) in own.into_iter().enumerate() {
            let why = if row[0] == format!("{document}.{}", index + 1) {
                why_not(row, &mut refusals)
            } else {
                Some(format!("is row {} of {document}", index + 1))
            };
            found.extend(why.map(|why| format!("{}: {why}", row[0])));
        }
    }
    let others = rows.iter().filter(|row| !row[0].contains('.') && row.iter().all(|cell| !cell.is_empty()));
    let others = others.count();
    if others != not_applicable {
        found.push(format!("{} that cannot apply in place of {not_applicable}", counted(others)));
    }
    found
}

/// What is wrong with a row: number, item, command, and what that shows or what is missing.
fn why_not(row: &[&str], refusals: &mut BTreeMap<Vec<String>, Option<String>>) -> Option<String> {
    let &[_, item, command, shows] = row else {
        return Some(format!("has {} cells in place of 4", row.len()));
    };
    if item.is_empty() || shows.is_empty() {
        return Some("does not say what is shown or missing".to_owned());
    }
    let code = split_code(command).1;
    if code.is_empty() {
        return (command != NOT_YET)
            .then(|| format!("has no command; one that nothing shows yet is `{NOT_YET}`"));
    }
    code.into_iter().find_map(|code| {
        let commands = commands(&format!("`{code}`"));
        if commands.is_empty() {
            return Some(format!("`{code}` is not a command of ours"));
        }
        // Many items are shown by one command.
        let refused = |command: Vec<String>| {
            refusals.entry(command.clone()).or_insert_with(|| dry::refusal(&command)).clone()
        };
        commands.into_iter().find_map(refused)
    })
}

fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').map(str::trim).collect()
}

fn counted(items: usize) -> String {
    if items == 1 { "1 item".to_owned() } else { format!("{items} items") }
}
