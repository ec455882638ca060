//! Calls between processes: replies, deadlines, cancellation, and the end of either side.
//!
//! # Safety
//! Children are forked that make system calls only, on values that they have already, and then end.
#![allow(unsafe_code)]

use std::io::{Read, Seek, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::common::{LONG, Peer, Role, eventually, eventually_seen, place, spawn_until_blocked};
use crate::neighbors::{STRANGER, as_user, public_folder};
use causeway::call::{self, CallError, Client, Connection, ReplyError, Responder, ServeOptions, Server};
use causeway::{Access, Error, Refusal};
use causeway_testkit::{Cause, skipped};
use tempfile::TempDir;

/// Longer than any machine runs.
const CENTURIES: Duration = Duration::from_secs(300 * 366 * 86_400);

/// What the processes of these tests do.
pub const ROLES: &[(&str, Role)] = &[
    ("echo", |socket, _| {
        let _server = call::serve(socket, |request| drop(request.responder.reply(request.bytes))).unwrap();
        std::thread::sleep(LONG);
    }),
    ("never-reply", |socket, number| never_reply(socket, number == 1)),
    ("call-and-wait", |socket, _| {
        let mut client = connect(socket);
        // Until it is killed.
        let reply = client.call(b"wait", None);
        panic!("the call ended: {:?}", reply.err());
    }),
    ("leave-beside-a-child", |socket, _| {
        let client = connect(socket);
        fork_a_child_that_lives(socket);
        std::fs::write(socket.with_extension("called"), b"").unwrap();
        drop(client);
        std::thread::sleep(LONG);
    }),
];

/// Says in a file that a call has come, and does not reply to it. With `forks`, a child lives on that holds the connection.
fn never_reply(socket: &Path, forks: bool) {
    let path = socket.to_owned();
    let _server = call::serve(socket, move |_request| {
        if forks {
            fork_a_child_that_lives(&path);
        }
        std::fs::write(path.with_extension("called"), b"called").unwrap();
        std::thread::sleep(LONG);
    });
    std::thread::sleep(LONG);
}

/// Forks a child that has all descriptors of this process, and lives until there is a file with the extension `end`.
fn fork_a_child_that_lives(socket: &Path) {
    let end = socket.with_extension("end");
    // SAFETY: see above.
    if let nix::unistd::ForkResult::Child = unsafe { nix::unistd::fork() }.unwrap() {
        let start = Instant::now();
        while !end.exists() && start.elapsed() < LONG {
            std::thread::sleep(Duration::from_millis(1));
        }
        // SAFETY: nothing is left to be cleaned up.
        unsafe { nix::libc::_exit(0) }
    }
}

/// Connects to the server at `socket`, waiting until a process serves there.
pub fn connect(socket: &Path) -> Client {
    eventually_seen("a server", || Client::connect(socket), Result::is_ok).unwrap()
}

/// A server that replies with the request, and a client of it.
fn echo() -> (TempDir, PathBuf, Server, Client) {
    let (folder, socket) = place();
    let server = call::serve(&socket, |request| drop(request.responder.reply(request.bytes))).unwrap();
    let client = connect(&socket);
    (folder, socket, server, client)
}

/// A server that passes the responders of its calls on, each with its request.
fn deferring(options: ServeOptions) -> (TempDir, PathBuf, Server, Receiver<(Vec<u8>, Responder)>) {
    let (folder, socket) = place();
    let (sender, receiver) = mpsc::channel();
    let server = options.serve(&socket, move |request| {
        let _ = sender.send((request.bytes.to_vec(), request.responder));
    });
    (folder, socket, server.unwrap(), receiver)
}

#[test]
fn a_process_gets_its_requests_back_from_another_one() {
    let (_folder, socket) = place();
    let _server = Peer::start("echo", &socket, 0);
    let mut client = connect(&socket);
    let longest = client.request_bytes_max();
    assert_eq!(longest, 64 << 10);
    for bytes in [0, 1, 31, 32, 33, 4096, longest - 1, longest].repeat(10) {
        let request: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
        let reply = client.call(&request, Some(LONG)).unwrap();
        assert!(reply.bytes == request, "{bytes} bytes came back as {}", reply.bytes.len());
    }
    let too_long = client.call(&vec![0; longest + 1], Some(LONG)).unwrap_err();
    assert!(matches!(too_long, CallError::RequestTooLong { limit_bytes, .. } if limit_bytes == longest));
    assert_eq!(client.calls_in_flight(), 0);
}

#[test]
fn a_server_that_is_killed_during_a_call_is_an_error_at_once() {
    for forks in [false, true] {
        let (_folder, socket) = place();
        let mut server = Peer::start("never-reply", &socket, u64::from(forks));
        let mut client = connect(&socket);
        let call = client.begin(b"x", None).unwrap();
        eventually("the call does not arrive", || socket.with_extension("called").exists());
        std::thread::scope(|scope| {
            let waiting = spawn_until_blocked(scope, || client.wait(call).map(|reply| reply.bytes.to_vec()));
            server.kill();
            let ended = waiting.join().unwrap();
            assert!(matches!(ended, Err(CallError::ServerGone)), "{ended:?}");
        });
        std::fs::write(socket.with_extension("end"), b"").unwrap();
        let next = client.call(b"x", None).map(|reply| reply.bytes.len());
        assert!(matches!(next, Err(CallError::ServerGone)), "{next:?}");
    }
}

#[test]
fn a_client_that_is_killed_leaves_nothing_and_its_reply_fails() {
    let (_folder, socket, server, calls) = deferring(ServeOptions::new());
    let mut victim = Peer::start("call-and-wait", &socket, 0);
    let (_, responder) = calls.recv_timeout(LONG).unwrap();
    assert_eq!(server.clients(), 1);
    victim.kill();
    eventually("the dead client keeps its place", || server.clients() == 0);
    // There is space for the reply, and nobody to read it: it is sent, or the end is noticed.
    match responder.reply(b"late") {
        Ok(()) | Err(ReplyError::ClientGone) => {}
        Err(other) => panic!("{other}"),
    }
    let mut another = connect(&socket);
    let call = another.begin(b"another", Some(LONG)).unwrap();
    calls.recv_timeout(LONG).unwrap().1.reply(b"reply").unwrap();
    assert_eq!(another.wait(call).unwrap().bytes, b"reply");
}

#[test]
fn sixty_four_calls_in_flight_get_their_own_replies_in_any_order() {
    let (_folder, socket, _server, calls) = deferring(ServeOptions::new());
    let mut client = connect(&socket);
    for round in 0..20u64 {
        let begun: Vec<_> =
            (0..64u64).map(|n| (n, client.begin(&(round * 64 + n).to_le_bytes(), None).unwrap())).collect();
        let mut open: Vec<_> = (0..64).map(|_| calls.recv_timeout(LONG).unwrap()).collect();
        open.sort_by_key(|(bytes, _)| {
            u64::from_le_bytes(bytes[..].try_into().unwrap()).wrapping_mul(0x9e37_79b9) % 67
        });
        for (bytes, responder) in open {
            responder.reply(&bytes.repeat(3)).unwrap();
        }
        for (n, call) in begun.into_iter().rev() {
            let reply = client.wait(call).unwrap();
            assert_eq!(reply.bytes, (round * 64 + n).to_le_bytes().repeat(3));
        }
        assert_eq!(client.calls_in_flight(), 0);
    }
}

#[test]
fn replies_from_many_threads_at_once_stay_whole() {
    let (_folder, socket, _server, calls) = deferring(ServeOptions::new().capacity_bytes(16 << 10));
    let calls = Arc::new(Mutex::new(calls));
    for _ in 0..4 {
        let calls = Arc::clone(&calls);
        std::thread::spawn(move || {
            loop {
                let taken = calls.lock().unwrap().recv();
                let Ok((bytes, responder)) = taken else { return };
                responder.reply(&bytes).unwrap();
            }
        });
    }
    let mut client = connect(&socket);
    let mut begun = Vec::new();
    // More than the logs hold: beginning a call takes the replies that have come.
    for n in 0..1000u32 {
        let request = vec![n as u8; 300 + n as usize];
        begun.push((client.begin(&request, None).unwrap(), request));
    }
    for (call, request) in begun {
        assert!(client.wait(call).unwrap().bytes == request);
    }
}

#[test]
fn a_cancelled_call_and_one_past_its_deadline_are_cancelled_for_the_server_too() {
    let (_folder, socket, _server, calls) = deferring(ServeOptions::new());
    let mut client = connect(&socket);

    let call = client.begin(b"cancelled", None).unwrap();
    let (_, responder) = calls.recv_timeout(LONG).unwrap();
    assert!(!responder.is_cancelled());
    assert!(client.cancel(call));
    assert!(!client.cancel(call), "it is over");
    eventually("the cancellation does not arrive", || responder.is_cancelled());
    assert!(matches!(responder.reply(b"nobody wants it"), Err(ReplyError::Cancelled)));
    assert!(matches!(client.wait(call), Err(CallError::Cancelled)));

    for timeout in [Duration::ZERO, Duration::from_millis(20)] {
        let late = client.call(b"late", Some(timeout)).map(|reply| reply.bytes.len());
        assert!(matches!(late, Err(CallError::Deadline)), "{late:?}");
        let (_, responder) = calls.recv_timeout(LONG).unwrap();
        eventually("the server does not learn of the deadline", || responder.is_cancelled());
    }
    // A reply that crosses the cancellation is discarded.
    let call = client.begin(b"crossing", None).unwrap();
    let (_, responder) = calls.recv_timeout(LONG).unwrap();
    responder.reply(b"too late").unwrap();
    assert!(client.cancel(call));
    assert_eq!(client.calls_in_flight(), 0);

    let call = client.begin(b"centuries", Some(CENTURIES)).unwrap();
    calls.recv_timeout(LONG).unwrap().1.reply(b"soon").unwrap();
    assert_eq!(client.wait(call).unwrap().bytes, b"soon");
    let call = client.begin(b"for ever", Some(Duration::MAX)).unwrap();
    calls.recv_timeout(LONG).unwrap().1.reply(b"soon").unwrap();
    assert_eq!(client.poll().map(|ready| ready.len()).unwrap_or(0), 1);
    assert_eq!(client.wait(call).unwrap().bytes, b"soon");
}

#[test]
fn a_client_that_never_reads_its_replies_is_disconnected_and_delays_no_other() {
    let (_folder, socket) = place();
    let refused = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&refused);
    let options = ServeOptions::new().capacity_bytes(4096).patience(Duration::from_millis(50));
    let server = options.serve(&socket, move |request| {
        if let Err(ReplyError::ClientNotReading) = request.responder.reply(&[7; 1000]) {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    let server = server.unwrap();
    let mut silent = connect(&socket);
    // Three replies fill the log of replies; the requests themselves have space.
    let begun: Vec<_> = (0..8).map(|_| silent.begin(b"x", None).unwrap()).collect();
    let mut other = connect(&socket);
    for _ in 0..100 {
        assert_eq!(other.call(b"y", Some(LONG)).unwrap().bytes, [7; 1000]);
    }
    eventually("nobody gives up on the silent client", || refused.load(Ordering::SeqCst) > 0);
    eventually("the silent client keeps its place", || server.clients() == 1);
    let outcomes: Vec<_> = begun
        .into_iter()
        .map(|call| silent.wait(call).map(|reply| reply.bytes.len()).map_err(|error| error.to_string()))
        .collect();
    // What was sent before is received.
    assert_eq!(outcomes[0], Ok(1000), "{outcomes:?}");
    assert_eq!(outcomes[7], Err(CallError::RepliesNotRead.to_string()), "{outcomes:?}");
}

/// Before, each reply that it took gave it all the time again.
#[test]
fn a_client_that_takes_a_reply_now_and_then_does_not_keep_the_server_waiting() {
    let (_folder, socket) = place();
    let options = ServeOptions::new().capacity_bytes(4096).patience(Duration::from_millis(50));
    let server = options.serve(&socket, |request| _ = request.responder.reply(&[7; 1000]));
    let _server = server.unwrap();
    let mut slow = connect(&socket);
    let begun: Vec<_> = (0..50).map(|_| slow.begin(b"x", None).unwrap()).collect();
    let outcome = begun.into_iter().try_for_each(|call| {
        std::thread::sleep(Duration::from_millis(20));
        slow.wait(call).map(drop).map_err(|error| error.to_string())
    });
    assert_eq!(outcome, Err(CallError::RepliesNotRead.to_string()));
}

#[test]
fn a_handler_without_a_reply_one_that_panics_and_one_that_replies_too_much_are_told_apart() {
    let (_folder, socket) = place();
    let options = ServeOptions::new().capacity_bytes(4096);
    let server = options.serve(&socket, |request| match request.bytes {
        b"long" => {
            let sent = request.responder.reply(&[0; 1025]);
            assert!(matches!(sent, Err(ReplyError::TooLong { bytes: 1025, limit_bytes: 1024 })), "{sent:?}");
        }
        b"panic" => panic!("on purpose"),
        b"loan" => {
            let mut responder = request.responder;
            let mut loan = responder.loan(3).unwrap();
            loan.copy_from_slice(b"abc");
            loan.send().unwrap();
        }
        _ => {}
    });
    let _server = server.unwrap();
    let mut client = connect(&socket);
    let mut outcome = |request: &[u8]| client.call(request, Some(LONG)).map(|reply| reply.bytes.to_vec());
    assert!(matches!(outcome(b"nothing"), Err(CallError::NoReply)));
    assert!(matches!(outcome(b"long"), Err(CallError::ReplyTooLong { bytes: 1025, limit_bytes: 1024 })));
    assert_eq!(outcome(b"loan").unwrap(), b"abc");
    assert!(matches!(outcome(b"panic"), Err(CallError::NoReply)));
    assert!(matches!(outcome(b"again"), Err(CallError::ServerGone)));
    assert!(matches!(connect(&socket).call(b"nothing", None), Err(CallError::NoReply)), "others go on");
}

#[test]
fn a_server_that_is_dropped_ends_its_calls() {
    let (_folder, socket, server, calls) = deferring(ServeOptions::new());
    let mut client = connect(&socket);
    let call = client.begin(b"x", None).unwrap();
    let _open = calls.recv_timeout(LONG).unwrap();
    drop(server);
    assert!(matches!(client.wait(call), Err(CallError::ServerGone)));
    assert!(!socket.exists());
    assert!(Client::connect(&socket).is_err());
}

#[test]
fn descriptors_travel_both_ways_where_the_server_takes_them() {
    let (_folder, socket) = place();
    let server = ServeOptions::new().descriptors(true).serve(&socket, |request| {
        let files: Vec<_> = request.descriptors.iter().map(AsFd::as_fd).collect();
        request.responder.reply_with_descriptors(request.bytes, &files).unwrap();
    });
    let _server = server.unwrap();
    let mut client = connect(&socket);
    let files: Vec<_> = (0..16u8)
        .map(|n| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&[n; 10]).unwrap();
            file
        })
        .collect();
    for count in [0, 1, 5, 16] {
        let fds: Vec<_> = files[..count].iter().map(AsFd::as_fd).collect();
        let call = client.begin_with_descriptors(&[count as u8], &fds, Some(LONG)).unwrap();
        let reply = client.wait(call).unwrap();
        assert_eq!(reply.bytes, [count as u8]);
        assert_eq!(reply.descriptors.len(), count);
        for (n, fd) in reply.descriptors.into_iter().enumerate() {
            let (mut file, mut content) = (std::fs::File::from(fd), Vec::new());
            file.rewind().unwrap();
            file.read_to_end(&mut content).unwrap();
            assert_eq!(content, [n as u8; 10]);
        }
    }
    let many = vec![files[0].as_fd(); 17];
    let refused = client.begin_with_descriptors(b"", &many, None).unwrap_err().to_string();
    assert!(refused.contains("at most 16"), "{refused}");
    assert_eq!(client.call(b"goes on", Some(LONG)).unwrap().bytes, b"goes on");
}

#[test]
fn a_server_takes_no_descriptors_unless_it_says_so() {
    let (near, far) = causeway_os::socket::seqpacket_pair().unwrap();
    if !causeway_os::socket::refuse_descriptors(&near).unwrap() {
        return skipped(Cause::Kernel("SO_PASSRIGHTS"), "Linux 6.16 has it");
    }
    drop((near, far));
    let (_folder, _, _server, mut client) = echo();
    let file = tempfile::tempfile().unwrap();
    let refused = client.begin_with_descriptors(b"x", &[file.as_fd()], None).unwrap_err().to_string();
    assert!(refused.contains("takes no descriptors"), "{refused}");
    assert_eq!(client.call(b"goes on", Some(LONG)).unwrap().bytes, b"goes on");
}

#[test]
fn users_that_the_rule_does_not_name_are_refused_and_others_sleep_where_no_stranger_reaches() {
    let (_folder, path) = public_folder();
    let call_as_stranger = |path: &Path| {
        let mut client = Client::connect(path)?;
        // Both ends sleep between two calls.
        for n in 0..50u8 {
            std::thread::sleep(Duration::from_millis(1));
            assert_eq!(client.call(&[n], Some(LONG)).unwrap().bytes, [n]);
        }
        Ok::<_, Error>(())
    };
    let reply = |request: call::Request<'_>| {
        std::thread::sleep(Duration::from_millis(1));
        request.responder.reply(request.bytes).unwrap();
    };
    let _server = ServeOptions::new().clients(Access::AnyUser).serve(&path, reply).unwrap();
    let Some(called) = as_user(STRANGER, || call_as_stranger(&path)) else { return };
    called.unwrap();
    let path = path.with_extension("some");
    let _server = ServeOptions::new().clients(Access::Users([7].into())).serve(&path, reply).unwrap();
    let refused = as_user(STRANGER, || call_as_stranger(&path)).unwrap();
    assert!(matches!(refused, Err(Error::Refused(Refusal::Forbidden))), "{refused:?}");
}

#[test]
fn a_pair_of_sockets_connects_two_threads() {
    let (near, far) = causeway_os::socket::seqpacket_pair().unwrap();
    let (tell, told) = mpsc::channel();
    let serving = std::thread::spawn(move || {
        let mut connection = Connection::over(far, &ServeOptions::new()).unwrap();
        assert!(connection.recv(Some(Duration::ZERO)).unwrap().is_none(), "nothing was asked");
        tell.send(()).unwrap();
        for count in 0.. {
            match connection.recv(None) {
                Ok(request) => request.map_or(Ok(()), |it| it.responder.reply(it.bytes)).unwrap(),
                Err(Error::Disconnected) => return count,
                Err(error) => panic!("{error}"),
            }
        }
        unreachable!("the client leaves")
    });
    let mut client = Client::over(near).unwrap();
    told.recv_timeout(LONG).unwrap();
    for n in 0..100u8 {
        let mut loan = client.loan(2, Some(LONG)).unwrap();
        loan.fill(n);
        let call = loan.begin().unwrap();
        assert_eq!(client.wait(call).unwrap().bytes, [n; 2]);
    }
    drop(client);
    assert_eq!(serving.join().unwrap(), 100);
}

#[test]
fn what_is_no_client_is_refused_and_what_is_no_server_too() {
    let (_folder, socket, server, client) = echo();
    drop(client);
    let refused = causeway::Group::join(&socket).unwrap().subscribe(causeway::Policy::Lossy).unwrap_err();
    assert!(matches!(refused, Error::Refused(Refusal::NotUnderstood)), "{refused}");
    eventually("the subscriber keeps its place", || server.clients() == 0);

    let path = socket.with_extension("group");
    let group = causeway::Group::create("group", crate::common::small()).unwrap();
    group.serve_at(&path).unwrap();
    let refused = Client::connect(&path).unwrap_err();
    assert!(matches!(refused, Error::Refused(Refusal::NotUnderstood)), "{refused}");
}

#[test]
fn a_client_that_leaves_beside_a_forked_child_is_gone() {
    let (_folder, socket, server, client) = echo();
    drop(client);
    let mut client = Peer::start("leave-beside-a-child", &socket, 0);
    eventually("the child is not there", || socket.with_extension("called").exists());
    eventually("the client that left keeps its place", || server.clients() == 0);
    std::fs::write(socket.with_extension("end"), b"").unwrap();
    client.kill();
}
