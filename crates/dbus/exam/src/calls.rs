//! Calls and replies.

use causeway_bus::client::Error;
use causeway_dbus_wire::wire::{Builder, FLAG_NO_REPLY_EXPECTED, Kind};

use crate::client::{Client, Message, PATIENCE, call, number, owner_rule, short};
use crate::flood::pipeline;
use crate::perturb::Mode;
use crate::property::{Answer, Bus, Property, Seen};

const GROUP: &str = "Calls";

pub const PROPERTIES: &[Property] = &[
    Property::new(GROUP, "pipelined-calls", pipelined)
        .asks("Do 1,000 calls that wait for no reply all get theirs, in order?")
        .specification("Method Calls"),
    Property::new(GROUP, "unknown-destination", unknown_destination)
        .asks("Which error does a call to a name without owner bring?"),
    Property::new(GROUP, "departed-callee", departed_callee)
        .asks("Which error gets a caller whose callee closes before it replies?"),
    Property::new(GROUP, "departure-and-error", departure_and_error)
        .asks("Of the error for an open call and NameOwnerChanged about its callee, which comes first?"),
    Property::new(GROUP, "departed-caller", departed_caller)
        .asks("What becomes of a reply to a caller that has closed?"),
    Property::new(GROUP, "second-reply", second_reply)
        .asks("What becomes of a second reply to the same call?"),
    Property::new(GROUP, "unwanted-reply", unwanted_reply)
        .asks("What becomes of a reply to a call that wants none?"),
    Property::new(GROUP, "equal-serials", equal_serials)
        .asks("What becomes of two open calls with one serial?")
        .not_native("the library of a native member gives its messages their serials"),
];

fn pipelined(bus: &Bus<'_>) -> Answer {
    const CALLS: u32 = 1_000;
    let mut ends = Client::several(bus)?;
    let caller = ends[0].name();
    let (serials, came) = pipeline(&mut ends, CALLS, Mode::Free, |callee, _, called| {
        callee.send(&Builder::reply(called).destination(&caller)).map(drop)
    })?;
    let replies: Vec<u32> = came.iter().filter_map(|message| message.header().reply_serial).collect();
    let found = (serials != replies).then(|| match replies.len() {
        count if count == serials.len() => "the replies come in another order".to_owned(),
        count => format!("{count} replies to {CALLS} calls"),
    });
    Ok(Seen::unless(found, format!("{CALLS} calls")))
}

/// The error that answers a call, in one word.
fn error_of(caller: &mut Client, serial: u32) -> Answer {
    let Some(reply) = caller.reply(serial)? else {
        return Ok(Seen::fine("no answer", "nothing came within 5 s"));
    };
    Ok(match reply.header().error_name {
        Some(error) => Seen::fine(short(error), format!("{error}: {}", reply.texts().first().unwrap_or(&""))),
        None => Seen::fine("a reply", "a reply that is not an error"),
    })
}

fn unknown_destination(bus: &Bus<'_>) -> Answer {
    let mut caller = Client::open(bus)?;
    let serial = caller.send(&call("org.weighbridge.Exam.NobodyOwnsThis", "Hello"))?;
    error_of(&mut caller, serial)
}

/// A caller with an open call to a callee that has received it.
fn open_call(bus: &Bus<'_>, flags: u8) -> Result<(Client, Client, u32), Error> {
    let [mut caller, mut callee] = Client::several(bus)?;
    let serial = caller.send(&call(callee.unique_name(), "Open").flags(flags))?;
    callee.wait_for(PATIENCE, Message::is_call)?;
    Ok((caller, callee, serial))
}

fn departed_callee(bus: &Bus<'_>) -> Answer {
    let (mut caller, callee, serial) = open_call(bus, 0)?;
    drop(callee);
    error_of(&mut caller, serial)
}

fn departure_and_error(bus: &Bus<'_>) -> Answer {
    const TIMES: usize = 20;
    let mut errors_first = 0;
    for _ in 0..TIMES {
        let (mut caller, callee, serial) = open_call(bus, 0)?;
        let name = callee.name();
        caller.add_rule(&owner_rule(&name))?;
        drop(callee);
        let is_either =
            |message: &Message| message.answers(serial) || message.is_from_driver("NameOwnerChanged", &name);
        let first = caller.wait_for(PATIENCE, is_either)?;
        errors_first += usize::from(first.is_some_and(|first| first.answers(serial)));
    }
    let answer = match errors_first {
        0 => "NameOwnerChanged",
        TIMES => "the error",
        _ => "either",
    };
    Ok(Seen::fine(answer, format!("the error first in {errors_first} of {TIMES}")))
}

/// What the sender of a message notices of what became of it.
fn noticed(sender: &mut Client) -> Answer {
    if !sender.is_connected()? {
        return Ok(Seen::fine("disconnected", "its sender is disconnected"));
    }
    Ok(match sender.collect_errors()?.first() {
        Some(error) => Seen::fine(short(error), format!("its sender gets {error}")),
        None => Seen::fine("discarded", "its sender is told nothing"),
    })
}

fn departed_caller(bus: &Bus<'_>) -> Answer {
    let (caller, mut callee, serial) = open_call(bus, 0)?;
    let name = caller.name();
    callee.add_rule(&owner_rule(&name))?;
    drop(caller);
    callee.await_owner_change(&name)?;
    callee.send(&Builder::reply(serial).destination(&name))?;
    noticed(&mut callee)
}

fn second_reply(bus: &Bus<'_>) -> Answer {
    replies(bus, 0, 2)
}

fn unwanted_reply(bus: &Bus<'_>) -> Answer {
    replies(bus, FLAG_NO_REPLY_EXPECTED, 1)
}

/// A callee replies so many times: the caller gets all of them, or else what the callee notices.
fn replies(bus: &Bus<'_>, flags: u8, count: usize) -> Answer {
    let (mut caller, mut callee, serial) = open_call(bus, flags)?;
    for _ in 0..count {
        callee.send(&Builder::reply(serial).destination(caller.unique_name()))?;
    }
    let seen = noticed(&mut callee)?;
    let got = caller.collect()?.iter().filter(|message| message.answers(serial)).count();
    let arrived = format!("replies that reach the caller: {got}");
    Ok(if got >= count {
        Seen::fine("delivered", arrived)
    } else {
        Seen { evidence: format!("{}; {arrived}", seen.evidence), ..seen }
    })
}

fn equal_serials(bus: &Bus<'_>) -> Answer {
    const SERIAL: u32 = 4_000;
    let [mut caller, mut callee] = Client::several(bus)?;
    let bytes = call(callee.unique_name(), "Same").build(SERIAL).expect("a short message");
    for _ in 0..2 {
        caller.send_bytes(&bytes)?;
    }
    let is_connected = caller.is_connected()?;
    let came = callee.collect_ours()?;
    let calls = came.iter().filter(|message| message.is_call()).count();
    for answer in (0..).take(calls) {
        callee.send(&Builder::reply(SERIAL).destination(caller.unique_name()).body(number(answer)))?;
    }
    let reached = format!("calls that reach the callee: {calls}");
    if !is_connected {
        return Ok(Seen::fine("disconnected", format!("the caller is disconnected; {reached}")));
    }
    callee.barrier()?;
    let mut answers = caller.collect()?;
    answers.retain(|message| message.answers(SERIAL));
    let count = |kind| answers.iter().filter(|message| message.header().kind == kind).count();
    let (replies, errors) = (count(Kind::MethodReturn), count(Kind::Error));
    let answer = match (calls, replies, errors) {
        (2, 2, 0) => "both answered",
        (2, 1, _) => "one reply",
        (1, 1, _) => "second refused",
        _ => "neither",
    };
    Ok(Seen::fine(answer, format!("{reached}; at the caller replies: {replies}, errors: {errors}")))
}
