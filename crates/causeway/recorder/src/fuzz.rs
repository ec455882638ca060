//! Fuzzing of recordings: the input is a file.

use std::fs;

use causeway_testkit::{fuzz, temp_dir};
use mcap::{MAGIC, MessageStream};

use crate::frames::{FRAMES, LOSS, TWIN_OF};
use crate::read::{Item, Recording};

/// How many messages of others the library of MCAP reads; nothing of a file that it does not take as a whole.
fn messages_by_library(file: &[u8]) -> Option<usize> {
    let mut count = 0;
    for message in MessageStream::new(file).ok()? {
        let channel = message.ok()?.channel;
        let is_own =
            [FRAMES, LOSS].contains(&channel.topic.as_str()) || channel.metadata.contains_key(TWIN_OF);
        count += usize::from(!is_own);
    }
    file.ends_with(MAGIC).then_some(count)
}

#[test]
fn file_of_any_bytes_is_a_recording_or_refused_with_its_name() {
    let folder = temp_dir("recording");
    let path = folder.path().join("a.mcap");
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/recording");
    fuzz::run(corpus, &["\u{5}", "\0\0\0\0\0\0\0\0", "/causeway/frames", "/causeway/loss", "lz4"], |input| {
        fs::write(&path, input).unwrap();
        let (mut items, mut messages, mut bytes) = (0, 0, 0);
        let read = Recording::open(&path).and_then(|mut recording| {
            let read = recording.for_each(|item| {
                items += 1;
                if let Item::Message { data, .. } = item {
                    messages += 1;
                    bytes += data.len();
                }
                Ok(())
            });
            read.map(drop)
        });
        match read {
            Ok(()) => {
                let by_library = messages_by_library(input);
                assert!(
                    by_library.is_none_or(|count| count == messages),
                    "{messages} of {by_library:?} messages"
                );
                Ok((items.min(20), messages.min(20), bytes.min(256) / 16))
            }
            Err(failure) => {
                let text = failure.to_string();
                let (file, why) = text.split_once(": ").unwrap_or_default();
                assert!(file.ends_with("a.mcap") && !why.is_empty(), "{text}");
                Err(why.replace(char::is_numeric, ""))
            }
        }
    });
}
