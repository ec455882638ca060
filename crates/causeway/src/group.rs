//! A group: one log, its publishers and its receivers.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::options::{GroupOptions, SubscribeOptions};
use crate::publisher::Publisher;
use crate::serve::{Host, Report, connect_to};
use crate::subscriber::Subscriber;
use crate::wire::{ANSWER_TIME, Message, Op, answer, ask, take_fds};

/// A way into a group: as its creator, or through a socket.
#[derive(Debug)]
pub struct Group {
    way: Way,
}

#[derive(Debug)]
enum Way {
    Host(Arc<Host>),
    Path(PathBuf),
    Socket(OwnedFd),
}

impl Group {
    /// Makes a group and serves it from a thread of this process, until the group and all publishers and receivers
    /// made from it are dropped. `name` is for people only.
    ///
    /// # Errors
    /// A capacity outside the limits, a kernel that lacks what safety rests on, no memory, no descriptors, no thread. All
    /// memory of the log is reserved here, so that none can be missing later; more than the control group of this process
    /// can hold is refused.
    ///
    /// ```
    /// use causeway::{Group, GroupOptions, Policy, Published, Received};
    ///
    /// let group = Group::create("prices", GroupOptions::new().capacity_bytes(1 << 20))?;
    /// let mut publisher = group.publisher()?;
    /// let mut subscriber = group.subscribe(Policy::Reliable)?;
    ///
    /// match publisher.publish(b"42.17")? {
    ///     Published::At(position) => println!("at {position:?}"),
    ///     Published::Full => println!("a receiver is in the way"),
    /// }
    /// let _ = subscriber.wait(None)?; // without a time-out it is `Waited::Ready`
    /// match subscriber.receive()? {
    ///     Received::Message(message) => assert_eq!(message.bytes, b"42.17"),
    ///     Received::Lost { messages, bytes } => panic!("{messages} messages lost in {bytes} bytes"),
    ///     Received::Empty => panic!("a wait without time-out ended with nothing"),
    /// }
    /// # Ok::<(), causeway::Error>(())
    /// ```
    pub fn create(name: &str, options: GroupOptions) -> Result<Group> {
        Ok(Group { way: Way::Host(Arc::new(Host::start(name, options)?)) })
    }

    /// The group that is served on the socket at `path`. It does not wait for a server: who may be started before one
    /// tries again.
    ///
    /// # Errors
    /// [`Error::Os`]: no socket there (`NotFound`), nobody behind it any more (`ConnectionRefused`), no permission to
    /// connect.
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
        crate::facts::check()?;
        drop(connect_to(path.as_ref())?);
        Ok(Group { way: Way::Path(path.as_ref().to_owned()) })
    }

    /// The group behind a connected socket that was handed over; see [`Group::invite`].
    ///
    /// # Errors
    /// A kernel that lacks what safety rests on.
    pub fn join_socket(socket: OwnedFd) -> Result<Group> {
        crate::facts::check()?;
        Ok(Group { way: Way::Socket(socket) })
    }

    /// Serves this group on a Unix socket at `path` as well. Bind-mounted into a container it is all that is needed
    /// there. A socket left by a server that is gone is replaced; the file is removed
    /// when the group and everything made from it in this process is dropped, and stays when the process is killed.
    ///
    /// # Errors
    /// Only the creator can serve. A path that is too long, taken, or not writable.
    pub fn serve_at(&self, path: impl AsRef<Path>) -> Result<()> {
        self.host()?.listen(path.as_ref())
    }

    /// A connected socket to hand to another process, by inheritance or SCM_RIGHTS. It carries the permission of this
    /// process's own user.
    ///
    /// # Errors
    /// No descriptors left; a server that does not answer.
    pub fn invite(&self) -> Result<OwnedFd> {
        match &self.way {
            Way::Host(host) => host.invite_other(),
            Way::Path(_) | Way::Socket(_) => self.connect(),
        }
    }

    /// Becomes a publisher. In a group of one ([`GroupOptions::new`]) this can be done once: when that publisher is
    /// dropped, the group has had its one.
    ///
    /// # Errors
    /// [`Error::Refused`]: the creator's rule, a group of one publisher that has had its one, no slot left, or a log whose
    /// publishers are already fixed. [`Error::PeerGone`] and [`Error::NoAnswer`] where nobody serves the group.
    pub fn publisher(&self) -> Result<Publisher> {
        match &self.way {
            Way::Host(host) => Publisher::join(host.connect_locally()?, Some((host.log(), Arc::clone(host)))),
            Way::Path(_) | Way::Socket(_) => Publisher::join(self.connect()?, None),
        }
    }

    /// Becomes a receiver, with a [`Policy`](crate::Policy) or with [`SubscribeOptions`]; with a policy it begins at the
    /// next message. Waits as long as publishers from other processes are still awaited, without an end unless the
    /// options say [`within`](SubscribeOptions::within).
    ///
    /// # Errors
    /// [`Error::Refused`]: the creator's rule or no slot left. [`Error::Invalid`] for a log that is not sealed, or not a
    /// log.
    pub fn subscribe(&self, options: impl Into<SubscribeOptions>) -> Result<Subscriber> {
        let host = match &self.way {
            Way::Host(host) => Some(Arc::clone(host)),
            Way::Path(_) | Way::Socket(_) => None,
        };
        Subscriber::join(self.connect()?, options.into(), host)
    }

    /// Who publishes, who receives, how far behind each is and what it lost.
    ///
    /// # Errors
    /// A server that does not answer, or answers nonsense.
    pub fn report(&self) -> Result<Report> {
        if let Way::Host(host) = &self.way {
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

    /// Takes a publisher for gone that is alive but stuck (stopped, in a debugger): what it has not finished becomes
    /// padding, its later commit fails with [`Error::Evicted`], and receivers go on. Returns whether there was such a
    /// publisher in a group of several.
    ///
    /// Memory that a live process can write is never used again: the group is closed with this, and publishers get
    /// [`Error::Closed`]. Kill the process instead to keep the group.
    ///
    /// # Errors
    /// Only the creator can evict.
    pub fn evict(&self, publisher: u8) -> Result<bool> {
        self.host()?.evict(publisher)
    }

    fn host(&self) -> Result<&Host> {
        match &self.way {
            Way::Host(host) => Ok(host),
            Way::Path(_) | Way::Socket(_) => Err(Error::invalid(
                "call",
                "only who made a group can serve or evict; call it on what Group::create gave",
            )),
        }
    }

    /// A fresh connection to the server.
    fn connect(&self) -> Result<OwnedFd> {
        match &self.way {
            Way::Host(host) => host.connect_locally(),
            Way::Path(path) => connect_to(path),
            Way::Socket(socket) => {
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

/// Receivers of this process keep the server alive, but without this nobody here becomes a publisher any more.
impl Drop for Group {
    fn drop(&mut self) {
        if let Way::Host(host) = &self.way {
            host.admit_no_more_local_publishers();
        }
    }
}
