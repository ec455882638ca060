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
pub struct Party {
    /// Index of the party.
    pub index: usize,
    /// Number of parties, at least two.
    pub parties: usize,
    /// Slices of each party, at most. Parties with slow operations lower it; see [`Turnstile::limit_blocks`].
    pub blocks: usize,
    /// Wanted length of a slice in nanoseconds.
    pub slice_ns: u64,
    /// Seed of the order of turns.
    pub seed: u64,
}

/// The shared part, as the coordinator makes it.
pub fn create(blocks: usize) -> io::Result<OwnedFd> {
    let fd = memory::memfd("weighbridge-turnstile", LEN as u64)?;
    let map = Mapping::shared(fd.as_fd(), LEN, Access::ReadWrite)?;
    map.atomic_u32(BLOCKS).store(blocks as u32, Relaxed);
    Ok(fd)
}

/// Turns, as one party sees them.
#[derive(Debug)]
pub struct Turnstile {
    map: Mapping,
    party: Party,
    order: Vec<u8>,
    has_turn: bool,
}

impl Turnstile {
    /// Maps the shared part and draws the order of turns.
    pub fn open(fd: BorrowedFd<'_>, party: Party) -> io::Result<Turnstile> {
        let map = Mapping::shared(fd, LEN, Access::ReadWrite)?;
        map.prefault()?;
        Ok(Turnstile { map, party, order: order(party), has_turn: false })
    }

    /// The place of this party.
    pub fn party(&self) -> Party {
        self.party
    }

    /// Gives up the turn that this party may have, and sleeps until it has its next one.
    pub fn next_turn(&mut self) -> io::Result<()> {
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

    /// Gives up the turn, where this party has it.
    pub fn pass(&mut self) -> io::Result<()> {
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
    pub fn finish(&mut self) -> io::Result<()> {
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
    pub fn limit_blocks(&self, blocks: usize) {
        self.map.atomic_u32(BLOCKS).fetch_min(blocks as u32, Relaxed);
    }

    /// As [`limit_blocks`](Turnstile::limit_blocks), to what all parties together can do in `run_ns` with slices of this length.
    pub fn limit_time(&self, run_ns: u64, slice_ns: u64) {
        let blocks = (run_ns / (slice_ns.max(1) * self.party.parties as u64)) as usize;
        self.limit_blocks(blocks.max(LEAST_BLOCKS + WARM_BLOCKS));
    }

    /// Slices of each party.
    pub fn blocks(&self) -> usize {
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
    use std::sync::Mutex;

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

    #[test]
    fn parties_take_turns_in_the_order_drawn_and_one_at_a_time() {
        let fd = create(50).unwrap();
        let taken = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for index in 0..3 {
                let (fd, taken) = (&fd, &taken);
                scope.spawn(move || {
                    let mut turnstile = Turnstile::open(fd.as_fd(), Party { index, ..PARTY }).unwrap();
                    turnstile.next_turn().unwrap();
                    turnstile.limit_blocks(if index == 1 { 20 } else { 40 });
                    taken.lock().unwrap().push(index as u8);
                    for _ in 0..20 {
                        turnstile.next_turn().unwrap();
                        assert_eq!(turnstile.blocks(), 20, "the limit is known before the first slice");
                        taken.lock().unwrap().push(index as u8);
                    }
                    turnstile.finish().unwrap();
                    let seen = taken.lock().unwrap().len();
                    assert_eq!(seen, 3 * 21, "party {index} was told of the end before all had their turns");
                });
            }
        });
        assert_eq!(taken.into_inner().unwrap(), order(PARTY)[..3 * 21]);
    }
}
