//! Members that have descriptors on their way are killed, stopped, or out of descriptors. Each is a process of its own, the one that
//! serves the bus included.

use std::path::{Path, PathBuf};
use std::time::Duration;

use causeway_bus::wire::Body;
use causeway_bus::{AuthorityOptions, Connection, Error, Incoming, Monitor, Payload, name};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::support::*;

const NAME: &str = "com.example.Receiver";
/// About how many descriptors the process without descriptors can still open.
const SPARE: u64 = 40;

#[test]
fn role() {
    let Some((role, socket, number)) = play() else { return };
    match role.as_str() {
        "authority" => serve(&socket, number),
        "poor" => poor(&socket),
        "exhausted" => exhausted(&socket),
        "receiver" => receive(&socket),
        "sender" => send(&socket, number),
        other => panic!("{other}"),
    }
}

/// Has no descriptor left when it reads for the first time, and some later.
fn exhausted(socket: &Path) {
    let mut connection = Connection::open(socket).unwrap();
    // From here on it knows the bus itself.
    connection.request_name("com.example.First", 0).unwrap();
    let before = getrlimit(Resource::Nofile);
    let none = Rlimit { current: Some(1), ..before };
    setrlimit(Resource::Nofile, none).unwrap();
    // A call may come before the answer to this, and fail it.
    let _ = connection.request_name(NAME, 0);
    // The outbox of a sender that it does not know.
    for _ in 0..3 {
        let error = loop {
            match connection.next(Some(PATIENCE)) {
                // From the bus itself, which it knows.
                Ok(Some(Incoming::Signal(_))) => {}
                Ok(other) => panic!("{other:?}"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::Os(_)), "{error}");
    }
    setrlimit(Resource::Nofile, before).unwrap();
    answer(connection);
}

fn limit_descriptors(most: u64) {
    setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: Some(most) }).unwrap();
}

/// Serves a bus, with at most so many descriptors if there is a number.
fn serve(socket: &Path, most: u64) {
    let (stop, _open) = rustix::pipe::pipe().unwrap();
    let ready = || {
        if most > 0 {
            limit_descriptors(most);
        }
    };
    causewayd::serve_alone(socket, AuthorityOptions::default(), &stop, ready).unwrap();
}

/// Has the name and answers with the number of descriptors that came.
fn answer(mut connection: Connection) {
    loop {
        match connection.next(None) {
            Ok(Some(Incoming::Call(call))) => {
                let count = call.take_descriptors().len() as u32;
                connection.reply(&call, Body::default().u32(count)).unwrap();
            }
            Ok(_) => {}
            Err(Error::AuthorityGone | Error::Disconnected(_)) => return,
            Err(error) => panic!("{error}"),
        }
    }
}

fn poor(socket: &Path) {
    let mut connection = Connection::open(socket).unwrap();
    let open = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    limit_descriptors(open + SPARE);
    connection.request_name(NAME, 0).unwrap();
    answer(connection);
}

fn receive(socket: &Path) {
    let mut connection = Connection::open(socket).unwrap();
    connection.add_match(&format!("interface='{INTERFACE}'")).unwrap();
    connection.request_name(NAME, 0).unwrap();
    answer(connection);
}

/// Sends signals and calls with descriptors and long bodies, as fast as it can.
fn send(socket: &Path, seed: u64) {
    let mut connection = Connection::open(socket).unwrap();
    for round in seed.. {
        let body = Body::default().blob(&vec![0; if round % 5 == 0 { 200_000 } else { 10 }]);
        let payload = Payload::new(body, (0..round % 3).map(|_| file("storm")).collect());
        let sent = match round % 2 {
            0 => connection.emit(PATH, INTERFACE, "Storm", payload),
            _ => connection.call_without_reply(NAME, PATH, INTERFACE, "Storm", payload),
        };
        // Nobody has the name, or receivers have not read: both pass.
        assert!(matches!(sent, Ok(()) | Err(Error::Method { .. })), "{sent:?}");
    }
}

/// A bus that another process serves.
struct Server {
    dir: tempfile::TempDir,
    process: Running,
}

impl Server {
    fn start(most: u64) -> Server {
        let dir = tempfile::tempdir().unwrap();
        let process = start_role(module_path!(), "authority", &dir.path().join("bus"), most);
        let server = Server { dir, process };
        eventually("the bus does not come up", || Connection::open(server.path()).is_ok());
        server
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("bus")
    }

    fn connect(&self) -> Connection {
        Connection::open(self.path()).unwrap()
    }

    fn peer(&self, role: &str, number: u64) -> Running {
        start_role(module_path!(), role, &self.path(), number)
    }

    /// Descriptors that the serving process has open.
    fn open(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.process.pid())).unwrap().count()
    }

    fn open_texts(&self) -> usize {
        open_texts(self.process.pid())
    }

    fn holds_nothing(&self) {
        eventually("the serving process holds descriptors", || self.open_texts() == 0);
    }

    /// When `survivor` has read on, the serving process has no more open than `before`.
    fn returns_to(&self, before: usize, survivor: &mut Connection) {
        eventually("descriptors of dead members stay", || {
            ping(survivor);
            self.open() <= before
        });
        self.holds_nothing();
    }
}

/// The authority has its turn, and this member reads what there is.
fn ping(member: &mut Connection) {
    let driver = "org.freedesktop.DBus";
    member.call(driver, "/", "org.freedesktop.DBus.Peer", "Ping", Body::default()).unwrap();
    member.next(Some(Duration::ZERO)).unwrap();
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
fn a_receiver_without_descriptors_answers_with_an_error_and_goes_on() {
    let server = Server::start(0);
    let mut client = server.connect();
    let _poor = server.peer("poor", 0);
    wait_for_name(&mut client);
    for round in 0..5 {
        let error = client.call(NAME, PATH, INTERFACE, "Take", files(2 * SPARE)).unwrap_err();
        assert_eq!(error.name(), Some(name::LIMITS_EXCEEDED), "round {round}: {error}");
        let reply = client.call(NAME, PATH, INTERFACE, "Take", files(SPARE / 2)).unwrap();
        assert_eq!(reply.args(), [causeway_bus::wire::Arg::U32(SPARE as u32 / 2)], "round {round}");
    }
    server.holds_nothing();
}

#[test]
fn a_member_that_could_not_open_an_outbox_reads_on_once_it_has_descriptors() {
    let server = Server::start(0);
    let mut client = server.connect();
    let _exhausted = server.peer("exhausted", 0);
    wait_for_name(&mut client);
    let reply = client.call(NAME, PATH, INTERFACE, "Take", files(2)).unwrap();
    assert_eq!(reply.args(), [causeway_bus::wire::Arg::U32(2)]);
}

#[test]
fn a_serving_process_without_descriptors_refuses_the_sender_and_goes_on() {
    let server = Server::start(120);
    let mut client = server.connect();
    let _receiver = server.peer("receiver", 0);
    wait_for_name(&mut client);
    for round in 0..5 {
        let error = client.call(NAME, PATH, INTERFACE, "Take", files(200)).unwrap_err();
        assert_eq!(error.name(), Some(name::LIMITS_EXCEEDED), "round {round}: {error}");
        client.call(NAME, PATH, INTERFACE, "Take", files(20)).unwrap();
    }
    server.holds_nothing();
}

#[test]
fn a_sender_does_not_wait_for_a_stopped_receiver_whose_death_frees_what_was_for_it() {
    let server = Server::start(0);
    let mut client = server.connect();
    let before = server.open();
    let mut receiver = server.peer("receiver", 0);
    wait_for_name(&mut client);
    receiver.stop();
    for _ in 0..10 {
        client.call_without_reply(NAME, PATH, INTERFACE, "Take", files(20)).unwrap();
        client.emit(PATH, INTERFACE, "Take", files(1)).unwrap();
    }
    let serial = client.start_call(NAME, PATH, INTERFACE, "Take", files(20)).unwrap();
    assert_eq!(server.open_texts(), 230);
    receiver.kill();
    let error = client.finish_call(serial, PATIENCE).unwrap_err();
    assert_eq!(error.name(), Some(name::NO_REPLY), "{error}");
    server.returns_to(before, &mut client);
}

#[test]
fn descriptors_that_died_with_the_serving_process_end_their_call() {
    let mut server = Server::start(0);
    let mut client = server.connect();
    let receiver = server.peer("receiver", 0);
    wait_for_name(&mut client);
    // Both have what they need of each other.
    client.call(NAME, PATH, INTERFACE, "Take", files(1)).unwrap();
    receiver.stop();
    let serial = client.start_call(NAME, PATH, INTERFACE, "Take", files(1)).unwrap();
    server.process.kill();
    server.process.wait();
    receiver.resume();
    let error = client.finish_call(serial, PATIENCE).unwrap_err();
    assert_eq!(error.name(), Some(name::LIMITS_EXCEEDED), "{error}");
    // Messages without descriptors pass as before.
    client.call(NAME, PATH, INTERFACE, "Take", Body::default()).unwrap();
    assert!(matches!(client.emit(PATH, INTERFACE, "Take", files(1)), Err(Error::AuthorityGone)));
}

#[test]
fn a_storm_of_kills_leaves_no_descriptor_in_the_serving_process() {
    let server = Server::start(0);
    let mut survivor = server.connect();
    let monitor = Monitor::open(server.path()).unwrap();
    let before = server.open();
    for round in 0..10 {
        let mut peers: Vec<Running> =
            ["sender", "receiver", "sender"].map(|role| server.peer(role, round)).into();
        wait_for_name(&mut survivor);
        // In the middle of it, each time later.
        let enough = monitor.messages() + 20 * (round + 1);
        eventually("the storm rages", || {
            survivor.next(Some(Duration::ZERO)).unwrap();
            monitor.messages() > enough
        });
        peers.iter_mut().for_each(Running::kill);
        ping(&mut survivor);
    }
    server.returns_to(before, &mut survivor);
}
