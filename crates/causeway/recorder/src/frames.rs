//! What a file has beside the messages: where each stood in the log, and what was lost.
//!
//! A message of MCAP has no place for a position, and private records are dropped by many tools. So each chunk ends with
//! one message of [`FRAMES`], which has an entry of [`ENTRY_BYTES`] for every other message of the chunk, in order. A loss is a
//! message of [`LOSS`] where the messages are missing; it has no entry, nor has a twin ([`TWIN_OF`]).

use std::collections::BTreeMap;

/// The channel of positions.
pub const FRAMES: &str = "/causeway/frames";
/// The channel of losses.
pub const LOSS: &str = "/causeway/loss";
/// The metadata of a channel which says in JSON what another one says, whose name it has. Its messages have no entries.
pub const TWIN_OF: &str = "causeway.twin_of";
/// The name of the metadata with which each file begins.
pub const ABOUT: &str = "causeway";
/// The name of the metadata that say how far the clocks are apart from here on.
pub const CLOCK: &str = "causeway.clock";
/// The key in these of CLOCK_REALTIME less CLOCK_MONOTONIC.
pub const OFFSET: &str = "realtime_minus_monotonic_ns";

/// Bytes of an entry.
pub const ENTRY_BYTES: usize = 16;
/// Of this message only the header was recorded.
pub const HEADER_ONLY: u16 = 1;

/// What the channel says of its messages.
pub fn layout() -> BTreeMap<String, String> {
    let layout = "for each message of the chunk: position u64, epoch u32, slot u16, flags u16 (1: header only); little-endian";
    [("layout".to_owned(), layout.to_owned()), ("entry_bytes".to_owned(), ENTRY_BYTES.to_string())].into()
}

/// The schema of a loss, as JSON Schema.
pub const LOSS_SCHEMA: &str =
    r#"{"type":"object","properties":{"messages":{"type":"integer"},"bytes":{"type":"integer"}}}"#;

/// A loss as JSON.
pub fn loss(messages: u64, bytes: u64) -> String {
    format!(r#"{{"messages":{messages},"bytes":{bytes}}}"#)
}

/// Where a message stood.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Its position in the log: bytes for a group, entries for a bus.
    pub position: u64,
    /// The log of the group.
    pub epoch: u32,
    /// The publisher, or the member.
    pub slot: u16,
    /// [`HEADER_ONLY`].
    pub flags: u16,
}

impl Frame {
    pub fn append_to(self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.position.to_le_bytes());
        bytes.extend_from_slice(&self.epoch.to_le_bytes());
        bytes.extend_from_slice(&self.slot.to_le_bytes());
        bytes.extend_from_slice(&self.flags.to_le_bytes());
    }

    /// All entries of a message; `None` if its length is none.
    pub fn all_of(bytes: &[u8]) -> Option<Vec<Frame>> {
        let entry = |entry: &[u8]| {
            let [position, epoch, slot, flags] = [(0, 8), (8, 4), (12, 2), (14, 2)].map(|(at, length)| {
                let mut word = [0; 8];
                word[..length].copy_from_slice(&entry[at..at + length]);
                u64::from_le_bytes(word)
            });
            Frame { position, epoch: epoch as u32, slot: slot as u16, flags: flags as u16 }
        };
        let is_whole = bytes.len().is_multiple_of(ENTRY_BYTES);
        is_whole.then(|| bytes.chunks_exact(ENTRY_BYTES).map(entry).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_as_they_were_written_and_half_an_entry_is_none() {
        let frames = [
            Frame { position: u64::MAX - 1, epoch: 7, slot: 1023, flags: HEADER_ONLY },
            Frame { position: 64, epoch: u32::MAX, slot: 0, flags: 0 },
        ];
        let mut bytes = Vec::new();
        frames.iter().for_each(|frame| frame.append_to(&mut bytes));
        assert_eq!(Frame::all_of(&bytes).unwrap(), frames);
        assert_eq!(Frame::all_of(&bytes[..24]), None);
    }
}
