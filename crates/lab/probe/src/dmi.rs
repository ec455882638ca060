//! Memory modules, as the firmware tells them (SMBIOS structures of type 17), and what they could move in a second.
//!
//! The table is input from outside: a length that does not fit ends the walk with what was read until then, and a value that
//! means "unknown" is absent. The firmware does not number channels; they are told from the names of the slots where those
//! name them, and are unknown where they do not.
//!
//! Formats: *System Management BIOS (SMBIOS) Reference Specification*, DMTF DSP0134, 6.1.2 and 7.18.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use causeway_os::{Context, Result};

/// Where the kernel shows the table. Only root may read it.
pub const TABLE: &str = "/sys/firmware/dmi/tables/DMI";

/// One slot with a module in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Name of the slot, such as `DIMM_A1`.
    pub slot: String,
    /// Name of its bank, such as `P0 CHANNEL A`; often says nothing.
    pub bank: String,
    /// Transfers per second at which it runs, in millions: the configured speed, not what it could do elsewhere.
    pub megatransfers_per_s: Option<u32>,
    /// Bits of data in a transfer, without those for error correction.
    pub data_bits: Option<u16>,
}

impl Module {
    /// Modules of one channel share its wires. What of their names is left without the slot's number is the channel's name.
    fn channel(&self) -> Option<String> {
        let names_channel = |name: &str| name.to_ascii_lowercase().contains("channel");
        if names_channel(&self.bank) {
            return Some(self.bank.clone());
        }
        let slot = self.slot.trim();
        let before_number = slot.trim_end_matches(|c: char| c.is_ascii_digit());
        let has_number = before_number.len() < slot.len();
        if names_channel(slot) {
            // `ChannelA-DIMM0`, `P0_Node0_Channel0_Dimm0`: the module is named after its channel.
            let lower = slot.to_ascii_lowercase();
            let end = lower.rfind("dimm").filter(|at| lower[..*at].contains("channel"));
            return Some(slot[..end.unwrap_or(slot.len())].to_owned());
        }
        // `DIMM_A1`, `DIMMA1`, `A1`: a letter for the channel, a number for the slot. `DIMM1` has no letter of its own.
        let others = before_number.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let word = &before_number[others.len()..];
        let letter = word.strip_prefix("DIMM").unwrap_or(word);
        (has_number && letter.len() == 1 && letter.chars().all(|c| c.is_ascii_uppercase()))
            .then(|| before_number.to_owned())
    }
}

/// All modules of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Modules(pub Vec<Module>);

impl Modules {
    /// Reads this machine's: `NotFound` where the firmware has no such table, `PermissionDenied` for anybody but root.
    pub fn read() -> Result<Modules> {
        Modules::read_from(Path::new(TABLE))
    }

    fn read_from(path: &Path) -> Result<Modules> {
        fs::read(path)
            .and_then(|table| {
                let modules = parse(&table);
                let none = || io::Error::new(io::ErrorKind::InvalidData, "it names no memory module");
                if modules.is_empty() { Err(none()) } else { Ok(Modules(modules)) }
            })
            .context("read", || path.display().to_string())
    }

    /// Channels with a module in them; nothing where the names of the slots do not tell.
    pub fn channels(&self) -> Option<usize> {
        self.by_channel().map(|channels| channels.len())
    }

    /// Bytes that all channels together move in a second if they never pause; nothing where a speed, a width or the
    /// channels are not told. No program reaches it: refreshes and turns of the bus take time.
    pub fn bytes_per_s(&self) -> Option<f64> {
        let mut sum = 0.0;
        for modules in self.by_channel()?.values() {
            // A channel runs at one speed; were two told, the lower one would be true.
            let speeds: Option<Vec<u32>> = modules.iter().map(|module| module.megatransfers_per_s).collect();
            let bits: Option<Vec<u16>> = modules.iter().map(|module| module.data_bits).collect();
            sum += f64::from(speeds?.into_iter().min()?) * 1e6 * f64::from(bits?.into_iter().min()?) / 8.0;
        }
        Some(sum)
    }

    fn by_channel(&self) -> Option<BTreeMap<String, Vec<&Module>>> {
        let mut channels: BTreeMap<String, Vec<&Module>> = BTreeMap::new();
        for module in &self.0 {
            channels.entry(module.channel()?).or_default().push(module);
        }
        Some(channels)
    }
}

const HEADER_BYTES: usize = 4;
const MEMORY_DEVICE: u8 = 17;
const END: u8 = 127;

/// Structures stand one behind the other: a formatted part whose length the header tells, then strings that end with
/// zero each, and one more zero.
fn parse(table: &[u8]) -> Vec<Module> {
    let mut modules = Vec::new();
    let mut rest = table;
    while let Some(&[kind, length, ..]) = rest.first_chunk::<HEADER_BYTES>() {
        let length = usize::from(length);
        if kind == END || length < HEADER_BYTES || length > rest.len() {
            break;
        }
        let (formatted, strings) = rest.split_at(length);
        // A table that is cut off here is used as far as it goes.
        let end = strings.windows(2).position(|pair| pair == [0, 0]).unwrap_or(strings.len());
        if kind == MEMORY_DEVICE {
            modules.extend(module(formatted, &strings[..end]));
        }
        rest = strings.get(end + 2..).unwrap_or_default();
    }
    modules
}

fn module(formatted: &[u8], strings: &[u8]) -> Option<Module> {
    let word = |at: usize| Some(u16::from_le_bytes(formatted.get(at..at + 2)?.try_into().ok()?));
    let double = |at: usize| Some(u32::from_le_bytes(formatted.get(at..at + 4)?.try_into().ok()?));
    let text = |at: usize| {
        let index = usize::from(*formatted.get(at)?).checked_sub(1)?;
        let found = strings.split(|byte| *byte == 0).nth(index)?;
        Some(String::from_utf8_lossy(found).trim().to_owned())
    };
    // 0 is an empty slot.
    word(0x0c).filter(|size| *size != 0)?;
    // 0 is unknown, 0xffff stands further behind in newer tables.
    let speed = |short: usize, long: usize| match word(short) {
        None | Some(0) => None,
        Some(0xffff) => double(long).map(|speed| speed & 0x7fff_ffff).filter(|speed| *speed != 0),
        Some(speed) => Some(speed.into()),
    };
    Some(Module {
        slot: text(0x10).unwrap_or_default(),
        bank: text(0x11).unwrap_or_default(),
        megatransfers_per_s: speed(0x20, 0x58),
        data_bits: word(0x0a).filter(|bits| !matches!(bits, 0 | 0xffff)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn structure(kind: u8, formatted: &[u8], strings: &[&str]) -> Vec<u8> {
        let mut bytes = vec![kind, (HEADER_BYTES + formatted.len()) as u8, 0, 0];
        bytes.extend(formatted);
        for string in strings {
            bytes.extend(string.as_bytes());
            bytes.push(0);
        }
        bytes.extend(if strings.is_empty() { &[0u8, 0][..] } else { &[0] });
        bytes
    }

    /// A memory device of SMBIOS 3.3: bits of data, configured speed and its extension.
    fn device(bits: u16, speed: u16, extended: u32, slot: &str, bank: &str) -> Vec<u8> {
        let mut formatted = [0u8; 0x5c - HEADER_BYTES];
        let mut put =
            |at: usize, bytes: &[u8]| formatted[at - HEADER_BYTES..][..bytes.len()].copy_from_slice(bytes);
        put(0x0a, &bits.to_le_bytes());
        put(0x0c, &0x4000u16.to_le_bytes());
        // A string that is empty has no number; the others are counted from 1.
        let slot_index = u8::from(!slot.is_empty());
        put(0x10, &[slot_index, if bank.is_empty() { 0 } else { slot_index + 1 }]);
        // The maximum speed exceeds the configured speed, and must not be taken for it.
        put(0x15, &9999u16.to_le_bytes());
        put(0x20, &speed.to_le_bytes());
        put(0x58, &extended.to_le_bytes());
        let strings: Vec<&str> = [slot, bank].into_iter().filter(|string| !string.is_empty()).collect();
        structure(MEMORY_DEVICE, &formatted, &strings)
    }

    fn simple(slot: &str, bank: &str) -> Vec<u8> {
        device(64, 3200, 0, slot, bank)
    }

    fn table(structures: &[Vec<u8>]) -> Modules {
        let mut all = structure(0, &[1, 2, 3], &["Firmware", "1.0"]);
        all.extend(structures.concat());
        all.extend(structure(END, &[], &[]));
        Modules(parse(&all))
    }

    #[test]
    fn two_channels_of_ddr4_3200_move_51_gigabytes_a_second() {
        let mut empty = simple("DIMM_A2", "BANK 1");
        empty[0x0c..0x0e].fill(0);
        let modules = table(&[simple("DIMM_A1", "BANK 0"), empty, simple("DIMM_B1", "BANK 2")]);
        assert_eq!(modules.0.len(), 2, "an empty slot has no module");
        assert_eq!((modules.0[0].slot.as_str(), modules.0[0].bank.as_str()), ("DIMM_A1", "BANK 0"));
        assert_eq!((modules.channels(), modules.bytes_per_s()), (Some(2), Some(51.2e9)));
    }

    #[test]
    fn modules_of_one_channel_share_it() {
        for (slots, channels) in [
            ([("DIMM_A1", ""), ("DIMM_A2", "")], Some(1)),
            ([("A1", ""), ("B1", "")], Some(2)),
            ([("DIMMA1", ""), ("DIMMA2", "")], Some(1)),
            ([("ChannelA-DIMM0", "BANK 0"), ("ChannelA-DIMM1", "BANK 1")], Some(1)),
            ([("ChannelA-DIMM0", ""), ("ChannelB-DIMM0", "")], Some(2)),
            ([("P0_Node0_Channel0_Dimm0", ""), ("P0_Node0_Channel1_Dimm0", "")], Some(2)),
            ([("P0_Node0_Channel0_Dimm0", ""), ("P1_Node0_Channel0_Dimm0", "")], Some(2)),
            ([("DIMM 0", "P0 CHANNEL A"), ("DIMM 1", "P0 CHANNEL A")], Some(1)),
            ([("DIMM 0", "P0 CHANNEL A"), ("DIMM 0", "P0 CHANNEL B")], Some(2)),
            ([("DIMM 0", "BANK 0"), ("DIMM 1", "BANK 1")], None),
            ([("DIMM1", ""), ("DIMM2", "")], None),
            ([("", ""), ("", "")], None),
        ] {
            let modules = table(&slots.map(|(slot, bank)| simple(slot, bank)));
            assert_eq!(modules.channels(), channels, "{slots:?}");
        }
    }

    #[test]
    fn a_channel_is_as_fast_as_its_slower_module_and_unknown_is_not_guessed() {
        let at = |bits, speed, extended| device(bits, speed, extended, "DIMM_A1", "");
        let mut older = [0u8; 0x15 - HEADER_BYTES];
        (older[0x0a - HEADER_BYTES], older[0x0c - HEADER_BYTES], older[0x10 - HEADER_BYTES]) = (64, 1, 1);
        let older = structure(MEMORY_DEVICE, &older, &["DIMM_A1"]);
        for (what, modules, bytes_per_s) in [
            ("the slower one", vec![at(64, 3200, 0), at(64, 2400, 0)], Some(19.2e9)),
            ("0 is unknown", vec![at(64, 3200, 0), at(64, 0, 0)], None),
            ("unknown width", vec![at(64, 3200, 0), at(0xffff, 3200, 0)], None),
            ("a speed beyond 65,534 stands further behind", vec![at(32, 0xffff, 68_000)], Some(272e9)),
            ("an older and shorter structure has no speed", vec![older], None),
        ] {
            let found = table(&modules);
            assert_eq!((found.channels(), found.bytes_per_s()), (Some(1), bytes_per_s), "{what}");
        }
    }

    #[test]
    fn a_hostile_table_ends_the_walk_and_nothing_else() {
        let good = simple("DIMM_A1", "BANK 0");
        for cut in 0..good.len() {
            // Never a panic, never more than the one that was there.
            assert!(parse(&good[..cut]).len() <= 1);
        }
        let end = structure(END, &[], &[]);
        for (what, bytes, count) in [
            ("nothing", vec![], 0),
            ("a length of zero would never end", vec![MEMORY_DEVICE, 0, 0, 0, 0, 0], 0),
            ("shorter than its own header", vec![MEMORY_DEVICE, 3, 0, 0, 0, 0], 0),
            ("longer than the table", vec![MEMORY_DEVICE, 255, 0, 0, 0, 0], 0),
            ("zeros in front", [&[0, 0, 0, 0], &good[..]].concat(), 0),
            ("what follows the end", [&good[..], &end, &good].concat(), 1),
            ("strings without an end", [&good[..], &[1, 4, 0, 0, b'x'], &good].concat(), 1),
        ] {
            assert_eq!(parse(&bytes).len(), count, "{what}");
        }
        // An index of a string that is not there.
        let mut formatted = [0xffu8; 0x22 - HEADER_BYTES];
        formatted[0x0c - HEADER_BYTES] = 1;
        let odd = parse(&structure(MEMORY_DEVICE, &formatted, &["one"]));
        assert_eq!((odd[0].slot.as_str(), odd[0].data_bits), ("", None));
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("DMI");
        assert_eq!(Modules::read_from(&file).unwrap_err().os().kind(), io::ErrorKind::NotFound);
        fs::write(&file, structure(END, &[], &[])).unwrap();
        let why = Modules::read_from(&file).unwrap_err().to_string();
        assert!(why.contains("names no memory module"), "{why}");
        fs::write(&file, simple("DIMM_A1", "")).unwrap();
        assert_eq!(Modules::read_from(&file).unwrap().0.len(), 1);
    }
}
