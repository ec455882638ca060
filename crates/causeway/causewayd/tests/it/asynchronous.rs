//! A member in a tokio program: calls, signals, names, and ends of all kinds.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use causeway_bus::wire::{Arg, Body};
use causeway_bus::{
    ALLOW_REPLACEMENT, AsyncConnection, ConnectionOptions, DO_NOT_QUEUE, Error, Message, NameReply,
    REPLACE_EXISTING, ReleaseReply, Signals, name,
};
use tokio::sync::Barrier;

use crate::owners::{NAME, noise, rule};
use crate::support::*;

const ECHO: &str = "com.example.Echo";

#[test]
fn role() {
    if let Some((_, socket, most)) = play() {
        serve_alone(&socket, most);
    }
}

/// The outcome of a future that must not take for ever.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("{what}"))
}

/// Lets other tasks have their turn until they wait.
pub async fn a_moment() {
    tokio::time::sleep(Duration::from_millis(5)).await;
}

/// The outcomes of a future and of what is done after a moment.
pub async fn soon_with<T, U>(
    what: &str,
    future: impl Future<Output = T>,
    then: impl AsyncFnOnce() -> U,
) -> (T, U) {
    let later = async {
        a_moment().await;
        then().await
    };
    soon(what, async { tokio::join!(future, later) }).await
}

async fn connect(bus: &Bus) -> AsyncConnection {
    AsyncConnection::open(bus.path()).await.unwrap()
}

fn with(bus: &Bus, options: ConnectionOptions) -> AsyncConnection {
    AsyncConnection::new(bus.member_with(options)).unwrap()
}

async fn next(signals: &mut Signals) -> Message {
    soon("no signal came", signals.next()).await.expect("the stream ended").unwrap()
}

/// Every call waits for all the others: all of them are open at once, from several tasks of one connection.
#[test(tokio::test(flavor = "multi_thread", worker_threads = 2))]
async fn sixty_four_calls_are_open_at_once_and_each_gets_its_own_reply() {
    let bus = Bus::start();
    let (service, client) = (connect(&bus).await, connect(&bus).await);
    service.request_name(ECHO, 0).await.unwrap();
    let all = Arc::new(Barrier::new(64));
    for _ in 0..2 {
        let (service, all) = (service.clone(), Arc::clone(&all));
        let mut calls = service.calls();
        tokio::spawn(async move {
            while let Some(Ok(call)) = calls.next().await {
                let (service, all) = (service.clone(), Arc::clone(&all));
                tokio::spawn(async move {
                    all.wait().await;
                    let body = text(&call.text().unwrap().repeat(2));
                    service.reply(&call, body).await.unwrap();
                });
            }
        });
    }
    for _ in 0..10 {
        let calls: Vec<_> = (0..64)
            .map(|number| {
                let client = client.clone();
                tokio::spawn(async move {
                    let body = text(&number.to_string());
                    let reply = client.call(ECHO, PATH, INTERFACE, "Twice", body).await.unwrap();
                    assert_eq!(reply.text(), Some(number.to_string().repeat(2).as_str()));
                })
            })
            .collect();
        for call in calls {
            soon("no reply", call).await.unwrap();
        }
    }
    assert_eq!(client.statistics().calls_open, 0);
}

#[test(tokio::test)]
async fn a_call_ends_after_its_deadline_and_a_reply_that_comes_later_is_discarded() {
    let bus = Bus::start();
    let service = connect(&bus).await;
    let mut calls = service.calls();
    let brief = Duration::from_millis(10);
    let client = with(&bus, ConnectionOptions { call_timeout: brief, ..ConnectionOptions::default() });
    let error = client.call(service.unique_name(), PATH, INTERFACE, "Slow", text("")).await.unwrap_err();
    assert_eq!(error.name(), Some(name::NO_REPLY), "{error}");
    // Dropped by the program before its deadline.
    let patient = connect(&bus).await;
    let dropped = patient.call(service.unique_name(), PATH, INTERFACE, "Dropped", text(""));
    assert!(tokio::time::timeout(brief, dropped).await.is_err());
    assert_eq!(patient.statistics().calls_open, 0);
    for member in ["Slow", "Dropped"] {
        let late = soon("no call came", calls.next()).await.unwrap().unwrap();
        assert_eq!(late.header().member, Some(member));
        service.reply(&late, text("late")).await.unwrap();
    }
    // The late reply is before this one, and nobody's.
    let call = patient.call(service.unique_name(), PATH, INTERFACE, "Answered", text(""));
    let answer = async {
        let call = calls.next().await.unwrap().unwrap();
        service.reply(&call, text("in time")).await.unwrap();
    };
    let (reply, ()) = soon("no reply", async { tokio::join!(call, answer) }).await;
    assert_eq!(reply.unwrap().text(), Some("in time"));
}

#[test(tokio::test)]
async fn each_stream_has_the_signals_of_its_rule_in_the_order_of_the_bus() {
    let bus = Bus::start();
    let (sender, listener) = (connect(&bus).await, connect(&bus).await);
    let rule = |member: &str| format!("interface='{INTERFACE}',member='{member}'");
    let mut even = listener.add_match(&rule("Even")).await.unwrap();
    let mut odd = listener.add_match(&rule("Odd")).await.unwrap();
    let mut all = listener.add_match(RULE).await.unwrap();
    for number in 0..100u32 {
        let member = if number.is_multiple_of(2) { "Even" } else { "Odd" };
        sender.emit(PATH, INTERFACE, member, Body::default().u32(number)).await.unwrap();
    }
    let number = |message: &Message| match message.rule_args()[..] {
        [Arg::U32(number)] => number,
        _ => panic!("{message:?}"),
    };
    for expected in 0..50 {
        assert_eq!(number(&next(&mut odd).await), 2 * expected + 1);
        assert_eq!(number(&next(&mut even).await), 2 * expected);
    }
    for expected in 0..100 {
        let message = next(&mut all).await;
        assert_eq!((number(&message), message.header().sender), (expected, Some(sender.unique_name())));
    }
    // The rule of a stream that is dropped goes, an equal one of another stream stays.
    let mut equal = listener.add_match(&rule("Even")).await.unwrap();
    drop((even, all, odd));
    sender.emit(PATH, INTERFACE, "Even", Body::default().u32(1)).await.unwrap();
    assert_eq!(number(&next(&mut equal).await), 1);
    drop(equal);
    // The task of the connection removes the rule at the bus; then there is none to remove.
    tokio::task::yield_now().await;
    let call = listener.call(DRIVER, DRIVER_PATH, DRIVER, "RemoveMatch", text(&rule("Even")));
    let error = soon("no answer", call).await.unwrap_err();
    assert_eq!(error.name(), Some(name::MATCH_RULE_NOT_FOUND), "{error}");
}

#[test(tokio::test)]
async fn a_name_is_had_lost_and_its_loss_is_a_signal() {
    let bus = Bus::start();
    let (first, second) = (connect(&bus).await, connect(&bus).await);
    let mut lost = first.add_match("member='NameLost'").await.unwrap();
    assert_eq!(first.request_name(ECHO, ALLOW_REPLACEMENT).await.unwrap(), NameReply::PrimaryOwner);
    assert_eq!(second.request_name(ECHO, DO_NOT_QUEUE).await.unwrap(), NameReply::Exists);
    assert_eq!(second.request_name(ECHO, REPLACE_EXISTING).await.unwrap(), NameReply::PrimaryOwner);
    assert_eq!(next(&mut lost).await.text(), Some(ECHO));
    assert_eq!(first.name_owner(ECHO).as_deref(), Some(second.unique_name()));
    assert!(first.list_names().contains(&ECHO.to_owned()));
    assert_eq!(second.release_name("com.example.Other").await.unwrap(), ReleaseReply::NonExistent);
}

#[test(tokio::test)]
async fn calls_that_no_stream_takes_are_refused_and_a_ping_is_answered() {
    let bus = Bus::start();
    let (passive, client) = (connect(&bus).await, connect(&bus).await);
    let ask = |interface, member| client.call(passive.unique_name(), PATH, interface, member, text(""));
    let refused = soon("no answer", ask(INTERFACE, "Echo")).await.unwrap_err();
    assert_eq!(refused.name(), Some(name::UNKNOWN_METHOD), "{refused}");
    soon("no answer", ask(PEER, "Ping")).await.unwrap();
    // Refused when the last stream is dropped, if not before.
    let calls = passive.calls();
    let (refused, ()) = soon_with("no answer", ask(INTERFACE, "Echo"), async || drop(calls)).await;
    assert_eq!(refused.unwrap_err().name(), Some(name::UNKNOWN_METHOD));
}

#[test(tokio::test)]
async fn described_objects_are_answered_whether_a_stream_takes_calls_or_not() {
    const INTROSPECTABLE: &str = "org.freedesktop.DBus.Introspectable";
    let bus = Bus::start();
    let (service, client) = (connect(&bus).await, connect(&bus).await);
    let ask = |path| client.call(service.unique_name(), path, INTROSPECTABLE, "Introspect", text(""));
    let described = async |path| {
        let reply = soon("no answer", ask(path)).await;
        reply.map(|reply| reply.text().unwrap().matches("<interface").count())
    };
    assert_eq!(described(PATH).await.unwrap(), 2, "without a stream, and nothing is described");
    let mut calls = service.calls();
    let refuse = async {
        let call = calls.next().await.unwrap().unwrap();
        service.reply_error(&call, name::UNKNOWN_METHOD, "no").await.unwrap();
    };
    let (default, ()) = tokio::join!(described("/"), refuse);
    assert_eq!(default.unwrap(), 2, "the program does not know it, and nothing is described");
    service.describe(PATH, "<interface name=\"com.example.Test\"/>").unwrap();
    for (path, interfaces) in [(PATH, 3), ("/", 2)] {
        assert_eq!(described(path).await.unwrap(), interfaces, "{path}");
    }
    drop(calls);
    assert_eq!(described(PATH).await.unwrap(), 3, "without a stream");
    let refused = described("/nowhere").await.unwrap_err();
    assert_eq!(refused.name(), Some(name::UNKNOWN_METHOD), "{refused}");
}

/// Outboxes and the order log are full all the time, and one thread serves both sides.
#[test(tokio::test(flavor = "current_thread"))]
async fn two_members_that_flood_each_other_in_one_thread_get_on() {
    let bus = Bus::start_small();
    let (one, two) = (with(&bus, small()), with(&bus, small()));
    let names = [one.unique_name().to_owned(), two.unique_name().to_owned()];
    let flood = |connection: AsyncConnection, other: String| {
        let mut calls = connection.calls();
        let serve = {
            let connection = connection.clone();
            tokio::spawn(async move {
                for _ in 0..200 {
                    let call = calls.next().await.unwrap().unwrap();
                    connection.reply(&call, Body::default().blob(call.body())).await.unwrap();
                }
            })
        };
        async move {
            let all: Vec<_> = (0..200)
                .map(|_| {
                    let (connection, other) = (connection.clone(), other.clone());
                    let body = Body::default().blob(&[7; 600]);
                    tokio::spawn(async move { connection.call(&other, PATH, INTERFACE, "Take", body).await })
                })
                .collect();
            for call in all {
                call.await.unwrap().unwrap();
            }
            serve.await.unwrap();
        }
    };
    let [first, second] = names;
    let both = async { tokio::join!(flood(one, second), flood(two, first)) };
    soon("the flood does not come through", both).await;
}

#[test(tokio::test)]
async fn members_go_on_when_the_bus_ends_and_are_told_once() {
    let bus = Bus::start();
    let (service, client) = (connect(&bus).await, connect(&bus).await);
    service.request_name(ECHO, 0).await.unwrap();
    let mut calls = service.calls();
    let mut signals = client.add_match(RULE).await.unwrap();
    let mut other = client.add_match("member='Other'").await.unwrap();
    // Both know each other before the end, also how to wake each other: their tasks wait when the call comes.
    a_moment().await;
    let serve = async |calls: &mut causeway_bus::Calls| {
        let call = calls.next().await.unwrap().unwrap();
        service.emit(PATH, INTERFACE, "Called", text("")).await.unwrap();
        service.reply(&call, text("answer")).await.unwrap();
    };
    let ask = || client.call(ECHO, PATH, INTERFACE, "Ask", text(""));
    let mut bus = Some(bus);
    for is_over in [false, true] {
        let (reply, ()) = soon("no reply", async { tokio::join!(ask(), serve(&mut calls)) }).await;
        assert_eq!(reply.unwrap().text(), Some("answer"), "is over: {is_over}");
        assert_eq!(next(&mut signals).await.header().member, Some("Called"), "is over: {is_over}");
        if let Some(bus) = bus.take() {
            tokio::task::spawn_blocking(move || drop(bus)).await.unwrap();
            assert!(matches!(soon("not told", signals.next()).await, Some(Err(Error::AuthorityGone))));
            assert!(matches!(soon("not told", other.next()).await, Some(Err(Error::AuthorityGone))));
            assert!(matches!(soon("not told", calls.next()).await, Some(Err(Error::AuthorityGone))));
        }
    }
    let gone = soon("no answer", client.request_name(ECHO, 0)).await.map(drop);
    assert!(matches!(gone, Err(Error::AuthorityGone)), "{gone:?}");
    let gone = soon("no answer", client.add_match("member='More'")).await.map(drop);
    assert!(matches!(gone, Err(Error::AuthorityGone)), "{gone:?}");
}

#[test(tokio::test)]
async fn a_call_of_the_bus_itself_ends_with_the_bus() {
    let mut served = Served::start(module_path!());
    let client = AsyncConnection::open(served.path()).await.unwrap();
    client.request_name(ECHO, 0).await.unwrap();
    // It stands still, so that it cannot answer.
    served.process.stop();
    let release = client.release_name(ECHO);
    let (gone, ()) = soon_with("no end", release, async || served.process.kill()).await;
    assert!(matches!(gone, Err(Error::AuthorityGone)), "{gone:?}");
}

#[test(tokio::test)]
async fn a_program_that_takes_nothing_loses_its_connection_and_all_its_tasks_learn_why() {
    let bus = Bus::start();
    let options = ConnectionOptions { inbox_bytes: 10_000, ..ConnectionOptions::default() };
    let lazy = with(&bus, options);
    let mut signals = lazy.add_match(RULE).await.unwrap();
    let mute = connect(&bus).await;
    let _never = mute.calls();
    let waits = {
        let (lazy, mute) = (lazy.clone(), mute.unique_name().to_owned());
        tokio::spawn(async move { lazy.call(&mute, PATH, INTERFACE, "Never", text("")).await })
    };
    let sender = connect(&bus).await;
    for _ in 0..50 {
        sender.emit(PATH, INTERFACE, "Long", Body::default().blob(&[1; 1000])).await.unwrap();
    }
    let ended = soon("the call goes on", waits).await.unwrap().unwrap_err();
    assert!(matches!(&ended, Error::Disconnected(why) if why.contains("10000 bytes")), "{ended}");
    let mut last = None;
    while let Some(signal) = soon("the stream goes on", signals.next()).await {
        last = Some(signal);
    }
    assert!(matches!(last, Some(Err(Error::Disconnected(_)))), "{last:?}");
    assert!(matches!(lazy.emit(PATH, INTERFACE, "More", text("")).await, Err(Error::Disconnected(_))));
}

#[test(tokio::test)]
async fn a_member_leaves_the_bus_with_its_last_handle_and_stream() {
    let bus = Bus::start();
    let watcher = connect(&bus).await;
    let leaver = connect(&bus).await;
    leaver.request_name(ECHO, 0).await.unwrap();
    let rule = format!("member='NameOwnerChanged',arg0='{}'", leaver.unique_name());
    let mut changes = watcher.add_match(&rule).await.unwrap();
    let (second, calls) = (leaver.clone(), leaver.calls());
    drop(leaver);
    drop(second);
    assert!(watcher.name_owner(ECHO).is_some());
    drop(calls);
    // Its arrival may come first.
    while !matches!(next(&mut changes).await.rule_args()[..], [_, Arg::Text(_), Arg::Text("")]) {}
}

/// Neither an idle member nor one whose bus has ended keeps the thread busy.
#[test]
fn a_member_without_work_lets_its_thread_sleep() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let bus = Bus::start();
        let member = connect(&bus).await;
        let mut signals = member.add_match(RULE).await.unwrap();
        let sleeps = async || {
            let before = tokio::runtime::Handle::current().metrics().worker_park_count(0);
            tokio::time::sleep(Duration::from_millis(50)).await;
            tokio::runtime::Handle::current().metrics().worker_park_count(0) - before
        };
        let with_bus = sleeps().await;
        tokio::task::spawn_blocking(move || drop(bus)).await.unwrap();
        assert!(matches!(soon("not told", signals.next()).await, Some(Err(Error::AuthorityGone))));
        let without_bus = sleeps().await;
        assert!(with_bus <= 10 && without_bus <= 10, "the thread woke {with_bus} and {without_bus} times");
    });
}

/// The rule is known to the member, and the bus, which would keep the change of the name for it, has not heard of it: the call waits for space.
#[test(tokio::test)]
async fn a_change_of_owner_is_seen_that_was_overwritten_while_its_rule_was_being_registered() {
    let bus = Bus::start();
    let (mut service, mut noisy, mut laggard) = (bus.member(), bus.client(), bus.member());
    laggard.add_match(RULE).unwrap();
    let listener = AsyncConnection::new(bus.member_with(small())).unwrap();
    // Until its outbox is full of what the other one does not read.
    loop {
        let emitted = pin!(listener.emit(PATH, INTERFACE, "M", Body::default()));
        if now(emitted).await.is_none() {
            break;
        }
    }
    let rule = rule();
    let mut adding = pin!(listener.add_match(&rule));
    assert!(now(adding.as_mut()).await.is_none(), "the call did not wait for space");
    service.request_name(NAME, 0).unwrap();
    (0..2).for_each(|_| noise(&mut noisy));
    while laggard.next_now().unwrap().is_some() {}
    let mut signals = soon("the rule is not registered", adding).await.unwrap();
    service.emit(PATH, INTERFACE, "Tick", Body::default().u32(7)).unwrap();
    let tick = soon("deaf", signals.next()).await.unwrap().unwrap();
    assert_eq!(tick.rule_args(), [Arg::U32(7)]);
}

/// What a future has at once, and nothing if it must wait.
async fn now<F: Future>(mut future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}
