//! The protocol on heap memory, with threads that run freely: for Miri, which checks every access against the memory
//! model and draws schedules and stale values at random, and natively for long runs.
//!
//! `MIRIFLAGS=-Zmiri-many-seeds=0..2 cargo +nightly miri test -p causeway-ipc --test it -- threads:: --skip neighbors::`
//!
//! `CAUSEWAY_THREAD_MESSAGES` sets how many messages each publisher sends.

use std::sync::atomic::{AtomicU64, Ordering};

use causeway::log::{Claimed, HeapMemory, Kind, Label, Memory, Peek, Reader, Writer, server};

const CAPACITY: u64 = 1024;

fn messages() -> u64 {
    let short = if cfg!(miri) { 16 } else { 20_000 };
    crate::common::setting("CAUSEWAY_THREAD_MESSAGES", short)
}

/// The lowest of the cursors of subscribers that hold space.
fn lowest(cursors: &[AtomicU64]) -> u64 {
    cursors.iter().map(|cursor| cursor.load(Ordering::Acquire)).min().unwrap_or(u64::MAX)
}

/// What `owner` sends as its message `number`: of varying length, all bytes known.
fn payload(owner: u8, number: u64) -> Vec<u8> {
    let length = (number * 13 + u64::from(owner) * 29) % (CAPACITY / 4 + 1);
    (0..length).map(|at| (at as u8) ^ (number as u8) ^ owner).collect()
}

/// Publishes everything; every seventh claim is given up.
fn publish(memory: &HeapMemory, kind: Kind, owner: u8, cursors: &[AtomicU64]) {
    let mut writer = Writer::new(memory, kind, owner);
    for number in 0..messages() {
        let bytes = payload(owner, number);
        // A claim that was given up is followed by another one.
        let mut gives_up = number.is_multiple_of(7) && bytes.len() % 2 == 1;
        loop {
            match writer.claim(bytes.len(), &mut || lowest(cursors)).unwrap() {
                Claimed::At(claim) if std::mem::take(&mut gives_up) => writer.abandon(claim).unwrap(),
                Claimed::At(claim) => {
                    memory.write_payload(claim.position, &bytes);
                    writer.commit(claim, Label { topic: number as u32, correlation: number }).unwrap();
                    break;
                }
                Claimed::Full | Claimed::Contended => std::thread::yield_now(),
                Claimed::Sealed => unreachable!("this log does not end"),
            }
        }
    }
}

/// Receives until `expected` messages have come or were lost. Returns positions, owners and numbers of what came.
fn receive(memory: &HeapMemory, cursor: Option<&AtomicU64>, expected: u64) -> Vec<(u64, u8, u32)> {
    let mut reader = Reader::join(memory).unwrap();
    let mut seen = Vec::new();
    let mut next = [0; 4];
    while reader.messages_before() < expected {
        match reader.peek().unwrap() {
            Peek::Frame(frame) => {
                let mut bytes = vec![0; frame.payload_bytes as usize];
                if !reader.copy(&frame, &mut bytes) {
                    assert!(cursor.is_none(), "a subscriber that holds space was overtaken");
                    continue;
                }
                let number = u64::from(frame.topic);
                assert_eq!((frame.sequence, frame.correlation), (frame.topic, number));
                assert!(bytes == payload(frame.publisher, number), "message {number} is torn");
                let own = &mut next[usize::from(frame.publisher)];
                assert!(number >= *own && (cursor.is_none() || number == *own), "{number} after {own}");
                *own = number + 1;
                seen.push((frame.position, frame.publisher, frame.topic));
                reader.advance(&frame);
                if let Some(cursor) = cursor {
                    cursor.store(reader.position(), Ordering::Release);
                }
            }
            Peek::Lost(loss) => assert!(cursor.is_none(), "a subscriber that holds space lost {loss:?}"),
            Peek::Empty(_) => {
                // It may have moved over padding.
                if let Some(cursor) = cursor {
                    cursor.store(reader.position(), Ordering::Release);
                }
                std::thread::yield_now();
            }
            Peek::Sealed => unreachable!("this log does not end"),
        }
    }
    seen
}

fn run(kind: Kind, publishers: u8) {
    let memory = HeapMemory::new(CAPACITY, kind == Kind::Single);
    let cursors = [AtomicU64::new(0), AtomicU64::new(0)];
    let expected = messages() * u64::from(publishers);
    let (memory, cursors) = (&memory, &cursors);
    let (whole, partial) = std::thread::scope(|scope| {
        let whole = [0, 1].map(|index| scope.spawn(move || receive(memory, Some(&cursors[index]), expected)));
        let partial = scope.spawn(move || receive(memory, None, expected));
        for owner in 0..publishers {
            scope.spawn(move || publish(memory, kind, owner, cursors));
        }
        (whole.map(|subscriber| subscriber.join().unwrap()), partial.join().unwrap())
    });
    assert_eq!(whole[0].len() as u64, expected);
    assert_eq!(whole[0], whole[1], "two subscribers saw different orders");
    // What the third one saw is what it did not lose of the same.
    let mut rest = whole[0].iter();
    assert!(
        partial.iter().all(|seen| rest.any(|other| other == seen)),
        "a lossy subscriber saw another order"
    );
}

#[test]
fn a_log_of_one_publisher_keeps_its_order_for_threads() {
    run(Kind::Single, 1);
}

#[test]
fn a_shared_log_keeps_one_order_for_threads() {
    run(Kind::Shared, 3);
}

/// Frames of a publisher that is taken for dead are decided once, while others go on.
#[test]
fn frames_given_up_by_another_thread_are_decided_once() {
    let rounds = if cfg!(miri) { 10 } else { 2_000 };
    for _ in 0..rounds {
        let memory = HeapMemory::new(CAPACITY, false);
        let (committed, padded) = std::thread::scope(|scope| {
            let mut writer = Writer::new(&memory, Kind::Shared, 0);
            let Claimed::At(claim) = writer.claim(8, &mut || u64::MAX).unwrap() else { unreachable!() };
            let settling = scope.spawn(|| server::settle(&memory, 0).unwrap());
            memory.write_payload(claim.position, &[7; 8]);
            (writer.commit(claim, Label::default()).is_ok(), settling.join().unwrap())
        });
        assert_eq!(committed, !padded);
    }
}
