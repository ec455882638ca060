//! A connection in an experiment.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use causeway_bus::client::{self, Error};
use causeway_dbus_wire::driver::DRIVER;
use causeway_dbus_wire::wire::{Arg, Args, Body, Builder, Header, Kind};

use crate::property::Bus;

/// The interface of all messages of experiments.
pub const INTERFACE: &str = "org.weighbridge.Exam";
/// The object of all messages of experiments.
pub const PATH: &str = "/org/weighbridge/Exam";
/// How long a bus that works may take for anything.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// After the driver's answer, how long nothing may come before all has come.
const SETTLE: Duration = Duration::from_millis(40);

/// A connection with words for what experiments do.
#[derive(Debug)]
pub struct Client {
    bus: client::Bus,
}

/// A message that arrived. It has been parsed once.
#[derive(Debug)]
pub struct Message(Vec<u8>);

impl Message {
    /// Its header.
    pub fn header(&self) -> Header<'_> {
        Header::parse(&self.0).expect("was parsed before")
    }

    /// Its body.
    pub fn body(&self) -> &[u8] {
        &self.0[self.header().header_bytes..]
    }

    /// Its arguments, as far as they are valid.
    pub fn args(&self) -> Vec<Arg<'_>> {
        Args::of(&self.0).map_while(Result::ok).collect()
    }

    /// An argument that is a number.
    pub fn number(&self, index: usize) -> Option<u32> {
        match self.args().get(index) {
            Some(Arg::U32(number)) => Some(*number),
            _ => None,
        }
    }

    /// All arguments that are strings.
    pub fn texts(&self) -> Vec<&str> {
        Args::of(&self.0).texts().collect()
    }

    /// Is it of an experiment, and not of the driver?
    pub fn is_ours(&self) -> bool {
        self.header().interface == Some(INTERFACE)
    }

    /// Is it the driver's signal with this member, about this name?
    pub fn is_from_driver(&self, member: &str, name: &str) -> bool {
        let header = self.header();
        header.kind == Kind::Signal
            && header.sender == Some(DRIVER)
            && header.member == Some(member)
            && self.texts().first() == Some(&name)
    }
}

/// A broadcast of an experiment.
pub fn broadcast(member: &str) -> Builder<'_> {
    Builder::signal(PATH, INTERFACE, member)
}

/// A call of an experiment.
pub fn call<'a>(destination: &'a str, member: &'a str) -> Builder<'a> {
    Builder::call(PATH, member).interface(INTERFACE).destination(destination)
}

/// A rule for the broadcasts of an experiment, of one sender.
pub fn rule(sender: &str) -> String {
    format!("type='signal',sender='{sender}',interface='{INTERFACE}'")
}

impl Client {
    /// A new connection.
    pub fn open(bus: &Bus<'_>) -> Result<Client, Error> {
        let mut connection = (bus.connect)(bus.address)?;
        if let Some(notes) = bus.notes {
            connection.observe_with(Box::new(notes.clone()));
        }
        Ok(Client { bus: connection })
    }

    /// A new connection that gets the broadcasts of experiments from all of `senders`.
    pub fn listening(bus: &Bus<'_>, senders: &[&str]) -> Result<Client, Error> {
        let mut client = Client::open(bus)?;
        for sender in senders {
            client.add_rule(&rule(sender))?;
        }
        Ok(client)
    }

    /// Its unique name.
    pub fn name(&self) -> String {
        self.bus.unique_name().to_owned()
    }

    /// Asks the driver.
    pub fn driver(&mut self, member: &str, body: Body) -> Result<Message, Error> {
        self.call(&Builder::of_driver(member).body(body), PATIENCE)
    }

    /// Calls and waits for the reply. Other messages that come meanwhile are kept for [`next`](Client::next).
    pub fn call(&mut self, message: &Builder<'_>, patience: Duration) -> Result<Message, Error> {
        self.bus.call(message, patience).map(Message)
    }

    /// Adds a match rule.
    pub fn add_rule(&mut self, rule: &str) -> Result<(), Error> {
        self.driver("AddMatch", Body::default().text(rule)).map(|_| ())
    }

    /// Removes a match rule.
    pub fn remove_rule(&mut self, rule: &str) -> Result<(), Error> {
        self.driver("RemoveMatch", Body::default().text(rule)).map(|_| ())
    }

    /// Asks for a name; the driver's number for what came of it.
    pub fn request_name(&mut self, name: &str, flags: u32) -> Result<u32, Error> {
        let reply = self.driver("RequestName", Body::default().text(name).u32(flags))?;
        Ok(reply.number(0).unwrap_or_default())
    }

    /// Gives a name back.
    pub fn release_name(&mut self, name: &str) -> Result<(), Error> {
        self.driver("ReleaseName", Body::default().text(name)).map(|_| ())
    }

    /// Sends.
    pub fn send(&mut self, message: &Builder<'_>) -> Result<u32, Error> {
        self.send_with_fds(message, &[])
    }

    /// Sends with copies of descriptors, whose number the message says itself.
    pub fn send_with_fds(&mut self, message: &Builder<'_>, fds: &[BorrowedFd<'_>]) -> Result<u32, Error> {
        self.bus.send_with_fds(message, fds)
    }

    /// Sees every message of the bus from now on; false where the bus does not do that.
    pub fn become_monitor(&mut self) -> Result<bool, Error> {
        match self.bus.become_monitor() {
            Ok(()) => Ok(true),
            Err(Error::Refused { .. }) => Ok(false),
            Err(other) => Err(other),
        }
    }

    /// From now on descriptors that arrive are kept.
    pub fn keep_descriptors(&mut self) {
        self.bus.keep_descriptors();
    }

    /// The descriptors that arrived since the last call, in order.
    pub fn take_descriptors(&mut self) -> Vec<OwnedFd> {
        self.bus.take_descriptors()
    }

    /// Sends bytes as they are, over a socket.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.bus.send_bytes(bytes)
    }

    /// Returns when the driver has answered, and so has dealt with everything that was sent before.
    pub fn barrier(&mut self) -> Result<(), Error> {
        self.driver("GetId", Body::default()).map(|_| ())
    }

    /// The next message, or nothing within `patience`.
    pub fn next(&mut self, patience: Duration) -> Result<Option<Message>, Error> {
        let Some(bytes) = self.bus.receive(patience)? else { return Ok(None) };
        Header::parse(&bytes).map_err(Error::Protocol)?;
        Ok(Some(Message(bytes)))
    }

    /// The next message that is wanted; others are passed over. Nothing if it does not come.
    pub fn wait_for(
        &mut self,
        patience: Duration,
        is_wanted: impl Fn(&Message) -> bool,
    ) -> Result<Option<Message>, Error> {
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.next(left)? {
                Some(message) if is_wanted(&message) => return Ok(Some(message)),
                None if left.is_zero() => return Ok(None),
                _ => {}
            }
        }
    }

    /// The answer to a call that was sent before; nothing if none comes.
    pub fn reply(&mut self, serial: u32, patience: Duration) -> Result<Option<Message>, Error> {
        self.wait_for(patience, |message| message.header().reply_serial == Some(serial))
    }

    /// Everything that has come and is on its way.
    pub fn collect(&mut self) -> Result<Vec<Message>, Error> {
        self.barrier()?;
        let mut all = Vec::new();
        while let Some(message) = self.next(SETTLE)? {
            all.push(message);
        }
        Ok(all)
    }

    /// The messages of experiments among those.
    pub fn collect_ours(&mut self) -> Result<Vec<Message>, Error> {
        let mut all = self.collect()?;
        all.retain(Message::is_ours);
        Ok(all)
    }

    /// What the bus did with what was sent before: is this connection still there?
    pub fn is_connected(&mut self) -> Result<bool, Error> {
        match self.driver("GetId", Body::default()) {
            Ok(_) | Err(Error::Refused { .. }) => Ok(true),
            Err(Error::Closed) => Ok(false),
            Err(other) => Err(other),
        }
    }
}

/// The last part of the name of an error, such as `NoReply`.
pub fn short(error: &str) -> &str {
    error.rsplit('.').next().unwrap_or(error)
}

/// Like a clean answer, but a closed connection is nothing.
pub fn unless_closed<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Error::Closed) => Ok(None),
        Err(other) => Err(other),
    }
}
