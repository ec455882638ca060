//! Clients that break the rules, on purpose or not: they lose their connection, nobody else loses anything.

use std::collections::VecDeque;
use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, Ordering};

use causeway_testkit::Rng;

use crate::support::random::{generators, rounds};
use causeway_bus::client::{Bus as Client, Error};
use causeway_dbus_wire::wire::{Body, Builder, FLAG_NO_REPLY_EXPECTED, Header, Value, values};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

use crate::support::*;

/// Reads until the bus closes the connection.
fn closed(stream: &mut UnixStream) {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => {}
        Err(error) => {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "it stays connected: {error}")
        }
    }
}

/// The bus answers somebody else.
fn serves(witness: &mut Client) {
    witness.ask_driver("GetId", Body::default()).unwrap();
}

fn hello() -> Vec<u8> {
    driver_call("Hello").build(1).unwrap()
}

#[test]
fn what_is_no_message_ends_its_connection_and_no_other() {
    let broker = Broker::start();
    let mut witness = broker.open();
    let signal =
        |serial| Builder::signal("/", "a.B", "C").body(Body::default().text("text")).build(serial).unwrap();
    let changed = |at: usize, byte: u8| {
        let mut bytes = signal(2);
        bytes[at] = byte;
        bytes
    };
    let header = Header::parse(&signal(2)).unwrap().header_bytes;
    let cases = [
        ("byte order", changed(0, b'x')),
        ("type 0", changed(1, 0)),
        ("version", changed(3, 2)),
        ("a body of 128 MiB and more", changed(7, 8)),
        ("UTF-8", changed(header + 4, 0xff)),
        ("a string that is not ended", changed(header + 8, b'x')),
        ("descriptors that did not come", Builder::signal("/", "a.B", "C").unix_fds(1).build(2).unwrap()),
    ];
    for (what, bytes) in cases {
        let mut client = broker.socket();
        authenticate(&mut client);
        client.write_all(&hello()).unwrap();
        client.write_all(&bytes).unwrap_or_else(|error| panic!("{what}: {error}"));
        closed(&mut client);
        serves(&mut witness);
    }
    // Before Hello the bus answers nothing else, known or not, and goes on.
    let mut client = broker.socket();
    authenticate(&mut client);
    for member in ["GetId", "Hello2"] {
        client.write_all(&driver_call(member).build(1).unwrap()).unwrap();
        let mut answer = [0; 4096];
        let count = client.read(&mut answer).unwrap();
        assert_eq!(
            Header::parse(&answer[..count]).unwrap().error_name,
            Some("org.freedesktop.DBus.Error.AccessDenied"),
            "{member}"
        );
    }
    client.write_all(&hello()).unwrap();
    assert!(client.read(&mut [0; 4096]).unwrap() > 0);
    // Nor does anything pass to others.
    let mut client = broker.socket();
    authenticate(&mut client);
    client.write_all(&signal(1)).unwrap();
    closed(&mut client);
    serves(&mut witness);
}

/// Rounds of random bytes from one seed; more as long as the seconds of CAUSEWAYD_HOSTILE_SECONDS last.
const RANDOM_ROUNDS: usize = 150;

/// Random bytes, a changed handshake, changed messages that come in parts and end anywhere, with descriptors or without. Some of the
/// clients stay for a while with what they have not finished.
#[test]
fn random_bytes_and_changed_messages_never_stop_the_bus() {
    generators().for_each(attack_beside_a_witness);
}

fn attack_beside_a_witness(mut random: Rng) {
    const STAY: usize = 16;
    // A client may leave its own socket behind in half a message: the bus then is the last to hold both ends of the connection.
    let mut broker = Broker::configured("<limit name='pending_fd_timeout'>1000</limit>");
    let mut witness = broker.open();
    let own = witness.unique_name().to_owned();
    let valid = [
        driver_call("RequestName").body(Body::default().text("a.Name").u32(4)).build(2).unwrap(),
        driver_call("AddMatch")
            .body(Body::default().text("interface='a.B',arg0path='/a/'"))
            .build(3)
            .unwrap(),
        Builder::signal("/", "a.B", "C").body(Body::default().texts(&["a", "b"])).build(4).unwrap(),
        Builder::call("/", "M").destination(&own).unix_fds(1).build(5).unwrap(),
        Builder::reply(1).destination(&own).body(Body::default().blob(&[7; 300])).build(6).unwrap(),
    ];
    let handshake = b"\0AUTH EXTERNAL 30\r\nNEGOTIATE_UNIX_FD\r\nBEGIN\r\n";
    let mut staying: VecDeque<UnixStream> = VecDeque::new();
    let done = rounds(RANDOM_ROUNDS, |round| {
        let mut client = broker.socket();
        let mut bytes = Vec::new();
        match round % 4 {
            0 => bytes.extend((0..random.usize(..2_000)).map(|_| random.u8(..))),
            1 => bytes.extend(
                handshake.iter().map(|byte| if random.usize(..20) == 0 { random.u8(..) } else { *byte }),
            ),
            _ => {
                authenticate(&mut client);
                bytes.extend(hello());
                (0..4).for_each(|_| bytes.extend(&valid[random.usize(..valid.len())]));
                for _ in 0..random.usize(..5) {
                    let at = random.usize(..bytes.len());
                    bytes[at] = random.u8(..);
                }
                bytes.truncate(1 + random.usize(..bytes.len()));
            }
        }
        // The bus may have closed it in the middle, and what does not fit is not waited for.
        client.set_nonblocking(true).unwrap();
        let middle = random.usize(..bytes.len() + 1);
        for part in [&bytes[..middle], &bytes[middle..]] {
            let _ = match random.usize(..3) {
                0 => causeway_os::socket::send_with_fds(&client, part, &[client.as_fd()]).map_err(drop),
                _ => client.write_all(part).map_err(drop),
            };
        }
        if random.usize(..2) == 0 {
            staying.push_back(client);
            staying.drain(..staying.len().saturating_sub(STAY));
        }
        if round % 20 == 0 {
            serves(&mut witness);
        }
    });
    println!("{done} rounds");
    drop(staying);
    let descriptors = || {
        // What waits for the witness may hold some.
        serves(&mut witness);
        broker.descriptors()
    };
    eventually_seen("descriptors stay", descriptors, |count| *count < 20);
    assert!(broker.is_running());
}

#[test]
fn one_that_never_says_hello_or_the_rest_of_a_message_is_ended_in_time() {
    let broker = Broker::configured(
        "<limit name='auth_timeout'>200</limit><limit name='pending_fd_timeout'>200</limit>\
         <limit name='max_incomplete_connections'>2</limit>",
    );
    let mut witness = broker.open();
    let mut silent = broker.socket();
    let mut authenticated = broker.socket();
    authenticate(&mut authenticated);
    // The third one takes the place of the oldest, and the other one is ended by its deadline.
    drop(broker.open());
    closed(&mut silent);
    closed(&mut authenticated);
    // Half a message with a descriptor.
    let mut half = broker.socket();
    authenticate(&mut half);
    half.write_all(&hello()).unwrap();
    let whole = Builder::signal("/", "a.B", "C").unix_fds(1).build(2).unwrap();
    causeway_os::socket::send_with_fds(&half, &whole[..20], &[std::io::stderr().as_fd()]).unwrap();
    closed(&mut half);
    serves(&mut witness);
}

/// Each has as many as it may, and no more than some of them are held.
#[test]
fn descriptors_of_half_messages_are_limited_for_a_client_and_for_its_user() {
    const EACH: usize = 60;
    let broker = Broker::configured("<limit name='max_outgoing_unix_fds'>100</limit>");
    let mut witness = broker.open();
    let before = broker.descriptors();
    let whole = Builder::signal("/", "a.B", "C").unix_fds(EACH as u32).build(2).unwrap();
    let file = std::fs::File::open("/dev/null").unwrap();
    let begin = || {
        let mut client = broker.socket();
        authenticate(&mut client);
        client.write_all(&hello()).unwrap();
        causeway_os::socket::send_with_fds(&client, &whole[..20], &[file.as_fd(); EACH]).unwrap();
        serves(&mut witness);
        client
    };
    let mut clients: Vec<UnixStream> = std::iter::repeat_with(begin).take(20).collect();
    // 100 for one, four times as many for its user; one that holds none may begin as long as something is left.
    let most = 4 * 100 + EACH + clients.len();
    eventually_seen("more are held", || broker.descriptors(), |now| *now <= before + most);
    let held = broker.descriptors();
    assert!(held > before + 100, "none are held: {held} descriptors, {before} before");
    closed(clients.last_mut().unwrap());
    // The first may send the rest of its message, and another of those that were held.
    clients[0].write_all(&whole[20..]).unwrap();
    drop(clients);
    eventually_seen("descriptors stay", || broker.descriptors(), |now| *now <= before);
    serves(&mut witness);
    // One client with more than its own share, a little at a time.
    let mut greedy = broker.socket();
    authenticate(&mut greedy);
    greedy.write_all(&hello()).unwrap();
    let many = Builder::signal("/", "a.B", "C").unix_fds(200).build(2).unwrap();
    for part in many[..20].chunks(5) {
        if causeway_os::socket::send_with_fds(&greedy, part, &[file.as_fd(); EACH]).is_err() {
            break;
        }
        serves(&mut witness);
    }
    closed(&mut greedy);
}

/// Many clients that begin a large message and go on until the bus has enough of it.
#[test]
fn halves_of_messages_do_not_fill_the_memory() {
    let broker = Broker::configured("<limit name='max_incoming_bytes'>4000000</limit>");
    let mut witness = broker.open();
    let mut start = driver_call("GetId").build(2).unwrap();
    // A body of 24 MiB, of which the signature is never looked at.
    start[4..8].copy_from_slice(&(24_u32 << 20).to_ne_bytes());
    let mut ended = 0;
    let mut half: Vec<UnixStream> = Vec::new();
    for _ in 0..20 {
        let mut client = broker.socket();
        authenticate(&mut client);
        client.write_all(&hello()).unwrap();
        client.write_all(&start).unwrap();
        let sent = (0..20).try_for_each(|_| client.write_all(&[0; 1 << 18]));
        ended += u32::from(sent.is_err());
        half.push(client);
        serves(&mut witness);
    }
    let kib = broker.memory_kib();
    assert!(ended == 20 && kib < 48 << 10, "{ended} of 20 are ended, {kib} KiB are used");
}

#[test]
fn a_subscriber_that_does_not_read_is_ended_and_the_others_get_everything() {
    const MESSAGES: u32 = 3_000;
    const MOST_AHEAD: u32 = 100;
    let broker = Broker::configured("<limit name='max_outgoing_bytes'>4000000</limit>");
    let (mut sender, mut stalled, mut reading) = (broker.open(), broker.open(), broker.open());
    for connection in [&mut stalled, &mut reading] {
        connection.add_match("interface='a.Flood'").unwrap();
    }
    let gone = format!("member='NameOwnerChanged',arg0='{}'", stalled.unique_name());
    sender.add_match(&gone).unwrap();
    let progress = AtomicU32::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for got in 1..=MESSAGES {
                wait_for(&mut reading, |header| header.interface == Some("a.Flood"));
                // Relaxed: the number alone matters.
                progress.store(got, Ordering::Relaxed);
            }
        });
        let signal = Builder::signal("/", "a.Flood", "Drop").body(Body::default().blob(&[7; 10_000]));
        for number in 0..MESSAGES {
            // Never so far ahead that the one that reads would have to be ended too, however slow the machine is.
            let is_near = |got: &u32| got + MOST_AHEAD > number;
            eventually_seen("the reader does not go on", || progress.load(Ordering::Relaxed), is_near);
            sender.send(&signal).unwrap();
        }
    });
    wait_for(&mut sender, |header| header.member == Some("NameOwnerChanged"));
    let ended = loop {
        match stalled.receive(PATIENCE) {
            Ok(Some(_)) => {}
            other => break other,
        }
    };
    assert!(matches!(ended, Err(Error::Closed)), "{ended:?}");
    let left = eventually_seen("memory stays", || broker.memory_kib(), |kib| *kib < 64 << 10);
    assert!(left > 0);
}

#[test]
fn calls_to_one_that_does_not_read_are_errors_to_the_caller() {
    let broker = Broker::configured(
        "<limit name='max_outgoing_bytes'>1000000</limit><limit name='max_replies_per_connection'>100000</limit>",
    );
    let (mut caller, stalled) = (broker.open(), broker.open());
    let to = stalled.unique_name().to_owned();
    let call = Builder::call("/", "M").destination(&to).body(Body::default().blob(&[7; 50_000]));
    let mut refused = None;
    for _ in 0..100 {
        caller.send(&call).unwrap();
        caller.send(&driver_call("GetId")).unwrap();
        let answer = wait_for(&mut caller, |header| header.reply_serial.is_some());
        if let Some(name) = Header::parse(&answer).unwrap().error_name {
            refused = Some(name.to_owned());
            break;
        }
    }
    assert_eq!(refused.as_deref(), Some("org.freedesktop.DBus.Error.LimitsExceeded"));
    // The callee is still there.
    let owner = caller.ask_driver("NameHasOwner", Body::default().text(&to));
    assert!(owner.is_ok());
}

#[test]
fn descriptors_pass_up_to_the_limit_of_the_kernel_and_none_stays() {
    let broker = Broker::start();
    let (mut sender, mut receiver) = (broker.open(), broker.open());
    receiver.keep_descriptors();
    let to = receiver.unique_name().to_owned();
    let before = broker.descriptors();
    for count in [1_usize, 2, 253] {
        let (_read, write) = std::io::pipe().unwrap();
        let fds = vec![write.as_fd(); count];
        let message = Builder::call("/", "Take").destination(&to).flags(FLAG_NO_REPLY_EXPECTED);
        sender.send_with_fds(&message.unix_fds(u32::try_from(count).unwrap()), &fds).unwrap();
        let got = wait_for(&mut receiver, |header| header.member == Some("Take"));
        assert_eq!(Header::parse(&got).unwrap().unix_fds as usize, count);
        assert_eq!(receiver.take_descriptors().len(), count);
    }
    eventually_seen("descriptors stay in the bus", || broker.descriptors(), |now| *now <= before);
}

/// The bus stands still meanwhile.
fn stopped<T>(broker: &Broker, act: impl FnOnce() -> T) -> T {
    let bus = rustix::process::Pid::from_raw(broker.child.pid().cast_signed()).unwrap();
    rustix::process::kill_process(bus, rustix::process::Signal::STOP).unwrap();
    let outcome = act();
    rustix::process::kill_process(bus, rustix::process::Signal::CONT).unwrap();
    outcome
}

#[test]
fn closing_a_descriptor_that_lingers_does_not_stop_the_bus() {
    let broker = Broker::start();
    let (mut sender, mut witness) = (broker.open(), broker.open());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (first, _peer) = lingering(&listener);
    let signal = Builder::signal("/", "a.B", "Nobody").unix_fds(1);
    // This process gives the socket up, so that the bus is the last to hold it.
    stopped(&broker, || {
        sender.send_with_fds(&signal, &[first.as_fd()]).unwrap();
        drop(first);
    });
    // A bus that waited for it would not answer before the patience of this client is over.
    for _ in 0..10 {
        serves(&mut witness);
    }
    // Now one that the bus never reads, because it ends the connection before: it goes with the connection.
    let mut breaking = broker.socket();
    authenticate(&mut breaking);
    breaking.write_all(&hello()).unwrap();
    let (second, _peer) = lingering(&listener);
    stopped(&broker, || {
        breaking.write_all(&[b'x'; 4096]).unwrap();
        let rest = signal.build(2).unwrap();
        causeway_os::socket::send_with_fds(&breaking, &rest, &[second.as_fd()]).unwrap();
        drop((second, breaking));
    });
    for _ in 0..10 {
        serves(&mut witness);
    }
}

/// Sends a part of a message as urgent bytes with a descriptor; the kernel makes only the last of them urgent. False if it knows no
/// urgent bytes on Unix sockets.
fn send_urgently(client: &UnixStream, bytes: &[u8], fd: BorrowedFd<'_>) -> bool {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [fd];
    assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
    let flags = SendFlags::OOB | SendFlags::NOSIGNAL;
    match rustix::net::sendmsg(client, &[IoSlice::new(bytes)], &mut control, flags) {
        Err(rustix::io::Errno::OPNOTSUPP) => false,
        sent => {
            assert_eq!(sent, Ok(bytes.len()));
            true
        }
    }
}

#[test]
fn an_urgent_byte_and_its_descriptor_stay_where_they_are_in_the_stream() {
    let broker = Broker::start();
    let mut receiver = broker.open();
    receiver.keep_descriptors();
    let to = receiver.unique_name().to_owned();
    let call = Builder::call("/", "Take").destination(&to).flags(FLAG_NO_REPLY_EXPECTED).unix_fds(1);
    let last = call.build(2).unwrap().len() - 1;
    // At the beginning of a message, in the middle, and as its last byte; alone and with bytes before it.
    for (from, until) in [(0, 1), (1, 20), (20, 21), (last, last + 1)] {
        let mut client = broker.socket();
        authenticate(&mut client);
        client.write_all(&hello()).unwrap();
        for serial in 2..5 {
            let message = call.build(serial).unwrap();
            let (reader, writer) = std::io::pipe().unwrap();
            // Read in one piece: the bytes before and behind are there already.
            let sends_urgently = stopped(&broker, || {
                client.write_all(&message[..from]).unwrap();
                let sends = send_urgently(&client, &message[from..until], writer.as_fd());
                if sends {
                    client.write_all(&message[until..]).unwrap();
                }
                sends
            });
            if !sends_urgently {
                println!("skipped: this kernel knows no urgent bytes on Unix sockets");
                return;
            }
            let got = wait_for(&mut receiver, |header| header.member == Some("Take"));
            assert_eq!(Header::parse(&got).unwrap().serial, serial, "{from} to {until}");
            let mut came = receiver.take_descriptors();
            assert_eq!(came.len(), 1, "{from} to {until}");
            // It is this one, and no other is open.
            drop(writer);
            std::fs::File::from(came.remove(0)).write_all(b"it").unwrap();
            let mut text = String::new();
            { reader }.read_to_string(&mut text).unwrap();
            assert_eq!(text, "it", "{from} to {until}");
        }
    }
}

#[test]
fn an_urgent_byte_with_a_descriptor_that_lingers_does_not_stop_the_bus() {
    let broker = Broker::start();
    let mut witness = broker.open();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (socket, _peer) = lingering(&listener);
    let mut client = broker.socket();
    authenticate(&mut client);
    client.write_all(&hello()).unwrap();
    // This process gives the socket up, so that the bus is the last to hold it.
    stopped(&broker, || {
        if !send_urgently(&client, b"x", socket.as_fd()) {
            println!("skipped: this kernel knows no urgent bytes on Unix sockets");
        }
        client.write_all(&[b'x'; 100]).unwrap();
        drop(socket);
    });
    for _ in 0..10 {
        serves(&mut witness);
    }
    // The byte is the first of what is no message.
    closed(&mut client);
}

/// More than there are threads that close.
#[test]
fn many_descriptors_that_linger_keep_no_connection_open() {
    const HANGING: usize = 40;
    let broker = Broker::start();
    let mut sender = broker.open();
    let start = broker.descriptors();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let signal = Builder::signal("/", "a.B", "Nobody").unix_fds(1);
    let mut peers = Vec::new();
    stopped(&broker, || {
        for _ in 0..HANGING {
            let (socket, peer) = lingering(&listener);
            sender.send_with_fds(&signal, &[socket.as_fd()]).unwrap();
            peers.push(peer);
        }
    });
    serves(&mut sender);
    let before = broker.descriptors();
    // Those that hang have left the table already; the others wait.
    assert!(before > start + HANGING / 2, "none of them hangs: {before} descriptors, {start} before");
    // One that is evicted while much of what it has sent is unread, and many that have said nothing wrong.
    let mut breaking = broker.socket();
    authenticate(&mut breaking);
    stopped(&broker, || breaking.write_all(&[b'x'; 100_000]).unwrap());
    closed(&mut breaking);
    (0..50).for_each(|_| drop(broker.open()));
    // The socket of the first may wait for its turn; those of the others do not.
    eventually_seen("sockets stay", || broker.descriptors(), |now| *now <= before + 1);
    drop(peers);
    eventually_seen("descriptors stay", || broker.descriptors(), |now| *now <= start);
}

/// All that waits when the bus looks is taken in turns, some messages of each client.
#[test]
fn a_client_that_sends_much_at_once_does_not_stand_before_the_others() {
    const FLOOD: usize = 400;
    const MOST_BEFORE: usize = 100;
    let broker = Broker::start();
    let (mut flood, mut other, mut observer) = (broker.open(), broker.open(), broker.open());
    observer.add_match("path='/flood'").unwrap();
    let signal = |interface| Builder::signal("/flood", interface, "S");
    let all: Vec<u8> =
        (10..).take(FLOOD).flat_map(|serial| signal("a.Flood").build(serial).unwrap()).collect();
    // What is in its socket first, and fits into it.
    stopped(&broker, || {
        flood.send_bytes(&all).unwrap();
        other.send(&signal("a.Other")).unwrap();
    });
    let (mut seen, mut before) = (0, None);
    while seen < FLOOD || before.is_none() {
        let got = wait_for(&mut observer, |header| header.path == Some("/flood"));
        match Header::parse(&got).unwrap().interface {
            Some("a.Flood") => seen += 1,
            _ => before = Some(seen),
        }
    }
    assert!(before < Some(MOST_BEFORE), "{before:?} messages of the flood came first");
}

#[test]
fn a_thousand_connections_cost_little_and_leave_nothing() {
    const CONNECTIONS: usize = 1_000;
    // This process needs a descriptor for each, too.
    causeway_os::limits::raise_nofile().unwrap();
    let mut broker = Broker::start();
    let mut witness = broker.open();
    let (memory, descriptors) = (broker.memory_kib(), broker.descriptors());
    let mut crowd: Vec<Client> = (0..CONNECTIONS).map(|_| broker.open()).collect();
    let each = (broker.memory_kib() - memory) as f64 / CONNECTIONS as f64;
    assert!(each <= 40.0, "{each} KiB each");
    for connection in &mut crowd {
        connection.add_match("interface='a.Crowd'").unwrap();
    }
    witness.send(&Builder::signal("/", "a.Crowd", "All")).unwrap();
    for connection in &mut crowd {
        wait_for(connection, |header| header.interface == Some("a.Crowd"));
    }
    drop(crowd);
    eventually_seen("descriptors stay", || broker.descriptors(), |now| *now <= descriptors);
    let names = witness.ask_driver("ListNames", Body::default()).unwrap();
    assert!(names.len() < 500, "names stay");
    assert!(broker.is_running());
}

#[test]
fn only_the_user_of_the_bus_changes_what_services_find() {
    let broker = Broker::start();
    let mut client = broker.open();
    let elsewhere = driver_call("UpdateActivationEnvironment").path("/").body(Body::marshalled(
        causeway_dbus_wire::wire::Endian::NATIVE,
        "a{ss}",
        &[0; 8],
    ));
    assert_eq!(refusal(client.call(&elsewhere, PATIENCE)), "AccessDenied");
    client.call(&stats(), PATIENCE).unwrap();
}

fn stats() -> Builder<'static> {
    driver_call("GetStats").interface("org.freedesktop.DBus.Debug.Stats")
}

#[test]
fn the_longest_turn_of_the_loop_stands_in_the_statistics() {
    let broker = Broker::start();
    let mut client = broker.open();
    (0..100).for_each(|_| serves(&mut client));
    let answer = client.call(&stats(), PATIENCE).unwrap();
    let header = Header::parse(&answer).unwrap();
    let values = values(&header, &answer[header.header_bytes..]).unwrap();
    let [Value::Dictionary(entries)] = &values[..] else { panic!("{values:?}") };
    let number = |name: &str| {
        entries.iter().find_map(|entry| match entry {
            (Value::Text(key), Value::Variant(_, value)) if *key == name => Some(value),
            _ => None,
        })
    };
    let number = |name: &str| match number(name).map(|value| &**value) {
        Some(Value::U32(number)) => *number,
        other => panic!("{name} is {other:?}"),
    };
    let (turn, cpu) = (number("PeakTurnMicroseconds"), number("PeakTurnCPUMicroseconds"));
    assert!(turn > 0 && cpu <= turn, "{turn} µs, of them {cpu} µs of CPU time");
}
