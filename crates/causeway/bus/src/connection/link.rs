//! The member's end of the control socket: it joins, and asks for descriptors.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use causeway_os::Context;
use causeway_os::handshake::Part;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::watcher::Watched;
use crate::control::{self, JOIN, Kind, OBSERVE, OFFER, Packet};
use crate::error::{Error, Result, name};
use crate::port::Descriptors;

const CONNECT: &str = "connect to the bus at";
/// How long the authority may take for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The most of that which counts at once.
const SLICE: Duration = Duration::from_millis(250);
/// How long a bus may be full before a process that wants to join gives up.
const JOIN_PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub struct Link {
    socket: OwnedFd,
    /// Why the authority ended the connection, if it said so.
    why: Option<String>,
    is_gone: bool,
    /// Who is told when this end gives up.
    watched: Option<Arc<Watched>>,
}

impl Link {
    /// Connects and joins, as a member with its outbox, or as a monitor. Returns the welcome and its descriptors.
    pub fn join(path: &Path, outbox: Option<BorrowedFd<'_>>) -> Result<(Link, Packet, Vec<OwnedFd>)> {
        let start = Instant::now();
        loop {
            let mut link = Link::connect(path)?;
            let (operation, part) =
                if outbox.is_some() { (JOIN, Part::Writes) } else { (OBSERVE, Part::Reads) };
            match control::send(&link.socket, &Packet::handshake(operation, OFFER), outbox.as_slice()) {
                // It was refused before it asked: the reason can be read.
                Err(error) if error.is(Errno::PIPE) || error.is(Errno::CONNRESET) => {}
                sent => sent?,
            }
            let answered = match link.answer() {
                Ok((packet @ Packet { kind: Kind::Handshake, .. }, _)) => {
                    OFFER
                        .agree(packet.offer(), part)
                        .map_err(|mismatch| Error::Refused(mismatch.to_string()))?;
                    link.answer()
                }
                answered => answered,
            };
            match answered {
                Ok((welcome @ Packet { kind: Kind::Welcome, .. }, fds)) => return Ok((link, welcome, fds)),
                // Places become free as soon as all have read what the last member there sent.
                Ok((Packet { kind: Kind::Refused, words: [1, ..], .. }, _))
                    if start.elapsed() < JOIN_PATIENCE =>
                {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Ok((Packet { text, .. }, _)) => return Err(Error::Refused(text)),
                Err(Error::AuthorityGone) => {
                    // One that does not know a handshake says nothing of it.
                    return Err(Error::Refused(format!(
                        "the bus closed the connection before this program joined: it has ended, or is of a release before there were \
                         formats (version 6 or lower), and this program has {OFFER}; install one release on both sides, or use the \
                         D-Bus socket of the bus"
                    )));
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn connect(path: &Path) -> Result<Link> {
        let (on, flags) = (|| path.display().to_string(), SocketFlags::CLOEXEC);
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let socket = socket.context(CONNECT, on)?;
        let address = SocketAddrUnix::new(path).context(CONNECT, on)?;
        rustix::io::retry_on_intr(|| rustix::net::connect(&socket, &address)).context(CONNECT, on)?;
        Ok(Link { socket, why: None, is_gone: false, watched: None })
    }

    /// From now on these are told when this end gives up, too.
    pub fn set_watched(&mut self, watched: Arc<Watched>) {
        self.watched = Some(watched);
    }

    pub fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Sends a request and waits for its answer, which must come in time.
    pub fn ask(&mut self, packet: &Packet, fds: &[BorrowedFd<'_>]) -> Result<(Packet, Vec<OwnedFd>)> {
        if self.is_gone {
            return Err(self.end());
        }
        match control::send(&self.socket, packet, fds) {
            Ok(()) => self.answer(),
            Err(error) if error.is(Errno::TOOMANYREFS) => {
                let text = "too many file descriptors of this user are in flight";
                Err(Error::method(name::LIMITS_EXCEEDED, text))
            }
            Err(_) => {
                // What it said before it closed can still be read.
                while self.answer().is_ok() {}
                Err(self.end())
            }
        }
    }

    /// Sends a packet that has no answer. An error is dropped: the next request reports that the authority is gone.
    pub fn tell(&mut self, packet: &Packet) {
        let _ = control::send(&self.socket, packet, &[]);
    }

    fn answer(&mut self) -> Result<(Packet, Vec<OwnedFd>)> {
        let mut left = PATIENCE;
        let mut was_reset = false;
        loop {
            let slice = left.min(SLICE);
            let until = Instant::now() + slice;
            let is_there = causeway_os::process::wait_readable(self.socket.as_fd(), Some(until));
            if !is_there.inspect_err(|_| self.is_gone = true)? {
                // A slice counts once, however long this process, and perhaps the authority with it, was stopped in it.
                left -= slice;
                if !left.is_zero() {
                    continue;
                }
                // A late answer would be taken for the next one.
                self.is_gone = true;
                // Both sides learn it: the program that the authority is gone, the authority that this member is. The socket is
                // not closed for it: as long as it is open, nobody else gets the slot, whose line this process writes.
                let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Write);
                if let Some(watched) = &self.watched {
                    watched.end();
                }
                return Err(Error::Refused("the process that serves the bus does not answer".into()));
            }
            match control::receive(&self.socket) {
                Ok(Some((Packet { kind: Kind::Disconnected, text, .. }, _))) => self.why = Some(text),
                Ok(Some((packet, _))) if packet.may_be_ignored() => {}
                Ok(Some(answer)) => return Ok(answer),
                // An answer whose descriptors did not fit into the table of this process.
                Err(error) if error.is(Errno::MFILE) => return Err(error),
                // The authority has not read all that was sent. What it said before can be read after that.
                Err(error) if error.is(Errno::CONNRESET) && !was_reset => was_reset = true,
                // A reset is an end, too.
                Ok(None) | Err(Error::Os(_)) => {
                    self.is_gone = true;
                    return Err(self.end());
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// After the connection has ended: why.
    pub fn end(&mut self) -> Error {
        if !self.is_gone {
            self.is_gone = true;
            while self.answer().is_ok() {}
        }
        self.why.clone().map_or(Error::AuthorityGone, Error::Disconnected)
    }

    fn descriptor(&mut self, kind: Kind, slot: u16, id: u64) -> Result<Option<OwnedFd>> {
        let (packet, fds) = self.ask(&Packet::new(kind, [u64::from(slot), id, 0, 0]), &[])?;
        match packet.kind {
            Kind::Refused => Err(Error::Refused(packet.text)),
            _ => Ok(fds.into_iter().next()),
        }
    }
}

pub fn descriptors<const COUNT: usize>(fds: Vec<OwnedFd>) -> Result<[OwnedFd; COUNT]> {
    fds.try_into().map_err(|_| incomplete("descriptors are missing"))
}

pub fn incomplete(what: &str) -> Error {
    Error::Refused(format!("incomplete welcome from the bus: {what}"))
}

impl Descriptors for Link {
    fn outbox(&mut self, slot: u16, id: u64) -> Result<Option<OwnedFd>> {
        self.descriptor(Kind::Outbox, slot, id)
    }

    fn doorbell(&mut self, slot: u16, id: u64) -> Result<Option<OwnedFd>> {
        self.descriptor(Kind::Doorbell, slot, id)
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{accept, bind, listen, socket_with};

    use super::*;

    /// It says nothing to one whose first packet it does not know, and closes the connection.
    #[test]
    fn an_authority_of_a_release_before_the_handshake_is_refused_with_both_versions_and_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bus");
        let listener =
            socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        listen(&listener, 1).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| control::receive(accept(&listener).unwrap()).unwrap());
            let refused = Link::join(&path, None).err().unwrap().to_string();
            for words in ["version 6", "this program has format 1;", "install one release on both sides"] {
                assert!(refused.contains(words), "{refused}");
            }
        });
    }
}
