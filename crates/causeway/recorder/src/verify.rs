//! Whether every message of a recording is there, or counted as lost.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use serde_json::json;

use crate::args::VerifyArguments;
use crate::failure::{Failure, Outcome};
use crate::frames::{Frame, HEADER_ONLY};
use crate::read::{End, Item, Recording};
use crate::structure::Structure;

/// What a frame of a log takes beside its payload, and the unit of its length.
const HEADER_BYTES: u64 = 32;
const GRANULE_BYTES: u64 = 64;

/// What a recording holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    messages: u64,
    header_only: u64,
    lost: u64,
    /// Bytes of log between messages in which there was none: what a publisher left unfinished.
    padding_bytes: u64,
    /// Files that were cut off.
    cut_off: u64,
}

/// Says what the files hold, and whether anything is missing.
pub fn verify(arguments: &VerifyArguments) -> Result<Outcome, Failure> {
    let (mut check, mut notes, mut unprotected) = (Check::default(), Vec::new(), Vec::new());
    for path in &arguments.files {
        let found = check.file(path, Recording::open(path)?)?;
        let name = path.display();
        notes.extend(found.end_note().map(|note| format!("{name} {note}")));
        if !found.unprotected.is_empty() {
            let parts = found.unprotected.join(", and ");
            notes.push(format!("{name} has no checksum for {parts}: damage there may go unnoticed"));
            unprotected.push(json!({ "file": path.to_string_lossy(), "parts": found.unprotected }));
        }
    }
    let Counts { messages, header_only, lost, padding_bytes, cut_off } = check.counts;
    if arguments.json {
        println!(
            "{}",
            json!({
                "messages": messages, "header_only": header_only, "lost": lost, "padding_bytes": padding_bytes,
                "cut_off": cut_off, "first_position": check.first, "last_position": check.last.map(|last| last.position),
                "unprotected": unprotected,
            })
        );
    } else {
        println!("{messages} messages, {lost} lost");
        notes.iter().for_each(|note| println!("{note}"));
    }
    Ok(Outcome::of(lost > 0 || cut_off > 0))
}

/// What was found of a file.
#[derive(Debug)]
struct Found {
    end: End,
    /// Are all messages there, although the file ends early?
    has_all_data: bool,
    /// Parts that no checksum covers.
    unprotected: Vec<String>,
}

impl Found {
    fn end_note(&self) -> Option<String> {
        let End::Early { offset, kind } = self.end else { return None };
        let place = kind
            .map_or_else(|| format!("at byte {offset}"), |kind| format!("in the {kind} at byte {offset}"));
        let missing = if self.has_all_data {
            "Every message is there, and the index is missing"
        } else {
            "What came after the last whole chunk is missing"
        };
        Some(format!(
            "ends early, {place}: the recorder was killed, its disk was full, or it still records. {missing}"
        ))
    }
}

/// A message of a chunk whose frames have not come yet.
struct Pending {
    sequence: u32,
    bytes: u64,
    /// Messages that were lost before it.
    lost: u64,
}

#[derive(Clone, Copy)]
struct Last {
    position: u64,
    end: u64,
    epoch: u32,
}

#[derive(Default)]
struct Check {
    counts: Counts,
    is_bus: Option<bool>,
    by_reference: bool,
    /// The number of the file that comes next, where this one has a number.
    next_part: Option<u64>,
    /// The numbers of the last chunk and of the last loss of this file.
    chunk: Option<u32>,
    loss: Option<u32>,
    pending: Vec<Pending>,
    lost_before: u64,
    last_ns: u64,
    first: Option<u64>,
    last: Option<Last>,
    /// The number that is due of each publisher.
    due: HashMap<u16, u32>,
    /// Losses that no gap in the numbers of a publisher has shown yet.
    unseen: u64,
}

impl Check {
    /// Takes in the next file of the recording.
    fn file(&mut self, path: &Path, recording: Recording) -> Result<Found, Failure> {
        (self.is_bus, self.chunk, self.loss) = (None, None, None);
        let mut recording = recording.verified();
        let end = recording.for_each(|item| self.item(item).map_err(|why| Failure::on(path, why)))?;
        let structure = recording.structure();
        self.end_of_file(end).map_err(|why| Failure::on(path, why))?;
        Ok(Found {
            end,
            has_all_data: structure.is_some_and(Structure::has_all_data),
            unprotected: structure.map(|structure| structure.unprotected().parts()).unwrap_or_default(),
        })
    }

    fn item(&mut self, item: Item<'_>) -> Result<(), String> {
        match item {
            Item::About(about) => self.about(&about)?,
            // What another program recorded has no losses that one could count.
            Item::Message { .. } if self.is_bus.is_none() => {}
            Item::Message { sequence, log_ns, data, .. } => {
                self.in_time(log_ns)?;
                let lost = std::mem::take(&mut self.lost_before);
                self.pending.push(Pending { sequence, bytes: data.len() as u64, lost });
            }
            Item::Lost { sequence, messages, log_ns } => {
                self.in_time(log_ns)?;
                if let Some(last) =
                    self.loss.replace(sequence).filter(|last| last.wrapping_add(1) != sequence)
                {
                    return Err(format!("loss {sequence} comes after loss {last}"));
                }
                self.counts.lost += messages;
                self.lost_before += messages;
            }
            Item::Frames { sequence, frames } => {
                if let Some(last) = self.chunk.replace(sequence).filter(|last| *last >= sequence) {
                    return Err(format!(
                        "the positions of chunk {sequence} come after those of chunk {last}"
                    ));
                }
                if frames.len() != self.pending.len() {
                    return Err(format!(
                        "a chunk of {} messages has {} positions",
                        self.pending.len(),
                        frames.len()
                    ));
                }
                let pending = std::mem::take(&mut self.pending);
                for (message, frame) in pending.iter().zip(frames) {
                    self.message(message, frame)?;
                }
            }
        }
        Ok(())
    }

    /// What was recorded, and which file of the recording this is.
    fn about(&mut self, about: &BTreeMap<String, String>) -> Result<(), String> {
        let is = |key: &str, value: &str| about.get(key).is_some_and(|is| is == value);
        self.is_bus = Some(is("source", "bus"));
        self.by_reference = is("payloads", "by reference");
        let Some(part) = about.get("part").and_then(|part| part.parse::<u64>().ok()) else { return Ok(()) };
        match self.next_part.replace(part.saturating_add(1)) {
            Some(next) if next != part => Err(format!(
                "it is part {part} of the recording, and part {next} is missing before it; name all files in their order"
            )),
            _ => Ok(()),
        }
    }

    fn in_time(&mut self, log_ns: u64) -> Result<(), String> {
        if log_ns < self.last_ns {
            return Err(format!("log_time goes back from {} to {log_ns}", self.last_ns));
        }
        self.last_ns = log_ns;
        Ok(())
    }

    fn message(&mut self, message: &Pending, frame: Frame) -> Result<(), String> {
        let is_bus = self.is_bus == Some(true);
        self.counts.messages += 1;
        self.counts.header_only += u64::from(frame.flags & HEADER_ONLY != 0);
        let length = match (is_bus, self.by_reference) {
            (true, _) => 1,
            // The reference, however long the payload is; some payloads are in the log.
            (_, true) => GRANULE_BYTES,
            _ => (message.bytes + HEADER_BYTES).next_multiple_of(GRANULE_BYTES),
        };
        let Frame { position, epoch, slot, .. } = frame;
        if let Some(last) = self.last {
            let skipped = position.checked_sub(last.end).filter(|_| epoch >= last.epoch);
            let skipped = skipped.ok_or_else(|| {
                format!(
                    "position {position} of log {epoch} comes after {} of log {}",
                    last.position, last.epoch
                )
            })?;
            if message.lost == 0 {
                self.counts.padding_bytes += if self.by_reference { 0 } else { skipped };
                if is_bus && skipped > 0 {
                    return Err(format!(
                        "{skipped} messages before position {position} are missing, and not counted as lost"
                    ));
                }
            } else if is_bus && skipped != message.lost {
                return Err(format!(
                    "{skipped} messages before position {position} are missing, and {} counted as lost",
                    message.lost
                ));
            }
        }
        // The numbers of a sender on a bus count its calls to itself, too.
        if !is_bus {
            self.number(message, slot)?;
        }
        self.first.get_or_insert(position);
        self.last = Some(Last { position, end: position.saturating_add(length), epoch });
        Ok(())
    }

    /// Checks the number that the publisher gave a message of a group.
    fn number(&mut self, message: &Pending, slot: u16) -> Result<(), String> {
        self.unseen += message.lost;
        let due = self.due.insert(slot, message.sequence.wrapping_add(1));
        let missing = due.map_or(0, |due| u64::from(message.sequence.wrapping_sub(due)));
        if missing > self.unseen {
            return Err(format!(
                "{missing} messages of publisher {slot} before its number {} are missing, and only {} counted as lost",
                message.sequence, self.unseen
            ));
        }
        self.unseen -= missing;
        Ok(())
    }

    fn end_of_file(&mut self, end: End) -> Result<(), String> {
        let is_whole = end == End::Whole;
        if is_whole && !self.pending.is_empty() {
            return Err(format!("the last {} messages have no positions", self.pending.len()));
        }
        if self.is_bus.is_none() {
            return Err(match end {
                End::Early { offset, .. } => {
                    format!("it ends at byte {offset}, before it says what was recorded; there is nothing to check")
                }
                End::Whole => "it is no recording of causeway-record: its checksums and offsets are right, and it does not say what was lost".into(),
            });
        }
        self.pending.clear();
        self.counts.cut_off += u64::from(!is_whole);
        Ok(())
    }
}

#[cfg(test)]
mod flips;
