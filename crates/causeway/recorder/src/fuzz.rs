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

#[test]
fn make() {
    use mcap::records::{MessageHeader, Metadata};
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/recording");
    fs::create_dir_all(dir).unwrap();
    let options = mcap::WriteOptions::new;
    let plain = || {
        options()
            .compression(None)
            .calculate_chunk_crcs(false)
            .calculate_data_section_crc(false)
            .calculate_summary_section_crc(false)
    };
    for (name, options, finish) in [
        ("chunks", plain(), true),
        ("no-chunks", plain().use_chunks(false), true),
        ("lz4", options().compression(Some(mcap::Compression::Lz4)), true),
        ("lz4-unchecked", plain().compression(Some(mcap::Compression::Lz4)), true),
        (
            "bare",
            plain().emit_summary_records(false).emit_summary_offsets(false).emit_message_indexes(false),
            true,
        ),
        ("cut", plain(), false),
    ] {
        let mut out = std::io::Cursor::new(Vec::new());
        let mut writer = options.library("t").create(&mut out).unwrap();
        writer
            .write_metadata(&Metadata {
                name: crate::frames::ABOUT.into(),
                metadata: [("source".to_owned(), "group".to_owned())].into(),
            })
            .unwrap();
        let schema = writer.add_schema("N", "jsonschema", b"{}").unwrap();
        let frames = writer.add_channel(0, FRAMES, "", &Default::default()).unwrap();
        let loss = writer.add_channel(0, LOSS, "json", &Default::default()).unwrap();
        let topic = writer
            .add_channel(schema, "/topic/7", "json", &[("topic".to_owned(), "7".to_owned())].into())
            .unwrap();
        let twin = writer
            .add_channel(schema, "/json/x", "json", &[(TWIN_OF.to_owned(), "x".to_owned())].into())
            .unwrap();
        let header = |channel_id, sequence| MessageHeader {
            channel_id,
            sequence,
            log_time: 5 + u64::from(sequence),
            publish_time: 5,
        };
        for chunk in 0..2 {
            let mut entries = Vec::new();
            for number in 0..2 {
                let sequence = chunk * 2 + number;
                writer.write_to_known_channel(&header(topic, sequence), b"payload").unwrap();
                writer.write_to_known_channel(&header(twin, sequence), b"{}").unwrap();
                crate::frames::Frame { position: u64::from(sequence) * 64, epoch: 0, slot: 0, flags: 0 }
                    .append_to(&mut entries);
            }
            writer.write_to_known_channel(&header(loss, 1), crate::frames::loss(1, 2).as_bytes()).unwrap();
            writer.write_to_known_channel(&header(frames, chunk), &entries).unwrap();
            writer.flush().unwrap();
        }
        if finish {
            writer.finish().unwrap();
        }
        std::mem::forget(writer);
        let mut bytes = out.into_inner();
        if !finish {
            bytes.truncate(bytes.len() - 20);
        }
        fs::write(format!("{dir}/{name}"), bytes).unwrap();
    }
}
