//! `causeway bus`: names, calls and signals of a bus for a shell user, in the manner of `busctl`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use causeway_bus::wire::{Arg, Body, Kind, names};
use causeway_bus::{Connection, ConnectionOptions, MatchRule, Message, Monitor, Observed};
use clap::{Args, Subcommand};

use super::Failure;

/// Names, calls and signals of a bus.
#[derive(Args)]
pub struct BusArguments {
    /// The native socket of the bus.
    #[arg(long, global = true, env = "CAUSEWAY_BUS")]
    socket: Option<PathBuf>,
    #[command(subcommand)]
    command: BusCommand,
}

#[derive(Subcommand)]
enum BusCommand {
    /// List all connections and their names.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Call a method and print the reply.
    Call {
        /// Name of the connection.
        destination: String,
        /// Object.
        path: String,
        /// Interface of the method.
        interface: String,
        /// Method.
        member: String,
        /// Types of the arguments: s (string), o (object path), u (unsigned number).
        #[arg(default_value = "")]
        signature: String,
        /// Arguments.
        arguments: Vec<String>,
        /// Seconds to wait for the reply.
        #[arg(long, default_value_t = 25.0)]
        timeout: f64,
    },
    /// Emit a signal.
    Emit {
        /// Object.
        path: String,
        /// Interface of the signal.
        interface: String,
        /// Signal.
        member: String,
        /// Types of the arguments: s (string), o (object path), u (unsigned number).
        #[arg(default_value = "")]
        signature: String,
        /// Arguments.
        arguments: Vec<String>,
    },
    /// Print all messages, without any cost to others. What is not read in time is lost, and counted.
    Monitor {
        /// A match rule of D-Bus: print only what it matches.
        rule: Option<String>,
        /// End after so many messages.
        #[arg(long)]
        count: Option<u64>,
    },
    /// Show what each connection has done and what it waits for.
    Stat {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// Runs one of the commands.
pub fn run(BusArguments { socket, command }: BusArguments) -> Result<(), Failure> {
    let socket =
        socket.ok_or_else(|| Failure::Usage("say which bus: --socket PATH, or CAUSEWAY_BUS".into()))?;
    match command {
        BusCommand::List { json } => list(&Monitor::open(socket)?, json),
        BusCommand::Stat { json } => stat(&Monitor::open(socket)?, json),
        BusCommand::Call { destination, path, interface, member, signature, arguments, timeout } => {
            let timeout = Duration::try_from_secs_f64(timeout)
                .map_err(|_| Failure::Usage("the timeout is a number of seconds".into()))?;
            let body = body(&signature, &arguments)?;
            let options = ConnectionOptions { call_timeout: timeout, ..ConnectionOptions::default() };
            let mut connection = Connection::open_with(socket, options)?;
            let reply = connection.call(&destination, &path, &interface, &member, body)?;
            let mut out = io::stdout().lock();
            for arg in reply.args() {
                writeln!(out, "{}", show(arg))?;
            }
            Ok(())
        }
        BusCommand::Emit { path, interface, member, signature, arguments } => {
            let body = body(&signature, &arguments)?;
            Ok(Connection::open(socket)?.emit(&path, &interface, &member, body)?)
        }
        BusCommand::Monitor { rule, count } => monitor(Monitor::open(socket)?, rule, count),
    }
}

/// Arguments from words.
fn body(signature: &str, arguments: &[String]) -> Result<Body, Failure> {
    if signature.chars().count() != arguments.len() {
        let count = arguments.len();
        return Err(Failure::Usage(format!("{signature:?} are not the types of {count} arguments")));
    }
    signature.chars().zip(arguments).try_fold(Body::default(), |body, (kind, text)| match kind {
        's' => Ok(body.text(text)),
        'o' if names::is_path(text) => Ok(body.object(text)),
        'o' => Err(Failure::Usage(format!("{text:?} is no object path"))),
        'u' => match text.parse() {
            Ok(number) => Ok(body.u32(number)),
            Err(_) => Err(Failure::Usage(format!("{text:?} is no unsigned number of 32 bits"))),
        },
        _ => Err(Failure::Usage(format!("type {kind:?} cannot be written here: s, o and u can"))),
    })
}

/// Type and value; control characters are escaped.
fn show(arg: Arg<'_>) -> String {
    match arg {
        Arg::Text(text) => format!("s {text:?}"),
        Arg::Path(path) => format!("o {path:?}"),
        Arg::U32(number) => format!("u {number}"),
        Arg::Other(kind) => format!("{kind} …"),
    }
}

fn list(monitor: &Monitor, json: bool) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let members = monitor.members();
    if json {
        let rows: Vec<_> = members
            .iter()
            .map(|(peer, names, _)| {
                serde_json::json!({ "unique": format!(":1.{}", peer.id), "pid": peer.pid, "uid": peer.uid, "names": names })
            })
            .collect();
        writeln!(out, "{}", serde_json::Value::from(rows))?;
        return Ok(());
    }
    for (peer, names, _) in members {
        writeln!(out, ":1.{:<6} pid {:7}  uid {:5}  {}", peer.id, peer.pid, peer.uid, names.join(" "))?;
    }
    Ok(())
}

fn stat(monitor: &Monitor, json: bool) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let members = monitor.members();
    if json {
        let rows: Vec<_> = members
            .iter()
            .map(|(peer, _, of)| {
                serde_json::json!({
                    "unique": format!(":1.{}", peer.id), "pid": peer.pid, "lag": of.lag, "received": of.received,
                    "sent": of.sent, "sent_bytes": of.sent_bytes, "wakes": of.wakes, "empty_wakes": of.empty_wakes,
                    "space_wakes": of.space_wakes, "calls_open": of.calls_open, "gone": of.gone,
                })
            })
            .collect();
        writeln!(out, "{}", serde_json::json!({ "messages": monitor.messages(), "connections": rows }))?;
        return Ok(());
    }
    writeln!(out, "{} messages so far; the order log holds {}", monitor.messages(), monitor.order_entries())?;
    for (peer, _, of) in members {
        writeln!(
            out,
            ":1.{:<6} pid {:7}  lag {:6}  received {:9}  sent {:9} ({} bytes)  woken {:8}, {} for nothing, {} for space  calls open {}",
            peer.id,
            peer.pid,
            of.lag,
            of.received,
            of.sent,
            of.sent_bytes,
            of.wakes,
            of.empty_wakes,
            of.space_wakes,
            of.calls_open
        )?;
    }
    Ok(())
}

fn monitor(monitor: Monitor, rule: Option<String>, count: Option<u64>) -> Result<(), Failure> {
    let mut monitor = match rule {
        None => monitor,
        Some(rule) => {
            let rule: MatchRule = rule
                .parse()
                .map_err(|error| Failure::Usage(format!("{rule:?} is no match rule: {error}")))?;
            monitor.filter(rule)
        }
    };
    let mut left = count.unwrap_or(u64::MAX);
    while left > 0 {
        match monitor.next(None)? {
            Some(Observed::Message(message)) => {
                print_message(&mut io::stdout().lock(), &message)?;
                left -= 1;
            }
            Some(Observed::Lost { messages }) => eprintln!("causeway: {messages} messages lost"),
            None => {}
        }
    }
    Ok(())
}

fn print_message(out: &mut impl Write, message: &Message) -> io::Result<()> {
    let header = message.header();
    let kind = match header.kind {
        Kind::MethodCall => "call",
        Kind::MethodReturn => "reply",
        Kind::Error => "error",
        Kind::Signal => "signal",
        Kind::Other(_) => "other",
    };
    write!(
        out,
        "{} {kind} {} -> {}",
        message.position(),
        header.sender.unwrap_or("?"),
        header.destination.unwrap_or("all")
    )?;
    write!(out, " serial {}", header.serial)?;
    if let Some(serial) = header.reply_serial {
        write!(out, " to {serial}")?;
    }
    for text in [header.path, header.interface, header.member, header.error_name].into_iter().flatten() {
        write!(out, " {text}")?;
    }
    for arg in message.args() {
        write!(out, " {}", show(arg))?;
    }
    writeln!(out)?;
    out.flush()
}
