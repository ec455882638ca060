//! Descriptors that travel with messages.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use causeway_bus::client::Error;
use causeway_dbus_wire::wire::{Builder, FLAG_NO_REPLY_EXPECTED};

use crate::client::{Client, PATIENCE, call, unless_closed};
use crate::property::{Bus, Property, Seen};

const GROUP: &str = "Descriptors";

pub const PROPERTIES: &[Property] = &[
    Property::new(GROUP, "descriptors", pass)
        .asks("Does a descriptor arrive with its message, and is it the one that was sent?")
        .specification("Message Protocol"),
    Property::new(GROUP, "most-descriptors", most)
        .asks("Of 1, 16, 17, 64 and 253 descriptors in one message, how many arrive at most?"),
    Property::new(GROUP, "missing-descriptors", missing)
        .asks("What becomes of a sender whose message says more descriptors than come with it?")
        .practice("a receiver would take another message's descriptors for those"),
    Property::new(GROUP, "descriptor-flood", flood)
        .asks("What becomes of 4,000 descriptors for a receiver that does not read?")
        .private(),
];

fn pass(bus: &Bus<'_>) -> Result<Seen, Error> {
    let mut sender = Client::open(bus)?;
    let mut receiver = Client::open(bus)?;
    receiver.keep_descriptors();
    let (mut read, write) = std::io::pipe().map_err(Error::Io)?;
    let to = receiver.name();
    let message = call(&to, "Take").flags(FLAG_NO_REPLY_EXPECTED).unix_fds(1);
    sender.send_with_fds(&message, &[write.as_fd()])?;
    drop(write);
    let Some(got) = receiver.wait_for(PATIENCE / 4, |message| message.is_ours())? else {
        return Ok(Seen::broken("broken", "the message did not arrive"));
    };
    let mut arrived = receiver.take_descriptors();
    let said = got.header().unix_fds;
    let (1, Some(fd)) = (arrived.len(), arrived.pop()) else {
        return Ok(Seen::broken("broken", format!("the message says {said}, and {} arrived", arrived.len())));
    };
    let mut text = [0; 7];
    let written = std::fs::File::from(fd).write_all(b"through").is_ok();
    // Another descriptor would leave this pipe empty, and its writing end may still be open somewhere.
    let is_there =
        causeway_os::process::poll(&[read.as_fd()], Some(PATIENCE / 4)).is_ok_and(|ready| ready[0]);
    let is_same = written && is_there && read.read_exact(&mut text).is_ok() && &text == b"through";
    let found = (said != 1 || !is_same).then(|| "another descriptor arrived".to_owned());
    Ok(Seen::unless(found, "the writing end of a pipe; what the receiver wrote was read"))
}

fn most(bus: &Bus<'_>) -> Result<Seen, Error> {
    let mut most = 0;
    let mut evidence = Vec::new();
    for count in [1, 16, 17, 64, 253] {
        let mut sender = Client::open(bus)?;
        let mut receiver = Client::open(bus)?;
        receiver.keep_descriptors();
        let (_read, write) = std::io::pipe().map_err(Error::Io)?;
        let to = receiver.name();
        let fds = vec![write.as_fd(); count];
        let message = call(&to, "Take").flags(FLAG_NO_REPLY_EXPECTED);
        let message = message.unix_fds(u32::try_from(count).expect("few"));
        let sent = match sender.send_with_fds(&message, &fds) {
            // A native member is told at once, and stays.
            Err(Error::Refused { .. }) => true,
            sent => unless_closed(sent)?.is_some(),
        };
        let is_connected = sent && unless_closed(sender.is_connected())?.unwrap_or(false);
        let got = receiver.collect_ours()?.len();
        let arrived = receiver.take_descriptors().len();
        let fate = match (got, is_connected) {
            (1, _) if arrived == count => {
                most = count;
                "arrive"
            }
            (1, _) => "arrive in part",
            (_, true) => "are refused",
            (_, false) => "disconnect the sender",
        };
        evidence.push(format!("{count} {fate}"));
    }
    Ok(Seen::fine(most.to_string(), evidence.join(", ")))
}

fn missing(bus: &Bus<'_>) -> Result<Seen, Error> {
    let mut sender = Client::open(bus)?;
    let mut receiver = Client::open(bus)?;
    let to = receiver.name();
    sender.send(&call(&to, "Take").flags(FLAG_NO_REPLY_EXPECTED).unix_fds(2))?;
    let is_connected = match sender.call(&Builder::of_driver("GetId"), Duration::from_secs(2)) {
        Ok(_) | Err(Error::Refused { .. } | Error::TimedOut) => true,
        Err(Error::Closed) => false,
        Err(other) => return Err(other),
    };
    let got = receiver.collect_ours()?.len();
    let evidence = "a message that says 2 descriptors and has none";
    Ok(match (got, is_connected) {
        (1.., _) => Seen::broken("delivered", evidence),
        (0, false) => Seen::fine("disconnected", evidence),
        (0, true) => Seen::fine("discarded", evidence),
    })
}

fn flood(bus: &Bus<'_>) -> Result<Seen, Error> {
    const EACH: usize = 16;
    const MESSAGES: usize = 250;
    let mut sender = Client::open(bus)?;
    let mut stalled = Client::open(bus)?;
    let (_read, write) = std::io::pipe().map_err(Error::Io)?;
    let to = stalled.name();
    let fds = [write.as_fd(); EACH];
    let (mut sent, mut refused_at_once) = (0, 0);
    let message = call(&to, "Take").unix_fds(16);
    while sent < MESSAGES {
        match sender.send_with_fds(&message, &fds) {
            Ok(_) => sent += 1,
            Err(Error::Closed) => break,
            Err(Error::Refused { .. }) => (sent, refused_at_once) = (sent + 1, refused_at_once + 1),
            // The kernel limits how many may be on their way (ETOOMANYREFS) until the bus has read some.
            Err(Error::Io(error))
                if error.raw_os_error() == Some(rustix::io::Errno::TOOMANYREFS.raw_os_error()) =>
            {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(other) => return Err(other),
        }
    }
    let sender_connected = unless_closed(sender.is_connected())?.unwrap_or(false);
    let refused = if sender_connected {
        let errors = sender.collect()?;
        refused_at_once + errors.iter().filter(|message| message.header().error_name.is_some()).count()
    } else {
        refused_at_once
    };
    let mut got = 0;
    let stalled_connected = loop {
        match unless_closed(stalled.next(bus.quiet / 2))? {
            Some(Some(message)) => got += usize::from(message.is_ours()),
            Some(None) => break true,
            None => break false,
        }
    };
    let evidence = format!(
        "{sent} messages with {EACH} descriptors sent, {got} received, {refused} refused with an error"
    );
    Ok(match (sender_connected, stalled_connected) {
        (true, true) if got == MESSAGES => Seen::fine("queued", evidence),
        (true, true) if refused > 0 => Seen::fine("refused", evidence),
        (true, true) => Seen::fine("lost", evidence),
        (false, true) => Seen::fine("sender disconnected", evidence),
        (true, false) => Seen::fine("receiver disconnected", evidence),
        (false, false) => Seen::fine("both disconnected", evidence),
    })
}
