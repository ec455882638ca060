//! Calls and replies.

use std::thread;
use std::time::Duration;

use causeway_bus::client::Error;
use causeway_dbus_wire::wire::{Body, Builder, FLAG_NO_REPLY_EXPECTED, Kind};

use crate::client::{Client, Message, PATIENCE, call, short, unless_closed};
use crate::flood::joined;
use crate::property::{Bus, Property, Seen};

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
        .asks("What becomes of two open calls with one serial?"),
];

fn is_call(message: &Message) -> bool {
    message.header().kind == Kind::MethodCall
}

fn pipelined(bus: &Bus<'_>) -> Result<Seen, Error> {
    const CALLS: usize = 1_000;
    let mut caller = Client::open(bus)?;
    let mut callee = Client::open(bus)?;
    let (caller_name, callee_name) = (caller.name(), callee.name());
    let (serials, replies) = thread::scope(|scope| {
        let serving = scope.spawn(|| {
            for _ in 0..CALLS {
                let Some(called) = callee.wait_for(PATIENCE, is_call)? else { break };
                callee.send(&Builder::reply(called.header().serial).destination(&caller_name))?;
            }
            callee.barrier()
        });
        let (mut serials, mut replies) = (Vec::new(), Vec::new());
        let mut take = |message: Option<Message>| {
            let of_callee = |message: &Message| message.header().sender == Some(callee_name.as_str());
            let is_there = message.is_some();
            replies.extend(message.filter(of_callee).and_then(|message| message.header().reply_serial));
            is_there
        };
        for _ in 0..CALLS {
            serials.push(caller.send(&call(&callee_name, "Pipelined"))?);
            // A caller that reads nothing meanwhile is one that stalls.
            while take(caller.next(Duration::ZERO)?) {}
        }
        while !serving.is_finished() {
            take(caller.next(Duration::from_millis(5))?);
        }
        joined(serving)?;
        for message in caller.collect()? {
            take(Some(message));
        }
        Ok::<_, Error>((serials, replies))
    })?;
    let found = (serials != replies).then(|| match replies.len() {
        CALLS => "the replies come in another order".to_owned(),
        count => format!("{count} replies to {CALLS} calls"),
    });
    Ok(Seen::unless(found, format!("{CALLS} calls")))
}

/// The error that answers a call, in one word.
fn error_of(reply: Option<Message>) -> Seen {
    match reply {
        None => Seen::fine("no answer", "nothing came within 5 s"),
        Some(reply) => match reply.header().error_name {
            Some(error) => {
                Seen::fine(short(error), format!("{error}: {}", reply.texts().first().unwrap_or(&"")))
            }
            None => Seen::fine("a reply", "a reply that is no error"),
        },
    }
}

fn unknown_destination(bus: &Bus<'_>) -> Result<Seen, Error> {
    let mut caller = Client::open(bus)?;
    let serial = caller.send(&call("org.weighbridge.Exam.NobodyOwnsThis", "Hello"))?;
    Ok(error_of(caller.reply(serial, PATIENCE / 4)?))
}

/// A caller with an open call to a callee that has received it.
fn open_call(bus: &Bus<'_>, flags: u8) -> Result<(Client, Client, u32), Error> {
    let mut caller = Client::open(bus)?;
    let mut callee = Client::open(bus)?;
    let serial = caller.send(&call(&callee.name(), "Open").flags(flags))?;
    callee.wait_for(PATIENCE, is_call)?;
    Ok((caller, callee, serial))
}

fn departed_callee(bus: &Bus<'_>) -> Result<Seen, Error> {
    let (mut caller, callee, serial) = open_call(bus, 0)?;
    drop(callee);
    Ok(error_of(caller.reply(serial, PATIENCE / 4)?))
}

fn departure_and_error(bus: &Bus<'_>) -> Result<Seen, Error> {
    const TIMES: usize = 20;
    let mut errors_first = 0;
    for _ in 0..TIMES {
        let (mut caller, callee, serial) = open_call(bus, 0)?;
        let name = callee.name();
        caller.add_rule(&format!("type='signal',member='NameOwnerChanged',arg0='{name}'"))?;
        drop(callee);
        let is_error = |message: &Message| message.header().reply_serial == Some(serial);
        let is_either =
            |message: &Message| is_error(message) || message.is_from_driver("NameOwnerChanged", &name);
        let first = caller.wait_for(PATIENCE, is_either)?;
        errors_first += usize::from(first.as_ref().is_some_and(is_error));
    }
    let answer = match errors_first {
        0 => "NameOwnerChanged",
        TIMES => "the error",
        _ => "either",
    };
    Ok(Seen::fine(answer, format!("the error first in {errors_first} of {TIMES}")))
}

/// What the sender of a message notices of what became of it.
fn noticed(sender: &mut Client) -> Result<Seen, Error> {
    if unless_closed(sender.is_connected())? != Some(true) {
        return Ok(Seen::fine("disconnected", "its sender is disconnected"));
    }
    let all = sender.collect()?;
    let error = all.iter().find_map(|message| message.header().error_name.map(str::to_owned));
    Ok(match error {
        Some(error) => Seen::fine(short(&error), format!("its sender gets {error}")),
        None => Seen::fine("discarded", "its sender is told nothing"),
    })
}

fn departed_caller(bus: &Bus<'_>) -> Result<Seen, Error> {
    let (caller, mut callee, serial) = open_call(bus, 0)?;
    let name = caller.name();
    callee.add_rule(&format!("type='signal',member='NameOwnerChanged',arg0='{name}'"))?;
    drop(caller);
    callee.wait_for(PATIENCE, |message| message.is_from_driver("NameOwnerChanged", &name))?;
    callee.send(&Builder::reply(serial).destination(&name))?;
    noticed(&mut callee)
}

fn second_reply(bus: &Bus<'_>) -> Result<Seen, Error> {
    let (mut caller, mut callee, serial) = open_call(bus, 0)?;
    let name = caller.name();
    for _ in 0..2 {
        callee.send(&Builder::reply(serial).destination(&name))?;
    }
    let seen = noticed(&mut callee)?;
    delivered_or(seen, &mut caller, serial, 2)
}

fn unwanted_reply(bus: &Bus<'_>) -> Result<Seen, Error> {
    let (mut caller, mut callee, serial) = open_call(bus, FLAG_NO_REPLY_EXPECTED)?;
    callee.send(&Builder::reply(serial).destination(&caller.name()))?;
    let seen = noticed(&mut callee)?;
    delivered_or(seen, &mut caller, serial, 1)
}

/// The caller got that many replies, or else what the callee noticed.
fn delivered_or(seen: Seen, caller: &mut Client, serial: u32, count: usize) -> Result<Seen, Error> {
    let all = caller.collect()?;
    let got = all.iter().filter(|message| message.header().reply_serial == Some(serial)).count();
    Ok(if got >= count {
        Seen::fine("delivered", format!("replies that reach the caller: {got}"))
    } else {
        Seen { evidence: format!("{}; replies that reach the caller: {got}", seen.evidence), ..seen }
    })
}

fn equal_serials(bus: &Bus<'_>) -> Result<Seen, Error> {
    const SERIAL: u32 = 4_000;
    let mut caller = Client::open(bus)?;
    let mut callee = Client::open(bus)?;
    let caller_name = caller.name();
    let bytes = call(&callee.name(), "Same").build(SERIAL).expect("a short message");
    for _ in 0..2 {
        caller.send_bytes(&bytes)?;
    }
    let is_connected = unless_closed(caller.is_connected())? == Some(true);
    let calls = callee.collect_ours()?.into_iter().filter(is_call).count();
    for number in 0..calls {
        let number = u32::try_from(number).expect("two at most");
        callee.send(&Builder::reply(SERIAL).destination(&caller_name).body(Body::default().u32(number)))?;
    }
    if !is_connected {
        return Ok(Seen::fine(
            "disconnected",
            format!("the caller is disconnected; calls that reach the callee: {calls}"),
        ));
    }
    callee.barrier()?;
    let all = caller.collect()?;
    let answers = |kind| {
        all.iter()
            .filter(|message| message.header().reply_serial == Some(SERIAL) && message.header().kind == kind)
            .count()
    };
    let (replies, errors) = (answers(Kind::MethodReturn), answers(Kind::Error));
    let answer = match (calls, replies, errors) {
        (2, 2, 0) => "both answered",
        (2, 1, _) => "one reply",
        (1, 1, _) => "second refused",
        _ => "neither",
    };
    Ok(Seen::fine(
        answer,
        format!("calls that reach the callee: {calls}; at the caller replies: {replies}, errors: {errors}"),
    ))
}
