//! Memory that the messages of a stream come from and go to, where a case does not want them hot in a cache.
//!
//! Both ends walk over blocks, message by message, and begin again at their ends. So what arrives stands at the same place
//! of the receiver's block as it stood in the sender's, which is compared when nothing is timed any more.

use std::io;

use crate::axis::{Axis, MemoryState, Values};
use crate::buffer::Buffer;
use crate::contract::Unsupported;
use crate::host;
use crate::params::{CaseParams, Touch};
use crate::touch;

/// How much memory messages come from and go to.
pub const WORKING_SET: Axis = Axis {
    name: "working-set",
    default: "default",
    values: Values::Bytes,
    about: "bytes of a block that the sender takes message after message from, and of one that the receiver copies them to; \
            payloads are not touched otherwise. Default is none: one place for each message, hot in a cache",
};

/// The receiver's block where only fresh memory is asked for.
const DEFAULT_BYTES: usize = 64 << 20;

/// Bytes of each block; none where messages stay in their places.
fn block_bytes(params: &CaseParams) -> Option<usize> {
    params.number(WORKING_SET.name)
}

fn is_fresh(params: &CaseParams) -> bool {
    params.choice::<MemoryState>() == MemoryState::Fresh
}

/// Is there room for the blocks?
pub fn fit(params: &CaseParams) -> Result<(), Unsupported> {
    let Some(block) = block_bytes(params) else { return Ok(()) };
    let bytes = params.payload_bytes;
    if block < bytes.max(1) {
        let why =
            format!("a working set of {block} bytes does not hold a message of {bytes}; raise working-set");
        return Err(Unsupported(why));
    }
    match host::available_bytes() {
        Some(available) if (block as u64).saturating_mul(2) > available / 2 => Err(Unsupported(format!(
            "two blocks of {block} bytes are more than half of MemAvailable = {available}; lower working-set"
        ))),
        _ => Ok(()),
    }
}

/// Page faults of each message: those of the memory that is touched for the first time.
pub fn faults(params: &CaseParams) -> f64 {
    if is_fresh(params) {
        params.payload_bytes as f64 / causeway_os::memory::page_bytes() as f64
    } else {
        0.0
    }
}

/// How much of payloads is touched beside the copies.
pub fn touch(params: &CaseParams) -> Touch {
    if block_bytes(params).is_some() { Touch::None } else { params.touch }
}

/// A walk over a block in steps of one message.
struct Walk {
    block: Buffer,
    len: usize,
    /// Bytes of the block that hold whole messages.
    end: usize,
    at: usize,
}

impl Walk {
    fn new(block_bytes: usize, len: usize) -> io::Result<Walk> {
        let end = block_bytes.checked_div(len).map_or(0, |messages| messages * len);
        Ok(Walk { block: Buffer::new(block_bytes)?, len, end, at: 0 })
    }

    /// Where the next message stands, and whether the walk begins again with it.
    #[inline]
    fn step(&mut self) -> (std::ops::Range<usize>, bool) {
        let begins_again = self.at == self.end;
        let from = if begins_again { 0 } else { self.at };
        self.at = from + self.len;
        (from..self.at, begins_again)
    }
}

/// The word that a message carries, by its number in the block.
fn word(index: usize) -> u64 {
    touch::word(index as u64, 0)
}

/// The sender's block, filled beforehand.
pub struct Source(Walk);

impl Source {
    /// The one that the case asks for.
    pub fn of(params: &CaseParams) -> io::Result<Option<Source>> {
        let Some(bytes) = block_bytes(params) else { return Ok(None) };
        let mut walk = Walk::new(bytes, params.payload_bytes)?;
        walk.block.prefault()?;
        let (len, end) = (walk.len.max(1), walk.end);
        for (index, message) in walk.block.bytes_mut()[..end].chunks_mut(len).enumerate() {
            touch::write(message, word(index), Touch::All);
        }
        Ok(Some(Source(walk)))
    }

    /// The next message.
    #[inline]
    pub fn next(&mut self) -> &[u8] {
        let (place, _) = self.0.step();
        &self.0.block.bytes()[place]
    }
}

/// The receiver's block.
pub struct Store {
    walk: Walk,
    is_fresh: bool,
    /// Do messages come from a [`Source`], so that it is known what they must be?
    is_known: bool,
    is_full: bool,
}

impl Store {
    /// The one that the case asks for.
    pub fn of(params: &CaseParams) -> io::Result<Option<Store>> {
        let (asked, is_fresh) = (block_bytes(params), is_fresh(params));
        if asked.is_none() && !is_fresh {
            return Ok(None);
        }
        let bytes = asked.unwrap_or(DEFAULT_BYTES.max(params.payload_bytes));
        let mut walk = Walk::new(bytes, params.payload_bytes)?;
        if is_fresh {
            // A kernel that knows only small pages refuses to be told so.
            walk.block.use_small_pages().unwrap_or_default();
        } else {
            walk.block.prefault()?;
        }
        Ok(Some(Store { walk, is_fresh, is_known: asked.is_some(), is_full: false }))
    }

    /// Copies a message to its place. A fresh block is given back to the kernel before it is filled once more, and that is
    /// timed with the rest.
    #[inline]
    pub fn keep(&mut self, message: &[u8]) -> io::Result<()> {
        let (place, begins_again) = self.walk.step();
        if begins_again {
            self.is_full = true;
            if self.is_fresh {
                self.walk.block.give_back()?;
            }
        }
        if place.len() != message.len() {
            let (came, sent) = (message.len(), place.len());
            return Err(io::Error::other(format!("a message of {came} bytes came where {sent} were sent")));
        }
        self.walk.block.bytes_mut()[place].copy_from_slice(message);
        Ok(())
    }

    /// When all is over: is everything where it must be?
    pub fn check(&self) -> io::Result<()> {
        let Walk { block, len, end, at } = &self.walk;
        if !self.is_known || *len == 0 {
            return Ok(());
        }
        let filled = if self.is_full && !self.is_fresh { *end } else { *at };
        for (index, message) in block.bytes()[..filled].chunks(*len).enumerate() {
            if !touch::is_filled_with(message, word(index)) {
                let why = format!("message {index} of the block is not the one that was sent");
                return Err(io::Error::other(why));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis::Choice;
    use weighbridge_record::CaseId;

    fn params(working_set: &str, memory: &str) -> CaseParams {
        let id = CaseId::new("stream", "pipe", 1000, "free")
            .with("working-set", working_set)
            .with("memory", memory);
        CaseParams::new(&id, &[WORKING_SET, MemoryState::AXIS], &[]).unwrap()
    }

    fn ends(memory: &str) -> (Source, Store) {
        // A block holds ten messages.
        let params = params("10500", memory);
        (Source::of(&params).unwrap().unwrap(), Store::of(&params).unwrap().unwrap())
    }

    #[test]
    fn what_is_kept_stands_where_it_came_from_also_the_second_time_around() {
        for memory in ["warm", "fresh"] {
            let (mut source, mut store) = ends(memory);
            for _ in 0..27 {
                store.keep(source.next()).unwrap();
                store.check().unwrap();
            }
            store.walk.block.bytes_mut()[500] ^= 1;
            assert!(store.check().unwrap_err().to_string().contains("message 0"), "{memory}");
        }
    }

    #[test]
    fn a_message_that_is_lost_is_noticed() {
        let (mut source, mut store) = ends("warm");
        store.keep(source.next()).unwrap();
        source.next();
        store.keep(source.next()).unwrap();
        assert!(store.check().unwrap_err().to_string().contains("message 1"));
        assert!(store.keep(&[0; 999]).is_err());
    }

    #[test]
    fn a_working_set_that_holds_no_message_is_refused() {
        assert_eq!(fit(&params("default", "fresh")), Ok(()));
        let Err(Unsupported(why)) = fit(&params("999", "warm")) else { panic!("it does not fit") };
        assert!(why.contains("raise working-set"), "{why}");
    }
}
