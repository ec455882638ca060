//! The log against a queue that is obviously right.

use causeway::log::{Claimed, HeapMemory, Kind, Label, Memory, Peek, Reader, Writer};
use proptest::prelude::*;

use crate::common::setting;

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
        let lowest = readers[..HOLDING].iter().map(Reader::position).min().unwrap();
        match *step {
            Step::Publish { by, bytes } | Step::GiveUp { by, bytes } => {
                let by = if kind == Kind::Single { 0 } else { by };
                match writers[by].claim(bytes, &mut || lowest).unwrap() {
                    Claimed::At(claim) if matches!(step, Step::GiveUp { .. }) => {
                        writers[by].abandon(claim).unwrap()
                    }
                    Claimed::At(claim) => {
                        let payload = payload(model.messages.len(), bytes);
                        memory.write_payload(claim.position, &payload);
                        writers[by].commit(claim, Label::default()).unwrap();
                        model.messages.push(payload);
                    }
                    Claimed::Full => {
                        prop_assert!(lowest < end(&memory), "full although all have read everything");
                    }
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
fn end(memory: &HeapMemory) -> u64 {
    let mut reader = Reader::join(memory).unwrap();
    reader.skip_to_end().unwrap();
    reader.position()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: setting("PROPTEST_CASES", 1000) as u32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_log_of_one_publisher_is_a_queue_for_every_subscriber(steps in prop::collection::vec(step(), 0..120)) {
        run(Kind::Single, &steps)?;
    }

    #[test]
    fn a_shared_log_is_a_queue_for_every_subscriber(steps in prop::collection::vec(step(), 0..120)) {
        run(Kind::Shared, &steps)?;
    }
}

/// The queue of the model is never consulted out of order: a check of the check.
#[test]
fn the_reference_notices_a_message_that_is_not_the_next() {
    let memory = HeapMemory::new(512, true);
    let mut writer = Writer::new(&memory, Kind::Single, 0);
    let Claimed::At(claim) = writer.claim(1, &mut || u64::MAX).unwrap() else { panic!("it is empty") };
    memory.write_payload(claim.position, b"x");
    writer.commit(claim, Label::default()).unwrap();
    let mut model = Model { messages: vec![b"y".to_vec()], ..Model::default() };
    assert!(take(&mut Reader::join(&memory).unwrap(), &mut model, 0).is_err());
}
