//! What a service does while it answers: emit signals, keep properties, call others and answer later.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use causeway_bus::wire::{Body, Value, Variant};
use causeway_bus::{Answer, Call, Connection, ConnectionOptions, Context, Error, Message, Refusal, name};

use crate::support::*;

const SERVICE: &str = "com.example.Service";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
const DESCRIPTION: &str = r#"
    <interface name="com.example.Test">
      <property name="Count" type="u" access="read"/>
      <property name="Names" type="as" access="readwrite"/>
      <property name="Secret" type="s" access="write"/>
      <property name="Now" type="t" access="read"/>
      <property name="Large" type="ay" access="read">
        <annotation name="org.freedesktop.DBus.Property.EmitsChangedSignal" value="invalidates"/>
      </property>
      <property name="Fixed" type="v" access="read">
        <annotation name="org.freedesktop.DBus.Property.EmitsChangedSignal" value="const"/>
      </property>
    </interface>"#;

type Answered = Result<Answer, Refusal>;

/// Serves in a thread until `Quit` is called; `begin` is done before the name is there.
fn serve(
    bus: &Bus,
    options: ConnectionOptions,
    begin: fn(&mut Connection),
    handle: fn(&mut Context<'_>, &Call) -> Answered,
) -> JoinHandle<()> {
    let mut service = bus.member_with(options);
    begin(&mut service);
    service.request_name(SERVICE, 0).unwrap();
    std::thread::spawn(move || {
        let stop = AtomicBool::new(false);
        let served = service.serve(&stop, |bus, call| match call.header().member {
            Some("Quit") => {
                stop.store(true, Ordering::Relaxed);
                Ok(Body::default().into())
            }
            _ => handle(bus, call),
        });
        assert!(matches!(served, Ok(()) | Err(Error::AuthorityGone)), "{served:?}");
    })
}

fn unknown() -> Answered {
    Err(Refusal::new(name::UNKNOWN_METHOD, "no"))
}

fn ask(member: &mut Connection, interface: &str, method: &str, body: Body) -> Result<Message, Error> {
    member.call(SERVICE, PATH, interface, method, body)
}

fn quit(member: &mut Connection, service: JoinHandle<()>) {
    ask(member, INTERFACE, "Quit", Body::default()).unwrap();
    service.join().unwrap();
}

fn describe(service: &mut Connection) {
    service.describe(PATH, DESCRIPTION).unwrap();
    service.set_property(PATH, INTERFACE, "Count", &0u32).unwrap();
    service.set_property(PATH, INTERFACE, "Names", &["a"]).unwrap();
    service.set_property(PATH, INTERFACE, "Secret", "x").unwrap();
    service.set_property(PATH, INTERFACE, "Large", &[0u8; 3]).unwrap();
    service.set_property(PATH, INTERFACE, "Fixed", &Variant(1.5)).unwrap();
}

/// `Touch` changes three properties; names may be set as long as there are few, and `Now` the program answers itself.
fn with_properties(bus: &mut Context<'_>, call: &Call) -> Answered {
    match (call.header().interface, call.header().member) {
        (_, Some("Touch")) => {
            let count: u32 = bus.property(PATH, INTERFACE, "Count")?;
            bus.set_property(PATH, INTERFACE, "Count", &(count + 1))?;
            bus.set_property(PATH, INTERFACE, "Count", &(count + 1))?;
            bus.set_property(PATH, INTERFACE, "Large", &[1u8; 3])?;
            bus.set_property(PATH, INTERFACE, "Fixed", &Variant(count))?;
            bus.emit(PATH, INTERFACE, "Touched", Body::of(&(count, "hand"))?)?;
            Ok(Body::default().into())
        }
        (Some(PROPERTIES), Some("Get")) => Ok(Body::of(&Variant(7u64))?.into()),
        (Some(PROPERTIES), Some("Set")) => match call.args::<(&str, &str, Variant<Vec<&str>>)>()? {
            (_, "Names", Variant(names)) if names.len() < 3 => Ok(Body::default().into()),
            _ => Err(Refusal::new(name::LIMITS_EXCEEDED, "too many names")),
        },
        _ => unknown(),
    }
}

/// What `PropertiesChanged` says: values, and names whose values it does not say.
fn changed(listener: &mut Connection) -> (Vec<(String, String)>, Vec<String>) {
    let signal = signal_of(listener, PROPERTIES);
    let (interface, values, names) = signal.args::<(&str, BTreeMap<&str, Value<'_>>, Vec<String>)>().unwrap();
    assert_eq!((interface, signal.header().path), (INTERFACE, Some(PATH)));
    (values.into_iter().map(|(name, value)| (name.to_owned(), value.to_string())).collect(), names)
}

fn said(name: &str, value: &str) -> (Vec<(String, String)>, Vec<String>) {
    (vec![(name.to_owned(), value.to_owned())], vec![])
}

#[test]
fn a_handler_sets_properties_and_emits_signals_and_all_hear_of_it_in_order() {
    let bus = Bus::start();
    let (mut member, mut listener) = (bus.member(), bus.member());
    let service = serve(&bus, ConnectionOptions::default(), describe, with_properties);
    listener.add_match(&format!("type='signal',sender='{SERVICE}'")).unwrap();
    for count in 0..2u32 {
        ask(&mut member, INTERFACE, "Touch", Body::default()).unwrap();
        // What is const, or the same, is not announced.
        assert_eq!(changed(&mut listener), said("Count", &(count + 1).to_string()));
        if count == 0 {
            assert_eq!(changed(&mut listener), (vec![], vec!["Large".to_owned()]));
        }
        let touched = signal_of(&mut listener, INTERFACE);
        assert_eq!(touched.args::<(u32, &str)>().unwrap(), (count, "hand"));
    }
    quit(&mut member, service);
}

#[test]
fn the_library_answers_for_the_properties_that_it_keeps_and_the_program_for_the_others() {
    let bus = Bus::start();
    let mut member = bus.member();
    let service = serve(&bus, ConnectionOptions::default(), describe, with_properties);
    let mut get = |interface: &str, property: &str| {
        let reply = ask(&mut member, PROPERTIES, "Get", Body::of(&(interface, property)).unwrap());
        reply.map(|reply| reply.args::<Value<'_>>().unwrap().to_string()).map_err(|error| error.to_string())
    };
    assert_eq!(get(INTERFACE, "Names"), Ok("1 \"a\"".to_owned()));
    assert_eq!(get("", "Count"), Ok("0".to_owned()));
    assert_eq!(get(INTERFACE, "Fixed"), Ok("d 1.5".to_owned()), "a property of the type v");
    assert_eq!(get(INTERFACE, "Now"), Ok("7".to_owned()), "of the program");
    for (interface, property, why) in [
        (INTERFACE, "None", name::UNKNOWN_PROPERTY),
        ("a.B", "Count", name::UNKNOWN_PROPERTY),
        (INTERFACE, "Secret", name::FAILED),
    ] {
        assert!(get(interface, property).unwrap_err().starts_with(why), "{property}");
    }
    let all = ask(&mut member, PROPERTIES, "GetAll", Body::of(INTERFACE).unwrap()).unwrap();
    let all: BTreeMap<&str, Value<'_>> = all.args().unwrap();
    assert_eq!(all.keys().copied().collect::<Vec<_>>(), ["Count", "Fixed", "Large", "Names"]);
    let refused = ask(&mut member, PROPERTIES, "GetAll", Body::of(&1u8).unwrap()).unwrap_err();
    assert_eq!(refused.to_string(), format!("{}: expected \"s\", found \"y\"", name::INVALID_ARGS));
    let document =
        ask(&mut member, "org.freedesktop.DBus.Introspectable", "Introspect", Body::default()).unwrap();
    assert!(document.text().unwrap().contains("<interface name=\"org.freedesktop.DBus.Properties\">"));
    quit(&mut member, service);
}

#[test]
fn a_property_is_set_if_it_is_writable_of_its_type_and_the_program_agrees() {
    let bus = Bus::start();
    let (mut member, mut listener) = (bus.member(), bus.member());
    let service = serve(&bus, ConnectionOptions::default(), describe, with_properties);
    listener.add_match(&format!("type='signal',sender='{SERVICE}'")).unwrap();
    let set = |member: &mut Connection, property: &str, value: Value<'_>| {
        let body = Body::of(&(INTERFACE, property, value)).unwrap();
        ask(member, PROPERTIES, "Set", body).map(drop).map_err(|error| error.to_string())
    };
    let names = |names: &[&str]| Value::of(names).unwrap();
    for (property, value, why) in [
        ("Count", Value::U32(1), name::PROPERTY_READ_ONLY),
        ("None", Value::U32(1), name::UNKNOWN_PROPERTY),
        ("Names", Value::U32(1), name::INVALID_ARGS),
        ("Names", names(&["a", "b", "c"]), name::LIMITS_EXCEEDED),
        // What the program does not know it refuses.
        ("Secret", Value::Text("y".into()), name::INVALID_ARGS),
    ] {
        let refused = set(&mut member, property, value).unwrap_err();
        assert!(refused.starts_with(why), "{property}: {refused}");
    }
    let wrong = set(&mut member, "Names", Value::U32(1)).unwrap_err();
    assert!(wrong.ends_with("expected \"as\", found \"u\""), "{wrong}");
    set(&mut member, "Names", names(&["b", "c"])).unwrap();
    assert_eq!(changed(&mut listener), said("Names", "2 \"b\" \"c\""), "the first that is announced");
    quit(&mut member, service);
}

#[test]
fn a_program_that_keeps_its_properties_itself_is_asked_for_them() {
    let bus = Bus::start();
    let mut member = bus.member();
    let only_described = |service: &mut Connection| service.describe(PATH, DESCRIPTION).unwrap();
    let service =
        serve(&bus, ConnectionOptions::default(), only_described, |_, call| match call.header().member {
            Some("Get" | "Set" | "GetAll") => Ok(Body::of("of the program")?.into()),
            _ => unknown(),
        });
    for method in ["Get", "Set", "GetAll"] {
        let reply = ask(&mut member, PROPERTIES, method, Body::of(&(INTERFACE, "Count")).unwrap()).unwrap();
        assert_eq!(reply.args::<&str>().unwrap(), "of the program", "{method}");
    }
    quit(&mut member, service);
}

#[test]
fn descriptions_and_values_that_do_not_fit_are_refused_with_what_was_expected() {
    let bus = Bus::start();
    let mut service = bus.member();
    let of = |property: &str| format!("<interface name=\"a.B\"><property {property}/></interface>");
    for (property, why) in [
        ("name=\"P\" type=\"zz\" access=\"read\"", "no valid type: \"zz\""),
        ("name=\"P\" type=\"ss\" access=\"read\"", "no valid type: \"ss\""),
        ("name=\"P\" access=\"read\"", "no valid type: \"\""),
        ("name=\"P\" type=\"s\"", "needs access"),
        ("name=\"p.p\" type=\"s\" access=\"read\"", "a.B.p.p has no valid name"),
    ] {
        let refused = service.describe(PATH, &of(property)).unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
    describe(&mut service);
    let error = |result: Result<(), Error>| result.unwrap_err().to_string();
    let unknown = error(service.set_property(PATH, INTERFACE, "None", &1u8));
    assert_eq!(unknown, format!("the description of the object {PATH} has no property {INTERFACE}.None"));
    let mistyped = error(service.set_property(PATH, INTERFACE, "Count", "one"));
    assert_eq!(mistyped, "unexpected arguments: expected \"u\", found \"s\"");
    let mistyped = error(service.property::<String>(PATH, INTERFACE, "Count").map(drop));
    assert_eq!(mistyped, "unexpected arguments: expected \"s\", found \"u\"");
    assert!(
        error(service.property::<u64>(PATH, INTERFACE, "Now").map(drop)).ends_with("Now has no value yet")
    );
    // Described again, a property keeps its value if it has the same type.
    service.set_property(PATH, INTERFACE, "Count", &5u32).unwrap();
    service.describe(PATH, &DESCRIPTION.replace("type=\"as\"", "type=\"s\"")).unwrap();
    assert_eq!(service.property::<u32>(PATH, INTERFACE, "Count").unwrap(), 5);
    assert!(service.property::<String>(PATH, INTERFACE, "Names").is_err());
}

/// `Relay` calls somebody else and answers with its reply; what the other one says is what the caller gets. Meanwhile others are served.
fn relay(bus: &mut Context<'_>, call: &Call) -> Answered {
    match call.header().member {
        Some("Relay") => {
            let (destination, text): (&str, &str) = call.args()?;
            let (asked, body) = (call.clone(), Body::of(text)?);
            bus.call_then(destination, PATH, INTERFACE, "Echo", body, move |bus, reply| match reply {
                Ok(reply) => bus.reply(&asked, Body::of(&(reply.args::<&str>()?, "relayed"))?),
                Err(error) => {
                    let Refusal { name, text } = error.into();
                    bus.reply_error(&asked, &name, &text)
                }
            })?;
            Ok(Answer::Later)
        }
        Some("Now") => Ok(Body::default().into()),
        _ => unknown(),
    }
}

#[test]
fn a_handler_calls_another_service_without_waiting_and_answers_when_that_has() {
    let bus = Bus::start();
    let (mut member, mut other) = (bus.member(), bus.member());
    let service = serve(&bus, ConnectionOptions::default(), |_| {}, relay);
    let own = other.unique_name().to_owned();
    let body = Body::of(&(own.as_str(), "x")).unwrap();
    let serial = member.start_call(SERVICE, PATH, INTERFACE, "Relay", body.clone()).unwrap();
    let relayed = call(&mut other);
    // It serves others while it waits.
    ask(&mut member, INTERFACE, "Now", Body::default()).unwrap();
    assert!(!member.is_finished(serial).unwrap());
    other.reply(&relayed, Body::of(relayed.args::<&str>().unwrap()).unwrap()).unwrap();
    let reply = member.finish_call(serial, PATIENCE).unwrap();
    assert_eq!(reply.args::<(&str, &str)>().unwrap(), ("x", "relayed"));
    // An error is handed on, as is the end of the other one.
    let serial = member.start_call(SERVICE, PATH, INTERFACE, "Relay", body.clone()).unwrap();
    let relayed = call(&mut other);
    other.reply_error(&relayed, "a.Wrong", "as you wish").unwrap();
    assert_eq!(member.finish_call(serial, PATIENCE).unwrap_err().to_string(), "a.Wrong: as you wish");
    let serial = member.start_call(SERVICE, PATH, INTERFACE, "Relay", body).unwrap();
    call(&mut other);
    drop(other);
    assert_eq!(member.finish_call(serial, PATIENCE).unwrap_err().name(), Some(name::NO_REPLY));
    let nobody = Body::of(&("com.example.Nobody", "x")).unwrap();
    let refused = ask(&mut member, INTERFACE, "Relay", nobody).unwrap_err();
    assert_eq!(refused.name(), Some(name::SERVICE_UNKNOWN));
    quit(&mut member, service);
}

#[test]
fn a_call_of_a_handler_ends_with_its_timeout_and_what_comes_later_is_nobodys() {
    let bus = Bus::start();
    let (mut member, mut other) = (bus.member(), bus.member());
    let brief = ConnectionOptions { call_timeout: Duration::from_millis(50), ..ConnectionOptions::default() };
    let service = serve(&bus, brief, |_| {}, relay);
    let body = Body::of(&(other.unique_name(), "x")).unwrap();
    let refused = ask(&mut member, INTERFACE, "Relay", body).unwrap_err();
    assert_eq!(refused.to_string(), format!("{}: no reply within 50ms", name::NO_REPLY));
    let late = call(&mut other);
    other.reply(&late, Body::of("late").unwrap()).unwrap();
    ask(&mut member, INTERFACE, "Now", Body::default()).unwrap();
    quit(&mut member, service);
}

#[test]
fn what_a_handler_goes_on_with_may_share_its_state_and_ends_with_serving() {
    let bus = Bus::start();
    let (mut service, mut other) = (bus.member(), bus.member());
    let (destination, name) = (other.unique_name().to_owned(), service.unique_name().to_owned());
    let (stop, seen) = (AtomicBool::new(false), Rc::new(RefCell::new(Vec::new())));
    let asked = Cell::new(0);
    other.call_without_reply(&name, PATH, INTERFACE, "Ask", Body::default()).unwrap();
    other.call_without_reply(&name, PATH, INTERFACE, "Stop", Body::default()).unwrap();
    service
        .serve(&stop, |bus, call| {
            let seen = Rc::clone(&seen);
            asked.set(asked.get() + 1);
            stop.store(call.header().member == Some("Stop"), Ordering::Relaxed);
            bus.call_then(&destination, PATH, INTERFACE, "Echo", Body::default(), move |_, reply| {
                seen.borrow_mut().push(reply.is_ok());
                Ok(())
            })?;
            Ok(Answer::Later)
        })
        .unwrap();
    assert_eq!((asked.get(), seen.borrow().len(), Rc::strong_count(&seen)), (2, 0, 1));
    // Their replies come to nobody.
    for _ in 0..2 {
        let late = call(&mut other);
        other.reply(&late, Body::default()).unwrap();
    }
    other.emit(PATH, INTERFACE, "End", Body::default()).unwrap();
    assert!(service.next_now().unwrap().is_none());
}

#[test]
fn a_program_with_a_loop_of_its_own_lets_the_library_answer_what_it_knows() {
    let bus = Bus::start();
    let (mut service, mut member) = (bus.member(), bus.member());
    describe(&mut service);
    let callee = service.unique_name().to_owned();
    let mut asked = |interface: &str, method: &str, body: Body| {
        let serial = member.start_call(&callee, PATH, interface, method, body).unwrap();
        let asked = call(&mut service);
        let is_standard = service.answer_standard(&asked).unwrap();
        if !is_standard {
            service.reply(&asked, Body::default()).unwrap();
        }
        (is_standard, member.finish_call(serial, PATIENCE).map_err(|error| error.to_string()))
    };
    let (is_standard, reply) = asked(PROPERTIES, "Get", Body::of(&(INTERFACE, "Count")).unwrap());
    assert!(is_standard);
    assert_eq!(reply.unwrap().args::<Variant<u32>>().unwrap(), Variant(0));
    assert!(!asked(INTERFACE, "Own", Body::default()).0);
    let names = (INTERFACE, "Names", Variant(["z"]));
    assert!(!asked(PROPERTIES, "Set", Body::of(&names).unwrap()).0, "the program is asked");
    let count = (INTERFACE, "Count", Variant(1u32));
    assert!(
        asked(PROPERTIES, "Set", Body::of(&count).unwrap())
            .1
            .unwrap_err()
            .starts_with(name::PROPERTY_READ_ONLY)
    );
    assert_eq!(service.property::<Vec<String>>(PATH, INTERFACE, "Names").unwrap(), ["z"]);
}

#[cfg(feature = "zbus")]
#[test(tokio::test)]
async fn properties_of_a_program_of_tokio_are_kept_and_announced_alike() {
    use std::collections::HashMap;

    let bus = Bus::start();
    let service = causeway_bus::AsyncConnection::open(bus.path()).await.unwrap();
    service.describe(PATH, DESCRIPTION).unwrap();
    service.set_property(PATH, INTERFACE, "Names", &["a"]).await.unwrap();
    service.set_property(PATH, INTERFACE, "Count", &1u32).await.unwrap();
    let client = causeway_bus::AsyncConnection::open(bus.path()).await.unwrap();
    let mut changes = client.add_match("type='signal',member='PropertiesChanged'").await.unwrap();
    service.set_property(PATH, INTERFACE, "Count", &2u32).await.unwrap();
    let change = changes.next().await.unwrap().unwrap();
    let expected = (INTERFACE, HashMap::from([("Count", Variant(2u32))]), Vec::<&str>::new());
    assert_eq!(change.args::<(&str, HashMap<&str, Variant<u32>>, Vec<&str>)>().unwrap(), expected);
    let mut calls = service.calls();
    let body = Body::of(&(INTERFACE, "Names", Variant(["b"]))).unwrap();
    let set = client.call(service.unique_name(), PATH, PROPERTIES, "Set", body);
    let accept = async {
        let set = calls.next().await.unwrap().unwrap();
        service.reply(&set, Body::default()).await.unwrap();
    };
    tokio::join!(async { set.await.unwrap() }, accept);
    let change = changes.next().await.unwrap().unwrap();
    let expected = (INTERFACE, HashMap::from([("Names", Variant(vec!["b"]))]), Vec::<&str>::new());
    assert_eq!(change.args::<(&str, HashMap<&str, Variant<Vec<&str>>>, Vec<&str>)>().unwrap(), expected);
    assert_eq!(service.property::<Vec<String>>(PATH, INTERFACE, "Names").unwrap(), ["b"]);
    let get = Body::of(&(INTERFACE, "Count")).unwrap();
    let reply = client.call(service.unique_name(), PATH, PROPERTIES, "Get", get).await.unwrap();
    assert_eq!(reply.args::<Variant<u32>>().unwrap(), Variant(2));
}
