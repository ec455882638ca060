//! pcapng: blocks that carry their type and length, of which a few matter here.

use std::io::{self, Read};
use std::ops::Range;

use super::window::Window;
use super::{LINK_TYPE, Packet, is_message_start, is_plausible_length, may_be_dbus};
use causeway_dbus_wire::wire::{Endian, MESSAGE_BYTES_MAX};

const SECTION: u32 = 0x0A0D_0D0A;
const INTERFACE: u32 = 1;
/// As programs wrote it before there was the enhanced one.
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
const OPTION_RESOLUTION: u16 = 9;
const OPTION_OFFSET: u16 = 14;
/// Type and length in front, length behind.
const FRAME_BYTES: usize = 12;
const ENHANCED_HEADER_BYTES: usize = 20;
/// An enhanced packet with the first bytes of a message is what a block is recognized by.
const RECOGNIZABLE_BYTES: usize = 8 + ENHANCED_HEADER_BYTES + 4;
const MOST_BLOCK_BYTES: usize = MESSAGE_BYTES_MAX + (1 << 20);

#[derive(Clone, Debug)]
pub(super) struct PcapNg {
    endian: Endian,
    interfaces: Vec<Interface>,
}

impl Default for PcapNg {
    fn default() -> PcapNg {
        PcapNg { endian: Endian::Little, interfaces: Vec::new() }
    }
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link_type: u16,
    /// Most bytes of a packet that were recorded.
    limit: usize,
    /// Units of time in a second.
    ticks_per_s: u64,
    offset_s: i64,
}

impl PcapNg {
    pub fn is_start(start: &[u8]) -> bool {
        start.starts_with(&SECTION.to_le_bytes())
    }

    pub fn next<'w, R: Read>(&mut self, window: &'w mut Window<R>) -> io::Result<Option<Packet<'w>>> {
        loop {
            let Some(start) = window.record_header(FRAME_BYTES)? else { return Ok(None) };
            if PcapNg::is_start(start) {
                let is_big = start[8..12] == 0x1A2B_3C4D_u32.to_be_bytes();
                self.endian = if is_big { Endian::Big } else { Endian::Little };
                self.interfaces.clear();
            }
            let (kind, bytes) = (self.u32(start, 0), self.u32(start, 4) as usize);
            let is_plausible = (FRAME_BYTES..=MOST_BLOCK_BYTES).contains(&bytes) && bytes.is_multiple_of(4);
            let whole = is_plausible && window.peek(bytes)?.len() == bytes;
            let is_closed = whole && self.u32(window.peek(bytes)?, bytes - 4) as usize == bytes;
            if !is_closed {
                if is_plausible && !whole && !self.has_packet_after(window.peek(bytes)?) {
                    window.end_early();
                    return Ok(None);
                }
                // A damaged length leaves the place of the next block unknown; blocks begin on multiples of four.
                window.skip_damage(4, RECOGNIZABLE_BYTES, |bytes| self.is_recognized(bytes))?;
                continue;
            }
            match self.block(kind, window.peek(bytes)?) {
                Block::Packet { time_ns, original_bytes, data } => {
                    let bytes = &window.take(bytes)[data];
                    return Ok(Some(Packet { time_ns, original_bytes, bytes }));
                }
                Block::Interface(interface) => self.interfaces.push(interface),
                Block::Foreign(link_type) => {
                    window.problems.foreign += 1;
                    window.problems.foreign_type.get_or_insert(link_type);
                }
                Block::Bad => {
                    window.problems.damaged += 1;
                    window.problems.skipped += bytes as u64;
                }
                Block::Other => {}
            }
            window.consume(bytes);
        }
    }

    fn block(&self, kind: u32, bytes: &[u8]) -> Block {
        let body = &bytes[..bytes.len() - 4];
        match kind {
            INTERFACE if body.len() >= 16 => Block::Interface(self.interface(body)),
            ENHANCED_PACKET if body.len() >= 8 + ENHANCED_HEADER_BYTES => {
                let ticks = u64::from(self.u32(body, 12)) << 32 | u64::from(self.u32(body, 16));
                let (captured, original) = (self.u32(body, 20) as usize, self.u32(body, 24) as usize);
                self.packet(self.u32(body, 8) as usize, ticks, original, body, 28..28 + captured)
            }
            OLD_PACKET if body.len() >= 8 + ENHANCED_HEADER_BYTES => {
                let ticks = u64::from(self.u32(body, 12)) << 32 | u64::from(self.u32(body, 16));
                let (captured, original) = (self.u32(body, 20) as usize, self.u32(body, 24) as usize);
                self.packet(usize::from(self.u16(body, 8)), ticks, original, body, 28..28 + captured)
            }
            // A packet of the first interface without a time. Its data may be cut at the interface's limit.
            SIMPLE_PACKET if body.len() >= 12 => {
                let original = self.u32(body, 8) as usize;
                let limit = self.interfaces.first().map_or(0, |interface| interface.limit);
                let data = 12..12 + original.min(body.len() - 12).min(limit);
                self.packet(0, 0, original, body, data)
            }
            INTERFACE | ENHANCED_PACKET | OLD_PACKET | SIMPLE_PACKET => Block::Bad,
            // A packet with a damaged type.
            _ if body.get(28..).is_some_and(is_message_start) => Block::Bad,
            _ => Block::Other,
        }
    }

    fn packet(
        &self,
        interface: usize,
        ticks: u64,
        original: usize,
        body: &[u8],
        data: Range<usize>,
    ) -> Block {
        let Some(interface) = self.interfaces.get(interface) else { return Block::Bad };
        let link_type = u32::from(interface.link_type);
        let Some(bytes) = body.get(data.clone()) else { return Block::Bad };
        if link_type != LINK_TYPE && !(may_be_dbus(link_type) && is_message_start(bytes)) {
            return Block::Foreign(link_type);
        }
        if !is_plausible_length(data.len(), original) {
            return Block::Bad;
        }
        Block::Packet { time_ns: interface.time_ns(ticks), original_bytes: original, data }
    }

    fn interface(&self, body: &[u8]) -> Interface {
        // 0 is no limit.
        let limit = Some(self.u32(body, 12) as usize).filter(|limit| *limit > 0).unwrap_or(usize::MAX);
        let mut interface =
            Interface { link_type: self.u16(body, 8), limit, ticks_per_s: 1_000_000, offset_s: 0 };
        let mut at = 16;
        while let Some(head) = body.get(at..at + 4) {
            let (code, bytes) = (self.u16(head, 0), usize::from(self.u16(head, 2)));
            let Some(value) = body.get(at + 4..at + 4 + bytes) else { break };
            match (code, value) {
                (0, _) => break,
                (OPTION_RESOLUTION, [power]) if power & 0x80 == 0 => {
                    interface.ticks_per_s = 10_u64.saturating_pow(u32::from(*power)).max(1);
                }
                (OPTION_RESOLUTION, [power]) => {
                    interface.ticks_per_s = 1_u64.checked_shl(u32::from(power & 0x7F)).unwrap_or(u64::MAX);
                }
                (OPTION_OFFSET, value) if value.len() == 8 => {
                    let (first, second) = (i64::from(self.u32(value, 0)), i64::from(self.u32(value, 4)));
                    interface.offset_s = match self.endian {
                        Endian::Little => second << 32 | first,
                        Endian::Big => first << 32 | second,
                    };
                }
                _ => {}
            }
            at += 4 + bytes.next_multiple_of(4);
        }
        interface
    }

    /// An enhanced packet block with a message in it.
    fn is_recognized(&self, bytes: &[u8]) -> bool {
        let (block, captured) = (self.u32(bytes, 4) as usize, self.u32(bytes, 20) as usize);
        self.u32(bytes, 0) == ENHANCED_PACKET
            && block <= MOST_BLOCK_BYTES
            && captured + RECOGNIZABLE_BYTES <= block
            && is_message_start(&bytes[28..])
    }

    fn has_packet_after(&self, rest: &[u8]) -> bool {
        let starts = (4..rest.len().saturating_sub(RECOGNIZABLE_BYTES)).step_by(4);
        starts.map(|at| &rest[at..at + RECOGNIZABLE_BYTES]).any(|bytes| self.is_recognized(bytes))
    }

    fn u32(&self, bytes: &[u8], at: usize) -> u32 {
        self.endian.u32([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
    }

    fn u16(&self, bytes: &[u8], at: usize) -> u16 {
        self.endian.u16([bytes[at], bytes[at + 1]])
    }
}

enum Block {
    Packet {
        time_ns: u64,
        original_bytes: usize,
        data: Range<usize>,
    },
    Interface(Interface),
    /// A packet of another link type.
    Foreign(u32),
    /// Its parts contradict each other.
    Bad,
    /// Of a type that says nothing about messages.
    Other,
}

impl Interface {
    fn time_ns(self, ticks: u64) -> u64 {
        let ns = u128::from(ticks) * 1_000_000_000 / u128::from(self.ticks_per_s);
        let offset = i128::from(self.offset_s) * 1_000_000_000;
        u64::try_from(i128::try_from(ns).unwrap_or(i128::MAX).saturating_add(offset)).unwrap_or(0)
    }
}
