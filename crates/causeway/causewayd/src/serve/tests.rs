//! Single steps of the loop.

use std::io::Write;
use std::os::unix::net::UnixStream;

use causeway_dbus_wire::driver::DRIVER;
use causeway_dbus_wire::wire::Builder;

use super::*;
use crate::config::Config;
use crate::listen;

fn server() -> Server {
    let children = Children::new(rustix::process::getrlimit(rustix::process::Resource::Nofile));
    let bus =
        Bus::new(Config::session(), Box::new(|| Ok(Config::session())), listen::new_guid(), String::new());
    Server::new(bus, Vec::new(), children).unwrap()
}

/// A client whose first bytes are these, after its authentication and Hello.
fn client(server: &mut Server, bytes: &[u8], fds: &[std::os::fd::BorrowedFd<'_>]) -> (MemberId, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    server.now = Instant::now();
    server.admit(ours.into());
    let id = server.clients.keys().copied().max_by_key(|id| id.0).unwrap();
    let uid = rustix::process::geteuid().as_raw().to_string();
    let digits: String = uid.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut all = format!("\0AUTH EXTERNAL {digits}\r\nNEGOTIATE_UNIX_FD\r\nBEGIN\r\n").into_bytes();
    let hello = Builder::call("/org/freedesktop/DBus", "Hello").interface(DRIVER).destination(DRIVER);
    all.extend(hello.build(1).unwrap());
    all.extend(bytes);
    match fds {
        [] => (&theirs).write_all(&all).unwrap(),
        fds => causeway_os::socket::send_with_fds(&theirs, &all, fds).unwrap(),
    }
    (id, theirs)
}

#[test]
fn descriptors_of_a_half_message_behind_whole_ones_are_charged() {
    const FDS: usize = 60;
    let mut server = server();
    let whole = |serial| Builder::signal("/", "a.B", "C").build(serial).unwrap();
    let mut bytes: Vec<u8> = (2..).take(2 * MOST_MESSAGES).flat_map(whole).collect();
    let half = Builder::signal("/", "a.B", "C").unix_fds(FDS as u32).build(1000).unwrap();
    bytes.extend(&half[..20]);
    let file = std::fs::File::open("/dev/null").unwrap();
    let (id, _theirs) = client(&mut server, &bytes, &[file.as_fd(); FDS]);
    server.note(id, EventFlags::IN);
    server.serve();
    let client = &server.clients[&id];
    assert!(client.is_ready && client.connection.has_message(), "all of it was taken in one turn");
    assert_eq!(client.charged, FDS as u64);
}

/// Its backlog may be long.
#[test]
fn a_client_whose_socket_takes_more_is_queued_once_and_keeps_no_other_unread() {
    let mut server = server();
    let (slow, _slow) = client(&mut server, &[], &[]);
    let (other, _other) = client(&mut server, &[], &[]);
    for id in [slow, other] {
        server.note(id, EventFlags::IN);
    }
    server.serve();
    server.flush();
    let text = vec![7; 1 << 20];
    let long = Builder::signal("/", "a.B", "C").body(causeway_dbus_wire::wire::Body::default().blob(&text));
    let bytes = long.build(2).unwrap();
    let message = std::rc::Rc::new(crate::message::Message::new(bytes, descriptors::Descriptors::default()));
    let connection = &mut server.clients.get_mut(&slow).unwrap().connection;
    connection.push(message);
    for _ in 0..3 {
        server.note(slow, EventFlags::OUT);
    }
    assert_eq!((server.writable.len(), server.dirty.len()), (1, 0));
    // More than one slice takes: what is left over stops nobody from being read.
    server.writable.extend(std::iter::repeat_n(slow, 1_000_000));
    server.flush();
    assert!(!server.writable.is_empty(), "a slice did not end");
    assert!(!server.is_behind);
    server.note(other, EventFlags::IN);
    server.serve();
    assert!(server.ready.is_empty() && server.clients[&slow].connection.has_output());
    // Of what was never offered all is, before a client is read.
    server.dirty.extend(std::iter::repeat_n(other, 1_000_000));
    server.flush();
    assert!(server.is_behind);
    server.note(other, EventFlags::IN);
    server.serve();
    assert!(!server.ready.is_empty());
}
