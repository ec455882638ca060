//! A monitor: it maps everything for reading only, and no member knows of it. What it does not read in time, it loses
//! and counts. While there is one, what clients send goes through the order log, too.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use causeway_dbus_wire::driver::DRIVER;
use causeway_dbus_wire::rule::{MatchRule, Owners};
use causeway_dbus_wire::wire::Arg;
use causeway_os::memory::Access;

use crate::authority::{name_of, unique_name};
use crate::connection::{Link, Message, descriptors};
use crate::content::FileDescriptors;
use crate::error::Result;
use crate::port::{AUTHORITY, Descriptors, Received, broken_by};
use crate::shared::directory::{Directory, Peer, State};
use crate::shared::header::BusHeader;
use crate::shared::order::{Broken, OrderLog};
use crate::shared::outbox::{ForeignOutbox, Found};
use crate::shared::ring::{self, BROADCAST, Cell, Cells, Entry};
use crate::shared::statistics::Statistics;
use crate::shared::unique_name::unique_number;

/// A monitor that has nothing to read looks again after this time: nobody wakes it.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// What a monitor reads.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "a message is the rule, and moved once")]
pub enum Observed {
    /// A message, in the order of the bus.
    Message(Message),
    /// So many messages were overwritten before they were read, or of a member that had left; some may not have been
    /// wanted.
    Lost {
        /// How many.
        messages: u64,
    },
}

/// Reads all messages of a bus, without descriptors, and of those too long for an outbox the header
/// ([`Message::is_header_only`]).
#[derive(Debug)]
pub struct Monitor {
    link: Link,
    order: OrderLog,
    directory: Directory,
    cursor: u64,
    outboxes: Vec<Option<(u64, ForeignOutbox)>>,
    /// With none, everything is wanted.
    rules: Vec<MatchRule>,
    owners: OwnersByLog,
    lost: u64,
}

impl Monitor {
    /// Watches the bus that is served at a path, from now on.
    pub fn open(path: impl AsRef<Path>) -> Result<Monitor> {
        let (link, _, fds) = Link::join(path.as_ref(), None)?;
        let [order, directory] = descriptors(fds)?;
        let (order, directory) = (OrderLog::open(&order, Access::ReadOnly)?, Directory::open(&directory)?);
        let outboxes = (0..order.slots()).map(|_| None).collect();
        let (rules, owners) = (Vec::new(), OwnersByLog::default());
        let mut monitor = Monitor { link, cursor: 0, order, directory, outboxes, rules, owners, lost: 0 };
        monitor.cursor = monitor.messages();
        Ok(monitor)
    }

    /// The GUID of this bus, 32 hexadecimal digits.
    pub fn bus_id(&self) -> String {
        self.directory.bus_id()
    }

    /// Reads only what this match rule matches, or another one that was given before.
    pub fn filter(mut self, rule: MatchRule) -> Monitor {
        let names = [&rule.sender, &rule.destination].into_iter().flatten();
        self.owners.0.extend(names.map(|name| (name.clone(), None)));
        self.owners.catch_up(&self.directory);
        self.rules.push(rule);
        self
    }

    /// Messages that were sent on this bus.
    pub fn messages(&self) -> u64 {
        let mut end = self.order.load_hint();
        while let Cell::Present(_) = self.look(end) {
            end += 1;
        }
        end
    }

    fn look(&self, position: u64) -> Cell {
        ring::classify(self.order.load_entry(position), ring::lap(&self.order, position))
    }

    /// The next message, or a loss, at most after `timeout` (`None`: however long it takes). `Ok(None)` when the time
    /// is over.
    ///
    /// # Errors
    /// The authority is gone, or the bus makes no sense any more.
    pub fn next(&mut self, timeout: Option<Duration>) -> Result<Option<Observed>> {
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            match self.look(self.cursor) {
                Cell::Present(entry) => {
                    if let Some(observed) = self.observe(entry)? {
                        return Ok(Some(observed));
                    }
                }
                Cell::Free(_) => {
                    if self.lost > 0 {
                        return Ok(Some(self.take_lost()));
                    }
                    let left = end.map_or(LOOK_AGAIN, |end| end.saturating_duration_since(Instant::now()));
                    if left.is_zero() {
                        return Ok(None);
                    }
                    let link = self.link.socket().as_fd();
                    if causeway_os::process::poll(&[link], Some(left.min(LOOK_AGAIN)))?[0] {
                        return Err(self.link.end());
                    }
                }
                Cell::Foreign(_) => self.skip_lost()?,
            }
        }
    }

    fn take_lost(&mut self) -> Observed {
        Observed::Lost { messages: std::mem::take(&mut self.lost) }
    }

    /// Goes on at the hint after the log was overwritten.
    fn skip_lost(&mut self) -> Result<()> {
        if let Some(broken) = self.order.broken() {
            return Err(broken_by(&self.directory, broken));
        }
        let hint = self.order.load_hint();
        if hint <= self.cursor {
            // Overwritten a moment ago, and the hint not stored yet.
            std::thread::yield_now();
            return Ok(());
        }
        self.lost += hint - self.cursor;
        self.cursor = hint;
        self.owners.catch_up(&self.directory);
        Ok(())
    }

    /// Reads what an entry refers to. `None` if the filter does not want it, or if it is lost.
    fn observe(&mut self, entry: Entry) -> Result<Option<Observed>> {
        let slot = entry.sender;
        if usize::from(slot) >= self.order.slots() {
            return Err(broken_by(&self.directory, Broken { slot: None, position: self.cursor }));
        }
        let found = self.read(entry)?;
        if self.lost > 0 && found.is_some() {
            // The loss first; the message next time.
            return Ok(Some(self.take_lost()));
        }
        let position = self.cursor;
        self.cursor += 1;
        let message =
            found.filter(|(header, _)| self.is_plausible(entry, header)).and_then(|(header, bytes)| {
                let (bytes, descriptors) = (bytes.into(), FileDescriptors::default());
                Message::of(Received { position, slot, header, bytes, descriptors })
            });
        let Some(message) = message else {
            self.lost += 1;
            // It may have said who has a name.
            if slot == AUTHORITY {
                self.owners.catch_up(&self.directory);
            }
            return Ok(None);
        };
        if slot == AUTHORITY {
            self.owners.follow(&message);
        }
        let is_wanted = self.rules.is_empty() || {
            let (header, args) = (message.header(), message.rule_args());
            self.rules.iter().any(|rule| rule.matches(&header, &args, &self.owners))
        };
        Ok(is_wanted.then_some(Observed::Message(message)))
    }

    /// Would the member for which this message is accept its header? One that claims to be another's is not shown: it
    /// is among the lost ones. Only monitors read what stands in the log for its own sender.
    fn is_plausible(&self, entry: Entry, header: &BusHeader) -> bool {
        let Entry { sender: slot, destination, .. } = entry;
        let is_sender = slot == AUTHORITY || self.directory.id(slot) == header.sender;
        // What is for clients goes through the authority.
        let is_receiver = match (destination, header.destination) {
            (BROADCAST, to) => to == 0,
            (_, 0) => false,
            (AUTHORITY, _) => true,
            (to, id) => usize::from(to) < self.order.slots() && self.directory.id(to) >= id,
        };
        is_sender && is_receiver && header.is_possible()
    }

    fn read(&mut self, entry: Entry) -> Result<Option<(BusHeader, Vec<u8>)>> {
        let slot = entry.sender;
        let (id, _) = self.directory.id_and_state(slot);
        let known = &mut self.outboxes[usize::from(slot)];
        if known.as_ref().is_none_or(|(has, _)| *has != id) {
            let opened = self.link.outbox(slot, id)?.map(|fd| ForeignOutbox::open(&fd)).transpose()?;
            *known = opened.map(|outbox| (id, outbox));
        }
        let Some((_, outbox)) = known else { return Ok(None) };
        let (mut header, mut bytes) = (BusHeader::default(), Vec::new());
        let found = outbox.read(entry.place, &mut header, &mut bytes);
        Ok((found == Found::Message).then_some((header, bytes)))
    }

    /// Who is on the bus, and what each member has done.
    pub fn members(&self) -> Vec<(Peer, Vec<String>, Statistics)> {
        let (end, directory) = (self.messages(), &self.directory);
        let owned = |name: String| Some((directory.owner(&name)?.id, name));
        let names: Vec<(u64, String)> = directory.all_names().into_iter().filter_map(owned).collect();
        let peers = (0..directory.peers() as u16).filter_map(|index| Some((index, directory.peer(index)?)));
        let active = peers.filter(|(_, peer)| peer.state == State::Active);
        let described = active.map(|(index, peer)| {
            let own = names.iter().filter(|(id, _)| *id == peer.id).map(|(_, name)| name.clone());
            let own = own.chain((index == 0).then(|| name_of(peer.id))).collect();
            let is_member = usize::from(index) < self.order.slots();
            let statistics = is_member.then(|| Statistics::of(&self.order, index, end));
            (peer, own, statistics.unwrap_or_default())
        });
        described.collect()
    }

    /// Entries that the order log holds.
    pub fn order_entries(&self) -> u64 {
        self.order.capacity()
    }
}

/// Who has the names in the rules, as the log says up to here: what is read now may have been sent when another had
/// them.
#[derive(Debug, Default)]
struct OwnersByLog(BTreeMap<String, Option<u64>>);

impl OwnersByLog {
    /// Goes on with what the directory says, which may be ahead of the log.
    fn catch_up(&mut self, directory: &Directory) {
        for (name, owner) in &mut self.0 {
            *owner = directory.owner(name).map(|owner| owner.id);
        }
    }

    /// Another may have one of the names now.
    fn follow(&mut self, message: &Message) {
        let header = message.header();
        if (header.sender, header.member) == (Some(DRIVER), Some("NameOwnerChanged"))
            && let [Arg::Text(name), Arg::Text(_), Arg::Text(new)] = message.rule_args()[..]
            && let Some(owner) = self.0.get_mut(name)
        {
            *owner = unique_number(new);
        }
    }
}

impl Owners for OwnersByLog {
    fn owns(&self, connection: &str, name: &str) -> bool {
        self.0.get(name).is_some_and(|owner| owner.is_some_and(|id| unique_name(id) == connection))
    }
}
