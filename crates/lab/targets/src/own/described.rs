//! What a mechanism of a shared object says of itself, checked, and the entry of the catalogue that it becomes.

use serde::{Deserialize, Serialize};

use super::abi::Said;
use crate::prelude::*;

/// A mechanism as it describes itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Description {
    pub(super) name: String,
    pub(super) about: String,
    pub(super) measured_version: String,
    pub(super) capabilities: u32,
    pub(super) waits: Vec<String>,
    pub(super) to_itself_bytes: usize,
}

/// The bits of `enum weighbridge_capability`.
const CAPABILITIES: [Caps; 8] = [
    Caps::DUPLEX,
    Caps::BYTE_STREAM,
    Caps::NEVER_EMPTY,
    Caps::LOSSY,
    Caps::ZERO_COPY,
    Caps::ONE_COPY,
    Caps::MAPS,
    Caps::YIELDS,
];

/// The bits behind those, which are no capabilities of the laboratory: how it is counted, and patterns beyond those of two ends.
const THREADS: u32 = 1 << CAPABILITIES.len();
const FAN_OUT: u32 = THREADS << 1;
const FAN_IN: u32 = THREADS << 2;

const LOSSY: u32 = 1 << 3;

/// A sentence in a list, and a name in a case id.
const ABOUT_MAX: usize = 200;
const NAME_MAX: usize = 40;

impl Description {
    /// Of what was said, or what is wrong with that.
    pub(super) fn of(said: Said) -> io::Result<Description> {
        let Said { name, about, measured_version, capabilities, waits, to_itself_bytes } = said;
        let is_letter = |byte: u8| byte.is_ascii_lowercase();
        let is_word = name.bytes().all(|byte| is_letter(byte) || byte.is_ascii_digit() || byte == b'-');
        if !is_word || name.len() > NAME_MAX || !name.bytes().next().is_some_and(is_letter) {
            return Err(io::Error::other(format!(
                "its name {name:?} is none for a case id: a-z, 0-9 and -, the first a letter, at most {NAME_MAX} of them"
            )));
        }
        let of = |why: String| Err(io::Error::other(format!("its mechanism {name} {why}")));
        for (what, text) in [("about", &about), ("measured_version", &measured_version)] {
            if text.is_empty() || text.len() > ABOUT_MAX || text.contains(char::is_control) {
                return of(format!("has an `{what}` that is not a line of 1 to {ABOUT_MAX} bytes"));
            }
        }
        if capabilities >= 2 * FAN_IN {
            return of(format!(
                "has capabilities {capabilities:#x}, of which this program does not know all"
            ));
        }
        if capabilities & FAN_IN != 0 && capabilities & LOSSY != 0 {
            return of(
                "says that it loses messages, and that it can do fan-in, in which every message is counted"
                    .into(),
            );
        }
        let waits: Vec<String> = waits.split_ascii_whitespace().map(str::to_owned).collect();
        if let Some(unknown) = waits.iter().find(|wait| Wait::parse(wait).is_none()) {
            let known = Wait::NAMES.join(" ");
            return of(format!("has the way to wait `{unknown}`; there are {known}"));
        }
        if waits.is_empty() {
            return of("names no way to wait".into());
        }
        Ok(Description { name, about, measured_version, capabilities, waits, to_itself_bytes })
    }

    pub(super) fn caps(&self) -> Caps {
        let said = CAPABILITIES.iter().enumerate().filter(|(bit, _)| self.capabilities >> bit & 1 == 1);
        said.fold(Caps::PAYLOAD, |caps, (_, more)| caps.and(*more))
    }

    /// Does it work in threads of its own?
    pub(super) fn has_threads(&self) -> bool {
        self.capabilities & THREADS != 0
    }

    /// Does each message of one end reach many?
    pub(super) fn does_fan_out(&self) -> bool {
        self.capabilities & FAN_OUT != 0
    }

    /// Do the messages of many ends reach one?
    pub(super) fn does_fan_in(&self) -> bool {
        self.capabilities & FAN_IN != 0
    }

    pub(super) fn waits(&self) -> Vec<Wait> {
        self.waits.iter().filter_map(|wait| Wait::parse(wait)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said() -> Said {
        Said {
            name: "mine-2".into(),
            about: "a test".into(),
            measured_version: "1".into(),
            capabilities: 0b10_0001,
            waits: "spin block".into(),
            to_itself_bytes: 0,
        }
    }

    #[test]
    fn what_is_said_becomes_capabilities_and_ways_to_wait_in_their_order() {
        let description = Description::of(said()).unwrap();
        assert_eq!(description.caps(), Caps::PAYLOAD.and(Caps::DUPLEX).and(Caps::ONE_COPY));
        assert_eq!(description.waits(), [Wait::Spin, Wait::Block]);
    }

    #[test]
    fn what_no_case_id_or_list_can_hold_is_refused_with_what_it_is() {
        for (wrong, words) in [
            (Said { name: "Mine".into(), ..said() }, "\"Mine\" is none for a case id"),
            (Said { name: String::new(), ..said() }, "\"\" is none"),
            (Said { name: "a/b".into(), ..said() }, "\"a/b\" is none"),
            (Said { about: "two\nlines".into(), ..said() }, "`about`"),
            (Said { measured_version: String::new(), ..said() }, "`measured_version`"),
            (Said { capabilities: 1 << 11, ..said() }, "capabilities 0x800"),
            (Said { capabilities: 1 << 10 | 1 << 3, ..said() }, "loses messages, and that it can do fan-in"),
            (Said { waits: "block sleep".into(), ..said() }, "way to wait `sleep`; there are block"),
            (Said { waits: " ".into(), ..said() }, "names no way to wait"),
        ] {
            let why = Description::of(wrong).unwrap_err().to_string();
            assert!(why.contains(words), "{why}");
        }
    }
}
