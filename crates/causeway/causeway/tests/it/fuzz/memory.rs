//! Fuzzing of the log in shared memory: each input is what other processes leave there. A reader, a publisher and the server return
//! something in bounded time, and read nothing else.
//!
//! The first byte is the kind of log; images of its words follow, each of which replaces the one before while a reader reads.

use causeway::log::atomic::Ordering::Relaxed;
use causeway::log::{HeapMemory, Kind, Memory, Peek, Reader, Writer, server};
use causeway_testkit::fuzz;

const CAPACITY: u64 = 1024;
const GRANULES: usize = CAPACITY as usize / 64;
const IMAGE_BYTES: usize = 8 * (9 + 4 * GRANULES);

/// Writes an image into the log. Missing words become 0.
fn load(memory: &HeapMemory, image: &[u8]) {
    let mut words = image.chunks(8).map(|bytes| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    });
    let mut word = || words.next().unwrap_or(0);
    let tail = memory.tail();
    for shared in [&tail.limit, &tail.floor, &tail.hint, &tail.mark_index] {
        shared.store(word(), Relaxed);
    }
    for mark in &tail.marks {
        mark.position.store(word(), Relaxed);
        mark.messages.store(word(), Relaxed);
    }
    tail.publishers[0].claim.store(word(), Relaxed);
    for index in 0..GRANULES {
        memory.poke(index, [word(), word(), word(), word()]);
    }
}

/// Reads as far as there is something. The position grows with every step, so that this comes to an end. Returns what was found.
fn read(reader: &mut Reader<&HeapMemory>) -> [usize; 3] {
    let mut found = [0; 3];
    for _ in 0..4 * GRANULES {
        let before = reader.position();
        match reader.peek() {
            Ok(Peek::Frame(frame)) => {
                assert!(u64::from(frame.payload_bytes) <= CAPACITY / 4, "{frame:?}");
                assert!(frame.end > frame.position && frame.end - frame.position <= CAPACITY, "{frame:?}");
                let mut bytes = vec![0; frame.payload_bytes as usize];
                reader.copy(&frame, &mut bytes);
                reader.advance(&frame);
                assert!(reader.position() > before);
                found[0] += 1;
            }
            Ok(Peek::Lost(loss)) => {
                assert!(loss.bytes > 0 && reader.position() > before);
                found[1] += 1;
            }
            Ok(Peek::Empty(_) | Peek::Sealed) => return found,
            Err(_) => {
                found[2] += 1;
                return found;
            }
        }
    }
    found
}

#[test]
fn damaged_log_is_a_message_a_loss_nothing_or_an_error() {
    fuzz::run(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/log"), &[], |input| {
        let Some((kind, images)) = input.split_first() else { return Vec::new() };
        let kind = if kind % 2 == 0 { Kind::Single } else { Kind::Shared };
        let memory = HeapMemory::new(CAPACITY, kind == Kind::Single);
        let mut writer = Writer::new(&memory, kind, 0);
        let mut early = None;
        let mut found = Vec::new();
        for image in images.chunks(IMAGE_BYTES).take(4) {
            load(&memory, image);
            // One reader was there before, one comes now.
            found.extend(early.iter_mut().map(read));
            let late = Reader::join(&memory).ok();
            found.extend(late.map(|mut late| {
                // In damaged memory it may fail, and the reader stays where it is.
                let _ = late.skip_to_end();
                read(&mut late)
            }));
            early = early.or_else(|| Reader::join(&memory).ok());
            found.extend(early.iter_mut().map(read));
        }
        let claimed = writer.claim(100, &mut || u64::MAX);
        // As the server does it for a dead publisher.
        let settled = (kind == Kind::Shared).then(|| server::settle(&memory, 0).is_ok());
        let ended = (kind == Kind::Shared).then(|| server::end_log(&memory).is_ok());
        let is_fine = |result: Option<bool>| usize::from(result == Some(true));
        found.push([100 + usize::from(claimed.is_ok()), is_fine(settled), is_fine(ended)]);
        found
    });
}
