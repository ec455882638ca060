//! What a service says of itself: to members, to D-Bus clients, and to the tools of others.

use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;

use causeway_bus::wire::{Body, Builder};
use causeway_bus::{Call, Connection, Error, Refusal, name};

use crate::support::*;

const CLOCK: &str = "com.example.Clock";
const OBJECT: &str = "/com/example/Clock";
const DESCRIPTION: &str = "<interface name=\"com.example.Clock\"><method name=\"Seconds\">\
    <arg type=\"u\" direction=\"out\"/></method></interface>";
const INTROSPECTABLE: &str = "org.freedesktop.DBus.Introspectable";

type Answer = Result<Body, Refusal>;

fn refuse(_: &Call) -> Answer {
    Err(Refusal::new(name::UNKNOWN_METHOD, "the program does not know it"))
}

/// Serves in a thread until the bus ends. The service has described these objects.
fn serve(bus: &Bus, objects: &[&str], handle: fn(&Call) -> Answer) -> JoinHandle<()> {
    let mut service = bus.member();
    for object in objects {
        service.describe(object, DESCRIPTION).unwrap();
    }
    service.request_name(CLOCK, 0).unwrap();
    std::thread::spawn(move || {
        let result = service.serve(&AtomicBool::new(false), |_, call| handle(call));
        assert!(matches!(result, Err(Error::AuthorityGone)), "{result:?}");
    })
}

fn introspect(member: &mut Connection, path: &str) -> Result<String, Error> {
    let reply = member.call(CLOCK, path, INTROSPECTABLE, "Introspect", Body::default())?;
    Ok(reply.text().expect("a document").to_owned())
}

/// Names of the elements with this tag.
fn named<'a>(document: &'a str, tag: &str) -> Vec<&'a str> {
    let begin = format!("<{tag} name=\"");
    document.split(&begin).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

#[test]
fn described_objects_are_found_from_the_root() {
    let bus = Bus::start();
    let service = serve(&bus, &[OBJECT, "/com/example/Other"], refuse);
    let mut member = bus.member();
    for (path, below) in [("/", &["com"][..]), ("/com", &["example"]), ("/com/example", &["Clock", "Other"])]
    {
        let document = introspect(&mut member, path).unwrap();
        assert_eq!(named(&document, "node"), below, "{path}");
        assert_eq!(named(&document, "interface"), [PEER, INTROSPECTABLE], "{path}");
    }
    let document = introspect(&mut member, OBJECT).unwrap();
    assert_eq!(named(&document, "interface"), [PEER, INTROSPECTABLE, CLOCK]);
    assert!(named(&document, "node").is_empty());
    // One that the program has not described is the program's; a ping is answered there, too.
    let refused = introspect(&mut member, "/com/exam").unwrap_err();
    assert_eq!(refused.to_string(), format!("{}: the program does not know it", name::UNKNOWN_METHOD));
    member.call(CLOCK, "/com/exam", PEER, "Ping", Body::default()).unwrap();
    drop(bus);
    service.join().unwrap();
}

#[test]
fn a_service_that_describes_nothing_has_the_interfaces_of_the_library() {
    let bus = Bus::start();
    let _service = serve(&bus, &[], refuse);
    let document = introspect(&mut bus.member(), "/").unwrap();
    assert_eq!(named(&document, "interface"), [PEER, INTROSPECTABLE]);
    assert_eq!(named(&document, "method"), ["Ping", "GetMachineId", "Introspect"]);
    assert!(named(&document, "node").is_empty());
}

#[test]
fn a_program_may_describe_objects_when_it_is_asked() {
    let bus = Bus::start();
    let _service = serve(&bus, &[OBJECT], |call| match (call.header().member, call.header().path) {
        (Some("Introspect"), Some("/own")) => Ok(text("<node/>")),
        _ => refuse(call),
    });
    let mut member = bus.member();
    assert_eq!(introspect(&mut member, "/own").unwrap(), "<node/>");
    assert_eq!(named(&introspect(&mut member, OBJECT).unwrap(), "interface").len(), 3);
}

#[test]
fn a_program_with_a_loop_of_its_own_refuses_what_it_does_not_know_and_the_library_answers() {
    let bus = Bus::start();
    let (mut service, mut member) = (bus.member(), bus.member());
    let callee = service.unique_name().to_owned();
    let mut ask = |interface, method| {
        let serial = member.start_call(&callee, "/", interface, method, Body::default()).unwrap();
        let asked = call(&mut service);
        service.reply_error(&asked, name::UNKNOWN_METHOD, "no").unwrap();
        member.finish_call(serial, PATIENCE)
    };
    ask(PEER, "Ping").unwrap();
    assert_eq!(named(ask(INTROSPECTABLE, "Introspect").unwrap().text().unwrap(), "interface").len(), 2);
    for (interface, method) in [(PEER, "Pong"), (CLOCK, "Ping"), (CLOCK, "Introspect")] {
        let refused = ask(interface, method).unwrap_err();
        assert_eq!(refused.to_string(), format!("{}: no", name::UNKNOWN_METHOD), "{interface}.{method}");
    }
}

#[test]
fn only_interfaces_of_an_object_describe_it() {
    let bus = Bus::start();
    let mut service = bus.member();
    for (path, interfaces) in [("clock", DESCRIPTION), (OBJECT, "<node/>"), (OBJECT, "Seconds() -> u")] {
        let refused = service.describe(path, interfaces).unwrap_err();
        assert!(matches!(&refused, Error::Invalid(why) if why.contains(path)), "{refused}");
    }
    service.describe(OBJECT, "").unwrap();
}

#[test]
fn clients_and_their_tools_see_the_objects_of_a_member() {
    let bus = Bus::start();
    let _service = serve(&bus, &[OBJECT], refuse);
    let mut client = bus.client();
    let introspect = Builder::call(OBJECT, "Introspect").interface(INTROSPECTABLE).destination(CLOCK);
    let reply = client.call(&introspect, PATIENCE).unwrap();
    assert_eq!(named(&texts(&reply)[0], "interface"), [PEER, INTROSPECTABLE, CLOCK]);
    let ping = Builder::call("/nowhere", "Ping").interface(PEER).destination(CLOCK);
    client.call(&ping, PATIENCE).unwrap();
    if !has_program("busctl") {
        return;
    }
    let address = format!("--address={}", bus.address);
    let busctl = |args: &[&str]| {
        let mut command = Command::new("busctl");
        command.args([&address, "--no-pager", "--full"]).args(args).stdin(Stdio::null());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let tree = busctl(&["tree", CLOCK]);
    assert!(tree.contains(OBJECT), "{tree}");
    let methods = busctl(&["introspect", CLOCK, OBJECT]);
    for method in [".Seconds", ".Ping", ".GetMachineId", ".Introspect"] {
        assert!(methods.lines().any(|line| line.starts_with(method)), "{methods}");
    }
}
