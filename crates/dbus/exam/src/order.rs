//! In which order messages arrive.

use std::collections::HashSet;
use std::thread;

use causeway_bus::client::Error;
use causeway_dbus_wire::wire::{Body, Builder};

use crate::client::{Client, Message, PATIENCE, broadcast, number, owner_rule, rule, well_known};
use crate::flood::{Arrival, Arrivals, Flood, joined, pipeline};
use crate::perturb::{Disturbed, Mode, join_cpu};
use crate::property::{Answer, Bus, Property, Seen};

const GROUP: &str = "Order";

pub const PROPERTIES: &[Property] = &[
    Property::new(GROUP, "order-of-one-sender", of_one_sender)
        .asks("Does each receiver get the broadcasts of one sender in the order in which they were sent?")
        .practice("every client library takes it for granted"),
    Property::new(GROUP, "order-of-all", of_all)
        .asks("Do all receivers get the broadcasts of several senders in one order?")
        .practice("dbus-daemon has one order for all, and programs that share state over signals rely on it"),
    Property::new(GROUP, "order-across-stops", across_stops)
        .asks("Do receivers that stop for moments get the broadcasts of several senders in the order of those that do not, members and clients mixed?")
        .practice("a program that was stopped goes on with the state that the others have"),
    Property::new(GROUP, "order-at-a-monitor", at_a_monitor)
        .asks("Does a monitor see broadcasts in the order in which receivers get them?")
        .practice("a recording that shows another order misleads"),
    Property::new(GROUP, "order-of-causes", of_causes)
        .asks("Does a third connection get a broadcast before the one that another connection sent because of it?")
        .practice("a signal that refers to an earlier one of another program is not understood otherwise"),
    Property::new(GROUP, "signal-before-reply", signal_before_reply)
        .asks("Does a caller get what the callee sends before, as and after its reply in that order?")
        .practice("change signals that a method causes are expected before its reply"),
    Property::new(GROUP, "name-before-signal", name_before_signal)
        .asks("Is NameOwnerChanged seen before the first signal that the new owner sends?")
        .practice("a receiver that does not know the owner yet discards the signal"),
    Property::new(GROUP, "last-words", last_words)
        .asks("Is everything that a connection sent before it closed delivered, and before its departure is told?")
        .practice("programs send a signal and exit"),
];

const FLOOD: Flood = Flood { senders: 2, receivers: 4, has_monitor: false, is_mixed: false, messages: 800 };

fn of_one_sender(bus: &Bus<'_>) -> Answer {
    let runs = FLOOD.run(bus)?;
    Ok(in_order(FLOOD, &runs, out_of_order))
}

/// What the arrivals say of an order, where enough came for one.
fn in_order(flood: Flood, runs: &[Arrivals], disorder: fn(&Arrivals) -> Option<String>) -> Seen {
    match (runs.iter().find_map(disorder), flood.too_few(runs)) {
        (None, Some(few)) => Seen::broken("nothing to compare", few),
        (found, _) => Seen::unless(found, flood.words(runs)),
    }
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
fn of_all(bus: &Bus<'_>) -> Answer {
    const TIMES: usize = 6;
    let mut words = String::new();
    for _ in 0..TIMES {
        let runs = FLOOD.run(bus)?;
        let seen = in_order(FLOOD, &runs, two_orders);
        if seen.is_violation {
            return Ok(seen);
        }
        words = seen.evidence;
    }
    Ok(Seen::fine("kept", format!("{TIMES} times {words}")))
}

/// Of receivers the third and the fourth stop: on a bus of native members the one is a member, and the other a client.
fn across_stops(bus: &Bus<'_>) -> Answer {
    let flood = Flood { is_mixed: true, ..FLOOD };
    let runs = flood.run(bus)?;
    let kinds = if bus.is_native() { "members and clients in turn" } else { "clients" };
    let seen = in_order(flood, &runs, two_orders);
    let evidence = if seen.is_violation {
        seen.evidence
    } else {
        format!("{kinds}, two receivers that stop: {}", seen.evidence)
    };
    Ok(Seen { evidence, ..seen })
}

fn at_a_monitor(bus: &Bus<'_>) -> Answer {
    let flood = Flood { receivers: 2, has_monitor: true, ..FLOOD };
    Ok(match flood.run(bus) {
        Err(Error::Authentication(_)) => Seen::fine("no monitors", "the bus makes no connection a monitor"),
        runs => {
            let runs = runs?;
            in_order(flood, &runs, two_orders)
        }
    })
}

/// Two receivers that disagree, of the messages that both got.
fn two_orders(run: &Arrivals) -> Option<String> {
    let mut orders: Vec<Vec<(u32, u32)>> = run.by_receiver.iter().map(|arrivals| firsts(arrivals)).collect();
    let common = orders.iter().map(|order| order.iter().copied().collect::<HashSet<_>>());
    let common = common.reduce(|all, order| &all & &order)?;
    orders.iter_mut().for_each(|order| order.retain(|message| common.contains(message)));
    let (first, others) = orders.split_first()?;
    others.iter().zip(1..).find_map(|(order, receiver)| {
        let at = first.iter().zip(order).position(|(one, other)| one != other)?;
        let [(sender, number), (other_sender, other_number)] = [first[at], order[at]];
        Some(format!(
            "after {at} equal broadcasts receiver 0 got {number} of sender {sender}, and receiver {receiver} got \
             {other_number} of sender {other_sender} ({})",
            run.mode.words()
        ))
    })
}

/// Each message once, where it came first.
fn firsts(arrivals: &[Arrival]) -> Vec<(u32, u32)> {
    let mut seen = HashSet::new();
    arrivals.iter().map(Arrival::id).filter(|message| seen.insert(*message)).collect()
}

const ROUNDS: u32 = 300;

/// One connection sends causes, a second answers each with an effect, a third gets both.
fn of_causes(bus: &Bus<'_>) -> Answer {
    let mut found = None;
    for mode in Mode::of(bus) {
        let mut first = Client::open(bus)?;
        let mut second = Client::listening(bus, &[first.unique_name()])?;
        let [cause, effect] = [first.name(), second.name()];
        // Rules in either order of age, so that no order of delivery is right by chance.
        let mut watching =
            [Client::listening(bus, &[&effect, &cause])?, Client::listening(bus, &[&effect, &cause])?];
        let disturbed = Disturbed::begin(bus, *mode);
        let reversed = thread::scope(|scope| {
            let effects = scope.spawn(|| {
                join_cpu(*mode);
                for _ in 0..ROUNDS {
                    let Some(cause) = second.wait_for(PATIENCE, Message::is_ours)? else { break };
                    let body = number(cause.number(0).unwrap_or_default());
                    second.send(&broadcast("Effect").body(body))?;
                }
                second.barrier()
            });
            let watching = watching.each_mut().map(|client| scope.spawn(|| reversals(client, *mode)));
            join_cpu(*mode);
            for cause in 0..ROUNDS {
                first.send(&broadcast("Cause").body(number(cause)))?;
                mode.pause();
            }
            disturbed.stop_and_continue();
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
        let Some(message) = client.wait_for(PATIENCE / 4, Message::is_ours)? else { break };
        let number = message.number(0).unwrap_or_default();
        if message.header().member == Some("Cause") {
            causes.insert(number);
        } else if causes.contains(&number) {
            effects += 1;
        } else {
            return Ok(Some(number));
        }
    }
    Ok(None)
}

/// Calls each of which is answered with a broadcast, a reply, a directed signal and a broadcast.
fn signal_before_reply(bus: &Bus<'_>) -> Answer {
    const CALLS: u32 = 200;
    const EACH: u32 = 4;
    let mut found = None;
    for mode in Mode::of(bus) {
        let callee = Client::open(bus)?;
        let mut ends = [Client::listening(bus, &[callee.unique_name()])?, callee];
        let caller = ends[0].name();
        let disturbed = Disturbed::begin(bus, *mode);
        let (_, came) = thread::scope(|scope| {
            scope.spawn(|| disturbed.stop_and_continue());
            pipeline(&mut ends, CALLS, *mode, |callee, call, called| {
                let body = |part: u32| number(call * EACH + part);
                callee.send(&broadcast("Part").body(body(0)))?;
                callee.send(&Builder::reply(called).destination(&caller).body(body(1)))?;
                callee.send(&broadcast("Part").destination(&caller).body(body(2)))?;
                callee.send(&broadcast("Part").body(body(3))).map(drop)
            })
        })?;
        let order: Vec<u32> = came.iter().filter_map(|message| message.number(0)).collect();
        if let Some(two) = order.windows(2).find(|two| two[0] > two[1]) {
            let words = mode.words();
            found.get_or_insert(format!("message {} of the callee came after {} ({words})", two[1], two[0]));
        }
    }
    Ok(Seen::unless(
        found,
        format!("{CALLS} calls without waiting; broadcast, reply, directed signal, broadcast for each"),
    ))
}

const TIMES: u32 = 40;

fn name_before_signal(bus: &Bus<'_>) -> Answer {
    let name = well_known("N");
    let mut receiver = Client::open(bus)?;
    receiver.add_rule(&owner_rule(&name))?;
    let mut early = None;
    for round in 0..TIMES {
        let mut owner = Client::open(bus)?;
        let from_owner = rule(owner.unique_name());
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
        let signal = seen.iter().position(Message::is_ours);
        if signal.is_some() && told.is_none_or(|told| signal < Some(told)) {
            early = Some(round);
            break;
        }
        drop(owner);
        receiver.await_owner_change(&name)?;
        receiver.remove_rule(&from_owner)?;
    }
    let found =
        early.map(|round| format!("after {round} owners in order a signal came before the change of owner"));
    let when = if bus.is_native() { "when they have it" } else { "at once" };
    Ok(Seen::unless(found, format!("{TIMES} owners that request the name and send {when}")))
}

fn last_words(bus: &Bus<'_>) -> Answer {
    const WORDS: usize = 50;
    let mut receiver = Client::open(bus)?;
    let (mut missing, mut late) = (0, 0);
    for _ in 0..TIMES {
        let mut leaving = Client::open(bus)?;
        let name = leaving.name();
        let rules = [rule(&name), owner_rule(&name)];
        rules.iter().try_for_each(|rule| receiver.add_rule(rule))?;
        for _ in 0..WORDS {
            leaving.send(&broadcast("LastWords"))?;
        }
        drop(leaving);
        let is_word_or_end =
            |message: &Message| message.is_ours() || message.is_from_driver("NameOwnerChanged", &name);
        let mut words = 0;
        while receiver.wait_for(PATIENCE, is_word_or_end)?.is_some_and(|message| message.is_ours()) {
            words += 1;
        }
        let after = receiver.collect_ours()?.len();
        late += after;
        missing += WORDS - (words + after).min(WORDS);
        rules.iter().try_for_each(|rule| receiver.remove_rule(rule))?;
    }
    let found = (missing + late > 0).then(|| {
        format!("of {TIMES} × {WORDS} signals {missing} were lost and {late} came after the departure of the sender")
    });
    Ok(Seen::unless(found, format!("{TIMES} connections that send {WORDS} signals and close")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrived(numbers: [Vec<u32>; 2]) -> Vec<Arrivals> {
        let of = |number: u32| Arrival { sender: 0, number, has_true_sender: true };
        let by_receiver = numbers.map(|numbers| numbers.into_iter().map(of).collect()).into();
        vec![Arrivals { mode: Mode::Free, by_receiver }]
    }

    #[test]
    fn an_order_of_nothing_is_not_kept() {
        let flood = Flood { senders: 1, receivers: 2, messages: 4, ..FLOOD };
        for (numbers, answer) in [
            ([vec![0, 1, 2, 3], vec![0, 1, 2, 3]], "kept"),
            ([vec![0, 1, 2, 3], vec![0, 3]], "kept"),
            ([vec![0, 1, 2, 3], vec![1, 0, 3]], "broken"),
            ([vec![0, 1, 2, 3], vec![0]], "nothing to compare"),
            ([vec![], vec![]], "nothing to compare"),
        ] {
            let seen = in_order(flood, &arrived(numbers), two_orders);
            assert_eq!(
                (&seen.answer[..], seen.is_violation),
                (answer, answer != "kept"),
                "{}",
                seen.evidence
            );
        }
    }
}
