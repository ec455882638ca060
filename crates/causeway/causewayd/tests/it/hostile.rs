//! Clients that break the rules, on purpose or not: they lose their connection, nobody else loses anything.

use std::collections::VecDeque;
use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, Ordering};

use causeway_bus::client::{Bus as Client, Error};
use causeway_dbus_wire::wire::{Body, Builder, FLAG_NO_REPLY_EXPECTED, Header, Kind};
use causeway_os::socket::send_with_fds;
use causeway_testkit::Rng;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

use crate::support::*;

fn signal_to_all() -> Builder<'static> {
    Builder::signal("/", "a.B", "C")
}

#[test]
fn an_invalid_message_ends_its_connection_and_no_other() {
    let bus = Broker::start();
    let mut witness = bus.client();
    let signal = signal_to_all().body(text("text")).build(2).unwrap();
    let changed = |at: usize, byte: u8| {
        let mut bytes = signal.clone();
        bytes[at] = byte;
        bytes
    };
    let body = header(&signal).header_bytes;
    for (what, bytes) in [
        ("byte order", changed(0, b'x')),
        ("type 0", changed(1, 0)),
        ("version", changed(3, 2)),
        ("a body of 128 MiB and more", changed(7, 8)),
        ("UTF-8", changed(body + 4, 0xff)),
        ("a string that is not ended", changed(body + 8, b'x')),
        ("descriptors that did not come", signal_to_all().unix_fds(1).build(2).unwrap()),
    ] {
        assert!(is_closed(&mut bus.socket_after_hello(&bytes)), "it stays connected: {what}");
        sync(&mut witness);
    }
    // Before Hello the bus answers nothing else, known or not, and goes on.
    let mut client = bus.socket();
    authenticate(&mut client);
    for (member, error) in [
        ("GetId", Some("org.freedesktop.DBus.Error.AccessDenied")),
        ("Hello2", Some("org.freedesktop.DBus.Error.AccessDenied")),
        ("Hello", None),
    ] {
        client.write_all(&driver_call(member).build(1).unwrap()).unwrap();
        let mut answer = [0; 4096];
        assert!(client.read(&mut answer).unwrap() > 0);
        assert_eq!(header(&answer).error_name, error, "{member}");
    }
    // Nor does anything pass to others.
    let mut client = bus.socket();
    authenticate(&mut client);
    client.write_all(&signal).unwrap();
    assert!(is_closed(&mut client));
    sync(&mut witness);
}

/// Random bytes, a changed handshake, changed messages that come in parts and end anywhere, with descriptors or without. Some of the
/// clients stay for a while with what they have not finished.
#[test]
fn random_bytes_and_changed_messages_never_stop_the_bus() {
    generators().for_each(attack_beside_a_witness);
}

fn attack_beside_a_witness(mut random: Rng) {
    const ROUNDS: usize = 150;
    const STAY: usize = 16;
    // A client may leave its own socket behind in half a message: the bus then is the last to hold both ends of the connection.
    let mut bus = Broker::configured("<limit name='pending_fd_timeout'>1000</limit>");
    let mut witness = bus.client();
    let own = witness.unique_name().to_owned();
    let valid = [
        driver_call("RequestName").body(text("a.Name").u32(4)),
        driver_call("AddMatch").body(text("interface='a.B',arg0path='/a/'")),
        signal_to_all().body(Body::default().texts(&["a", "b"])),
        Builder::call("/", "M").destination(&own).unix_fds(1),
        Builder::reply(1).destination(&own).body(Body::default().blob(&[7; 300])),
    ];
    let valid = valid.map(|message| message.build(5).unwrap());
    let handshake = b"\0AUTH EXTERNAL 30\r\nNEGOTIATE_UNIX_FD\r\nBEGIN\r\n";
    let mut staying: VecDeque<UnixStream> = VecDeque::new();
    rounds(ROUNDS, |round| {
        let mut client = bus.socket();
        let mut bytes = Vec::new();
        match round % 4 {
            0 => bytes.extend((0..random.usize(..2_000)).map(|_| random.u8(..))),
            1 => bytes.extend(
                handshake.iter().map(|byte| if random.usize(..20) == 0 { random.u8(..) } else { *byte }),
            ),
            _ => {
                authenticate(&mut client);
                bytes.extend(driver_call("Hello").build(1).unwrap());
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
        let (one, two) = bytes.split_at(random.usize(..bytes.len() + 1));
        for part in [one, two] {
            let _ = match random.usize(..3) {
                0 => send_with_fds(&client, part, &[client.as_fd()]).map_err(drop),
                _ => client.write_all(part).map_err(drop),
            };
        }
        if random.bool() {
            staying.push_back(client);
            staying.drain(..staying.len().saturating_sub(STAY));
        }
        if round % 20 == 0 {
            sync(&mut witness);
        }
    });
    drop(staying);
    let descriptors = || {
        // What waits for the witness may hold some.
        sync(&mut witness);
        bus.descriptors()
    };
    eventually_seen("descriptors stay", descriptors, |count| *count < 20);
    assert!(bus.is_running());
}

#[test]
fn one_that_never_says_hello_or_the_rest_of_a_message_is_ended_in_time() {
    let bus = Broker::configured(
        "<limit name='auth_timeout'>200</limit><limit name='pending_fd_timeout'>200</limit>\
         <limit name='max_incomplete_connections'>2</limit>",
    );
    let mut witness = bus.client();
    let (mut silent, mut authenticated) = (bus.socket(), bus.socket());
    authenticate(&mut authenticated);
    // The third one takes the place of the oldest, and the other one is ended by its deadline.
    drop(bus.client());
    assert!(is_closed(&mut silent) && is_closed(&mut authenticated));
    // Half a message with a descriptor.
    let mut half = bus.socket_after_hello(&[]);
    let whole = signal_to_all().unix_fds(1).build(2).unwrap();
    send_with_fds(&half, &whole[..20], &[std::io::stderr().as_fd()]).unwrap();
    assert!(is_closed(&mut half));
    sync(&mut witness);
}

/// As dbus-daemon tells it. Before, it waited for an answer for ever.
#[test]
fn the_sender_of_a_message_of_an_unknown_type_is_told_and_nobody_gets_it() {
    let bus = Broker::start();
    let (mut peer, mut sender) = (bus.client(), bus.client());
    let is_told = |serial, message: &[u8]| {
        let header = Header::parse(message).unwrap();
        let denied = Some("org.freedesktop.DBus.Error.AccessDenied");
        let is_answer = header.reply_serial == Some(serial);
        assert!(!is_answer || (header.error_name, header.sender) == (denied, Some(DRIVER)), "{header:?}");
        is_answer
    };
    for (kind, to) in [(77, peer.unique_name().to_owned()), (99, DRIVER.to_owned())] {
        let unknown = Builder::new(Kind::Other(kind)).path(PATH).interface(INTERFACE).member("Odd");
        let unknown = unknown.destination(&to);
        let serial = sender.send(&unknown).unwrap();
        while !is_told(serial, &sender.receive(PATIENCE).unwrap().expect("nothing comes")) {}
    }
    let serial = peer.send(&driver_call("GetId")).unwrap();
    let first = loop {
        let message = peer.receive(PATIENCE).unwrap().expect("nothing comes");
        if Header::parse(&message).unwrap().member != Some("NameAcquired") {
            break message;
        }
    };
    assert_eq!(Header::parse(&first).unwrap().reply_serial, Some(serial));
}

/// Each has as many as it may, and no more than some of them are held.
#[test]
fn descriptors_of_half_messages_are_limited_for_a_client_and_for_its_user() {
    const EACH: usize = 60;
    let bus = Broker::configured("<limit name='max_outgoing_unix_fds'>100</limit>");
    let mut witness = bus.client();
    let before = bus.descriptors();
    let whole = signal_to_all().unix_fds(EACH as u32).build(2).unwrap();
    let file = std::fs::File::open("/dev/null").unwrap();
    let begin = || {
        let client = bus.socket_after_hello(&[]);
        send_with_fds(&client, &whole[..20], &[file.as_fd(); EACH]).unwrap();
        sync(&mut witness);
        client
    };
    let mut clients: Vec<UnixStream> = std::iter::repeat_with(begin).take(20).collect();
    // 100 for one, four times as many for its user; one that holds none may begin as long as something is left.
    let most = 4 * 100 + EACH + clients.len();
    let held = eventually_seen("more are held", || bus.descriptors(), |now| *now <= before + most);
    assert!(held > before + 100, "none are held: {held} descriptors, {before} before");
    assert!(is_closed(clients.last_mut().unwrap()));
    // The first may send the rest of its message, and another of those that were held.
    clients[0].write_all(&whole[20..]).unwrap();
    drop(clients);
    eventually_seen("descriptors stay", || bus.descriptors(), |now| *now <= before);
    sync(&mut witness);
    // One client with more than its own share, a little at a time.
    let mut greedy = bus.socket_after_hello(&[]);
    let many = signal_to_all().unix_fds(200).build(2).unwrap();
    for part in many[..20].chunks(5) {
        if send_with_fds(&greedy, part, &[file.as_fd(); EACH]).is_err() {
            break;
        }
        sync(&mut witness);
    }
    assert!(is_closed(&mut greedy));
}

/// Many clients that begin a large message and go on until the bus has enough of it.
#[test]
fn halves_of_messages_do_not_fill_the_memory() {
    let bus = Broker::configured("<limit name='max_incoming_bytes'>4000000</limit>");
    let mut witness = bus.client();
    let mut start = driver_call("GetId").build(2).unwrap();
    // A body of 24 MiB, of which the signature is never looked at.
    start[4..8].copy_from_slice(&(24_u32 << 20).to_ne_bytes());
    let mut ended = 0;
    let mut half: Vec<UnixStream> = Vec::new();
    for _ in 0..20 {
        let mut client = bus.socket_after_hello(&start);
        let sent = (0..20).try_for_each(|_| client.write_all(&[0; 1 << 18]));
        ended += u32::from(sent.is_err());
        half.push(client);
        sync(&mut witness);
    }
    let kib = bus.memory_kib();
    assert!(ended == 20 && kib < 48 << 10, "{ended} of 20 are ended, {kib} KiB are used");
}

#[test]
fn a_subscriber_that_does_not_read_is_ended_and_the_others_get_everything() {
    const MESSAGES: u32 = 3_000;
    const AHEAD_MAX: u32 = 100;
    let bus = Broker::configured("<limit name='max_outgoing_bytes'>4000000</limit>");
    let (mut sender, mut stalled, mut reading) = (bus.client(), bus.client(), bus.client());
    for connection in [&mut stalled, &mut reading] {
        connection.add_match(RULE).unwrap();
    }
    let gone = format!("member='NameOwnerChanged',arg0='{}'", stalled.unique_name());
    sender.add_match(&gone).unwrap();
    let progress = AtomicU32::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for got in 1..=MESSAGES {
                client_signal(&mut reading);
                // Relaxed: the number alone matters.
                progress.store(got, Ordering::Relaxed);
            }
        });
        let signal = Builder::signal(PATH, INTERFACE, "Drop").body(Body::default().blob(&[7; 10_000]));
        for number in 0..MESSAGES {
            // Never so far ahead that the one that reads would have to be ended too, however slow the machine is.
            let is_near = |got: &u32| got + AHEAD_MAX > number;
            eventually_seen("the reader does not go on", || progress.load(Ordering::Relaxed), is_near);
            sender.send(&signal).unwrap();
        }
    });
    wait_for_member(&mut sender, "NameOwnerChanged");
    let ended = end_of(&mut stalled);
    assert!(matches!(ended, Error::Closed), "{ended:?}");
    eventually_seen("memory stays", || bus.memory_kib(), |kib| *kib < 64 << 10);
}

#[test]
fn calls_to_one_that_does_not_read_are_errors_to_the_caller() {
    let bus = Broker::configured(
        "<limit name='max_outgoing_bytes'>1000000</limit><limit name='max_replies_per_connection'>100000</limit>",
    );
    let (mut caller, stalled) = (bus.client(), bus.client());
    let to = stalled.unique_name();
    let call = Builder::call("/", "M").destination(to).body(Body::default().blob(&[7; 50_000]));
    let refused = (0..100).find_map(|_| {
        caller.send(&call).unwrap();
        caller.send(&driver_call("GetId")).unwrap();
        let answer = wait_for(&mut caller, |header| header.reply_serial.is_some());
        header(&answer).error_name.map(str::to_owned)
    });
    assert_eq!(refused.as_deref(), Some("org.freedesktop.DBus.Error.LimitsExceeded"));
    assert!(caller.name_owner(to).unwrap().is_some(), "the callee is still there");
}

#[test]
fn descriptors_pass_up_to_the_limit_of_the_kernel_and_none_stays() {
    let bus = Broker::start();
    let (mut sender, mut receiver) = (bus.client(), bus.client());
    receiver.keep_descriptors();
    let to = receiver.unique_name().to_owned();
    let before = bus.descriptors();
    for count in [1, 2, 253] {
        let file = file("x");
        let message = Builder::call("/", "Take").destination(&to).flags(FLAG_NO_REPLY_EXPECTED);
        sender.send_with_fds(&message.unix_fds(count), &vec![file.as_fd(); count as usize]).unwrap();
        assert_eq!(header(&wait_for_member(&mut receiver, "Take")).unix_fds, count);
        assert_eq!(receiver.take_descriptors().len(), count as usize);
    }
    eventually_seen("descriptors stay in the bus", || bus.descriptors(), |now| *now <= before);
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
        Err(rustix::io::Errno::OPNOTSUPP) => {
            skipped(Cause::Kernel("urgent bytes on Unix sockets"), "");
            false
        }
        sent => {
            assert_eq!(sent, Ok(bytes.len()));
            true
        }
    }
}

/// How the bus gets a descriptor of which it becomes the last holder, and which waits when it is closed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// With a signal for nobody.
    Read,
    /// With an urgent byte of an invalid message.
    Urgent,
    /// Never: the connection was ended for what came before, and the descriptor goes with it.
    Unread,
}

#[test]
fn closing_a_descriptor_that_lingers_does_not_stop_the_bus() {
    let bus = Broker::start();
    let mut witness = bus.client();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    for way in [Way::Read, Way::Urgent, Way::Unread] {
        let (socket, _peer) = lingering(&listener);
        let mut client = bus.socket_after_hello(&[]);
        let signal = signal_to_all().unix_fds(1).build(2).unwrap();
        bus.stopped(|| {
            if way == Way::Unread {
                client.write_all(&[b'x'; 4096]).unwrap();
            }
            if way == Way::Urgent {
                send_urgently(&client, b"x", socket.as_fd());
                client.write_all(&[b'x'; 100]).unwrap();
            } else {
                send_with_fds(&client, &signal, &[socket.as_fd()]).unwrap();
            }
            // This process gives the socket up, so that the bus is the last to hold it.
            drop(socket);
        });
        // A bus that waited for it would not answer before the patience of this client is over.
        (0..10).for_each(|_| sync(&mut witness));
        assert!(way == Way::Read || is_closed(&mut client), "{way:?}");
    }
}

#[test]
fn an_urgent_byte_and_its_descriptor_stay_where_they_are_in_the_stream() {
    let bus = Broker::start();
    let mut receiver = bus.client();
    receiver.keep_descriptors();
    let to = receiver.unique_name().to_owned();
    let call = Builder::call("/", "Take").destination(&to).flags(FLAG_NO_REPLY_EXPECTED).unix_fds(1);
    let last = call.build(2).unwrap().len() - 1;
    // At the beginning of a message, in the middle, and as its last byte; alone and with bytes before it.
    for (from, until) in [(0, 1), (1, 20), (20, 21), (last, last + 1)] {
        let mut client = bus.socket_after_hello(&[]);
        for serial in 2..5 {
            let message = call.build(serial).unwrap();
            let pipe = Pipe::new();
            // Read in one piece: the bytes before and behind are there already.
            let is_sent = bus.stopped(|| {
                client.write_all(&message[..from]).unwrap();
                let is_sent = send_urgently(&client, &message[from..until], pipe.write.as_fd());
                client.write_all(if is_sent { &message[until..] } else { &[] }).unwrap();
                is_sent
            });
            if !is_sent {
                return;
            }
            let got = wait_for_member(&mut receiver, "Take");
            assert_eq!(header(&got).serial, serial, "{from} to {until}");
            // It is this one, and no other is open.
            write_into(receiver.take_descriptors(), "it");
            assert_eq!(pipe.text(), "it", "{from} to {until}");
        }
    }
}

/// More than there are threads that close.
#[test]
fn many_descriptors_that_linger_keep_no_connection_open() {
    const HANGING: usize = 40;
    let bus = Broker::start();
    let mut sender = bus.client();
    let start = bus.descriptors();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let signal = signal_to_all().unix_fds(1);
    let mut peers = Vec::new();
    bus.stopped(|| {
        for _ in 0..HANGING {
            let (socket, peer) = lingering(&listener);
            sender.send_with_fds(&signal, &[socket.as_fd()]).unwrap();
            peers.push(peer);
        }
    });
    sync(&mut sender);
    let before = bus.descriptors();
    // Those that hang have left the table already; the others wait.
    assert!(before > start + HANGING / 2, "none of them hangs: {before} descriptors, {start} before");
    // One that is evicted while much of what it has sent is unread, and many that have said nothing wrong.
    let mut breaking = bus.socket_after_hello(&[]);
    bus.stopped(|| breaking.write_all(&[b'x'; 100_000]).unwrap());
    assert!(is_closed(&mut breaking));
    (0..50).for_each(|_| drop(bus.client()));
    // The socket of the first may wait for its turn; those of the others do not.
    eventually_seen("sockets stay", || bus.descriptors(), |now| *now <= before + 1);
    drop(peers);
    eventually_seen("descriptors stay", || bus.descriptors(), |now| *now <= start);
}

/// All that waits when the bus looks is taken in turns, some messages of each client.
#[test]
fn a_client_that_sends_much_at_once_does_not_stand_before_the_others() {
    const FLOOD: usize = 400;
    const BEFORE_MAX: usize = 100;
    let bus = Broker::start();
    let (mut flood, mut other, mut observer) = (bus.client(), bus.client(), bus.client());
    observer.add_match(RULE).unwrap();
    let signal = |member| Builder::signal(PATH, INTERFACE, member);
    let all: Vec<u8> = (10..).take(FLOOD).flat_map(|serial| signal("Flood").build(serial).unwrap()).collect();
    // What is in its socket first, and fits into it.
    bus.stopped(|| {
        flood.send_bytes(&all).unwrap();
        other.send(&signal("Other")).unwrap();
    });
    let seen: Vec<Vec<u8>> = (0..=FLOOD).map(|_| client_signal(&mut observer)).collect();
    let before = seen.iter().position(|message| header(message).member == Some("Other"));
    assert!(before.is_some_and(|before| before < BEFORE_MAX), "{before:?} messages of the flood came first");
}

#[test]
fn a_thousand_connections_cost_little_and_leave_nothing() {
    const CONNECTIONS: usize = 1_000;
    // This process needs a descriptor for each, too.
    causeway_os::limits::raise_nofile().unwrap();
    let mut bus = Broker::start();
    let mut witness = bus.client();
    let (memory, descriptors) = (bus.memory_kib(), bus.descriptors());
    let mut crowd: Vec<Client> = (0..CONNECTIONS).map(|_| bus.client()).collect();
    let each = (bus.memory_kib() - memory) as f64 / CONNECTIONS as f64;
    assert!(each <= 40.0, "{each} KiB each");
    crowd.iter_mut().for_each(|connection| connection.add_match(RULE).unwrap());
    witness.send(&Builder::signal(PATH, INTERFACE, "All")).unwrap();
    for connection in &mut crowd {
        client_signal(connection);
    }
    drop(crowd);
    eventually_seen("descriptors stay", || bus.descriptors(), |now| *now <= descriptors);
    let names = witness.ask_driver("ListNames", Body::default()).unwrap();
    assert!(names.len() < 500, "names stay");
    assert!(bus.is_running());
}
