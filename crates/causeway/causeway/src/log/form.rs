//! What the first page of a log says of it before more of it is mapped: its kind, its format level, and where its parts lie.

use std::sync::atomic::Ordering;

use causeway_os::handshake::{Offer, Part};
use causeway_os::memory::Access;

use super::layout::{FORMATS, LogHeader, MAGIC, Places};
use super::writer::Kind;
use crate::error::{Error, Result};

/// What this release has.
pub const OFFER: Offer = Offer::levels(FORMATS);

/// What a header says of the log before more of it is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    pub kind: Kind,
    pub level: u32,
    pub places: Places,
}

impl Form {
    /// That of a log that this release makes.
    pub fn new(kind: Kind, level: u32) -> Form {
        Form { kind, level, places: Places::of_level(level) }
    }

    /// What this header says, each word loaded once, if a process with this offer can use the log so.
    pub fn read(header: &LogHeader, own: Offer, access: Access) -> Result<Form> {
        let invalid = |what: String| Err(Error::invalid("log header", what));
        let magic = header.magic.load(Ordering::Acquire);
        if magic != MAGIC {
            return invalid(format!("it begins with {magic:#x}, so it is not a log"));
        }
        let level_and_kind = header.level_and_kind.load(Ordering::Relaxed);
        let (level, kind) = (level_and_kind as u32, level_and_kind >> 32);
        let mut stated = Offer::levels(level..=level);
        if level > 1 {
            let features = header.compat_and_ro_compat.load(Ordering::Relaxed);
            stated.ro_compat = (features >> 32) as u32;
            stated.incompat = header.incompat.load(Ordering::Relaxed) as u32;
        }
        let part = if access == Access::ReadOnly { Part::Reads } else { Part::Writes };
        own.agree(stated, part).map_err(Error::OtherFormat)?;
        let kind = match kind {
            0 => Kind::Single,
            1 => Kind::Shared,
            other => return invalid(format!("unknown kind {other}")),
        };
        let places = match level {
            1 => Places::of_level(1),
            _ => {
                let [tail, ring] =
                    [&header.tail_offset, &header.ring_offset].map(|word| word.load(Ordering::Relaxed));
                Places { tail, ring }
            }
        };
        if !places.are_possible() {
            return invalid(format!(
                "no log has its words at {:#x} and its ring at {:#x}",
                places.tail, places.ring
            ));
        }
        Ok(Form { kind, level, places })
    }
}

/// Fails for a format that this release does not have.
pub fn check_format(level: u32) -> Result<()> {
    if FORMATS.contains(&level) {
        return Ok(());
    }
    Err(Error::invalid("call", format!("there is no format {level}; this release has {OFFER}")))
}
