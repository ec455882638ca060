//! `doctor`: what of this machine or container is missing, each with what helps.

use std::fs::read_to_string;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use causeway::{Error, Group, GroupOptions, memory_available_bytes};
use causeway_os::futex::{Outcome, wait_and_compare};
use causeway_os::process::is_overflow_user;
use causeway_os::{memory, socket};
use clap::{Args, ValueEnum};
use serde_json::json;

use crate::failure::Failure;

/// A log of this size and its pages fit, or little does.
const ENOUGH_BYTES: u64 = 16 << 20;

/// No machine has so much.
const UNLIMITED_BYTES: u64 = 1 << 60;

#[derive(Args)]
#[command(after_help = "Exit code: 0 nothing is missing, 1 something is, 3 it failed.")]
pub struct DoctorArguments {
    /// How the findings are printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

/// How something is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ok,
    /// It works, worse.
    Weak,
    /// It does not work.
    Missing,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Weak => "weak",
            State::Missing => "missing",
        }
    }
}

/// One line.
#[derive(Debug)]
struct Finding {
    check: &'static str,
    state: State,
    found: String,
    /// What helps, where something does.
    remedy: Option<&'static str>,
}

impl Finding {
    fn ok(check: &'static str, found: impl Into<String>) -> Finding {
        Finding { check, state: State::Ok, found: found.into(), remedy: None }
    }

    fn new(check: &'static str, state: State, found: impl Into<String>, remedy: &'static str) -> Finding {
        Finding { check, state, found: found.into(), remedy: Some(remedy) }
    }
}

/// Prints a line for each check.
pub fn doctor(arguments: &DoctorArguments) -> Result<ExitCode, Failure> {
    let findings = [kernel(), futex_waitv(), peer_pidfd(), leases(), memory_limit(), selinux(), user()];
    let mut out = io::stdout().lock();
    if arguments.format == Format::Json {
        let rows = findings.iter().map(|Finding { check, state, found, remedy }| {
            json!({ "check": check, "state": state.name(), "found": found, "remedy": remedy })
        });
        writeln!(out, "{}", rows.collect::<serde_json::Value>())?;
    } else {
        for Finding { check, state, found, remedy } in &findings {
            let remedy = remedy.map_or_else(String::new, |remedy| format!("; {remedy}"));
            writeln!(out, "{:<12} {:<8} {found}{remedy}", check, state.name())?;
        }
    }
    let is_well = findings.iter().all(|finding| finding.state == State::Ok);
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn kernel() -> Finding {
    const CHECK: &str = "kernel";
    match Group::create("causeway-doctor", GroupOptions::new().capacity_bytes(4096)) {
        Ok(_) => Finding::ok(CHECK, "it has what logs need: sealed memory files, futexes on them, pidfds"),
        Err(Error::Kernel(missing)) => Finding::new(
            CHECK,
            State::Missing,
            missing,
            "use Linux 5.3 or later, and a seccomp profile that allows it",
        ),
        Err(error) => Finding::new(
            CHECK,
            State::Missing,
            error.to_string(),
            "give this process memory, descriptors and threads",
        ),
    }
}

/// Needed where subscribers do not trust each other.
fn futex_waitv() -> Finding {
    const CHECK: &str = "futex_waitv";
    let (shared, private) = (AtomicU32::new(1), AtomicU32::new(1));
    // The first word has another value: it never sleeps.
    let tried = wait_and_compare((&shared, 0), (&private, 1), Some(Duration::ZERO));
    let slower = |found: &str| {
        format!("{found}; subscribers that are strangers sleep on a descriptor, which is slower")
    };
    match tried {
        Ok(Outcome::Changed | Outcome::TimedOut | Outcome::Interrupted | Outcome::Woken) => {
            Finding::ok(CHECK, "allowed")
        }
        // Profiles that do not know a call say that there is none.
        Err(error) if error.kind() == ErrorKind::PermissionDenied || has_futex_waitv(&kernel_release()) => {
            Finding::new(
                CHECK,
                State::Weak,
                slower("forbidden by seccomp, as by the default profile of podman"),
                "allow futex_waitv in a profile (--security-opt seccomp=FILE), or let it be",
            )
        }
        Err(error) => Finding::new(
            CHECK,
            State::Weak,
            slower(&format!("not there ({error})")),
            "use Linux 5.16 or later, or let it be",
        ),
    }
}

fn kernel_release() -> String {
    read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default()
}

/// Linux 5.16 has it.
fn has_futex_waitv(release: &str) -> bool {
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(5), Some(16))
}

fn peer_pidfd() -> Finding {
    const CHECK: &str = "peer-pidfd";
    let tried = socket::seqpacket_pair().and_then(|(near, _far)| socket::peer_pidfd(&near));
    match tried {
        Ok(_) => Finding::ok(CHECK, "the end of a process is seen in any PID namespace"),
        Err(error) => Finding::new(
            CHECK,
            State::Weak,
            format!(
                "no SO_PEERPIDFD ({}); the end of a process in another PID namespace is seen when its connection ends, which a child \
                 that it has forked delays",
                error.os()
            ),
            "use Linux 6.5 or later, or share the PID namespace (--pid)",
        ),
    }
}

/// Needed to use the memory of sealed payloads again.
fn leases() -> Finding {
    const CHECK: &str = "leases";
    let tried = memory::memfd("causeway-doctor", 4096).and_then(|file| memory::is_open_elsewhere(&file));
    match tried {
        Ok(_) => Finding::ok(CHECK, "the kernel says who still maps a sealed payload"),
        Err(error) => Finding::new(
            CHECK,
            State::Weak,
            format!("no lease on a memory file ({}); sealed payloads count as in use for longer", error.os()),
            "set fs.leases-enable to 1",
        ),
    }
}

fn memory_limit() -> Finding {
    const CHECK: &str = "memory";
    const MIB: u64 = 1 << 20;
    match memory_available_bytes() {
        None => Finding::ok(CHECK, "no limit of a control group"),
        // What version 1 has for none.
        Some(UNLIMITED_BYTES..) => Finding::ok(CHECK, "no limit of a control group"),
        Some(bytes) if bytes >= ENOUGH_BYTES => Finding::ok(
            CHECK,
            format!("the control group has {} MiB left, for logs, pages and payloads together", bytes / MIB),
        ),
        Some(bytes) => Finding::new(
            CHECK,
            State::Weak,
            format!("the control group has {} MiB left", bytes / MIB),
            "raise memory.max (--memory), of the container that creates the group: it pays for the log",
        ),
    }
}

fn selinux() -> Finding {
    let enforces = read_to_string("/sys/fs/selinux/enforce").is_ok_and(|text| text.trim() == "1");
    let label = read_to_string("/proc/self/attr/current").unwrap_or_default();
    selinux_of(enforces, label.trim_matches(['\0', '\n', ' ']))
}

/// What a label means. `/sys/fs/selinux` is not mounted in most containers; the label is there all the same.
fn selinux_of(enforces: bool, label: &str) -> Finding {
    const CHECK: &str = "selinux";
    let Some(kind) = label.split(':').nth(2) else { return Finding::ok(CHECK, "not in use") };
    if kind.starts_with("container") && kind != "container_runtime_t" && !kind.contains("spc_t") {
        return Finding::new(
            CHECK,
            State::Weak,
            format!("this process is {kind}, which may not connect to sockets of the host"),
            "start the container with --security-opt label=disable, or give both ends one label",
        );
    }
    Finding::ok(CHECK, format!("{kind}{}", if enforces { ", enforced" } else { "" }))
}

fn user() -> Finding {
    const CHECK: &str = "user";
    let own = rustix::process::geteuid().as_raw();
    if is_overflow_user() {
        return Finding::new(
            CHECK,
            State::Missing,
            format!(
                "{own} stands for every user without a number in this user namespace, so nothing can be served"
            ),
            "run as another user, such as 65532 (--user)",
        );
    }
    Finding::ok(CHECK, format!("{own}, which is no other user's number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_of_selinux_is_told_that_it_may_not_connect_and_others_are_not() {
        let state = |label| selinux_of(true, label).state;
        assert_eq!(state("system_u:system_r:container_t:s0:c57,c86"), State::Weak);
        assert_eq!(state("unconfined_u:unconfined_r:unconfined_t:s0"), State::Ok);
        assert_eq!(state("system_u:system_r:spc_t:s0"), State::Ok);
        assert_eq!(state("docker-default (enforce)"), State::Ok);
        assert_eq!(state(""), State::Ok);
    }

    #[test]
    fn a_kernel_that_has_a_call_is_not_blamed_for_a_profile() {
        assert!(["5.16.0-rc1", "5.17", "6.1.0-56-amd64", "10.0"].into_iter().all(has_futex_waitv));
        assert!(["5.15.200", "5.4.0-generic", "4.19", "", "x"].into_iter().all(|old| !has_futex_waitv(old)));
    }
}
