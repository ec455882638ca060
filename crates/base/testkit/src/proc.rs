//! What the kernel says of a process below `/proc`. Each answer is `None` or empty where the process is gone.

use std::fs;

/// `/proc/PID/stat` from its third field on: the name before, in parentheses, may have spaces.
fn stat(path: &str) -> Option<Vec<String>> {
    let text = fs::read_to_string(path).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    Some(rest.split_whitespace().map(str::to_owned).collect())
}

/// Its state as one letter: `R`, `S`, `D`, `T` (stopped), `Z` (ended and not reaped).
pub fn state(pid: u32) -> Option<char> {
    stat(&format!("/proc/{pid}/stat"))?[0].chars().next()
}

/// The states of its threads.
pub fn thread_states(pid: u32) -> Vec<char> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.filter_map(|thread| stat(thread.path().join("stat").to_str()?)?[0].chars().next()).collect()
}

/// Whether it is there and all its threads are stopped by a signal.
pub fn is_stopped(pid: u32) -> bool {
    let states = thread_states(pid);
    !states.is_empty() && states.iter().all(|state| *state == 'T')
}

/// The state of one of its threads.
pub fn thread_state(pid: u32, thread: u32) -> Option<char> {
    stat(&format!("/proc/{pid}/task/{thread}/stat"))?[0].chars().next()
}

/// The numbers of its threads with this name.
pub fn threads_named(pid: u32, name: &str) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let has_name = |thread: &fs::DirEntry| {
        fs::read_to_string(thread.path().join("comm"))
            .is_ok_and(|found| found.strip_suffix('\n') == Some(name))
    };
    threads.filter(has_name).filter_map(|thread| thread.file_name().to_str()?.parse().ok()).collect()
}

/// The name of each of its threads, and how often that has gone to sleep.
pub fn sleeps(pid: u32) -> Vec<(String, u64)> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of = |thread: fs::DirEntry| {
        let name = fs::read_to_string(thread.path().join("comm")).ok()?.trim_end().to_owned();
        let text = fs::read_to_string(thread.path().join("status")).ok()?;
        let sleeps = text
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse().ok())?;
        Some((name, sleeps))
    };
    threads.filter_map(of).collect()
}

/// How often its threads of this name have gone to sleep: more, once one has been awake and sleeps again.
pub fn sleeps_of(pid: u32, name: &str) -> u64 {
    sleeps(pid).into_iter().filter(|(of, _)| of == name).map(|(_, sleeps)| sleeps).sum()
}

/// Its parent.
pub fn parent(pid: u32) -> Option<u32> {
    stat(&format!("/proc/{pid}/stat"))?[1].parse().ok()
}

/// Its children.
pub fn children(pid: u32) -> Vec<u32> {
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    processes.filter(|child| parent(*child) == Some(pid)).collect()
}

/// The name of its program, at most 15 bytes.
pub fn name(pid: u32) -> Option<String> {
    Some(fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim_end().into())
}

/// The words of its command line.
pub fn command_line(pid: u32) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = bytes.split_inclusive(|byte| *byte == 0);
    words.map(|word| String::from_utf8_lossy(word).trim_end_matches('\0').into()).collect()
}

/// The number of its open descriptors.
pub fn open_files(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().count()
}

/// A line of `/proc/PID/status`, such as `VmRSS`, without its name.
pub fn status(pid: u32, line: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    text.lines().find_map(|text| Some(text.strip_prefix(line)?.strip_prefix(':')?.trim().into()))
}

/// A line of `/proc/PID/status` that is a number, such as `VmRSS` in KiB or `voluntary_ctxt_switches`.
pub fn status_number(pid: u32, line: &str) -> Option<u64> {
    status(pid, line)?.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Running;
    use std::process::Command;

    #[test]
    fn a_process_and_its_child_are_described() {
        let us = std::process::id();
        let child = Running::start(Command::new("sleep").arg("1000"));
        assert_eq!(parent(child.pid()), Some(us));
        assert!(children(us).contains(&child.pid()));
        crate::eventually_seen(
            "the program",
            || command_line(child.pid()),
            |words| *words == ["sleep", "1000"],
        );
        assert_eq!(name(child.pid()).as_deref(), Some("sleep"));
        assert!(open_files(us) > 2 && thread_states(us).len() > 1);
        assert_eq!(status(us, "Pid"), Some(us.to_string()));
        assert!(status_number(us, "VmRSS").unwrap() > 100);
        assert_eq!(state(u32::MAX), None);
    }
}
