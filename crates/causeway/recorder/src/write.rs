//! The thread that writes: chunks of 1 MiB or 250 ms, and files one after another.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mcap::records::{MessageHeader, Metadata};
use mcap::write::NoSeek;
use mcap::{Compression, McapError, WriteOptions, Writer};

use crate::args::Compress;
use crate::channels::{Channels, Ids, Naming, NewChannel, Schema, TWIN_SCHEMA};
use crate::file::Output;
use crate::frames::{self, ENTRY_BYTES, Frame};
use crate::ring::{Batch, Next, Ring, Stamp, Step};

/// How the header of a file names its writer.
pub const LIBRARY: &str = "causeway-record ";
/// A chunk ends once it has so many bytes …
const CHUNK_BYTES: u64 = 1 << 20;
/// … or is so old: a kill loses no more.
const CHUNK_TIME: Duration = Duration::from_millis(250);
/// Bytes of a message in a chunk, without its payload: record, entry of its frame, entry of the index.
const MESSAGE_BYTES: u64 = 31 + ENTRY_BYTES as u64 + 16;
/// What is kept for the end of the file and for the channels of a chunk.
const END_BYTES: u64 = 16 << 10;

/// How it is written.
#[derive(Clone, Debug)]
pub struct Plan {
    pub path: PathBuf,
    pub naming: Naming,
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
                    part.message(&self.plan.naming, stamp, frame, sequence, topic, payload)?;
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
            .library(format!("{LIBRARY}{}", env!("CARGO_PKG_VERSION")))
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
        naming: &Naming,
        stamp: Stamp,
        frame: Frame,
        sequence: u32,
        topic: u32,
        payload: &[u8],
    ) -> Result<(), McapError> {
        let known = self.channels.of(naming, topic, payload);
        let twin = naming.twin(frame.position, payload);
        // In the chunk, and again at the end of the file.
        let channel_bytes = known.as_ref().err().map_or(0, |new| 2 * new.bytes());
        let twin_bytes = twin.as_ref().map_or(0, |twin| twin.len() as u64 + MESSAGE_BYTES);
        self.index_bytes += channel_bytes;
        self.make_place(payload.len() as u64 + MESSAGE_BYTES + twin_bytes + channel_bytes)?;
        let ids = match known {
            Ok(ids) => ids,
            Err(new) => self.add_channel(new)?,
        };
        self.last_ns = self.last_ns.max(stamp.log_ns);
        let header = MessageHeader {
            channel_id: ids.own,
            sequence,
            log_time: stamp.log_ns,
            publish_time: stamp.publish_ns,
        };
        self.writer.write_to_known_channel(&header, payload)?;
        frame.append_to(&mut self.frames);
        if let Some((twin, channel_id)) = twin.zip(ids.twin) {
            self.writer.write_to_known_channel(&MessageHeader { channel_id, ..header }, twin.as_bytes())?;
        }
        self.in_chunk.messages += 1;
        self.in_chunk.header_only += u64::from(frame.flags & frames::HEADER_ONLY != 0);
        Ok(())
    }

    fn add_channel(&mut self, new: NewChannel<'_>) -> Result<Ids, McapError> {
        let mut add = |topic: &str, schema: Option<&Schema>, encoding: &str, metadata: &_| {
            let schema = match schema {
                Some(Schema { name, encoding, data }) => self.writer.add_schema(name, encoding, data)?,
                None => 0,
            };
            self.writer.add_channel(schema, topic, encoding, metadata)
        };
        let own = add(&new.topic, new.schema, new.encoding, &new.metadata)?;
        let twin = match &new.twin {
            Some(topic) => {
                let metadata = [(frames::TWIN_OF.to_owned(), new.topic.clone())].into();
                Some(add(topic, Some(&TWIN_SCHEMA), "json", &metadata)?)
            }
            None => None,
        };
        let ids = Ids { own, twin };
        self.channels.add(new.key, ids);
        Ok(ids)
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
}
