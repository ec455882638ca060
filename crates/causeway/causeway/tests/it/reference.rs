//! The log against a queue that is obviously right, and against bytes that are obviously wrong.

use std::collections::VecDeque;

use causeway::log::{Claimed, Gate, HeapMemory, Kind, Label, Memory, Peek, Reader, Writer};
use proptest::prelude::*;

/// What happens next.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Publisher `by` publishes `bytes`.
    Publish { by: usize, bytes: usize },
    /// Publisher `by` claims and gives up.
    GiveUp { by: usize, bytes: usize },
    /// Receiver `by` takes up to `count` messages.
    Receive { by: usize, count: usize },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..2usize, 0..129usize).prop_map(|(by, bytes)| Step::Publish { by, bytes }),
        1 => (0..2usize, 0..129usize).prop_map(|(by, bytes)| Step::GiveUp { by, bytes }),
        3 => (0..3usize, 0..6usize).prop_map(|(by, count)| Step::Receive { by, count }),
    ]
}

/// The first subscribers hold space; the last one does not.
const HOLDING: usize = 2;

struct Cursors<'a>(&'a [u64]);

impl Gate for Cursors<'_> {
    fn subscriber_changes(&mut self) -> u64 {
        0
    }
    fn lowest(&mut self) -> u64 {
        self.0.iter().copied().min().unwrap_or(u64::MAX)
    }
}

/// The reference: every message ever published, and how far each subscriber is.
#[derive(Default)]
struct Model {
    messages: Vec<Vec<u8>>,
    taken: [usize; 3],
}

fn payload(number: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (number * 31 + at) as u8).collect()
}

/// Receiver `by` takes one message; false when there is none.
fn take(reader: &mut Reader<&HeapMemory>, model: &mut Model, by: usize) -> Result<bool, TestCaseError> {
    match reader.peek().unwrap() {
        Peek::Frame(frame) => {
            let mut bytes = vec![0; frame.payload_bytes as usize];
            prop_assert!(reader.copy(&frame, &mut bytes));
            prop_assert_eq!(&bytes, &model.messages[model.taken[by]]);
            reader.advance(&frame);
            model.taken[by] += 1;
            Ok(true)
        }
        Peek::Lost(loss) => {
            prop_assert!(by >= HOLDING, "a subscriber that holds space lost {loss:?}");
            model.taken[by] += loss.messages as usize;
            Ok(true)
        }
        Peek::Empty(owner) => {
            prop_assert_eq!((owner, model.taken[by]), (None, model.messages.len()));
            Ok(false)
        }
        Peek::Sealed => Err(TestCaseError::fail("this log was not sealed")),
    }
}

fn run(kind: Kind, steps: &[Step]) -> Result<(), TestCaseError> {
    let memory = HeapMemory::new(512, kind == Kind::Single);
    let mut writers = [0, 1].map(|owner| Writer::new(&memory, kind, owner));
    let mut readers: Vec<_> = (0..3).map(|_| Reader::join(&memory).unwrap()).collect();
    let mut model = Model::default();
    for step in steps {
        let cursors: Vec<u64> = readers[..HOLDING].iter().map(Reader::position).collect();
        match *step {
            Step::Publish { by, bytes } | Step::GiveUp { by, bytes } => {
                let by = if kind == Kind::Single { 0 } else { by };
                match writers[by].claim(bytes, &mut Cursors(&cursors)).unwrap() {
                    Claimed::At(claim) if matches!(step, Step::GiveUp { .. }) => {
                        writers[by].abandon(claim).unwrap()
                    }
                    Claimed::At(claim) => {
                        let payload = payload(model.messages.len(), bytes);
                        memory.write_payload(claim.position, &payload);
                        writers[by].commit(claim, Label::default()).unwrap();
                        model.messages.push(payload);
                    }
                    Claimed::Full => prop_assert!(
                        cursors.iter().any(|cursor| *cursor < readers_end(&memory)),
                        "full although every subscriber has read everything"
                    ),
                    other => return Err(TestCaseError::fail(format!("{other:?}"))),
                }
            }
            Step::Receive { by, count } => {
                for _ in 0..count {
                    if !take(&mut readers[by], &mut model, by)? {
                        break;
                    }
                }
            }
        }
    }
    for (by, reader) in readers.iter_mut().enumerate() {
        while take(reader, &mut model, by)? {}
    }
    Ok(())
}

/// Position behind the last frame.
fn readers_end(memory: &HeapMemory) -> u64 {
    let mut reader = Reader::join(memory).unwrap();
    reader.skip_to_end().unwrap();
    reader.position()
}

/// `PROPTEST_CASES` sets it.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(1000)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_log_of_one_publisher_is_a_queue_for_every_subscriber(steps in prop::collection::vec(step(), 0..120)) {
        run(Kind::Single, &steps)?;
    }

    #[test]
    fn a_shared_log_is_a_queue_for_every_subscriber(steps in prop::collection::vec(step(), 0..120)) {
        run(Kind::Shared, &steps)?;
    }

    /// Arbitrary bytes where a log should be: a reader returns something, in bounded time, and reads nothing else.
    #[test]
    fn a_reader_of_arbitrary_bytes_comes_to_an_end(
        granules in prop::collection::vec((0..8u64, any::<u32>(), 0..3u32, any::<[u64; 3]>()), 1..8),
        limit in prop_oneof![Just(u64::MAX), any::<u64>(), 0..1024u64],
        floor in prop_oneof![Just(0), any::<u64>(), 0..1024u64],
        marks in any::<[u64; 4]>(),
        small in any::<bool>(),
    ) {
        use causeway::log::atomic::Ordering;
        let memory = HeapMemory::new(512, false);
        for (index, (state, middle, lap, meta)) in granules.iter().enumerate() {
            // Mostly states and laps that exist, so that the reader gets somewhere.
            let middle = if small { u64::from(middle % 4) << 9 } else { u64::from(*middle) & !7 };
            let header = state | middle | (u64::from(*lap) << 32);
            memory.poke(index, [header, meta[0] % 256, meta[1], meta[2]]);
        }
        let tail = memory.tail();
        tail.limit.store(limit, Ordering::Relaxed);
        tail.floor.store(floor, Ordering::Relaxed);
        tail.mark_index.store(marks[0], Ordering::Relaxed);
        tail.marks[0].position.store(if small { marks[1] % 1024 } else { marks[1] }, Ordering::Relaxed);
        tail.marks[0].messages.store(marks[3], Ordering::Relaxed);
        tail.marks[1].position.store(marks[2] & !63, Ordering::Relaxed);
        let Ok(mut reader) = Reader::join(&memory) else { return Ok(()) };
        for _ in 0..100 {
            match reader.peek() {
                Ok(Peek::Frame(frame)) => {
                    prop_assert!(u64::from(frame.payload_bytes) <= 512 / 4);
                    prop_assert!(frame.end > frame.position);
                    let mut bytes = vec![0; frame.payload_bytes as usize];
                    reader.copy(&frame, &mut bytes);
                    reader.advance(&frame);
                }
                Ok(Peek::Lost(loss)) => prop_assert!(loss.bytes > 0),
                Ok(Peek::Empty(_) | Peek::Sealed) | Err(_) => break,
            }
        }
    }
}

/// The queue of the model is never consulted out of order: a check of the check.
#[test]
fn the_reference_notices_a_message_that_is_not_the_next() {
    let memory = HeapMemory::new(512, true);
    let mut writer = Writer::new(&memory, Kind::Single, 0);
    let Claimed::At(claim) = writer.claim(1, &mut Cursors(&[])).unwrap() else {
        panic!("an empty log has room")
    };
    memory.write_payload(claim.position, b"x");
    writer.commit(claim, Label::default()).unwrap();
    let mut model = Model { messages: VecDeque::from([b"y".to_vec()]).into(), ..Model::default() };
    assert!(take(&mut Reader::join(&memory).unwrap(), &mut model, 0).is_err());
}
