//! The pages of a trace buffer of the kernel: records with their times, and where some are missing.
//!
//! Source: `include/linux/ring_buffer.h` and `events/header_event`, `events/header_page` of the kernel. A page begins with the time of its
//! first record and the length of what it holds, in whose upper bits it says that records before it were lost. A record begins with five
//! bits of type or length and 27 bits of time since the record before.

use crate::timeline::format::{Format, FormatError};

/// A page is read in these parts: time, length, records.
const TIME_BYTES: usize = 8;
const HEADER_BYTES: usize = 16;
const MISSED: u64 = 1 << 31;
const MISSED_IS_STORED: u64 = 1 << 30;
const LENGTH_MASK: u64 = (1 << 27) - 1;

const TYPE_MASK: u32 = 0x1f;
const DELTA_BITS: u32 = 27;
const LONG: u32 = 0;
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// A time stamp has 59 bits; the others are those of the page.
const STAMP_MASK: u64 = (1 << 59) - 1;

/// What a page holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Page<'a> {
    /// Time of its first record.
    pub begins_ns: u64,
    /// Records before it are lost: so many, or an unknown number.
    pub lost: Option<Option<u64>>,
    /// Time and bytes of each record.
    pub records: Vec<(u64, &'a [u8])>,
}

/// Has a page the parts that are known here, by the kernel's description of it (`events/header_page`)?
///
/// # Errors
/// It has other ones: a kernel of 32 bits has a shorter length.
pub fn check_page_format(description: &str) -> Result<(), FormatError> {
    let format = Format::parse(description)?;
    let is_known = format.place("timestamp") == Some((0, TIME_BYTES))
        && format.place("commit") == Some((TIME_BYTES, HEADER_BYTES - TIME_BYTES))
        && format.place("data").is_some_and(|(offset, _)| offset == HEADER_BYTES);
    if is_known { Ok(()) } else { Err(FormatError(description.trim().into())) }
}

/// Reads a page. One that ends in the middle of a record gives those before it.
pub(crate) fn page(bytes: &[u8]) -> Option<Page<'_>> {
    let begins_ns = u64_at(bytes, 0)?;
    let length = u64_at(bytes, TIME_BYTES)?;
    let end = HEADER_BYTES + (length & LENGTH_MASK) as usize;
    let data = bytes.get(HEADER_BYTES..end.min(bytes.len()))?;
    let lost = (length & MISSED != 0)
        .then(|| if length & MISSED_IS_STORED != 0 { u64_at(bytes, end) } else { None });
    Some(Page { begins_ns, lost, records: records(data, begins_ns) })
}

fn records(mut data: &[u8], begins_ns: u64) -> Vec<(u64, &[u8])> {
    let mut records = Vec::new();
    let mut at_ns = begins_ns;
    while let Some(head) = u32_at(data, 0) {
        let (kind, delta) = (head & TYPE_MASK, u64::from(head >> 5));
        let next = u32_at(data, 4).map(u64::from);
        let (content, length) = match (kind, next) {
            (PADDING, _) if delta == 0 => break,
            (TIME_EXTEND, Some(high)) => {
                at_ns += (high << DELTA_BITS) + delta;
                (None, 8)
            }
            (TIME_STAMP, Some(high)) => {
                at_ns = (begins_ns & !STAMP_MASK) | (((high << DELTA_BITS) + delta) & STAMP_MASK);
                (None, 8)
            }
            (PADDING, Some(bytes)) => (None, 4 + bytes as usize),
            (LONG, Some(bytes)) => (Some(8), 4 + (bytes as usize).max(4)),
            (PADDING | TIME_EXTEND | TIME_STAMP | LONG, None) => break,
            (words, _) => (Some(4), 4 + words as usize * 4),
        };
        if kind < TIME_EXTEND {
            at_ns += delta;
        }
        let Some(rest) = data.get(length..) else { break };
        if let Some(record) = content.and_then(|from| data.get(from..length)) {
            records.push((at_ns, record));
        }
        data = rest;
    }
    records
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A page of these words, of which `length` says how many bytes count.
    pub(crate) fn page_of(begins_ns: u64, flags: u64, words: &[u32]) -> Vec<u8> {
        let mut bytes = begins_ns.to_ne_bytes().to_vec();
        bytes.extend(((words.len() as u64 * 4) | flags).to_ne_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    #[test]
    fn records_have_times_and_bytes() {
        let words = [
            2 | 5 << 5,
            0xa,
            0xb,
            TIME_EXTEND | 3 << 5,
            1,
            LONG | 1 << 5,
            8,
            0xc,
            1,
            0xd,
            PADDING | 1 << 5,
            4,
            1 | 2 << 5,
            0xe,
            PADDING,
            77,
        ];
        let bytes = page_of(1000, 0, &words);
        let page = page(&bytes).unwrap();
        let read: Vec<(u64, usize, u8)> =
            page.records.iter().map(|(at_ns, record)| (*at_ns, record.len(), record[0])).collect();
        let extended = 1005 + (1 << 27) + 3;
        assert_eq!(
            read,
            [(1005, 8, 0xa), (extended + 1, 4, 0xc), (extended + 1, 4, 0xd), (extended + 4, 4, 0xe)]
        );
        assert_eq!((page.begins_ns, page.lost), (1000, None));
    }

    #[test]
    fn an_absolute_time_takes_its_upper_bits_from_the_page() {
        let begins_ns = 1 << 60 | 17;
        let bytes = page_of(begins_ns, 0, &[TIME_STAMP | 9 << 5, 2, 1, 0xa]);
        assert_eq!(page(&bytes).unwrap().records[0].0, 1 << 60 | 2 << 27 | 9);
    }

    #[test]
    fn a_page_says_what_was_lost_before_it() {
        let mut bytes = page_of(5, MISSED | MISSED_IS_STORED, &[1, 0xa]);
        bytes.extend(42_u64.to_ne_bytes());
        assert_eq!(page(&bytes).unwrap().lost, Some(Some(42)));
        assert_eq!(page(&page_of(5, MISSED, &[1, 0xa])).unwrap().lost, Some(None));
    }

    #[test]
    fn a_page_with_other_parts_is_refused() {
        let of = |commit: usize, data: usize| {
            format!(
                "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
                 \tfield: local_t commit;\toffset:8;\tsize:{commit};\tsigned:1;\n\
                 \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
                 \tfield: char data;\toffset:{data};\tsize:4080;\tsigned:0;\n"
            )
        };
        assert_eq!(check_page_format(&of(8, 16)), Ok(()));
        assert!(check_page_format(&of(4, 12)).is_err() && check_page_format("").is_err());
    }

    #[test]
    fn broken_pages_end_early() {
        assert_eq!(page(&[0; 15]), None);
        let whole = page_of(5, 0, &[2, 0xa, 0xb, 28, 0xc]);
        for length in HEADER_BYTES..whole.len() {
            assert!(page(&whole[..length]).unwrap().records.len() <= 1, "{length} bytes");
        }
    }
}
