//! The first bytes between two programs that may be of different releases: who may work with whom.
//!
//! Frozen: 64 bytes, whose places and meanings never change. What else two releases say to each other may change with the format
//! level that they agree on here. `docs/wire.md` has the table.

use std::fmt;
use std::ops::RangeInclusive;

/// Bytes of a handshake.
pub const BYTES: usize = 64;
/// The second word. Programs with a lower number knew one version only: that was its number.
pub const VERSION: u32 = 9;
/// An operation from this one on may be ignored by who does not know it. One below must be understood, and is refused otherwise.
pub const MAY_BE_IGNORED: u32 = 64;

const WORDS: usize = BYTES / 4;
/// Words of a handshake, from its fourth on: those that belong to its operation, and an [`Offer`].
pub const REST: usize = WORDS - 3;
/// Where in the rest the [`Offer`] is.
pub const OFFER_AT: usize = REST - 5;

/// The features that this release knows besides those of its format levels: none.
const KNOWN_RO_COMPAT: u32 = 0;
const KNOWN_INCOMPAT: u32 = 0;

/// Sixteen little-endian words: magic, [`VERSION`], operation, and the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// Which protocol this is.
    pub magic: u32,
    /// [`VERSION`].
    pub version: u32,
    /// What is asked for or answered.
    pub operation: u32,
    /// Words of the operation; the last five are an [`Offer`] where it is one of those that carry it.
    pub rest: [u32; REST],
}

impl Handshake {
    /// As it is sent.
    pub fn to_bytes(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        let words = [self.magic, self.version, self.operation].into_iter().chain(self.rest);
        for (chunk, word) in bytes.chunks_exact_mut(4).zip(words) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// What these bytes say, if they are 64.
    pub fn from_bytes(bytes: &[u8]) -> Option<Handshake> {
        let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| bytes[at * 4 + byte]));
        let rest = std::array::from_fn(|at| word(3 + at));
        Some(Handshake { magic: word(0), version: word(1), operation: word(2), rest })
    }
}

/// Whether a peer only reads what others write, or writes as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// It needs to know what `incompat` names.
    Reads,
    /// It needs to know what `ro_compat` names, too.
    Writes,
}

/// The format levels that one side has, and the features beyond them that it makes use of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The lowest level.
    pub min: u32,
    /// The highest level.
    pub max: u32,
    /// Features that who does not know them may ignore.
    pub compat: u32,
    /// Features that who does not know them may read, and not write.
    pub ro_compat: u32,
    /// Features without which nothing is understood.
    pub incompat: u32,
}

impl Offer {
    /// These levels, and no features.
    pub const fn levels(levels: RangeInclusive<u32>) -> Offer {
        Offer { min: *levels.start(), max: *levels.end(), compat: 0, ro_compat: 0, incompat: 0 }
    }

    /// The last five words of a handshake.
    pub const fn to_words(self) -> [u32; 5] {
        [self.min, self.max, self.compat, self.ro_compat, self.incompat]
    }

    /// The offer in these words.
    pub const fn from_words([min, max, compat, ro_compat, incompat]: [u32; 5]) -> Offer {
        Offer { min, max, compat, ro_compat, incompat }
    }

    /// The highest level that both have, for a side that takes this part in what the other makes.
    ///
    /// # Errors
    /// [`Mismatch`] where there is none, or the other makes use of a feature that this release does not know and has to.
    pub fn agree(self, other: Offer, part: Part) -> Result<u32, Mismatch> {
        let unknown = match part {
            Part::Reads => other.incompat & !KNOWN_INCOMPAT,
            Part::Writes => other.incompat & !KNOWN_INCOMPAT | other.ro_compat & !KNOWN_RO_COMPAT,
        };
        let level = self.max.min(other.max);
        if unknown == 0 && level >= self.min.max(other.min) && level > 0 {
            Ok(level)
        } else {
            Err(Mismatch { own: self, other, unknown })
        }
    }
}

impl fmt::Display for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.min == self.max {
            write!(f, "format {}", self.max)
        } else {
            write!(f, "formats {} to {}", self.min, self.max)
        }
    }
}

/// Two releases that cannot work together. Displays both versions and the remedy, in one sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// This program.
    pub own: Offer,
    /// The other one.
    pub other: Offer,
    /// Features of the other one that are not known here, a bit each.
    pub unknown: u32,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mismatch { own, other, unknown } = self;
        write!(f, "this program has {own} and the other side {other}")?;
        if *unknown != 0 {
            write!(f, " with features {unknown:#x} that are not known here")?;
        }
        // The older one is to be renewed.
        let older = if own.max <= other.max { "here" } else { "there" };
        write!(f, "; install the next release {older}, or one release on both sides")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Offer = Offer::levels(2..=3);

    /// The fixture is what a release sent once. If this fails, no release talks to the one before.
    #[test]
    fn the_bytes_of_a_handshake_are_those_of_the_stored_one() {
        let offer =
            Offer { min: 1, max: 2, compat: 0x0102_0304, ro_compat: 0x1112_1314, incompat: 0x2122_2324 };
        let mut rest = [0; REST];
        rest[..4].copy_from_slice(&[3, 0, 0xdead_beef, 0x8000_0001]);
        rest[OFFER_AT..].copy_from_slice(&offer.to_words());
        let magic = u32::from_le_bytes(*b"CWY1");
        let handshake = Handshake { magic, version: VERSION, operation: 3, rest };
        let stored = include_bytes!("../tests/fixtures/handshake");
        assert_eq!(handshake.to_bytes(), *stored);
        assert_eq!(Handshake::from_bytes(stored), Some(handshake));
        assert_eq!(Offer::from_words(*handshake.rest.last_chunk().unwrap()), offer);
        assert_eq!((VERSION, MAY_BE_IGNORED), (9, 64));
        for other in [&stored[..63], &[&stored[..], &[0]].concat()] {
            assert_eq!(Handshake::from_bytes(other), None);
        }
    }

    #[test]
    fn two_releases_next_to_each_other_agree_and_two_that_are_not_name_both_and_the_remedy() {
        for (other, level) in [(1..=2, 2), (2..=3, 3), (3..=4, 3), (2..=2, 2)] {
            assert_eq!(OWN.agree(Offer::levels(other), Part::Writes), Ok(level));
        }
        for (other, named, remedy) in
            [(4..=5, "formats 4 to 5", "release here"), (1..=1, "format 1;", "release there")]
        {
            let refused = OWN.agree(Offer::levels(other), Part::Reads).unwrap_err().to_string();
            for words in ["this program has formats 2 to 3", named, remedy] {
                assert!(refused.contains(words), "{refused}");
            }
        }
        assert!(OWN.agree(Offer::from_words([0; 5]), Part::Reads).is_err(), "no level at all");
        assert!(
            OWN.agree(Offer::from_words([u32::MAX, 0, 0, 0, 0]), Part::Reads).is_err(),
            "the wrong way round"
        );
    }

    #[test]
    fn an_unknown_feature_hinders_those_only_whose_part_it_changes() {
        let with = |at: usize| {
            let mut words = OWN.to_words();
            words[at] = 1 << 31;
            Offer::from_words(words)
        };
        for (at, reads, writes) in [(2, true, true), (3, true, false), (4, false, false)] {
            for (part, may) in [(Part::Reads, reads), (Part::Writes, writes)] {
                assert_eq!(OWN.agree(with(at), part).is_ok(), may, "word {at}, {part:?}");
            }
        }
        let refused = OWN.agree(with(4), Part::Reads).unwrap_err().to_string();
        assert!(refused.contains("features 0x80000000"), "{refused}");
    }
}
