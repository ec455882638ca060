//! Whose turn it is: one word that the leading roles of all parties sleep on.
//!
//! The order of turns is drawn from a seed that every party has, so only the position in it is shared. A party that has its
//! turn alone moves the position; the others sleep. A party whose leader has died never passes the turn on: the coordinator
//! sees the death and ends the set.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use causeway_os::futex;
use causeway_os::memory::{self, Access, Mapping};
use serde::{Deserialize, Serialize};

use super::{LEAST_BLOCKS, Random, WARM_BLOCKS};

const POSITION: usize = 0;
const BLOCKS: usize = 128;
const FINISHED: usize = 192;
const LEN: usize = 4096;

/// The place of one party in a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Party {
    pub(crate) index: usize,
    /// Number of parties, at least two.
    pub(crate) parties: usize,
    /// Slices of each party, at most. Parties with slow operations lower it; see [`Turnstile::limit_blocks`].
    pub(crate) blocks: usize,
    /// Wanted length of a slice in nanoseconds.
    pub(crate) slice_ns: u64,
    /// Seed of the order of turns.
    pub(crate) seed: u64,
}

pub(crate) fn create(blocks: usize) -> io::Result<OwnedFd> {
    let fd = memory::memfd("weighbridge-turnstile", LEN as u64)?;
    let map = Mapping::shared(fd.as_fd(), LEN, Access::ReadWrite)?;
    map.atomic_u32(BLOCKS).store(blocks as u32, Relaxed);
    Ok(fd)
}

#[derive(Debug)]
pub(crate) struct Turnstile {
    map: Mapping,
    party: Party,
    order: Vec<u8>,
    has_turn: bool,
}

impl Turnstile {
    pub(crate) fn open(fd: BorrowedFd<'_>, party: Party) -> io::Result<Turnstile> {
        let map = Mapping::shared(fd, LEN, Access::ReadWrite)?;
        map.prefault()?;
        Ok(Turnstile { map, party, order: order(party), has_turn: false })
    }

    pub(crate) fn party(&self) -> Party {
        self.party
    }

    /// Gives up the turn that this party may have, and sleeps until it has its next one.
    pub(crate) fn next_turn(&mut self) -> io::Result<()> {
        self.pass()?;
        let word = self.map.atomic_u32(POSITION);
        loop {
            let position = word.load(Acquire); // PAIR turnstile
            if self.order.get(position as usize) == Some(&(self.party.index as u8)) {
                self.has_turn = true;
                return Ok(());
            }
            let _ = futex::wait(word, position, None)?;
        }
    }

    pub(crate) fn pass(&mut self) -> io::Result<()> {
        if !self.has_turn {
            return Ok(());
        }
        self.has_turn = false;
        let word = self.map.atomic_u32(POSITION);
        let next = word.load(Relaxed) + 1;
        word.store(next, Release); // PAIR turnstile
        if self.order.get(next as usize).is_some_and(|party| *party != self.party.index as u8) {
            futex::wake(word, u32::MAX)?;
        }
        Ok(())
    }

    /// Gives up the turn for good, and sleeps until every party has done so: what a party does afterwards, as telling the
    /// coordinator, falls into no slice of another.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.pass()?;
        let word = self.map.atomic_u32(FINISHED);
        let mut finished = word.fetch_add(1, Release) + 1; // PAIR turnstile
        futex::wake(word, u32::MAX)?;
        while (finished as usize) < self.party.parties {
            let _ = futex::wait(word, finished, None)?;
            finished = word.load(Acquire); // PAIR turnstile
        }
        Ok(())
    }

    /// Lowers the number of slices of every party. Called in the first turn of a party, which all have before any has its
    /// first slice.
    pub(crate) fn limit_blocks(&self, blocks: usize) {
        self.map.atomic_u32(BLOCKS).fetch_min(blocks as u32, Relaxed);
    }

    /// As [`limit_blocks`](Turnstile::limit_blocks), to what all parties together can do in `run_ns` with slices of this length.
    pub(crate) fn limit_time(&self, run_ns: u64, slice_ns: u64) {
        let blocks = (run_ns / (slice_ns.max(1) * self.party.parties as u64)) as usize;
        self.limit_blocks(blocks.max(LEAST_BLOCKS + WARM_BLOCKS));
    }

    pub(crate) fn blocks(&self) -> usize {
        self.map.atomic_u32(BLOCKS).load(Relaxed) as usize
    }
}

/// First a turn of each party to find the length of its slices, then blocks with a slice of each in random order.
fn order(party: Party) -> Vec<u8> {
    let mut random = Random::new(party.seed);
    let mut block: Vec<u8> = (0..party.parties as u8).collect();
    let mut order = block.clone();
    for _ in 0..party.blocks {
        random.shuffle(&mut block);
        order.extend_from_slice(&block);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTY: Party = Party { index: 0, parties: 3, blocks: 50, slice_ns: 1, seed: 7 };

    #[test]
    fn every_block_has_every_party_once_and_its_order_is_drawn() {
        let order = order(PARTY);
        assert_eq!(order.len(), 3 + 3 * 50);
        for block in order.chunks(3) {
            let mut sorted = block.to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2]);
        }
        let firsts = order.chunks(3).filter(|block| block[0] == 0).count();
        assert!((5..35).contains(&firsts), "party 0 came first in {firsts} of 51 blocks");
    }
}
