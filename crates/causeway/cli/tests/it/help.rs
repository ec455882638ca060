//! Help, manual pages and completions have every command and every option.

use causeway_testkit::help::{assert_one_form, pages};
use causeway_waiting::{duration, size};

use crate::support::causeway;

fn text(arguments: &[&str]) -> String {
    let output = causeway(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_command_has_a_page_and_completions_with_all_its_options() {
    let scripts = ["bash", "zsh", "fish"].map(|shell| (shell, text(&["completions", shell])));
    let pages = pages(causeway);
    let mut seen = 0;
    for of in &pages {
        let words: Vec<&str> = ["man"].into_iter().chain(of.words.iter().map(String::as_str)).collect();
        // A manual page writes a hyphen as `\-`.
        let page = text(&words).replace('\\', "");
        for name in of.commands() {
            assert!(page.contains(&name), "{name} is not in the page of {words:?}");
        }
        for option in of.options() {
            seen += 1;
            let option = option.name;
            assert!(page.contains(&format!("--{option}")), "--{option} is not in the page of {words:?}");
            for (shell, script) in &scripts {
                assert!(script.contains(&option), "--{option} is not completed in {shell}");
            }
        }
    }
    assert!(pages.len() >= 18 && seen >= 60, "{} pages, {seen} options", pages.len());
}

#[test]
fn bytes_and_times_are_written_as_for_the_other_programs() {
    let [sizes, times] = assert_one_form(causeway, size::FORM, duration::FORM);
    assert!(sizes >= 1 && times >= 5, "{sizes} {times}");
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
