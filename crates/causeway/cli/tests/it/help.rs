//! Help, manual pages and completions have every command and every option.

use crate::support::causeway;

fn text(arguments: &[&str]) -> String {
    let output = causeway(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The words of a help text that are options.
fn options(help: &str) -> Vec<String> {
    let words = help.split_whitespace().filter_map(|word| word.strip_prefix("--"));
    let names = words
        .map(|word| word.split(|c: char| !c.is_ascii_lowercase() && c != '-').next().unwrap_or_default());
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The names in the list of commands of a help text.
fn commands(help: &str) -> Vec<String> {
    let Some((_, list)) = help.split_once("Commands:\n") else { return Vec::new() };
    let lines = list.lines().take_while(|line| line.starts_with("  "));
    let names =
        lines.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn every_command_has_a_page_and_completions_with_all_its_options() {
    let scripts = ["bash", "zsh", "fish"].map(|shell| (shell, text(&["completions", shell])));
    let mut open = vec![Vec::<String>::new()];
    let (mut pages, mut seen) = (0, 0);
    while let Some(words) = open.pop() {
        let called = |first: &[&str], last: &[&str]| {
            let all: Vec<&str> = first
                .iter()
                .copied()
                .chain(words.iter().map(String::as_str))
                .chain(last.iter().copied())
                .collect();
            text(&all)
        };
        let help = called(&[], &["--help"]);
        // A manual page writes a hyphen as `\-`.
        let page = called(&["man"], &[]).replace('\\', "");
        pages += 1;
        for name in commands(&help) {
            assert!(page.contains(&name), "{name} is not in the page of {words:?}");
            open.push(words.iter().cloned().chain([name]).collect());
        }
        for option in options(&help) {
            seen += 1;
            assert!(page.contains(&format!("--{option}")), "--{option} is not in the page of {words:?}");
            for (shell, script) in &scripts {
                assert!(script.contains(&option), "--{option} is not completed in {shell}");
            }
        }
    }
    assert!(pages >= 18 && seen >= 60, "{pages} pages, {seen} options");
}

#[test]
fn help_and_pages_name_the_program_as_it_is_called() {
    let page = text(&["man", "bus", "call"]).replace('\\', "");
    assert!(page.contains(".TH causeway-bus-call ") && page.contains("causeway bus call"), "{page}");
    assert!(!page.contains("causeway-cli"), "{page}");
    assert!(text(&["man", "bus"]).replace('\\', "").contains("causeway-bus-start(1)"));
    assert!(text(&["--version"]).starts_with("causeway 0"));
}

#[test]
fn options_of_start_and_run_say_what_they_mean_there() {
    let [bus, start, run] =
        [&["bus", "--help"][..], &["bus", "start", "--help"], &["bus", "run", "--help"]].map(text);
    assert!(bus.contains("Which bus: ") && bus.contains("XDG_RUNTIME_DIR/bus"), "{bus}");
    assert!(start.contains("--address") && start.contains("causeway-bus"), "{start}");
    assert!(!start.contains("DBUS_SESSION_BUS_ADDRESS"), "{start}");
    assert!(!run.contains("--address") && !run.contains("--socket"), "{run}");
    let stat = text(&["bus", "stat", "--help"]);
    assert!(["LAG", "GONE", "INCOMPLETE"].iter().all(|column| stat.contains(column)), "{stat}");
}

#[test]
fn a_page_of_a_command_that_is_not_there_is_refused_with_those_that_are() {
    let output = causeway(&["man", "bus", "fly"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let why = String::from_utf8(output.stderr).unwrap();
    assert!(why.contains("no command \"fly\"") && why.contains("monitor"), "{why}");
}
