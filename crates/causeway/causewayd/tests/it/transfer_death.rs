//! Members that have descriptors on their way are killed, stopped, or out of descriptors. Each is a process of its own, the one that
//! serves the bus included.

use std::time::Duration;

use causeway_bus::wire::{Arg, Body};
use causeway_bus::{Connection, Error, Incoming, Payload, name};
use causeway_testkit::proc::open_files;
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::support::*;

const NAME: &str = "com.example.Receiver";
/// About how many descriptors the process without descriptors can still open.
const SPARE: u64 = 40;

#[test]
fn role() {
    let Some((role, socket, number)) = play() else { return };
    if role == "authority" {
        return serve_alone(&socket, number);
    }
    let mut member = Connection::open(&socket).unwrap();
    match role.as_str() {
        "exhausted" => exhausted(&mut member),
        "poor" => {
            limit_descriptors(Some(open_files(std::process::id()) as u64 + SPARE));
            member.request_name(NAME, 0).unwrap();
        }
        "receiver" => {
            member.add_match(RULE).unwrap();
            member.request_name(NAME, 0).unwrap();
        }
        other => panic!("{other}"),
    }
    // Answers with the number of descriptors that came.
    loop {
        match member.next(None) {
            Ok(Some(Incoming::Call(call))) => {
                let count = call.take_descriptors().len() as u32;
                member.reply(&call, Body::default().u32(count)).unwrap();
            }
            Ok(_) => {}
            Err(Error::AuthorityGone | Error::Disconnected(_)) => return,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Has no descriptor left when it reads for the first time, and some later.
fn exhausted(member: &mut Connection) {
    // From here on it knows the bus itself.
    member.request_name("com.example.First", 0).unwrap();
    let before = getrlimit(Resource::Nofile);
    limit_descriptors(Some(1));
    // A call may come before the answer to this, and fail it.
    let _ = member.request_name(NAME, 0);
    // The outbox of a sender that it does not know; of the bus itself, which it knows, signals may come.
    for _ in 0..3 {
        let error = error_of(member);
        assert!(matches!(error, Error::Os(_)), "{error}");
    }
    setrlimit(Resource::Nofile, before).unwrap();
}

impl Served {
    fn peer(&self, role: &str) -> Running {
        start_role(module_path!(), role, &self.path(), 0)
    }

    /// Descriptors that the serving process has open.
    fn open(&self) -> usize {
        open_files(self.process.pid())
    }

    fn holds_nothing(&self) {
        let pid = self.process.pid();
        eventually("the serving process holds descriptors", || open_texts(pid) == 0);
    }
}

fn wait_for_name(client: &mut Connection) {
    eventually("nobody gets the name", || {
        client.next(Some(Duration::ZERO)).unwrap();
        client.name_owner(NAME).is_some()
    });
}

fn files(count: u64) -> Payload {
    Payload::new(Body::default(), (0..count).map(|_| file("x")).collect())
}

#[test]
fn without_descriptors_the_receiver_or_the_bus_refuses_a_message_and_goes_on() {
    for (most, role, too_many, fits) in [(0, "poor", 2 * SPARE, SPARE / 2), (120, "receiver", 200, 20)] {
        let served = Served::with_descriptors(module_path!(), most);
        let mut client = served.member();
        let _receiver = served.peer(role);
        wait_for_name(&mut client);
        for round in 0..5 {
            let error = client.call(NAME, PATH, INTERFACE, "Take", files(too_many)).unwrap_err();
            assert_eq!(error.name(), Some(name::LIMITS_EXCEEDED), "{role}, round {round}: {error}");
            // Other threads close what was refused, and until then there is no place.
            let take = || client.call(NAME, PATH, INTERFACE, "Take", files(fits)).ok();
            let reply = eventually_some(&format!("{role}, round {round}: what fits is refused"), take);
            assert_eq!(reply.rule_args(), [Arg::U32(fits as u32)], "{role}, round {round}");
        }
        served.holds_nothing();
    }
}

#[test]
fn a_member_that_could_not_open_an_outbox_reads_on_once_it_has_descriptors() {
    let served = Served::start(module_path!());
    let mut client = served.member();
    let _exhausted = served.peer("exhausted");
    wait_for_name(&mut client);
    let reply = client.call(NAME, PATH, INTERFACE, "Take", files(2)).unwrap();
    assert_eq!(reply.rule_args(), [Arg::U32(2)]);
}

#[test]
fn a_sender_does_not_wait_for_a_stopped_receiver_whose_death_frees_what_was_for_it() {
    let served = Served::start(module_path!());
    let mut client = served.member();
    let before = served.open();
    let mut receiver = served.peer("receiver");
    wait_for_name(&mut client);
    receiver.stop();
    for _ in 0..10 {
        client.call_without_reply(NAME, PATH, INTERFACE, "Take", files(20)).unwrap();
        client.emit(PATH, INTERFACE, "Take", files(1)).unwrap();
    }
    let serial = client.start_call(NAME, PATH, INTERFACE, "Take", files(20)).unwrap();
    assert_eq!(open_texts(served.process.pid()), 230);
    receiver.kill();
    let error = client.finish_call(serial, PATIENCE).unwrap_err();
    assert_eq!(error.name(), Some(name::NO_REPLY), "{error}");
    // When the others have read on, nothing is left of the dead.
    eventually("descriptors of dead members stay", || {
        ask_bus(&mut client);
        client.next(Some(Duration::ZERO)).unwrap();
        served.open() <= before
    });
    served.holds_nothing();
}

#[test]
fn descriptors_that_died_with_the_serving_process_end_their_call() {
    let mut served = Served::start(module_path!());
    let mut client = served.member();
    let receiver = served.peer("receiver");
    wait_for_name(&mut client);
    // Both have what they need of each other.
    client.call(NAME, PATH, INTERFACE, "Take", files(1)).unwrap();
    receiver.stop();
    let serial = client.start_call(NAME, PATH, INTERFACE, "Take", files(1)).unwrap();
    served.process.kill();
    receiver.resume();
    let error = client.finish_call(serial, PATIENCE).unwrap_err();
    assert_eq!(error.name(), Some(name::LIMITS_EXCEEDED), "{error}");
    // Messages without descriptors pass as before.
    client.call(NAME, PATH, INTERFACE, "Take", Body::default()).unwrap();
    assert!(matches!(client.emit(PATH, INTERFACE, "Take", files(1)), Err(Error::AuthorityGone)));
}
