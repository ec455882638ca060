//! The directory: who is on the bus, under which names, and which signals each wants to be woken for.
//!
//! Only the authority writes it. An entry has a sequence number that is odd while the entry changes; a reader that finds it odd
//! or changed reads again, and checks indices and lengths all the same.

mod names;

pub use names::{NAME_BYTES, Owner, OwnerRead, QUEUE_SHOWN};

use std::os::fd::OwnedFd;
use std::sync::atomic::{Ordering, fence};

use causeway_os::memory::{Access, Mapping, add_seals};

use super::filter::{FILTER_WORDS, Filter, SignalKeys, says_yes};
use super::memory::invalid;
use super::{FORMAT, memory};
use crate::error::{Error, Result};

/// First eight bytes of a directory.
pub const MAGIC: u64 = u64::from_le_bytes(*b"CSWYBDIR");
/// Offset of the number of changes of filters.
pub const FILTER_VERSION: usize = 128;
/// Offset of the word that says whether the authority must see messages between members.
pub const WATCHED: usize = 56;
/// Offset of the word that says whether there are clients that the directory does not show.
pub const PARTIAL: usize = 64;
/// Offset of the number of names that are shown.
pub const NAMES_SHOWN: usize = 72;
/// Offset of the number of cells that names have left, and in which searches go on.
pub const NAMES_LEFT: usize = 80;
/// Offset of the sequence number of the table of names, which is odd while names move in it.
pub const NAMES_SEQUENCE: usize = 88;
/// Offset of the bits of peers that want signals.
pub const LISTENERS: usize = 1024;
/// Offset of the bits of slots in use.
pub const PRESENT: usize = 512;
/// Offset of the first peer.
pub const PEERS: usize = 4096;
/// Bytes of a peer.
pub const PEER_BYTES: usize = 1024;
/// Peers at most, members and clients together.
pub const PEERS_MAX: usize = 8192;
/// Names at most.
pub const NAMES_MAX: usize = 65536;
/// Bytes of a label that are kept.
pub const LABEL_BYTES: usize = 64;

const FILTER_AT: usize = 128;
const _: () = assert!(FILTER_AT + FILTER_WORDS * 8 <= PEER_BYTES);
const LABEL_AT: usize = 64;
/// Tries to read an entry that changes; an authority that died while it wrote leaves one odd for ever.
const TRIES: usize = 100_000;

/// State of a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Nobody.
    #[default]
    Free = 0,
    /// On the bus.
    Active = 1,
    /// Gone; what it sent has not been read by all yet.
    Leaving = 2,
}

/// Somebody on the bus: a member, or a D-Bus client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// Its number, never used again.
    pub id: u64,
    /// Slot whose outbox has its messages: its own, or that of the authority.
    pub carrier: u16,
    /// Is it there?
    pub state: State,
    /// Process, 0 if the authority could not see it.
    pub pid: u32,
    /// User.
    pub uid: u32,
    /// Label of a security module, cut after [`LABEL_BYTES`].
    pub label: String,
}

/// A directory.
#[derive(Debug)]
pub struct Directory {
    memory: Mapping,
    slots: usize,
    peers: usize,
    names: usize,
}

impl Directory {
    /// A new directory, and the descriptor through which members can only read it. Fails for more peers or names than are
    /// possible.
    pub fn create(slots: usize, peers: usize, names: usize, bus: [u64; 2]) -> Result<(OwnedFd, Directory)> {
        if !is_possible(slots, peers, names) {
            return Err(Error::Invalid(format!(
                "a directory has at most {PEERS_MAX} peers and from 1 to {NAMES_MAX} names, not {peers} and {names}"
            )));
        }
        let bytes = Directory::bytes(peers, names);
        let fd = memory::create("causeway-directory", bytes)?;
        let memory = memory::map(&fd, bytes, Access::ReadWrite)?;
        let words = [MAGIC, u64::from(FORMAT), slots as u64, peers as u64, names as u64, bus[0], bus[1]];
        for (index, word) in words.into_iter().enumerate() {
            memory.atomic_u64(index * 8).store(word, Ordering::Relaxed);
        }
        add_seals(&fd, memory::ONE_WRITER)?;
        Ok((fd, Directory { memory, slots, peers, names }))
    }

    /// Maps the directory of a bus. Fails if it is not sealed, its length and header disagree, or it is of another
    /// version.
    pub fn open(fd: &OwnedFd) -> Result<Directory> {
        const WHAT: &str = "directory";
        let bytes = memory::checked_bytes(fd, WHAT, memory::ONE_WRITER)?;
        if bytes < PEERS as u64 {
            return Err(invalid(WHAT, format!("it has {bytes} bytes")));
        }
        let (memory, _) = memory::open(fd, WHAT, MAGIC, bytes, Access::ReadOnly)?;
        let word = |index: usize| memory.load_u64(index * 8).load(Ordering::Relaxed);
        let [slots, peers, names] = [2, 3, 4].map(|index| usize::try_from(word(index)).unwrap_or(usize::MAX));
        if !is_possible(slots, peers, names) {
            return Err(invalid(WHAT, "its sizes are out of range"));
        }
        if bytes != Directory::bytes(peers, names) {
            return Err(invalid(WHAT, format!("{bytes} bytes do not fit {peers} peers and {names} names")));
        }
        Ok(Directory { memory, slots, peers, names })
    }

    fn bytes(peers: usize, names: usize) -> u64 {
        (PEERS + peers * PEER_BYTES + names::cells(names) * NAME_BYTES) as u64
    }

    /// Peers that there can be.
    pub fn peers(&self) -> usize {
        self.peers
    }

    /// Slots of members; they are the first peers.
    #[inline]
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// The GUID of the bus, 32 hexadecimal digits.
    pub fn bus_id(&self) -> String {
        let [first, second] = [40, 48].map(|offset| self.load(offset));
        format!("{first:016x}{second:016x}")
    }

    /// Must the authority see messages between two members too, because somebody monitors the bus through it?
    #[inline]
    pub fn is_watched(&self) -> bool {
        self.load(WATCHED) != 0
    }

    /// Says so, or that it need not any more.
    pub fn set_watched(&self, is_watched: bool) {
        self.memory.atomic_u64(WATCHED).store(is_watched.into(), Ordering::Relaxed);
    }

    /// Are there clients that this directory does not show, so that a number that is not here may still be that of one?
    pub fn is_partial(&self) -> bool {
        self.load(PARTIAL) != 0
    }

    /// Says so, or that all are shown. To be called before anybody can learn of the client.
    pub fn set_partial(&self, is_partial: bool) {
        self.memory.atomic_u64(PARTIAL).store(is_partial.into(), Ordering::Relaxed);
    }

    #[inline]
    fn peer_at(&self, peer: u16, offset: usize) -> usize {
        assert!(usize::from(peer) < self.peers, "peer {peer} of {}", self.peers);
        PEERS + usize::from(peer) * PEER_BYTES + offset
    }

    #[inline]
    fn load(&self, offset: usize) -> u64 {
        self.memory.load_u64(offset).load(Ordering::Relaxed)
    }

    /// Reads an entry whose sequence number is at `at` until it is whole.
    fn read<T>(&self, at: usize, read: impl FnMut() -> T) -> Option<T> {
        self.read_state(at, read).map(|(_, value)| value)
    }

    /// As [`Directory::read`], with the sequence number.
    fn read_state<T>(&self, at: usize, mut read: impl FnMut() -> T) -> Option<(u64, T)> {
        for turn in 0..TRIES {
            let before = self.memory.load_u64(at).load(Ordering::Acquire);
            let value = read();
            fence(Ordering::Acquire); // PAIR directory-entry
            if before.is_multiple_of(2) && self.load(at) == before {
                return Some((before, value));
            }
            if turn % 64 == 63 {
                std::thread::yield_now();
            }
        }
        None
    }

    /// Changes an entry whose sequence number is at `at`.
    fn write(&self, at: usize, write: impl FnOnce(&dyn Fn(usize, u64))) {
        let sequence = self.memory.atomic_u64(at);
        let before = sequence.load(Ordering::Relaxed);
        sequence.store(before + 1, Ordering::Relaxed);
        fence(Ordering::Release); // PAIR directory-entry
        write(&|offset, word| self.memory.atomic_u64(offset).store(word, Ordering::Relaxed));
        sequence.store(before + 2, Ordering::Release);
    }

    /// Number and state of a peer: what senders and readers ask for each message.
    #[inline]
    pub fn id_and_state(&self, peer: u16) -> (u64, State) {
        let (id, second) = self.id_and_second_word(peer);
        (id, state(second))
    }

    /// Number of the peer that is there, or was last.
    #[inline]
    pub fn id(&self, peer: u16) -> u64 {
        self.memory.load_u64(self.peer_at(peer, 8)).load(Ordering::Acquire)
    }

    /// Number of a peer, and the word with its state and its carrier.
    #[inline]
    fn id_and_second_word(&self, peer: u16) -> (u64, u64) {
        let at = self.peer_at(peer, 0);
        let word = |offset| self.memory.load_u64(at + offset).load(Ordering::Acquire);
        let mut before = word(8);
        for _ in 0..TRIES {
            let second = word(16);
            // A number is never used again: if it is the same after as before, the state is one of its own.
            match word(8) {
                after if after == before => return (after, second),
                after => before = after,
            }
        }
        (before, State::Free as u64)
    }

    /// Is this the peer, and is it on the bus? Asked of a number that this peer has or had, as whoever learned it from the bus knows.
    #[inline]
    pub fn is_active(&self, peer: u16, id: u64) -> bool {
        let at = self.peer_at(peer, 0);
        let word = |offset| self.memory.load_u64(at + offset).load(Ordering::Acquire);
        // A number is never used again: if it is still there after the state was read, the state is its own.
        state(word(16)) == State::Active && word(8) == id
    }

    /// Everything about a peer. `None` for one that is free, and where the authority died while it wrote.
    pub fn peer(&self, peer: u16) -> Option<Peer> {
        if usize::from(peer) >= self.peers {
            return None;
        }
        let at = |offset| self.peer_at(peer, offset);
        let found = self.read(at(0), || {
            let mut label = [0; LABEL_BYTES];
            memory::copy_out(&self.memory, at(LABEL_AT), &mut label);
            let end = label.iter().position(|byte| *byte == 0).unwrap_or(LABEL_BYTES);
            let (second, third) = (self.load(at(16)), self.load(at(24)));
            Peer {
                id: self.load(at(8)),
                carrier: (second >> 32) as u16,
                state: state(second),
                pid: third as u32,
                uid: (third >> 32) as u32,
                label: String::from_utf8_lossy(&label[..end]).into_owned(),
            }
        })?;
        (found.state != State::Free).then_some(found)
    }

    /// The entry of the active peer with this number.
    pub fn find(&self, id: u64) -> Option<u16> {
        (0..self.peers as u16).find(|peer| self.id_and_state(*peer) == (id, State::Active))
    }

    /// Slot that carries the messages of a peer.
    #[inline]
    pub fn carrier(&self, peer: u16) -> u16 {
        self.carrier_of(self.load(self.peer_at(peer, 16)))
    }

    #[inline]
    fn carrier_of(&self, second_word: u64) -> u16 {
        ((second_word >> 32) as u16).min(self.slots as u16 - 1)
    }

    /// The same, if this is the peer and it is on the bus.
    #[inline]
    pub fn active_carrier(&self, peer: u16, id: u64) -> Option<u16> {
        let (found, second) = self.id_and_second_word(peer);
        (found == id && state(second) == State::Active).then(|| self.carrier_of(second))
    }

    /// Slots in use, lowest first.
    pub fn present(&self) -> impl Iterator<Item = u16> + '_ {
        self.bits(PRESENT, self.slots)
    }

    /// Peers that want signals, lowest first.
    pub fn listeners(&self) -> impl Iterator<Item = u16> + '_ {
        self.bits(LISTENERS, self.peers)
    }

    fn bits(&self, at: usize, count: usize) -> impl Iterator<Item = u16> + '_ {
        (0..count.div_ceil(64)).flat_map(move |index| {
            let mut word = self.memory.load_u64(at + index * 8).load(Ordering::Acquire);
            std::iter::from_fn(move || {
                let bit = word.trailing_zeros();
                word &= word.wrapping_sub(1);
                (bit < 64).then_some(index as u16 * 64 + bit as u16)
            })
            .filter(move |bit| usize::from(*bit) < count)
        })
    }

    fn set_bit(&self, at: usize, bit: u16, value: bool) {
        let word = self.memory.atomic_u64(at + usize::from(bit) / 64 * 8);
        let mask = 1u64 << (bit % 64);
        if value {
            word.fetch_or(mask, Ordering::SeqCst)
        } else {
            word.fetch_and(!mask, Ordering::SeqCst)
        };
    }

    /// How often filters, or their peers, have changed. Who loads a number here finds the filters that go with it, or later
    /// ones.
    #[inline]
    pub fn filter_version(&self) -> u64 {
        self.memory.load_u64(FILTER_VERSION).load(Ordering::Acquire) // PAIR directory-filters
    }

    /// To be called after a change of filters, and before anybody is told that it was made.
    fn raise_filter_version(&self) {
        self.memory.atomic_u64(FILTER_VERSION).fetch_add(1, Ordering::SeqCst); // PAIR directory-filters
    }

    /// Would this signal wake a peer? An entry that cannot be read counts as yes.
    pub fn wants(&self, peer: u16, keys: &SignalKeys<'_>) -> bool {
        let filter = self.peer_at(peer, FILTER_AT);
        self.read(self.peer_at(peer, 0), || says_yes(|word| self.load(filter + word * 8), keys))
            .unwrap_or(true)
    }

    /// Writes a peer, with a filter that says no to everything.
    pub fn set_peer(&self, index: u16, peer: &Peer) {
        let at = |offset| self.peer_at(index, offset);
        self.set_bit(LISTENERS, index, false);
        self.write(at(0), |store| {
            // Free before it has another number: no reader sees the new number with the old state.
            store(at(16), 0);
            fence(Ordering::Release);
            store(at(8), peer.id);
            store(at(24), u64::from(peer.pid) | u64::from(peer.uid) << 32);
            let mut label = [0; LABEL_BYTES];
            let bytes = peer.label.len().min(LABEL_BYTES);
            label[..bytes].copy_from_slice(&peer.label.as_bytes()[..bytes]);
            self.memory.copy_in(at(LABEL_AT), &label);
            (0..FILTER_WORDS).for_each(|word| store(at(FILTER_AT + word * 8), 0));
            fence(Ordering::Release);
            store(at(16), peer.state as u64 | u64::from(peer.carrier) << 32);
        });
        if usize::from(index) < self.slots {
            self.set_bit(PRESENT, index, peer.state == State::Active);
        }
        self.raise_filter_version();
    }

    /// Changes the state of a peer.
    pub fn set_state(&self, index: u16, state: State) {
        let at = self.peer_at(index, 16);
        if usize::from(index) < self.slots {
            self.set_bit(PRESENT, index, state == State::Active);
        }
        if state != State::Active {
            self.set_bit(LISTENERS, index, false);
        }
        let carrier = self.load(at) & !0xffff_ffff;
        self.write(self.peer_at(index, 0), |store| store(at, carrier | state as u64));
        self.raise_filter_version();
    }

    /// Replaces the filter of a peer.
    pub fn set_filter(&self, index: u16, filter: &Filter) {
        let at = self.peer_at(index, FILTER_AT);
        self.write(self.peer_at(index, 0), |store| {
            filter.words().iter().enumerate().for_each(|(word, value)| store(at + word * 8, *value));
        });
        self.set_bit(LISTENERS, index, !filter.is_empty());
        self.raise_filter_version();
    }
}

fn is_possible(slots: usize, peers: usize, names: usize) -> bool {
    slots <= peers && peers <= PEERS_MAX && (1..=NAMES_MAX).contains(&names)
}

fn state(word: u64) -> State {
    match word as u32 {
        1 => State::Active,
        2 => State::Leaving,
        _ => State::Free,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn pair() -> (Directory, Directory) {
        let (fd, ours) = Directory::create(4, 8, 16, [1, 2]).unwrap();
        (ours, Directory::open(&fd).unwrap())
    }

    fn member(id: u64, carrier: u16) -> Peer {
        Peer { id, carrier, state: State::Active, pid: 5, uid: 6, label: "label".into() }
    }

    #[test]
    fn members_see_what_the_authority_writes() {
        let (ours, theirs) = pair();
        ours.set_peer(3, &member(9, 3));
        assert_eq!(theirs.peer(3), Some(member(9, 3)));
        assert_eq!((theirs.find(9), theirs.find(8), theirs.peer(2)), (Some(3), None, None));
        assert!(theirs.present().eq([3]) && theirs.listeners().next().is_none());
        ours.set_filter(3, &Filter::all());
        assert!(theirs.listeners().eq([3]));
        ours.set_state(3, State::Leaving);
        assert_eq!(theirs.id_and_state(3), (9, State::Leaving));
        assert!(theirs.present().next().is_none() && theirs.listeners().next().is_none());
        assert_eq!(theirs.bus_id(), format!("{:016x}{:016x}", 1, 2));
    }

    #[test]
    fn an_entry_that_was_left_half_written_does_not_hang_its_readers() {
        let (ours, theirs) = pair();
        ours.set_peer(1, &member(9, 1));
        ours.memory.atomic_u64(ours.peer_at(1, 0)).fetch_add(1, Ordering::Relaxed);
        assert_eq!(theirs.peer(1), None);
    }

    proptest::proptest! {
        /// Whatever words a directory holds, its readers end and stay inside it.
        #[test]
        fn readers_survive_damaged_memory(words in proptest::collection::vec((0usize..2600, proptest::num::u64::ANY), 1..200)) {
            let (ours, theirs) = pair();
            ours.set_peer(1, &member(9, 1));
            ours.set_owner("com.example", Some(&Owner { peer: 1, id: 9, queue: vec![] }));
            for (index, word) in words {
                let at = 64 + index * 8;
                // Sequence numbers stay even: an odd one is the test above, and takes its time.
                let is_sequence = at >= PEERS && (at - PEERS).is_multiple_of(NAME_BYTES);
                if at + 8 <= ours.memory.len() {
                    ours.memory.atomic_u64(at).store(if is_sequence { word & !1 } else { word }, Ordering::Relaxed);
                }
            }
            let _ = theirs.all_names();
            let _ = (theirs.owner("com.example"), theirs.find(9));
            let message = causeway_dbus_wire::wire::Builder::signal("/", "a.b", "M").build(1).unwrap();
            let header = causeway_dbus_wire::wire::Header::parse(&message).unwrap();
            let keys = SignalKeys::new(7, &header, &[]);
            for peer in theirs.listeners().chain(theirs.present()) {
                let _ = (theirs.peer(peer), theirs.wants(peer, &keys), theirs.carrier(peer));
            }
        }
    }
}
