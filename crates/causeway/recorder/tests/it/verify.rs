//! Files that `verify` must not accept.

use std::collections::BTreeMap;

use mcap::records::{MessageHeader, Metadata};

use crate::support::{TempDir, temp_dir, verified};

/// A recording of a group: number, position and time of each message, with losses of so many messages.
enum Step {
    Message { sequence: u32, position: u64, log_ns: u64 },
    Lost(u64),
}
use Step::{Lost, Message};

fn written(folder: &TempDir, steps: &[Step]) -> String {
    let path = folder.path().join(format!("{}.mcap", steps.as_ptr() as usize)).to_str().unwrap().to_owned();
    let mut writer =
        mcap::WriteOptions::new().compression(None).create(std::fs::File::create(&path).unwrap()).unwrap();
    let about = [("source".to_owned(), "group".to_owned())].into();
    writer.write_metadata(&Metadata { name: "causeway".into(), metadata: about }).unwrap();
    let none = BTreeMap::new();
    let [topic, frames, loss] = ["/topic/0", "/causeway/frames", "/causeway/loss"]
        .map(|topic| writer.add_channel(0, topic, "", &none).unwrap());
    let (mut entries, mut last_ns) = (Vec::new(), 0);
    let header = |channel_id, sequence, log_time| MessageHeader {
        channel_id,
        sequence,
        log_time,
        publish_time: log_time,
    };
    for step in steps {
        match *step {
            Message { sequence, position, log_ns } => {
                writer.write_to_known_channel(&header(topic, sequence, log_ns), b"sixteen bytes...").unwrap();
                entries.extend_from_slice(&position.to_le_bytes());
                entries.extend_from_slice(&[0; 8]);
                last_ns = log_ns;
            }
            Lost(messages) => {
                let text = format!(r#"{{"messages":{messages},"bytes":0}}"#);
                writer.write_to_known_channel(&header(loss, 0, last_ns), text.as_bytes()).unwrap();
            }
        }
    }
    writer.write_to_known_channel(&header(frames, 0, last_ns), &entries).unwrap();
    let _ = writer.finish().unwrap();
    path
}

fn message(sequence: u32, position: u64, log_ns: u64) -> Step {
    Message { sequence, position, log_ns }
}

#[test]
fn what_is_missing_must_be_counted_as_lost() {
    let folder = temp_dir("recorder");
    let outcome = |steps: &[Step]| {
        let (code, counts) = verified(&[&written(&folder, steps)]);
        (code, counts.err().unwrap_or_default())
    };
    assert_eq!(outcome(&[message(5, 640, 1), message(6, 704, 1)]).0, 0);
    // A publisher may have left something unfinished: nobody's number is missing.
    assert_eq!(outcome(&[message(5, 640, 1), message(6, 1024, 1)]).0, 0);
    assert_eq!(outcome(&[message(5, 640, 1), Lost(3), message(9, 1024, 1)]).0, 1);
    let (code, why) = outcome(&[message(5, 640, 1), message(9, 1024, 1)]);
    assert!(
        code == 3 && why.contains("3 messages of publisher 0") && why.contains("only 0 counted"),
        "{code}: {why}"
    );
    let (code, why) = outcome(&[message(5, 640, 1), Lost(2), message(9, 1024, 1)]);
    assert!(code == 3 && why.contains("only 2 counted"), "{code}: {why}");
    let (code, why) = outcome(&[message(5, 640, 1), message(6, 640, 1)]);
    assert!(code == 3 && why.contains("position 640 of log 0 comes after 640"), "{code}: {why}");
    let (code, why) = outcome(&[message(5, 640, 7), message(6, 704, 6)]);
    assert!(code == 3 && why.contains("log_time goes back"), "{code}: {why}");
}

#[test]
fn a_file_that_is_no_recording_is_called_that() {
    let folder = temp_dir("recorder");
    let path = folder.path().join("text").to_str().unwrap().to_owned();
    std::fs::write(&path, "a text that is long enough to be looked at").unwrap();
    let (code, why) = verified(&[&path]);
    assert!(code == 3 && why.as_ref().is_err_and(|why| why.contains("no MCAP file")), "{code}: {why:?}");
    let mut writer = mcap::Writer::new(std::fs::File::create(&path).unwrap()).unwrap();
    let _ = writer.finish().unwrap();
    let (code, why) = verified(&[&path]);
    assert!(
        code == 3 && why.as_ref().is_err_and(|why| why.contains("no recording of causeway-record")),
        "{code}: {why:?}"
    );
    let (code, why) = verified(&["/nowhere/at-all"]);
    assert!(code == 3 && why.as_ref().is_err_and(|why| why.contains("/nowhere/at-all")), "{code}: {why:?}");
}

/// Offset and length of the last record of a kind, by the head of each: kind and length.
fn last_record(bytes: &[u8], kind: u8) -> (usize, usize) {
    let (mut at, mut found) = (8, None);
    while let Some(head) = bytes.get(at..at + 9).filter(|_| at + 8 < bytes.len()) {
        let length = 9 + u64::from_le_bytes(head[1..].try_into().unwrap()) as usize;
        if head[0] == kind {
            found = Some((at, length));
        }
        at += length;
    }
    found.unwrap()
}

#[test]
fn an_index_that_leads_elsewhere_is_damage() {
    const CHUNK_INDEX: u8 = 8;
    let folder = temp_dir("recorder");
    let path = written(&folder, &[message(5, 640, 1), message(6, 704, 1)]);
    let mut bytes = std::fs::read(&path).unwrap();
    let (index, _) = last_record(&bytes, CHUNK_INDEX);
    bytes[index + 9 + 16] ^= 4;
    std::fs::write(&path, &bytes).unwrap();
    let (code, why) = verified(&[&path]);
    let why = why.unwrap_err();
    assert!(
        code == 3 && why.contains(&format!("ChunkIndex at byte {index}: chunk_start_offset is ")),
        "{code}: {why}"
    );
    assert!(why.contains("every message can be read") && why.contains("mcap recover"), "{why}");
}

#[test]
fn a_recording_that_ends_early_is_told_from_a_damaged_one() {
    const DATA_END: u8 = 15;
    let folder = temp_dir("recorder");
    let path = written(&folder, &[message(5, 640, 1), message(6, 704, 1)]);
    let bytes = std::fs::read(&path).unwrap();
    let (data_end, length) = last_record(&bytes, DATA_END);
    let said = |length: usize| {
        std::fs::write(&path, &bytes[..length]).unwrap();
        let output = crate::support::recorder(&["verify", &path]).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    let (code, text) = said(data_end + 3);
    assert_eq!((code, text.lines().count()), (1, 3), "{text}");
    assert!(text.contains(&format!("ends early, in the DataEnd at byte {data_end}: ")), "{text}");
    assert!(text.contains("has no checksum for the records outside of chunks"), "{text}");
    let (code, text) = said(data_end + length);
    assert!(code == 1 && text.contains("Every message is there, and the index is missing"), "{code}: {text}");
    let (code, text) = said(0);
    assert!(code == 3 && text.contains("it is empty: nothing was recorded into it"), "{code}: {text}");
    let (code, text) = said(20);
    assert!(
        code == 3 && text.contains("it ends at byte 8, before it says what was recorded"),
        "{code}: {text}"
    );
}

#[test]
fn a_byte_that_has_changed_is_noticed() {
    let folder = temp_dir("recorder");
    let path = written(&folder, &[message(5, 640, 1), message(6, 704, 1)]);
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(16).position(|bytes| bytes == b"sixteen bytes...").unwrap();
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let (code, why) = verified(&[&path]);
    assert!(code == 3 && why.as_ref().is_err_and(|why| why.contains("damaged")), "{code}: {why:?}");
}
