//! A connection in an experiment, with words for what experiments do.

use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use causeway_bus::client::{self, Error, native_path};
use causeway_dbus_wire::driver::DRIVER;
use causeway_dbus_wire::random::Random;
use causeway_dbus_wire::wire::{Arg, Args, Body, Builder, Endian, Header, Kind};

use crate::property::Bus;

/// The interface of all messages of experiments.
pub const INTERFACE: &str = "org.weighbridge.Exam";
/// The object of all messages of experiments.
pub const PATH: &str = "/org/weighbridge/Exam";
/// How long a bus that works may take for anything.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// After the driver's answer, how long nothing may come before all has come.
const SETTLE: Duration = Duration::from_millis(40);

/// A connection. What it does not do itself, the bus client does.
#[derive(Debug)]
pub struct Client(client::Bus);

impl Deref for Client {
    type Target = client::Bus;

    fn deref(&self) -> &client::Bus {
        &self.0
    }
}

impl DerefMut for Client {
    fn deref_mut(&mut self) -> &mut client::Bus {
        &mut self.0
    }
}

/// A message that arrived. It has been parsed once.
#[derive(Debug)]
pub struct Message(Vec<u8>);

impl Message {
    pub fn header(&self) -> Header<'_> {
        Header::parse(&self.0).expect("was parsed before")
    }

    pub fn body(&self) -> &[u8] {
        &self.0[self.header().header_bytes..]
    }

    /// An argument that is a number.
    pub fn number(&self, index: usize) -> Option<u32> {
        match Args::of(&self.0).nth(index) {
            Some(Ok(Arg::U32(number))) => Some(number),
            _ => None,
        }
    }

    /// All arguments that are strings.
    pub fn texts(&self) -> Vec<&str> {
        Args::of(&self.0).texts().collect()
    }

    /// The name of the error that it is.
    pub fn error(&self) -> Option<String> {
        self.header().error_name.map(str::to_owned)
    }

    /// Is it of an experiment, and not of the driver?
    pub fn is_ours(&self) -> bool {
        self.header().interface == Some(INTERFACE)
    }

    /// Was it sent by the connection with this name?
    pub fn is_of(&self, name: &str) -> bool {
        self.header().sender == Some(name)
    }

    pub fn is_call(&self) -> bool {
        self.header().kind == Kind::MethodCall
    }

    pub fn answers(&self, serial: u32) -> bool {
        self.header().reply_serial == Some(serial)
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

pub fn number(number: u32) -> Body {
    Body::default().u32(number)
}

/// A body with a number and that many random bytes, which no fault copies from elsewhere unnoticed.
pub fn blob(endian: Endian, number: u32, count: usize) -> Body {
    let mut random = Random((u64::from(number) + 1) | 1);
    let bytes: Vec<u8> = (0..count).map(|_| random.next_u64().to_le_bytes()[5]).collect();
    Body::in_order(endian).u32(number).blob(&bytes)
}

/// A rule for the broadcasts of an experiment, of one sender.
pub fn rule(sender: &str) -> String {
    format!("type='signal',sender='{sender}',interface='{INTERFACE}'")
}

/// A rule for what the driver tells of the owner of a name.
pub fn owner_rule(name: &str) -> String {
    format!("type='signal',member='NameOwnerChanged',arg0='{name}'")
}

/// A well-known name of this examination.
pub fn well_known(of: &str) -> String {
    format!("{INTERFACE}.{of}{}", std::process::id())
}

impl Client {
    pub fn open(bus: &Bus<'_>) -> Result<Client, Error> {
        let mut connection = (bus.connect)(bus.address)?;
        if let Some(notes) = bus.notes {
            connection.observe_with(Box::new(notes.clone()));
        }
        Ok(Client(connection))
    }

    /// A connection by a socket, also where experiments are native members: of such a bus the address has both.
    pub fn by_socket(bus: &Bus<'_>) -> Result<Client, Error> {
        let entries = bus.address.split(';').filter(|entry| native_path(entry).is_none());
        let address = entries.collect::<Vec<_>>().join(";");
        // One that was given by its native address alone may serve no others.
        if address.contains(':') {
            Client::open(&Bus { address: &address, ..*bus })
        } else {
            Client::open(bus)
        }
    }

    pub fn several<const N: usize>(bus: &Bus<'_>) -> Result<[Client; N], Error> {
        let clients: Vec<Client> = (0..N).map(|_| Client::open(bus)).collect::<Result<_, _>>()?;
        Ok(clients.try_into().expect("so many were opened"))
    }

    /// A new connection that gets the broadcasts of experiments from all of `senders`.
    pub fn listening(bus: &Bus<'_>, senders: &[&str]) -> Result<Client, Error> {
        let mut client = Client::open(bus)?;
        client.listen_to(senders)?;
        Ok(client)
    }

    /// From now on it gets the broadcasts of experiments from all of `senders`.
    pub fn listen_to(&mut self, senders: &[&str]) -> Result<(), Error> {
        senders.iter().try_for_each(|sender| self.add_rule(&rule(sender)))
    }

    pub fn name(&self) -> String {
        self.unique_name().to_owned()
    }

    /// Adds a match rule by a call of the driver, as every client of D-Bus does.
    pub fn add_rule(&mut self, rule: &str) -> Result<(), Error> {
        self.ask_driver("AddMatch", Body::default().text(rule)).map(drop)
    }

    pub fn remove_rule(&mut self, rule: &str) -> Result<(), Error> {
        self.ask_driver("RemoveMatch", Body::default().text(rule)).map(drop)
    }

    pub fn release_name(&mut self, name: &str) -> Result<(), Error> {
        self.ask_driver("ReleaseName", Body::default().text(name)).map(drop)
    }

    /// Returns when the driver has answered, and so has dealt with everything that was sent before.
    pub fn barrier(&mut self) -> Result<(), Error> {
        self.ask_driver("GetId", Body::default()).map(drop)
    }

    /// The next message, or nothing within `patience`.
    pub fn next(&mut self, patience: Duration) -> Result<Option<Message>, Error> {
        let Some(bytes) = self.receive(patience)? else { return Ok(None) };
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

    /// Waits for the driver to tell of another owner of a name.
    pub fn await_owner_change(&mut self, name: &str) -> Result<(), Error> {
        self.wait_for(PATIENCE, |message| message.is_from_driver("NameOwnerChanged", name)).map(drop)
    }

    /// The answer to a call that was sent before; nothing if none comes within five seconds.
    pub fn reply(&mut self, serial: u32) -> Result<Option<Message>, Error> {
        self.wait_for(PATIENCE / 4, |message| message.answers(serial))
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

    /// The names of the errors among those.
    pub fn collect_errors(&mut self) -> Result<Vec<String>, Error> {
        Ok(self.collect()?.iter().filter_map(Message::error).collect())
    }

    /// What a connection finds that has not read for a while: messages of experiments, and whether it is still connected.
    pub fn read_again(&mut self, quiet: Duration) -> Result<(usize, bool), Error> {
        let mut got = 0;
        loop {
            match unless_closed(self.next(quiet))? {
                Some(Some(message)) => got += usize::from(message.is_ours()),
                // A question before the queue is empty may be answered into the full queue, and lost.
                Some(None) => return Ok((got, self.is_connected()?)),
                None => return Ok((got, false)),
            }
        }
    }

    /// What the bus did with what was sent before: is this connection still there?
    pub fn is_connected(&mut self) -> Result<bool, Error> {
        let answer = unless_closed(refusal(self.barrier()))?;
        Ok(answer.is_some())
    }

    /// The same, where the bus may take what is asked for a part of what was sent before, and answer nothing.
    pub fn stays_connected(&mut self) -> Result<bool, Error> {
        match self.call(&Builder::of_driver("GetId"), Duration::from_secs(2)) {
            Ok(_) | Err(Error::Refused { .. } | Error::TimedOut) => Ok(true),
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
        Err(Error::Closed) => Ok(None),
        other => other.map(Some),
    }
}

/// The name of the error with which the bus refuses what was asked for; nothing where it does not.
pub fn refusal<T>(result: Result<T, Error>) -> Result<Option<String>, Error> {
    match result {
        Err(Error::Refused { name, .. }) => Ok(Some(name)),
        other => other.map(|_| None),
    }
}
