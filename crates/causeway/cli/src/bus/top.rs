//! `top`: who holds what on a bus, again and again.

use std::collections::HashMap;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use causeway_bus::client::TIMEOUT;
use clap::ValueEnum;

use super::client::numbers;
use super::facts::{self, Facts, question};
use super::show;
use super::stat::{shown_text, untold};
use super::which::Place;
use crate::failure::Failure;

/// Connections that are asked for: those that hold most.
const CONNECTIONS_MAX: u32 = 1000;

/// By what connections are sorted.
#[derive(Clone, Copy, ValueEnum)]
pub enum Sort {
    /// Bytes that the bus holds for it or of it.
    Held,
    /// How long the oldest message has waited for it.
    Oldest,
    /// Messages and entries of the order log that it has not read.
    Queued,
    /// Match rules.
    Rules,
    /// Calls without a reply.
    Calls,
    /// Messages sent and received.
    Messages,
}

fn held(of: &Facts) -> u64 {
    ["OutgoingBytes", "IncomingBytes", "InFlightBytes"].iter().map(|key| of.number(key)).sum()
}

fn queued(of: &Facts) -> u64 {
    of.number("QueuedMessages") + of.number("UnreadEntries")
}

fn messages(of: &Facts) -> u64 {
    of.number("MessagesSent") + of.number("MessagesReceived")
}

impl Sort {
    fn value(self, of: &Facts) -> u64 {
        match self {
            Sort::Held => held(of),
            Sort::Oldest => of.number("OldestMilliseconds"),
            Sort::Queued => queued(of),
            Sort::Rules => of.number("MatchRules"),
            Sort::Calls => of.number("PendingReplies"),
            Sort::Messages => messages(of),
        }
    }
}

/// Prints so many connections every interval, so many times.
pub fn top(place: &Place, sort: Sort, interval: Duration, rows: usize, limit: u64) -> Result<(), Failure> {
    let mut bus = place.open()?;
    let is_terminal = io::stdout().is_terminal();
    let mut before: Option<(Instant, HashMap<String, u64>)> = None;
    for count in 0..limit {
        if count > 0 {
            std::thread::sleep(interval);
        }
        let of_bus = numbers(&bus.call(&question("GetStats"), TIMEOUT).map_err(untold)?)?;
        let Some(mut found) = facts::of_connections(&mut bus, CONNECTIONS_MAX)? else {
            let why = "this bus does not tell what all its connections hold; `stat` asks for each";
            return Err(Failure::Failed(why.into()));
        };
        let now = Instant::now();
        let rates = before.as_ref().map(|(since, before)| {
            let seconds = now.duration_since(*since).as_secs_f64().max(0.001);
            move |of: &Facts| {
                let more = messages(of).saturating_sub(*before.get(&of.unique)?);
                Some(format!("{:.0}", more as f64 / seconds))
            }
        });
        found.sort_by_key(|of| std::cmp::Reverse((sort.value(of), messages(of))));
        let cells = found.iter().take(rows).map(|of| {
            let text =
                |number: Option<u32>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
            let rate = rates.as_ref().and_then(|rate| rate(of)).unwrap_or_else(|| "-".into());
            vec![
                of.unique.clone(),
                show::process(of.pid, of.uid),
                text(of.uid),
                shown_text(&of.program),
                held(of).to_string(),
                of.number("OldestMilliseconds").to_string(),
                queued(of).to_string(),
                of.number("MatchRules").to_string(),
                of.number("PendingReplies").to_string(),
                messages(of).to_string(),
                rate,
                of.names.first().cloned().unwrap_or_else(|| "-".into()),
                shown_text(&of.cgroup),
            ]
        });
        let headings = [
            "CONNECTION",
            "PID",
            "USER",
            "PROGRAM",
            "HELD",
            "OLDEST MS",
            "QUEUED",
            "RULES",
            "CALLS",
            "MESSAGES",
            "PER S",
            "NAME",
            "CGROUP",
        ];
        let mut text = Vec::new();
        if is_terminal {
            text.extend_from_slice(b"\x1b[H\x1b[2J");
        } else if count > 0 {
            text.push(b'\n');
        }
        let of_bus = |key: &str| of_bus.get(key).and_then(serde_json::Value::as_u64).unwrap_or(0);
        writeln!(
            text,
            "connections: {}, bytes that wait: {}, messages accepted: {}, longest turn: {:.1} ms",
            of_bus("ActiveConnections"),
            of_bus("OutgoingBytes"),
            of_bus("MessagesAccepted"),
            of_bus("PeakTurnMicroseconds") as f64 / 1e3,
        )?;
        show::table(&mut text, &headings, &cells.collect::<Vec<_>>())?;
        let mut out = io::stdout().lock();
        out.write_all(&text)?;
        out.flush()?;
        before = Some((now, found.iter().map(|of| (of.unique.clone(), messages(of))).collect()));
    }
    Ok(())
}
