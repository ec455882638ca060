//! Whether our programs understand a command of a document, found without what the command does.

use std::path::Path;
use std::process::Command;

use crate::PROGRAM;
use crate::markdown::{OPTIONAL, is_placeholder, patterns};

/// What a program says against this command, whose first word is the program. Programs of other packages are asked where they
/// have been built, beside our own.
pub fn refusal(command: &[String]) -> Option<String> {
    let (name, words) = command.split_first().expect("a command has a program");
    let program = Path::new(PROGRAM).with_file_name(name);
    if !program.exists() {
        assert_ne!(name, "weighbridge", "{} is not there", program.display());
        return None;
    }
    forms(name, words).iter().find_map(|form| {
        // A folder without records, so that no run of the user's is read.
        let state = Path::new(env!("CARGO_TARGET_TMPDIR")).join("documents");
        let mut program = Command::new(&program);
        let output = program.args(form).env("XDG_STATE_HOME", state).output().expect("the program starts");
        let stderr = String::from_utf8_lossy(&output.stderr);
        // A machine with one CPU has no case between two of them; the selection is understood all the same.
        let is_fine = output.status.success() || stderr.contains("nothing is left to measure");
        (!is_fine).then(|| format!("{name} {}\n    {}", words.join(" "), stderr.trim()))
    })
}

/// What can be run in place of a command: each of these fails where a word of it has gone.
fn forms(program: &str, words: &[String]) -> Vec<Vec<String>> {
    // Behind `--` is the command of another program.
    let own = words.split(|word| word == "--").next().unwrap_or_default();
    let own: Vec<_> = own.iter().flat_map(|word| alternatives(word)).collect();
    // What comes before --help has been read when help is printed: a mistake ends the program with another code.
    let help = [&own[..], &["--help".to_owned()]].concat();
    let is_complete = !own.iter().any(|word| word.contains(OPTIONAL) || is_placeholder(word));
    // The shared object that a document makes is not there.
    if own.iter().any(|word| word == "--target") {
        return vec![help];
    }
    match own.first().map(String::as_str) {
        Some("plan") if is_complete => vec![own],
        Some("run") if is_complete => vec![[&own[..], &["--dry-run".to_owned()]].concat()],
        Some("explain" | "compare" | "guest") if is_complete && program == "weighbridge" => {
            [vec![help], plans(&own)].concat()
        }
        _ => vec![help],
    }
}

/// `{a,b}` as `a` and `b`: of a word with alternatives the program looks at those that there are.
fn alternatives(word: &str) -> Vec<String> {
    let braces = word.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
    let Some((before, (inside, after))) = braces else { return vec![word.to_owned()] };
    inside.split(',').flat_map(|one| alternatives(&format!("{before}{one}{after}"))).collect()
}

/// Plans of the cases that a command names which has no dry run: its help does not look at them.
fn plans(words: &[String]) -> Vec<Vec<String>> {
    let patterns = patterns();
    let is_case = |word: &str| word.split_once('/').is_some_and(|(pattern, _)| patterns.contains(&pattern));
    let (mut plan, mut sides) = (vec!["plan".to_owned()], Vec::new());
    let is_guest = words.first().is_some_and(|word| word == "guest");
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            // The suites of a guest are none of cases.
            "--suite" if is_guest => _ = words.next(),
            "--suite" | "--sizes" | "--place" | "--wait" | "--set" => {
                plan.extend([word].into_iter().chain(words.next()).cloned());
            }
            // A case, a setting, or what no plan can hold: a program, a kernel, a variable of the environment.
            "--a" | "--b" => match words.next() {
                Some(side) if is_case(side) => plan.push(side.clone()),
                Some(side) if side.contains('=') && !side.contains([':', '/', ',']) => {
                    sides.push(side.clone())
                }
                _ => {}
            },
            case if is_case(case) => plan.push(case.to_owned()),
            _ => {}
        }
    }
    match (plan.len(), sides.is_empty()) {
        (1, _) => Vec::new(),
        (_, true) => vec![plan],
        _ => sides.into_iter().map(|side| [&plan[..], &["--set".to_owned(), side]].concat()).collect(),
    }
}
