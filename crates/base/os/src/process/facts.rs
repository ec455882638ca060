//! What the kernel says of a process by its number, for people.

use std::fs;

/// The name of the program of process `pid`, as the kernel keeps it, each control character replaced by `?`. A process
/// sets it itself: no decision may rest on it. Nothing if there is no such process, or the name is not UTF-8.
#[must_use]
pub fn program(pid: u32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(printable(name.trim_end_matches('\n')))
}

/// The control group of process `pid`: of the unified hierarchy where there is one. Nothing if there is no such
/// process.
#[must_use]
pub fn cgroup(pid: u32) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    cgroup_in(&text).map(str::to_owned)
}

fn printable(name: &str) -> String {
    name.replace(char::is_control, "?")
}

fn cgroup_in(text: &str) -> Option<&str> {
    let unified = text.lines().find_map(|line| line.strip_prefix("0::"));
    unified.or_else(|| text.lines().next()?.splitn(3, ':').nth(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_the_name_that_the_kernel_keeps() {
        let name = fs::read_to_string("/proc/self/comm").unwrap();
        assert_eq!(program(std::process::id()).as_deref(), name.strip_suffix('\n'));
        assert_eq!(program(u32::MAX), None);
    }

    #[test]
    fn a_name_cannot_move_the_cursor_of_a_terminal() {
        assert_eq!(printable("a\u{1b}[2J\nb"), "a?[2J?b");
    }

    #[test]
    fn the_unified_hierarchy_goes_before_others() {
        assert_eq!(cgroup_in("4:memory:/a\n0::/b:c\n"), Some("/b:c"));
        assert_eq!(cgroup_in("4:memory:/a:b\n2:cpu:/c\n"), Some("/a:b"));
        assert_eq!(cgroup_in(""), None);
        assert_eq!(cgroup(u32::MAX), None);
    }
}
