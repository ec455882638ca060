//! Reading a recording from its beginning, in the order of the file, whether or not it has an end.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use mcap::records::{Channel, Record, op};

use crate::chunk::Chunk;
use crate::failure::Failure;
use crate::frames::{ABOUT, FRAMES, Frame, LOSS, TWIN_OF};
use crate::layout;
use crate::records::{self, Error, Next, Raw, Records};
use crate::structure::Structure;
use crate::write::LIBRARY;

/// What a recording holds.
#[derive(Debug)]
pub enum Item<'a> {
    /// What the file says of its source.
    About(BTreeMap<String, String>),
    Message {
        channel: &'a Channel,
        sequence: u32,
        log_ns: u64,
        data: &'a [u8],
    },
    Lost {
        sequence: u32,
        messages: u64,
        log_ns: u64,
    },
    /// Where the messages since the last of these stood.
    Frames {
        sequence: u32,
        frames: Vec<Frame>,
    },
}

/// How a file ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Whole,
    /// Before its end mark, as after a kill or while it is still written.
    Early {
        /// Where the first record begins, or would, that is not whole.
        offset: u64,
        /// Its kind, as far as that is there.
        kind: Option<&'static str>,
    },
}

/// A recording that is read.
pub struct Recording {
    path: PathBuf,
    records: Records,
    channels: HashMap<u16, Channel>,
    /// What is known of its parts, if they are compared.
    structure: Option<Structure>,
}

impl Recording {
    pub fn open(path: &Path) -> Result<Recording, Failure> {
        let file = File::open(path).map_err(|error| Failure::on(path, error))?;
        Ok(Recording::of(path, Box::new(file)))
    }

    /// The recording that another source than a file gives.
    pub fn of(path: &Path, source: Box<dyn Read>) -> Recording {
        let records = Records::new(source);
        Recording { path: path.to_owned(), records, channels: HashMap::new(), structure: None }
    }

    /// Compares all parts of the file with each other, too.
    pub fn verified(self) -> Recording {
        Recording { structure: Some(Structure::default()), ..self }
    }

    /// What was found of its parts, if they were compared.
    pub fn structure(&self) -> Option<&Structure> {
        self.structure.as_ref()
    }

    /// Passes each item to `each`. Returns whether the file is whole, or was cut off, as by a kill.
    ///
    /// # Errors
    /// Those of `each`; a file that cannot be read, or is damaged and not only cut off.
    pub fn for_each(
        &mut self,
        mut each: impl FnMut(Item<'_>) -> Result<(), Failure>,
    ) -> Result<End, Failure> {
        let Recording { path, records, channels, structure } = self;
        let mut items = Items { path, channels, each: &mut each };
        loop {
            let failed = match step(records, structure.as_mut(), &mut items) {
                Ok(None) => continue,
                Ok(Some(end)) => return Ok(end),
                Err(Stop::Failure(failure)) => return Err(failure),
                Err(Stop::Error(error)) => error,
            };
            let has_all_data = structure.as_ref().is_some_and(Structure::has_all_data);
            let advice = match failed {
                Error::Unreadable(_) | Error::Empty | Error::OtherFormat(_) => "",
                Error::Damage { .. } if has_all_data => {
                    "; every message can be read, and `mcap recover` makes a copy with another index"
                }
                Error::Damage { .. } => "; `mcap recover` may save a part",
            };
            return Err(Failure::on(path, format!("{failed}{advice}")));
        }
    }
}

/// Why reading stops.
enum Stop {
    Error(Error),
    /// Of what is done with an item.
    Failure(Failure),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Error(error)
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Failure(failure)
    }
}

/// Reads a record of the file, or all those of a chunk. `None` if there may be more.
fn step(
    records: &mut Records,
    mut structure: Option<&mut Structure>,
    items: &mut Items<'_>,
) -> Result<Option<End>, Stop> {
    let raw = match records.next()? {
        Next::Record(raw) => raw,
        Next::Cut { offset, opcode } => {
            return Ok(Some(End::Early { offset, kind: opcode.map(layout::name) }));
        }
        Next::End => return Ok(Some(End::Whole)),
    };
    if raw.opcode != op::CHUNK {
        let record = parsed(&raw).map_err(|fault| raw.damage(fault))?;
        if let Some(structure) = structure {
            structure.record(&raw, &record)?;
        }
        let is_ours = matches!(&record, Record::Header(header) if header.library.starts_with(LIBRARY));
        items.take(&raw, record)?;
        records.is_exact |= is_ours;
        return Ok(None);
    }
    let chunk = Chunk::open(raw.body).map_err(|fault| raw.damage(fault))?;
    if let Some(structure) = &mut structure {
        structure.begin_chunk(&raw, &chunk.header)?;
    }
    for inner in records::in_chunk(&chunk.contents) {
        let inner = inner.map_err(|fault| raw.damage(fault))?;
        let of_inner = |fault| {
            raw.damage(format!(
                "the {} at byte {} of its contents: {fault}",
                layout::name(inner.opcode),
                inner.offset
            ))
        };
        layout::check(inner.opcode, inner.body.len() as u64, inner.body, false).map_err(of_inner)?;
        let record = parsed(&inner).map_err(of_inner)?;
        if let Some(structure) = &mut structure {
            structure.in_chunk(&inner, &record).map_err(of_inner)?;
        }
        items.take(&raw, record)?;
    }
    if let Some(structure) = structure {
        structure.end_chunk().map_err(|fault| raw.damage(fault))?;
    }
    Ok(None)
}

/// Its lengths have been checked.
fn parsed<'a>(raw: &Raw<'a>) -> Result<Record<'a>, String> {
    mcap::parse_record(raw.opcode, raw.body).map_err(|error| error.to_string())
}

/// Passes on what a recording holds.
struct Items<'a> {
    path: &'a Path,
    channels: &'a mut HashMap<u16, Channel>,
    each: &'a mut dyn FnMut(Item<'_>) -> Result<(), Failure>,
}

impl Items<'_> {
    /// Takes the next record, which is `raw` or in it.
    fn take(&mut self, raw: &Raw<'_>, record: Record<'_>) -> Result<(), Stop> {
        match record {
            Record::Channel(channel) => _ = self.channels.insert(channel.id, channel),
            Record::Metadata(metadata) if metadata.name == ABOUT => {
                (self.each)(Item::About(metadata.metadata))?
            }
            Record::Message { header, data } => {
                let id = header.channel_id;
                let Some(channel) = self.channels.get(&id) else {
                    return Err(raw
                        .damage(format!("a message is in channel {id}, which has not come before it"))
                        .into());
                };
                if channel.metadata.contains_key(TWIN_OF) {
                    return Ok(());
                }
                let item = item(channel, header.sequence, header.log_time, &data);
                let invalid = || Failure::on(self.path, format!("an invalid message of {}", channel.topic));
                (self.each)(item.ok_or_else(invalid)?)?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// What a message is; `None` for one of this program that it does not write.
fn item<'a>(channel: &'a Channel, sequence: u32, log_ns: u64, data: &'a [u8]) -> Option<Item<'a>> {
    match channel.topic.as_str() {
        FRAMES => Some(Item::Frames { sequence, frames: Frame::all_of(data)? }),
        LOSS => {
            let loss: serde_json::Value = serde_json::from_slice(data).ok()?;
            Some(Item::Lost { sequence, messages: loss["messages"].as_u64()?, log_ns })
        }
        _ => Some(Item::Message { channel, sequence, log_ns, data }),
    }
}
