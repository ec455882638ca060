//! A group: one log, its publishers and its subscribers.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::options::{GroupOptions, SubscribeOptions};
use crate::publisher::Publisher;
use crate::serve::{Host, Report, connect_to};
use crate::subscriber::Subscriber;
use crate::wire::{ANSWER_TIME, Message, Op, answer, ask, take_fds};

/// Access to a group: as its creator, or through a socket.
#[derive(Debug)]
pub struct Group {
    connector: Connector,
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
    ///
    /// ```
    /// use causeway::{Group, GroupOptions, Policy, Received, TryPublishError};
    ///
    /// let group = Group::create("prices", GroupOptions::new().capacity_bytes(1 << 20))?;
    /// let mut publisher = group.publisher()?;
    /// let mut subscriber = group.subscribe(Policy::Reliable)?;
    ///
    /// match publisher.try_publish(b"42.17") {
    ///     Ok(position) => println!("published at {position:?}"),
    ///     Err(TryPublishError::Full) => println!("a subscriber has not read far enough"),
    ///     Err(error) => return Err(error.into()),
    /// }
    /// match subscriber.recv()? {
    ///     Received::Message(message) => assert_eq!(message.bytes, b"42.17"),
    ///     Received::Lost { messages, bytes } => println!("{messages} messages of {bytes} bytes lost"),
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn create(name: &str, options: GroupOptions) -> Result<Group> {
        Ok(Group { connector: Connector::Host(Arc::new(Host::start(name, options)?)) })
    }

    /// Joins the group that is served on the socket at `path`. Does not wait for a server: a program that may start before
    /// the server retries.
    ///
    /// # Errors
    /// [`Error::Os`] when there is no socket (`NotFound`), no process listens on it (`ConnectionRefused`), or this user may
    /// not connect (`PermissionDenied`). [`Error::NoAnswer`] when the server accepts no connections. [`Error::Kernel`] on a
    /// kernel that lacks a required feature.
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
        drop(connect_to(path.as_ref())?);
        Ok(Group { connector: Connector::Path(path.as_ref().to_owned()) })
    }

    /// Joins the group at the other end of a connected socket that another process sent; see [`Group::invite`].
    ///
    /// # Errors
    /// [`Error::Kernel`] on a kernel that lacks a required feature.
    pub fn join_socket(socket: OwnedFd) -> Result<Group> {
        crate::kernel::check()?;
        Ok(Group { connector: Connector::Socket(socket) })
    }

    /// Serves this group on a Unix socket at `path` too. A container needs only this socket, bind-mounted. A socket that a
    /// dead server left is replaced. The file is removed when the group and everything made from it in this process is
    /// dropped; it stays when the process is killed.
    ///
    /// # Errors
    /// [`Error::Os`] for a path that is too long, in use, or not writable; [`Error::Invalid`] if this process joined the group
    /// and did not create it.
    pub fn serve_at(&self, path: impl AsRef<Path>) -> Result<()> {
        self.host()?.listen(path.as_ref())
    }

    /// A connected socket for another process, to be passed by inheritance or SCM_RIGHTS. That process joins with the
    /// permissions of this process's user.
    ///
    /// # Errors
    /// [`Error::Os`] without descriptors; [`Error::NoAnswer`] or [`Error::ServerGone`] without a working server.
    pub fn invite(&self) -> Result<OwnedFd> {
        match &self.connector {
            Connector::Host(host) => host.invite_other(),
            Connector::Path(_) | Connector::Socket(_) => self.connect(),
        }
    }

    /// Makes a publisher. A group of one publisher ([`GroupOptions::new`]) allows one in its whole life: after that one is
    /// dropped, the group has ended.
    ///
    /// # Errors
    /// [`Error::Refused`] by the access rule, in a group of one publisher that has had one, without a free slot, or once the
    /// log is sealed. [`Error::ServerGone`] or [`Error::NoAnswer`] without a working server.
    pub fn publisher(&self) -> Result<Publisher> {
        match &self.connector {
            Connector::Host(host) => {
                Publisher::join(host.connect_locally()?, Some((host.log(), Arc::clone(host))))
            }
            Connector::Path(_) | Connector::Socket(_) => Publisher::join(self.connect()?, None),
        }
    }

    /// Makes a subscriber, with a [`Policy`](crate::Policy) or with [`SubscribeOptions`]. With a policy alone it receives the
    /// next message first. Waits until all [`remote_publishers`](GroupOptions::remote_publishers) have joined, without a limit
    /// of time unless the options set a [`timeout`](SubscribeOptions::timeout).
    ///
    /// # Errors
    /// [`Error::Refused`] by the access rule or without a free slot. [`Error::Invalid`] for a log that is not sealed, or not a
    /// log. [`Error::NoAnswer`] at the timeout, [`Error::ServerGone`] without a server.
    pub fn subscribe(&self, options: impl Into<SubscribeOptions>) -> Result<Subscriber> {
        let host = match &self.connector {
            Connector::Host(host) => Some(Arc::clone(host)),
            Connector::Path(_) | Connector::Socket(_) => None,
        };
        Subscriber::join(self.connect()?, options.into(), host)
    }

    /// The publishers and subscribers of the group, how far behind each subscriber is, and what it has lost.
    ///
    /// # Errors
    /// [`Error::NoAnswer`] or [`Error::ServerGone`] without a working server, [`Error::Invalid`] for an answer that is not one.
    pub fn report(&self) -> Result<Report> {
        if let Connector::Host(host) = &self.connector {
            return host.report();
        }
        let socket = self.connect()?;
        let mut report = Report::default();
        let (mut row, _) = ask(&socket, Message::new(Op::Stat, &[]), Some(ANSWER_TIME))?;
        while row.op == Op::Row {
            report.add_row(row)?;
            (row, _) = answer(&socket, Some(ANSWER_TIME))?;
        }
        match row.op {
            Op::End => Ok(report),
            other => Err(Error::invalid("answer", format!("{other:?} in a report"))),
        }
    }

    /// Evicts a publisher that is alive but stuck (stopped, in a debugger): its unfinished message becomes padding, its later
    /// commit fails with [`Error::Evicted`], and subscribers continue. Returns whether the group is one of several publishers
    /// and has this one.
    ///
    /// This closes the group, because memory that a live process can write is never reused: publishers get
    /// [`TryPublishError::Disconnected`](crate::TryPublishError::Disconnected), and subscribers the same after the last
    /// message. To keep the group, kill the process instead.
    ///
    /// # Errors
    /// [`Error::Invalid`] if this process joined the group and did not create it.
    pub fn evict(&self, publisher: u8) -> Result<bool> {
        self.host()?.evict(publisher)
    }

    fn host(&self) -> Result<&Host> {
        match &self.connector {
            Connector::Host(host) => Ok(host),
            Connector::Path(_) | Connector::Socket(_) => Err(Error::invalid(
                "call",
                "only the creator of a group can serve it or evict a publisher; call this on the result of Group::create",
            )),
        }
    }

    /// A new connection to the server.
    fn connect(&self) -> Result<OwnedFd> {
        match &self.connector {
            Connector::Host(host) => host.connect_locally(),
            Connector::Path(path) => connect_to(path),
            Connector::Socket(socket) => {
                let (granted, fds) = ask(socket, Message::new(Op::Connect, &[]), Some(ANSWER_TIME))?;
                let [fd] = take_fds(fds)?;
                match granted.op {
                    Op::Granted => Ok(fd),
                    other => {
                        Err(Error::invalid("answer", format!("{other:?} to a request for a connection")))
                    }
                }
            }
        }
    }
}

/// Subscribers of this process keep the server alive, but no publisher can be made in this process any more.
impl Drop for Group {
    fn drop(&mut self) {
        if let Connector::Host(host) = &self.connector {
            host.admit_no_more_local_publishers();
        }
    }
}
