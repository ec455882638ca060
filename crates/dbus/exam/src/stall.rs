//! A receiver that does not read. Private buses only: their queues are filled.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use causeway_bus::client::Error;
use causeway_dbus_wire::wire::{Body, Endian, Kind};

use crate::client::{Client, Message, PATIENCE, blob, broadcast, call, short, unless_closed};
use crate::flood::joined;
use crate::property::{Answer, Bus, Property, Seen};

const GROUP: &str = "Stalled receivers";

pub const PROPERTIES: &[Property] = &[
    Property::new(GROUP, "stalled-subscriber", subscriber)
        .asks("What becomes of a subscriber that does not read while 64 MiB of broadcasts match?")
        .private(),
    Property::new(GROUP, "told-of-stall", told).asks("Is the sender of those broadcasts told?").private(),
    Property::new(GROUP, "beside-a-stall", beside)
        .asks("Does another subscriber, which reads, get all of them meanwhile?")
        .practice("one stuck program must not harm another")
        .private(),
    Property::new(GROUP, "stalled-callee", callee)
        .asks("What becomes of 64 MiB of calls to a callee that does not read?")
        .private(),
];

const MESSAGES: usize = 1_024;
/// Messages that the receiver that reads has not yet read: a quarter of the queue of a broker in an examination.
const MOST_AHEAD: usize = 64;

/// 64 KiB.
fn body() -> Body {
    blob(Endian::NATIVE, 0, 64 << 10)
}

struct Stalled {
    /// Broadcasts that the sender could send.
    sent: usize,
    sender_errors: Vec<String>,
    sender_connected: bool,
    /// What the subscriber found when it read again.
    stalled_got: usize,
    stalled_connected: bool,
    other: Read,
    memory_before_kib: u64,
    memory_after_kib: u64,
}

/// What a subscriber got that reads.
struct Read {
    got: usize,
    is_connected: bool,
    longest_wait: Duration,
}

impl Stalled {
    fn words(&self) -> String {
        format!(
            "{} of {MESSAGES} broadcasts of 64 KiB could be sent; the stalled subscriber got {} when it read again, the \
             other one {} with waits of {:.1} ms at most; the broker grew from {:.1} to {:.1} MiB",
            self.sent,
            self.stalled_got,
            self.other.got,
            self.other.longest_wait.as_secs_f64() * 1e3,
            self.memory_before_kib as f64 / 1024.0,
            self.memory_after_kib as f64 / 1024.0
        )
    }
}

/// Resident memory of the broker, in KiB.
fn memory_kib(bus: &Bus<'_>) -> u64 {
    let status = bus.private_pid.and_then(|pid| std::fs::read_to_string(format!("/proc/{pid}/status")).ok());
    let line = status.as_deref().and_then(|text| text.lines().find_map(|line| line.strip_prefix("VmRSS:")));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn stall(bus: &Bus<'_>) -> Result<Stalled, Error> {
    let mut sender = Client::open(bus)?;
    let mut stalled = Client::listening(bus, &[sender.unique_name()])?;
    let mut other = Client::listening(bus, &[sender.unique_name()])?;
    let memory_before_kib = memory_kib(bus);
    let (is_sending, progress) = (AtomicBool::new(true), AtomicUsize::new(0));
    let (sent, other) = thread::scope(|scope| {
        let reading = scope.spawn(|| watch(&mut other, &is_sending, &progress, bus.quiet));
        let sent = send_all(&mut sender, &progress, bus.quiet);
        // PAIR stall-sent: Acquire in `watch`.
        is_sending.store(false, Ordering::Release);
        Ok::<_, Error>((sent?, joined(reading)?))
    })?;
    let memory_after_kib = memory_kib(bus);
    let sender_connected = sender.is_connected()?;
    let sender_errors = if sender_connected { sender.collect_errors()? } else { Vec::new() };
    let (stalled_got, stalled_connected) = stalled.read_again(bus.quiet)?;
    Ok(Stalled {
        sent,
        sender_errors,
        sender_connected,
        stalled_got,
        stalled_connected,
        other,
        memory_before_kib,
        memory_after_kib,
    })
}

/// Sends until all is sent, or the bus does not take more, at the pace of the receiver that reads: no queue but that of the
/// stalled one grows.
fn send_all(sender: &mut Client, progress: &AtomicUsize, quiet: Duration) -> Result<usize, Error> {
    let message = broadcast("Stall").body(body());
    for number in 0..MESSAGES {
        let (mut seen, mut since) = (0, Instant::now());
        loop {
            // Relaxed: the number alone matters.
            let got = progress.load(Ordering::Relaxed);
            if got + MOST_AHEAD > number || since.elapsed() > quiet {
                break;
            }
            if got > seen {
                (seen, since) = (got, Instant::now());
            }
            thread::sleep(Duration::from_micros(50));
        }
        if unless_closed(sender.send(&message))?.is_none() {
            return Ok(number);
        }
    }
    Ok(MESSAGES)
}

/// Reads until all have come, or nothing comes any more although all were sent.
fn watch(
    client: &mut Client,
    is_sending: &AtomicBool,
    progress: &AtomicUsize,
    quiet: Duration,
) -> Result<Read, Error> {
    let mut read = Read { got: 0, is_connected: true, longest_wait: Duration::ZERO };
    let mut last = Instant::now();
    loop {
        match unless_closed(client.next(Duration::from_millis(20)))? {
            None => return Ok(Read { is_connected: false, ..read }),
            Some(Some(message)) if message.is_ours() => {
                // The wait for the first one holds the start of the sender.
                if read.got > 0 {
                    read.longest_wait = read.longest_wait.max(last.elapsed());
                }
                (read.got, last) = (read.got + 1, Instant::now());
                progress.store(read.got, Ordering::Relaxed);
            }
            Some(Some(_)) => {}
            Some(None) => {
                // PAIR stall-sent: Release in `stall`.
                let all_sent = !is_sending.load(Ordering::Acquire);
                if all_sent && (read.got >= MESSAGES || last.elapsed() > quiet) {
                    return Ok(read);
                }
            }
        }
    }
}

fn subscriber(bus: &Bus<'_>) -> Answer {
    let stalled = stall(bus)?;
    let answer = match (stalled.stalled_connected, stalled.stalled_got, stalled.sender_connected) {
        (false, ..) => "disconnected",
        (true, got, _) if got >= stalled.sent && stalled.sent == MESSAGES => "queued",
        (true, _, false) => "sender disconnected",
        (true, ..) => "loses silently",
    };
    Ok(Seen::fine(answer, stalled.words()))
}

fn told(bus: &Bus<'_>) -> Answer {
    let stalled = stall(bus)?;
    let errors = &stalled.sender_errors;
    Ok(match (stalled.sender_connected, errors.first()) {
        (false, _) => Seen::fine("disconnected", stalled.words()),
        (true, Some(error)) => {
            Seen::fine(short(error), format!("{} errors; {}", errors.len(), stalled.words()))
        }
        (true, None) => Seen::fine("no", stalled.words()),
    })
}

fn beside(bus: &Bus<'_>) -> Answer {
    let stalled = stall(bus)?;
    let is_served = stalled.other.is_connected && stalled.other.got == MESSAGES;
    Ok(Seen::unless((!is_served).then(|| stalled.words()), stalled.words()))
}

fn callee(bus: &Bus<'_>) -> Answer {
    let [mut caller, mut callee] = Client::several(bus)?;
    let to = callee.name();
    let message = call(&to, "Stall").body(body());
    let (mut sent, mut error) = (0, None);
    while sent < MESSAGES && error.is_none() {
        // After the last call an error may need its time.
        let patience = if sent + 1 == MESSAGES { PATIENCE / 10 } else { Duration::ZERO };
        let is_sent = unless_closed(caller.send(&message))?.is_some();
        sent += usize::from(is_sent);
        let is_error = |message: &Message| message.header().kind == Kind::Error;
        match is_sent.then(|| unless_closed(caller.wait_for(patience, is_error))).transpose()?.flatten() {
            Some(answer) => error = answer.and_then(|answer| answer.error()),
            None => return Ok(Seen::fine("caller disconnected", format!("after {sent} calls of 64 KiB"))),
        }
    }
    let (got, callee_connected) = callee.read_again(bus.quiet)?;
    let error_words = error.as_deref().unwrap_or("no error");
    let evidence = format!(
        "{sent} calls of 64 KiB; the caller gets {error_words}, the callee {got} calls when it reads again"
    );
    Ok(match (callee_connected, &error) {
        (false, _) => Seen::fine("disconnected", evidence),
        (true, Some(error)) => Seen::fine(short(error), evidence),
        (true, None) => Seen::fine("queued", evidence),
    })
}
