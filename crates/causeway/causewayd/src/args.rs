//! The command line, which is that of dbus-daemon as far as it makes sense here: of switches that are repeated or contradict each other the last counts.

use std::path::PathBuf;
use std::time::Duration;

use causeway_waiting::duration;
use clap::{CommandFactory, Parser};

const NAME: &str = "causewayd";

/// A message bus for D-Bus clients and native members.
///
/// It takes the options of dbus-daemon and can replace it in a session or in a test. One of --session, --system,
/// --address and --config-file is required.
#[derive(Debug, Parser)]
#[command(
    version,
    about,
    after_help = "Example: causewayd --address unix:path=/run/user/1000/my-bus --print-address"
)]
pub struct Args {
    /// Serve a session bus, configured by /usr/share/dbus-1/session.conf if it exists
    #[arg(long, conflicts_with_all = ["system", "config_file"])]
    pub session: bool,
    /// Serve a bus configured by /usr/share/dbus-1/system.conf
    #[arg(long, conflicts_with = "config_file")]
    pub system: bool,
    /// Serve a bus configured by this configuration file of dbus-daemon
    #[arg(long, value_name = "FILE")]
    pub config_file: Option<PathBuf>,
    /// Listen at this address instead: unix:path=PATH, unix:abstract=NAME, unix:tmpdir=FOLDER, unix:dir=FOLDER, unix:runtime=yes, or systemd: for the sockets of a socket unit; several separated by semicolons
    #[arg(long, value_name = "ADDRESS")]
    pub address: Option<String>,
    /// Print the address to this file descriptor [default: standard output] once clients can connect
    #[arg(long, value_name = "FD", num_args = 0..=1, default_missing_value = "1")]
    pub print_address: Option<i32>,
    /// Let processes of this user join as native members, over shared memory, at a socket with this path; --session does so next to its D-Bus socket
    #[arg(long, value_name = "PATH")]
    pub native: Option<PathBuf>,
    /// Evict a native member that has kept others waiting for this long, such as 250ms or 2s
    #[arg(long, value_name = "TIME", default_value = "250ms", value_parser = deadline, allow_hyphen_values = true)]
    pub laggard_deadline: Duration,
    /// Print the path of the native socket to this file descriptor [default: standard output]; services that causewayd starts find it in CAUSEWAY_BUS
    #[arg(long, value_name = "FD", num_args = 0..=1, default_missing_value = "1")]
    pub print_native: Option<i32>,
    /// Serve metrics in the text format of OpenMetrics: by HTTP at a socket, unix:PATH, or in a FILE, which is replaced every five seconds
    #[arg(long, value_name = "unix:PATH|FILE")]
    pub metrics: Option<String>,
    /// Print the process ID to this file descriptor [default: standard output]
    #[arg(long, value_name = "FD", num_args = 0..=1, default_missing_value = "1")]
    pub print_pid: Option<i32>,
    /// Return once clients can connect, and run in the background
    #[arg(long, overrides_with_all = ["fork", "nofork"])]
    pub fork: bool,
    /// Run in the foreground even if the configuration says otherwise
    #[arg(long, overrides_with_all = ["fork", "nofork"])]
    pub nofork: bool,
    /// Write no PID file even if the configuration names one
    #[arg(long, overrides_with = "nopidfile")]
    pub nopidfile: bool,
    /// Log to standard error even if the configuration says otherwise
    #[arg(long, overrides_with_all = ["nosyslog", "syslog", "syslog_only"])]
    pub nosyslog: bool,
    /// Log to the system log
    #[arg(long, overrides_with_all = ["nosyslog", "syslog", "syslog_only"])]
    pub syslog: bool,
    /// Log to the system log only
    #[arg(long, overrides_with_all = ["nosyslog", "syslog", "syslog_only"])]
    pub syslog_only: bool,
    /// Log each connection that comes and goes, too
    #[arg(long, short, overrides_with = "verbose")]
    pub verbose: bool,
    /// Have systemd start the services whose files name a unit in SystemdService=, instead of their Exec= line
    #[arg(long, overrides_with = "systemd_activation")]
    pub systemd_activation: bool,
    /// Print the introspection data of org.freedesktop.DBus, and exit
    #[arg(long)]
    pub introspect: bool,
    /// Print the manual page, and exit
    #[arg(long)]
    pub man: bool,
    /// Print shell completions, and exit
    #[arg(long, value_name = "SHELL")]
    pub completions: Option<clap_complete::Shell>,
    /// This process was started by one with --fork
    #[arg(long, hide = true)]
    pub detached: bool,
}

/// The manual page, for `man -l -`, made from the same source as the help.
pub fn manual() -> Result<String, String> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Args::command().name(NAME)).render(&mut page).map_err(|error| error.to_string())?;
    String::from_utf8(page).map_err(|error| error.to_string())
}

/// The script that completes options in a shell.
pub fn completions(shell: clap_complete::Shell) -> Result<String, String> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), NAME, &mut script);
    String::from_utf8(script).map_err(|error| error.to_string())
}

/// Members are told it in milliseconds.
fn deadline(text: &str) -> Result<Duration, String> {
    let time = duration::parse(text, None)?;
    if time < Duration::from_millis(1) {
        return Err(format!("`{text}` is less than a millisecond; {}", duration::FORM));
    }
    Ok(Duration::from_millis(time.as_nanos().div_ceil(1_000_000) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_switches_that_contradict_each_other_the_last_counts() {
        let parse = |args: &[&str]| Args::try_parse_from(["causewayd", "--session"].iter().chain(args));
        let forks = |args: &[&str]| parse(args).map(|args| (args.fork, args.nofork)).unwrap();
        assert_eq!(forks(&["--fork", "--nofork"]), (false, true));
        assert_eq!(forks(&["--nofork", "--fork", "--nofork", "--nofork", "--fork"]), (true, false));
        let logs =
            |args: &[&str]| parse(args).map(|args| (args.nosyslog, args.syslog, args.syslog_only)).unwrap();
        assert_eq!(logs(&["--syslog-only", "--nosyslog"]), (true, false, false));
        assert_eq!(logs(&["--nosyslog", "--syslog", "--syslog-only"]), (false, false, true));
        let repeated = ["--nopidfile", "--systemd-activation", "--nopidfile", "--systemd-activation"];
        assert!(parse(&repeated).is_ok_and(|args| args.nopidfile && args.systemd_activation));
        // Of two values none is taken for the other.
        assert!(parse(&["--address", "unix:path=/a", "--address", "unix:path=/b"]).is_err());
    }

    #[test]
    fn a_deadline_has_a_unit() {
        let parse = |text: &str| {
            let args = Args::try_parse_from(["causewayd", "--session", "--laggard-deadline", text]);
            args.map(|args| args.laggard_deadline).map_err(|error| error.to_string())
        };
        for (text, millis) in [("250ms", 250), ("1.5s", 1500), ("2m", 120_000), ("1500us", 2)] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for (text, why) in
            [("0s", "less than a millisecond"), ("-1", "is not a time"), ("300", "as in 500ms, 1.5s")]
        {
            assert!(parse(text).unwrap_err().contains(why), "{text}: {:?}", parse(text));
        }
    }
}
