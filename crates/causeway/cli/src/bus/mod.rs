//! `causeway bus`: names, calls and signals of a bus for a shell user, in the manner of `busctl`.
//!
//! | file | commands |
//! |---|---|
//! | `start`, `run` | start `causewayd`; `server` finds it, `folder` is where it serves |
//! | `list`, `tree`, `stat`, `top` | what is on a bus; `facts` is what the bus says of connections |
//! | `call` | `call`, `emit` |
//! | `watch` | `monitor`, `match` |
//! | `wait` | `wait` |
//!
//! `which` says which bus is meant, `client` is a connection to it of either kind, `show` prints messages.

mod call;
mod client;
mod facts;
mod folder;
mod list;
mod run;
mod server;
mod show;
mod start;
mod stat;
mod top;
mod tree;
mod wait;
mod watch;
mod which;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use causeway_bus::wire::{Body, text};
use causeway_waiting::duration;
use clap::{Args, Subcommand};

use crate::failure::Failure;
use which::Which;

/// Names, calls and signals of a bus.
///
/// Which bus: --socket or --address, else the native socket that belongs to DBUS_SESSION_BUS_ADDRESS, else the native socket that CAUSEWAY_BUS names, else
/// the D-Bus socket that DBUS_SESSION_BUS_ADDRESS names or that of the session, $XDG_RUNTIME_DIR/bus.
#[derive(Args)]
pub struct BusArguments {
    #[command(flatten)]
    which: Which,
    #[command(subcommand)]
    command: BusCommand,
}

#[derive(Subcommand)]
enum BusCommand {
    /// Start causewayd in the background, and print where it serves as commands of a shell
    ///
    /// It ends with `kill $CAUSEWAYD_PID`.
    #[command(after_help = "Example:\n  eval \"$(causeway bus start)\"")]
    Start {
        /// Serve D-Bus programs here; by default unix:path=$XDG_RUNTIME_DIR/causeway-bus, and without such a folder in a private one among temporary files
        #[arg(long, value_name = "ADDRESS")]
        address: Option<String>,
        /// Serve native members here; by default the path of the address with `.native` behind it, and where the address has none, a name that is not used
        #[arg(long, value_name = "PATH")]
        socket: Option<PathBuf>,
        /// A configuration file of dbus-daemon instead of that of a session
        #[arg(long, value_name = "FILE")]
        config_file: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Run a program with a bus of its own, which ends with it
    ///
    /// The program finds the bus in DBUS_SESSION_BUS_ADDRESS and CAUSEWAY_BUS. Its exit status is passed on; 128 and the number of a signal that
    /// has ended it. HUP, INT, QUIT, TERM, USR1 and USR2 are passed on to it.
    #[command(after_help = "Example:\n  causeway bus run -- sh -c 'causeway bus list'")]
    Run {
        // Here the options that name a bus are there to be refused.
        #[arg(long, hide = true)]
        address: Option<String>,
        #[arg(long, hide = true)]
        socket: Option<PathBuf>,
        /// A configuration file of dbus-daemon instead of that of a session
        #[arg(long, value_name = "FILE")]
        config_file: Option<PathBuf>,
        /// The program and its arguments
        #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<OsString>,
    },
    /// List all names with their owners and the programs of these
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the objects of a service; with --json also their interfaces
    Tree {
        /// Name of the connection
        service: String,
        /// Print JSON: path and interfaces of each object
        #[arg(long)]
        json: bool,
        /// Show text in ASCII alone, as where the locale is of another encoding than UTF-8
        #[arg(long)]
        ascii: bool,
        /// How long to wait for each reply, such as 500ms or 2m
        #[arg(long, value_name = "TIME", default_value = "25s", value_parser = patience, allow_hyphen_values = true)]
        timeout: Duration,
    },
    /// Call a method and print the reply, one argument in a line
    #[command(after_help = ARGUMENTS_HELP)]
    Call {
        /// Name of the connection
        service: String,
        /// Object
        path: String,
        /// Interface of the method
        interface: String,
        /// Method
        member: String,
        #[command(flatten)]
        arguments: MessageArguments,
        /// How long to wait for the reply, such as 500ms or 2m
        #[arg(long, value_name = "TIME", default_value = "25s", value_parser = patience, allow_hyphen_values = true)]
        timeout: Duration,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Emit a signal
    #[command(after_help = ARGUMENTS_HELP)]
    Emit {
        /// Object
        path: String,
        /// Interface of the signal
        interface: String,
        /// Signal
        member: String,
        #[command(flatten)]
        arguments: MessageArguments,
    },
    /// Print all messages that one of the rules matches, or all
    ///
    /// At a native socket nobody waits for this program: what is not read in time is lost, and counted. As long as it runs, what D-Bus clients send to each other
    /// goes through the order log as well. A line begins with the time in seconds since 1970 and, at a native
    /// socket, the position in the order of the bus; the time is when the message was sent, or, at a D-Bus socket, when it came here. In JSON they are `time_s` and
    /// `position`, and `sent_ns` has the nanoseconds of CLOCK_MONOTONIC.
    ///
    /// Of arguments above 1 MiB the types and the length are printed; at a native socket of those above a quarter of the sender's outbox, which is 64 KiB
    /// where the sender does not choose another size.
    Monitor {
        /// Match rules of D-Bus
        #[arg(value_name = "RULE")]
        rules: Vec<String>,
        /// Print one JSON object in a line for each message
        #[arg(long)]
        json: bool,
        /// End after this number of messages
        #[arg(long, value_name = "N", value_parser = count, allow_hyphen_values = true)]
        limit: Option<u64>,
    },
    /// Print the signals that a rule matches
    ///
    /// The exit status is 1 when the time is over before the limit is reached.
    Match {
        /// A match rule of D-Bus
        rule: String,
        /// Print one JSON object in a line for each signal
        #[arg(long)]
        json: bool,
        /// End after this number of signals
        #[arg(long, value_name = "N", value_parser = count, allow_hyphen_values = true)]
        limit: Option<u64>,
        /// End after this time, such as 500ms or 2m
        #[arg(long, value_name = "TIME", value_parser = time, allow_hyphen_values = true)]
        timeout: Option<Duration>,
    },
    /// Show what each connection has done and what it waits for
    #[command(after_help = STAT_HELP)]
    Stat {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show who holds most on the bus, members and D-Bus clients, every second
    ///
    /// HELD are bytes of messages that wait for the connection, of one that has not arrived whole, and of those that it has sent and no member has taken.
    /// OLDEST MS is how long the oldest message has waited for it, QUEUED how many do.
    Top {
        /// By what connections are sorted
        #[arg(long, value_enum, default_value_t = top::Sort::Held)]
        sort: top::Sort,
        /// The time between two looks, such as 500ms
        #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval, allow_hyphen_values = true)]
        interval: Duration,
        /// Connections to show
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = count, allow_hyphen_values = true)]
        rows: u64,
        /// End after this number of looks
        #[arg(long, value_name = "N", value_parser = count, allow_hyphen_values = true)]
        limit: Option<u64>,
        /// Look once, as with --limit 1
        #[arg(long, conflicts_with = "limit")]
        once: bool,
    },
    /// Wait until a name has an owner, and print the owner
    ///
    /// The exit status is 1 when the time is over first.
    Wait {
        /// The name
        name: String,
        /// How long to wait at most, such as 500ms or 2m
        #[arg(long, value_name = "TIME", value_parser = time, allow_hyphen_values = true)]
        timeout: Option<Duration>,
    },
}

/// The arguments of a message, as words.
#[derive(Args)]
struct MessageArguments {
    /// Types of the arguments, as D-Bus writes them: s, u, as, a{sv} …
    #[arg(default_value = "")]
    signature: String,
    /// Arguments
    #[arg(allow_negative_numbers = true)]
    arguments: Vec<String>,
}

impl MessageArguments {
    fn body(&self) -> Result<Body, Failure> {
        text::marshalled(&self.signature, &self.arguments).map_err(Failure::Usage)
    }
}

const ARGUMENTS_HELP: &str = "One word for each number, boolean, string, object path and signature. An array begins with the number of its elements, \
a dictionary with that of its entries, a variant with its type. Where a word begins with a hyphen and is not a number, write `--` before the \
arguments, and options before that.\n\nExamples:\n  a{sv} 2 name s Clock size u 7\n  sd -- -x -inf";

const STAT_HELP: &str = "At a native socket:
  LAG          entries of the order log that it has not looked at; one that
               sleeps looks when something for it comes, so a number that grows
               while nothing is sent to it is not a fault
  RECEIVED     messages that it has taken, also those that it did not want
  SENT, SENT BYTES
  WAKES        sleeps that a wake-up ended
  FOR NOTHING  of these, those that brought it no message
  FOR SPACE    of these, those that freed space for others
  CALLS OPEN   its calls without a reply yet
  GONE         signals that it did not ask for, overwritten before it looked,
               and messages out of reach since the bus has ended
  INCOMPLETE   messages whose descriptors or file could not be had, so not
               delivered
At a D-Bus socket: what the bus counts of itself, and of each connection. With
--json also at a native socket: names, user, program and control group, and
under `statistics` what the bus counts.";

fn time(text: &str) -> Result<Duration, String> {
    duration::parse(text, None)
}

/// A time in which a reply can come.
fn patience(text: &str) -> Result<Duration, String> {
    time(text).and_then(|time| {
        if time.is_zero() { Err(format!("no reply comes in no time; {}", duration::FORM)) } else { Ok(time) }
    })
}

/// A pause that leaves the bus to others.
fn interval(text: &str) -> Result<Duration, String> {
    time(text).and_then(|time| {
        let is_enough = time >= Duration::from_millis(100);
        if is_enough {
            Ok(time)
        } else {
            Err("the bus is asked ten times a second at most; write 100ms or more".into())
        }
    })
}

fn count(text: &str) -> Result<u64, String> {
    text.parse().ok().filter(|count| *count > 0).ok_or_else(|| "write a whole number, 1 or more".to_owned())
}

/// Runs one of the commands.
pub fn run(BusArguments { which, command }: BusArguments) -> Result<ExitCode, Failure> {
    match command {
        BusCommand::Start { address, socket, config_file, json } => {
            start::start(&which.with(socket, address), config_file, json)?;
        }
        BusCommand::Run { address, socket, config_file, command } => {
            return run::run(&which.with(socket, address), config_file, &command);
        }
        BusCommand::List { json } => list::list(&which.place()?, json)?,
        BusCommand::Tree { service, json, ascii, timeout } => {
            let form = if json { tree::Form::Json } else { tree::Form::text(ascii) };
            tree::tree(&which.place()?, &service, timeout, form)?;
        }
        BusCommand::Call { service, path, interface, member, arguments, timeout, json } => {
            let call = client::call(&service, &path, &interface, &member)?.body(arguments.body()?);
            call::call(&which.place()?, &call, timeout, json)?;
        }
        BusCommand::Emit { path, interface, member, arguments } => {
            let body = arguments.body()?;
            call::emit(&which.place()?, &path, &interface, &member, body)?;
        }
        BusCommand::Monitor { rules, json, limit } => {
            watch::monitor(&which.place()?, &rules, json, limit.unwrap_or(u64::MAX))?;
        }
        BusCommand::Match { rule, json, limit, timeout } => {
            return watch::signals(&which.place()?, &rule, json, limit, timeout);
        }
        BusCommand::Stat { json } => stat::stat(&which.place()?, json)?,
        BusCommand::Top { sort, interval, rows, limit, once } => {
            let limit = if once { 1 } else { limit.unwrap_or(u64::MAX) };
            top::top(&which.place()?, sort, interval, usize::try_from(rows).unwrap_or(usize::MAX), limit)?;
        }
        BusCommand::Wait { name, timeout } => return wait::wait(&which.place()?, &name, timeout),
    }
    Ok(ExitCode::SUCCESS)
}
