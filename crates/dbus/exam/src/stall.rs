//! A receiver that does not read. Private buses only: their queues are filled.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use causeway_bus::client::Error;
use causeway_dbus_wire::wire::Kind;

use crate::bodies::blob;
use crate::client::{Client, PATIENCE, broadcast, call, short, unless_closed};
use crate::flood::joined;
use crate::property::{Bus, Property, Seen};

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

const MESSAGE_BYTES: usize = 64 << 10;
const MESSAGES: u32 = 1_024;
/// Messages that the receiver that reads has not yet read: a quarter of the queue of a broker in an examination.
const MOST_AHEAD: u32 = 64;

/// What came of a stalled subscriber.
struct Stalled {
    /// Broadcasts that the sender could send.
    sent: u32,
    sender_errors: Vec<String>,
    sender_connected: bool,
    /// What the subscriber found when it read again.
    stalled_got: u32,
    stalled_connected: bool,
    /// What the other subscriber got.
    other_got: u32,
    other_connected: bool,
    longest_wait: Duration,
    memory_before_kib: u64,
    memory_after_kib: u64,
}

impl Stalled {
    fn words(&self) -> String {
        format!(
            "{} of {MESSAGES} broadcasts of 64 KiB could be sent; the stalled subscriber got {} when it read again, the \
             other one {} with waits of {:.1} ms at most; the broker grew from {:.1} to {:.1} MiB",
            self.sent,
            self.stalled_got,
            self.other_got,
            self.longest_wait.as_secs_f64() * 1e3,
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
    let mut stalled = Client::listening(bus, &[&sender.name()])?;
    let mut other = Client::listening(bus, &[&sender.name()])?;
    let memory_before_kib = memory_kib(bus);
    let (is_sending, progress) = (AtomicBool::new(true), AtomicU32::new(0));
    let (sent, (other_got, other_connected, longest_wait)) = thread::scope(|scope| {
        let reading = scope.spawn(|| watch(&mut other, &is_sending, &progress, bus.quiet));
        let sent = send_all(&mut sender, &progress, bus.quiet);
        // PAIR stall-sent: Acquire in `watch`.
        is_sending.store(false, Ordering::Release);
        Ok::<_, Error>((sent?, joined(reading)?))
    })?;
    let memory_after_kib = memory_kib(bus);
    let sender_connected = unless_closed(sender.is_connected())?.unwrap_or(false);
    let sender_errors = if sender_connected {
        sender
            .collect()?
            .iter()
            .filter_map(|message| message.header().error_name.map(str::to_owned))
            .collect()
    } else {
        Vec::new()
    };
    let (stalled_got, stalled_connected) = read_again(&mut stalled, bus.quiet)?;
    Ok(Stalled {
        sent,
        sender_errors,
        sender_connected,
        stalled_got,
        stalled_connected,
        other_got,
        other_connected,
        longest_wait,
        memory_before_kib,
        memory_after_kib,
    })
}

/// What a connection that did not read finds when it does, and whether it is still connected.
fn read_again(stalled: &mut Client, quiet: Duration) -> Result<(u32, bool), Error> {
    let mut got = 0;
    loop {
        match unless_closed(stalled.next(quiet))? {
            Some(Some(message)) => got += u32::from(message.is_ours()),
            // A question before the queue is empty may be answered into the full queue, and lost.
            Some(None) => return Ok((got, unless_closed(stalled.is_connected())?.unwrap_or(false))),
            None => return Ok((got, false)),
        }
    }
}

/// Sends until all is sent, or the bus does not take more, at the pace of the receiver that reads: no queue but that of the
/// stalled one grows.
fn send_all(sender: &mut Client, progress: &AtomicU32, quiet: Duration) -> Result<u32, Error> {
    let message = broadcast("Stall").body(blob(causeway_dbus_wire::wire::Endian::NATIVE, 0, MESSAGE_BYTES));
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

/// Reads all; how many, whether it is still connected, and the longest wait for the next.
fn watch(
    client: &mut Client,
    is_sending: &AtomicBool,
    progress: &AtomicU32,
    quiet: Duration,
) -> Result<(u32, bool, Duration), Error> {
    let (mut got, mut longest, mut last) = (0, Duration::ZERO, Instant::now());
    loop {
        match unless_closed(client.next(Duration::from_millis(20)))? {
            None => return Ok((got, false, longest)),
            Some(Some(message)) if message.is_ours() => {
                // The wait for the first one holds the start of the sender.
                longest = if got == 0 { longest } else { longest.max(last.elapsed()) };
                (got, last) = (got + 1, Instant::now());
                progress.store(got, Ordering::Relaxed);
            }
            Some(Some(_)) => {}
            // PAIR stall-sent: Release in `stall`.
            Some(None)
                if !is_sending.load(Ordering::Acquire) && (got >= MESSAGES || last.elapsed() > quiet) =>
            {
                return Ok((got, true, longest));
            }
            Some(None) => {}
        }
    }
}

fn subscriber(bus: &Bus<'_>) -> Result<Seen, Error> {
    let stalled = stall(bus)?;
    let answer = match (stalled.stalled_connected, stalled.stalled_got, stalled.sender_connected) {
        (false, ..) => "disconnected",
        (true, got, _) if got >= stalled.sent && stalled.sent == MESSAGES => "queued",
        (true, _, false) => "sender disconnected",
        (true, ..) => "loses silently",
    };
    Ok(Seen::fine(answer, stalled.words()))
}

fn told(bus: &Bus<'_>) -> Result<Seen, Error> {
    let stalled = stall(bus)?;
    Ok(match (stalled.sender_connected, stalled.sender_errors.first()) {
        (false, _) => Seen::fine("disconnected", stalled.words()),
        (true, Some(error)) => {
            Seen::fine(short(error), format!("{} errors; {}", stalled.sender_errors.len(), stalled.words()))
        }
        (true, None) => Seen::fine("no", stalled.words()),
    })
}

fn beside(bus: &Bus<'_>) -> Result<Seen, Error> {
    let stalled = stall(bus)?;
    let is_served = stalled.other_connected && stalled.other_got == MESSAGES;
    Ok(Seen::unless((!is_served).then(|| stalled.words()), stalled.words()))
}

fn callee(bus: &Bus<'_>) -> Result<Seen, Error> {
    let mut caller = Client::open(bus)?;
    let mut callee = Client::open(bus)?;
    let to = callee.name();
    let message = call(&to, "Stall").body(blob(causeway_dbus_wire::wire::Endian::NATIVE, 0, MESSAGE_BYTES));
    let (mut sent, mut error) = (0, None);
    while sent < MESSAGES && error.is_none() {
        if unless_closed(caller.send(&message))?.is_none() {
            return Ok(Seen::fine("caller disconnected", format!("after {sent} calls of 64 KiB")));
        }
        sent += 1;
        // After the last call an error may need its time.
        let patience = if sent == MESSAGES { PATIENCE / 10 } else { Duration::ZERO };
        match unless_closed(caller.wait_for(patience, |message| message.header().kind == Kind::Error))? {
            Some(Some(answer)) => error = answer.header().error_name.map(str::to_owned),
            Some(None) => {}
            None => return Ok(Seen::fine("caller disconnected", format!("after {sent} calls of 64 KiB"))),
        }
    }
    let (got, callee_connected) = read_again(&mut callee, bus.quiet)?;
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
