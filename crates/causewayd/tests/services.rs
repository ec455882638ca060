//! Services that are started by their `.service` files. The service is this test program, started again.

mod common;

use std::path::Path;
use std::time::{Duration, SystemTime};

use common::{Broker, PATIENCE, driver_call, number, refusal, request_name, texts, wait_for};
use weighbridge_dbus::wire::{Body, Builder, Header, Kind, Marshal};
use weighbridge_dbus_client::Connection;

/// The variable by which a started test knows that it is a service.
const IS_SERVICE: &str = "CAUSEWAYD_TEST_SERVICE";

/// A bus with services `(name, program)`.
fn broker(folder: &Path, services: &[(&str, &str)], settings: &str) -> Broker {
    for (name, exec) in services {
        let text = format!("[D-BUS Service]\nName={name}\nExec={exec}\n");
        std::fs::write(folder.join(format!("{name}.service")), text).unwrap();
    }
    Broker::configured(&format!("<servicedir>{}</servicedir>{settings}", folder.display()))
}

/// Takes its name and answers one call with an argument of its environment, if it is started as a service; as a test it has nothing to do.
#[test]
fn the_service_itself() {
    let Ok(word) = std::env::var(IS_SERVICE) else { return };
    let mut connection = Connection::open(&std::env::var("DBUS_STARTER_ADDRESS").unwrap()).unwrap();
    request_name(&mut connection, "a.Service", 0);
    for _ in 0..2 {
        let call = wait_for(&mut connection, |header| header.member == Some("Say"));
        let header = Header::parse(&call).unwrap();
        let body = Body::default().text(&word).text(texts(&call).first().map_or("", String::as_str));
        connection
            .send(&Builder::reply(header.serial).destination(header.sender.unwrap()).body(body))
            .unwrap();
    }
    // The bus has the last answer when it answers this.
    connection.ask_driver("GetId", Body::default()).unwrap();
}

#[test]
fn a_call_starts_the_service_and_reaches_it_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let own = std::env::current_exe().unwrap();
    let exec = format!("'{}' --exact the_service_itself --test-threads 1", own.display());
    let broker = broker(folder.path(), &[("a.Service", &exec)], "");
    let mut client = broker.open();
    let mut variables = Marshal::default();
    variables.array(8, |out| {
        out.align(8);
        out.text(IS_SERVICE);
        out.text("hello");
    });
    let update = driver_call("UpdateActivationEnvironment").body(variables.into_body("a{ss}"));
    client.call(&update, PATIENCE).unwrap();
    let names = client.ask_driver("ListActivatableNames", Body::default()).unwrap();
    assert!(names.windows(9).any(|part| part == b"a.Service"));
    // Two calls and a start wait for the same program.
    let say =
        |word: &str| Builder::call("/", "Say").destination("a.Service").body(Body::default().text(word));
    let first = client.send(&say("one")).unwrap();
    let start = client
        .send(&driver_call("StartServiceByName").body(Body::default().text("a.Service").u32(0)))
        .unwrap();
    let second = client.send(&say("two")).unwrap();
    let mut answers = Vec::new();
    while answers.len() < 3 {
        let answer = wait_for(&mut client, |header| header.reply_serial.is_some());
        let header = Header::parse(&answer).unwrap();
        assert_eq!(header.kind, Kind::MethodReturn, "{:?}", texts(&answer));
        answers.push((header.reply_serial.unwrap(), texts(&answer), number(&answer)));
    }
    answers.sort();
    let said = |word: &str| vec!["hello".to_owned(), word.to_owned()];
    assert_eq!(answers, [(first, said("one"), None), (start, vec![], Some(1)), (second, said("two"), None)]);
}

#[test]
fn a_service_that_fails_is_an_error_to_all_that_wait_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let services = [
        ("a.Dies", "/bin/sh -c 'exit 3'"),
        ("a.IsKilled", "/bin/sh -c 'kill -9 $$'"),
        ("a.Missing", "/no/such/program"),
        ("a.TakesNoName", "/bin/sh -c 'exit 0'"),
        ("a.IsSlow", "/bin/sleep 1000"),
    ];
    let broker = broker(folder.path(), &services, "<limit name='service_start_timeout'>300</limit>");
    let mut client = broker.open();
    for (name, error) in [
        ("a.Dies", "Spawn.ChildExited"),
        ("a.IsKilled", "Spawn.ChildSignaled"),
        ("a.Missing", "Spawn.ExecFailed"),
        ("a.TakesNoName", "TimedOut"),
        ("a.IsSlow", "TimedOut"),
        ("a.Unknown", "ServiceUnknown"),
    ] {
        let call = Builder::call("/", "M").destination(name);
        let start = driver_call("StartServiceByName").body(Body::default().text(name).u32(0));
        assert_eq!(refusal(client.call(&call, PATIENCE)), error, "{name}");
        assert_eq!(refusal(client.call(&start, PATIENCE)), error, "{name}");
    }
    // A file that comes later is found.
    std::fs::write(folder.path().join("late.service"), "[D-BUS Service]\nName=a.Unknown\nExec=/bin/false\n")
        .unwrap();
    // Clocks of file systems are coarse: the folder has surely changed since it was read.
    let later = SystemTime::now() + Duration::from_secs(2);
    std::fs::File::open(folder.path()).unwrap().set_modified(later).unwrap();
    let call = Builder::call("/", "M").destination("a.Unknown");
    assert_eq!(refusal(client.call(&call, PATIENCE)), "Spawn.ChildExited");
    end_sleepers(&broker);
}

/// A service outlives its bus, as with other brokers; this one would stay for a while.
fn end_sleepers(broker: &Broker) {
    let children = format!("/proc/{0}/task/{0}/children", broker.child.id());
    for pid in std::fs::read_to_string(children).unwrap_or_default().split_whitespace() {
        let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}
