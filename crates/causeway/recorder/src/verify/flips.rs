//! Every bit of a recording is flipped, and every length tried that a kill may leave.

use std::collections::HashMap;
use std::io::Cursor;
use std::path::Path;

use mcap::records::{MessageHeader, Metadata, op};
use mcap::{Attachment, Compression, WriteOptions};

use super::{Check, Found};
use crate::args::Compress;
use crate::channels::{Kinds, Naming, Schema};
use crate::failure::Failure;
use crate::frames::Frame;
use crate::read::{End, Recording};
use crate::records::{Next, Records};
use crate::ring::{Batch, Ring, Stamp, Step};
use crate::write::{self, Plan};

/// What `verify` finds of bytes, and how many messages and losses.
fn verified(bytes: &[u8]) -> Result<(Found, u64, u64), Failure> {
    let path = Path::new("a.mcap");
    let mut check = Check::default();
    let found = check.file(path, Recording::of(path, Box::new(Cursor::new(bytes.to_vec()))))?;
    Ok((found, check.counts.messages, check.counts.lost))
}

/// A recording of a group, as the writing thread makes it: a number for each message of a topic, losses, steps of the clock, which each end a
/// chunk.
fn recorded(compression: Compress, steps: &[What]) -> Vec<u8> {
    let folder = causeway_testkit::temp_dir("flips");
    let path = folder.path().join("a.mcap");
    let schema = Schema { name: "Number".into(), encoding: "jsonschema", data: b"{}".as_slice().into() };
    let plan = Plan {
        path: path.clone(),
        naming: Naming {
            kinds: Kinds::Group,
            schemas: HashMap::from([(7, (schema, "json"))]),
            has_twins: false,
        },
        compression,
        sync: false,
        split: None,
        offset_ns: None,
        about: [("source", "group"), ("format", "1")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
    };
    let (ring, mut batch) = (Ring::new(1 << 20), Batch::default());
    let (mut position, mut sequence) = (640, 5);
    for (number, step) in steps.iter().enumerate() {
        let stamp = Stamp {
            log_ns: 1_700_000_000_000_000_000 + number as u64,
            publish_ns: 1_700_000_000_000_000_000,
        };
        batch.steps.push(match *step {
            What::Message(topic) => {
                let payload = format!("payload number {number} of topic {topic}");
                batch.payloads.extend_from_slice(payload.as_bytes());
                let frame = Frame { position, ..Frame::default() };
                let message = Step::Message { stamp, frame, sequence, topic, bytes: payload.len() };
                position += 64;
                sequence += 1;
                message
            }
            What::Lost(messages) => {
                position += 64 * messages;
                sequence += messages as u32;
                Step::Lost { stamp, messages, bytes: 64 * messages }
            }
            What::Chunk => Step::Clock { offset_ns: 3 },
        });
    }
    ring.push(batch);
    ring.end_of_reader();
    assert!(matches!(write::write(&plan, &ring), (_, None)));
    std::fs::read(path).unwrap()
}

#[derive(Clone, Copy)]
enum What {
    Message(u32),
    Lost(u64),
    Chunk,
}
use What::{Chunk, Lost, Message};

const SEVERAL: [What; 10] =
    [Message(0), Message(7), Message(0), Chunk, Lost(3), Chunk, Message(0), Message(300), Chunk, Message(7)];
const PLAIN: [What; 2] = [Message(0), Message(0)];

/// Offset, length and kind of each record.
fn records(bytes: &[u8]) -> Vec<(usize, usize, u8)> {
    let (mut records, mut found) = (Records::new(Box::new(Cursor::new(bytes.to_vec()))), Vec::new());
    while let Ok(Next::Record(raw)) = records.next() {
        found.push((raw.offset as usize, raw.bytes() as usize, raw.opcode));
    }
    found
}

/// The flips that `verify` does not report, as bytes.
fn unnoticed(bytes: &[u8], is_reported: impl Fn(&[u8]) -> bool) -> Vec<usize> {
    let mut bytes = bytes.to_vec();
    let mut unnoticed = Vec::new();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            bytes[at] ^= 1 << bit;
            if !is_reported(&bytes) && unnoticed.last() != Some(&at) {
                unnoticed.push(at);
            }
            bytes[at] ^= 1 << bit;
        }
    }
    unnoticed
}

#[test]
fn every_flipped_bit_of_a_whole_recording_is_damage() {
    for (compression, steps) in
        [(Compress::None, &SEVERAL[..]), (Compress::Lz4, &SEVERAL), (Compress::None, &PLAIN)]
    {
        let bytes = recorded(compression, steps);
        let (found, messages, lost) = verified(&bytes).unwrap();
        let expected = steps.iter().filter(|step| matches!(step, Message(_))).count() as u64;
        assert_eq!((found.end, messages), (End::Whole, expected));
        assert_eq!((lost > 0, found.unprotected.len()), (steps.len() > 2, 0));
        assert_eq!(unnoticed(&bytes, |bytes| verified(bytes).is_err()), [0; 0], "{} bytes", bytes.len());
    }
}

/// Bytes of the records of these kinds, without the first `head` of each.
fn within(bytes: &[u8], kinds: &[(u8, usize)]) -> impl Fn(&usize) -> bool {
    let ranges: Vec<_> = records(bytes)
        .into_iter()
        .filter_map(|(offset, length, opcode)| {
            let (_, head) = kinds.iter().find(|(kind, _)| *kind == opcode)?;
            Some(offset + head..offset + length)
        })
        .collect();
    move |at| ranges.iter().any(|range| range.contains(at))
}

#[test]
fn offsets_and_counts_are_compared_where_checksums_are_missing() {
    let mut bytes = recorded(Compress::None, &SEVERAL);
    for (offset, length, opcode) in records(&bytes) {
        let checksum = match opcode {
            op::DATA_END | op::FOOTER => offset + length - 4,
            // Behind the head of the record, two times and a size.
            op::CHUNK => offset + 9 + 24,
            _ => continue,
        };
        bytes[checksum..checksum + 4].fill(0);
    }
    let (found, ..) = verified(&bytes).unwrap();
    let parts = [
        "the records outside of chunks, such as header and metadata",
        "4 of 4 chunks",
        "the summary section",
    ];
    assert_eq!(found.unprotected, parts);
    // Strings and payloads, of which no other record says anything, and the contents of chunks.
    let is_free = within(&bytes, &[(op::HEADER, 9), (op::METADATA, 9), (op::CHUNK, 9 + 40)]);
    let noticed = unnoticed(&bytes, |bytes| verified(bytes).is_err());
    assert_eq!(noticed.iter().filter(|at| !is_free(at)).collect::<Vec<_>>(), [&0; 0]);
}

/// A flip in compressed contents may leave what they decompress to.
#[test]
fn every_flipped_bit_of_a_cut_recording_is_damage_or_without_meaning() {
    for (compression, free) in [
        (Compress::None, &[(op::HEADER, 9), (op::METADATA, 9)][..]),
        (Compress::Lz4, &[(op::HEADER, 9), (op::METADATA, 9), (op::CHUNK, 9 + 43)]),
    ] {
        check_cuts(&recorded(compression, &SEVERAL), free);
    }
}

fn check_cuts(whole: &[u8], free: &[(u8, usize)]) {
    let ends = records(whole)
        .into_iter()
        .filter(|(.., opcode)| *opcode == op::CHUNK)
        .map(|(at, length, _)| at + length);
    let ends: Vec<usize> = ends.collect();
    // Between a chunk and its indexes, and within a chunk.
    for end in [ends[1], ends[3] - 20] {
        let bytes = &whole[..end];
        let (found, messages, _) = verified(bytes).unwrap();
        let offset = records(bytes).last().map_or(0, |(at, length, _)| at + length);
        assert!(matches!(found.end, End::Early { offset: at, .. } if at == offset as u64));
        assert_eq!(found.unprotected, ["the records outside of chunks, such as header and metadata"]);
        assert_eq!(messages, if end == ends[1] { 3 } else { 5 });
        let is_free = within(bytes, free);
        let unnoticed = unnoticed(bytes, |bytes| verified(bytes).is_err());
        // What is left of the last record is not used.
        assert_eq!(unnoticed.iter().filter(|at| !is_free(at) && **at < offset).collect::<Vec<_>>(), [&0; 0]);
    }
}

#[test]
fn a_recording_cut_at_any_length_ends_early() {
    let bytes = recorded(Compress::Lz4, &SEVERAL);
    let of = |opcode| records(&bytes).into_iter().find(|record| record.2 == opcode).unwrap();
    let (about, data_end) = (of(op::METADATA), of(op::DATA_END));
    let mut last = 0;
    for length in 0..bytes.len() {
        match verified(&bytes[..length]) {
            Ok((found, messages, _)) => {
                assert!(length >= about.0 + about.1, "{length}");
                assert!(
                    matches!(found.end, End::Early { offset, .. } if offset <= length as u64),
                    "{length}"
                );
                assert!(messages >= last, "{length}: {messages} messages, {last} before");
                assert_eq!(found.has_all_data, length >= data_end.0 + data_end.1, "{length}");
                last = messages;
            }
            Err(failure) => {
                let why = if length == 0 { "it is empty" } else { "before it says what was recorded" };
                assert!(
                    failure.to_string().contains(why) && length < about.0 + about.1,
                    "{length}: {failure}"
                );
            }
        }
    }
    assert_eq!(last, 6);
}

/// A recording as other programs write it again, in chunks or not, with or without one part or another.
fn rewritten(options: WriteOptions) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = options.create(Cursor::new(&mut bytes)).unwrap();
    let metadata = [("source".to_owned(), "group".to_owned())].into();
    writer.write_metadata(&Metadata { name: "causeway".into(), metadata }).unwrap();
    let (name, media_type, data) = ("photo".to_owned(), "image/png".to_owned(), b"pixels".as_slice().into());
    writer.attach(&Attachment { log_time: 3, create_time: 2, name, media_type, data }).unwrap();
    let schema = writer.add_schema("Number", "jsonschema", b"{}").unwrap();
    let topic = writer.add_channel(schema, "/topic/0", "json", &Default::default()).unwrap();
    let frames = writer.add_channel(0, crate::frames::FRAMES, "", &Default::default()).unwrap();
    let header = |channel_id, sequence| MessageHeader { channel_id, sequence, log_time: 7, publish_time: 7 };
    for number in 0..2 {
        writer.write_to_known_channel(&header(topic, number), b"sixteen bytes...").unwrap();
        let mut entry = Vec::new();
        Frame { position: u64::from(number) * 64, ..Frame::default() }.append_to(&mut entry);
        writer.write_to_known_channel(&header(frames, number), &entry).unwrap();
    }
    writer.write_private_record(0x99, b"mine", Default::default()).unwrap();
    writer.finish().unwrap();
    drop(writer);
    bytes
}

#[test]
fn files_of_other_writers_are_accepted_and_their_gaps_named() {
    let plain = || WriteOptions::new().compression(None);
    let (records, chunks) = ("the records outside of chunks, such as header and metadata", "1 of 1 chunks");
    let summary = "the summary section";
    let without_checksums = |options: WriteOptions| {
        let options = options.calculate_chunk_crcs(false).calculate_attachment_crcs(false);
        options.calculate_data_section_crc(false).calculate_summary_section_crc(false)
    };
    for (options, unprotected) in [
        (plain(), vec![]),
        (plain().compression(Some(Compression::Lz4)), vec![]),
        (plain().use_chunks(false), vec![]),
        (plain().emit_message_indexes(false), vec![]),
        (
            plain().emit_chunk_indexes(false).emit_attachment_indexes(false).emit_metadata_indexes(false),
            vec![],
        ),
        (plain().emit_statistics(false).emit_summary_offsets(false), vec![]),
        (plain().repeat_channels(false).repeat_schemas(false), vec![]),
        (plain().emit_summary_records(false).emit_summary_offsets(false), vec![]),
        // The checksum of the section covers attachments.
        (plain().calculate_attachment_crcs(false), vec![]),
        (plain().calculate_data_section_crc(false), vec![records]),
        (plain().calculate_summary_section_crc(false), vec![summary]),
        (without_checksums(plain()), vec![records, chunks, "1 of 1 attachments", summary]),
    ] {
        let text = format!("{options:?}");
        let (found, messages, _) =
            verified(&rewritten(options)).unwrap_or_else(|failure| panic!("{text}: {failure}"));
        assert_eq!(
            (found.end, messages, found.unprotected),
            (End::Whole, 2, unprotected.iter().map(|part| (*part).to_owned()).collect()),
            "{text}"
        );
    }
}

#[test]
fn every_flipped_bit_of_an_attachment_is_damage() {
    for options in [WriteOptions::new().compression(None), WriteOptions::new().use_chunks(false)] {
        let bytes = rewritten(options);
        assert_eq!(unnoticed(&bytes, |bytes| verified(bytes).is_err()), [0; 0]);
    }
}
