//! Well-known names in the directory: a hash table with linear probing, and who has each of them.

use std::sync::atomic::Ordering;

use super::{Directory, PEER_BYTES, PEERS};
use crate::shared::filter::hash;
use crate::shared::memory;

/// Bytes of a name.
pub const NAME_BYTES: usize = 512;
/// Waiting owners of a name that the directory shows.
pub const QUEUE_SHOWN: usize = 24;

const QUEUE_AT: usize = 64;
const TEXT_AT: usize = 256;

/// Who has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Entry of the owner.
    pub peer: u16,
    /// Number in its unique name.
    pub id: u64,
    /// Numbers of those who wait for the name, of which [`QUEUE_SHOWN`] are shown.
    pub queue: Vec<u64>,
}

/// Who has a well-known name, and in which state of its entry that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerRead {
    /// Entry of the owner.
    pub peer: u16,
    /// Number in its unique name.
    pub id: u64,
    /// Offset of the entry, and its sequence number.
    state: (usize, u64),
}

impl Directory {
    fn name_at(&self, name: usize, offset: usize) -> usize {
        PEERS + self.peers * PEER_BYTES + (name % self.names) * NAME_BYTES + offset
    }

    /// Who has a well-known name.
    pub fn owner(&self, name: &str) -> Option<OwnerRead> {
        let entry = self.find_name(name)?;
        let at = |offset| self.name_at(entry, offset);
        let (sequence, owner) = self.read_state(at(0), || {
            let (lengths, peer, id) = (self.load(at(16)), self.load(at(24)) as u16, self.load(at(32)));
            (self.is_named(entry, lengths, name) && usize::from(peer) < self.peers).then_some((peer, id))
        })?;
        owner.map(|(peer, id)| OwnerRead { peer, id, state: (at(0), sequence) })
    }

    /// Does the directory still say what was read?
    #[inline]
    pub fn is_owner_still(&self, read: &OwnerRead) -> bool {
        let (at, sequence) = read.state;
        self.memory.load_u64(at).load(Ordering::Acquire) == sequence
    }

    /// Has an entry, with these lengths, this name?
    fn is_named(&self, entry: usize, lengths: u64, name: &str) -> bool {
        let mut words = self.memory.load_u64s(self.name_at(entry, TEXT_AT), (NAME_BYTES - TEXT_AT) / 8);
        let mut chunks = name.as_bytes().chunks(8);
        lengths as u32 as usize == name.len()
            && !name.is_empty()
            && chunks.all(|chunk| words.next().is_some_and(|word| word.to_ne_bytes().starts_with(chunk)))
    }

    /// All well-known names.
    pub fn all_names(&self) -> Vec<String> {
        let names = (0..self.names).filter_map(|entry| {
            let at = |offset| self.name_at(entry, offset);
            let text = self.read(at(0), || {
                let bytes = (self.load(at(16)) as u32 as usize).min(NAME_BYTES - TEXT_AT);
                self.memory.copy(at(TEXT_AT), bytes)
            })?;
            (!text.is_empty()).then(|| String::from_utf8_lossy(&text).into_owned())
        });
        names.collect()
    }

    fn find_name(&self, name: &str) -> Option<usize> {
        let wanted = name_hash(name);
        for step in 0..self.names {
            let entry = (wanted as usize).wrapping_add(step) % self.names;
            let at = self.name_at(entry, 0);
            let found = self.memory.load_u64(at + 8).load(Ordering::Acquire);
            if found == 0 {
                return None;
            }
            if found == wanted && self.read(at, || self.is_named(entry, self.load(at + 16), name))? {
                return Some(entry);
            }
        }
        None
    }

    /// Writes who has a name; without an owner the name goes. False if there is no entry left.
    pub fn set_owner(&self, name: &str, owner: Option<&Owner>) -> bool {
        let first = name_hash(name) as usize;
        let is_free = |entry: &usize| self.load(self.name_at(*entry, 16)) as u32 == 0;
        let free = || (0..self.names).map(|step| first.wrapping_add(step) % self.names).find(is_free);
        let entry = self.find_name(name).or_else(|| owner.and_then(|_| free()));
        let Some(entry) = entry else { return owner.is_none() };
        let at = |offset| self.name_at(entry, offset);
        self.write(at(0), |store| {
            let Some(owner) = owner else {
                // The hash stays, so that searches go on behind it.
                return store(at(16), 0);
            };
            let queue = &owner.queue[..owner.queue.len().min(QUEUE_SHOWN)];
            store(at(8), name_hash(name));
            store(at(16), name.len() as u64 | (queue.len() as u64) << 32);
            store(at(24), u64::from(owner.peer));
            store(at(32), owner.id);
            queue.iter().enumerate().for_each(|(index, id)| store(at(QUEUE_AT + index * 8), *id));
            memory::copy_in(&self.memory, at(TEXT_AT), name.as_bytes());
        });
        true
    }
}

/// Never 0, which marks an entry that was never used.
fn name_hash(name: &str) -> u64 {
    u64::from(hash(name)) | 1 << 32
}

#[cfg(test)]
mod tests {
    use super::super::tests::pair;
    use super::*;

    #[test]
    fn names_come_and_go_and_their_table_can_be_full() {
        let (ours, theirs) = pair();
        let owner = |id| Owner { peer: 1, id, queue: vec![7; QUEUE_SHOWN + 1] };
        let names: Vec<String> = (0..16).map(|number| format!("com.example.n{number}")).collect();
        for round in 0..5 {
            for name in &names {
                assert!(ours.set_owner(name, Some(&owner(round))));
            }
            assert!(!ours.set_owner("one.more", Some(&owner(1))));
            let read = |name: &String| theirs.owner(name).map(|owner| (owner.peer, owner.id));
            assert!(names.iter().all(|name| read(name) == Some((1, round))));
            assert_eq!(theirs.all_names().len(), 16);
            for name in &names {
                assert!(ours.set_owner(name, None) && theirs.owner(name).is_none());
            }
            assert!(theirs.all_names().is_empty());
        }
        assert!(ours.set_owner("never.there", None));
    }
}
