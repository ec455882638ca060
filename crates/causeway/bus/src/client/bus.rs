//! One connection to a bus, by a socket or as a native member.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::socket::Socket;
use super::{Address, Error, native_path};
use crate::authority::{DRIVER, DRIVER_PATH};
use crate::wire::{Args, Body, Builder, Header, Kind};
use crate::{Connection, ConnectionOptions, Monitor, Observed};

/// How long the bus itself may take to answer; also for authentication and for writing. A bus that takes longer is stuck.
pub const TIMEOUT: Duration = Duration::from_secs(25);

/// A connection to a bus. Descriptors that arrive are closed, unless [`keep_descriptors`](Bus::keep_descriptors) was called.
#[derive(Debug)]
pub struct Bus {
    link: Link,
    unique_name: String,
    /// Messages that came while a reply was awaited.
    kept: VecDeque<Vec<u8>>,
    last_serial: u32,
    /// Those that arrived, where they are kept.
    descriptors: Option<Vec<OwnedFd>>,
    observer: Option<Box<dyn Observer>>,
}

#[derive(Debug)]
enum Link {
    Socket(Socket),
    Member {
        connection: Box<Connection>,
        path: PathBuf,
    },
    /// What a member has become.
    Monitor(Box<Monitor>),
    Layer(Box<dyn Layer>),
}

/// Stands between a program and its connection: a test falsifies with it what passes.
pub trait Layer: fmt::Debug + Send {
    /// The connection below.
    fn below(&mut self) -> &mut Bus;

    /// Sends a message, as [`Bus::send_with_fds`].
    fn send(&mut self, message: &Builder<'_>, fds: &[BorrowedFd<'_>]) -> Result<u32, Error> {
        self.below().send_with_fds(message, fds)
    }

    /// Receives a message, as [`Bus::receive`].
    fn receive(&mut self, timeout: Duration) -> Result<Option<Vec<u8>>, Error>;
}

/// Is shown each message that a connection sends or receives, one that is kept for later when it arrives.
pub trait Observer: fmt::Debug + Send {
    /// Such a message.
    fn observe(&mut self, seen: Seen<'_>);
}

/// A message, as an [`Observer`] is shown it.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The unique name of the connection.
    pub connection: &'a str,
    /// Did it send the message? Otherwise the message arrived there.
    pub is_sent: bool,
    /// The message; of a sender that leaves that to the bus, without the name of the sender.
    pub bytes: &'a [u8],
    /// When it began to be written or waited for.
    pub since: Instant,
}

impl Bus {
    /// Connects to a bus: as a native member where one of the addresses is native, else over the first socket that
    /// answers. Fails if no address can be used, or the bus does not accept the connection.
    pub fn open(addresses: &str) -> Result<Bus, Error> {
        Bus::open_with(addresses, ConnectionOptions::default())
    }

    /// As [`open`](Bus::open); the options are those of a native member.
    pub fn open_with(addresses: &str, options: ConnectionOptions) -> Result<Bus, Error> {
        match native_path(addresses) {
            Some(path) => Bus::join(&path, options),
            None => Bus::connect(addresses),
        }
    }

    /// Joins the bus with this native socket.
    pub fn join(path: &Path, options: ConnectionOptions) -> Result<Bus, Error> {
        let connection = Connection::open_with(path, options)
            .map_err(|source| Error::Join { path: path.into(), source })?;
        let unique_name = connection.unique_name().to_owned();
        Ok(Bus::over(Link::Member { connection: Box::new(connection), path: path.into() }, unique_name))
    }

    /// Connects to the first socket that answers, authenticates as this user, and says Hello. Native addresses are passed over.
    pub fn connect(addresses: &str) -> Result<Bus, Error> {
        let mut failed = None;
        for address in Address::list(addresses)? {
            match address.connect() {
                Ok(stream) => {
                    let mut bus = Bus::authenticated(stream)?;
                    let reply = bus.ask_driver("Hello", Body::default())?;
                    bus.unique_name = Args::of(&reply).first_text().unwrap_or_default().into();
                    return Ok(bus);
                }
                Err(source) => failed = Some(Error::Connect { address: addresses.into(), source }),
            }
        }
        Err(failed.expect("a list of addresses is not empty"))
    }

    /// Authenticates on a stream. Nothing is said to the driver: the other end may be no bus. Fails if the other end
    /// does not accept this user, or not in time.
    pub fn authenticated(stream: UnixStream) -> Result<Bus, Error> {
        Ok(Bus::over(Link::Socket(Socket::authenticated(stream)?), String::new()))
    }

    /// A connection through a layer, with this unique name.
    pub fn layered(layer: Box<dyn Layer>, unique_name: &str) -> Bus {
        Bus::over(Link::Layer(layer), unique_name.into())
    }

    fn over(link: Link, unique_name: String) -> Bus {
        Bus { link, unique_name, kept: VecDeque::new(), last_serial: 0, descriptors: None, observer: None }
    }

    /// This connection's name on the bus; empty where there is no bus.
    pub fn unique_name(&self) -> &str {
        &self.unique_name
    }

    /// Is this a native member, or a monitor of a native bus?
    pub fn is_native(&self) -> bool {
        matches!(self.link, Link::Member { .. } | Link::Monitor(_))
    }

    /// Sends a message and returns its serial. A native member waits for space until other members have read.
    pub fn send(&mut self, message: &Builder<'_>) -> Result<u32, Error> {
        self.send_with_fds(message, &[])
    }

    /// Sends a message with copies of descriptors, whose number the message says itself, and returns its serial. Fails
    /// as [`send`](Bus::send), and where the descriptors are not passed on.
    pub fn send_with_fds(&mut self, message: &Builder<'_>, fds: &[BorrowedFd<'_>]) -> Result<u32, Error> {
        let since = Instant::now();
        let built = |serial| message.build(serial).map_err(|too_long| Error::Io(io::Error::other(too_long)));
        match &mut self.link {
            Link::Socket(socket) => {
                self.last_serial = self.last_serial.checked_add(1).unwrap_or(1);
                let bytes = built(self.last_serial)?;
                socket.write(&bytes, fds)?;
                self.show(true, &bytes, since);
            }
            Link::Member { connection, .. } => {
                let fds: Vec<OwnedFd> =
                    fds.iter().map(BorrowedFd::try_clone_to_owned).collect::<Result<_, _>>()?;
                self.last_serial = connection.send_message_with_descriptors(message, fds)?;
                if self.observer.is_some() {
                    self.show(true, &built(self.last_serial)?, since);
                }
            }
            Link::Layer(layer) => self.last_serial = layer.send(message, fds)?,
            Link::Monitor(_) => return Err(Error::Closed),
        }
        Ok(self.last_serial)
    }

    /// Sends bytes as they are, over a socket. A native member has no stream of bytes.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let since = Instant::now();
        match &mut self.link {
            Link::Socket(socket) => socket.write(bytes, &[])?,
            Link::Layer(layer) => return layer.below().send_bytes(bytes),
            Link::Member { .. } | Link::Monitor(_) => return Err(no_stream()),
        }
        self.show(true, bytes, since);
        Ok(())
    }

    /// The serial of the message that was sent last.
    pub fn last_serial(&self) -> u32 {
        self.last_serial
    }

    /// From now on descriptors that arrive are kept for [`take_descriptors`](Bus::take_descriptors).
    pub fn keep_descriptors(&mut self) {
        match &mut self.link {
            Link::Layer(layer) => layer.below().keep_descriptors(),
            _ => drop(self.descriptors.get_or_insert_default()),
        }
    }

    /// The descriptors that arrived since the last call, in order.
    pub fn take_descriptors(&mut self) -> Vec<OwnedFd> {
        match &mut self.link {
            Link::Layer(layer) => layer.below().take_descriptors(),
            _ => self.descriptors.as_mut().map(std::mem::take).unwrap_or_default(),
        }
    }

    /// From now on an observer is shown each message.
    pub fn observe_with(&mut self, observer: Box<dyn Observer>) {
        match &mut self.link {
            Link::Layer(layer) => layer.below().observe_with(observer),
            _ => self.observer = Some(observer),
        }
    }

    fn show(&mut self, is_sent: bool, bytes: &[u8], since: Instant) {
        if let Some(observer) = &mut self.observer {
            observer.observe(Seen { connection: &self.unique_name, is_sent, bytes, since });
        }
    }

    /// Calls and waits for the reply. Other messages that come meanwhile are kept for [`receive`](Bus::receive). Fails
    /// if the reply is an error or does not come in time.
    pub fn call(&mut self, message: &Builder<'_>, timeout: Duration) -> Result<Vec<u8>, Error> {
        self.call_with_fds(message, &[], timeout)
    }

    /// Calls with copies of descriptors and waits for the reply, in the manner of [`call`](Bus::call).
    pub fn call_with_fds(
        &mut self,
        message: &Builder<'_>,
        fds: &[BorrowedFd<'_>],
        timeout: Duration,
    ) -> Result<Vec<u8>, Error> {
        let deadline = Instant::now() + timeout;
        let serial = self.send_with_fds(message, fds)?;
        loop {
            let Some(bytes) = self.next(deadline)? else { return Err(Error::TimedOut) };
            let header = Header::parse(&bytes).map_err(Error::Protocol)?;
            if header.reply_serial != Some(serial) {
                self.kept.push_back(bytes);
                continue;
            }
            if header.kind == Kind::Error {
                let name = header.error_name.unwrap_or_default().into();
                return Err(Error::Refused {
                    name,
                    message: Args::of(&bytes).first_text().unwrap_or_default().into(),
                });
            }
            return Ok(bytes);
        }
    }

    /// Calls a method of the bus itself and waits for the reply.
    pub fn ask_driver(&mut self, member: &str, body: Body) -> Result<Vec<u8>, Error> {
        self.call(&Builder::of_driver(member).body(body), TIMEOUT)
    }

    /// From now on signals come that a match rule selects.
    pub fn add_match(&mut self, rule: &str) -> Result<(), Error> {
        if let Link::Member { connection, .. } = &mut self.link {
            return Ok(connection.add_match(rule)?);
        }
        self.ask_driver("AddMatch", Body::default().text(rule)).map(drop)
    }

    /// Asks for a name, with the flags of D-Bus; returns the number of the answer.
    pub fn request_name(&mut self, name: &str, flags: u32) -> Result<u32, Error> {
        let reply = self.ask_driver("RequestName", Body::default().text(name).u32(flags))?;
        Ok(Args::of(&reply).first_u32().unwrap_or_default())
    }

    /// The unique name of the owner of a name, if it has one.
    pub fn name_owner(&mut self, name: &str) -> Result<Option<String>, Error> {
        if let Link::Member { connection, .. } = &self.link {
            return Ok(connection.name_owner(name));
        }
        match self.ask_driver("GetNameOwner", Body::default().text(name)) {
            Ok(reply) => Ok(Args::of(&reply).first_text().map(str::to_owned)),
            Err(Error::Refused { .. }) => Ok(None),
            Err(other) => Err(other),
        }
    }

    /// From now on this connection receives every message of the bus and sends none. Fails with [`Error::Refused`]
    /// where the bus does not let it.
    pub fn become_monitor(&mut self) -> Result<(), Error> {
        match &mut self.link {
            Link::Socket(_) => {
                let become_monitor = Builder::call(DRIVER_PATH, "BecomeMonitor")
                    .interface("org.freedesktop.DBus.Monitoring")
                    .destination(DRIVER)
                    .body(Body::default().texts(&[]).u32(0));
                self.call(&become_monitor, TIMEOUT).map(drop)
            }
            Link::Member { path, .. } => {
                self.link = Link::Monitor(Box::new(Monitor::open(path)?));
                Ok(())
            }
            Link::Monitor(_) => Ok(()),
            Link::Layer(layer) => layer.below().become_monitor(),
        }
    }

    /// The next message, or nothing if none comes within `timeout`. Zero looks without waiting. Fails if the bus closed
    /// the connection, or sent an invalid message.
    pub fn receive(&mut self, timeout: Duration) -> Result<Option<Vec<u8>>, Error> {
        match self.kept.pop_front() {
            Some(kept) => Ok(Some(kept)),
            None => self.next(Instant::now() + timeout),
        }
    }

    fn next(&mut self, deadline: Instant) -> Result<Option<Vec<u8>>, Error> {
        let since = Instant::now();
        let left = deadline.saturating_duration_since(since);
        let message = match &mut self.link {
            Link::Socket(socket) => socket.next(deadline, &mut self.descriptors)?,
            Link::Member { connection, .. } => {
                let message = connection.next_message(Some(left))?;
                if let (Some(message), Some(descriptors)) = (&message, &mut self.descriptors) {
                    descriptors.extend(message.take_descriptors());
                }
                message.map(|message| message.bytes().to_vec())
            }
            Link::Monitor(monitor) => observed(monitor, deadline)?,
            Link::Layer(layer) => layer.receive(left)?,
        };
        if let Some(message) = &message {
            self.show(false, message, since);
        }
        Ok(message)
    }

    /// Makes the descriptor of a native member, which its program waits for; that of a socket is always there.
    pub fn use_descriptor(&mut self) -> Result<(), Error> {
        match &mut self.link {
            Link::Member { connection, .. } => Ok(connection.use_descriptor()?),
            _ => Ok(()),
        }
    }

    /// To be called before the descriptor is waited for; false if there is something to receive already.
    pub fn prepare_to_wait(&mut self) -> bool {
        self.kept.is_empty()
            && match &mut self.link {
                Link::Socket(socket) => !socket.has_message(),
                Link::Member { connection, .. } => connection.prepare_to_wait(),
                Link::Monitor(_) | Link::Layer(_) => false,
            }
    }

    /// Gives up the connection for its socket: with what was read from it and not handed out yet, message by message as
    /// far as they are whole, and the serial that was used last. The socket waits without a limit then. A native member
    /// has none.
    pub fn into_parts(self) -> Result<(UnixStream, Vec<u8>, u32), Error> {
        let Link::Socket(socket) = self.link else { return Err(no_stream()) };
        let mut unread: Vec<u8> = self.kept.into_iter().flatten().collect();
        unread.extend_from_slice(socket.unread());
        socket.stream.set_write_timeout(None)?;
        Ok((socket.stream, unread, self.last_serial))
    }
}

impl AsFd for Bus {
    /// Readable when something has come after [`Bus::prepare_to_wait`].
    ///
    /// # Panics
    /// Of a native member, if [`use_descriptor`](Bus::use_descriptor) was not called before; of a monitor of a native bus or a layer.
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.link {
            Link::Socket(socket) => socket.stream.as_fd(),
            Link::Member { connection, .. } => connection.as_fd(),
            Link::Monitor(_) | Link::Layer(_) => panic!("there is no descriptor to wait for"),
        }
    }
}

/// What a monitor sees next. What it loses is missing.
fn observed(monitor: &mut Monitor, deadline: Instant) -> Result<Option<Vec<u8>>, Error> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match monitor.next(Some(left))? {
            Some(Observed::Message(message)) => return Ok(Some(message.bytes().to_vec())),
            Some(Observed::Lost { .. }) => {}
            None => return Ok(None),
        }
    }
}

fn no_stream() -> Error {
    Error::Io(io::Error::other("a native member has no stream of bytes"))
}
