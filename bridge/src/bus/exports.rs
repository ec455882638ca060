//! The names of this host for others: a token says that a name is here, a queryable takes its calls, its signals are put.
//!
//! A call goes to the owner of the name once: its number is remembered, and every call has an end, with the reply or with an error.

use std::collections::{HashMap, HashSet, VecDeque};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use causeway_bus::wire::{Builder, FLAG_NO_REPLY_EXPECTED, Kind};
use causeway_bus::{Connection, DO_NOT_QUEUE, Error, Incoming, Message, NameReply};
use causeway_os::process::poll;
use zenoh::Wait;
use zenoh::liveliness::LivelinessToken;
use zenoh::qos::CongestionControl;
use zenoh::query::{Query, Queryable};
use zenoh::sample::Locality;

use super::{Carried, NO_DESCRIPTORS, arguments, encoding_of, encoding_of_error, error};
use crate::bell::{self, Teller};
use crate::failure::{Failure, Result};
use crate::net::Net;
use crate::status::{Direction, Route, Status, count};
use crate::wire::{SignalStamp, check_of};

/// The name that a bridge has on its bus: there is one for each.
pub const BRIDGE_NAME: &str = "causeway.Bridge";
const DRIVER: &str = "org.freedesktop.DBus";
const OWNERS: &str =
    "type='signal',sender='org.freedesktop.DBus',interface='org.freedesktop.DBus',member='NameOwnerChanged'";
/// How often a bus that is not there is looked for, and whether the program ends.
const RETRY: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_millis(100);
/// Calls whose numbers are remembered.
const CALLS_REMEMBERED: usize = 8192;

/// A name that is offered.
struct Offered {
    owner: String,
    calls: Arc<Route>,
    signals: Arc<Route>,
    sent: u64,
    _queryable: Queryable<()>,
    _token: LivelinessToken,
}

struct Pending {
    query: Query,
    name: String,
    deadline: Instant,
}

struct Exports<'a> {
    net: &'a Net,
    carried: &'a Carried,
    status: &'a Status,
    bus: Connection,
    teller: Teller<(String, Query)>,
    offered: HashMap<String, Offered>,
    pending: HashMap<u32, Pending>,
    seen: HashSet<String>,
    seen_order: VecDeque<String>,
}

/// Offers names until `stop` is set. Where the bus ends, it waits for the next one.
pub fn run(net: &Net, carried: &Carried, status: &Status, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        if let Err(failure) = carry(net, carried, status, stop) {
            status.fail(&format!("{}: {failure}", carried.path.display()));
        }
        std::thread::sleep(RETRY);
    }
}

fn carry(net: &Net, carried: &Carried, status: &Status, stop: &AtomicBool) -> Result<()> {
    let mut bus = Connection::open(&carried.path)?;
    bus.use_descriptor()?;
    if bus.request_name(BRIDGE_NAME, DO_NOT_QUEUE)? != NameReply::PrimaryOwner {
        return Err(Failure::of(
            "another bridge carries this bus already, and one does for each bus; end that one first",
        ));
    }
    bus.add_match(OWNERS)?;
    let (teller, queries) = bell::channel()?;
    let mut exports = Exports {
        net,
        carried,
        status,
        bus,
        teller,
        offered: HashMap::new(),
        pending: HashMap::new(),
        seen: HashSet::new(),
        seen_order: VecDeque::new(),
    };
    for name in exports.bus.list_names() {
        exports.follow(&name)?;
    }
    while !stop.load(Ordering::Relaxed) {
        queries.take().for_each(|(name, query)| exports.begin(&name, query));
        while let Some(incoming) = exports.bus.next_now()? {
            exports.take(incoming)?;
        }
        exports.end_overdue();
        if exports.bus.prepare_to_wait() {
            poll(&[exports.bus.as_fd(), queries.as_fd()], Some(LOOK))?;
        }
    }
    Ok(())
}

impl Exports<'_> {
    /// Offers a name if it is to be offered and has an owner, and else no more.
    fn follow(&mut self, name: &str) -> Result<()> {
        if name.starts_with(':')
            || name == DRIVER
            || name == BRIDGE_NAME
            || !self.carried.exports.contain(name)
        {
            return Ok(());
        }
        let owner = self.bus.name_owner(name).filter(|owner| !self.carried.is_own(owner));
        let Some(owner) = owner else {
            if self.offered.remove(name).is_some() {
                self.bus.remove_match(&rule(name))?;
            }
            return Ok(());
        };
        if let Some(offered) = self.offered.get_mut(name) {
            offered.owner = owner;
            return Ok(());
        }
        self.bus.add_match(&rule(name))?;
        let keys = self.net.realm.bus_name(name);
        let (teller, called) = (self.teller.clone(), name.to_owned());
        let queryable = self.net.session.declare_queryable(keys.call()).allowed_origin(Locality::Remote);
        let queryable = queryable.callback(move |query| teller.tell((called.clone(), query))).wait()?;
        let token = self.net.session.liveliness().declare_token(keys.at(&self.net.host)).wait()?;
        let offered = Offered {
            owner,
            calls: self.status.route("calls", name, Direction::Out, ""),
            signals: self.status.route("signals", name, Direction::Out, ""),
            sent: 0,
            _queryable: queryable,
            _token: token,
        };
        self.offered.insert(name.to_owned(), offered);
        Ok(())
    }

    fn take(&mut self, incoming: Incoming) -> Result<()> {
        match incoming {
            Incoming::Signal(message) => {
                let header = message.header();
                if header.sender == Some(DRIVER) && header.member == Some("NameOwnerChanged") {
                    let name = message.text().unwrap_or_default().to_owned();
                    return self.follow(&name);
                }
                self.signal(&message);
            }
            Incoming::Reply(message) => self.end(&message),
            Incoming::Call(call) => {
                let text = "a bridge has no objects of its own";
                self.bus.reply_error(&call, causeway_bus::name::UNKNOWN_METHOD, text)?;
            }
            Incoming::AuthorityGone => return Err(Error::AuthorityGone.into()),
            _ => {}
        }
        Ok(())
    }

    /// A signal of an owner of offered names.
    fn signal(&mut self, message: &Message) {
        let header = message.header();
        let (Some(path), Some(interface), Some(member)) = (header.path, header.interface, header.member)
        else {
            return;
        };
        for (name, offered) in
            self.offered.iter_mut().filter(|(_, offered)| header.sender == Some(&offered.owner))
        {
            let number = offered.sent;
            offered.sent += 1;
            if header.unix_fds > 0 {
                count(&offered.signals.counters.lost, 1);
                offered.signals.fail(NO_DESCRIPTORS);
                continue;
            }
            let stamp = SignalStamp {
                host: self.net.id,
                incarnation: self.net.incarnation,
                number,
                path: path.to_owned(),
            };
            let attachment = stamp.to_bytes(message.body());
            let put =
                self.net.session.put(self.net.realm.bus_name(name).signal(interface, member), message.body());
            let put = put.encoding(encoding_of(&header)).attachment(attachment);
            let put = put.congestion_control(CongestionControl::Block).allowed_destination(Locality::Remote);
            match put.wait() {
                Ok(()) => count(&offered.signals.counters.sent, 1),
                Err(why) => offered.signals.fail(&why.to_string()),
            }
        }
    }

    /// A call of another host.
    fn begin(&mut self, name: &str, query: Query) {
        let parameters = query.parameters();
        if parameters.get("host").is_some_and(|host| host != self.net.host) {
            return;
        }
        let Some(offered) = self.offered.get(name) else {
            return refuse(
                &query,
                error::SERVICE_UNKNOWN,
                &format!("no connection of host {} has the name {name} any more", self.net.host),
            );
        };
        let route = Arc::clone(&offered.calls);
        let id = parameters.get("id").map(str::to_owned);
        if let Some(id) = id {
            if !self.seen.insert(id.clone()) {
                count(&route.counters.duplicates, 1);
                return refuse(&query, error::FAILED, "this call has come before, and is made once");
            }
            self.seen_order.push_back(id);
            if self.seen_order.len() > CALLS_REMEMBERED
                && let Some(oldest) = self.seen_order.pop_front()
            {
                self.seen.remove(&oldest);
            }
        }
        let refused = |kind: &str, why: &str| {
            count(&route.counters.refused, 1);
            route.fail(why);
            refuse(&query, kind, why);
        };
        let body = match arguments(query.encoding(), query.payload(), query.attachment()) {
            Ok(body) => body,
            Err(why) if why == NO_DESCRIPTORS => return refused(error::NOT_SUPPORTED, &why),
            Err(why) => return refused(error::INVALID_ARGS, &format!("the arguments make no sense: {why}")),
        };
        let (path, member) = (parameters.get("path").unwrap_or("/"), parameters.get("member").unwrap_or(""));
        let wants_reply = parameters.get("no_reply").is_none();
        let mut call = Builder::call(path, member).destination(name).body(body);
        if let Some(interface) = parameters.get("interface") {
            call = call.interface(interface);
        }
        if !wants_reply {
            call = call.flags(FLAG_NO_REPLY_EXPECTED);
        }
        let sent = self.bus.send_message(&call);
        match sent {
            Ok(serial) => {
                count(&route.counters.sent, 1);
                let ms = parameters.get("timeout_ms").and_then(|text| text.parse().ok());
                let timeout = ms
                    .map_or(self.carried.call_timeout, Duration::from_millis)
                    .min(self.carried.call_timeout);
                if wants_reply {
                    let (name, deadline) = (name.to_owned(), Instant::now() + timeout);
                    self.pending.insert(serial, Pending { query: query.clone(), name, deadline });
                    self.note_queue(&route);
                }
            }
            Err(Error::Method { name, message }) => refused(&name, &message),
            Err(why) => refused(error::INVALID_ARGS, &why.to_string()),
        }
    }

    fn note_queue(&self, route: &Route) {
        route.counters.queue.store(self.pending.len() as u64, Ordering::Relaxed);
    }

    /// A call of another host has its reply.
    fn end(&mut self, message: &Message) {
        let header = message.header();
        let Some(Pending { query, name, .. }) =
            header.reply_serial.and_then(|serial| self.pending.remove(&serial))
        else {
            return;
        };
        let route = self.offered.get(&name).map(|offered| Arc::clone(&offered.calls));
        match header.kind {
            Kind::Error => {
                refuse(&query, header.error_name.unwrap_or(error::FAILED), message.text().unwrap_or(""))
            }
            _ if header.unix_fds > 0 => refuse(&query, error::NOT_SUPPORTED, NO_DESCRIPTORS),
            _ => {
                let reply = query.reply(self.net.realm.bus_name(&name).call(), message.body());
                let _ = reply.encoding(encoding_of(&header)).attachment(check_of(message.body())).wait();
            }
        }
        if let Some(route) = route {
            count(&route.counters.acknowledged, 1);
            self.note_queue(&route);
        }
    }

    fn end_overdue(&mut self) {
        let now = Instant::now();
        let overdue: Vec<u32> = self
            .pending
            .iter()
            .filter(|(_, pending)| pending.deadline <= now)
            .map(|(serial, _)| *serial)
            .collect();
        for serial in overdue {
            self.bus.forget_call(serial);
            if let Some(pending) = self.pending.remove(&serial) {
                refuse(&pending.query, error::NO_REPLY, &format!("{} has not replied in time", pending.name));
            }
        }
    }
}

impl Drop for Exports<'_> {
    /// No call is left without an end.
    fn drop(&mut self) {
        for pending in self.pending.values() {
            refuse(
                &pending.query,
                error::NO_REPLY,
                "the bridge of the service has ended; the call may have been made",
            );
        }
    }
}

fn rule(name: &str) -> String {
    format!("type='signal',sender='{name}'")
}

fn refuse(query: &Query, name: &str, why: &str) {
    let _ = query.reply_err(why).encoding(encoding_of_error(name)).wait();
}
