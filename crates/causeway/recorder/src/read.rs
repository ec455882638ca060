//! Reading a recording from its beginning, in the order of the file, whether or not it has an end.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use mcap::McapError;
use mcap::records::{Channel, Record};
use mcap::sans_io::linear_reader::{LinearReadEvent, LinearReader, LinearReaderOptions};

use crate::failure::Failure;
use crate::frames::{ABOUT, CLOCK, FRAMES, Frame, LOSS, TWIN_OF};

/// The longest record and chunk that is read into memory: the longest payload of a log is a quarter of 1 GiB.
const RECORD_BYTES_MAX: usize = 1 << 30;
/// The file is read in pieces of this size.
const PIECE_BYTES: usize = 256 << 10;

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
        messages: u64,
        log_ns: u64,
    },
    /// Where the messages since the last of these stood.
    Frames(Vec<Frame>),
    /// The file ends as it should.
    End,
}

/// A recording that is read.
pub struct Recording {
    path: PathBuf,
    file: File,
    reader: LinearReader,
    channels: HashMap<u16, Channel>,
}

impl Recording {
    pub fn open(path: &Path) -> Result<Recording, Failure> {
        let file = File::open(path).map_err(|error| Failure::on(path, error))?;
        let options = LinearReaderOptions::default()
            .with_emit_chunks(false)
            // Of a chunk that is not whole nothing is believed.
            .with_prevalidate_chunk_crcs(true)
            .with_record_length_limit(RECORD_BYTES_MAX);
        let reader = LinearReader::new_with_options(options);
        Ok(Recording { path: path.to_owned(), file, reader, channels: HashMap::new() })
    }

    /// Passes each item to `each`. Returns whether the file is whole: false if it was cut off, as by a kill.
    ///
    /// # Errors
    /// Those of `each`; a file that cannot be read, or is damaged and not only cut off.
    pub fn for_each(
        &mut self,
        mut each: impl FnMut(Item<'_>) -> Result<(), Failure>,
    ) -> Result<bool, Failure> {
        let Recording { path, file, reader, channels } = self;
        let damaged = |error: McapError| {
            Failure::on(
                path,
                format!("{error}; it is no MCAP file, or damaged: `mcap recover` may save a part"),
            )
        };
        let mut has_begun = false;
        while let Some(event) = reader.next_event() {
            match event {
                Ok(LinearReadEvent::ReadRequest(bytes)) => {
                    let piece = reader.insert(bytes.max(PIECE_BYTES));
                    let read = file.read(piece).map_err(|error| Failure::on(path, error))?;
                    reader.notify_read(read);
                }
                Ok(LinearReadEvent::Record { opcode, data }) => {
                    has_begun = true;
                    match mcap::parse_record(opcode, data).map_err(damaged)? {
                        Record::Channel(channel) => {
                            channels.insert(channel.id, channel);
                        }
                        Record::Metadata(metadata) if metadata.name == ABOUT => {
                            each(Item::About(metadata.metadata))?
                        }
                        Record::Metadata(metadata) if metadata.name == CLOCK => {}
                        Record::Message { header, data } => {
                            let channel = channels.get(&header.channel_id);
                            let channel = channel.ok_or_else(|| {
                                damaged(McapError::UnknownChannel(header.sequence, header.channel_id))
                            })?;
                            if channel.metadata.contains_key(TWIN_OF) {
                                continue;
                            }
                            let item = item(channel, header.sequence, header.log_time, &data);
                            each(item.ok_or_else(|| {
                                Failure::on(path, format!("an invalid message of {}", channel.topic))
                            })?)?;
                        }
                        Record::Footer(_) => each(Item::End)?,
                        _ => {}
                    }
                }
                Err(McapError::UnexpectedEof) if has_begun => return Ok(false),
                Err(error) => return Err(damaged(error)),
            }
        }
        Ok(true)
    }
}

/// What a message is; `None` for one of this program that it does not write.
fn item<'a>(channel: &'a Channel, sequence: u32, log_ns: u64, data: &'a [u8]) -> Option<Item<'a>> {
    match channel.topic.as_str() {
        FRAMES => Frame::all_of(data).map(Item::Frames),
        LOSS => {
            let loss: serde_json::Value = serde_json::from_slice(data).ok()?;
            Some(Item::Lost { messages: loss["messages"].as_u64()?, log_ns })
        }
        _ => Some(Item::Message { channel, sequence, log_ns, data }),
    }
}
