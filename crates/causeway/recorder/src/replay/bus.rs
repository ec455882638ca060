//! Sending what was recorded of a bus: each connection of the recording is a member again, and sends what it sent then,
//! in the order of then, for one thread sends for all of them.
//!
//! A reply is sent once its call has come, and answers that. Names change hands where the recording says that they did.
//! What is asked of the bus itself, and what it says, is not sent again: that is between the bus and its members of
//! now. Left out is what a recording lacks: the bodies of long messages, and descriptors.
//!
//! In a bus of others, a name that somebody has stays theirs: calls to it go there, and where the reply was in the
//! recording, theirs is waited for.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use causeway_bus::wire::{Body, Builder, FLAG_NO_AUTO_START, Header, Kind, names, signature};
use causeway_bus::{Connection, ConnectionOptions, DO_NOT_QUEUE, Error, Incoming, NameReply};

use super::cast::{DRIVER, NameChange, Owners, name_change, owners_at_the_beginning};
use super::played::Played;
use super::served::{Served, serve};
use crate::args::ReplayArguments;
use crate::failure::Failure;

/// Members read what came after so many messages or bytes, so that none of them stands in the way of a sender.
const MESSAGES_AHEAD: usize = 64;
const BYTES_AHEAD: usize = 64 << 10;
/// They also read so often while nothing is due.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// A call that was sent comes at once; the reply of a program takes what D-Bus gives it.
const PATIENCE: Duration = Duration::from_secs(25);
const NOT_SUPPORTED: &str = "org.freedesktop.DBus.Error.NotSupported";

pub struct Replay {
    path: PathBuf,
    linger: Duration,
    /// Connections of the recording, by their unique names in it.
    members: BTreeMap<String, Member>,
    /// Those that have left.
    gone: BTreeSet<String>,
    /// The unique names of the members.
    own: HashSet<String>,
    /// Calls whose replies have not been played, by caller and serial in the recording.
    calls: HashMap<(String, u32), Sent>,
    messages_ahead: usize,
    bytes_ahead: usize,
    counts: Counts,
    /// Ends after the members.
    served: Option<Served>,
}

#[derive(Default)]
struct Counts {
    sent: u64,
    members: u64,
    long: u64,
    with_descriptors: u64,
    unanswerable: u64,
    unanswered: u64,
}

/// A call as it was sent now.
struct Sent {
    caller: String,
    serial: u32,
    /// The program that has it is not of the recording.
    is_others: bool,
}

struct Member {
    connection: Connection,
    /// Calls of other members that have come, by their sender and serial of now.
    called: HashSet<(String, u32)>,
    /// Its calls that were answered.
    answered: HashSet<u32>,
}

impl Replay {
    pub fn begin(arguments: &ReplayArguments) -> Result<Replay, Failure> {
        let path = &arguments.socket;
        let owners = owners_at_the_beginning(&arguments.file)?;
        let served = if arguments.into { None } else { Some(serve(path)?) };
        if served.is_some() {
            eprintln!("serving {}", path.display());
        }
        if arguments.wait_for_subscribers > 0 {
            // Without a limit of time: who asks for it may interrupt it.
            wait_for_others(path, None, |others| others >= arguments.wait_for_subscribers as usize)?;
        }
        let mut replay = Replay {
            path: path.clone(),
            linger: arguments.linger,
            members: BTreeMap::new(),
            gone: BTreeSet::new(),
            own: HashSet::new(),
            calls: HashMap::new(),
            messages_ahead: 0,
            bytes_ahead: 0,
            counts: Counts::default(),
            served,
        };
        replay.begin_names(owners)?;
        Ok(replay)
    }

    fn begin_names(&mut self, owners: Owners) -> Result<(), Failure> {
        owners.iter().try_for_each(|(name, owner)| self.take_name(name, owner))
    }

    /// Plays the next message.
    pub fn play(&mut self, message: &[u8]) -> Result<(), Failure> {
        let header = Header::parse(message).map_err(|fault| {
            Failure::Failed(format!("a message of the recording is none of D-Bus: {fault}"))
        })?;
        if let Some(change) = name_change(&header, message) {
            return self.change(&change);
        }
        let (sender, destination) = (header.sender.unwrap_or(DRIVER), header.destination);
        if sender == DRIVER || destination == Some(DRIVER) {
            return Ok(());
        }
        if message.len() < header.message_bytes() {
            self.counts.long += 1;
            return Ok(());
        }
        if header.unix_fds > 0 {
            self.counts.with_descriptors += 1;
            return Ok(());
        }
        match (header.kind, header.reply_serial, destination) {
            (Kind::MethodReturn | Kind::Error, Some(serial), Some(destination)) => {
                self.reply(sender, destination, serial, &header, message)
            }
            (Kind::MethodCall, _, Some(destination)) => self.call(sender, destination, &header, message),
            (Kind::Signal, ..) => self.send(sender, &header, message, None).map(drop),
            // A call without a destination is for the bus.
            _ => Ok(()),
        }
    }

    fn call(
        &mut self,
        sender: &str,
        destination: &str,
        header: &Header<'_>,
        message: &[u8],
    ) -> Result<(), Failure> {
        let Some(serial) = self.send(sender, header, message, None)? else { return Ok(()) };
        if header.expects_reply() {
            let caller = &self.members[sender].connection;
            let owner = caller.name_owner(&self.name_of(destination));
            let is_others = owner.is_some_and(|owner| !self.own.contains(&owner));
            let sent = Sent { caller: caller.unique_name().to_owned(), serial, is_others };
            self.calls.insert((sender.to_owned(), header.serial), sent);
        }
        Ok(())
    }

    fn reply(
        &mut self,
        sender: &str,
        destination: &str,
        serial: u32,
        header: &Header<'_>,
        message: &[u8],
    ) -> Result<(), Failure> {
        let Some(sent) = self.calls.remove(&(destination.to_owned(), serial)) else {
            // The call was sent before the recording began, or was left out.
            self.counts.unanswerable += 1;
            return Ok(());
        };
        if sent.is_others {
            let is_answered = self.wait_until(destination, |members| {
                members.get_mut(destination).is_some_and(|caller| caller.answered.remove(&sent.serial))
            })?;
            self.counts.unanswered += u64::from(!is_answered);
            return Ok(());
        }
        let key = (sent.caller, sent.serial);
        let mut has_come = false;
        self.wait_until(sender, |members| {
            has_come = members.get_mut(sender).is_some_and(|callee| callee.called.remove(&key));
            // Somebody else has answered: the bus, that nobody has the name.
            has_come || members.get(destination).is_some_and(|caller| caller.answered.contains(&key.1))
        })?;
        if !has_come {
            return Err(Failure::Failed(format!(
                "the call of {} with serial {} does not come to {sender} of the recording, which answered it then: somebody else has its \
                 name, or nobody has it; replay into a new bus, without --into",
                key.0, key.1
            )));
        }
        self.send(sender, header, message, Some(key.1)).map(drop)
    }

    /// Sends a message of the recording; its serial of now, if there is anybody whom it is for.
    fn send(
        &mut self,
        sender: &str,
        header: &Header<'_>,
        message: &[u8],
        reply_serial: Option<u32>,
    ) -> Result<Option<u32>, Failure> {
        if header.destination.is_some_and(|name| self.gone.contains(name)) {
            self.counts.unanswerable += 1;
            return Ok(None);
        }
        if signature::check(header.signature).is_err() {
            return Err(Failure::Failed(format!(
                "{:?} in the recording is not a signature",
                header.signature
            )));
        }
        // Whom it is for is there before it.
        if let Some(name) = header.destination.filter(|name| names::is_unique(name)) {
            self.member(name)?;
        }
        let destination = header.destination.map(|name| self.name_of(name));
        let body = Body::marshalled(header.endian, header.signature, &message[header.header_bytes..]);
        let mut again = Builder::like(header).flags(header.flags | FLAG_NO_AUTO_START).body(body);
        if let Some(destination) = &destination {
            again = again.destination(destination);
        }
        if let Some(serial) = reply_serial {
            again = again.reply_serial(serial);
        }
        let serial = self.member(sender)?.0.connection.send_message(&again)?;
        self.counts.sent += 1;
        self.messages_ahead += 1;
        self.bytes_ahead += message.len();
        if self.messages_ahead >= MESSAGES_AHEAD || self.bytes_ahead >= BYTES_AHEAD {
            self.read_all()?;
        }
        Ok(Some(serial))
    }

    /// The name of now of one in the recording.
    fn name_of(&self, name: &str) -> String {
        self.members.get(name).map_or(name, |member| member.connection.unique_name()).to_owned()
    }

    /// The member that is a connection of the recording, and the names of all members.
    fn member(&mut self, name: &str) -> Result<(&mut Member, &HashSet<String>), Failure> {
        if !self.members.contains_key(name) {
            let options = ConnectionOptions { pending_calls: usize::MAX, ..ConnectionOptions::default() };
            let connection = Connection::open_with(&self.path, options)?;
            self.own.insert(connection.unique_name().to_owned());
            self.counts.members += 1;
            let member = Member { connection, called: HashSet::new(), answered: HashSet::new() };
            self.members.insert(name.to_owned(), member);
        }
        match self.members.get_mut(name) {
            Some(member) => Ok((member, &self.own)),
            None => unreachable!("it was inserted"),
        }
    }

    /// A name changes hands, a connection comes or leaves.
    fn change(&mut self, &NameChange { name, old, new }: &NameChange<'_>) -> Result<(), Failure> {
        match (names::is_unique(name), new.is_empty()) {
            (true, true) => self.leave(name),
            (true, false) => self.member(name).map(drop),
            (false, _) => {
                if let Some(owner) = self.members.get_mut(old) {
                    let _ = owner.connection.release_name(name)?;
                }
                if new.is_empty() { Ok(()) } else { self.take_name(name, new) }
            }
        }
    }

    fn leave(&mut self, name: &str) -> Result<(), Failure> {
        self.gone.insert(name.to_owned());
        if let Some(member) = self.members.remove(name) {
            self.own.remove(member.connection.unique_name());
        }
        self.calls.retain(|(caller, _), _| caller != name);
        self.read_all()
    }

    fn take_name(&mut self, name: &str, owner: &str) -> Result<(), Failure> {
        match self.member(owner)?.0.connection.request_name(name, DO_NOT_QUEUE)? {
            NameReply::PrimaryOwner | NameReply::AlreadyOwner => {}
            NameReply::Exists | NameReply::InQueue => {
                eprintln!("causeway-record: {name} has an owner on this bus, who gets the calls to it");
            }
        }
        Ok(())
    }

    /// All read, one of them at once, until there is what is waited for; false if that does not come.
    fn wait_until(
        &mut self,
        name: &str,
        mut has_come: impl FnMut(&mut BTreeMap<String, Member>) -> bool,
    ) -> Result<bool, Failure> {
        let end = Instant::now() + PATIENCE;
        loop {
            let (member, own) = self.member(name)?;
            member.read(own)?;
            if has_come(&mut self.members) {
                return Ok(true);
            }
            let (member, own) = self.member(name)?;
            match member.connection.next(Some(LOOK_AGAIN))? {
                Some(incoming) => member.take(incoming, own)?,
                None if Instant::now() >= end => return Ok(false),
                None => self.read_all()?,
            }
        }
    }

    fn read_all(&mut self) -> Result<(), Failure> {
        (self.messages_ahead, self.bytes_ahead) = (0, 0);
        self.members.values_mut().try_for_each(|member| member.read(&self.own))
    }

    /// Waits for so long, or for a part of that.
    pub fn rest(&mut self, left: Duration) -> Result<(), Failure> {
        self.read_all()?;
        std::thread::sleep(left.min(LOOK_AGAIN));
        Ok(())
    }

    /// A bus of this process ends with it: its other members leave before, or within the time for that.
    pub fn end(mut self) -> Result<Played, Failure> {
        self.read_all()?;
        self.members.clear();
        if self.served.is_some() {
            let end = Instant::now() + self.linger;
            wait_for_others(&self.path, Some(end), |others| others == 0)?;
        }
        let Counts { sent, members, long, with_descriptors, unanswerable, unanswered } = self.counts;
        let left_out = [
            (long, "longer than an outbox"),
            (with_descriptors, "with descriptors"),
            (unanswerable, "for somebody who had left, or to calls that are not in the recording"),
        ];
        let mut said = format!("{sent} messages of {members} connections replayed");
        for (count, what) in left_out.iter().filter(|(count, _)| *count > 0) {
            said += &format!(", {count} left out: {what}");
        }
        if unanswered > 0 {
            said += &format!(", {unanswered} calls not answered in time");
        }
        let is_complete = left_out.iter().all(|(count, _)| *count == 0) && unanswered == 0;
        Ok(Played { said, is_complete })
    }
}

impl Member {
    /// Reads what is there.
    fn read(&mut self, own: &HashSet<String>) -> Result<(), Failure> {
        while let Some(incoming) = self.connection.next_now()? {
            self.take(incoming, own)?;
        }
        Ok(())
    }

    fn take(&mut self, incoming: Incoming, own: &HashSet<String>) -> Result<(), Failure> {
        match incoming {
            Incoming::Call(call) => {
                let header = call.header();
                let sender = header.sender.unwrap_or_default();
                if own.contains(sender) {
                    if header.expects_reply() {
                        self.called.insert((sender.to_owned(), header.serial));
                    }
                } else if header.expects_reply() {
                    let text = "a replay answers only the calls of its recording";
                    self.connection.reply_error(&call, NOT_SUPPORTED, text)?;
                }
            }
            Incoming::Reply(reply) => self.answered.extend(reply.header().reply_serial),
            Incoming::AuthorityGone => return Err(Error::AuthorityGone.into()),
            _ => {}
        }
        Ok(())
    }
}

/// Waits until so many others are members as are wanted, or the time is over.
fn wait_for_others(
    path: &Path,
    end: Option<Instant>,
    is_enough: impl Fn(usize) -> bool,
) -> Result<(), Failure> {
    let mut watch = Connection::open(path)?;
    loop {
        while watch.next_now()?.is_some() {}
        let all = watch.list_names();
        let others = all.iter().filter(|name| names::is_unique(name) && *name != watch.unique_name());
        if is_enough(others.count()) || end.is_some_and(|end| Instant::now() >= end) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
