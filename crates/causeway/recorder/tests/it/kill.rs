//! A recorder that is killed at any instant leaves a file that can be read.

use std::time::Duration;

use causeway::GroupOptions;
use causeway_testkit::{Rng, setting};

use crate::support::{Served, contents, has_mcap, mcap, number, payload, publish_now, verified};

/// What a chunk holds at most, compressed or not, with its index.
const CHUNK_BYTES: u64 = 2 << 20;

#[test]
fn a_recorder_killed_at_any_instant_loses_the_end_and_nothing_before() {
    let (mut random, has_mcap) = (Rng::new(), has_mcap());
    for kill in 0..setting("CAUSEWAY_RECORD_KILLS", 20) {
        let served = Served::new(GroupOptions::new().capacity_bytes(1 << 22));
        let mut running = served.record("a.mcap", if kill % 2 == 0 { &[] } else { &["--sync"] });
        let mut publisher = served.group().publisher().unwrap();
        // In bytes as in time: some end in a chunk of 250 ms, some between two of 1 MiB.
        let (messages, bytes, pause) = (random.u64(1..6000), random.usize(8..3000), random.u64(0..3));
        for number in 0..messages {
            publish_now(&mut publisher, &payload(number, bytes));
            if number % 64 == 0 {
                std::thread::sleep(Duration::from_micros(pause * 100));
            }
        }
        let received = served.group().report().unwrap().subscribers[0].received;
        running.kill();
        let case = format!("{messages} messages of {bytes} bytes, {received} received");

        let found = contents(served.path("a.mcap"));
        assert!(
            found.messages.iter().map(number).eq(0..found.messages.len() as u64) || found.lost > 0,
            "{case}"
        );
        // Chunks are written whole: all that is there says where it stood.
        assert_eq!(found.messages.len(), found.frames.len(), "{case}");
        assert!(!found.is_whole, "{case}: it was killed, and the file has an end");
        let (code, counts) = verified(&[&served.path("a.mcap")]);
        let counts = counts.unwrap_or_else(|why| panic!("{case}: {why}"));
        assert_eq!((code, &counts["messages"]), (1, &found.messages.len().into()), "{case}");
        let tail = tail_bytes(&served.path("a.mcap"));
        assert!(tail < CHUNK_BYTES, "{case}: {tail} bytes of the file are no whole record");
        if !has_mcap {
            continue;
        }
        let (file, saved) = (served.path("a.mcap"), served.path("saved.mcap"));
        let recovered = mcap(&["recover", &file, "-o", &saved]);
        // 3 says that something was cut off.
        assert!(matches!(recovered.status.code(), Some(0 | 3)), "{case}: {recovered:?}");
        let again = contents(&saved);
        assert!(again.is_whole && again.messages == found.messages && again.frames == found.frames, "{case}");
    }
}

/// Bytes behind the last whole record of a file.
fn tail_bytes(path: &str) -> u64 {
    let bytes = std::fs::read(path).unwrap();
    let mut at = mcap::MAGIC.len();
    while let Some(head) = bytes.get(at..at + 9) {
        let length = u64::from_le_bytes(head[1..].try_into().unwrap());
        match usize::try_from(length).ok().and_then(|length| (at + 9).checked_add(length)) {
            Some(end) if end <= bytes.len() => at = end,
            _ => break,
        }
    }
    (bytes.len() - at) as u64
}
