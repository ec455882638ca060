//! `causeway`: groups for a shell user.
//!
//! `serve` makes a group and serves it on a socket; `publish` publishes lines of standard input, `subscribe` prints messages,
//! `stat` shows publishers and subscribers, and how far behind each subscriber is; `upgrade` lets it go on in a later format. `bus` is about
//! the bus, `man` and `completions` about this program.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is a command")]

#[cfg(test)]
#[macro_use]
extern crate causeway_testkit;

mod bus;
mod doctor;
mod failure;
mod help;
mod program;

use std::ffi::OsString;
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use causeway::{
    Access, Error, FORMATS, Group, GroupOptions, OverRate, Policy, Received, Report, SubscribeOptions,
    TryPublishError, TryRecvError,
};
use causeway_command_line::mistakes;
use causeway_waiting::size;
use clap::{CommandFactory, Parser, Subcommand, ValueEnum};

use crate::failure::Failure;

/// What the program is called, whatever it was started as.
const NAME: &str = "causeway";

/// A message bus in shared memory.
#[derive(Parser)]
#[command(name = NAME, bin_name = NAME, version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make a group and serve it until interrupted. Publishers are other processes.
    Serve {
        /// Where to make the socket.
        socket: PathBuf,
        /// Number of publishers; subscribers wait until all of them have joined.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
        publishers: u32,
        /// Let publishers join at any time. Subscribers wait for none of them, and get all that is published until the server ends.
        #[arg(long, conflicts_with = "publishers")]
        late_publishers: bool,
        /// Disconnect a publisher of more than so many messages a second, and say so; the others go on.
        ///
        /// What a second allows may come at once. The server looks ten times a second and when a publisher leaves, and what was published before
        /// is received. A process that has published too much is refused until time has made up for it; a new process is a new publisher.
        #[arg(long, value_name = "MESSAGES_PER_S", requires = "late_publishers", value_parser = clap::value_parser!(u64).range(1..))]
        publisher_rate_max: Option<u64>,
        /// Size of the log, as in 64K or 1M: a power of two from 4K to 1G.
        #[arg(long, value_name = "BYTES", default_value = "1M", value_parser = |text: &str| size::parse(text, None))]
        capacity: u64,
        /// The highest format of the log, for programs of other releases; see `causeway upgrade`.
        #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(u32).range(formats()))]
        format: Option<u32>,
        /// Which users may subscribe.
        #[arg(long, value_enum, default_value_t = Users::Same, alias = "readers")]
        subscribers: Users,
    },
    /// Publish each line of standard input as a message.
    Publish {
        /// The group's socket.
        socket: PathBuf,
        /// Drop lines while the log is full, instead of waiting.
        #[arg(long)]
        drop: bool,
        /// Publish nothing before so many subscribers have joined. A group of `serve` without --late-publishers waits for those that
        /// came before its publishers in any case.
        #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
        wait_for_subscribers: u32,
    },
    /// Print each message as a line.
    Subscribe {
        /// The group's socket.
        socket: PathBuf,
        /// What happens when this subscriber falls behind.
        #[arg(long, value_enum, default_value_t = Behind::Reliable)]
        policy: Behind,
        /// Begin with the oldest message still in the log.
        #[arg(long)]
        oldest: bool,
        /// Print publisher and position before each message.
        #[arg(long, short)]
        verbose: bool,
    },
    /// Show the group, its publishers, and how far behind each subscriber is.
    Stat {
        /// The group's socket.
        socket: PathBuf,
        /// Show it again every second until interrupted.
        #[arg(long)]
        live: bool,
    },
    /// Let a group go on in the highest format of the release that serves it.
    ///
    /// No message is lost or repeated. As long as a program of an older release is a member, the group keeps the format which that has; when the
    /// last of them has left, it goes on by itself.
    Upgrade {
        /// The group's socket.
        socket: PathBuf,
    },
    /// Record what is published in a group or sent on a bus in an MCAP file; `record verify FILE` checks one
    ///
    /// The options are those of the program causeway-record, which does it: `causeway-record --help` shows them.
    #[command(
        after_help = "Examples:\n  causeway record /run/prices -o prices.mcap\n  causeway record verify prices.mcap"
    )]
    Record {
        /// SOCKET -o FILE and options, or `verify` and files
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        arguments: Vec<OsString>,
    },
    /// Publish or send again what was recorded of a group or a bus
    ///
    /// The options are those of the program causeway-record, which does it: `causeway-record replay --help` shows them.
    #[command(after_help = "Example:\n  causeway replay prices.mcap /run/prices-again")]
    Replay {
        /// FILE SOCKET and options
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        arguments: Vec<OsString>,
    },
    /// Carry groups, names, calls and signals to other machines; `bridge demo` shows it on this one
    ///
    /// The options are those of the program causeway-bridge, which does it: `causeway-bridge --help` shows them.
    #[command(after_help = "Examples:\n  causeway bridge demo\n  causeway bridge stat")]
    Bridge {
        /// `demo`, `stat`, `tls`, or options
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        arguments: Vec<OsString>,
    },
    /// Say what of this machine or container Causeway lacks, and what to do about each
    Doctor(doctor::DoctorArguments),
    Bus(bus::BusArguments),
    /// Print a manual page
    Man {
        /// The command that it is about, such as `bus call`; the program where there is none
        command: Vec<String>,
    },
    /// Print a script that completes commands and options
    #[command(
        after_help = "Example:\n  causeway completions bash > ~/.local/share/bash-completion/completions/causeway"
    )]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum Users {
    /// The user of this command, and root.
    #[value(name = "user")]
    Same,
    /// Every user that can connect to the socket.
    #[value(name = "any-user", alias = "everybody")]
    Any,
}

#[derive(Clone, Copy, ValueEnum)]
enum Behind {
    /// Publishers wait for it.
    Reliable,
    /// Publishers never wait for it; it loses messages.
    Lossy,
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return ExitCode::from(mistakes::tell(&error, NAME, |_| None)),
    };
    match run(arguments.command) {
        Ok(code) => code,
        // A process that closes the pipe early (`| head`) is not a failure.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("causeway: {failure}");
            ExitCode::from(if matches!(failure, Failure::Usage(_)) { 2 } else { 3 })
        }
    }
}

fn run(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Serve {
            socket,
            publishers,
            late_publishers,
            publisher_rate_max,
            capacity,
            format,
            subscribers,
        } => {
            let publishers = if late_publishers {
                Publishers::AtAnyTime { rate_max: publisher_rate_max }
            } else {
                Publishers::Number(publishers)
            };
            let options = GroupOptions::new().capacity_bytes(capacity);
            let options = format.map_or(options.clone(), |level| options.format(level));
            serve(socket, publishers, options, subscribers)?;
        }
        Command::Publish { socket, drop, wait_for_subscribers } => {
            publish(socket, drop, wait_for_subscribers)?;
        }
        Command::Subscribe { socket, policy, oldest, verbose } => subscribe(socket, policy, oldest, verbose)?,
        Command::Stat { socket, live } => stat(socket, live)?,
        Command::Upgrade { socket } => upgrade(socket)?,
        Command::Record { arguments } => return Err(recorder(arguments)),
        Command::Replay { arguments } => {
            return Err(recorder(std::iter::once("replay".into()).chain(arguments)));
        }
        Command::Bridge { arguments } => return Err(become_program("causeway-bridge", "bridge", arguments)),
        Command::Doctor(arguments) => return doctor::doctor(&arguments),
        Command::Bus(arguments) => return bus::run(arguments),
        Command::Man { command } => help::man(Arguments::command(), &command)?,
        Command::Completions { shell } => help::completions(Arguments::command(), shell)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Becomes causeway-record, which is a program of its own so that this one has no C code. Returns only if that fails.
fn recorder(arguments: impl IntoIterator<Item = OsString>) -> Failure {
    become_program("causeway-record", "crates/causeway/recorder", arguments)
}

/// Becomes another program of this project. Returns only if that fails.
fn become_program(name: &str, package: &str, arguments: impl IntoIterator<Item = OsString>) -> Failure {
    let program = match program::find(name, package) {
        Ok(program) => program,
        Err(failure) => return failure,
    };
    let error = std::process::Command::new(&program).args(arguments).exec();
    Failure::Failed(format!("cannot start {}: {error}", program.display()))
}

/// Whose messages a group has.
enum Publishers {
    Number(u32),
    AtAnyTime {
        /// In a second, of each.
        rate_max: Option<u64>,
    },
}

/// The formats that there are, as an option has them.
fn formats() -> std::ops::RangeInclusive<i64> {
    i64::from(*FORMATS.start())..=i64::from(*FORMATS.end())
}

fn upgrade(socket: PathBuf) -> Result<(), Failure> {
    let level = Group::join(&socket)?.upgrade()?;
    let group = socket.display();
    if level == *FORMATS.end() {
        println!("{group} has format {level} from its next log on");
    } else {
        println!("{group} keeps format {level} until the last program of an older release has left");
    }
    Ok(())
}

fn serve(
    socket: PathBuf,
    publishers: Publishers,
    options: GroupOptions,
    subscribers: Users,
) -> Result<(), Failure> {
    let subscribers = match subscribers {
        Users::Same => Access::SameUser,
        Users::Any => Access::AnyUser,
    };
    let options = options.subscribers(subscribers);
    let (options, whom) = match publishers {
        Publishers::Number(1) => (options.remote_publishers(1), "one publisher".to_owned()),
        Publishers::Number(count) => (options.remote_publishers(count), format!("{count} publishers")),
        Publishers::AtAnyTime { rate_max: None } => {
            (options.late_publishers(), "publishers that join at any time".to_owned())
        }
        Publishers::AtAnyTime { rate_max: Some(most) } => (
            options.publisher_rate_max(most),
            format!("publishers that join at any time, of {most} messages a second at most each"),
        ),
    };
    // The command removes its socket even when it is interrupted. Signals are blocked before the group starts its thread,
    // which inherits that.
    let signals = causeway_os::process::block_signals(&[SIGINT, SIGTERM])?;
    let group = Group::create(&socket.display().to_string(), options)?;
    group.serve_at(&socket).map_err(|error| match &error {
        // Here it is no server that is missing.
        Error::Os(os) if os.os().kind() == io::ErrorKind::NotFound => Failure::Failed(format!(
            "the folder of {} does not exist; make it, or use another path",
            socket.display()
        )),
        _ => error.into(),
    })?;
    eprintln!("serving {} for {whom}; interrupt to end", socket.display());
    let over_rate = group.over_rate()?;
    // It ends with the group.
    std::thread::spawn(move || over_rate.iter().for_each(|one| eprintln!("causeway: {}", told(one))));
    use std::os::fd::AsFd;
    causeway_os::process::poll(&[signals.as_fd()], None)?;
    Ok(())
}

/// Who was over its rate, and what comes of that.
fn told(OverRate { publisher, pid: process, uid, excess, is_there, .. }: OverRate) -> String {
    let what_comes = if is_there { "it is disconnected" } else { "it has left" };
    let pid = pid(process);
    format!(
        "publisher {publisher} (process {pid} of user {uid}) has published {excess} messages too many; {what_comes}"
    )
}

/// Numbers of the signals that end a service; the same on all architectures of Linux.
const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;

fn publish(socket: PathBuf, drop: bool, subscribers: u32) -> Result<(), Failure> {
    let mut publisher = Group::join(socket)?.publisher()?;
    // Without a limit of time: who asks for it may interrupt it.
    let _ = publisher.wait_for_subscribers(subscribers, None)?;
    let mut dropped = 0u64;
    let (mut input, mut line) = (io::stdin().lock(), Vec::new());
    while read_line(&mut input, &mut line, publisher.payload_bytes_max())? {
        if !drop {
            publisher.publish(&line)?;
            continue;
        }
        match publisher.try_publish(&line) {
            Ok(_) => {}
            Err(TryPublishError::Full) => dropped += 1,
            Err(TryPublishError::Disconnected) => return Err(Error::Disconnected.into()),
            Err(TryPublishError::Failed(error)) => return Err(error.into()),
        }
    }
    if dropped > 0 {
        eprintln!("causeway: {dropped} lines were dropped because the log was full");
    }
    Ok(())
}

/// Reads a line, without its end. Of one that is longer than any message of the group no more is kept.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>, bytes_max: usize) -> Result<bool, Failure> {
    line.clear();
    input.take(bytes_max as u64 + 1).read_until(b'\n', line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() > bytes_max {
        return Err(Failure::Failed(format!(
            "a line is longer than {bytes_max} bytes, the longest payload of this group; create it with a larger log (serve --capacity)"
        )));
    } else if line.is_empty() {
        return Ok(false);
    }
    Ok(true)
}

fn subscribe(socket: PathBuf, policy: Behind, oldest: bool, verbose: bool) -> Result<(), Failure> {
    let policy = match policy {
        Behind::Reliable => Policy::Reliable,
        Behind::Lossy => Policy::Lossy,
    };
    let options = SubscribeOptions::new(policy);
    let options = if oldest { options.from_oldest() } else { options };
    let mut subscriber = Group::join(socket)?.subscribe(options)?;
    let is_terminal = io::stdout().is_terminal();
    let mut out = io::BufWriter::new(io::stdout().lock());
    loop {
        match subscriber.try_recv() {
            Ok(Received::Message(message)) => {
                if let Some(lost @ 1..) = message.lost_before {
                    let publisher = message.publisher;
                    eprintln!("causeway: {lost} of the lost messages were of publisher {publisher}");
                }
                if verbose {
                    write!(out, "{} {} ", message.publisher, message.position.0)?;
                }
                write_payload(&mut out, message.bytes, is_terminal)?;
            }
            Ok(Received::Lost { messages, bytes }) => {
                eprintln!("causeway: messages lost: {messages} ({bytes} bytes of log)");
            }
            Ok(Received::Demoted) => eprintln!("causeway: too slow: publishers no longer wait"),
            Err(TryRecvError::Empty) => {
                out.flush()?;
                match subscriber.wait(None) {
                    Ok(_) => {}
                    Err(Error::Disconnected) => return Ok(()),
                    Err(error) => return Err(error.into()),
                }
            }
            Err(TryRecvError::Disconnected) => return Ok(out.flush()?),
            Err(TryRecvError::Failed(error)) => return Err(error.into()),
        }
    }
}

/// Writes a payload and a new line. A terminal gets no control characters: a publisher could make it do anything.
fn write_payload(out: &mut impl Write, bytes: &[u8], is_terminal: bool) -> io::Result<()> {
    if !is_terminal {
        out.write_all(bytes)?;
        return out.write_all(b"\n");
    }
    for character in String::from_utf8_lossy(bytes).chars() {
        match character {
            '\t' => write!(out, "\t")?,
            _ if character.is_control() => write!(out, "{}", character.escape_default())?,
            _ => write!(out, "{character}")?,
        }
    }
    writeln!(out)
}

fn stat(socket: PathBuf, live: bool) -> Result<(), Failure> {
    let group = Group::join(socket)?;
    let mut before: Option<Report> = None;
    loop {
        let report = group.report()?;
        let mut out = io::stdout().lock();
        if live && out.is_terminal() {
            write!(out, "\x1b[H\x1b[2J")?;
        }
        print_report(&mut out, &report, before.as_ref())?;
        if !live {
            return Ok(());
        }
        before = Some(report);
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// The number of a process; one in a namespace that the server does not see has none there.
fn pid(pid: u32) -> String {
    if pid == 0 { "(another namespace)".into() } else { pid.to_string() }
}

fn print_report(out: &mut impl Write, report: &Report, before: Option<&Report>) -> io::Result<()> {
    let rate = before.map(|before| report.messages.saturating_sub(before.messages));
    let rate = rate.map_or(String::new(), |rate| format!(", {rate} messages/s"));
    writeln!(
        out,
        "log: {} bytes, {} messages, position {}, format {}{rate}",
        report.capacity_bytes, report.messages, report.position, report.format
    )?;
    for publisher in &report.publishers {
        write!(
            out,
            "publisher  {:3}  pid {:>7}  uid {:5}  end seen by {}",
            publisher.slot,
            pid(publisher.pid),
            publisher.uid,
            publisher.liveness.name()
        )?;
        match publisher.waits_for {
            Some((subscriber, since)) => {
                writeln!(out, "  waits for subscriber {subscriber} since {:.1} s", since.as_secs_f64())?;
            }
            None => writeln!(out)?,
        }
    }
    for subscriber in &report.subscribers {
        writeln!(
            out,
            "subscriber {:3}  pid {:>7}  uid {:5}  {:8}  {:6}  lag {:9} bytes  received {:10}  lost {:8}  end seen by {}{}",
            subscriber.slot,
            pid(subscriber.pid),
            subscriber.uid,
            subscriber.policy.to_string(),
            if subscriber.asleep { "asleep" } else { "awake" },
            subscriber.lag_bytes,
            subscriber.received,
            subscriber.lost_messages,
            subscriber.liveness.name(),
            if subscriber.demoted { "  demoted" } else { "" }
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::write_payload;

    /// Before, a terminal got whatever a publisher sent.
    #[test]
    fn a_terminal_gets_no_control_characters_and_a_file_gets_every_byte() {
        let payload = "a\tb\x1b[2J\u{9b}é".as_bytes();
        let (mut shown, mut kept) = (Vec::new(), Vec::new());
        write_payload(&mut shown, payload, true).unwrap();
        write_payload(&mut kept, payload, false).unwrap();
        assert_eq!(String::from_utf8(shown).unwrap(), "a\tb\\u{1b}[2J\\u{9b}é\n");
        assert_eq!(kept, [payload, b"\n"].concat());
    }
}
