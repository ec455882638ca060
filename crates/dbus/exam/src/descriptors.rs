//! Descriptors that travel with messages.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use causeway_bus::client::Error;
use causeway_dbus_wire::wire::FLAG_NO_REPLY_EXPECTED;

use crate::client::{Client, Message, PATIENCE, call, unless_closed};
use crate::property::{Answer, Bus, Property, Seen};

const GROUP: &str = "Descriptors";

pub const PROPERTIES: &[Property] = &[
    Property::new(GROUP, "descriptors", pass)
        .asks("Does a descriptor arrive with its message, and is it the one that was sent?")
        .specification("Message Protocol"),
    Property::new(GROUP, "most-descriptors", most)
        .asks("Of 1, 16, 17, 64 and 253 descriptors in one message, how many arrive at most?"),
    Property::new(GROUP, "missing-descriptors", missing)
        .asks("What becomes of a sender whose message says more descriptors than come with it?")
        .practice("a receiver would take another message's descriptors for those")
        .not_native("the library of a native member says how many descriptors come with a message"),
    Property::new(GROUP, "descriptor-flood", flood)
        .asks("What becomes of 4,000 descriptors for a receiver that does not read?")
        .private(),
];

fn pass(bus: &Bus<'_>) -> Answer {
    let [mut sender, mut receiver] = Client::several(bus)?;
    receiver.keep_descriptors();
    let (mut read, write) = std::io::pipe()?;
    let message = call(receiver.unique_name(), "Take").flags(FLAG_NO_REPLY_EXPECTED).unix_fds(1);
    sender.send_with_fds(&message, &[write.as_fd()])?;
    drop(write);
    let Some(got) = receiver.wait_for(PATIENCE / 4, Message::is_ours)? else {
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

fn most(bus: &Bus<'_>) -> Answer {
    let mut most = 0;
    let mut evidence = Vec::new();
    for count in [1, 16, 17, 64, 253] {
        let [mut sender, mut receiver] = Client::several(bus)?;
        receiver.keep_descriptors();
        let (_read, write) = std::io::pipe()?;
        let to = receiver.name();
        let message = call(&to, "Take").flags(FLAG_NO_REPLY_EXPECTED).unix_fds(count);
        let sent = match sender.send_with_fds(&message, &vec![write.as_fd(); count as usize]) {
            // A native member is told at once, and stays.
            Err(Error::Refused { .. }) => true,
            sent => unless_closed(sent)?.is_some(),
        };
        let is_connected = sent && sender.is_connected()?;
        let got = receiver.collect_ours()?.len();
        let fate = match (got, is_connected) {
            (1, _) if receiver.take_descriptors().len() == count as usize => {
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

fn missing(bus: &Bus<'_>) -> Answer {
    let [mut sender, mut receiver] = Client::several(bus)?;
    sender.send(&call(receiver.unique_name(), "Take").flags(FLAG_NO_REPLY_EXPECTED).unix_fds(2))?;
    let is_connected = sender.stays_connected()?;
    let came = receiver.collect_ours()?.len();
    Ok(Seen::fate(came, is_connected, "a message that says 2 descriptors and has none"))
}

fn flood(bus: &Bus<'_>) -> Answer {
    const EACH: usize = 16;
    const MESSAGES: usize = 250;
    let [mut sender, mut stalled] = Client::several(bus)?;
    let (_read, write) = std::io::pipe()?;
    let to = stalled.name();
    let message = call(&to, "Take").unix_fds(EACH as u32);
    let (mut sent, mut refused) = (0, 0);
    while sent < MESSAGES {
        match sender.send_with_fds(&message, &[write.as_fd(); EACH]) {
            Ok(_) => sent += 1,
            Err(Error::Closed) => break,
            Err(Error::Refused { .. }) => (sent, refused) = (sent + 1, refused + 1),
            // The kernel limits how many may be on their way (ETOOMANYREFS) until the bus has read some.
            Err(Error::Io(error))
                if error.raw_os_error() == Some(rustix::io::Errno::TOOMANYREFS.raw_os_error()) =>
            {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(other) => return Err(other),
        }
    }
    let sender_connected = sender.is_connected()?;
    if sender_connected {
        refused += sender.collect_errors()?.len();
    }
    let (got, stalled_connected) = stalled.read_again(bus.quiet / 2)?;
    let evidence = format!(
        "{sent} messages with {EACH} descriptors sent, {got} received, {refused} refused with an error"
    );
    let answer = match (sender_connected, stalled_connected) {
        (true, true) if got == MESSAGES => "queued",
        (true, true) if refused > 0 => "refused",
        (true, true) => "lost",
        (false, true) => "sender disconnected",
        (true, false) => "receiver disconnected",
        (false, false) => "both disconnected",
    };
    Ok(Seen::fine(answer, evidence))
}
