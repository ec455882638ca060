//! Fuzzing of the control socket of an authority: each input is packets of processes, right and wrong ones.
//!
//! A packet begins with a byte that says how it is sent and its length in two. Bits 0 and 1 of that byte name one of four processes, bit 2
//! lets it connect anew, and bits 4 to 7 say which descriptors come with it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use causeway_bus::shared::outbox::Outbox;
use causeway_bus::{Authority, AuthorityOptions, Event};
use causeway_os::socket::{recv_with_fds, send_with_fds};
use causeway_testkit::{fuzz, temp_dir};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

const OUTBOX: u64 = 2;
const DESCRIPTOR: u64 = 17;
/// Each second process that asks to join is refused.
const REFUSED: &str = "not today";

/// The bytes of packets, and how each is sent.
fn packets(mut input: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let ([how, low, high], rest) = input.split_first_chunk()?;
        let (packet, rest) = rest.split_at(rest.len().min(usize::from(u16::from_le_bytes([*low, *high]))));
        input = rest;
        Some((*how, packet))
    })
}

fn process(path: &Path) -> OwnedFd {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    socket
}

/// The first word and the number of descriptors of a packet that has come.
fn answer(socket: &OwnedFd) -> Option<(u64, usize)> {
    let mut bytes = [0; 1024];
    let (count, fds) = recv_with_fds(socket, &mut bytes, 8).ok()?;
    (count >= 8).then(|| (u64::from_ne_bytes(*bytes.first_chunk().unwrap()), fds.len()))
}

/// A bus without clients.
struct Host {
    authority: Authority,
    asked: u64,
    members: Vec<u64>,
}

impl Host {
    /// Serves at a path, and nobody has joined.
    fn new(path: &Path) -> Host {
        let options = AuthorityOptions {
            order_entries: 1 << 8,
            outbox_bytes: 1 << 12,
            members: 8,
            ..AuthorityOptions::default()
        };
        let mut authority = Authority::create(options, 7).unwrap();
        authority.serve_at(path).unwrap();
        Host { authority, asked: 0, members: Vec::new() }
    }

    /// Serves what has come.
    fn turn(&mut self) {
        // Of each process one packet is served at a time; a connection is one more.
        for _ in 0..2 {
            for event in self.authority.dispatch().unwrap() {
                match event {
                    Event::Joining(ticket, _) => {
                        self.asked += 1;
                        if self.asked.is_multiple_of(2) {
                            self.authority.refuse(ticket, REFUSED);
                        } else if self.authority.admit(ticket, self.asked + 1).is_ok() {
                            self.members.push(self.asked + 1);
                            self.authority.welcome(self.asked + 1);
                        }
                    }
                    Event::Left { peer, .. } => {
                        let end = self.authority.end();
                        while self.authority.next(end).unwrap().is_some() {}
                        self.authority.remove(peer);
                        self.members.retain(|member| *member != peer);
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn packets_of_any_kind_leave_an_authority_as_it_was() {
    let folder = temp_dir("control");
    let path = folder.path().join("bus");
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/control");
    let joining = std::fs::read(corpus.join("join")).unwrap();
    let (pipe, _writer) = rustix::pipe::pipe().unwrap();
    let doorbell = rustix::event::eventfd(0, rustix::event::EventfdFlags::NONBLOCK).unwrap();
    let fds = [Outbox::create(1 << 12).unwrap().0, doorbell, pipe];

    fuzz::run(corpus, &["CWYB\u{9}\0\0\0", "\0\0\0\0\0\0\0\0", "\u{2}\0\0\0\0\0\0\0", "0f"], |input| {
        let before = descriptors();
        let mut host = Host::new(&path);
        let witness = process(&path);
        send_with_fds(&witness, &joining[3..], &[fds[0].as_fd()]).unwrap();
        host.turn();
        // An agreement on the format, and the welcome.
        assert!(answer(&witness).is_some() && answer(&witness).is_some());
        let mut processes: [Option<OwnedFd>; 4] = [const { None }; 4];
        let mut answers = Vec::new();
        for (how, packet) in packets(input).take(32) {
            let connection = &mut processes[usize::from(how % 4)];
            if how & 4 != 0 {
                *connection = None;
            }
            let socket = connection.get_or_insert_with(|| process(&path));
            let sent: Vec<BorrowedFd<'_>> = fds
                .iter()
                .cycle()
                .skip(usize::from(how >> 6))
                .take(usize::from(how >> 4) % 4)
                .map(AsFd::as_fd)
                .collect();
            // The authority may have ended the connection.
            let _ = send_with_fds(&*socket, packet, &sent);
            host.turn();
            answers.extend([answer(socket), answer(socket)]);
        }
        drop(processes);
        for _ in 0..4 {
            host.turn();
        }
        assert_eq!(host.members, [2], "others than the witness are members");
        let request = [OUTBOX, 1, 2, 0, 0].map(u64::to_ne_bytes);
        send_with_fds(&witness, request.as_flattened(), &[]).unwrap();
        host.turn();
        assert_eq!(answer(&witness), Some((DESCRIPTOR, 1)), "the witness is not served");
        drop((host, witness));
        assert_eq!(descriptors(), before);
        answers
    });
}
