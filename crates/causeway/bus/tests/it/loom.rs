//! All interleavings of the order log's protocol that a model checker finds: `RUSTFLAGS="--cfg loom" cargo test -p causeway-bus
//! --release --test it`.

use causeway_bus::shared::atomic::{AtomicU32, AtomicU64, Ordering};
use causeway_bus::shared::ring::{
    self, BROADCAST, Cell, Entry, Heap, NotAppended, Sleep, append, arm, asleep, fence_after_append, look,
    mark_woken, raise_limit,
};
use loom::sync::Arc;
use loom::thread;

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

/// A member that goes to sleep has seen the entry, or its sender sees it asleep.
#[test]
fn no_wake_up_is_lost() {
    loom::model(|| {
        let heap = Member::new(2);
        let other = Arc::clone(&heap);
        let sender = thread::spawn(move || {
            append(&other.log, &mut 0, entry(1, 0), || false).unwrap();
            fence_after_append();
            // The wake-up itself would be here; the mark makes a member that does not sleep yet notice.
            asleep(&other.armed).is_some_and(|(value, _)| mark_woken(&other.armed, value))
        });
        let value = arm(&heap.armed, Sleep::Futex);
        let is_there = matches!(look(&heap.log, 0), Cell::Present(_));
        let was_woken = sender.join().unwrap();
        let may_sleep = heap.armed.load(Ordering::Relaxed) == value;
        assert!(is_there || was_woken && !may_sleep, "asleep beside an entry");
        ring::disarm(&heap.armed);
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
