//! Tests that do not run on this machine: each prints one line with its cause, which CI compares with a list.

use std::fmt::{self, Display};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::watchdog::{current_test, print};

/// The variable with the file to which each skip is appended, as `test: cause: detail`.
pub const LIST: &str = "CAUSEWAY_TEST_SKIPS";

/// The reason why a machine cannot run a test. Lists of expected skips contain the names, so use one of these before you add another:
///
/// | cause | names |
/// |---|---|
/// | `Missing` | a program by its name, a header by its path, `python:MODULE`, a library as pkg-config calls it; `a system bus`, `an allocator`, `/dev/full`, `env --ignore-signal`, `GetAllMatchRules`, `GNU parallel`, `Valgrind 3.21`, `vmlinuz` |
/// | `Rights` | `an ordinary user`, `a readable build folder`, `a time namespace`, `control groups`, `kernel symbols`, `locked memory`, `mount`, `namespaces`, `open files`, `perf`, `pinning`, `podman`, `ptrace`, `realtime`, `root`, `seccomp` |
/// | `Hardware` | `APERF`, `PMU`, `no PMU`, `two CPUs`, `x86-64` |
/// | `Kernel` | an option (`CONFIG_SYSVIPC`), system call or socket option by its name, a sysctl; `a mechanism`, `asynchronous I/O`, `file leases`, `io_uring`, `packet filters`, `packet loss`, `tbf`, `tracefs`, `urgent bytes on Unix sockets` |
/// | `Setting` | a variable; `nice=0`, `SIGINT` |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Software.
    Missing(&'static str),
    /// Rights of this user or of a container, and limits of its processes.
    Rights(&'static str),
    /// A property of the processor or the machine.
    Hardware(&'static str),
    /// A feature or setting of the kernel, or a file system.
    Kernel(&'static str),
    /// How the tests were started: a variable that asks for a test which does not run by default, a nice value.
    Setting(&'static str),
}

impl Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Missing(name) => write!(f, "missing {name}"),
            Cause::Rights(name) => write!(f, "rights {name}"),
            Cause::Hardware(name) => write!(f, "hardware {name}"),
            Cause::Kernel(name) => write!(f, "kernel {name}"),
            Cause::Setting(name) => write!(f, "setting {name}"),
        }
    }
}

/// The variable with the test for which a process was started by [`rerun`](crate::rerun).
pub(crate) const TEST: &str = "CAUSEWAY_TEST";

/// The test of this thread; in a process that plays a role, the test that started it.
pub(crate) fn test() -> String {
    std::env::var(TEST).unwrap_or_else(|_| current_test())
}

/// Prints why the current test does not run here: `return skipped(Cause::Missing("dbus-daemon"), "")`.
///
/// `detail` is an error message or a way to change it. The line passes the test harness, which shows the output of failed tests only.
///
/// # Panics
/// The file that [`LIST`] names cannot be written.
pub fn skipped(cause: Cause, detail: impl Display) {
    let detail = detail.to_string();
    let detail = detail.split_whitespace().collect::<Vec<_>>().join(" ");
    let detail = if detail.is_empty() { detail } else { format!(": {detail}") };
    let line = format!("skipped: {}: {cause}{detail}\n", test());
    print(&line);
    if let Some(path) = std::env::var_os(LIST) {
        let file = OpenOptions::new().append(true).create(true).open(&path);
        // One write for the line: programs of tests share the file.
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .unwrap_or_else(|error| panic!("{path:?}: {error}"));
    }
}

/// The path of `program`, as the shell would find it. `None` if it is not installed.
pub fn find_program(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|path| rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok() && path.is_file())
}

/// Whether `program` is installed; prints the skip of the current test if not: `if !has_program("git") { return; }`.
pub fn has_program(program: &'static str) -> bool {
    let found = find_program(program).is_some();
    if !found {
        skipped(Cause::Missing(program), "");
    }
    found
}

/// Whether `trial` succeeds, a command that tries what the test needs; prints the skip of the current test if not, with the error of the command.
pub fn trial_succeeds(trial: &mut Command, cause: Cause) -> bool {
    let why = match trial.stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => return true,
        Ok(output) => format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr)),
        Err(error) => format!("{}: {error}", trial.get_program().display()),
    };
    skipped(cause, why);
    false
}

/// Whether this process is root; prints the skip of the current test if not.
pub fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skipped(Cause::Rights("root"), "");
    }
    is_root
}

/// Whether the C compiler finds `header`; prints the skip of the current test if not, or if there is no compiler.
pub fn has_header(header: &'static str) -> bool {
    if !has_program("cc") {
        return false;
    }
    let found = Command::new("cc")
        .args(["-E", "-include", header, "-x", "c", "/dev/null"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !found {
        skipped(Cause::Missing(header), "");
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{assert_ran, rerun};

    #[test]
    fn skip_of_a_role_is_a_line_with_the_test_that_started_it() {
        let list = tempfile::NamedTempFile::new().unwrap();
        let output = rerun(module_path!(), "role").env(LIST, list.path()).output().unwrap();
        assert_ran(&output);
        let line = "skipped: causeway-testkit skip::tests::skip_of_a_role_is_a_line_with_the_test_that_started_it: \
            missing nothing: its detail on two lines\n";
        assert_eq!(std::fs::read_to_string(list.path()).unwrap(), line);
        assert!(String::from_utf8_lossy(&output.stderr).contains(line));
    }

    #[test]
    fn role() {
        if std::env::var_os(LIST).is_some() && std::env::var_os(TEST).is_some() {
            skipped(Cause::Missing("nothing"), "its detail\n  on two lines");
        }
    }

    #[test]
    fn programs_are_found_as_the_shell_finds_them() {
        assert_eq!(find_program("sh").map(|path| path.ends_with("sh")), Some(true));
        assert_eq!(find_program("no-such-program"), None);
    }
}
