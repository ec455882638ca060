//! In which order messages arrive.

use std::collections::HashSet;
use std::thread;
use std::time::Duration;

use causeway_bus::client::Error;
use causeway_dbus_wire::wire::{Body, Builder, Kind};

use crate::client::{Client, Message, PATIENCE, broadcast, call, rule};
use crate::flood::{Arrival, Arrivals, Flood, joined};
use crate::perturb::{Disturbed, Mode, join_cpu};
use crate::property::{Bus, Property, Seen};

const GROUP: &str = "Order";

pub const PROPERTIES: &[Property] = &[
    Property::new(GROUP, "order-of-one-sender", of_one_sender)
.asks("Does each receiver get the broadcasts of one sender in the order in which they were sent?").practice("every client library takes it for granted"),
    Property::new(GROUP, "order-of-all", of_all)
.asks("Do all receivers get the broadcasts of several senders in one order?").practice("dbus-daemon has one order for all, and programs that share state over signals rely on it"),
    Property::new(GROUP, "order-at-a-monitor", at_a_monitor)
.asks("Does a monitor see broadcasts in the order in which receivers get them?").practice("a recording that shows another order misleads"),
    Property::new(GROUP, "order-of-causes", of_causes)
.asks("Does a third connection get a broadcast before the one that another connection sent because of it?").practice("a signal that refers to an earlier one of another program is not understood otherwise"),
    Property::new(GROUP, "signal-before-reply", signal_before_reply)
.asks("Does a caller get what the callee sends before, as and after its reply in that order?").practice("change signals that a method causes are expected before its reply"),
    Property::new(GROUP, "name-before-signal", name_before_signal)
.asks("Is NameOwnerChanged seen before the first signal that the new owner sends?").practice("a receiver that does not know the owner yet discards the signal"),
    Property::new(GROUP, "last-words", last_words)
.asks("Is everything that a connection sent before it closed delivered, and before its departure is told?").practice("programs send a signal and exit"),
];

const FLOOD: Flood = Flood { senders: 2, receivers: 4, has_monitor: false, messages: 800 };

fn of_one_sender(bus: &Bus<'_>) -> Result<Seen, Error> {
    let runs = FLOOD.run(bus)?;
    Ok(Seen::unless(runs.iter().find_map(out_of_order), FLOOD.words(&runs)))
}

/// The first message of a sender that came after a later one of the same sender.
fn out_of_order(run: &Arrivals) -> Option<String> {
    run.by_receiver.iter().enumerate().find_map(|(receiver, arrivals)| {
        let mut last = [None; FLOOD.senders];
        firsts(arrivals).into_iter().find_map(|(sender, number)| {
            let before = last[sender as usize].replace(number).filter(|before| *before > number)?;
            Some(format!(
                "receiver {receiver} got broadcast {number} of sender {sender} after {before} ({})",
                run.mode.words()
            ))
        })
    })
}

/// A broker that handles connections side by side has two orders rarely: it is asked several times.
fn of_all(bus: &Bus<'_>) -> Result<Seen, Error> {
    const TIMES: usize = 6;
    let mut runs = FLOOD.run(bus)?;
    for _ in 1..TIMES {
        if let Some(found) = runs.iter().find_map(two_orders) {
            return Ok(Seen::broken("broken", found));
        }
        runs = FLOOD.run(bus)?;
    }
    let found = runs.iter().find_map(two_orders);
    Ok(Seen::unless(found, format!("{TIMES} times {}", FLOOD.words(&runs))))
}

fn at_a_monitor(bus: &Bus<'_>) -> Result<Seen, Error> {
    let flood = Flood { receivers: 2, has_monitor: true, ..FLOOD };
    let runs = match flood.run(bus) {
        Err(Error::Authentication(_)) => {
            return Ok(Seen::fine("no monitors", "the bus makes no connection a monitor"));
        }
        runs => runs?,
    };
    Ok(Seen::unless(runs.iter().find_map(two_orders), flood.words(&runs)))
}

/// Two receivers that disagree, of the messages that both got.
fn two_orders(run: &Arrivals) -> Option<String> {
    let orders: Vec<Vec<(u32, u32)>> = run.by_receiver.iter().map(|arrivals| firsts(arrivals)).collect();
    let common = orders.iter().map(|order| order.iter().copied().collect::<HashSet<_>>());
    let common = common.reduce(|all, order| &all & &order)?;
    let mut orders = orders.into_iter().map(|mut order| {
        order.retain(|message| common.contains(message));
        order
    });
    let first = orders.next()?;
    orders.enumerate().find_map(|(receiver, order)| {
        let at = first.iter().zip(&order).position(|(one, other)| one != other)?;
        Some(format!(
            "after {at} equal broadcasts receiver 0 got {} of sender {}, and receiver {} got {} of sender {} ({})",
            first[at].1,
            first[at].0,
            receiver + 1,
            order[at].1,
            order[at].0,
            run.mode.words()
        ))
    })
}

/// Each message once, where it came first.
fn firsts(arrivals: &[Arrival]) -> Vec<(u32, u32)> {
    let mut seen = HashSet::new();
    let mut order: Vec<(u32, u32)> =
        arrivals.iter().map(|arrival| (arrival.sender, arrival.number)).collect();
    order.retain(|message| seen.insert(*message));
    order
}

const ROUNDS: u32 = 300;

/// One connection sends causes, a second answers each with an effect, a third gets both.
fn of_causes(bus: &Bus<'_>) -> Result<Seen, Error> {
    let mut found = None;
    for mode in Mode::of(bus) {
        let mut first = Client::open(bus)?;
        let cause_rule = rule(&first.name());
        let mut second = Client::listening(bus, &[&first.name()])?;
        // Rules in either order of age, so that no order of delivery is right by chance.
        let mut third = Client::listening(bus, &[&second.name(), &first.name()])?;
        let mut fourth = Client::open(bus)?;
        fourth.add_rule(&rule(&second.name()))?;
        fourth.add_rule(&cause_rule)?;
        let disturbed = Disturbed::begin(bus, *mode);
        let reversed = thread::scope(|scope| {
            let effects = scope.spawn(|| {
                join_cpu(*mode);
                for _ in 0..ROUNDS {
                    let Some(cause) = second.wait_for(PATIENCE, |message| message.is_ours())? else { break };
                    second.send(
                        &broadcast("Effect").body(Body::default().u32(cause.number(0).unwrap_or_default())),
                    )?;
                }
                second.barrier()
            });
            let watching = [&mut third, &mut fourth].map(|client| scope.spawn(|| reversals(client, *mode)));
            join_cpu(*mode);
            for number in 0..ROUNDS {
                first.send(&broadcast("Cause").body(Body::default().u32(number)))?;
                mode.pause();
            }
            if let Some(disturbed) = &disturbed {
                disturbed.stop_and_continue();
            }
            joined(effects)?;
            watching.into_iter().map(joined).collect::<Result<Vec<_>, Error>>()
        })?;
        if let Some(number) = reversed.into_iter().flatten().next() {
            found.get_or_insert(format!("effect {number} came before its cause ({})", mode.words()));
        }
    }
    Ok(Seen::unless(found, format!("{ROUNDS} causes and effects, two connections that get both")))
}

/// The first effect that comes before its cause.
fn reversals(client: &mut Client, mode: Mode) -> Result<Option<u32>, Error> {
    join_cpu(mode);
    let mut causes = HashSet::new();
    let mut effects = 0;
    while effects < ROUNDS {
        let Some(message) = client.wait_for(PATIENCE / 4, |message| message.is_ours())? else { break };
        let number = message.number(0).unwrap_or_default();
        match message.header().member {
            Some("Cause") => {
                causes.insert(number);
            }
            _ if causes.contains(&number) => effects += 1,
            _ => return Ok(Some(number)),
        }
    }
    Ok(None)
}

/// Calls each of which is answered with a broadcast, a reply, a directed signal and a broadcast.
fn signal_before_reply(bus: &Bus<'_>) -> Result<Seen, Error> {
    const CALLS: u32 = 200;
    const EACH: u32 = 4;
    let mut found = None;
    for mode in Mode::of(bus) {
        let mut callee = Client::open(bus)?;
        let callee_name = callee.name();
        let mut caller = Client::listening(bus, &[&callee_name])?;
        let caller_name = caller.name();
        let disturbed = Disturbed::begin(bus, *mode);
        let order = thread::scope(|scope| {
            let serving = scope.spawn(|| {
                join_cpu(*mode);
                for number in 0..CALLS {
                    let is_call = |kind| kind == Kind::MethodCall;
                    let Some(called) = callee.wait_for(PATIENCE, |message| is_call(message.header().kind))?
                    else {
                        break;
                    };
                    let body = |part: u32| Body::default().u32(number * EACH + part);
                    callee.send(&broadcast("Part").body(body(0)))?;
                    let reply = Builder::reply(called.header().serial).destination(&caller_name);
                    callee.send(&reply.body(body(1)))?;
                    callee.send(&broadcast("Part").destination(&caller_name).body(body(2)))?;
                    callee.send(&broadcast("Part").body(body(3)))?;
                }
                callee.barrier()
            });
            let stopping = scope.spawn(|| disturbed.iter().for_each(Disturbed::stop_and_continue));
            let mut order = Vec::new();
            let mut take = |message: Option<Message>| {
                let of_callee = |message: &Message| message.header().sender == Some(callee_name.as_str());
                let is_there = message.is_some();
                order.extend(message.filter(of_callee).and_then(|message| message.number(0)));
                is_there
            };
            for _ in 0..CALLS {
                caller.send(&call(&callee_name, "Parts"))?;
                mode.pause();
                // A caller that reads nothing meanwhile is one that stalls.
                while take(caller.next(Duration::ZERO)?) {}
            }
            while !serving.is_finished() {
                take(caller.next(Duration::from_millis(5))?);
            }
            joined(serving)?;
            joined(stopping);
            for message in caller.collect()? {
                take(Some(message));
            }
            Ok::<_, Error>(order)
        })?;
        if let Some(at) = order.windows(2).position(|two| two[0] > two[1]) {
            let [before, after] = [order[at], order[at + 1]];
            found.get_or_insert(format!(
                "message {after} of the callee came after {before} ({})",
                mode.words()
            ));
        }
    }
    Ok(Seen::unless(
        found,
        format!("{CALLS} calls without waiting; broadcast, reply, directed signal, broadcast for each"),
    ))
}

const TIMES: u32 = 40;

fn name_before_signal(bus: &Bus<'_>) -> Result<Seen, Error> {
    let name = format!("org.weighbridge.Exam.N{}", std::process::id());
    let mut receiver = Client::open(bus)?;
    receiver.add_rule(&format!("type='signal',member='NameOwnerChanged',arg0='{name}'"))?;
    let mut early = None;
    for round in 0..TIMES {
        let mut owner = Client::open(bus)?;
        let from_owner = rule(&owner.name());
        receiver.add_rule(&from_owner)?;
        if bus.is_native() {
            // A request stands in the same order as the signal, and is granted behind it: the name is there when it is answered.
            owner.request_name(&name, 0)?;
        } else {
            // Both in one go: the signal is there before the request is answered.
            owner.send(&Builder::of_driver("RequestName").body(Body::default().text(&name).u32(0)))?;
        }
        owner.send(&broadcast("Here"))?;
        owner.barrier()?;
        let seen = receiver.collect()?;
        let told = seen.iter().position(|message| message.is_from_driver("NameOwnerChanged", &name));
        let signal = seen.iter().position(|message| message.is_ours());
        if signal.is_some() && told.is_none_or(|told| signal < Some(told)) {
            early = Some(round);
            break;
        }
        drop(owner);
        receiver.wait_for(PATIENCE, |message| message.is_from_driver("NameOwnerChanged", &name))?;
        receiver.remove_rule(&from_owner)?;
    }
    let found =
        early.map(|round| format!("after {round} owners in order a signal came before the change of owner"));
    let when = if bus.is_native() { "when they have it" } else { "at once" };
    Ok(Seen::unless(found, format!("{TIMES} owners that request the name and send {when}")))
}

fn last_words(bus: &Bus<'_>) -> Result<Seen, Error> {
    const WORDS: usize = 50;
    let mut receiver = Client::open(bus)?;
    let (mut missing, mut late) = (0, 0);
    for _ in 0..TIMES {
        let mut leaving = Client::open(bus)?;
        let name = leaving.name();
        let from_leaving = rule(&name);
        receiver.add_rule(&from_leaving)?;
        let departure = format!("type='signal',member='NameOwnerChanged',arg0='{name}'");
        receiver.add_rule(&departure)?;
        for _ in 0..WORDS {
            leaving.send(&broadcast("LastWords"))?;
        }
        drop(leaving);
        let mut words = 0;
        let left = receiver.wait_for(PATIENCE, |message| {
            message.is_from_driver("NameOwnerChanged", &name) || message.is_ours()
        });
        let mut next = left?;
        while let Some(message) = next {
            if !message.is_ours() {
                break;
            }
            words += 1;
            next = receiver.next(PATIENCE)?;
        }
        let after = receiver.collect_ours()?.len();
        late += after;
        missing += WORDS - (words + after).min(WORDS);
        receiver.remove_rule(&from_leaving)?;
        receiver.remove_rule(&departure)?;
    }
    let found = (missing + late > 0).then(|| {
        format!("of {TIMES} × {WORDS} signals {missing} were lost and {late} came after the departure of the sender")
    });
    Ok(Seen::unless(found, format!("{TIMES} connections that send {WORDS} signals and close")))
}
