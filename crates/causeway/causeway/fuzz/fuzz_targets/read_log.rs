//! A reader of an arbitrary log: `cargo +nightly fuzz run read_log` in `crates/causeway/causeway`.
//!
//! The input fills the granules of a small log and the words that publishers write. A reader may return anything,
//! but must neither panic, nor loop, nor report payloads above the limit.
#![no_main]

use causeway::log::atomic::Ordering;
use causeway::log::{HeapMemory, Memory, Peek, Reader};
use libfuzzer_sys::fuzz_target;

const CAPACITY: u64 = 1024;

fuzz_target!(|input: &[u8]| {
    let mut words = input.chunks_exact(8).map(|chunk| u64::from_le_bytes(chunk.try_into().unwrap()));
    let mut word = || words.next().unwrap_or(0);
    let memory = HeapMemory::new(CAPACITY, false);
    let tail = memory.tail();
    tail.limit.store(word(), Ordering::Relaxed);
    tail.floor.store(word(), Ordering::Relaxed);
    tail.mark_index.store(word(), Ordering::Relaxed);
    for mark in &tail.marks {
        mark.position.store(word(), Ordering::Relaxed);
        mark.messages.store(word(), Ordering::Relaxed);
    }
    for index in 0..(CAPACITY / 64) as usize {
        memory.poke(index, [word(), word(), word(), word()]);
    }
    let Ok(mut reader) = Reader::join(&memory) else { return };
    for _ in 0..1000 {
        match reader.peek() {
            Ok(Peek::Frame(frame)) => {
                assert!(u64::from(frame.payload_bytes) <= CAPACITY / 4 && frame.end > frame.position);
                let mut bytes = vec![0; frame.payload_bytes as usize];
                reader.copy(&frame, &mut bytes);
                reader.advance(&frame);
            }
            Ok(Peek::Lost(loss)) => assert!(loss.bytes > 0),
            Ok(Peek::Empty(_) | Peek::Sealed) | Err(_) => return,
        }
    }
});
