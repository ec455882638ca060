//! Arrows between crates point down. A change that adds one which does not has to change this list, and say why.

use std::fs;
use std::path::Path;

/// Every crate, by its folder: its name, and which of ours it may depend on.
const LAYERS: &[(&str, &str, &[&str])] = &[
    ("os", "causeway-os", &[]),
    // What tests of any crate share.
    ("testkit", "causeway-testkit", &[]),
    // The record's words for what statistics find; the laboratory and the reports need them, and meet nowhere else.
    ("record", "weighbridge-record", &["weighbridge-stats"]),
    ("stats", "weighbridge-stats", &[]),
    ("import", "weighbridge-import", &["weighbridge-record", "weighbridge-stats"]),
    ("causeway", "causeway", &["causeway-os"]),
    // A measurement among its examples compares it with a log of `causeway`, whose tests it shares helpers with.
    // Its tests and measurements need a bus that serves, and brokers to compare it with, which are above it.
    (
        "causeway-bus",
        "causeway-bus",
        &[
            "causeway",
            "causewayd",
            "causeway-os",
            "weighbridge-dbus",
            "weighbridge-dbus-brokers",
            "weighbridge-dbus-client",
            "weighbridge-stats",
        ],
    ),
    (
        "causeway-cli",
        "causeway-cli",
        &[
            "causeway",
            "causeway-bus",
            "causewayd",
            "causeway-os",
            "weighbridge-dbus",
            "weighbridge-dbus-client",
        ],
    ),
    // Its tests and measurements are clients of a bus, and compare it with brokers.
    (
        "causewayd",
        "causewayd",
        &[
            "causeway-bus",
            "weighbridge-dbus",
            "weighbridge-dbus-brokers",
            "weighbridge-dbus-client",
            "causeway-os",
        ],
    ),
    ("explain", "weighbridge-explain", &["weighbridge-record", "weighbridge-stats"]),
    (
        "lab",
        "weighbridge-lab",
        &["causeway", "causeway-os", "weighbridge-explain", "weighbridge-record", "weighbridge-stats"],
    ),
    ("report", "weighbridge-report", &["weighbridge-record", "weighbridge-stats", "weighbridge-timeline"]),
    ("timeline", "weighbridge-timeline", &["weighbridge-record", "weighbridge-stats"]),
    ("dbus", "weighbridge-dbus", &[]),
    ("dbus-client", "weighbridge-dbus-client", &["causeway-bus", "weighbridge-dbus"]),
    (
        "dbus-brokers",
        "weighbridge-dbus-brokers",
        &["causeway-bus", "weighbridge-dbus", "weighbridge-dbus-client", "causeway-os"],
    ),
    // Its tests examine real brokers.
    (
        "dbus-exam",
        "weighbridge-dbus-exam",
        &[
            "causeway-bus",
            "weighbridge-dbus",
            "weighbridge-dbus-brokers",
            "weighbridge-dbus-client",
            "causeway-os",
        ],
    ),
    ("dbus-cost", "weighbridge-dbus-cost", &["weighbridge-dbus", "weighbridge-record", "weighbridge-stats"]),
    // Its tests look for the cell of every case in the tables of the reports.
    (
        "dbus-lab",
        "weighbridge-dbus-bench",
        &[
            "causeway-bus",
            "weighbridge-dbus",
            "weighbridge-dbus-brokers",
            "weighbridge-dbus-client",
            "weighbridge-lab",
            "weighbridge-record",
            "weighbridge-report",
            "causeway-os",
        ],
    ),
    // Its tests record replays over real brokers.
    (
        "dbus-replay",
        "weighbridge-dbus-replay",
        &["causeway-bus", "weighbridge-dbus", "weighbridge-dbus-brokers", "weighbridge-dbus-client"],
    ),
    ("guest", "weighbridge-guest", &["weighbridge-record", "causeway-os"]),
    (
        "observe",
        "weighbridge-observe",
        &["weighbridge-lab", "weighbridge-record", "weighbridge-stats", "causeway-os"],
    ),
    // Loaded by the emulator, and linked into nothing: the program depends on it so that both are built together.
    ("guest-plugin", "weighbridge-guest-plugin", &[]),
    ("peers", "weighbridge-peers", &["weighbridge-lab", "weighbridge-record", "causeway-os"]),
    (
        "cli",
        "weighbridge",
        &[
            "weighbridge-dbus",
            "weighbridge-dbus-brokers",
            "weighbridge-dbus-client",
            "weighbridge-dbus-cost",
            "weighbridge-dbus-exam",
            "weighbridge-dbus-bench",
            "weighbridge-dbus-replay",
            "weighbridge-explain",
            "weighbridge-guest",
            "weighbridge-guest-plugin",
            "weighbridge-import",
            "weighbridge-lab",
            "weighbridge-observe",
            "weighbridge-peers",
            "weighbridge-report",
            "weighbridge-record",
            "weighbridge-stats",
            "weighbridge-timeline",
            "causeway-os",
        ],
    ),
];

#[test]
fn every_crate_depends_only_on_those_below_it() {
    for (folder, name, may) in LAYERS {
        let manifest = manifest(folder);
        assert!(manifest.lines().any(|line| line == format!("name = \"{name}\"")), "{folder} is not {name}");
        for dependency in dependencies(&manifest) {
            let is_ours =
                LAYERS.iter().any(|(_, ours, _)| *ours == dependency) && dependency != "causeway-testkit";
            assert!(!is_ours || may.contains(&dependency.as_str()), "{name} must not depend on {dependency}");
        }
    }
}

#[test]
fn no_crate_is_missing_from_the_list() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for entry in fs::read_dir(crates).unwrap() {
        let folder = entry.unwrap().file_name().into_string().unwrap();
        assert!(LAYERS.iter().any(|(known, ..)| *known == folder), "where does {folder} stand?");
    }
}

#[test]
fn the_test_sees_the_dependencies_that_there_are() {
    let found = dependencies(&manifest("cli"));
    assert!(found.contains(&"weighbridge-lab".to_owned()) && found.contains(&"clap".to_owned()), "{found:?}");
}

/// A program that uses the bus gets no command-line parser with it, whatever features it leaves on.
#[test]
fn the_library_of_the_bus_brings_nothing_of_a_command() {
    let found = dependencies(&manifest("causeway"));
    assert!(found.contains(&"rustix".to_owned()), "{found:?}");
    assert!(!found.iter().any(|name| name.starts_with("clap")), "{found:?}");
}

fn manifest(folder: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder).join("Cargo.toml");
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The keys of every table of dependencies: those of the program, of its tests, of its build.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut in_table = false;
    for line in manifest.lines().map(str::trim) {
        if let Some(table) = line.strip_prefix('[') {
            in_table = table.contains("dependencies]");
            // `[dependencies.name]`
            names
                .extend(table.split_once("dependencies.").map(|(_, name)| name.trim_end_matches(']').into()));
        } else if in_table && let Some((key, _)) = line.split_once('=') {
            names.push(key.split('.').next().unwrap_or(key).trim().trim_matches('"').into());
        }
    }
    names
}
