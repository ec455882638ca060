//! Whether the parts of an MCAP file agree: the order of its sections, their checksums, and every offset, length, time and count that one
//! record states of others.
//!
//! It keeps sums and places, not messages: what it remembers grows with the chunks, channels and attachments of a file.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Display;
use std::hash::{DefaultHasher, Hash, Hasher};

use mcap::records::{
    AttachmentIndex, Channel, ChunkHeader, ChunkIndex, Footer, MessageIndex, MetadataIndex, Record,
    SchemaHeader, Statistics, SummaryOffset, op,
};

use crate::layout;
use crate::records::{Error, Raw};

/// Where records of a kind may stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Section {
    #[default]
    Beginning,
    Data,
    Summary,
    End,
}

/// Parts of a file that no checksum covers.
#[derive(Clone, Debug, Default)]
pub struct Unprotected {
    /// Chunks without a checksum, and all.
    chunks: (u64, u64),
    attachments: (u64, u64),
    /// No checksum covers the records of the file outside of chunks …
    data_section: bool,
    /// … and none what follows them.
    summary: bool,
}

impl Unprotected {
    /// Each of them in words.
    pub fn parts(&self) -> Vec<String> {
        let some = |(without, all): (u64, u64), what: &str| {
            (without > 0).then(|| format!("{without} of {all} {what}"))
        };
        // The checksum of the section covers chunks and attachments, too.
        let within = [some(self.chunks, "chunks"), some(self.attachments, "attachments")];
        let outside = self
            .data_section
            .then(|| "the records outside of chunks, such as header and metadata".to_owned());
        let within = within.into_iter().flatten().filter(|_| self.data_section);
        outside
            .into_iter()
            .chain(within)
            .chain(self.summary.then(|| "the summary section".to_owned()))
            .collect()
    }
}

/// Times of messages, from the first to the last.
type Times = Option<(u64, u64)>;

/// What is known of the records of a file so far.
#[derive(Default)]
pub struct Structure {
    section: Section,
    schemas: Definitions,
    channels: Definitions,
    /// Channels with their schemas, as far as they have some.
    schema_of: HashMap<u16, u16>,
    /// Messages by channel.
    messages: BTreeMap<u16, u64>,
    times: Times,
    /// Chunks by their offsets.
    chunks: HashMap<u64, Indexed<Place>>,
    /// The chunk before this record, whose message indexes may follow.
    open: Option<Open>,
    attachments: HashMap<u64, Indexed<AttachmentIndex>>,
    metadata: HashMap<u64, Indexed<MetadataIndex>>,
    /// Records of the summary section with one opcode, next to each other.
    groups: Vec<Group>,
    summary_offsets: Vec<(u64, SummaryOffset)>,
    /// Has the data section ended, with the checksum that it should have?
    has_all_data: bool,
    statistics: Option<(u64, Statistics)>,
    unprotected: Unprotected,
}

/// Records with an identifier: a hash of what each says.
#[derive(Default)]
struct Definitions {
    hashes: HashMap<u16, u64>,
    /// Those of the data section.
    in_data: usize,
    /// Those of the summary section.
    repeated: HashSet<u16>,
}

/// What the index must say, and whether it has said it.
struct Indexed<T> {
    is_indexed: bool,
    expected: T,
}

/// What the index says of a chunk.
struct Place {
    chunk_length: u64,
    times: Times,
    stated_times: (u64, u64),
    is_compressed: bool,
    compressed_size: u64,
    uncompressed_size: u64,
    message_index_length: u64,
    /// A hash of the offsets of its message indexes; and without those that are empty, which some writers leave out.
    offsets: [u64; 2],
}

/// A chunk, and its message indexes as far as they have come.
struct Open {
    offset: u64,
    place: Place,
    /// Of each channel, log time and offset of its messages.
    messages: BTreeMap<u16, Vec<(u64, u64)>>,
    /// Where the index of each channel is, and whether something is in it.
    indexes: BTreeMap<u16, (u64, bool)>,
}

struct Group {
    opcode: u8,
    start: u64,
    length: u64,
}

impl Structure {
    /// Parts of the file that no checksum covers; of a file that ends early, this is all but the chunks.
    pub fn unprotected(&self) -> Unprotected {
        let has_data_end = matches!(self.section, Section::Summary | Section::End);
        Unprotected {
            data_section: self.unprotected.data_section || !has_data_end,
            ..self.unprotected.clone()
        }
    }

    /// Are all messages there and right, whatever follows?
    pub fn has_all_data(&self) -> bool {
        self.has_all_data
    }

    /// Takes in the next record of the file that is no chunk.
    pub fn record(&mut self, raw: &Raw<'_>, record: &Record<'_>) -> Result<(), Error> {
        self.enter(raw)?;
        let fault = match record {
            Record::Header(_) => Ok(()),
            Record::Schema { header, data } => self.schema(header, data),
            Record::Channel(channel) => self.channel(channel),
            Record::Message { header, .. } => self.message(header.channel_id, header.log_time),
            Record::MessageIndex(index) => self.message_index(raw, index),
            Record::Attachment { header, data, crc } => {
                let (without, all) = &mut self.unprotected.attachments;
                *without += u64::from(*crc == 0);
                *all += 1;
                let expected = AttachmentIndex {
                    offset: raw.offset,
                    length: raw.bytes(),
                    log_time: header.log_time,
                    create_time: header.create_time,
                    data_size: data.len() as u64,
                    name: header.name.clone(),
                    media_type: header.media_type.clone(),
                };
                self.attachments.insert(raw.offset, Indexed { is_indexed: false, expected });
                Ok(())
            }
            Record::Metadata(metadata) => {
                let expected =
                    MetadataIndex { offset: raw.offset, length: raw.bytes(), name: metadata.name.clone() };
                self.metadata.insert(raw.offset, Indexed { is_indexed: false, expected });
                Ok(())
            }
            Record::DataEnd(end) => {
                self.unprotected.data_section = end.data_section_crc == 0;
                let right = is_checksum("data_section_crc", end.data_section_crc, raw.checksum);
                self.has_all_data = right.is_ok();
                right
            }
            Record::ChunkIndex(index) => self.chunk_index(index),
            Record::AttachmentIndex(index) => found(&mut self.attachments, index.offset, "attachment", index),
            Record::MetadataIndex(index) => found(&mut self.metadata, index.offset, "metadata record", index),
            Record::Statistics(statistics) => match self.statistics.replace((raw.offset, statistics.clone()))
            {
                Some(_) => Err("there is another one".into()),
                None => Ok(()),
            },
            Record::SummaryOffset(offset) => {
                self.summary_offsets.push((raw.offset, *offset));
                Ok(())
            }
            Record::Footer(footer) => return self.footer(raw, footer),
            // A chunk is taken in by other functions.
            Record::Chunk { .. } | Record::Unknown { .. } => Ok(()),
        };
        fault.map_err(|fault| raw.damage(fault))
    }

    /// Takes in a chunk, whose records come next.
    pub fn begin_chunk(&mut self, raw: &Raw<'_>, header: &ChunkHeader) -> Result<(), Error> {
        self.enter(raw)?;
        let (without, all) = &mut self.unprotected.chunks;
        *without += u64::from(header.uncompressed_crc == 0);
        *all += 1;
        let place = Place {
            chunk_length: raw.bytes(),
            times: None,
            stated_times: (header.message_start_time, header.message_end_time),
            is_compressed: !header.compression.is_empty(),
            compressed_size: header.compressed_size,
            uncompressed_size: header.uncompressed_size,
            message_index_length: 0,
            offsets: [0; 2],
        };
        self.open =
            Some(Open { offset: raw.offset, place, messages: BTreeMap::new(), indexes: BTreeMap::new() });
        Ok(())
    }

    /// Takes in the next record of the chunk.
    pub fn in_chunk(&mut self, raw: &Raw<'_>, record: &Record<'_>) -> Result<(), String> {
        match record {
            Record::Schema { header, data } => self.schema(header, data),
            Record::Channel(channel) => self.channel(channel),
            Record::Message { header, .. } => {
                if let Some(open) = &mut self.open {
                    let messages = open.messages.entry(header.channel_id).or_default();
                    messages.push((header.log_time, raw.offset));
                    extend(&mut open.place.times, header.log_time);
                }
                self.message(header.channel_id, header.log_time)
            }
            Record::Unknown { .. } => Ok(()),
            _ => Err(format!("it has a {} in it", layout::name(raw.opcode))),
        }
    }

    /// Takes in the end of the chunk's records.
    pub fn end_chunk(&mut self) -> Result<(), String> {
        let Some(Open { place, .. }) = &self.open else { return Ok(()) };
        match (place.times, place.stated_times) {
            (Some((first, last)), (start, end)) => {
                expect("message_start_time", start, first)?;
                expect("message_end_time", end, last)
            }
            // One writer starts with the greatest time there is, and stays there.
            (None, (0 | u64::MAX, 0)) => Ok(()),
            (None, (start, end)) => Err(format!("it has times from {start} to {end} and no messages")),
        }
    }

    /// Is this the place for a record of this kind?
    fn enter(&mut self, raw: &Raw<'_>) -> Result<(), Error> {
        if raw.opcode != op::MESSAGE_INDEX {
            self.close_chunk()?;
        }
        let opcode = raw.opcode;
        let next = match (self.section, opcode) {
            (Section::Beginning, op::HEADER) => Section::Data,
            (Section::Beginning, _) => return Err(raw.damage("the first record must be a Header")),
            (Section::Data, op::DATA_END) => Section::Summary,
            (
                Section::Data,
                op::SCHEMA
                | op::CHANNEL
                | op::MESSAGE
                | op::CHUNK
                | op::MESSAGE_INDEX
                | op::ATTACHMENT
                | op::METADATA,
            ) => Section::Data,
            (Section::Summary, op::FOOTER) => Section::End,
            (
                Section::Summary,
                op::SCHEMA
                | op::CHANNEL
                | op::STATISTICS
                | op::CHUNK_INDEX
                | op::ATTACHMENT_INDEX
                | op::METADATA_INDEX
                | op::SUMMARY_OFFSET,
            ) => self.group(raw).map(|()| Section::Summary)?,
            (section, opcode) if !layout::is_known(opcode) => section,
            (Section::Data, op::FOOTER) => return Err(raw.damage("there is no DataEnd before it")),
            (Section::Data, _) => return Err(raw.damage("it stands before DataEnd")),
            (Section::Summary, _) => return Err(raw.damage("it stands after DataEnd")),
            (Section::End, _) => return Err(raw.damage("it stands after the Footer")),
        };
        self.section = next;
        Ok(())
    }

    fn group(&mut self, raw: &Raw<'_>) -> Result<(), Error> {
        let Raw { offset, opcode, .. } = *raw;
        match self.groups.iter_mut().find(|group| group.opcode == opcode) {
            Some(group) if group.start + group.length == offset => group.length += raw.bytes(),
            Some(group) => {
                let start = group.start;
                return Err(
                    raw.damage(format!("the others begin at byte {start}, and another kind stands between"))
                );
            }
            None => self.groups.push(Group { opcode, start: offset, length: raw.bytes() }),
        }
        Ok(())
    }

    fn schema(&mut self, header: &SchemaHeader, data: &[u8]) -> Result<(), String> {
        // One with number 0 is to be ignored.
        if header.id == 0 {
            return Ok(());
        }
        self.schemas.define(header.id, (&header.name, &header.encoding, data), self.section)
    }

    fn channel(&mut self, channel: &Channel) -> Result<(), String> {
        if channel.schema_id != 0 && !self.schemas.hashes.contains_key(&channel.schema_id) {
            return Err(format!(
                "channel {} has schema {}, which has not come before it",
                channel.id, channel.schema_id
            ));
        }
        let Channel { id, schema_id, topic, message_encoding, metadata } = channel;
        if *schema_id != 0 {
            self.schema_of.insert(*id, *schema_id);
        }
        self.channels.define(*id, (schema_id, topic, message_encoding, metadata), self.section)
    }

    fn message(&mut self, channel: u16, log_time: u64) -> Result<(), String> {
        if !self.channels.hashes.contains_key(&channel) {
            return Err(format!("a message is in channel {channel}, which has not come before it"));
        }
        *self.messages.entry(channel).or_default() += 1;
        extend(&mut self.times, log_time);
        Ok(())
    }

    fn message_index(&mut self, raw: &Raw<'_>, index: &MessageIndex) -> Result<(), String> {
        let channel = index.channel_id;
        let Some(open) = &mut self.open else { return Err("there is no chunk before it".into()) };
        if open.indexes.insert(channel, (raw.offset, !index.records.is_empty())).is_some() {
            return Err(format!("channel {channel} has another one for the same chunk"));
        }
        open.place.message_index_length += raw.bytes();
        let mut entries: Vec<(u64, u64)> =
            index.records.iter().map(|entry| (entry.log_time, entry.offset)).collect();
        let mut messages = open.messages.get(&channel).cloned().unwrap_or_default();
        entries.sort_unstable();
        messages.sort_unstable();
        if entries.len() != messages.len() {
            let (entries, messages) = (entries.len(), messages.len());
            return Err(format!(
                "it has {entries} entries, and channel {channel} has {messages} messages in the chunk"
            ));
        }
        match entries.iter().zip(&messages).find(|(entry, message)| entry != message) {
            Some(((entry_ns, entry), (message_ns, message))) => Err(format!(
                "an entry has time {entry_ns} and offset {entry}; the message of channel {channel} has {message_ns} and {message}"
            )),
            None => Ok(()),
        }
    }

    /// Every record but another message index ends those of a chunk.
    fn close_chunk(&mut self) -> Result<(), Error> {
        let Some(Open { offset, mut place, messages, indexes }) = self.open.take() else { return Ok(()) };
        let missing = messages.keys().find(|channel| !indexes.contains_key(channel));
        if let Some(channel) = missing.filter(|_| !indexes.is_empty()) {
            let fault = format!("no MessageIndex of channel {channel} follows it");
            return Err(Error::damage(offset, layout::name(op::CHUNK), fault));
        }
        let places = |all: bool| {
            let places = indexes.iter().filter(move |(_, (_, has_entries))| all || *has_entries);
            digest_of_offsets(places.map(|(channel, (offset, _))| (*channel, *offset)))
        };
        place.offsets = [places(true), places(false)];
        self.chunks.insert(offset, Indexed { is_indexed: false, expected: place });
        Ok(())
    }

    fn chunk_index(&mut self, index: &ChunkIndex) -> Result<(), String> {
        let offset = index.chunk_start_offset;
        let Some(chunk) = self.chunks.get_mut(&offset) else {
            return Err(format!("chunk_start_offset is {offset}, and no chunk begins there"));
        };
        if std::mem::replace(&mut chunk.is_indexed, true) {
            return Err(format!("the chunk at byte {offset} has another one"));
        }
        let place = &chunk.expected;
        expect("chunk_length", index.chunk_length, place.chunk_length)?;
        let (start, end) = place.times.unwrap_or_default();
        expect("message_start_time", index.message_start_time, start)?;
        expect("message_end_time", index.message_end_time, end)?;
        expect("message_index_length", index.message_index_length, place.message_index_length)?;
        expect("compression", index.compression.as_str(), if place.is_compressed { "lz4" } else { "" })?;
        expect("compressed_size", index.compressed_size, place.compressed_size)?;
        expect("uncompressed_size", index.uncompressed_size, place.uncompressed_size)?;
        let offsets = &index.message_index_offsets;
        let stated = digest_of_offsets(offsets.iter().map(|(channel, offset)| (*channel, *offset)));
        if offsets.is_empty() || place.offsets.contains(&stated) {
            Ok(())
        } else {
            Err(format!(
                "message_index_offsets are not those of the records after the chunk at byte {offset}"
            ))
        }
    }

    fn footer(&mut self, raw: &Raw<'_>, footer: &Footer) -> Result<(), Error> {
        self.counts()?;
        self.offsets(raw.offset)?;
        let start = |mut groups: std::slice::Iter<'_, Group>, is_it: fn(&Group) -> bool| {
            groups.find(|group| is_it(group)).map(|group| group.start)
        };
        // Where there are none, some writers give the place where they would be.
        let is_start = |field: &str, stated: u64, start: Option<u64>| match start {
            None if stated == 0 || stated == raw.offset => Ok(()),
            start => expect(field, stated, start.unwrap_or(0)),
        };
        let summary_start = start(self.groups.iter(), |_| true);
        let offsets_start = start(self.groups.iter(), |group| group.opcode == op::SUMMARY_OFFSET);
        self.unprotected.summary = footer.summary_crc == 0;
        is_start("summary_start", footer.summary_start, summary_start)
            .and_then(|()| is_start("summary_offset_start", footer.summary_offset_start, offsets_start))
            .and_then(|()| is_checksum("summary_crc", footer.summary_crc, raw.checksum))
            .map_err(|fault| raw.damage(fault))
    }

    /// Is everything in its index, and are the statistics right?
    fn counts(&self) -> Result<(), Error> {
        let whole =
            |kind, indexed: usize, all: usize| match self.groups.iter().find(|group| group.opcode == kind) {
                Some(group) if indexed < all => {
                    let fault = format!("the file has {all} such places, and {indexed} are in the index");
                    Err(Error::damage(group.start, layout::name(kind), fault))
                }
                _ => Ok(()),
            };
        whole(op::CHUNK_INDEX, indexed(&self.chunks), self.chunks.len())?;
        whole(op::ATTACHMENT_INDEX, indexed(&self.attachments), self.attachments.len())?;
        whole(op::METADATA_INDEX, indexed(&self.metadata), self.metadata.len())?;
        self.repetitions()?;
        let Some((offset, statistics)) = &self.statistics else { return Ok(()) };
        self.statistics(statistics)
            .map_err(|fault| Error::damage(*offset, layout::name(op::STATISTICS), fault))
    }

    /// Where channels are repeated, those with messages must be, and where schemas are, those of these channels.
    fn repetitions(&self) -> Result<(), Error> {
        let missing = |definitions: &Definitions, id: &u16| {
            !definitions.repeated.is_empty() && !definitions.repeated.contains(id)
        };
        let channel = self.messages.keys().find(|channel| missing(&self.channels, channel));
        let used = self.messages.keys().filter_map(|channel| self.schema_of.get(channel));
        let schema = used.into_iter().find(|schema| missing(&self.schemas, schema));
        for (opcode, id) in [(op::CHANNEL, channel), (op::SCHEMA, schema)] {
            let start = self.groups.iter().find(|group| group.opcode == opcode).map(|group| group.start);
            if let Some((id, start)) = id.zip(start) {
                let name = layout::name(opcode);
                return Err(Error::damage(
                    start,
                    name,
                    format!("number {id} of the data section is not repeated here"),
                ));
            }
        }
        Ok(())
    }

    fn statistics(&self, stated: &Statistics) -> Result<(), String> {
        expect("message_count", stated.message_count, self.messages.values().sum())?;
        self.schemas.is_count("schema_count", stated.schema_count.into())?;
        self.channels.is_count("channel_count", stated.channel_count.into())?;
        expect("attachment_count", stated.attachment_count as usize, self.attachments.len())?;
        expect("metadata_count", stated.metadata_count as usize, self.metadata.len())?;
        expect("chunk_count", stated.chunk_count as usize, self.chunks.len())?;
        let (start, end) = self.times.unwrap_or_default();
        expect("message_start_time", stated.message_start_time, start)?;
        expect("message_end_time", stated.message_end_time, end)?;
        let counts = &stated.channel_message_counts;
        let channels = self.messages.keys().chain(counts.keys()).filter(|_| !counts.is_empty());
        let count = |counts: &BTreeMap<u16, u64>, channel| counts.get(channel).copied().unwrap_or(0);
        for channel in channels {
            let field = format!("channel_message_counts of channel {channel}");
            expect(&field, count(counts, channel), count(&self.messages, channel))?;
        }
        Ok(())
    }

    /// Do the summary offsets lead to their groups?
    fn offsets(&self, end: u64) -> Result<(), Error> {
        for (offset, stated) in &self.summary_offsets {
            let name = layout::name(stated.group_opcode);
            let found = match self.groups.iter().find(|group| group.opcode == stated.group_opcode) {
                Some(group) => expect("group_start", stated.group_start, group.start)
                    .and_then(|()| expect("group_length", stated.group_length, group.length)),
                // Some writers have an offset for each group that could be.
                None if stated.group_length == 0
                    && stated.group_start <= end
                    && layout::is_known(stated.group_opcode) =>
                {
                    Ok(())
                }
                None => Err(format!(
                    "it is for a group of {name} ({:#04x}), and there is none",
                    stated.group_opcode
                )),
            };
            found.map_err(|fault| Error::damage(*offset, layout::name(op::SUMMARY_OFFSET), fault))?;
        }
        Ok(())
    }
}

impl Definitions {
    fn define(&mut self, id: u16, definition: impl Hash, section: Section) -> Result<(), String> {
        let hash = digest(definition);
        let is_new = match self.hashes.insert(id, hash) {
            Some(known) if known != hash => {
                return Err(format!("number {id} is defined in another way before"));
            }
            known => known.is_none(),
        };
        if section == Section::Summary {
            self.repeated.insert(id);
        } else {
            self.in_data += usize::from(is_new);
        }
        Ok(())
    }

    /// Of definitions that no message uses, some writers put only the number into the file, or only the repetition.
    fn is_count(&self, field: &str, stated: u64) -> Result<(), String> {
        let (least, most) = (self.in_data as u64, self.hashes.len() as u64);
        let is_right = stated >= least && (stated <= most || self.repeated.is_empty());
        if is_right { Ok(()) } else { Err(format!("{field} is {stated}, and the file has {most}")) }
    }
}

fn digest(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn digest_of_offsets(offsets: impl Iterator<Item = (u16, u64)>) -> u64 {
    digest(offsets.collect::<Vec<_>>())
}

fn extend(times: &mut Times, log_time: u64) {
    let (first, last) = times.unwrap_or((log_time, log_time));
    *times = Some((first.min(log_time), last.max(log_time)));
}

fn indexed<T>(places: &HashMap<u64, Indexed<T>>) -> usize {
    places.values().filter(|place| place.is_indexed).count()
}

/// An entry of the index must be that of what stands at its offset.
fn found<T: PartialEq>(
    places: &mut HashMap<u64, Indexed<T>>,
    offset: u64,
    what: &str,
    entry: &T,
) -> Result<(), String> {
    let Some(place) = places.get_mut(&offset) else {
        return Err(format!("offset is {offset}, and no {what} begins there"));
    };
    if std::mem::replace(&mut place.is_indexed, true) {
        return Err(format!("the {what} at byte {offset} has another one"));
    }
    if place.expected == *entry {
        Ok(())
    } else {
        Err(format!("it does not describe the {what} at byte {offset}"))
    }
}

fn expect<T: PartialEq + Display>(field: &str, stated: T, is: T) -> Result<(), String> {
    if stated == is { Ok(()) } else { Err(format!("{field} is `{stated}`, and must be `{is}`")) }
}

/// 0 stands for no checksum.
fn is_checksum(field: &str, stated: u32, is: u32) -> Result<(), String> {
    if stated == 0 || stated == is {
        Ok(())
    } else {
        Err(format!("{field} is {stated:08x}, and the section has {is:08x}"))
    }
}
