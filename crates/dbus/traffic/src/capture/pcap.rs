//! Classic pcap: a header of 24 bytes, then for each packet 16 bytes and its data.

use std::io::{self, Read};

use super::window::Window;
use super::{
    LINK_TYPE, NotACapture, Packet, is_message_start, is_plausible_length, may_be_dbus, message_bytes,
};
use causeway_dbus_wire::wire::Endian;

pub(super) const FILE_HEADER_BYTES: usize = 24;
const RECORD_HEADER_BYTES: usize = 16;
/// A record header, and the first bytes of a message, are what a record is recognized by.
pub(super) const RECOGNIZABLE_BYTES: usize = RECORD_HEADER_BYTES + 4;
/// After damage, a record is believed whose time is within a day of the last one.
const DAY_S: u32 = 86_400;

#[derive(Clone, Copy, Debug)]
pub(super) struct Pcap {
    endian: Endian,
    /// What the second number of a time counts.
    tick_ns: u64,
    last_s: Option<u32>,
}

impl Pcap {
    /// The format, if the file begins with its header.
    pub fn begin(start: &[u8]) -> Result<Option<Pcap>, NotACapture> {
        let Some(magic) = start.first_chunk::<4>() else { return Ok(None) };
        let (endian, tick_ns) = match Endian::Little.u32(*magic) {
            0xA1B2_C3D4 => (Endian::Little, 1_000),
            0xA1B2_3C4D => (Endian::Little, 1),
            0xD4C3_B2A1 => (Endian::Big, 1_000),
            0x4D3C_B2A1 => (Endian::Big, 1),
            _ => return Ok(None),
        };
        if start.len() < FILE_HEADER_BYTES {
            return Err(NotACapture::Empty);
        }
        // The upper bits tell of frame checks.
        match endian.u32([start[20], start[21], start[22], start[23]]) & 0xFFFF {
            LINK_TYPE => Ok(Some(Pcap { endian, tick_ns, last_s: None })),
            other => {
                let first = start.get(FILE_HEADER_BYTES + RECORD_HEADER_BYTES..).unwrap_or_default();
                // One without packets says nothing, and has nothing that could be misread.
                let is_dbus =
                    may_be_dbus(other) && (is_message_start(first) || start.len() == FILE_HEADER_BYTES);
                if is_dbus {
                    Ok(Some(Pcap { endian, tick_ns, last_s: None }))
                } else {
                    Err(NotACapture::LinkType(other))
                }
            }
        }
    }

    pub fn next<'w, R: Read>(&mut self, window: &'w mut Window<R>) -> io::Result<Option<Packet<'w>>> {
        loop {
            let Some(start) = window.record_header(RECORD_HEADER_BYTES)? else { return Ok(None) };
            let record = self.record(start);
            if record.is_plausible(self.tick_ns) {
                let bytes = RECORD_HEADER_BYTES + record.captured;
                let there = window.peek(bytes)?.len();
                // A damaged length may hide the records that follow.
                let message = window.peek(bytes)?.get(RECORD_HEADER_BYTES..).and_then(message_bytes);
                if there == bytes && message.is_some_and(|message| message < record.captured) {
                    window.skip_damage(1, RECOGNIZABLE_BYTES, |bytes| self.is_recognized(bytes))?;
                    continue;
                }
                if there == bytes {
                    self.last_s = Some(record.time_s);
                    let time_ns =
                        u64::from(record.time_s) * 1_000_000_000 + u64::from(record.ticks) * self.tick_ns;
                    let bytes = &window.take(bytes)[RECORD_HEADER_BYTES..];
                    return Ok(Some(Packet { time_ns, original_bytes: record.original, bytes }));
                }
                // The rest of the file is too short for what its first record claims: does it hold another one?
                let mut rest = window.peek(there)?.windows(RECOGNIZABLE_BYTES).skip(1);
                if !rest.any(|bytes| self.is_recognized(bytes)) {
                    window.end_early();
                    return Ok(None);
                }
            }
            window.skip_damage(1, RECOGNIZABLE_BYTES, |bytes| self.is_recognized(bytes))?;
        }
    }

    fn is_recognized(&self, bytes: &[u8]) -> bool {
        let record = self.record(bytes);
        record.is_plausible(self.tick_ns)
            && self.last_s.is_none_or(|last| last.abs_diff(record.time_s) < DAY_S)
            && is_message_start(&bytes[RECORD_HEADER_BYTES..])
    }

    fn record(&self, bytes: &[u8]) -> Record {
        let number = |at: usize| self.endian.u32([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Record {
            time_s: number(0),
            ticks: number(4),
            captured: number(8) as usize,
            original: number(12) as usize,
        }
    }
}

struct Record {
    time_s: u32,
    ticks: u32,
    captured: usize,
    original: usize,
}

impl Record {
    fn is_plausible(&self, tick_ns: u64) -> bool {
        u64::from(self.ticks) * tick_ns < 1_000_000_000 && is_plausible_length(self.captured, self.original)
    }
}
