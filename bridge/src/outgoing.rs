//! The sending side of a group: reads the log, puts each message into Zenoh, and has it again in the log until every other end has it.
//!
//! It is a subscriber with a deadline. What is not acknowledged holds space in the log, so that it can be read again; publishers wait
//! for that no longer than the deadline, then it is demoted, and what they overwrite is lost and counted. The window keeps it from
//! sending what nobody takes: a network that stands still costs local publishers one deadline, and then nothing. When it runs, and on
//! which thread, is in `task`.

mod answering;
mod pack;
mod peers;
mod task;

use std::collections::{HashMap, VecDeque};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use causeway::{Error, Group, Policy, Received, Refusal, SubscribeOptions, Subscriber, TryRecvError};
use tokio::net::UnixStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use zenoh::Wait;
use zenoh::qos::CongestionControl;
use zenoh::query::{Query, Queryable};
use zenoh::sample::Locality;

use pack::{Pack, Publishers};
use peers::Peer;
pub use task::Sending;

use crate::failure::Result;
use crate::keys::GroupKeys;
use crate::lists::GroupPlace;
use crate::net::Net;
use crate::status::{Route, count};
use crate::wire::{Kind, Packed, Packet, Stamp};

/// At most so many messages are read before the others are heard.
const BATCH: usize = 512;
/// A message with a longer payload is not packed with others, and a pack of more bytes is sent.
const PACKED_PAYLOAD_MAX: usize = 2048;
const PACK_BYTES_MAX: usize = 48 << 10;
/// Records of messages that can be asked for again.
const ENTRIES_MAX: usize = 1 << 18;
/// The most bytes of log that are on their way.
const WINDOW_BYTES_MAX: u64 = 8 << 20;
/// What is on its way, with the message, when one goes alone; a longer one does where nothing else is on its way. Zenoh's queue holds
/// two batches of 64 KiB, so there is space for it.
const ALONE_BYTES_MAX: u64 = 32 << 10;
const ALONE_MESSAGE_BYTES_MAX: u64 = 96 << 10;
/// For how long no message goes alone after some were asked for again.
const CROWDED: Duration = Duration::from_secs(1);
/// How often the others are told how far this end is, and how soon after it has fallen silent.
const BEAT: Duration = Duration::from_millis(500);
const BEAT_AFTER: Duration = Duration::from_millis(50);
/// Receivers that are there when this end is started have so much time to say what they lack, before it is given up.
const GRACE: Duration = Duration::from_secs(2);
/// A subscriber that was demoted is waited for again so much later: a link that flaps costs publishers a deadline in this time.
const DEMOTED_FOR: Duration = Duration::from_secs(10);
/// One answer has at most so many bytes, and one message more.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// And nothing more is begun after this time: a receiver waits for some seconds, and asks then again.
const ANSWERED_FOR: Duration = Duration::from_secs(2);
/// A longer message is not sent: a receiver asks for it, and gets it in parts of `PART_BYTES`. Zenoh closes a session on which one message
/// takes more than a few seconds, at each router on the way.
const SENT_BYTES_MAX: usize = 1 << 20;
const PART_BYTES: usize = 256 << 10;

/// What comes from the network, and what this end is told.
#[derive(Debug)]
enum Event {
    /// Of this host.
    Question(u64, Query),
    Packet(Packet),
    GroupEnd,
    End,
}

/// A part of the log: a message, or what is known of others.
#[derive(Clone, Copy, Debug)]
struct Entry {
    kind: Kind,
    from: u64,
    index: u64,
    position: u64,
}

/// A message that goes in parts.
struct Long {
    index: u64,
    topic: u32,
    payload: Vec<u8>,
}

/// The sending side of one group.
pub struct Outgoing {
    net: Arc<Net>,
    keys: GroupKeys,
    group: Arc<Group>,
    place: GroupPlace,
    route: Arc<Route>,
    patience: Duration,
    window_bytes: u64,
    /// A second descriptor of the subscriber's doorbell, which the runtime waits for.
    doorbell: UnixStream,
    subscriber: Subscriber,
    /// The index of what the subscriber receives next.
    read: u64,
    /// Everything below this index is in `entries`, or was there.
    next: u64,
    /// The beginning of the next entry.
    from: u64,
    /// The index behind the last entry.
    head: u64,
    entries: VecDeque<Entry>,
    peers: HashMap<u64, Peer>,
    /// The oldest position that a receiver lacks, and the index there.
    lacking: (u64, u64),
    /// The position at which an acknowledgement was asked for last.
    asked_at: u64,
    publishers: Publishers,
    pack: Pack,
    stamp: Stamp,
    teller: UnboundedSender<Event>,
    events: UnboundedReceiver<Event>,
    /// At most one of each host.
    questions: Vec<(u64, Query)>,
    /// The long message that was asked for last.
    long: Option<Long>,
    is_ending: bool,
    /// When the group has ended: what the others lack of it is sent to them still.
    ended: Option<Instant>,
    /// And whether nothing is left to be read.
    is_drained: bool,
    /// What lies before this position was overwritten before it was read.
    overtaken_at: u64,
    /// Messages may go alone from here on.
    alone_from: Instant,
    begun: Instant,
    beat_at: Instant,
    beat_head: u64,
    /// When it may be waited for again, since it is not now.
    demoted_until: Option<Instant>,
    /// The server has not given the log that comes next when it was asked last.
    has_no_answer: bool,
    /// When what is done now was begun.
    pass_began: Instant,
    _questions: Queryable<()>,
    _acks: zenoh::pubsub::Subscriber<()>,
}

/// How what is received goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Way {
    /// It is not sent, but can be asked for.
    Nowhere,
    /// With others, as Zenoh has space.
    Together,
    /// At once.
    Alone,
}

/// A question, with the host that asks; what makes no sense is answered too.
fn asked_by(query: Query) -> Event {
    let packet = query.payload().and_then(|payload| Packet::parse(&payload.to_bytes()));
    let host = if let Some(Packet::Hello { host, .. }) = packet { host } else { 0 };
    Event::Question(host, query)
}

/// Subscribes so that publishers wait for a limited time, or not at all where the group does not allow that.
fn subscribe(group: &Group, patience: Duration) -> Result<Subscriber, Error> {
    let with = |policy| group.subscribe(SubscribeOptions::new(policy).from_oldest().keep_received());
    match with(Policy::DemoteAfter(patience)) {
        Err(Error::Refused(Refusal::TooPatient)) => with(Policy::Lossy),
        decided => decided,
    }
}

/// The doorbell of a subscriber, one end of a pair of sockets, registered with the runtime that writes to Zenoh's links.
fn doorbell_of(subscriber: &Subscriber) -> Result<UnixStream> {
    let _inside = zenoh_runtime::ZRuntime::TX.enter();
    let doorbell = std::os::unix::net::UnixStream::from(subscriber.as_fd().try_clone_to_owned()?);
    doorbell.set_nonblocking(true)?;
    Ok(UnixStream::from_std(doorbell)?)
}

impl Outgoing {
    /// Prepares to send what is published from now on, and to answer for what is still in the log.
    pub fn new(
        net: &Arc<Net>,
        group: &Arc<Group>,
        place: &GroupPlace,
        patience: Duration,
        packs: bool,
        route: Arc<Route>,
    ) -> Result<Outgoing> {
        let keys = net.realm.group(&place.name);
        let report = group.report()?;
        let subscriber = subscribe(group, patience)?;
        let (teller, events) = unbounded_channel();
        let (ask, told) = (teller.clone(), teller.clone());
        let questions = net.session.declare_queryable(keys.link(&net.host)).allowed_origin(Locality::Remote);
        let questions = questions.callback(move |query| _ = ask.send(asked_by(query))).wait()?;
        let acks = net.session.declare_subscriber(keys.ack(&net.host)).allowed_origin(Locality::Remote);
        let acks = acks
            .callback(move |sample| {
                if let Some(packet) = Packet::parse(&sample.payload().to_bytes()) {
                    let _ = told.send(Event::Packet(packet));
                }
            })
            .wait()?;
        let (index, position) = (subscriber.messages_before(), subscriber.position().0);
        let stamp = Stamp {
            kind: Kind::Message,
            group: subscriber.group_number(),
            from: 0,
            index: 0,
            topic: 0,
            is_awaited: false,
            hops: vec![net.id],
            part: None,
        };
        let doorbell = doorbell_of(&subscriber)?;
        let mut outgoing = Outgoing {
            net: Arc::clone(net),
            keys,
            group: Arc::clone(group),
            place: place.clone(),
            route,
            patience,
            window_bytes: (report.capacity_bytes / 2).min(WINDOW_BYTES_MAX),
            doorbell,
            subscriber,
            read: index,
            next: index,
            from: index,
            head: index,
            entries: VecDeque::new(),
            peers: HashMap::new(),
            lacking: (position, index),
            asked_at: 0,
            publishers: Publishers::new(net, &place.name),
            pack: Pack { packs, ..Pack::default() },
            stamp,
            teller,
            events,
            questions: Vec::new(),
            long: None,
            is_ending: false,
            ended: None,
            is_drained: false,
            overtaken_at: 0,
            alone_from: Instant::now(),
            begun: Instant::now(),
            beat_at: Instant::now(),
            beat_head: u64::MAX,
            demoted_until: None,
            has_no_answer: false,
            pass_began: Instant::now(),
            _questions: questions,
            _acks: acks,
        };
        // What was published before is not sent, but can be asked for by those who had the part before it.
        while outgoing.read < report.messages && outgoing.receive(Way::Nowhere)? {}
        Ok(outgoing)
    }

    /// Takes the next thing out of the log, and packs it if it is a message that crosses. False if there is none.
    fn receive(&mut self, way: Way) -> Result<bool> {
        let message = match self.subscriber.try_recv() {
            Ok(Received::Message(message)) => message,
            Ok(Received::Lost { messages, .. }) => {
                self.read += messages;
                self.lose_until(self.read);
                // The others hear of it with the next beat. What is gone is not on its way.
                self.overtaken_at = self.subscriber.position().0;
                self.beat_at -= BEAT;
                return Ok(true);
            }
            Ok(Received::Demoted) => {
                self.demoted_until = Some(Instant::now() + DEMOTED_FOR);
                self.route.fail("the other end has not taken messages for so long that publishers no longer wait for this bridge; what they overwrite is counted");
                return Ok(true);
            }
            Err(TryRecvError::Empty) => return Ok(false),
            // A server that is gone had the log that comes next; what lies in this one is sent still.
            Err(TryRecvError::Disconnected | TryRecvError::Failed(Error::ServerGone)) => {
                self.ended.get_or_insert_with(Instant::now);
                return Ok(false);
            }
            Err(TryRecvError::Failed(Error::NoAnswer)) => {
                self.has_no_answer = true;
                self.stood_still();
                return Ok(false);
            }
            Err(TryRecvError::Failed(error)) => return Err(error.into()),
        };
        let index = self.read;
        self.read += 1;
        if index < self.next {
            return Ok(true);
        }
        self.next = self.read;
        if message.mark != 0 || !self.place.topics.contain(message.topic) {
            return Ok(true);
        }
        let position = message.position.0;
        self.stamp.kind = Kind::Message;
        (self.stamp.from, self.stamp.index, self.stamp.topic) = (self.from, index, message.topic);
        if message.bytes.len() > SENT_BYTES_MAX {
            // The others ask for the message when they hear a beat.
            self.beat_at -= BEAT;
            count(&self.route.counters.sent, u64::from(way != Way::Nowhere));
        } else if way != Way::Nowhere {
            let packed = Packed { from: self.from, index, payload: message.bytes };
            let step = self.window_bytes / 4;
            let step = if way == Way::Alone { step.min(ALONE_BYTES_MAX / 2) } else { step };
            self.stamp.is_awaited = position >= self.asked_at + step;
            if self.stamp.is_awaited {
                self.asked_at = position;
            }
            let is_small =
                message.bytes.len() <= PACKED_PAYLOAD_MAX && index - self.from < u64::from(u32::MAX);
            let continues = self.pack.bytes.len() < PACK_BYTES_MAX
                && (self.pack.count > 1 || self.pack.bytes.len() <= PACKED_PAYLOAD_MAX)
                && self.pack.stamp.as_ref().is_some_and(|first| {
                    // Its messages are numbered one after another.
                    first.topic == message.topic && first.index + 1 == self.from
                })
                && self.pack.packs
                && is_small;
            if !continues {
                // What was packed before goes first.
                self.publishers.send(&mut self.pack, Way::Together, &self.route)?;
            }
            self.pack.add(&packed, &self.stamp);
        }
        self.push(Entry { kind: Kind::Message, from: self.from, index, position });
        Ok(true)
    }

    fn push(&mut self, entry: Entry) {
        (self.from, self.head) = (entry.index + 1, entry.index + 1);
        self.entries.push_back(entry);
        if self.entries.len() > ENTRIES_MAX {
            self.entries.pop_front();
        }
    }

    /// Messages up to this index were overwritten before they were read.
    fn lose_until(&mut self, end: u64) {
        if end <= self.next {
            return;
        }
        let position = self.subscriber.position().0;
        if self.from < self.next {
            self.push(Entry { kind: Kind::Nothing, from: self.from, index: self.next - 1, position });
        }
        count(&self.route.counters.lost, end - self.next);
        self.push(Entry { kind: Kind::Lost, from: self.next, index: end - 1, position });
        self.next = end;
    }

    /// Bytes of log that somebody lacks: those that may be on their way.
    fn bytes_on_their_way(&self) -> u64 {
        let from = self.lacking.0.max(self.overtaken_at);
        if self.peers.is_empty() { 0 } else { self.subscriber.position().0.saturating_sub(from) }
    }

    /// Whether so much is on its way that nothing is added.
    fn is_window_full(&self) -> bool {
        self.bytes_on_their_way() > self.window_bytes
    }

    fn may_read(&self) -> bool {
        !self.is_window_full() && !self.is_resting()
    }

    /// Whether the group has ended, and all receivers that answer have what was in it, or the lease is over.
    fn is_over(&self) -> bool {
        let has_all = |peer: &Peer| self.is_drained && peer.acked >= self.next;
        let all = self.peers.values().all(has_all);
        self.is_ending || self.ended.is_some_and(|since| all || since.elapsed() > self.net.lease)
    }

    /// Whether nothing is read, since nobody listens and no publisher waits: publishers are faster beside a log that nobody reads.
    fn is_resting(&self) -> bool {
        self.demoted_until.is_some() && self.peers.is_empty()
    }

    /// Everything that comes from the network; questions are answered later.
    fn hear(&mut self) {
        while let Ok(event) = self.events.try_recv() {
            self.take(event);
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Packet(Packet::Ack { host, group, next }) => self.take_ack(host, group, next),
            Event::Packet(_) => count(&self.route.counters.refused, 1),
            Event::Question(host, query) => {
                // One before it is answered by its end: nobody waits for it any more.
                self.questions.retain(|(of, _)| *of != host);
                self.questions.push((host, query));
            }
            Event::GroupEnd => _ = self.ended.get_or_insert_with(Instant::now),
            Event::End => self.is_ending = true,
        }
    }

    fn beat_due(&self) -> Instant {
        self.beat_at
            + if self.head == self.beat_head || self.beat_head == u64::MAX { BEAT } else { BEAT_AFTER }
    }

    fn beat_if_due(&mut self) {
        if Instant::now() < self.beat_due() {
            return;
        }
        let (host, group, incarnation) = (self.net.id, self.stamp.group, u64::from(self.net.incarnation));
        let beat = Packet::Beat { host, group, head: self.next, incarnation };
        let put = self.net.session.put(self.keys.beat(&self.net.host), beat.to_bytes());
        // Behind the messages that were sent, in their queue; without space, the next one tells.
        let _ = put.congestion_control(CongestionControl::Drop).allowed_destination(Locality::Remote).wait();
        (self.beat_at, self.beat_head) = (Instant::now(), self.head);
    }

    /// The server has not answered in time. Meanwhile nobody was heard, which is not the silence of the others.
    fn stood_still(&mut self) {
        let waited = self.pass_began.elapsed();
        for peer in self.peers.values_mut() {
            peer.heard += waited;
            peer.moved += waited;
        }
        self.pass_began = Instant::now();
        self.route
            .fail("the server of the group does not answer; asked again, and no other group waits for it");
    }

    /// Subscribes anew once the others take messages again, so that publishers wait for this end as before.
    fn promote_if_due(&mut self) -> Result<()> {
        let is_early = self.demoted_until.is_none_or(|until| Instant::now() < until);
        if is_early || self.is_resting() || self.is_window_full() {
            return Ok(());
        }
        let subscriber = match subscribe(&self.group, self.patience) {
            Err(Error::NoAnswer) => {
                self.demoted_until = Some(Instant::now() + DEMOTED_FOR);
                self.stood_still();
                return Ok(());
            }
            subscriber => subscriber?,
        };
        (self.doorbell, self.subscriber) = (doorbell_of(&subscriber)?, subscriber);
        self.demoted_until = None;
        self.read = self.subscriber.messages_before();
        self.lose_until(self.read);
        self.let_go();
        Ok(())
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.route.counters.peers.store(0, Ordering::Relaxed);
    }
}
