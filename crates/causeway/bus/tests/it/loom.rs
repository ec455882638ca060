//! All interleavings of the order log's protocol that a model checker finds: `RUSTFLAGS="--cfg loom" cargo test -p causeway-bus
//! --release --test it`.

use causeway_bus::shared::atomic::{AtomicU32, AtomicU64, Ordering};
use causeway_bus::shared::ring::{
    self, BROADCAST, Cell, Entry, Heap, NotAppended, Sleep, append, arm, asleep, before_sleep, end_sleeps,
    fence_after_append, floor_after_copy, look, raise_floor, raise_limit,
};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use std::cell::Cell as StdCell;

struct Member {
    log: Heap,
    cursor: AtomicU64,
    armed: AtomicU32,
    /// What an outbox holds: one word for each place.
    payload: [AtomicU64; 2],
}

impl Member {
    fn new(capacity: u64) -> Arc<Member> {
        Arc::new(Member {
            log: Heap::new(capacity),
            cursor: AtomicU64::new(0),
            armed: AtomicU32::new(0),
            payload: [0, 0].map(AtomicU64::new),
        })
    }
}

fn entry(sender: u16, place: u32) -> Entry {
    Entry { sender, destination: BROADCAST, place }
}

/// Two members send two messages each: all four are in the log, those of each in its order.
#[test]
fn entries_of_two_members_are_all_there_in_their_order() {
    loom::model(|| {
        let heap = Member::new(4);
        let other = Arc::clone(&heap);
        let send = |heap: &Member, sender| {
            let mut end = 0;
            [1, 2].map(|place| append(&heap.log, &mut end, entry(sender, place), || false).unwrap())
        };
        let thread = thread::spawn(move || send(&other, 1));
        let (ours, theirs) = (send(&heap, 2), thread.join().unwrap());
        assert!(ours[0] < ours[1] && theirs[0] < theirs[1]);
        for (sender, positions) in [(2, ours), (1, theirs)] {
            for (place, position) in positions.into_iter().enumerate() {
                assert_eq!(look(&heap.log, position), Cell::Present(entry(sender, place as u32 + 1)));
            }
        }
    });
}

/// A member reads each entry and its message before both are overwritten: space is free only behind its cursor.
#[test]
fn nothing_is_overwritten_before_it_was_read() {
    loom::model(|| {
        let heap = Member::new(2);
        let other = Arc::clone(&heap);
        let sender = thread::spawn(move || {
            let mut end = 0;
            for place in 0..3_u32 {
                // The outbox holds two messages: the third takes the space of the first.
                while place == 2 && other.cursor.load(Ordering::Acquire) < 1 {
                    thread::yield_now();
                }
                other.payload[place as usize % 2].store(u64::from(place) + 10, Ordering::Relaxed);
                loop {
                    match append(&other.log, &mut end, entry(1, place), || false) {
                        Ok(_) => break,
                        Err(NotAppended::Full) => {
                            raise_limit(&other.log, other.cursor.load(Ordering::Acquire));
                            thread::yield_now();
                        }
                        Err(wrong) => panic!("{wrong:?}"),
                    }
                }
            }
        });
        for position in 0..3_u64 {
            loop {
                match look(&heap.log, position) {
                    Cell::Present(found) => {
                        assert_eq!(found, entry(1, position as u32));
                        let message = heap.payload[position as usize % 2].load(Ordering::Relaxed);
                        assert_eq!(message, position + 10, "the message of entry {position} was overwritten");
                        break heap.cursor.store(position + 1, Ordering::Release);
                    }
                    Cell::Free(_) => thread::yield_now(),
                    Cell::Foreign(word) => panic!("{word:#x}"),
                }
            }
        }
        sender.join().unwrap();
    });
}

/// What the kernel does for members that sleep on the word of their group: it compares the word and queues the thread under one lock, under
/// which others wake. A thread that nobody wakes is a deadlock, which the model reports.
#[derive(Default)]
struct Futex {
    /// Bits of the threads in the queue.
    queued: Mutex<u32>,
    woken: Condvar,
    /// A doorbell, and whether it is readable.
    is_rung: Mutex<bool>,
    rung: Condvar,
}

impl Futex {
    fn wait(&self, group: &AtomicU32, value: u32, bit: u32) {
        let mut queued = self.queued.lock().unwrap();
        if group.load(Ordering::Relaxed) != value {
            return;
        }
        *queued |= bit;
        while *queued & bit != 0 {
            queued = self.woken.wait(queued).unwrap();
        }
    }

    fn wake(&self, bits: u32) {
        *self.queued.lock().unwrap() &= !bits;
        self.woken.notify_all();
    }

    fn ring(&self) {
        *self.is_rung.lock().unwrap() = true;
        self.rung.notify_all();
    }

    fn drain(&self) {
        *self.is_rung.lock().unwrap() = false;
    }

    fn poll(&self) {
        let mut is_rung = self.is_rung.lock().unwrap();
        while !*is_rung {
            is_rung = self.rung.wait(is_rung).unwrap();
        }
    }
}

struct Sleeper {
    member: Arc<Member>,
    group: Arc<AtomicU32>,
    futex: Arc<Futex>,
    has_ended: Arc<AtomicU32>,
}

impl Sleeper {
    fn new() -> Sleeper {
        let zero = || Arc::new(AtomicU32::new(0));
        Sleeper { member: Member::new(2), group: zero(), futex: Arc::default(), has_ended: zero() }
    }

    fn share(&self) -> Sleeper {
        let (member, group) = (Arc::clone(&self.member), Arc::clone(&self.group));
        Sleeper { member, group, futex: Arc::clone(&self.futex), has_ended: Arc::clone(&self.has_ended) }
    }

    fn is_ready(&self) -> bool {
        let is_there = matches!(look(&self.member.log, 0), Cell::Present(_));
        is_there || self.has_ended.load(Ordering::Acquire) == 1
    }

    /// As a member does it: announced, looked once more, slept.
    fn sleep_until_ready(&self) {
        while !self.is_ready() {
            let before = before_sleep(&self.group);
            arm(&self.member.armed, Sleep::Futex);
            if !self.is_ready() {
                self.futex.wait(&self.group, before, 1);
            }
            ring::disarm(&self.member.armed);
        }
    }

    fn wake(&self) {
        if let Some((value, _)) = asleep(&self.member.armed) {
            end_sleeps(&self.group, || self.futex.wake(1), std::iter::once((&self.member.armed, value)));
        }
    }

    /// As [`Sleeper::wake`], of a member in an event loop.
    fn ring(&self, dies_before_its_mark: bool) {
        if let Some((value, _)) = asleep(&self.member.armed) {
            self.futex.ring();
            if !dies_before_its_mark {
                ring::mark_awake(&self.member.armed, value);
            }
        }
    }

    fn append(&self) {
        append(&self.member.log, &mut 0, entry(1, 0), || false).unwrap();
        fence_after_append();
    }
}

/// A member that goes to sleep has seen the entry, or its sender wakes it, wherever between its announcement and its sleep it is.
#[test]
fn no_wake_up_is_lost() {
    loom::model(|| {
        let sleeper = Sleeper::new();
        let other = sleeper.share();
        let sender = thread::spawn(move || {
            other.append();
            other.wake();
        });
        sleeper.sleep_until_ready();
        sender.join().unwrap();
    });
}

/// The same for the end of the bus, which is told by a word beside the log, and by nobody after that.
#[test]
fn no_end_is_slept_through() {
    loom::model(|| {
        let sleeper = Sleeper::new();
        let other = sleeper.share();
        let watcher = thread::spawn(move || {
            other.has_ended.store(1, Ordering::SeqCst);
            loom::sync::atomic::fence(Ordering::SeqCst);
            other.wake();
        });
        sleeper.sleep_until_ready();
        watcher.join().unwrap();
    });
}

/// A sender that is killed before its wake-up, or between that and its mark, leaves the member announced, and the authority, which sees its
/// death, wakes it. It does what a sender does, and is dead from a moment of its wake-up on: what comes after that has no effect.
#[test]
fn a_sender_that_dies_before_its_mark_leaves_nobody_asleep() {
    for has_woken in [false, true] {
        loom::model(move || {
            let sleeper = Sleeper::new();
            let (other, authority) = (sleeper.share(), sleeper.share());
            let sender = thread::spawn(move || {
                other.append();
                let is_dead = StdCell::new(false);
                if let Some((value, _)) = asleep(&other.member.armed) {
                    let wake = || {
                        if has_woken {
                            other.futex.wake(1);
                        }
                        is_dead.set(true);
                    };
                    let marks = std::iter::once((&other.member.armed, value)).filter(|_| !is_dead.get());
                    end_sleeps(&other.group, wake, marks);
                }
            });
            let authority = thread::spawn(move || {
                sender.join().unwrap();
                fence_after_append();
                authority.wake();
            });
            sleeper.sleep_until_ready();
            authority.join().unwrap();
        });
    }
}

/// A member in an event loop: the sender rings, then marks. It may be stopped in between, and die there; the next one rings again.
#[test]
fn one_that_waits_for_its_doorbell_is_rung() {
    for dies_before_its_mark in [false, true] {
        loom::model(move || {
            let sleeper = Sleeper::new();
            let (other, authority) = (sleeper.share(), sleeper.share());
            let sender = thread::spawn(move || {
                other.append();
                other.ring(dies_before_its_mark);
            });
            let authority = thread::spawn(move || {
                sender.join().unwrap();
                fence_after_append();
                authority.ring(false);
            });
            while !sleeper.is_ready() {
                // As `prepare_to_wait`: what was rung before is taken away before the sleep is announced, never after.
                sleeper.futex.drain();
                ring::disarm(&sleeper.member.armed);
                arm(&sleeper.member.armed, Sleep::Doorbell);
                if !sleeper.is_ready() {
                    sleeper.futex.poll();
                }
                ring::disarm(&sleeper.member.armed);
            }
            authority.join().unwrap();
        });
    }
}

/// Two members find at once that the bus is broken: the first one says so, and all who sleep learn it.
#[test]
fn nobody_sleeps_through_the_end_of_a_broken_bus() {
    let mut model = loom::model::Builder::new();
    // Three threads: all schedules would take hours.
    model.preemption_bound = Some(3);
    model.check(|| {
        let sleeper = Sleeper::new();
        let threads = [1, 2].map(|_| {
            let other = sleeper.share();
            thread::spawn(move || {
                let exchange = other.has_ended.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire);
                fence_after_append();
                other.wake();
                exchange.is_ok()
            })
        });
        sleeper.sleep_until_ready();
        let firsts = threads.map(|thread| thread.join().unwrap());
        assert_eq!(firsts.into_iter().filter(|is_first| *is_first).count(), 1);
    });
}

/// A message was overwritten although it was for this reader: then the reader knows that it was evicted, and not that the bus is broken.
#[test]
fn who_finds_its_message_overwritten_knows_that_it_was_evicted() {
    loom::model(|| {
        let heap = Member::new(2);
        let (evictor, sender) = (Arc::clone(&heap), Arc::clone(&heap));
        // The armed word stands for the word of evictions, the cursor for the floor.
        let evictor = thread::spawn(move || evictor.armed.store(1, Ordering::SeqCst));
        let sender = thread::spawn(move || {
            if sender.armed.load(Ordering::Relaxed) == 1 {
                raise_floor(&sender.cursor, 1);
                sender.payload[0].store(7, Ordering::Relaxed);
            }
        });
        let copied = heap.payload[0].load(Ordering::Relaxed);
        let floor = floor_after_copy(|ordering| heap.cursor.load(ordering));
        assert!(copied == 0 || floor == 1, "a later message passes for this one");
        if floor == 1 {
            assert_eq!(heap.armed.load(Ordering::Relaxed), 1, "the bus is taken for broken");
        }
        evictor.join().unwrap();
        sender.join().unwrap();
    });
}

/// A member that was evicted adds no entry behind the announcement of its end.
#[test]
fn no_entry_follows_the_end_of_its_sender() {
    loom::model(|| {
        let heap = Member::new(4);
        let other = Arc::clone(&heap);
        let stopped = thread::spawn(move || {
            append(&other.log, &mut 0, entry(1, 0), || other.armed.load(Ordering::Relaxed) == 1)
        });
        // The state, then the announcement, as the authority does it.
        heap.armed.store(1, Ordering::Relaxed);
        let end = append(&heap.log, &mut 0, entry(0, 0), || false).unwrap();
        if let Ok(position) = stopped.join().unwrap() {
            assert!(position < end, "an entry at {position} behind the end at {end}");
        }
    });
}
