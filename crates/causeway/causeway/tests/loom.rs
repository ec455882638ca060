//! Model of the log and its wake-up protocol: every schedule of a few threads on a ring of a few frames.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p causeway-ipc --release --test loom`. loom explores all interleavings
//! with a bounded number of preemptions, and the values that weak memory allows.
#![cfg(loom)]

#[expect(dead_code, unused_imports, reason = "the model does not need all of it")]
#[path = "../src/log/mod.rs"]
mod log;
#[path = "loom/sleep.rs"]
mod sleep;

use log::atomic::{AtomicU32, Ordering};
use log::layout::SubscriberWords;
use log::wait::{self, Notes, WaitTarget, Waiter, WaitingSubscriber};
use log::{Claimed, Gate, HeapMemory, Kind, Label, Memory, Peek, Reader, Writer, server};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread::{self, JoinHandle};

/// Everything that the processes of a group share.
struct Shared {
    memory: HeapMemory,
    subscribers: [SubscriberWords; 2],
    /// Subscribers that hold space.
    gating: usize,
    kernel: Kernel,
}

/// What the kernel does for threads that sleep: it compares the words and queues the thread under one lock, under which others wake. A bit
/// stands for each of them, so that a wake-up for one ends no sleep of another. A thread that nobody wakes is a deadlock, which the model
/// reports.
#[derive(Default)]
struct Kernel {
    /// The queued threads, and the doorbells that are readable, by their subscribers.
    state: Mutex<(u32, u32)>,
    woken: Condvar,
}

/// The thread of a publisher that waits for space; those of subscribers have the bits of their slots.
const PUBLISHER: u32 = 16;

impl Kernel {
    /// FUTEX_WAIT: sleeps if the words still have their values.
    fn wait(&self, still: impl Fn() -> bool, bit: u32) {
        let mut state = self.state.lock().unwrap();
        if !still() {
            return;
        }
        state.0 |= 1 << bit;
        while state.0 & 1 << bit != 0 {
            state = self.woken.wait(state).unwrap();
        }
    }

    fn wake(&self, bits: u32) {
        self.state.lock().unwrap().0 &= !bits;
        self.woken.notify_all();
    }

    fn ring(&self, slot: usize) {
        self.state.lock().unwrap().1 |= 1 << slot;
        self.woken.notify_all();
    }

    /// Waits until a doorbell is readable.
    fn poll(&self, slot: usize) {
        let mut state = self.state.lock().unwrap();
        while state.1 & 1 << slot == 0 {
            state = self.woken.wait(state).unwrap();
        }
    }

    fn drain(&self, slot: usize) {
        self.state.lock().unwrap().1 &= !(1 << slot);
    }
}

impl Shared {
    fn new(capacity: u64, single: bool, gating: usize) -> Arc<Shared> {
        Arc::new(Shared {
            memory: HeapMemory::new(capacity, single),
            subscribers: Default::default(),
            gating,
            kernel: Kernel::default(),
        })
    }

    /// Wakes those of the first `readers` subscribers that wait, as one who has committed, or the server.
    fn wake(&self, wake_seq: &AtomicU32, readers: usize) {
        let mut sleeping: Vec<Sleeping<'_>> =
            (0..readers).map(|slot| Sleeping { slot, shared: self, notes: Notes::default() }).collect();
        wait::wake_waiters(wake_seq, &mut sleeping, None, |_| self.wake_shared());
    }

    /// Wakes those on the word that all share.
    fn wake_shared(&self) -> bool {
        self.kernel.wake(SHARED_FUTEX);
        true
    }
}

/// Where the subscribers in these slots sleep.
const TARGETS: [WaitTarget; 2] = [WaitTarget::SharedFutex, WaitTarget::OwnFutex];
/// The bits of those that sleep on the word of all.
const SHARED_FUTEX: u32 = 1;

struct Sleeping<'a> {
    slot: usize,
    shared: &'a Shared,
    notes: Notes,
}

impl WaitingSubscriber for Sleeping<'_> {
    fn words(&self) -> &SubscriberWords {
        &self.shared.subscribers[self.slot]
    }
    fn ring_doorbell(&mut self) -> bool {
        self.shared.kernel.ring(self.slot);
        true
    }
    fn wake_own_futex(&mut self) -> bool {
        self.shared.kernel.wake(1 << self.slot);
        true
    }
    fn notes(&mut self) -> &mut Notes {
        &mut self.notes
    }
}

impl Shared {
    /// The lowest cursor of the subscribers that hold space.
    fn lowest(&self) -> u64 {
        let gating = self.subscribers[..self.gating].iter();
        gating.map(|subscriber| subscriber.cursor.load(Ordering::Acquire)).min().unwrap_or(u64::MAX)
    }

    fn claim(&self, writer: &mut Writer<&HeapMemory>) -> Claimed {
        writer.claim(8, &mut || self.lowest()).unwrap()
    }
}

/// Does `work` in a thread of its own.
fn spawn<S: 'static, T: 'static>(shared: &Arc<S>, work: impl FnOnce(&S) -> T + 'static) -> JoinHandle<T> {
    let shared = Arc::clone(shared);
    thread::spawn(move || work(&shared))
}

/// Publishes one word; sleeps on the first subscriber's cursor while the log is full.
fn publish(shared: &Shared, writer: &mut Writer<&HeapMemory>, value: u64, readers: usize) {
    let tail = shared.memory.tail();
    let mut waiting = false;
    let claim = loop {
        let cursor = shared.subscribers[0].cursor.load(Ordering::Acquire);
        match shared.claim(writer) {
            Claimed::At(claim) => break claim,
            Claimed::Full if waiting => {
                let still = || shared.subscribers[0].cursor.load(Ordering::Acquire) == cursor;
                shared.kernel.wait(still, PUBLISHER);
            }
            Claimed::Full => {
                wait::await_space(tail, writer.owner());
                waiting = true;
            }
            Claimed::Contended => thread::yield_now(),
            Claimed::Sealed => unreachable!(),
        }
    };
    if waiting {
        wait::stop_awaiting_space(tail, writer.owner());
    }
    shared.memory.write_payload(claim.position, &value.to_le_bytes());
    writer.commit(claim, Label::default()).unwrap();
    shared.wake(&tail.wake_seq, readers);
}

/// Receives `count` messages, sleeping whenever there is none. Returns positions and values.
fn receive(shared: &Shared, slot: usize, count: usize) -> Vec<(u64, u64)> {
    let mut seen = Vec::new();
    receive_on(shared, slot, TARGETS[slot], |message| {
        seen.extend(message);
        seen.len() < count
    });
    seen
}

/// Takes messages for as long as `goes_on` says, and tells it of each, and of the end of the log. Sleeps whenever there is none.
fn receive_on(
    shared: &Shared,
    slot: usize,
    target: WaitTarget,
    mut goes_on: impl FnMut(Option<(u64, u64)>) -> bool,
) {
    let (tail, mine) = (shared.memory.tail(), &shared.subscribers[slot]);
    let mut reader = Reader::join(&shared.memory).unwrap();
    let mut sleeper = Waiter::new();
    loop {
        match reader.peek().unwrap() {
            Peek::Frame(frame) => {
                sleeper.disarm(mine);
                let mut word = [0; 8];
                assert!(reader.copy(&frame, &mut word), "a subscriber that holds space was overtaken");
                reader.advance(&frame);
                let capacity = shared.memory.capacity_bytes();
                if wait::advance_cursor(tail, mine, capacity, (frame.position, frame.end), || {}) {
                    shared.kernel.wake(1 << PUBLISHER);
                }
                if !goes_on(Some((frame.position, u64::from_le_bytes(word)))) {
                    return;
                }
            }
            Peek::Empty(_) if target == WaitTarget::Doorbell => {
                // As in an event loop: what was rung before is taken away before the wait is announced, never after.
                shared.kernel.drain(slot);
                let _ = sleeper.arm(&tail.wake_seq, mine, target);
                if matches!(reader.peek().unwrap(), Peek::Empty(_)) {
                    shared.kernel.poll(slot);
                }
                sleeper.disarm(mine);
            }
            Peek::Empty(_) => {
                // Of two subscribers, one sleeps on the word of all and one on its own; the kernel compares both words.
                let armed = sleeper.arm(&tail.wake_seq, mine, target);
                if matches!(reader.peek().unwrap(), Peek::Empty(_)) {
                    let still = || {
                        (target == WaitTarget::SharedFutex || mine.arm.load(Ordering::Relaxed) == armed.arm)
                            && tail.wake_seq.load(Ordering::Acquire) == armed.wake_seq
                    };
                    shared.kernel.wait(still, slot as u32);
                }
                sleeper.disarm(mine);
            }
            Peek::Sealed if !goes_on(None) => return,
            other => unreachable!("{other:?}"),
        }
    }
}

fn model(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    // A script that has no minutes for it takes fewer.
    let most = std::env::var("CAUSEWAY_LOOM_PREEMPTIONS").ok().and_then(|most| most.parse().ok());
    builder.preemption_bound = Some(preemptions.min(most.unwrap_or(usize::MAX)));
    builder.max_branches = 20_000;
    builder.check(body);
}

/// Two publishers, two subscribers that sleep: none sleeps for ever, and all see one order.
#[test]
fn two_publishers_and_two_sleeping_subscribers_agree_on_one_order() {
    model(2, || {
        let shared = Shared::new(256, false, 2);
        let other = spawn(&shared, |shared| {
            publish(shared, &mut Writer::new(&shared.memory, Kind::Shared, 1), 101, 2);
        });
        let subscriber = spawn(&shared, |shared| receive(shared, 1, 2));
        let mut writer = Writer::new(&shared.memory, Kind::Shared, 0);
        publish(&shared, &mut writer, 100, 2);
        let mine = receive(&shared, 0, 2);
        other.join().unwrap();
        assert_eq!(subscriber.join().unwrap(), mine);
        assert_eq!(mine.iter().map(|seen| seen.0).collect::<Vec<_>>(), [0, 64]);
    });
}

/// One publisher laps a ring of four frames; the subscriber holds space and both sleep when they must.
#[test]
fn a_single_publisher_waits_for_a_subscriber_that_holds_space() {
    model(3, || {
        let shared = Shared::new(256, true, 1);
        let subscriber = spawn(&shared, |shared| receive(shared, 0, 5));
        let mut writer = Writer::new(&shared.memory, Kind::Single, 0);
        for value in 0..5 {
            publish(&shared, &mut writer, value, 1);
        }
        let seen = subscriber.join().unwrap();
        assert_eq!(seen, (0..5).map(|n| (n * 64, n)).collect::<Vec<_>>());
    });
}

/// The same in a shared log, where space is stamped before it is claimed.
#[test]
fn a_shared_log_is_lapped_without_losing_a_message_of_a_subscriber_that_holds_space() {
    model(1, || {
        let shared = Shared::new(128, false, 1);
        let subscriber = spawn(&shared, |shared| receive(shared, 0, 3));
        let other = spawn(&shared, |shared| {
            publish(shared, &mut Writer::new(&shared.memory, Kind::Shared, 1), 7, 1);
        });
        let mut writer = Writer::new(&shared.memory, Kind::Shared, 0);
        for _ in 0..2 {
            publish(&shared, &mut writer, 7, 1);
        }
        other.join().unwrap();
        let seen = subscriber.join().unwrap();
        assert_eq!(seen, (0..3).map(|n| (n * 64, 7)).collect::<Vec<_>>());
    });
}

/// A subscriber that holds no space reads only whole messages, in order, and its losses add up.
fn overrun(kind: Kind) {
    let shared = Shared::new(128, kind == Kind::Single, 0);
    let publisher = spawn(&shared, move |shared| {
        let mut writer = Writer::new(&shared.memory, kind, 0);
        (0..4).for_each(|value| publish(shared, &mut writer, value, 0));
    });
    let mut reader = Reader::join(&shared.memory).unwrap();
    let read_some = |reader: &mut Reader<&HeapMemory>, peeks: usize| {
        for _ in 0..peeks {
            match reader.peek().unwrap() {
                Peek::Frame(frame) => {
                    let mut word = [0; 8];
                    if reader.copy(&frame, &mut word) {
                        let value = u64::from_le_bytes(word);
                        assert_eq!(value, frame.position / 64, "a torn message passed for whole");
                        // The words beside the payload are no atomics of the model (they would multiply the schedules); the
                        // payload stands for them: all are written between the same two fences.
                        reader.advance(&frame);
                    }
                }
                Peek::Lost(loss) => assert_eq!(loss.bytes, loss.messages * 64),
                Peek::Empty(_) => thread::yield_now(),
                Peek::Sealed => unreachable!(),
            }
        }
    };
    read_some(&mut reader, 2);
    publisher.join().unwrap();
    read_some(&mut reader, 4);
    assert_eq!((reader.position(), reader.messages_before()), (256, 4));
}

#[test]
fn a_lossy_subscriber_of_a_single_publisher_never_takes_a_torn_message_for_whole() {
    model(3, || overrun(Kind::Single));
}

#[test]
fn a_lossy_subscriber_of_a_shared_log_never_takes_a_torn_message_for_whole() {
    model(2, || overrun(Kind::Shared));
}

/// A publisher that is taken for dead and one that goes on: the frame is decided once, either way.
#[test]
fn a_frame_is_decided_once_when_its_owner_commits_while_it_is_given_up() {
    model(3, || {
        let shared = Shared::new(256, false, 0);
        let mut writer = Writer::new(&shared.memory, Kind::Shared, 0);
        let Claimed::At(claim) = shared.claim(&mut writer) else { unreachable!() };
        let server = spawn(&shared, |shared| server::settle(&shared.memory, 0).unwrap());
        shared.memory.write_payload(claim.position, &1u64.to_le_bytes());
        let committed = writer.commit(claim, Label::default()).is_ok();
        let padded = server.join().unwrap();
        assert_eq!(committed, !padded);
        assert_eq!(server::published(&shared.memory), u64::from(committed));
        let mut reader = Reader::join(&shared.memory).unwrap();
        match reader.peek().unwrap() {
            Peek::Frame(_) => assert!(committed),
            Peek::Empty(None) => assert!(!committed && reader.position() == 64),
            other => unreachable!("{other:?}"),
        }
    });
}

/// A subscriber that joins while space is freed: either the publisher knows it, or it starts where nothing is freed.
#[test]
fn a_subscriber_that_joins_while_space_is_freed_is_not_overtaken() {
    struct Joining<'a> {
        shared: &'a Shared,
        known: u64,
    }
    impl Gate for Joining<'_> {
        fn subscriber_changes(&mut self) -> u64 {
            self.known = self.shared.subscribers[1].cursor.load(Ordering::Acquire);
            self.known
        }
        fn lowest(&mut self) -> u64 {
            match self.known {
                0 => u64::MAX,
                _ => self.shared.subscribers[0].cursor.load(Ordering::Acquire),
            }
        }
    }
    model(3, || {
        let shared = Shared::new(128, false, 1);
        let mut writer = Writer::new(&shared.memory, Kind::Shared, 0);
        for value in 0..2 {
            publish_through(&shared, &mut writer, value, &mut Joining { shared: &shared, known: 0 });
        }
        let joiner = spawn(&shared, |shared| {
            // The second page's cursor plays the part of the status page: subscriber 0 is registered.
            shared.subscribers[1].cursor.store(1, Ordering::Release);
            let mut reader = Reader::join(&shared.memory).unwrap();
            shared.subscribers[0].cursor.store(reader.position(), Ordering::Release);
            if let Peek::Lost(loss) = reader.peek().unwrap() {
                panic!("a registered subscriber lost {loss:?}");
            }
        });
        for value in 2..4 {
            publish_through(&shared, &mut writer, value, &mut Joining { shared: &shared, known: 0 });
        }
        joiner.join().unwrap();
    });

    fn publish_through(shared: &Shared, writer: &mut Writer<&HeapMemory>, value: u64, gate: &mut impl Gate) {
        if let Claimed::At(claim) = writer.claim(8, gate).unwrap() {
            shared.memory.write_payload(claim.position, &value.to_le_bytes());
            writer.commit(claim, Label::default()).unwrap();
        }
    }
}

/// The server ends a log and begins the next one there, while a publisher publishes twice.
#[test]
fn messages_before_and_after_the_end_of_a_log_have_one_order_and_are_there_once() {
    const NOT_BEGUN: u64 = u64::MAX;
    model(3, || {
        let logs = Arc::new((Shared::new(256, false, 0), Shared::new(512, false, 0)));
        let start = Arc::new(loom::sync::atomic::AtomicU64::new(NOT_BEGUN));
        let publisher = {
            let start = Arc::clone(&start);
            spawn(&logs, move |logs| {
                let mut writer = Writer::new(&logs.0.memory, Kind::Shared, 0);
                for _ in 0..2 {
                    let claim = loop {
                        match logs.0.claim(&mut writer) {
                            Claimed::At(claim) => break claim,
                            Claimed::Sealed => {}
                            other => unreachable!("{other:?}"),
                        }
                        while start.load(Ordering::Acquire) == NOT_BEGUN {
                            thread::yield_now();
                        }
                        writer.continue_in(&logs.1.memory);
                    };
                    writer.commit(claim, Label::default()).unwrap();
                }
            })
        };
        let (old, new) = (&logs.0.memory, &logs.1.memory);
        let end = server::end_log(old).unwrap();
        server::begin(new, Kind::Shared, Some(old), end);
        start.store(end, Ordering::Release);
        publisher.join().unwrap();
        let mut reader = Reader::join(old).unwrap();
        let (mut sequences, mut position) = (Vec::new(), 0);
        let mut take = |reader: &mut Reader<&HeapMemory>| loop {
            match reader.peek().unwrap() {
                Peek::Frame(frame) => {
                    assert!(frame.position >= position);
                    (sequences, position) = ([&sequences[..], &[frame.sequence]].concat(), frame.end);
                    reader.advance(&frame);
                }
                ended => break ended,
            }
        };
        assert_eq!(take(&mut reader), Peek::Sealed);
        assert_eq!(reader.position(), end);
        let mut reader = Reader::begin(new, end, 0);
        assert_eq!(take(&mut reader), Peek::Empty(None));
        assert_eq!(sequences, [0, 1]);
        server::carry_counts(old, new);
        assert_eq!(server::published(new), 2);
        assert!(server::is_finished(old));
    });
}

#[test]
fn the_message_of_the_only_publisher_is_before_the_end_that_it_writes() {
    model(3, || {
        let shared = Shared::new(256, true, 0);
        let publisher = spawn(&shared, |shared| {
            let mut writer = Writer::new(&shared.memory, Kind::Single, 0);
            let Claimed::At(claim) = shared.claim(&mut writer) else { unreachable!() };
            writer.commit(claim, Label::default()).unwrap();
            assert_eq!(writer.end_log(), 64);
        });
        let mut reader = Reader::join(&shared.memory).unwrap();
        let mut received = 0;
        loop {
            match reader.peek().unwrap() {
                Peek::Frame(frame) => {
                    received += 1;
                    reader.advance(&frame);
                }
                Peek::Sealed => break assert_eq!((received, reader.position()), (1, 64)),
                Peek::Empty(_) => thread::yield_now(),
                other => unreachable!("{other:?}"),
            }
        }
        publisher.join().unwrap();
    });
}

#[test]
fn a_message_is_before_the_end_of_a_log_or_refused() {
    model(3, || {
        let shared = Shared::new(256, false, 0);
        let publisher = spawn(&shared, |shared| {
            let mut writer = Writer::new(&shared.memory, Kind::Shared, 0);
            match shared.claim(&mut writer) {
                Claimed::At(claim) => writer.commit(claim, Label::default()).is_ok(),
                Claimed::Sealed => false,
                other => unreachable!("{other:?}"),
            }
        });
        server::end_log(&shared.memory).unwrap();
        let published = publisher.join().unwrap();
        let mut reader = Reader::join(&shared.memory).unwrap();
        match reader.peek().unwrap() {
            Peek::Frame(frame) => {
                assert!(published);
                reader.advance(&frame);
            }
            Peek::Sealed => assert!(!published),
            other => unreachable!("{other:?}"),
        }
        assert_eq!(reader.peek().unwrap(), Peek::Sealed);
    });
}
