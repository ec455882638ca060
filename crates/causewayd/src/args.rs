//! The command line, which is that of dbus-daemon as far as it makes sense here.

use std::path::PathBuf;

use clap::Parser;

/// A message bus for D-Bus programs and native members.
///
/// Started with the options of dbus-daemon, it can take its place in a session or in a test. One of --session, --system,
/// --address and --config-file must be there.
#[derive(Debug, Parser)]
#[command(
    version,
    about,
    after_help = "Example: causewayd --address unix:path=/run/user/1000/my-bus --print-address"
)]
pub struct Args {
    /// Serve the bus of a login session, as /usr/share/dbus-1/session.conf says where there is one
    #[arg(long, conflicts_with_all = ["system", "config_file"])]
    pub session: bool,
    /// Serve a bus as /usr/share/dbus-1/system.conf says
    #[arg(long, conflicts_with = "config_file")]
    pub system: bool,
    /// Serve a bus as this configuration file of dbus-daemon says
    #[arg(long, value_name = "FILE")]
    pub config_file: Option<PathBuf>,
    /// Listen here instead: unix:path=PATH, unix:abstract=NAME, unix:tmpdir=FOLDER, unix:dir=FOLDER, unix:runtime=yes, systemd: for the sockets of a socket unit; several are separated by semicolons
    #[arg(long, value_name = "ADDRESS")]
    pub address: Option<String>,
    /// Write the address to this descriptor, by default standard output, once clients can connect
    #[arg(long, value_name = "FD", num_args = 0..=1, default_missing_value = "1")]
    pub print_address: Option<i32>,
    /// Let processes of this user join natively, with the bus in their memory, at a socket with this path; --session does so beside its own socket
    #[arg(long, value_name = "PATH")]
    pub native: Option<PathBuf>,
    /// Write the path of the native socket to this descriptor, by default standard output; services that causewayd starts find it in CAUSEWAY_BUS
    #[arg(long, value_name = "FD", num_args = 0..=1, default_missing_value = "1")]
    pub print_native: Option<i32>,
    /// Write the number of the process to this descriptor, by default standard output
    #[arg(long, value_name = "FD", num_args = 0..=1, default_missing_value = "1")]
    pub print_pid: Option<i32>,
    /// Return when clients can connect, and go on in the background
    #[arg(long, conflicts_with = "nofork")]
    pub fork: bool,
    /// Stay in the foreground, whatever the configuration says
    #[arg(long)]
    pub nofork: bool,
    /// Write no file with the number of the process, whatever the configuration says
    #[arg(long)]
    pub nopidfile: bool,
    /// Say what goes wrong on standard error, which is the default
    #[arg(long, conflicts_with = "syslog_only")]
    pub nosyslog: bool,
    /// Say what goes wrong in the system's log
    #[arg(long)]
    pub syslog: bool,
    /// Say what goes wrong in the system's log and nowhere else
    #[arg(long)]
    pub syslog_only: bool,
    /// Accepted for programs that start dbus-daemon with it; services are started by their Exec= line all the same
    #[arg(long)]
    pub systemd_activation: bool,
    /// Print what the driver's object says of itself, and end
    #[arg(long)]
    pub introspect: bool,
    /// Print the manual page, and end
    #[arg(long)]
    pub man: bool,
    /// Print a script that completes options in a shell, and end
    #[arg(long, value_name = "SHELL")]
    pub completions: Option<clap_complete::Shell>,
    /// This process was started by one with --fork
    #[arg(long, hide = true)]
    pub detached: bool,
}
