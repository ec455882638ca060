//! Names of other hosts on this bus: a connection for each, which owns the name as long as a host has it, passes calls on and emits
//! the signals.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use causeway_bus::wire::{Body, Builder, FLAG_NO_REPLY_EXPECTED};
use causeway_bus::{Call, Connection, DO_NOT_QUEUE, Error, Incoming, NameReply};
use causeway_os::lock::lock;
use causeway_os::process::poll;
use zenoh::Wait;
use zenoh::query::{ConsolidationMode, QueryTarget, Reply};
use zenoh::sample::{Locality, Sample, SampleKind};

use super::{Carried, NO_DESCRIPTORS, arguments, encoding_of, error, error_name};
use crate::bell::{self, Listener, Teller};
use crate::failure::Result;
use crate::keys::{self, NameKeys};
use crate::net::Net;
use crate::status::{Direction, Route, Status, count};
use crate::wire::{SignalStamp, check_of};

const RETRY: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_millis(100);
/// What a call may take beyond the time that its service has, before it is ended here.
const GRACE: Duration = Duration::from_millis(500);

/// What the thread of a name is told.
enum News {
    /// The hosts that have it now.
    Hosts(BTreeSet<String>),
    Signal(Sample),
    /// The end of a call, by its number.
    Answer(u64, Answer),
}

/// How a call ends.
enum Answer {
    Reply(Body),
    Error(String, String),
}

/// Keeps the names of other hosts on this bus until `stop` is set.
pub fn run(
    net: &Arc<Net>,
    carried: &Arc<Carried>,
    status: &Arc<Status>,
    stop: &Arc<AtomicBool>,
) -> Result<()> {
    let (teller, changes) = bell::channel()?;
    let tokens = net.session.liveliness().declare_subscriber(net.realm.names()).history(true);
    let tokens = tokens.callback(move |sample: Sample| {
        if let Some(of) = NameKeys::name_and_host(sample.key_expr().as_str()) {
            teller.tell((of, sample.kind() == SampleKind::Put));
        }
    });
    let _tokens = tokens.wait()?;
    let mut hosts = BTreeMap::<String, BTreeSet<String>>::new();
    let mut names = HashMap::<String, (Teller<News>, JoinHandle<()>)>::new();
    while !stop.load(Ordering::Relaxed) {
        let mut changed = BTreeSet::new();
        for ((name, host), is_there) in changes.take() {
            if host == net.host || !carried.imports.contain(&name) {
                continue;
            }
            let of = hosts.entry(name.clone()).or_default();
            if if is_there { of.insert(host) } else { of.remove(&host) } {
                changed.insert(name);
            }
        }
        for name in changed {
            let of = hosts.get(&name).cloned().unwrap_or_default();
            if let Some((teller, _)) = names.get(&name) {
                teller.tell(News::Hosts(of));
                continue;
            }
            let (teller, news) = bell::channel()?;
            teller.tell(News::Hosts(of));
            let of = Name {
                net: Arc::clone(net),
                carried: Arc::clone(carried),
                route: status.route("calls", &name, Direction::In, ""),
                signals: status.route("signals", &name, Direction::In, ""),
                keys: net.realm.bus_name(&name),
                name: name.clone(),
                teller: teller.clone(),
            };
            let stop = Arc::clone(stop);
            let thread =
                std::thread::Builder::new().name(name.clone()).spawn(move || of.run(&news, &stop))?;
            names.insert(name, (teller, thread));
        }
        poll(&[changes.as_fd()], Some(LOOK))?;
    }
    for (_, thread) in names.into_values() {
        let _ = thread.join();
    }
    Ok(())
}

/// A name of other hosts.
struct Name {
    net: Arc<Net>,
    carried: Arc<Carried>,
    name: String,
    keys: NameKeys,
    route: Arc<Route>,
    signals: Arc<Route>,
    teller: Teller<News>,
}

struct Pending {
    call: Call,
    host: String,
    deadline: Instant,
}

/// The connection that stands for a name, and the calls that it has passed on.
struct Standing<'a> {
    name: &'a Name,
    bus: Connection,
    pending: HashMap<u64, Pending>,
    /// What is expected next of each host: which process, and which number.
    next: HashMap<u64, (u32, u64)>,
}

impl Name {
    fn run(&self, news: &Listener<News>, stop: &AtomicBool) {
        let mut hosts = BTreeSet::new();
        while !stop.load(Ordering::Relaxed) {
            for one in news.take() {
                if let News::Hosts(now) = one {
                    hosts = now;
                }
            }
            if hosts.is_empty() {
                let _ = poll(&[news.as_fd()], Some(LOOK));
                continue;
            }
            if let Err(failure) = self.stand(&mut hosts, news, stop) {
                self.route.fail(&failure.to_string());
            }
            if !hosts.is_empty() {
                std::thread::sleep(RETRY);
            }
        }
    }

    /// Owns the name until no host has it any more.
    fn stand(&self, hosts: &mut BTreeSet<String>, news: &Listener<News>, stop: &AtomicBool) -> Result<()> {
        let mut bus = Connection::open(&self.carried.path)?;
        bus.use_descriptor()?;
        // Before it owns the name: nobody must offer it to others.
        let own = bus.unique_name().to_owned();
        lock(&self.carried.own).insert(own.clone());
        let _forget = OnDrop(|| {
            lock(&self.carried.own).remove(&own);
        });
        if bus.request_name(&self.name, DO_NOT_QUEUE)? != NameReply::PrimaryOwner {
            self.route.fail("this bus has the name, too: here the one of this host is used, and that of the others is not seen");
            return Ok(());
        }
        let teller = self.teller.clone();
        let signals =
            self.net.session.declare_subscriber(self.keys.signals()).allowed_origin(Locality::Remote);
        let _signals = signals.callback(move |sample| teller.tell(News::Signal(sample))).wait()?;
        self.route.counters.peers.store(hosts.len() as u64, Ordering::Relaxed);
        let mut standing = Standing { name: self, bus, pending: HashMap::new(), next: HashMap::new() };
        while !stop.load(Ordering::Relaxed) && !hosts.is_empty() {
            for one in news.take() {
                match one {
                    News::Hosts(now) => {
                        for gone in hosts.difference(&now) {
                            standing.end_calls_of(gone)?;
                        }
                        *hosts = now;
                        self.route.counters.peers.store(hosts.len() as u64, Ordering::Relaxed);
                    }
                    News::Signal(sample) => standing.emit(&sample)?,
                    News::Answer(id, answer) => standing.answer(id, answer)?,
                }
            }
            while let Some(incoming) = standing.bus.next_now()? {
                match incoming {
                    Incoming::Call(call) => standing.pass_on(call, hosts)?,
                    Incoming::AuthorityGone => return Err(Error::AuthorityGone.into()),
                    _ => {}
                }
            }
            standing.end_overdue()?;
            if !hosts.is_empty() && standing.bus.prepare_to_wait() {
                poll(&[standing.bus.as_fd(), news.as_fd()], Some(LOOK))?;
            }
        }
        Ok(())
    }
}

impl Standing<'_> {
    /// Sends a call to one host that has the name, the same for all calls as long as it has it.
    fn pass_on(&mut self, call: Call, hosts: &BTreeSet<String>) -> Result<()> {
        let header = call.header();
        let Some(host) = hosts.first() else {
            return self.refuse(&call, error::SERVICE_UNKNOWN, "no host has the name any more");
        };
        if header.unix_fds > 0 || header.signature.contains('h') {
            count(&self.name.route.counters.refused, 1);
            return self.refuse(&call, error::NOT_SUPPORTED, NO_DESCRIPTORS);
        }
        let net = &self.name.net;
        let (timeout, number) =
            (self.name.carried.call_timeout, self.name.carried.calls.fetch_add(1, Ordering::Relaxed));
        let mut selector = format!(
            "{}?host={};id={:016x}-{:08x}-{number};path={};member={};timeout_ms={}",
            self.name.keys.call(),
            keys::part(host),
            net.id,
            net.incarnation,
            header.path.unwrap_or("/"),
            header.member.unwrap_or(""),
            timeout.as_millis()
        );
        if let Some(interface) = header.interface {
            selector += &format!(";interface={interface}");
        }
        let wants_reply = header.flags & FLAG_NO_REPLY_EXPECTED == 0;
        if !wants_reply {
            selector += ";no_reply=1";
        }
        let answered = Answered {
            teller: self.name.teller.clone(),
            number,
            host: host.clone(),
            is_over: AtomicBool::new(!wants_reply),
        };
        let get = net
            .session
            .get(&selector)
            .payload(call.body())
            .encoding(encoding_of(&header))
            .attachment(check_of(call.body()))
            .timeout(timeout + GRACE / 2);
        let get = get
            .target(QueryTarget::All)
            .consolidation(ConsolidationMode::None)
            .allowed_destination(Locality::Remote);
        let asked = get.callback(move |reply| answered.take(&reply)).wait();
        if let Err(why) = asked {
            return self.refuse(&call, error::FAILED, &why.to_string());
        }
        count(&self.name.route.counters.sent, 1);
        if wants_reply {
            let (host, deadline) = (host.clone(), Instant::now() + timeout + GRACE);
            self.pending.insert(number, Pending { call, host, deadline });
            self.note_queue();
        }
        Ok(())
    }

    fn note_queue(&self) {
        self.name.route.counters.queue.store(self.pending.len() as u64, Ordering::Relaxed);
    }

    fn refuse(&mut self, call: &Call, name: &str, why: &str) -> Result<()> {
        Ok(self.bus.reply_error(call, name, why)?)
    }

    fn answer(&mut self, number: u64, answer: Answer) -> Result<()> {
        let Some(Pending { call, .. }) = self.pending.remove(&number) else { return Ok(()) };
        count(&self.name.route.counters.acknowledged, 1);
        self.note_queue();
        match answer {
            Answer::Reply(body) => Ok(self.bus.reply(&call, body)?),
            Answer::Error(name, why) => self.refuse(&call, &name, &why),
        }
    }

    fn end(&mut self, is_over: impl Fn(&Pending) -> bool, why: &str) -> Result<()> {
        let over: Vec<u64> =
            self.pending.iter().filter(|(_, one)| is_over(one)).map(|(number, _)| *number).collect();
        for number in over {
            self.answer(number, Answer::Error(error::NO_REPLY.into(), why.into()))?;
        }
        Ok(())
    }

    fn end_overdue(&mut self) -> Result<()> {
        let now = Instant::now();
        self.end(
            |pending| pending.deadline <= now,
            "no reply of the other host in time; the call may have been made",
        )
    }

    fn end_calls_of(&mut self, host: &str) -> Result<()> {
        let why = format!(
            "host {host} does not have {} any more, or is gone; the call may have been made",
            self.name.name
        );
        self.end(|pending| pending.host == host, &why)
    }

    fn emit(&mut self, sample: &Sample) -> Result<()> {
        let route = &self.name.signals;
        let stamp = sample
            .attachment()
            .and_then(|bytes| SignalStamp::parse(&bytes.to_bytes(), sample.payload().slices()));
        let mut parts = sample.key_expr().as_str().rsplit('/').map(keys::name);
        let (member, interface) = (parts.next().flatten(), parts.next().flatten());
        let body = arguments(Some(sample.encoding()), Some(sample.payload()), None);
        let (Some(stamp), Some(interface), Some(member), Ok(body)) = (stamp, interface, member, body) else {
            count(&route.counters.refused, 1);
            route.fail("a signal that is not understood; dropped");
            return Ok(());
        };
        let (incarnation, next) =
            self.next.get(&stamp.host).copied().unwrap_or((stamp.incarnation, stamp.number));
        if incarnation == stamp.incarnation && stamp.number < next {
            count(&route.counters.duplicates, 1);
            return Ok(());
        }
        if incarnation == stamp.incarnation && stamp.number > next {
            let lost = stamp.number - next;
            count(&route.counters.lost, lost);
            route.fail(&format!("{lost} signals before number {} are lost", stamp.number));
        }
        self.next.insert(stamp.host, (stamp.incarnation, stamp.number + 1));
        match self.bus.send_message(&Builder::signal(&stamp.path, &interface, &member).body(body)) {
            Ok(_) => count(&route.counters.sent, 1),
            Err(why @ (Error::Invalid(_) | Error::Method { .. })) => {
                count(&route.counters.refused, 1);
                route.fail(&why.to_string());
            }
            Err(why) => return Err(why.into()),
        }
        Ok(())
    }
}

impl Drop for Standing<'_> {
    /// No call is left without an end.
    fn drop(&mut self) {
        let why = "the bridge to the other host has ended; the call may have been made";
        for pending in self.pending.values() {
            let _ = self.bus.reply_error(&pending.call, error::NO_REPLY, why);
        }
    }
}

/// Passes the first answer of a question on; the end of the question is one, too.
struct Answered {
    teller: Teller<News>,
    number: u64,
    host: String,
    is_over: AtomicBool,
}

impl Answered {
    fn tell(&self, answer: Answer) {
        if !self.is_over.swap(true, Ordering::Relaxed) {
            self.teller.tell(News::Answer(self.number, answer));
        }
    }

    fn take(&self, reply: &Reply) {
        self.tell(match reply.result() {
            Ok(sample) => {
                match arguments(Some(sample.encoding()), Some(sample.payload()), sample.attachment()) {
                    Ok(body) => Answer::Reply(body),
                    Err(why) => Answer::Error(
                        error::FAILED.into(),
                        format!("host {} has sent a reply that makes no sense: {why}", self.host),
                    ),
                }
            }
            Err(refused) => {
                let text = refused.payload().try_to_string().unwrap_or_default().into_owned();
                // Zenoh's own words at the end of the time.
                let name = if text == "Timeout" {
                    error::NO_REPLY.to_owned()
                } else {
                    error_name(refused.encoding())
                };
                Answer::Error(name, text)
            }
        });
    }
}

impl Drop for Answered {
    fn drop(&mut self) {
        let why = format!("host {} has not answered; the call may have been made", self.host);
        self.tell(Answer::Error(error::NO_REPLY.into(), why));
    }
}

/// Does something at the end of a scope.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
