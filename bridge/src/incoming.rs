//! The receiving side of a group: publishes what comes from other hosts, each message once and in the order of its host.
//!
//! Of each host it expects one index next. What is below has come before; what begins above waits, and what lies between is asked for.
//! A message counts as passed when it lies in the log of this host, and only then it is acknowledged. What is not in the order of a
//! host any more is lost, counted, and said.

mod asking;
mod restoring;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use causeway::{Error, Group, PublishTimeoutError, Publisher};
use causeway_os::lock::lock;
use zenoh::Wait;
use zenoh::bytes::ZBytes;
use zenoh::pubsub::Subscriber;
use zenoh::qos::CongestionControl;
use zenoh::sample::{Locality, Sample};

use restoring::restore;

use crate::failure::Result;
use crate::keys::{self, GroupKeys};
use crate::lists::GroupPlace;
use crate::net::Net;
use crate::state::State;
use crate::status::{Direction, Route, Status, count};
use crate::wire::{Kind, Packed, Packet, Part, Stamp, mark_of};

/// Bytes of messages that wait for their turn, for each host and in all that is to be published.
const WAITING_BYTES_MAX: usize = 16 << 20;
/// What a message costs beside its payload while it waits.
const WAITING_COST: usize = 128;
/// A message that is sent passes over no more than so many that do not cross, or it is asked for: so nobody else makes them be passed over.
const SKIPPED_MAX: u64 = 1 << 20;
/// How often a question is asked that was not answered.
const ASK_AGAIN: Duration = Duration::from_millis(500);
/// How long an answer may take.
const ANSWER_TIME: Duration = Duration::from_secs(10);
/// How long one wait for space in the log of this host lasts.
const SPACE_TIME: Duration = Duration::from_millis(100);

/// Why messages are lost.
const OVERWRITTEN: &str = "the log of their host does not have them any more";
const KEPT_BACK: &str = "they do not come although they are sent again: a rule of Zenoh keeps them back";

const NOT_UNDERSTOOD: &str =
    "a message that was damaged on its way, or that is of another format; dropped, and asked for again";

/// What stands beside a message.
fn stamp_of(sample: &Sample) -> Option<Stamp> {
    Stamp::parse(&sample.attachment()?.to_bytes(), sample.payload().slices())
}

fn too_long(error: &Error) -> String {
    format!("{error}; the log of this host must be as large as that of the other")
}

/// What comes in.
#[derive(Clone, Debug)]
enum Item {
    Message {
        topic: u32,
        payload: ZBytes,
    },
    /// So many messages, and why.
    Lost(u64, Cow<'static, str>),
    Nothing,
}

/// What waits: an item, and whether it is to be acknowledged at once.
#[derive(Debug)]
struct Waiting {
    index: u64,
    item: Item,
    is_awaited: bool,
}

impl Waiting {
    fn bytes(&self) -> usize {
        WAITING_COST + if let Item::Message { payload, .. } = &self.item { payload.len() } else { 0 }
    }
}

/// A message that comes in parts: what there is of it.
#[derive(Debug)]
struct Long {
    index: u64,
    length: u64,
    payload: Vec<u8>,
    /// A part has come since more was asked for.
    is_coming: bool,
}

/// A host whose messages come in.
#[derive(Debug, Default)]
struct Origin {
    name: String,
    slot: Option<usize>,
    group: u64,
    /// That of the group before it.
    left: u64,
    /// The index that is taken next.
    next: u64,
    /// Everything below it lies in the log of this host.
    done: u64,
    /// What came too early, by its beginning.
    early: BTreeMap<u64, Waiting>,
    early_bytes: usize,
    /// The message that is taken next, if it is a long one of which something has come.
    long: Option<Long>,
    /// The sender has been told where this end is, and has said where it begins.
    is_linked: bool,
    asked: Option<Instant>,
    is_fetching: bool,
    head: u64,
    route: Option<Arc<Route>>,
}

impl Origin {
    /// This index is taken next.
    fn go_on_at(&mut self, next: u64) {
        self.next = next;
        self.long.take_if(|long| long.index < next);
    }

    /// How many messages were taken, and how many bytes of the next one: more, where something has come.
    fn reached(&self) -> (u64, usize) {
        (self.next, self.long.as_ref().map_or(0, |long| long.payload.len()))
    }

    fn set_linked(&mut self, is_linked: bool) {
        self.is_linked = is_linked;
        if let Some(route) = &self.route {
            route.counters.peers.store(u64::from(is_linked), Ordering::Relaxed);
        }
    }
}

#[derive(Debug, Default)]
struct Inner {
    origins: HashMap<u64, Origin>,
    /// What is to be published, by host, since there was no space.
    backlog: VecDeque<(u64, u64, Waiting)>,
    backlog_bytes: usize,
    /// The first of these is being published now.
    is_busy: bool,
    /// Somebody has to be asked something.
    has_questions: bool,
    is_over: bool,
}

#[derive(Debug)]
struct Shared {
    net: Arc<Net>,
    keys: GroupKeys,
    place: GroupPlace,
    status: Arc<Status>,
    /// What is counted of no one host.
    all: Arc<Route>,
    loss_topic: Option<u32>,
    state: Option<State>,
    inner: Mutex<Inner>,
    /// There is something to publish, or to ask.
    work: Condvar,
    publisher: Mutex<Publisher>,
    /// That of the publisher, as it was last.
    payload_bytes_max: AtomicU64,
}

/// The receiving side of one group; it ends when it is dropped.
#[derive(Debug)]
pub struct Incoming {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    _subscribers: [Subscriber<()>; 2],
}

impl Incoming {
    /// Begins to publish what comes in. `folder` is where the file is that says what was passed before.
    pub fn start(
        net: &Arc<Net>,
        group: &Group,
        place: &GroupPlace,
        folder: &Path,
        loss_topic: Option<u32>,
        status: &Arc<Status>,
    ) -> Result<Incoming> {
        let (state, inner) = restore(group, place, folder, status)?;
        let publisher = group.publisher()?;
        let shared = Arc::new(Shared {
            net: Arc::clone(net),
            keys: net.realm.group(&place.name),
            place: place.clone(),
            status: Arc::clone(status),
            all: status.route("group", &place.name, Direction::In, ""),
            loss_topic,
            state,
            inner: Mutex::new(inner),
            work: Condvar::new(),
            payload_bytes_max: AtomicU64::new(publisher.payload_bytes_max() as u64),
            publisher: Mutex::new(publisher),
        });
        let threads = [("ask", Shared::ask as fn(&Arc<Shared>)), ("publish", Shared::publish_waiting)].map(
            |(name, work)| {
                let shared = Arc::clone(&shared);
                std::thread::Builder::new().name(name.into()).spawn(move || work(&shared))
            },
        );
        let threads = threads.into_iter().collect::<Result<Vec<_>, _>>()?;
        let (data, beats) = (Arc::clone(&shared), Arc::clone(&shared));
        let subscribe = |key: String| net.session.declare_subscriber(key).allowed_origin(Locality::Remote);
        let messages =
            subscribe(shared.keys.topics()).callback(move |sample| data.take_sample(&sample)).wait()?;
        let beats = subscribe(shared.keys.beats()).callback(move |sample| beats.take_beat(&sample)).wait()?;
        Ok(Incoming { shared, threads, _subscribers: [messages, beats] })
    }

    /// Whether the group has ended, or another reason to begin again.
    pub fn is_over(&self) -> bool {
        lock(&self.shared.inner).is_over
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        {
            let mut inner = lock(&self.shared.inner);
            inner.is_over = true;
            inner.origins.values_mut().for_each(|origin| origin.set_linked(false));
        }
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn refuse(&self, route: Option<&Route>, why: &str) {
        let route = route.unwrap_or(&self.all);
        count(&route.counters.refused, 1);
        route.fail(why);
    }

    fn take_sample(&self, sample: &Sample) {
        if sample.attachment().is_none() {
            return self
                .refuse(None, "a message without an attachment, from a program that is no bridge; dropped");
        }
        let topic = keys::last(sample.key_expr().as_str()).parse::<u32>();
        let (Some(stamp), Ok(topic)) = (stamp_of(sample), topic) else {
            return self.refuse(None, NOT_UNDERSTOOD);
        };
        // Anything else is an answer, and those of the host itself are heard alone.
        let is_sent = matches!(stamp.kind, Kind::Message | Kind::Pack);
        if stamp.topic != topic || !is_sent {
            return self.refuse(None, NOT_UNDERSTOOD);
        }
        if stamp.index - stamp.from > SKIPPED_MAX {
            return;
        }
        self.take(&stamp, sample.payload());
    }

    /// A record of the log of another host.
    fn take(&self, stamp: &Stamp, payload: &ZBytes) {
        let mut inner = lock(&self.inner);
        let Some(origin) = inner.origins.get_mut(&stamp.origin()) else {
            // Its next beat says its name.
            return;
        };
        let Some(route) = origin.route.clone() else { return };
        if stamp.has_passed(self.net.id) {
            return count(&route.counters.looped, 1);
        }
        if !origin.is_linked || stamp.group != origin.group {
            return;
        }
        if stamp.kind == Kind::End {
            return self.take_end(&mut inner, stamp);
        }
        let host = stamp.origin();
        let topic = stamp.topic;
        let is_wanted = self.place.topics.contain(topic);
        let item = match stamp.kind {
            Kind::Message if is_wanted => Item::Message { topic, payload: payload.clone() },
            Kind::Pack if is_wanted => {
                let bytes = payload.to_bytes();
                for Packed { from, index, payload, .. } in Packed::all(&bytes, stamp.from) {
                    let is_awaited = stamp.is_awaited && index == stamp.index;
                    let item = Item::Message { topic, payload: ZBytes::from(payload.to_vec()) };
                    self.accept(&mut inner, host, from, Waiting { index, item, is_awaited }, &route);
                }
                return;
            }
            Kind::Part if is_wanted => match self.take_part(origin, stamp, payload) {
                Some(item) => item,
                None => return,
            },
            Kind::Lost => Item::Lost(stamp.lost(&payload.to_bytes()), OVERWRITTEN.into()),
            Kind::Message | Kind::Nothing | Kind::End | Kind::Pack | Kind::Part => Item::Nothing,
        };
        // Nothing goes on at the sender until it has heard of a long message.
        let is_awaited = stamp.is_awaited || stamp.kind == Kind::Part;
        let waiting = Waiting { index: stamp.index, item, is_awaited };
        self.accept(&mut inner, host, stamp.from, waiting, &route);
    }

    /// A part of a long message: the message, if it is the last one, and a loss, if there is no use in asking for another.
    fn take_part(&self, origin: &mut Origin, stamp: &Stamp, payload: &ZBytes) -> Option<Item> {
        let Part { offset, length } = stamp.part?;
        if !(stamp.from..=stamp.index).contains(&origin.next) {
            return None;
        }
        let limit = self.payload_bytes_max.load(Ordering::Relaxed);
        if length > limit {
            let error = Error::TooLong { payload_bytes: length as usize, limit_bytes: limit as usize };
            return Some(Item::Lost(1, too_long(&error).into()));
        }
        // Where two parts disagree, one of them is not true: from the beginning.
        origin.long.take_if(|long| (long.index, long.length) != (stamp.index, length));
        let new = || Long { index: stamp.index, length, payload: Vec::new(), is_coming: false };
        let long = origin.long.get_or_insert_with(new);
        let there = long.payload.len() as u64;
        if payload.is_empty() {
            // All before it was sent.
            return (offset > there && !long.is_coming).then(|| Item::Lost(1, KEPT_BACK.into()));
        }
        long.is_coming = true;
        if offset != there || there + payload.len() as u64 > length {
            return None;
        }
        payload.slices().for_each(|piece| long.payload.extend_from_slice(piece));
        (long.payload.len() as u64 == length).then(|| {
            let payload = origin.long.take().map(|long| long.payload.into()).unwrap_or_default();
            Item::Message { topic: stamp.topic, payload }
        })
    }

    /// One part of the log of a host: passed on, kept until what lies before it has come, or dropped.
    fn accept(&self, inner: &mut Inner, host: u64, from: u64, waiting: Waiting, route: &Route) {
        let Some(origin) = inner.origins.get_mut(&host) else { return };
        if waiting.index < origin.next {
            return count(&route.counters.duplicates, 1);
        }
        if from > origin.next {
            if origin.early_bytes + waiting.bytes() <= WAITING_BYTES_MAX {
                origin.early_bytes += waiting.bytes();
                if let Some(before) = origin.early.insert(from, waiting) {
                    origin.early_bytes -= before.bytes();
                    count(&route.counters.duplicates, 1);
                }
            }
            return self.ask_soon(inner);
        }
        if inner.backlog_bytes > WAITING_BYTES_MAX {
            // It is asked for when there is space.
            return;
        }
        origin.go_on_at(waiting.index + 1);
        self.pass(inner, host, waiting);
        self.take_early(inner, host);
    }

    /// An answer has ended. What it has not brought is kept back on the way, and others do not wait for it.
    fn take_end(&self, inner: &mut Inner, stamp: &Stamp) {
        let (host, all) = (stamp.origin(), stamp.from..=stamp.index);
        while let Some(origin) = inner.origins.get_mut(&host).filter(|origin| all.contains(&origin.next)) {
            // What it has brought behind that has come early.
            let end =
                origin.early.keys().next().map_or(stamp.index + 1, |first| (stamp.index + 1).min(*first));
            let item = Item::Lost(end - origin.next, KEPT_BACK.into());
            origin.go_on_at(end);
            self.pass(inner, host, Waiting { index: end - 1, item, is_awaited: false });
            self.take_early(inner, host);
        }
    }

    /// What came early and is due now.
    fn take_early(&self, inner: &mut Inner, host: u64) {
        while let Some(origin) = inner.origins.get_mut(&host)
            && let Some(first) = origin.early.first_entry()
            && *first.key() <= origin.next
        {
            let waiting = first.remove();
            origin.early_bytes -= waiting.bytes();
            if waiting.index < origin.next {
                continue;
            }
            origin.go_on_at(waiting.index + 1);
            self.pass(inner, host, waiting);
        }
    }

    /// Publishes what is due, or puts it behind what waits.
    fn pass(&self, inner: &mut Inner, host: u64, mut waiting: Waiting) {
        let Some(origin) = inner.origins.get(&host) else { return };
        let group = origin.group;
        if inner.backlog.is_empty() && !inner.is_busy {
            let slot = origin.slot;
            let route = origin.route.clone();
            match self.publish(host, slot, route.as_deref(), &mut waiting, Duration::ZERO) {
                Passed::Done => return self.note_done(inner, host, group, &waiting),
                Passed::Full => {}
                Passed::TooLong(_) | Passed::Ended => return inner.is_over = true,
            }
        }
        inner.backlog_bytes += waiting.bytes();
        inner.backlog.push_back((host, group, waiting));
        self.note_queue(inner, host);
        self.work.notify_all();
    }

    fn note_queue(&self, inner: &Inner, host: u64) {
        if let Some(route) = inner.origins.get(&host).and_then(|origin| origin.route.as_ref()) {
            route.counters.queue.store(inner.backlog.len() as u64, Ordering::Relaxed);
        }
    }

    fn note_done(&self, inner: &mut Inner, host: u64, group: u64, waiting: &Waiting) {
        let Some(origin) = inner.origins.get_mut(&host) else { return };
        if let Item::Lost(messages, why) = &waiting.item {
            let of = origin.route.as_ref().unwrap_or(&self.all);
            count(&of.counters.lost, *messages);
            let (host, index) = (&of.host, waiting.index);
            of.fail(&format!(
                "{messages} messages of host {host} are lost, the last of them number {index}: {why}"
            ));
        }
        if origin.group != group {
            return;
        }
        origin.done = waiting.index + 1;
        if waiting.is_awaited {
            self.acknowledge(origin);
        }
    }

    /// Puts an item into the log of this host; a message that is too long for that becomes a loss.
    fn publish(
        &self,
        host: u64,
        slot: Option<usize>,
        route: Option<&Route>,
        waiting: &mut Waiting,
        wait: Duration,
    ) -> Passed {
        let passed = self.publish_item(host, slot, route, waiting, wait);
        let Passed::TooLong(why) = passed else { return passed };
        waiting.item = Item::Lost(1, why.into());
        self.publish_item(host, slot, route, waiting, wait)
    }

    /// A message goes into the log as one, a loss as one too where that is wanted.
    fn publish_item(
        &self,
        host: u64,
        slot: Option<usize>,
        route: Option<&Route>,
        waiting: &Waiting,
        wait: Duration,
    ) -> Passed {
        let (index, next) = (waiting.index, waiting.index + 1);
        let state = self.state.as_ref().zip(slot);
        let is_message = matches!(waiting.item, Item::Message { .. });
        let (topic, payload) = match &waiting.item {
            Item::Message { topic, payload } => (*topic, payload.clone()),
            Item::Lost(messages, _) => {
                let host = &route.unwrap_or(&self.all).host;
                let text = serde_json::json!({ "host": host, "lost": messages }).to_string();
                match self.loss_topic {
                    Some(topic) => (topic, text.into_bytes().into()),
                    None => return self.skip(state, next),
                }
            }
            Item::Nothing => return self.skip(state, next),
        };
        let mut publisher = lock(&self.publisher);
        self.payload_bytes_max.store(publisher.payload_bytes_max() as u64, Ordering::Relaxed);
        let mut loan = match publisher.loan_timeout(payload.len(), wait) {
            Ok(loan) => loan,
            Err(PublishTimeoutError::Timeout) => return Passed::Full,
            Err(PublishTimeoutError::Failed(error @ Error::TooLong { .. })) if is_message => {
                return Passed::TooLong(too_long(&error));
            }
            Err(error) => {
                self.refuse(route, &error.to_string());
                return Passed::Ended;
            }
        };
        // It lies in as many pieces as it came.
        let mut rest = &mut loan[..];
        for piece in payload.slices() {
            let (next, after) = rest.split_at_mut(piece.len());
            next.copy_from_slice(piece);
            rest = after;
        }
        if let Some((state, slot)) = state {
            state.intend(slot, next);
        }
        match loan.with_topic(topic).with_mark(mark_of(host, index)).commit() {
            Ok(position) => {
                if let Some((state, slot)) = state {
                    state.pass(slot, next, Some(position.0));
                }
                route.into_iter().for_each(|route| count(&route.counters.sent, u64::from(is_message)));
                Passed::Done
            }
            Err(error) => {
                self.refuse(route, &error.to_string());
                Passed::Ended
            }
        }
    }

    fn skip(&self, state: Option<(&State, usize)>, next: u64) -> Passed {
        if let Some((state, slot)) = state {
            state.pass(slot, next, None);
        }
        Passed::Done
    }

    /// Publishes what waits, as there is space. A thread does this.
    fn publish_waiting(self: &Arc<Self>) {
        let mut inner = lock(&self.inner);
        loop {
            if inner.is_over {
                return;
            }
            let Some((host, group, mut waiting)) = inner.backlog.pop_front() else {
                inner = self.work.wait(inner).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            inner.is_busy = true;
            let origin = inner.origins.get(&host);
            let (slot, route) = origin.map_or((None, None), |origin| (origin.slot, origin.route.clone()));
            drop(inner);
            let bytes = waiting.bytes();
            let passed = loop {
                match self.publish(host, slot, route.as_deref(), &mut waiting, SPACE_TIME) {
                    Passed::Full if !lock(&self.inner).is_over => {}
                    decided => break decided,
                }
            };
            inner = lock(&self.inner);
            (inner.is_busy, inner.backlog_bytes) = (false, inner.backlog_bytes - bytes);
            match passed {
                Passed::Done => self.note_done(&mut inner, host, group, &waiting),
                Passed::Full | Passed::TooLong(_) | Passed::Ended => inner.is_over = true,
            }
            self.note_queue(&inner, host);
        }
    }

    fn acknowledge(&self, origin: &Origin) {
        if origin.name.is_empty() || !origin.is_linked {
            return;
        }
        let ack = Packet::Ack { host: self.net.id, group: origin.group, next: origin.done };
        let put = self.net.session.put(self.keys.ack(&origin.name), ack.to_bytes());
        // One that has no space is followed by another.
        let put = put
            .congestion_control(CongestionControl::Drop)
            .express(true)
            .allowed_destination(Locality::Remote);
        let _ = put.wait();
        if let Some(route) = &origin.route {
            let sent = route.counters.sent.load(Ordering::Relaxed);
            route.counters.acknowledged.store(sent, Ordering::Relaxed);
        }
    }
}

/// What became of an item.
#[derive(Debug)]
enum Passed {
    Done,
    Full,
    TooLong(String),
    Ended,
}
