//! The attacker: what a process may do with the socket of a group and with everything that a subscriber is given, in an order
//! drawn at random.

use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use causeway_os::memory::{Access, Mapping, Seals, add_seals};
use causeway_os::socket::{recv_with_fds, send_with_fds};
use nix::libc;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, ftruncate, memfd_create};
use rustix::mm::{Advice, madvise};
use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, socket_with, sockopt,
};

use super::super::become_another_user;
use crate::common::Rng;
use crate::common::wire::message;

/// Offset of `wake_seq` in the log.
const WAKE_SEQ: usize = 4096 + 0x180;
/// What one attacker holds at most of each thing, so that it takes turns in having and losing it.
const HELD_MAX: usize = 8;
/// How long an attacker waits for an answer that may never come.
const PATIENCE: Duration = Duration::from_millis(200);

/// All that the attacker can do.
const DEEDS: &[fn(&mut Attacker) -> Option<()>] = &[
    Attacker::join,
    Attacker::join_in_part,
    Attacker::leave,
    Attacker::connect_and_say_nothing,
    Attacker::request_at_random,
    Attacker::flood,
    Attacker::pass_a_descriptor,
    Attacker::write_page,
    Attacker::write_page,
    Attacker::forge_arm_word,
    Attacker::move_cursor,
    Attacker::take_memory_away,
    Attacker::wake_sleepers,
    Attacker::requeue_sleepers,
    Attacker::queue_for_a_lock,
    Attacker::misuse_doorbell,
    Attacker::fork,
    Attacker::rest,
];

/// One place in the group.
struct Place {
    socket: OwnedFd,
    generation: u32,
    log: Mapping,
    log_fd: OwnedFd,
    page_fd: OwnedFd,
    page: Mapping,
    doorbell: OwnedFd,
}

struct Attacker {
    path: PathBuf,
    random: Rng,
    places: Vec<Place>,
    connections: Vec<OwnedFd>,
    /// Sockets that do not want to close, and their far ends.
    lingering: Vec<(TcpStream, TcpStream)>,
}

/// Attacks the group at `path` until it is killed, or until it draws its own death.
pub fn attack(path: &Path, seed: u64) {
    become_another_user();
    let mut attacker = Attacker::new(path, seed);
    loop {
        let deed = attacker.random.usize(..DEEDS.len());
        // A refusal, or nothing to do it with, is no reason to stop.
        let _ = DEEDS[deed](&mut attacker);
        if attacker.one_in(2000) {
            // Without a word, and with everything that it holds.
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
    }
}

impl Attacker {
    fn new(path: &Path, seed: u64) -> Attacker {
        let random = Rng::with_seed(seed);
        Attacker { path: path.to_owned(), random, places: vec![], connections: vec![], lingering: vec![] }
    }

    fn one_in(&mut self, many: u64) -> bool {
        self.random.u64(..many) == 0
    }

    fn connect(&self) -> Option<OwnedFd> {
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).ok()?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(PATIENCE)).ok()?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(PATIENCE)).ok()?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(&self.path).ok()?).ok()?;
        Some(socket)
    }

    fn place(&mut self) -> Option<usize> {
        (!self.places.is_empty()).then(|| self.random.usize(..self.places.len()))
    }

    /// Some place in the group, and the source of chance.
    fn a_place(&mut self) -> Option<(&Place, &mut Rng)> {
        let place = self.place()?;
        Some((&self.places[place], &mut self.random))
    }

    fn join(&mut self) -> Option<()> {
        self.join_with_steps(2)
    }

    /// Stays where a subscriber has its page and not its place in the log.
    fn join_in_part(&mut self) -> Option<()> {
        let steps = self.random.usize(..2);
        self.join_with_steps(steps)
    }

    fn join_with_steps(&mut self, steps: usize) -> Option<()> {
        if self.places.len() == HELD_MAX {
            let place = self.place()?;
            self.places.swap_remove(place);
        }
        let socket = self.connect()?;
        let (policy, bound) = (self.random.u32(..6), self.random.u32(..100));
        send_with_fds(&socket, &message(3, &[policy, bound]), &[]).ok()?;
        let mut answer = [0; 64];
        let (_, fds) = recv_with_fds(&socket, &mut answer, 6).ok()?;
        let mut fds = fds.into_iter().skip(1);
        let (log_fd, page_fd, doorbell) = (fds.next()?, fds.next()?, fds.next()?);
        let page = Mapping::shared(&page_fd, 4096, Access::ReadWrite).ok()?;
        if !self.one_in(8) {
            add_seals(&page_fd, Seals::FUTURE_WRITE | Seals::SEAL).ok()?;
        }
        for step in [6, 7].into_iter().take(steps) {
            send_with_fds(&socket, &message(step, &[]), &[]).ok()?;
            recv_with_fds(&socket, &mut [0; 64], 1).ok()?;
        }
        let generation = u32::from_le_bytes(answer[16..20].try_into().ok()?);
        let log = Mapping::shared(&log_fd, 8192, Access::ReadOnly).ok()?;
        self.places.push(Place { socket, generation, log, log_fd, page_fd, page, doorbell });
        Some(())
    }

    fn leave(&mut self) -> Option<()> {
        let place = self.place()?;
        let place = self.places.swap_remove(place);
        if self.random.bool() {
            send_with_fds(&place.socket, &message(11, &[]), &[]).ok()?;
        }
        Some(())
    }

    fn connect_and_say_nothing(&mut self) -> Option<()> {
        if self.connections.len() == HELD_MAX * 8 {
            self.connections.clear();
        }
        self.connections.push(self.connect()?);
        Some(())
    }

    /// Some socket of the group: that of a place, or of a visitor.
    fn any_socket(&mut self) -> Option<OwnedFd> {
        let found = match self.place() {
            Some(place) if self.random.bool() => self.places[place].socket.try_clone(),
            _ if !self.connections.is_empty() => {
                let at = self.random.usize(..self.connections.len());
                self.connections[at].try_clone()
            }
            _ => return self.connect(),
        };
        found.ok()
    }

    fn request_at_random(&mut self) -> Option<()> {
        let socket = self.any_socket()?;
        let words: Vec<u32> = (0..5).map(|_| self.random.u64(..) as u32 >> (self.random.u64(..32))).collect();
        let mut request = message(self.random.u32(..24), &words);
        if self.one_in(4) {
            request[self.random.usize(..8)] = self.random.u8(..);
        }
        let bytes = self.random.usize(1..=64);
        rustix::net::send(&socket, &request[..bytes], SendFlags::DONTWAIT | SendFlags::NOSIGNAL).ok()?;
        Some(())
    }

    fn flood(&mut self) -> Option<()> {
        let socket = self.any_socket()?;
        let request = message(self.random.u32(..16), &[]);
        for _ in 0..1000 {
            rustix::net::send(&socket, &request, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).ok()?;
        }
        Some(())
    }

    /// Sends a descriptor that nobody asked for, of a kind whose closing or use may surprise.
    fn pass_a_descriptor(&mut self) -> Option<()> {
        let fd = self.a_descriptor()?;
        let socket = match self.place() {
            Some(place) if self.one_in(3) => self.places[place].doorbell.try_clone().ok()?,
            _ => self.any_socket()?,
        };
        let operation = self.random.u32(..16);
        send_with_fds(&socket, &message(operation, &[]), &[fd.as_fd()]).ok()
    }

    fn a_descriptor(&mut self) -> Option<OwnedFd> {
        Some(match self.random.u64(..6) {
            0 => eventfd(1, EventfdFlags::empty()).ok()?,
            1 => memfd_create("mine", MemfdFlags::ALLOW_SEALING).ok()?,
            2 => std::fs::File::open("/dev/zero").ok()?.into(),
            3 => self.connect()?,
            4 => rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).ok()?.0,
            _ => self.lingering_socket()?,
        })
    }

    /// A TCP socket with unsent data that waits for its peer when it is closed.
    fn lingering_socket(&mut self) -> Option<OwnedFd> {
        if self.lingering.len() == HELD_MAX {
            self.lingering.remove(0);
        }
        let listener = TcpListener::bind("127.0.0.1:0").ok()?;
        let near = TcpStream::connect(listener.local_addr().ok()?).ok()?;
        let (far, _) = listener.accept().ok()?;
        // Long enough that who waits for it is late, short enough that nothing of the attack outlives the test.
        sockopt::set_socket_linger(&near, Some(Duration::from_secs(5))).ok()?;
        near.set_nonblocking(true).ok()?;
        while rustix::net::send(&near, &[0; 1 << 16], SendFlags::DONTWAIT).is_ok() {}
        near.set_nonblocking(false).ok()?;
        let passed = near.try_clone().ok()?;
        self.lingering.push((near, far));
        Some(passed.into())
    }

    fn write_page(&mut self) -> Option<()> {
        let (place, random) = self.a_place()?;
        for _ in 0..100 {
            place.page.atomic_u64(random.usize(..512) * 8).store(random.u64(..), Ordering::Relaxed);
        }
        Some(())
    }

    /// Says of itself, or of the next subscriber with its place, that it sleeps with the count that is rung next.
    fn forge_arm_word(&mut self) -> Option<()> {
        let (place, random) = self.a_place()?;
        let generation = place.generation.wrapping_add(random.u32(..2));
        let word = (generation << 22).wrapping_add(random.u32(..12));
        place.page.atomic_u32(0x80).store(word, Ordering::SeqCst);
        Some(())
    }

    fn move_cursor(&mut self) -> Option<()> {
        let (place, random) = self.a_place()?;
        let limit = place.log.load_u64(4096).load(Ordering::Relaxed);
        let value = match random.u64(..4) {
            0 => limit,
            1 => limit.wrapping_sub(random.u64(..8192)),
            2 => limit.wrapping_add(random.u64(..8192)),
            _ => u64::MAX,
        };
        place.page.atomic_u64(0).store(value, Ordering::SeqCst);
        Some(())
    }

    fn take_memory_away(&mut self) -> Option<()> {
        let (place, _) = self.a_place()?;
        for fd in [&place.page_fd, &place.log_fd] {
            let _ = fallocate(fd, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, 4096);
            let _ = ftruncate(fd, 0);
        }
        // SAFETY: one page that belongs to this process; whatever is in it is valid.
        let _ = unsafe { madvise(place.page.as_ptr().cast(), 4096, Advice::LinuxRemove) };
        Some(())
    }

    /// A word that others may sleep on: the shared one, or any other of the log or of the own page.
    fn word(&mut self) -> Option<*const u32> {
        let (place, random) = self.a_place()?;
        let offset = if random.bool() { WAKE_SEQ } else { random.usize(..2048) * 4 };
        let in_page = random.u64(..4) == 0;
        let (from, offset) =
            if in_page { (place.page.as_ptr(), offset % 4096) } else { (place.log.as_ptr(), offset) };
        Some(from.wrapping_add(offset).cast())
    }

    fn wake_sleepers(&mut self) -> Option<()> {
        let word = self.word()?;
        for _ in 0..100 {
            // SAFETY: the word is in a mapping of this process; the call reads nothing else.
            unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE, i32::MAX) };
        }
        Some(())
    }

    fn requeue_sleepers(&mut self) -> Option<()> {
        static ELSEWHERE: AtomicU32 = AtomicU32::new(0);
        let word = self.word()?;
        let all = i32::MAX as usize;
        // SAFETY: both words exist for as long as this process does; the kernel writes to neither.
        unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_REQUEUE, 0, all, ELSEWHERE.as_ptr()) };
        Some(())
    }

    fn queue_for_a_lock(&mut self) -> Option<()> {
        static LOCK: AtomicU32 = AtomicU32::new(0);
        let word = self.word()?;
        let mut end = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the word is in a mapping of this process, and the time lives until the calls return; the lock is never taken.
        unsafe {
            libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut end);
            end.tv_nsec += 20_000_000;
            if end.tv_nsec >= 1_000_000_000 {
                (end.tv_sec, end.tv_nsec) = (end.tv_sec + 1, end.tv_nsec - 1_000_000_000);
            }
            let seen = (*word.cast::<AtomicU32>()).load(Ordering::Relaxed);
            let operation = libc::FUTEX_WAIT_REQUEUE_PI;
            libc::syscall(libc::SYS_futex, word, operation, seen, &raw const end, LOCK.as_ptr());
        }
        Some(())
    }

    /// Fills its doorbell from the wrong side, empties it, and makes both ends wait.
    fn misuse_doorbell(&mut self) -> Option<()> {
        let (Place { doorbell, .. }, random) = self.a_place()?;
        let _ = rustix::io::ioctl_fionbio(doorbell, random.bool());
        let _ = rustix::net::send(doorbell, &[0; 4096], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        let _ = rustix::net::recv(doorbell, &mut [0; 4096], rustix::net::RecvFlags::DONTWAIT);
        if random.u64(..8) == 0 {
            let _ = rustix::net::shutdown(doorbell, rustix::net::Shutdown::Both);
        }
        Some(())
    }

    /// A child keeps everything open a little longer than this process does.
    fn fork(&mut self) -> Option<()> {
        // SAFETY: the child calls only `usleep` and `_exit`, which are safe after a fork of a process with threads.
        unsafe {
            match libc::fork() {
                0 => {
                    libc::usleep(20_000);
                    libc::_exit(0);
                }
                child if child > 0 && self.random.bool() => {
                    let place = self.place()?;
                    self.places.swap_remove(place);
                    libc::waitpid(child, std::ptr::null_mut(), 0);
                }
                child if child > 0 => _ = libc::waitpid(child, std::ptr::null_mut(), 0),
                _ => return None,
            }
        }
        Some(())
    }

    fn rest(&mut self) -> Option<()> {
        std::thread::sleep(Duration::from_micros(self.random.u64(..2000)));
        Some(())
    }
}

/// Serves nonsense at `path`: answers of random operations, with random descriptors, to whatever it is asked.
pub fn serve_nonsense(path: &Path, seed: u64) {
    let mut attacker = Attacker::new(path, seed);
    let listener =
        socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    rustix::net::bind(&listener, &SocketAddrUnix::new(path).unwrap()).unwrap();
    rustix::net::listen(&listener, 64).unwrap();
    while let Ok(connection) = accept_with(&listener, SocketFlags::CLOEXEC) {
        sockopt::set_socket_timeout(&connection, sockopt::Timeout::Recv, Some(PATIENCE)).unwrap();
        for _ in 0..attacker.random.usize(..6) {
            let _ = recv_with_fds(&connection, &mut [0; 64], 6);
            let fds: Vec<OwnedFd> =
                (0..attacker.random.usize(..6)).filter_map(|_| attacker.server_descriptor()).collect();
            let fds: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
            let operation = [16, 17, 20, attacker.random.u32(..32)][attacker.random.usize(..4)];
            let words: Vec<u32> = (0..5).map(|_| attacker.random.u32(..64)).collect();
            let bytes = if attacker.random.usize(..8) == 0 { 1 + attacker.random.usize(..63) } else { 64 };
            let _ = send_with_fds(&connection, &message(operation, &words)[..bytes], &fds);
        }
        // The last clients find a connection that stays open and says nothing more.
        attacker.connections.push(connection);
        if attacker.connections.len() > HELD_MAX {
            attacker.connections.remove(0);
        }
    }
}

impl Attacker {
    /// What a client might take for a log, a page or a doorbell.
    fn server_descriptor(&mut self) -> Option<OwnedFd> {
        match self.random.u64(..4) {
            0 => {
                let memory = memfd_create("log", MemfdFlags::ALLOW_SEALING).ok()?;
                let bytes = [0, 100, 4096, 8192, 12288, 1 << 20][self.random.usize(..6)];
                ftruncate(&memory, bytes).ok()?;
                for at in 0..bytes.min(16384) / 8 {
                    let word = self.random.u64(..) >> (self.random.u64(..64));
                    rustix::io::pwrite(&memory, &word.to_le_bytes(), at * 8).ok()?;
                }
                if self.random.bool() {
                    add_seals(&memory, Seals::SHRINK | Seals::GROW | Seals::FUTURE_WRITE | Seals::SEAL)
                        .ok()?;
                }
                Some(memory)
            }
            1 => causeway_os::socket::seqpacket_pair().ok().map(|(near, _)| near),
            _ => self.a_descriptor().filter(|fd| fd.as_raw_fd() > 2),
        }
    }
}
