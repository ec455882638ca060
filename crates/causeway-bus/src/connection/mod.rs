//! A member of a bus: calls, replies, signals, names, matches.

mod calls;
mod link;
mod message;
mod sleep;
mod watcher;

pub use message::{Call, Incoming, Message, Reply};

pub(crate) use link::Link;

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use causeway_os::memory::Access;
use causeway_os::sched;
use weighbridge_dbus::rule::{MatchRule, Owners};
use weighbridge_dbus::wire::{Arg, Body, Builder, Header, Kind, names};

use crate::authority::{DRIVER, DRIVER_PATH, NameReply, ReleaseReply, unique_name};
use crate::error::{Error, Result, name};
use crate::port::{AUTHORITY, AUTHORITY_ID, NotSent, Port, Received, To};
use crate::shared::directory::Directory;
use crate::shared::filter::unique_number;
use crate::shared::order::{OrderLog, Statistic};
use crate::shared::outbox::Outbox;
use watcher::Watched;

/// The environment variable that names the native socket of the session's bus.
pub const ADDRESS_VARIABLE: &str = "CAUSEWAY_BUS";

/// Settings of a connection.
#[derive(Clone, Debug)]
pub struct ConnectionOptions {
    /// Bytes of the outbox, a power of two. The longest message is a quarter.
    pub outbox_bytes: u64,
    /// How long a call waits for its reply.
    pub call_timeout: Duration,
    /// A member that stands in the way of a message for so long is put out.
    pub laggard_deadline: Duration,
    /// How long to poll before sleeping, at most. Nothing on a machine or a process with one CPU.
    pub spin: Duration,
    /// Bytes of messages that may wait in this process until the program takes them; beyond, the connection fails.
    pub inbox_bytes: usize,
    /// May the bus start a service for a call to a name without owner? Otherwise such a call fails without a system call.
    pub auto_start: bool,
}

impl Default for ConnectionOptions {
    fn default() -> ConnectionOptions {
        ConnectionOptions {
            outbox_bytes: 1 << 18,
            call_timeout: Duration::from_secs(25),
            laggard_deadline: Duration::from_millis(250),
            spin: Duration::from_micros(30),
            inbox_bytes: 64 << 20,
            auto_start: true,
        }
    }
}

/// What a connection has done and what it waits for; see [`Connection::statistics`] and `causeway bus stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Entries of the order log that it has not looked at.
    pub lag: u64,
    /// Messages received, those among them that were not wanted after all included.
    pub received: u64,
    /// Messages sent.
    pub sent: u64,
    /// Bytes of them.
    pub sent_bytes: u64,
    /// Sleeps that a wake-up ended.
    pub wakes: u64,
    /// Of these, those after which there was nothing for it.
    pub empty_wakes: u64,
    /// Of these, those that freed space for others.
    pub space_wakes: u64,
    /// Calls without a reply yet.
    pub calls_open: u64,
    /// Signals whose space was used again before it looked, because its filter did not ask for them, and messages out of reach since
    /// the authority is gone.
    pub gone: u64,
}

impl Statistics {
    pub(crate) fn of(order: &OrderLog, slot: u16, end: u64) -> Statistics {
        let count = |which| order.statistic(slot, which);
        let cursor = order.load_in_line(slot, crate::shared::order::line::CURSOR).load(Ordering::Relaxed);
        Statistics {
            lag: end.saturating_sub(cursor),
            received: count(Statistic::Received),
            sent: count(Statistic::Sent),
            sent_bytes: count(Statistic::SentBytes),
            wakes: count(Statistic::Wakes),
            empty_wakes: count(Statistic::EmptyWakes),
            space_wakes: count(Statistic::SpaceWakes),
            calls_open: count(Statistic::CallsOpen),
            gone: count(Statistic::Gone),
        }
    }
}

/// A rule of this connection, and who owns the name of its sender, as the log says up to here.
#[derive(Debug)]
struct Rule {
    rule: MatchRule,
    owner: Option<u64>,
}

impl Owners for Rule {
    fn owns(&self, connection: &str, name: &str) -> bool {
        self.rule.sender.as_deref() == Some(name)
            && self.owner.is_some_and(|id| connection == unique_name(id))
    }
}

/// A call without a reply.
#[derive(Clone, Debug)]
struct Pending {
    callee: u64,
    /// The name whose next owner gets the call from the bus.
    awaited: Option<String>,
}

/// A member of a bus.
///
/// ```no_run
/// use causeway_bus::{Connection, Incoming, wire::Body};
///
/// let mut bus = Connection::session()?;
/// let reply = bus.call("com.example.Clock", "/clock", "com.example.Clock", "Now", Body::default())?;
/// println!("{:?}", reply.args());
/// # Ok::<(), causeway_bus::Error>(())
/// ```
#[derive(Debug)]
pub struct Connection {
    port: Port,
    link: Link,
    watched: Arc<Watched>,
    options: ConnectionOptions,
    name: String,
    serial: u32,
    rules: Vec<Rule>,
    inbox: VecDeque<Incoming>,
    inbox_bytes: usize,
    pending: HashMap<u32, Pending>,
    replies: HashMap<u32, Result<Reply>>,
    known: HashMap<u64, u16>,
    doorbell: Option<OwnedFd>,
    is_armed: bool,
    /// A sleep was ended because the authority is gone; no other will be.
    has_noticed_end: bool,
    /// The program was told.
    has_told_end: bool,
    /// Counts what the program gets: messages, replies, ends of calls.
    delivered: u64,
    spin: Duration,
    sleeps: u32,
}

impl Connection {
    /// Joins the bus whose native socket the environment variable `CAUSEWAY_BUS` names.
    ///
    /// # Errors
    /// It is not set; otherwise as [`Connection::open`].
    pub fn session() -> Result<Connection> {
        let path = session_path()?;
        Connection::open(path)
    }

    /// Joins the bus that is served at a path.
    ///
    /// # Errors
    /// Nobody serves there, the bus refuses, or the kernel lacks memory or descriptors.
    pub fn open(path: impl AsRef<Path>) -> Result<Connection> {
        Connection::open_with(path, ConnectionOptions::default())
    }

    /// As [`Connection::open`], with settings.
    ///
    /// # Errors
    /// As [`Connection::open`]; an option that is not possible.
    pub fn open_with(path: impl AsRef<Path>, options: ConnectionOptions) -> Result<Connection> {
        let (outbox_fd, mut outbox) = Outbox::create(options.outbox_bytes)?;
        let (link, [slot, id, cursor, place], fds) = Link::join(path.as_ref(), Some(outbox_fd.as_fd()))?;
        let Ok([order, directory, authority]) = <[OwnedFd; 3]>::try_from(fds) else {
            return Err(Error::Refused("the welcome of the bus lacks descriptors".into()));
        };
        let order = Arc::new(OrderLog::open(&order, Access::ReadWrite)?);
        let directory = Arc::new(Directory::open(&directory)?);
        let slot = u16::try_from(slot).ok().filter(|slot| usize::from(*slot) < order.slots());
        let slot = slot.ok_or_else(|| Error::Refused("the welcome of the bus names no slot".into()))?;
        outbox.begin_at(place as u32);
        let watched = watcher::watch(link.socket(), Arc::clone(&order), slot)?;
        let mut port = Port::new(order, directory, outbox, slot, id, cursor);
        port.set_own_outbox(&outbox_fd)?;
        port.set_doorbell(AUTHORITY, authority);
        let can_spin = sched::allowed_cpus().is_ok_and(|cpus| cpus.len() > 1);
        let spin = if can_spin { options.spin } else { Duration::ZERO };
        Ok(Connection {
            port,
            link,
            watched,
            options: ConnectionOptions { spin, ..options },
            name: unique_name(id),
            serial: 0,
            rules: Vec::new(),
            inbox: VecDeque::new(),
            inbox_bytes: 0,
            pending: HashMap::new(),
            replies: HashMap::new(),
            known: HashMap::new(),
            doorbell: None,
            is_armed: false,
            has_noticed_end: false,
            has_told_end: false,
            delivered: 0,
            spin,
            sleeps: 0,
        })
    }

    /// The unique name of this connection.
    #[must_use]
    pub fn unique_name(&self) -> &str {
        &self.name
    }

    /// Emits a signal to all who want it.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what is no path, interface or member; the bus or this connection has ended.
    pub fn emit(&mut self, path: &str, interface: &str, member: &str, body: Body) -> Result<()> {
        check(path, names::is_path, "object path")?;
        check(interface, names::is_interface, "interface")?;
        check(member, names::is_member, "member")?;
        let serial = self.next_serial();
        let signal = Builder::signal(path, interface, member).sender(&self.name).body(body);
        let bytes = build(signal, serial)?;
        self.send(To::All, &bytes)
    }

    /// Asks for a name, with the flags of D-Bus (1 allow replacement, 2 replace the owner, 4 do not wait).
    ///
    /// # Errors
    /// As [`Connection::call`].
    pub fn request_name(&mut self, name: &str, flags: u32) -> Result<NameReply> {
        let reply = self.call_driver("RequestName", Body::default().text(name).u32(flags))?;
        Ok(match reply.args().first() {
            Some(Arg::U32(1)) => NameReply::PrimaryOwner,
            Some(Arg::U32(2)) => NameReply::InQueue,
            Some(Arg::U32(4)) => NameReply::AlreadyOwner,
            _ => NameReply::Exists,
        })
    }

    /// Gives a name up.
    ///
    /// # Errors
    /// As [`Connection::call`].
    pub fn release_name(&mut self, name: &str) -> Result<ReleaseReply> {
        let reply = self.call_driver("ReleaseName", Body::default().text(name))?;
        Ok(match reply.args().first() {
            Some(Arg::U32(1)) => ReleaseReply::Released,
            Some(Arg::U32(2)) => ReleaseReply::NonExistent,
            _ => ReleaseReply::NotOwner,
        })
    }

    /// From the return of this call on, signals that the rule matches are received ([`Connection::next`]).
    ///
    /// # Errors
    /// As [`Connection::call`], with `MatchRuleInvalid`.
    pub fn add_match(&mut self, rule: &str) -> Result<()> {
        let parsed: MatchRule = rule.parse().map_err(|error| {
            Error::method(name::MATCH_RULE_INVALID, format!("{rule:?} is no match rule: {error}"))
        })?;
        // First the rule, then its registration: a signal between both is received.
        let wanted = parsed.sender.as_deref();
        let owner = wanted.and_then(|wanted| {
            unique_number(wanted).or_else(|| self.port.directory().owner(wanted).map(|owner| owner.id))
        });
        let owner = if wanted == Some(DRIVER) { Some(AUTHORITY_ID) } else { owner };
        self.rules.push(Rule { rule: parsed, owner });
        self.port.wants_signals = true;
        let added = self.call_driver("AddMatch", Body::default().text(rule));
        if added.is_err() {
            self.rules.pop();
            self.port.wants_signals = !self.rules.is_empty();
        }
        added.map(drop)
    }

    /// Removes a rule that was added.
    ///
    /// # Errors
    /// As [`Connection::call`], with `MatchRuleNotFound`.
    pub fn remove_match(&mut self, rule: &str) -> Result<()> {
        self.call_driver("RemoveMatch", Body::default().text(rule))?;
        let parsed: Option<MatchRule> = rule.parse().ok();
        if let Some(at) = self.rules.iter().position(|known| Some(&known.rule) == parsed.as_ref()) {
            self.rules.remove(at);
        }
        self.port.wants_signals = !self.rules.is_empty();
        Ok(())
    }

    fn call_driver(&mut self, member: &str, body: Body) -> Result<Reply> {
        self.call(DRIVER, DRIVER_PATH, DRIVER, member, body)
    }

    /// All names of the bus, from the directory: no message is sent.
    #[must_use]
    pub fn list_names(&self) -> Vec<String> {
        let directory = self.port.directory();
        let unique = (1..directory.peers() as u16).filter_map(|peer| directory.peer(peer));
        let unique = unique.filter(|peer| peer.state == crate::shared::directory::State::Active);
        let mut all = vec![DRIVER.to_owned()];
        all.extend(unique.map(|peer| unique_name(peer.id)));
        all.extend(directory.all_names());
        all
    }

    /// The unique name of the owner of a name, from the directory.
    #[must_use]
    pub fn name_owner(&self, name: &str) -> Option<String> {
        self.port.directory().owner(name).map(|owner| unique_name(owner.id))
    }

    /// What comes next, at most after `timeout` (`None`: however long it takes); `Ok(None)` when the time is over.
    ///
    /// # Errors
    /// The bus or this connection has ended.
    pub fn next(&mut self, timeout: Option<Duration>) -> Result<Option<Incoming>> {
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            if let Some(incoming) = self.next_now()? {
                return Ok(Some(incoming));
            }
            if !self.sleep_until(end)? {
                return Ok(None);
            }
        }
    }

    /// What is there already. For event loops: see [`Connection::as_fd`](AsFd::as_fd).
    ///
    /// # Errors
    /// As [`Connection::next`].
    pub fn next_now(&mut self) -> Result<Option<Incoming>> {
        self.disarm();
        if self.inbox.is_empty() {
            self.take_all()?;
        }
        if self.inbox.is_empty() && self.has_ended() && !self.has_told_end {
            self.has_told_end = true;
            return match self.link.end() {
                Error::AuthorityGone => Ok(Some(Incoming::AuthorityGone)),
                why => Err(why),
            };
        }
        let incoming = self.inbox.pop_front();
        if let Some(Incoming::Call(Call(message)) | Incoming::Signal(message)) = &incoming {
            self.inbox_bytes -= message.bytes().len();
        }
        Ok(incoming)
    }

    /// Answers calls, with what `handle` returns for each, until `stop` is set, which is looked at after each message. Signals
    /// are discarded. `org.freedesktop.DBus.Peer.Ping` is answered here.
    ///
    /// # Errors
    /// The bus or this connection has ended. An error of `handle` is the caller's reply.
    pub fn serve(
        &mut self,
        stop: &AtomicBool,
        mut handle: impl FnMut(&Call) -> std::result::Result<Body, (String, String)>,
    ) -> Result<()> {
        while !stop.load(Ordering::Relaxed) {
            match self.next(None)? {
                Some(Incoming::Call(call)) => {
                    let header = call.header();
                    if (header.interface, header.member) == (Some("org.freedesktop.DBus.Peer"), Some("Ping"))
                    {
                        self.reply(&call, Body::default())?;
                        continue;
                    }
                    match handle(&call) {
                        Ok(body) => self.reply(&call, body)?,
                        Err((name, text)) => self.reply_error(&call, &name, &text)?,
                    }
                }
                Some(Incoming::AuthorityGone) => return Err(Error::AuthorityGone),
                Some(Incoming::Signal(_)) | None => {}
            }
        }
        Ok(())
    }

    /// What this connection has done.
    #[must_use]
    pub fn statistics(&mut self) -> Statistics {
        let end = self.port.find_end();
        self.port.publish_cursor();
        Statistics::of(self.port.order(), self.port.slot(), end)
    }

    /// The order log itself, for tests that damage it.
    #[doc(hidden)]
    #[must_use]
    pub fn order_log(&self) -> &Arc<OrderLog> {
        self.port.order()
    }

    fn next_serial(&mut self) -> u32 {
        self.serial = self.serial.wrapping_add(1).max(1);
        self.serial
    }

    /// Sends, and waits for space if there is none. Meanwhile it goes on reading, so that two members that send to each other both
    /// get on; a member that does not is put out.
    fn send(&mut self, to: To, bytes: &[u8]) -> Result<()> {
        let header = Header::parse(bytes).map_err(|fault| Error::Invalid(format!("no message: {fault}")))?;
        let id = self.port.id();
        let mut blocked: Option<(u16, u64, Instant)> = None;
        loop {
            let slot = match self.port.send(&mut self.link, to, id, &header, bytes) {
                Ok(_) => return Ok(()),
                Err(NotSent::Failed(error)) => return Err(error),
                Err(NotSent::Full(slot)) => slot,
            };
            self.take_all()?;
            if slot == self.port.slot() {
                continue;
            }
            self.port.ring(&mut self.link, slot);
            let cursor = self.port.order().cursor(slot).load(Ordering::Acquire);
            match blocked {
                Some((who, at, since)) if (who, at) == (slot, cursor) => {
                    if since.elapsed() >= self.options.laggard_deadline {
                        self.port.evict(&mut self.link, slot);
                        blocked = None;
                        continue;
                    }
                }
                _ => blocked = Some((slot, cursor, Instant::now())),
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// Takes all that is there; returns how much.
    fn take_all(&mut self) -> Result<usize> {
        let mut count = 0;
        while let Some(received) = self.port.next(&mut self.link)? {
            self.handle(received);
            count += 1;
            if self.inbox_bytes > self.options.inbox_bytes {
                let bytes = self.options.inbox_bytes;
                let slot = self.port.slot();
                self.port.evict(&mut self.link, slot);
                return Err(Error::Disconnected(format!(
                    "more than {bytes} bytes of messages were not taken"
                )));
            }
        }
        Ok(count)
    }

    fn handle(&mut self, received: Received) {
        let to_us = received.header.destination == self.port.id();
        if received.header.destination != 0 && !to_us {
            // For a member that had this slot before.
            return;
        }
        let Some(message) = Message::checked(received) else { return };
        const CALL: u8 = Kind::MethodCall.number();
        const RETURN: u8 = Kind::MethodReturn.number();
        const ERROR: u8 = Kind::Error.number();
        const SIGNAL: u8 = Kind::Signal.number();
        match message.bus_header().kind {
            RETURN | ERROR if to_us => self.handle_reply(message),
            CALL if to_us => self.put(Incoming::Call(Call(message))),
            SIGNAL => {
                let is_of_bus = message.sender_id() == AUTHORITY_ID;
                if is_of_bus && message.header().member == Some("NameOwnerChanged") {
                    self.follow_owner(&message);
                }
                if to_us || self.wants(&message) {
                    self.put(Incoming::Signal(message));
                }
            }
            _ => {}
        }
    }

    fn put(&mut self, incoming: Incoming) {
        if let Incoming::Call(Call(message)) | Incoming::Signal(message) = &incoming {
            self.inbox_bytes += message.bytes().len();
        }
        self.delivered += 1;
        self.inbox.push_back(incoming);
    }

    fn wants(&self, message: &Message) -> bool {
        let args = message.args();
        let header = message.header();
        self.rules
            .iter()
            .any(|rule| rule.rule.matches(&header, &args, rule) || rule.is_of_driver(&header, &args))
    }

    /// A name has another owner: rules for it follow, and calls of a connection that is gone end.
    fn follow_owner(&mut self, message: &Message) {
        let args = message.args();
        let [Arg::Text(name), _, Arg::Text(new)] = args[..] else { return };
        for rule in &mut self.rules {
            if rule.rule.sender.as_deref() == Some(name) {
                rule.owner = unique_number(new);
            }
        }
        if let Some(owner) = unique_number(new) {
            // The bus passes calls that wait for the name on to this owner, behind this message.
            let awaits = |pending: &&mut Pending| pending.awaited.as_deref() == Some(name);
            let mut waiting = self.pending.values_mut().filter(awaits).peekable();
            if waiting.peek().is_some() {
                waiting.for_each(|pending| *pending = Pending { callee: owner, awaited: None });
                self.show_pending();
            }
        }
        if let (Some(id), true) = (unique_number(name), new.is_empty()) {
            self.known.remove(&id);
            self.port.forget_member(id);
            self.end_calls(|pending| pending.callee == id, "the callee left without a reply");
        }
    }
}

impl Rule {
    /// The bus itself owns its name, whatever the directory says.
    fn is_of_driver(&self, header: &Header<'_>, args: &[Arg<'_>]) -> bool {
        self.rule.sender.as_deref() == Some(DRIVER) && self.rule.matches(header, args, &())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        watcher::forget(self.link.socket());
    }
}

impl AsFd for Connection {
    /// Readable when something has come after [`Connection::prepare_to_wait`].
    ///
    /// # Panics
    /// [`Connection::use_descriptor`] was not called before.
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.doorbell {
            Some(doorbell) => doorbell.as_fd(),
            None => panic!("use_descriptor() makes the descriptor"),
        }
    }
}

fn order_quarter(order: &OrderLog) -> u64 {
    use crate::shared::ring::Cells;
    order.capacity() / 4
}

/// The path that [`ADDRESS_VARIABLE`] names.
pub(crate) fn session_path() -> Result<PathBuf> {
    std::env::var_os(ADDRESS_VARIABLE).map(PathBuf::from).ok_or_else(|| {
        Error::Invalid(format!(
            "{ADDRESS_VARIABLE} is not set: it names the native socket of the session's bus"
        ))
    })
}

fn build(message: Builder<'_>, serial: u32) -> Result<Vec<u8>> {
    message.build(serial).map_err(|too_long| Error::Invalid(too_long.to_string()))
}

fn check(text: &str, is_valid: fn(&str) -> bool, what: &str) -> Result<()> {
    if is_valid(text) { Ok(()) } else { Err(Error::Invalid(format!("{text:?} is no {what}"))) }
}
