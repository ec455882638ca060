//! The thread that writes: chunks of 1 MiB or 250 ms, and files one after another.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use causeway_bus::wire::{Header, Kind};
use mcap::records::{MessageHeader, Metadata};
use mcap::write::NoSeek;
use mcap::{Compression, McapError, WriteOptions, Writer};

use crate::args::Compress;
use crate::file::Output;
use crate::frames::{self, ENTRY_BYTES, Frame};
use crate::ring::{Batch, Next, Ring, Stamp, Step};

/// A chunk ends once it has so many bytes …
const CHUNK_BYTES: u64 = 1 << 20;
/// … or is so old: a kill loses no more.
const CHUNK_TIME: Duration = Duration::from_millis(250);
/// Bytes of a message in a chunk, without its payload: record, entry of its frame, entry of the index.
const MESSAGE_BYTES: u64 = 31 + ENTRY_BYTES as u64 + 16;
/// What is kept for the end of the file and for the channels of a chunk.
const END_BYTES: u64 = 16 << 10;
/// Channels of one file; MCAP has 65,535. What comes after them is in the channel `/overflow`.
const CHANNELS_MAX: usize = 60_000;

/// What is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinds {
    Group,
    Bus,
}

/// How it is written.
#[derive(Clone, Debug)]
pub struct Plan {
    pub path: PathBuf,
    pub kinds: Kinds,
    pub compression: Compress,
    pub sync: bool,
    pub split: Option<u64>,
    /// CLOCK_REALTIME less CLOCK_MONOTONIC, where times of messages are of the latter.
    pub offset_ns: Option<i64>,
    /// What each file says of its source.
    pub about: BTreeMap<String, String>,
}

/// Messages that are in files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    pub messages: u64,
    pub header_only: u64,
    pub files: u64,
}

/// Writes what comes through the ring. With what is written, and why not everything is.
pub fn write(plan: &Plan, ring: &Ring) -> (Written, Option<Stopped>) {
    let mut all =
        Recording { plan, part: None, next_part: 0, offset_ns: plan.offset_ns, written: Written::default() };
    let done = all.run(ring);
    let path = all.part.as_ref().map_or_else(|| plan.path.clone(), |part| part.output.path());
    // However it ended: what was written gets its index, for which there is space.
    let finished = all.finish();
    let error = match done.and(finished) {
        Ok(()) => return (all.written, None),
        Err(McapError::Io(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    (all.written, Some(Stopped { path, error }))
}

/// Why writing ended early.
#[derive(Debug)]
pub struct Stopped {
    pub path: PathBuf,
    pub error: String,
}

/// The name of the part of a recording: `FILE.mcap`, `FILE.1.mcap` and so on.
fn part_path(path: &Path, part: u64) -> PathBuf {
    if part == 0 {
        return path.to_owned();
    }
    let extension =
        path.extension().map_or(String::new(), |extension| format!(".{}", extension.to_string_lossy()));
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}.{part}{extension}"))
}

struct Recording<'a> {
    plan: &'a Plan,
    part: Option<Part>,
    next_part: u64,
    offset_ns: Option<i64>,
    written: Written,
}

impl Recording<'_> {
    fn run(&mut self, ring: &Ring) -> Result<(), McapError> {
        self.begin_part()?;
        loop {
            let due = self.part.as_ref().and_then(|part| part.chunk_begin).map(|begin| begin + CHUNK_TIME);
            match ring.pop(due) {
                Next::Batch(batch) => {
                    self.write_batch(&batch)?;
                    ring.recycle(batch);
                }
                Next::TimedOut => {}
                Next::Ended => return Ok(()),
            }
            if let Some(part) = self.part.as_mut().filter(|part| part.chunk_is_due()) {
                part.end_chunk()?;
            }
        }
    }

    /// Opens the next file, and only then ends the one before: messages wait in the ring, and none is missing between.
    fn begin_part(&mut self) -> Result<(), McapError> {
        let number = self.next_part;
        let mut next = Part::begin(self.plan, number, self.offset_ns)?;
        self.next_part += 1;
        self.written.files += 1;
        next.last_ns = self.part.as_ref().map_or(0, |part| part.last_ns);
        let finished = self.finish();
        self.part = Some(next);
        finished
    }

    fn finish(&mut self) -> Result<(), McapError> {
        let Some(mut part) = self.part.take() else { return Ok(()) };
        let finished = part.finish();
        self.written.messages += part.written.messages;
        self.written.header_only += part.written.header_only;
        finished
    }

    fn write_batch(&mut self, batch: &Batch) -> Result<(), McapError> {
        let mut payloads = &batch.payloads[..];
        for step in &batch.steps {
            let is_full = |part: &Part| self.plan.split.is_some_and(|most| part.bytes() >= most);
            if self.part.as_ref().is_some_and(is_full) {
                self.begin_part()?;
            }
            let Some(part) = &mut self.part else { return Ok(()) };
            match *step {
                Step::Message { stamp, frame, sequence, topic, bytes } => {
                    let (payload, rest) = payloads.split_at(bytes);
                    payloads = rest;
                    part.message(self.plan.kinds, stamp, frame, sequence, topic, payload)?;
                }
                Step::Lost { stamp, messages, bytes } => part.loss(stamp, messages, bytes)?,
                Step::Clock { offset_ns } => {
                    self.offset_ns = Some(offset_ns);
                    part.clock(offset_ns)?;
                }
            }
        }
        Ok(())
    }
}

/// One file.
struct Part {
    writer: Writer<NoSeek<Output>>,
    output: Output,
    channels: Channels,
    frames_channel: u16,
    loss_channel: u16,
    /// Entries of the messages in this chunk.
    frames: Vec<u8>,
    chunks: u32,
    losses: u32,
    chunk_begin: Option<Instant>,
    chunk_bytes: u64,
    last_ns: u64,
    /// What the index at the end of the file takes so far.
    index_bytes: u64,
    /// In this chunk, and in those that are written.
    in_chunk: Written,
    written: Written,
    has_failed: bool,
}

impl Part {
    fn begin(plan: &Plan, number: u64, offset_ns: Option<i64>) -> Result<Part, McapError> {
        let output = Output::create(&part_path(&plan.path, number), plan.sync)?;
        output.ensure(END_BYTES)?;
        let compression = match plan.compression {
            Compress::Lz4 => Some(Compression::Lz4),
            Compress::None => None,
        };
        let options = WriteOptions::new()
            .library(concat!("causeway-record ", env!("CARGO_PKG_VERSION")))
            .use_chunks(true)
            .disable_seeking(true)
            // Here it is decided when a chunk ends, because its last message says what is in it.
            .chunk_size(None)
            .compression(compression);
        let mut writer = options.create(NoSeek::new(output.clone()))?;
        let mut about = plan.about.clone();
        about.insert("part".into(), number.to_string());
        writer.write_metadata(&Metadata { name: frames::ABOUT.into(), metadata: about })?;
        if let Some(offset_ns) = offset_ns {
            writer.write_metadata(&clock(offset_ns))?;
        }
        // The beginning is on the disk before anything is recorded.
        writer.flush()?;
        let frames_channel = writer.add_channel(0, frames::FRAMES, "x-causeway-frames", &frames::layout())?;
        let schema = writer.add_schema("causeway.Loss", "jsonschema", frames::LOSS_SCHEMA.as_bytes())?;
        let loss_channel = writer.add_channel(schema, frames::LOSS, "json", &BTreeMap::new())?;
        Ok(Part {
            writer,
            output,
            channels: Channels::default(),
            frames_channel,
            loss_channel,
            frames: Vec::new(),
            chunks: 0,
            losses: 0,
            chunk_begin: None,
            chunk_bytes: 0,
            last_ns: 0,
            index_bytes: 2048,
            in_chunk: Written::default(),
            written: Written::default(),
            has_failed: false,
        })
    }

    /// Bytes of the file, with those of the chunk that is not written yet.
    fn bytes(&self) -> u64 {
        self.output.written() + self.chunk_bytes
    }

    fn chunk_is_due(&self) -> bool {
        self.chunk_begin.is_some_and(|begin| begin.elapsed() >= CHUNK_TIME)
    }

    /// Makes place for so many bytes more in this chunk. Whatever compression does, it is enough.
    fn make_place(&mut self, bytes: u64) -> Result<(), McapError> {
        if self.chunk_bytes > 0 && self.chunk_bytes + bytes > CHUNK_BYTES {
            self.end_chunk()?;
        }
        let chunk = self.chunk_bytes + bytes;
        self.output.ensure(chunk + chunk / 128 + self.index_bytes + END_BYTES)?;
        self.chunk_bytes = chunk;
        self.chunk_begin.get_or_insert_with(Instant::now);
        Ok(())
    }

    fn message(
        &mut self,
        kinds: Kinds,
        stamp: Stamp,
        frame: Frame,
        sequence: u32,
        topic: u32,
        payload: &[u8],
    ) -> Result<(), McapError> {
        let known = self.channels.of(kinds, topic, payload);
        // In the chunk, and again at the end of the file.
        let channel_bytes = known.as_ref().err().map_or(0, |new| 200 + 2 * new.topic.len() as u64);
        self.index_bytes += channel_bytes;
        self.make_place(payload.len() as u64 + MESSAGE_BYTES + channel_bytes)?;
        let channel_id = match known {
            Ok(channel) => channel,
            Err(new) => {
                let id = self.writer.add_channel(0, &new.topic, new.encoding, &new.metadata)?;
                self.channels.add(new, id);
                id
            }
        };
        self.last_ns = self.last_ns.max(stamp.log_ns);
        let header =
            MessageHeader { channel_id, sequence, log_time: stamp.log_ns, publish_time: stamp.publish_ns };
        self.writer.write_to_known_channel(&header, payload)?;
        frame.append_to(&mut self.frames);
        self.in_chunk.messages += 1;
        self.in_chunk.header_only += u64::from(frame.flags & frames::HEADER_ONLY != 0);
        Ok(())
    }

    fn loss(&mut self, stamp: Stamp, messages: u64, bytes: u64) -> Result<(), McapError> {
        let text = frames::loss(messages, bytes);
        self.make_place(text.len() as u64 + MESSAGE_BYTES)?;
        self.last_ns = self.last_ns.max(stamp.log_ns);
        let (channel_id, sequence) = (self.loss_channel, self.losses);
        self.losses += 1;
        let header =
            MessageHeader { channel_id, sequence, log_time: stamp.log_ns, publish_time: stamp.publish_ns };
        self.writer.write_to_known_channel(&header, text.as_bytes())
    }

    fn clock(&mut self, offset_ns: i64) -> Result<(), McapError> {
        // Metadata stand between chunks.
        self.end_chunk()?;
        self.index_bytes += 64;
        self.output.ensure(self.index_bytes + END_BYTES)?;
        self.writer.write_metadata(&clock(offset_ns))?;
        self.writer.flush()
    }

    fn end_chunk(&mut self) -> Result<(), McapError> {
        if self.chunk_begin.take().is_none() {
            return Ok(());
        }
        let done = self.write_frames().and_then(|()| self.writer.flush());
        let in_chunk = std::mem::take(&mut self.in_chunk);
        match &done {
            Ok(()) => {
                self.written.messages += in_chunk.messages;
                self.written.header_only += in_chunk.header_only;
            }
            Err(_) => self.has_failed = true,
        }
        self.frames.clear();
        self.chunk_bytes = 0;
        self.chunks = self.chunks.wrapping_add(1);
        self.index_bytes += 128 + 10 * self.channels.count() as u64;
        done
    }

    fn write_frames(&mut self) -> Result<(), McapError> {
        if self.frames.is_empty() {
            return Ok(());
        }
        let (channel_id, sequence, at) = (self.frames_channel, self.chunks, self.last_ns);
        let header = MessageHeader { channel_id, sequence, log_time: at, publish_time: at };
        self.writer.write_to_known_channel(&header, &self.frames)
    }

    fn finish(&mut self) -> Result<(), McapError> {
        if self.has_failed {
            return Ok(());
        }
        self.end_chunk()?;
        let _ = self.writer.finish()?;
        Ok(self.output.close()?)
    }
}

/// How far the clocks are apart.
fn clock(offset_ns: i64) -> Metadata {
    Metadata {
        name: frames::CLOCK.into(),
        metadata: [(frames::OFFSET.to_owned(), offset_ns.to_string())].into(),
    }
}

/// What a channel is called in the file.
struct NewChannel {
    key: Key,
    topic: String,
    encoding: &'static str,
    metadata: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Topic(u32),
    Named(String),
    Overflow,
}

/// The channels of a file: one for each topic of a group, or for each kind, interface and member of a bus.
#[derive(Default)]
struct Channels {
    ids: HashMap<Key, u16>,
    /// The topic before, which is mostly that of the next message.
    last: Option<(u32, u16)>,
    /// The name that is looked up, in memory that stays.
    name: String,
}

impl Channels {
    fn count(&self) -> usize {
        self.ids.len() + 2
    }

    fn of(&mut self, kinds: Kinds, topic: u32, payload: &[u8]) -> Result<u16, NewChannel> {
        if kinds == Kinds::Group {
            if let Some((last, id)) = self.last.filter(|(last, _)| *last == topic) {
                debug_assert_eq!(last, topic);
                return Ok(id);
            }
            if let Some(id) = self.ids.get(&Key::Topic(topic)) {
                self.last = Some((topic, *id));
                return Ok(*id);
            }
            let metadata = [("topic".to_owned(), topic.to_string())].into();
            return self.or_overflow(Key::Topic(topic), format!("/topic/{topic}"), "", metadata);
        }
        self.name.clear();
        name_of(payload, &mut self.name);
        let key = Key::Named(std::mem::take(&mut self.name));
        let found = self.ids.get(&key).copied();
        let Key::Named(name) = &key else { unreachable!("it was made here") };
        self.name.clone_from(name);
        found.map_or_else(|| self.or_overflow(key, self.name.clone(), "dbus", BTreeMap::new()), Ok)
    }

    fn or_overflow(
        &self,
        key: Key,
        topic: String,
        encoding: &'static str,
        metadata: BTreeMap<String, String>,
    ) -> Result<u16, NewChannel> {
        if self.ids.len() < CHANNELS_MAX {
            return Err(NewChannel { key, topic, encoding, metadata });
        }
        let new =
            NewChannel { key: Key::Overflow, topic: "/overflow".into(), encoding, metadata: BTreeMap::new() };
        self.ids.get(&Key::Overflow).copied().ok_or(new)
    }

    fn add(&mut self, new: NewChannel, id: u16) {
        if let Key::Topic(topic) = new.key {
            self.last = Some((topic, id));
        }
        self.ids.insert(new.key, id);
    }
}

/// The channel of a D-Bus message: its kind, interface and member, or the name of the error.
fn name_of(message: &[u8], name: &mut String) {
    let Ok(header) = Header::parse(message) else { return name.push_str("/unreadable") };
    let parts = match header.kind {
        Kind::MethodCall => ["call", header.interface.unwrap_or("-"), header.member.unwrap_or("-")],
        Kind::Signal => ["signal", header.interface.unwrap_or("-"), header.member.unwrap_or("-")],
        Kind::MethodReturn => ["return", "", ""],
        Kind::Error => ["error", header.error_name.unwrap_or("-"), ""],
        Kind::Other(_) => ["other", "", ""],
    };
    for part in parts.iter().filter(|part| !part.is_empty()) {
        name.push('/');
        name.push_str(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_numbered_before_the_extension() {
        let name = |path: &str, part| part_path(Path::new(path), part).display().to_string();
        assert_eq!(name("/a/b.mcap", 0), "/a/b.mcap");
        assert_eq!(name("/a/b.mcap", 12), "/a/b.12.mcap");
        assert_eq!(name("b", 1), "b.1");
    }

    /// MCAP has 65,535 channels; a publisher may use more topics.
    #[test]
    fn topics_beyond_the_channels_of_a_file_share_one() {
        let mut channels = Channels::default();
        for topic in 0..CHANNELS_MAX as u32 + 10 {
            match channels.of(Kinds::Group, topic, &[]) {
                Err(new) => {
                    let id = channels.ids.len() as u16 + 3;
                    channels.add(new, id);
                }
                Ok(id) => {
                    assert!(topic > CHANNELS_MAX as u32, "topic {topic} has channel {id}");
                    assert_eq!(Some(&id), channels.ids.get(&Key::Overflow));
                }
            }
        }
        assert_eq!(channels.ids.len(), CHANNELS_MAX + 1);
        assert_ne!(channels.of(Kinds::Group, 3, &[]).ok(), channels.ids.get(&Key::Overflow).copied());
    }
}
