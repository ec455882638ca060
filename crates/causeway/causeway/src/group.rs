//! A group: one log, its publishers and its subscribers.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use causeway_os::handshake::Offer;
use causeway_os::socket::{Credentials, peer_credentials, peer_security_label, seqpacket_pair};

use crate::connection::Membership;
use crate::error::{Error, Refusal, Result};
use crate::log::form::{OFFER, check_format};
use crate::options::{GroupOptions, OverRate, SubscribeOptions};
use crate::publisher::Publisher;
use crate::request::Request;
use crate::serve::{Host, Origin, Report, absolute, connect_to};
use crate::subscriber::Subscriber;
use crate::wire::{ask, granted, take_fds};

/// Access to a group: as its creator, or through a socket.
#[derive(Debug)]
pub struct Group {
    connector: Connector,
    /// The formats that its members here have.
    offer: Offer,
}

#[derive(Debug)]
enum Connector {
    Host(Arc<Host>),
    Path(PathBuf),
    Socket(OwnedFd),
}

impl Group {
    /// Makes a group and serves it from a thread of this process, until this value and all publishers and subscribers made
    /// from it are dropped. `name` is shown in `/proc/PID/maps` and has no other effect.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a capacity outside the limits, [`Error::Kernel`] on a kernel that lacks a required feature,
    /// [`Error::Os`] without memory, descriptors or threads. All memory of the log is reserved here, so that none can be
    /// missing later; a log that exceeds the memory limit of the control group is refused.
    pub fn create(name: &str, options: GroupOptions) -> Result<Group> {
        Ok(Group::by(Connector::Host(Arc::new(Host::start(name, options)?))))
    }

    fn by(connector: Connector) -> Group {
        Group { connector, offer: OFFER }
    }

    /// Joins the group that is served on the socket at `path`. Does not wait for a server: a program that may start before
    /// the server retries.
    ///
    /// # Errors
    /// [`Error::Os`] when there is no socket (`NotFound`), no process listens on it (`ConnectionRefused`), or this user may
    /// not connect (`PermissionDenied`). [`Error::Invalid`] when the path leads to a file that is not a socket.
    /// [`Error::NoAnswer`] when the server accepts no connections. [`Error::Kernel`] on a kernel that lacks a required feature.
    ///
    /// ```no_run
    /// use std::io::ErrorKind::{ConnectionRefused, NotFound};
    /// use causeway::{Error, Group};
    ///
    /// let group = loop {
    ///     match Group::join("/run/prices") {
    ///         Err(Error::Os(error)) if [NotFound, ConnectionRefused].contains(&error.os().kind()) => {
    ///             std::thread::sleep(std::time::Duration::from_millis(100));
    ///         }
    ///         joined => break joined?,
    ///     }
    /// };
    /// # Ok::<(), Error>(())
    /// ```
    pub fn join(path: impl AsRef<Path>) -> Result<Group> {
        crate::kernel::check()?;
        let path = absolute(path.as_ref());
        drop(connect_to(&path)?);
        Ok(Group::by(Connector::Path(path)))
    }

    /// Joins the group at the other end of a connected socket that another process sent; see [`Group::invite`].
    ///
    /// # Errors
    /// [`Error::Kernel`] on a kernel that lacks a required feature.
    pub fn join_socket(socket: OwnedFd) -> Result<Group> {
        crate::kernel::check()?;
        Ok(Group::by(Connector::Socket(socket)))
    }

    /// Makes the publishers and subscribers of this value members as of an older release, which have no format above `level`: to see
    /// how a group works before all its programs are renewed.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a format that this release does not have, and in the process that created the group
    /// ([`GroupOptions::format`]).
    pub fn with_format_max(mut self, level: u32) -> Result<Group> {
        check_format(level)?;
        if self.host().is_ok() {
            return Err(Error::invalid(
                "call",
                "this process makes the logs of this group; use GroupOptions::format",
            ));
        }
        self.offer.max = level;
        Ok(self)
    }

    /// Lets the group have the highest format of the release that serves it, with a log that begins as [`Group::resize`] says. Returns
    /// the format that it has then: an older one as long as a member does not have that; when the last of these has left, the group
    /// goes on by itself. For the user that serves the group, and root.
    ///
    /// # Errors
    /// [`Refusal::FormatFixed`] where no other log can begin, [`Refusal::Forbidden`] for other users; others as [`Group::resize`].
    pub fn upgrade(&self) -> Result<u32> {
        if let Connector::Host(host) = &self.connector {
            return host.upgrade();
        }
        let upgraded = |socket| granted(ask(&socket, Request::Upgrade)?, "an upgrade");
        self.with_connection(upgraded).map(|([level, ..], _)| level)
    }

    /// Serves this group on a Unix socket at `path` too. A container needs only this socket, bind-mounted. A socket that a
    /// dead server left is replaced; no other file is. A lock on a second file, with `.lock` behind the name, decides which
    /// process serves. Both files are removed when the group and everything made from it in this process is dropped; they
    /// stay when the process is killed.
    ///
    /// # Errors
    /// [`Error::Os`] for a path that is too long, in use, or not writable; [`Error::Invalid`] for a file that is not a socket,
    /// and if this process joined the group and did not create it.
    pub fn serve_at(&self, path: impl AsRef<Path>) -> Result<()> {
        self.host()?.listen(path.as_ref())
    }

    /// A connected socket for another process, to be passed by inheritance or SCM_RIGHTS. That process joins with the
    /// permissions of this process's user, and may outlive this process.
    ///
    /// # Errors
    /// [`Error::Os`] without descriptors; [`Error::NoAnswer`] or [`Error::ServerGone`] without a working server.
    pub fn invite(&self) -> Result<OwnedFd> {
        match &self.connector {
            Connector::Host(host) => host.connect(Origin::Invitation),
            // Not the connection itself: the server takes the process that made it for the one that uses it.
            Connector::Path(_) => self.with_connection(|socket| ask_for_another(&socket)),
            Connector::Socket(socket) => ask_for_another(socket),
        }
    }

    /// Makes a publisher. A group of one publisher ([`GroupOptions::new`]) allows one in its whole life: after that one is
    /// dropped, the group has ended.
    ///
    /// # Errors
    /// [`Error::Refused`] by the access rule, in a group of one publisher that has had one, without a free slot, or once the
    /// log is sealed (unless [`GroupOptions::late_publishers`] allows more; then with [`Refusal::LogsHeld`] if subscribers have
    /// not read earlier logs within two seconds). [`Error::ServerGone`] or [`Error::NoAnswer`] without a working server.
    pub fn publisher(&self) -> Result<Publisher> {
        self.publisher_of(0)
    }

    /// A publisher of messages whose type has this fingerprint; 0 for bytes.
    pub(crate) fn publisher_of(&self, fingerprint: u64) -> Result<Publisher> {
        let end = Instant::now() + LOGS_HELD_TIME;
        loop {
            match self.join_as_publisher(fingerprint) {
                // Subscribers read on meanwhile.
                Err(Error::Refused(Refusal::LogsHeld)) if Instant::now() < end => {
                    std::thread::sleep(LOGS_HELD_PAUSE);
                }
                decided => return decided,
            }
        }
    }

    fn join_as_publisher(&self, fingerprint: u64) -> Result<Publisher> {
        if let Connector::Host(host) = &self.connector {
            let local = (host.log(), Arc::clone(host));
            return Publisher::join(host.connect(Origin::Local)?, Some(local), fingerprint, self.offer);
        }
        self.with_connection(|socket| Publisher::join(socket, None, fingerprint, self.offer))
    }

    /// Makes a subscriber, with a [`Policy`](crate::Policy) or with [`SubscribeOptions`]. With a policy alone it receives the
    /// next message first. Waits until all [`remote_publishers`](GroupOptions::remote_publishers) have joined, without a limit
    /// of time unless the options set a [`timeout`](SubscribeOptions::timeout).
    ///
    /// # Errors
    /// [`Error::Refused`] by the access rule or without a free slot. [`Error::Invalid`] for a log that is not sealed, or not a
    /// log. [`Error::NoAnswer`] at the timeout, [`Error::ServerGone`] without a server.
    pub fn subscribe(&self, options: impl Into<SubscribeOptions>) -> Result<Subscriber> {
        let (options, host) = (options.into(), self.host().ok());
        self.with_connection(|socket| Subscriber::join(socket, options.clone(), host.cloned(), self.offer))
    }

    /// The publishers and subscribers of the group, how far behind each subscriber is, and what it has lost.
    ///
    /// # Errors
    /// [`Error::NoAnswer`] or [`Error::ServerGone`] without a working server, [`Error::Invalid`] for an invalid answer.
    pub fn report(&self) -> Result<Report> {
        if let Connector::Host(host) = &self.connector {
            return host.state().report();
        }
        self.with_connection(|socket| Report::request(&socket))
    }

    /// The process that serves the group, as the kernel reports it: who called [`Group::serve_at`] or made the socket of
    /// [`Group::invite`]. A process that joins by path can check here that the group is the one that it expects: any process
    /// that may create a file at that path could serve one there, and a publisher writes into that process's memory.
    ///
    /// # Errors
    /// As [`Group::join`].
    ///
    /// ```no_run
    /// # use causeway::Group;
    /// let group = Group::join("/run/prices")?;
    /// assert_eq!(group.server()?.uid, 0, "not served by root");
    /// # Ok::<(), causeway::Error>(())
    /// ```
    pub fn server(&self) -> Result<ServerIdentity> {
        match &self.connector {
            // Both ends of a pair are this process's.
            Connector::Host(_) => ServerIdentity::of(&seqpacket_pair()?.0),
            Connector::Path(path) => ServerIdentity::of(&connect_to(path)?),
            Connector::Socket(socket) => ServerIdentity::of(socket),
        }
    }

    /// Disconnects a subscriber ([`Subscriber::id`]): publishers no longer wait for it or wake it, and its slot becomes free.
    /// Returns whether there was one. It gets [`Error::Disconnected`] after the messages that it finds; a process that ignores
    /// this can go on reading the log, which it has mapped, but nobody waits for it.
    ///
    /// # Errors
    /// [`Error::Invalid`] if this process joined the group and did not create it.
    pub fn disconnect(&self, subscriber: u32) -> Result<bool> {
        Ok(self.host()?.state().disconnect_subscriber(subscriber))
    }

    /// Evicts a publisher that is alive but stuck (stopped, in a debugger): its unfinished message becomes padding, its later
    /// commit fails with [`Error::Evicted`], and subscribers continue. Returns whether the group is one of several publishers
    /// and has this one.
    ///
    /// This closes the group, because memory that a live process can write is never reused: publishers get
    /// [`TryPublishError::Disconnected`](crate::TryPublishError::Disconnected), and subscribers the same after the last
    /// message. To keep the group, disconnect it ([`Group::disconnect_publisher`]), or kill the process.
    ///
    /// # Errors
    /// [`Error::Invalid`] if this process joined the group and did not create it.
    pub fn evict(&self, publisher: u8) -> Result<bool> {
        self.host()?.state().evict(publisher)
    }

    /// Disconnects a publisher of another process, and the group goes on: a new log begins, of the same size, for all but this one
    /// ([`Group::resize`] says how). No message of the others is lost, repeated or out of order; of this one, subscribers get what
    /// it had committed before. Its next message fails with [`Refusal::Disconnected`]. It may join again, as any publisher that the rules
    /// admit. Returns whether there is such a publisher.
    ///
    /// This is all that a server can do: a process that has mapped a log for writing can write to it. What such a process writes into
    /// the log that has ended reaches only subscribers that have not read that one to its end; the new log it cannot write.
    ///
    /// # Errors
    /// [`Error::Invalid`] if this process joined the group and did not create it, for a publisher of this process (drop it), and in a
    /// group that was not created with [`GroupOptions::late_publishers`]. Others as [`Group::resize`]; then the publisher is still there.
    ///
    /// ```no_run
    /// # use causeway::{Group, GroupOptions};
    /// let group = Group::create("prices", GroupOptions::new().late_publishers())?;
    /// group.serve_at("/run/prices")?;
    /// // … a subscriber complains of publisher 3:
    /// group.disconnect_publisher(3)?;
    /// # Ok::<(), causeway::Error>(())
    /// ```
    pub fn disconnect_publisher(&self, publisher: u8) -> Result<bool> {
        self.host()?.disconnect_publisher(publisher)
    }

    /// Tells of each publisher that has published more than [`GroupOptions::publisher_rate_max`] allows: when it is disconnected, or when
    /// it has left before that. Up to 64 wait to be taken; further ones are not told. A second call replaces the first.
    ///
    /// # Errors
    /// [`Error::Invalid`] if this process joined the group and did not create it.
    pub fn over_rate(&self) -> Result<std::sync::mpsc::Receiver<OverRate>> {
        let (told, over_rate) = std::sync::mpsc::sync_channel(OVER_RATE_MAX);
        self.host()?.state().publishers.rates.tell(told);
        Ok(over_rate)
    }

    /// Claims a role: while the claim lasts, no other process gets the same one. The server keeps it, so it holds in every namespace from
    /// which the group can be joined, and ends with the process that has it, however that ends. What a role means is between the programs
    /// that use it; one that passes on what is published here makes sure that only one does.
    ///
    /// # Errors
    /// [`Refusal::Claimed`] if another connection has the role, [`Refusal::Forbidden`] for a process that may not publish here.
    /// [`Error::NoAnswer`] or [`Error::ServerGone`] without a working server.
    ///
    /// ```
    /// use causeway::{Error, Group, GroupOptions, Refusal};
    ///
    /// let group = Group::create("prices", GroupOptions::new())?;
    /// let claim = group.claim(7)?;
    /// assert!(matches!(group.claim(7), Err(Error::Refused(Refusal::Claimed))));
    /// # drop(claim);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn claim(&self, role: u64) -> Result<Claim> {
        self.with_connection(|socket| {
            granted(ask(&socket, Request::Claim { role })?, "a claim")?;
            Ok(Claim { socket: Membership::new(Arc::new(socket)) })
        })
    }

    /// Gives the group a log of another size: a power of two from 4 KiB to 1 GiB. Publishers go on in the new log, subscribers after
    /// the last message of the old one. No message is lost or repeated, and positions go on.
    ///
    /// Publishers use the new log when this returns. The only publisher of a group does from its second message after that at the
    /// latest, and at once for a message that the old log cannot take. Waits for publishers of other processes to map the new log, and
    /// for subscribers that are joining to have mapped the old one: a second at most (four for a log of 1 GiB) if one of them is stopped.
    /// All can publish meanwhile.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a capacity outside the limits, if this process joined the group and did not create it, and if a
    /// publisher is in another process and the group was not created with [`GroupOptions::late_publishers`].
    /// [`Refusal::LogsHeld`] when the logs of eight earlier calls are not read yet, [`Refusal::Ended`] after the end of the group.
    /// [`Error::Os`] without memory.
    ///
    /// ```
    /// use causeway::{Group, GroupOptions, Policy};
    ///
    /// let group = Group::create("prices", GroupOptions::new().several_publishers().capacity_bytes(4096))?;
    /// let mut publisher = group.publisher()?;
    /// let mut subscriber = group.subscribe(Policy::Reliable)?;
    /// publisher.publish(b"42.17")?;
    /// group.resize(1 << 20)?;
    /// publisher.publish(&[7; 100_000])?;
    /// for length in [5, 100_000] {
    ///     assert_eq!(subscriber.recv()?.message().expect("a reliable subscriber loses nothing").bytes.len(), length);
    /// }
    /// # Ok::<(), causeway::Error>(())
    /// ```
    pub fn resize(&self, capacity_bytes: u64) -> Result<()> {
        self.host()?.resize(capacity_bytes)
    }

    fn host(&self) -> Result<&Arc<Host>> {
        match &self.connector {
            Connector::Host(host) => Ok(host),
            Connector::Path(_) | Connector::Socket(_) => Err(Error::invalid(
                "call",
                "only the creator of a group can serve or resize it, or evict a publisher; call this on the result of \
                 Group::create",
            )),
        }
    }

    /// Does `work` with a new connection to the server, and again if this process was too slow to say what it wants.
    pub(crate) fn with_connection<T>(&self, work: impl Fn(OwnedFd) -> Result<T>) -> Result<T> {
        let mut attempts = 1;
        loop {
            match self.connect().and_then(&work) {
                Err(Error::Refused(Refusal::TooLate)) if attempts < ATTEMPTS_MAX => attempts += 1,
                decided => return decided,
            }
        }
    }

    /// A new connection to the server.
    fn connect(&self) -> Result<OwnedFd> {
        match &self.connector {
            Connector::Host(host) => host.connect(Origin::Local),
            Connector::Path(path) => connect_to(path),
            Connector::Socket(socket) => ask_for_another(socket),
        }
    }
}

/// A role that this process has in a group until this value is dropped; [`Group::claim`] makes one.
#[derive(Debug)]
#[must_use = "the claim ends when it is dropped"]
pub struct Claim {
    socket: Membership,
}

/// Readable when the claim has ended, because the server of the group is gone.
impl AsFd for Claim {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The process that serves a group, as the kernel recorded it when it made its socket.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerIdentity {
    /// Process id in this process's PID namespace; 0 when the process is not in it. By now it may be another process's.
    pub pid: u32,
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
    /// The label that a security module gave it (SO_PEERSEC): an SELinux context, an AppArmor profile. `None` where no module
    /// labels sockets. It tells apart programs of one user, such as those in a sandbox.
    pub security_label: Option<String>,
}

impl ServerIdentity {
    /// Who made the socket at the other end.
    pub(crate) fn of(socket: &OwnedFd) -> Result<ServerIdentity> {
        let Credentials { pid, uid, gid } = peer_credentials(socket)?;
        Ok(ServerIdentity { pid, uid, gid, security_label: peer_security_label(socket)? })
    }
}

/// How long a publisher that joins late waits for subscribers to read earlier logs, and how long between two attempts.
const LOGS_HELD_TIME: Duration = Duration::from_secs(2);
const LOGS_HELD_PAUSE: Duration = Duration::from_millis(5);

/// Publishers over their rate that nobody has taken notice of.
const OVER_RATE_MAX: usize = 64;

/// How often a process that is too slow to send its request within a second tries again.
const ATTEMPTS_MAX: u32 = 5;

/// Asks the server for another connection, which any process may use.
fn ask_for_another(socket: &OwnedFd) -> Result<OwnedFd> {
    let (_, fds) = granted(ask(socket, Request::Connect)?, "a request for a connection")?;
    let [fd] = take_fds(fds)?;
    Ok(fd)
}

/// Subscribers of this process keep the server alive, but no publisher can be made in this process any more.
impl Drop for Group {
    fn drop(&mut self) {
        if let Connector::Host(host) = &self.connector {
            host.state().admit_no_more_local_publishers();
        }
    }
}
