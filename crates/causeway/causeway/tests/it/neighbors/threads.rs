//! The threads of the library in a program that has signal handlers.

use causeway::{Group, Policy};

use crate::common::small;

/// Signals that a thread must not block: faults of its own, and those that cannot be blocked.
const FAULTS: u64 = 1 << 3 | 1 << 4 | 1 << 6 | 1 << 7 | 1 << 10 | 1 << 30 | KILL_AND_STOP;
const KILL_AND_STOP: u64 = 1 << 8 | 1 << 18;
/// The C library keeps two for itself.
const OF_THE_C_LIBRARY: u64 = 1 << 31 | 1 << 32;

/// Before, a handler of the program could run in the thread that serves a group, and interrupt what others wait for.
#[test]
fn threads_of_the_library_take_no_signals() {
    let group = Group::create("signals", small()).unwrap();
    let mut subscriber = group.subscribe(Policy::Reliable).unwrap();
    let _ = subscriber.wait(Some(std::time::Duration::from_millis(1))).unwrap();
    let mut seen = Vec::new();
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap_or_default();
        let field =
            |name: &str| Some(status.lines().find_map(|line| line.strip_prefix(name))?.trim().to_owned());
        let Some(name) = field("Name:").filter(|name| name.starts_with("causeway-")) else { continue };
        let blocked = u64::from_str_radix(&field("SigBlk:").unwrap(), 16).unwrap();
        let taken = !blocked & !FAULTS & !OF_THE_C_LIBRARY;
        assert_eq!(taken, 0, "{name} takes signals {taken:#x}");
        seen.push(name);
    }
    for name in ["causeway-serve", "causeway-watch"] {
        assert!(seen.iter().any(|seen| seen == name), "{name} is not among {seen:?}");
    }
}
