//! Well-known names in the directory: a hash table with linear probing, and who has each of them.
//!
//! A cell whose name has gone keeps its hash, so that searches go on behind it. When names have left a quarter of the cells, those that are there
//! move to where a search finds them soonest, and all others are empty again: a search ends soon, however many names there have been.

use std::sync::atomic::Ordering;

use super::{Directory, NAMES_LEFT, NAMES_SEQUENCE, NAMES_SHOWN, PEER_BYTES, PEERS};
use crate::shared::filter::hash;

/// Bytes of a name.
pub const NAME_BYTES: usize = 512;
/// Waiting owners of a name that the directory shows.
pub const QUEUE_SHOWN: usize = 24;

const QUEUE_AT: usize = 64;
const TEXT_AT: usize = 256;

/// Cells of a table for so many names.
pub fn cells(names: usize) -> usize {
    2 * names
}

/// Who has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Entry of the owner.
    pub peer: u16,
    /// Its number.
    pub id: u64,
    /// Numbers of those who wait for the name, of which [`QUEUE_SHOWN`] are shown.
    pub queue: Vec<u64>,
}

/// Who has a well-known name, and in which state of its entry that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerRead {
    /// Entry of the owner.
    pub peer: u16,
    /// Its number.
    pub id: u64,
    /// Offset of the entry, and its sequence number.
    state: (usize, u64),
}

impl Directory {
    fn name_at(&self, name: usize, offset: usize) -> usize {
        PEERS + self.peers * PEER_BYTES + (name % cells(self.names)) * NAME_BYTES + offset
    }

    /// Who has a well-known name.
    pub fn owner(&self, name: &str) -> Option<OwnerRead> {
        self.read(NAMES_SEQUENCE, || {
            let entry = self.find_name(name)?;
            let at = |offset| self.name_at(entry, offset);
            let (sequence, owner) = self.read_state(at(0), || {
                let (lengths, peer, id) = (self.load(at(16)), self.load(at(24)) as u16, self.load(at(32)));
                (self.is_named(entry, lengths, name) && usize::from(peer) < self.peers).then_some((peer, id))
            })?;
            owner.map(|(peer, id)| OwnerRead { peer, id, state: (at(0), sequence) })
        })?
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
        let name_in = |entry: usize| {
            let at = |offset| self.name_at(entry, offset);
            let text = self.read(at(0), || {
                let bytes = (self.load(at(16)) as u32 as usize).min(NAME_BYTES - TEXT_AT);
                let mut text = Vec::new();
                self.memory.copy(at(TEXT_AT), bytes, &mut text);
                text
            })?;
            (!text.is_empty()).then(|| String::from_utf8_lossy(&text).into_owned())
        };
        let names = || (0..cells(self.names)).filter_map(name_in).collect();
        self.read(NAMES_SEQUENCE, names).unwrap_or_default()
    }

    fn find_name(&self, name: &str) -> Option<usize> {
        let wanted = name_hash(name);
        for entry in self.row(name) {
            let at = self.name_at(entry, 0);
            let found = self.hash_in(entry);
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
        let (known, shown, left) = (self.find_name(name), self.load(NAMES_SHOWN), self.load(NAMES_LEFT));
        let free =
            || self.row(name).find(|entry| !self.is_in_use(*entry)).filter(|_| shown < self.names as u64);
        let entry = known.or_else(|| owner.and_then(|_| free()));
        let Some(entry) = entry else { return owner.is_none() };
        let goes = u64::from(owner.is_none());
        let is_reused = u64::from(known.is_none() && self.hash_in(entry) != 0);
        let counts =
            [(NAMES_SHOWN, shown + u64::from(known.is_none()) - goes), (NAMES_LEFT, left + goes - is_reused)];
        for (at, count) in counts {
            self.memory.atomic_u64(at).store(count, Ordering::Relaxed);
        }
        let at = |offset| self.name_at(entry, offset);
        self.write(at(0), |store| {
            let Some(owner) = owner else {
                return store(at(16), 0);
            };
            let queue = &owner.queue[..owner.queue.len().min(QUEUE_SHOWN)];
            store(at(8), name_hash(name));
            store(at(16), name.len() as u64 | (queue.len() as u64) << 32);
            store(at(24), u64::from(owner.peer));
            store(at(32), owner.id);
            queue.iter().enumerate().for_each(|(index, id)| store(at(QUEUE_AT + index * 8), *id));
            self.memory.copy_in(at(TEXT_AT), name.as_bytes());
        });
        if counts[1].1 > cells(self.names) as u64 / 4 {
            self.move_names();
        }
        true
    }

    /// The cells in which a name may stand, in the order of a search.
    fn row(&self, name: &str) -> impl Iterator<Item = usize> + use<> {
        self.row_of(name_hash(name))
    }

    fn row_of(&self, hash: u64) -> impl Iterator<Item = usize> + use<> {
        let (first, cells) = (hash as usize, cells(self.names));
        (0..cells).map(move |step| first.wrapping_add(step) % cells)
    }

    /// 0 for a cell at which searches end.
    fn hash_in(&self, entry: usize) -> u64 {
        self.memory.load_u64(self.name_at(entry, 8)).load(Ordering::Acquire)
    }

    fn is_in_use(&self, entry: usize) -> bool {
        self.load(self.name_at(entry, 16)) as u32 != 0
    }

    /// Empties all cells and puts the names in again. Readers wait for that: a millisecond for some thousand names.
    fn move_names(&self) {
        self.write(NAMES_SEQUENCE, |_| {
            // Up to the end of the text: what stands behind it means nothing, and to move it would take twice as long.
            let words = |entry: usize| {
                let text_bytes =
                    (self.load(self.name_at(entry, 16)) as u32 as usize).min(NAME_BYTES - TEXT_AT);
                let end = TEXT_AT + text_bytes.next_multiple_of(8);
                (8..end).step_by(8).map(move |offset| self.load(self.name_at(entry, offset)))
            };
            let (mut moved, mut ends) = (Vec::new(), Vec::new());
            for entry in (0..cells(self.names)).filter(|entry| self.hash_in(*entry) != 0) {
                if self.is_in_use(entry) {
                    moved.extend(words(entry));
                    ends.push(moved.len());
                }
                self.write(self.name_at(entry, 0), |store| {
                    store(self.name_at(entry, 8), 0);
                    store(self.name_at(entry, 16), 0);
                });
            }
            let mut start = 0;
            for end in ends {
                let words = &moved[std::mem::replace(&mut start, end)..end];
                let is_empty = |entry: &usize| self.hash_in(*entry) == 0;
                let entry = self.row_of(words[0]).find(is_empty).expect("they stood here before");
                self.write(self.name_at(entry, 0), |store| {
                    words
                        .iter()
                        .enumerate()
                        .for_each(|(index, word)| store(self.name_at(entry, 8 + index * 8), *word));
                });
            }
        });
        self.memory.atomic_u64(NAMES_LEFT).store(0, Ordering::Relaxed);
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
    fn a_search_ends_soon_however_many_names_there_have_been() {
        let (_fd, ours) = Directory::create(4, 8, 300, [1, 2]).unwrap();
        let owner = Owner { peer: 1, id: 7, queue: Vec::new() };
        let used = || (0..cells(300)).filter(|entry| ours.hash_in(*entry) != 0).count();
        let name = |number: u32| format!("com.example.n{number}");
        // A hundred stay, and others come and go beside them, at times as many as there is space for.
        for number in 0..20_000 {
            assert!(ours.set_owner(&name(number), Some(&owner)));
            let beside = if number % 1_000 < 500 { 199 } else { 10 };
            for old in number.saturating_sub(210).max(100)..=number.saturating_sub(beside) {
                assert!(ours.set_owner(&name(old), None));
            }
            assert!(used() <= 450, "{} of 600 cells are searched", used());
        }
        (100..20_000).for_each(|number| assert!(ours.set_owner(&name(number), None)));
        assert!((0..100).all(|number| ours.owner(&name(number)).is_some()));
        assert!(used() < 100 + 200, "{} cells are searched for 100 names", used());
    }

    /// One that is there is found at any moment, whatever moves beside it.
    #[test]
    fn a_name_is_never_missed_while_others_come_and_go() {
        let (fd, ours) = Directory::create(4, 8, 64, [1, 2]).unwrap();
        let theirs = Directory::open(&fd).unwrap();
        let owner = |id| Owner { peer: 1, id, queue: Vec::new() };
        let name = |number: u64| format!("com.example.n{number}");
        (0..20).for_each(|number| assert!(ours.set_owner(&name(number), Some(&owner(number)))));
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 20..5_000 {
                    assert!(
                        ours.set_owner(&name(number), Some(&owner(number)))
                            && ours.set_owner(&name(number), None)
                    );
                }
                is_over.store(true, Ordering::Relaxed);
            });
            while !is_over.load(Ordering::Relaxed) {
                for number in 0..20 {
                    assert_eq!(theirs.owner(&name(number)).map(|owner| owner.id), Some(number));
                }
            }
        });
    }

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
