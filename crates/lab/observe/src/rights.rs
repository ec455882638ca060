//! Why the kernel refuses to be looked at, and which right or setting would allow it.

use std::fs;
use std::io;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Events of a CPU, whichever process they belong to.
    CpuWide,
    Tracepoint,
    Hardware,
}

impl Asked {
    /// The largest `kernel.perf_event_paranoid` that allows it without a capability (`perf_event_open(2)`).
    fn paranoid(self) -> i64 {
        match self {
            Asked::CpuWide | Asked::Hardware => 0,
            Asked::Tracepoint => -1,
        }
    }
}

/// The rights and settings that decide.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    pub paranoid: Option<i64>,
    pub kptr_restrict: Option<i64>,
    /// Is the kernel locked down for confidentiality?
    pub is_locked_down: bool,
    /// `CAP_PERFMON`, or `CAP_SYS_ADMIN`.
    pub has_perfmon: bool,
    pub has_syslog: bool,
    /// Does a seccomp filter stand between this process and the kernel?
    pub is_filtered: bool,
}

impl Rights {
    /// Of the calling thread. What cannot be read is taken as absent.
    pub fn read() -> Rights {
        let sysctl = |name: &str| -> Option<i64> {
            fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()?.trim().parse().ok()
        };
        let lockdown = fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
        Rights {
            paranoid: sysctl("perf_event_paranoid"),
            kptr_restrict: sysctl("kptr_restrict"),
            is_locked_down: lockdown.contains("[confidentiality]"),
            ..Rights::of_status(&fs::read_to_string("/proc/thread-self/status").unwrap_or_default())
        }
    }

    fn of_status(status: &str) -> Rights {
        const SYS_ADMIN: u32 = 21;
        const SYSLOG: u32 = 34;
        const PERFMON: u32 = 38;
        let field = |name: &str| {
            status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
        };
        let effective = field("CapEff").and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(0);
        let has = |capability: u32| effective >> capability & 1 == 1;
        Rights {
            has_perfmon: has(PERFMON) || has(SYS_ADMIN),
            has_syslog: has(SYSLOG),
            is_filtered: field("Seccomp") == Some("2"),
            ..Rights::default()
        }
    }

    /// One sentence without a full stop: why `asked` was refused with `error`, and what would allow it.
    pub fn why(&self, asked: Asked, error: &io::Error) -> String {
        match error.raw_os_error() {
            Some(libc::ENOSYS) => {
                "the kernel has no perf events (CONFIG_PERF_EVENTS), or a container's filter hides them (ENOSYS)".into()
            }
            Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP) if asked == Asked::Hardware => {
                format!("this machine shows no counters of the processor ({error}); a virtual machine has them where its hypervisor passes on a PMU")
            }
            Some(libc::ENOENT) => "the kernel has no such event (ENOENT)".into(),
            Some(libc::EMFILE) => "this process may open no further files (EMFILE); raise the limit with ulimit -n".into(),
            Some(number @ (libc::EPERM | libc::EACCES)) => self.not_permitted(asked, number),
            _ => error.to_string(),
        }
    }

    fn not_permitted(&self, asked: Asked, number: i32) -> String {
        let name = if number == libc::EPERM { "EPERM" } else { "EACCES" };
        if self.is_locked_down {
            return format!(
                "the kernel is locked down for confidentiality ({name}); it must be started with lockdown=integrity or lockdown=none"
            );
        }
        let is_setting = self.paranoid.is_some_and(|paranoid| paranoid > asked.paranoid());
        if number == libc::EPERM && self.is_filtered {
            return "a seccomp filter, as containers have it, forbids perf_event_open (EPERM); allow the call in its profile, and give \
                    CAP_PERFMON"
                .into();
        }
        match self.paranoid {
            Some(paranoid) if is_setting && !self.has_perfmon => format!(
                "kernel.perf_event_paranoid is {paranoid} ({name}); root or CAP_PERFMON may, and everybody after sysctl \
                 kernel.perf_event_paranoid={}",
                asked.paranoid()
            ),
            _ => format!(
                "a security module or a container forbids it ({name}), although the settings of perf events allow it"
            ),
        }
    }

    /// Why addresses of kernel functions read as zero.
    pub fn why_symbols_are_hidden(&self) -> String {
        match (self.kptr_restrict, self.paranoid) {
            (Some(2..), _) => "kernel.kptr_restrict is 2, which hides them from everybody; root may see them after sysctl kernel.kptr_restrict=1".into(),
            (Some(1), _) => {
                "kernel.kptr_restrict is 1; root or CAP_SYSLOG may see them, and everybody after sysctl kernel.kptr_restrict=0 \
                 kernel.perf_event_paranoid=1"
                    .into()
            }
            (_, Some(paranoid @ 2..)) if !self.has_syslog => format!(
                "kernel.perf_event_paranoid is {paranoid}; root or CAP_SYSLOG may see them, and everybody after sysctl \
                 kernel.perf_event_paranoid=1"
            ),
            _ => "the kernel shows no addresses in /proc/kallsyms (CONFIG_KALLSYMS), or a container hides them".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_what_would_allow_what_was_asked() {
        let user = Rights { paranoid: Some(2), ..Rights::default() };
        let debian = Rights { paranoid: Some(3), ..Rights::default() };
        let root = Rights { has_perfmon: true, ..user.clone() };
        let contained = Rights { is_filtered: true, ..user.clone() };
        let locked = Rights { is_locked_down: true, ..root.clone() };
        for (rights, asked, number, words) in [
            (
                &user,
                Asked::CpuWide,
                libc::EACCES,
                "kernel.perf_event_paranoid is 2 (EACCES); root or CAP_PERFMON",
            ),
            (&user, Asked::CpuWide, libc::EACCES, "kernel.perf_event_paranoid=0"),
            (&user, Asked::Tracepoint, libc::EPERM, "kernel.perf_event_paranoid=-1"),
            (&debian, Asked::Hardware, libc::EACCES, "is 3"),
            (&debian, Asked::Hardware, libc::EACCES, "kernel.perf_event_paranoid=0"),
            (&contained, Asked::CpuWide, libc::EPERM, "seccomp"),
            (&contained, Asked::CpuWide, libc::EACCES, "perf_event_paranoid is 2"),
            (&locked, Asked::CpuWide, libc::EPERM, "lockdown=integrity"),
            (&root, Asked::CpuWide, libc::EACCES, "security module"),
            (&root, Asked::Hardware, libc::ENOENT, "PMU"),
            (&root, Asked::Tracepoint, libc::ENOENT, "no such event"),
            (&root, Asked::CpuWide, libc::ENOSYS, "CONFIG_PERF_EVENTS"),
            (&root, Asked::CpuWide, libc::EMFILE, "ulimit -n"),
        ] {
            let why = rights.why(asked, &io::Error::from_raw_os_error(number));
            assert!(why.contains(words), "{rights:?}, {asked:?}: {why}");
        }
        for (kptr, paranoid, words) in [
            (2, 0, "kptr_restrict=1"),
            (1, 0, "kptr_restrict=0"),
            (0, 2, "perf_event_paranoid is 2"),
            (0, 1, "kallsyms"),
        ] {
            let rights = Rights { kptr_restrict: Some(kptr), paranoid: Some(paranoid), ..Rights::default() };
            let why = rights.why_symbols_are_hidden();
            assert!(why.contains(words), "{rights:?}: {why}");
        }
    }

    #[test]
    fn capabilities_and_filters_are_read_from_the_status_of_a_process() {
        let rights = Rights::of_status("CapInh:\t0\nCapEff:\t0000004400000000\nSeccomp:\t2\n");
        assert!(rights.has_perfmon && rights.has_syslog && rights.is_filtered, "{rights:?}");
        assert_eq!(Rights::of_status("CapEff:\t0000000000000000\nSeccomp:\t0\n"), Rights::default());
        assert!(Rights::of_status("CapEff:\t0000000000200000\n").has_perfmon, "CAP_SYS_ADMIN includes it");
    }
}
