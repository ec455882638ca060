//! The limits of this process that decide what can be measured or shared at all.
//!
//! # Safety
//! [`set_nofile_of`] runs between `fork` and `exec`, in the copy of one thread of many: a system call, no lock and no memory.
#![allow(unsafe_code)]

use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::{Context, Result};

/// The limits that matter here, by the names of `ulimit` and limits.conf.
const LIMITS: [(&str, Resource); 7] = [
    ("nofile", Resource::Nofile),
    ("memlock", Resource::Memlock),
    ("msgqueue", Resource::Msgqueue),
    ("nproc", Resource::Nproc),
    ("stack", Resource::Stack),
    ("rtprio", Resource::Rtprio),
    ("nice", Resource::Nice),
];

/// Name, soft limit and hard limit of each, to be shown: a number in the kernel's unit (bytes for `memlock`,
/// `msgqueue` and `stack`; for `nice`, 20 less the lowest value allowed), or `unlimited`.
pub fn rlimits() -> Vec<(&'static str, String, String)> {
    let show =
        |limit: Option<u64>| limit.map_or_else(|| "unlimited".to_string(), |number| number.to_string());
    LIMITS
        .into_iter()
        .map(|(name, resource)| {
            let limit = getrlimit(resource);
            (name, show(limit.current), show(limit.maximum))
        })
        .collect()
}

/// How many descriptors this process may have: soft and hard limit; `u64::MAX` for no limit.
pub fn nofile() -> (u64, u64) {
    let limit = getrlimit(Resource::Nofile);
    (limit.current.unwrap_or(u64::MAX), limit.maximum.unwrap_or(u64::MAX))
}

/// Raises the soft limit of descriptors to the hard one; returns it. That needs no privilege.
pub fn raise_nofile() -> Result<u64> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
        .context("raise", || "the limit of open descriptors")?;
    Ok(nofile().0)
}

/// Has a program that is started this limit of descriptors from its first instruction on: programs that use `select` break with a high one.
pub fn set_nofile_of(command: &mut Command, limit: Rlimit) {
    // SAFETY: the closure makes one system call, and its error is made of a number.
    unsafe { command.pre_exec(move || Ok(setrlimit(Resource::Nofile, limit)?)) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_its_limit_of_descriptors_when_it_begins() {
        let limit = Rlimit { current: Some(17), ..getrlimit(Resource::Nofile) };
        let mut shell = Command::new("sh");
        set_nofile_of(shell.args(["-c", "ulimit -S -n"]), limit);
        assert_eq!(shell.output().unwrap().stdout, b"17\n");
    }

    #[test]
    fn limits_are_those_that_the_kernel_shows() {
        let text = std::fs::read_to_string("/proc/self/limits").unwrap();
        let limits = rlimits();
        for (name, title) in [("memlock", "Max locked memory"), ("nice", "Max nice priority")] {
            let (_, soft, hard) = limits.iter().find(|limit| limit.0 == name).unwrap();
            let line = text.lines().find_map(|line| line.strip_prefix(title)).unwrap();
            let shown: Vec<&str> = line.split_whitespace().take(2).collect();
            assert_eq!([soft, hard], *shown, "{name}");
        }
    }

    #[test]
    fn the_limit_of_descriptors_can_be_raised_to_the_hard_one() {
        let (soft, hard) = nofile();
        assert!(soft <= hard);
        let lower = Rlimit { current: Some(soft.min(hard) - 1), ..getrlimit(Resource::Nofile) };
        setrlimit(Resource::Nofile, lower).unwrap();
        assert_eq!(nofile(), (soft - 1, hard));
        assert_eq!(raise_nofile().unwrap(), hard);
        assert_eq!(nofile(), (hard, hard));
    }
}
