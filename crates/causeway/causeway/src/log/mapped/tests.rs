//! Logs of every format, and headers that no release makes.
//!
//! # Safety
//!
//! The one slice of shared memory is of a log that nobody else has.

use super::super::form::OFFER;
use super::super::layout::{FORMATS, Places};
use super::*;

#[test]
fn a_payload_across_the_end_of_the_ring_reads_back_in_one_piece() {
    let (_fd, log) = MappedLog::create("test", Kind::Single, 4096, 1).unwrap();
    for length in [0, 1, 7, 8, 31, 255, 256, 1000, 1024] {
        let payload: Vec<u8> = (0..length).map(|n| (n % 251) as u8 + 1).collect();
        let position = 3 * 4096 - 128;
        log.write_payload(position, &payload);
        let mut back = vec![0; length];
        log.read_payload(position, &mut back);
        assert_eq!(back, payload);
        // SAFETY: no other thread or process has this log.
        assert_eq!(unsafe { log.frame_bytes(position, length) }, payload);
    }
}

#[test]
fn a_log_is_only_opened_for_reading_when_it_is_sealed_for_good() {
    for level in FORMATS {
        let (fd, _log) = MappedLog::create("test", Kind::Shared, 4096, level).unwrap();
        let refused = MappedLog::open(&fd, Access::ReadOnly, OFFER).unwrap_err().to_string();
        assert!(refused.contains("F_SEAL_FUTURE_WRITE"), "{refused}");
        assert_eq!(MappedLog::open(&fd, Access::ReadWrite, OFFER).unwrap().kind(), Kind::Shared);
        MappedLog::seal(&fd).unwrap();
        assert_eq!(MappedLog::open(&fd, Access::ReadOnly, OFFER).unwrap().level(), level);
        MappedLog::open(&fd, Access::ReadWrite, OFFER).unwrap_err();
    }
}

/// What a log of this level, with this change to its header, is to one that reads it.
fn refusal_of(level: u32, damage: impl Fn(&LogHeader), own: Offer) -> Option<String> {
    let (fd, log) = MappedLog::create("test", Kind::Single, 4096, level).unwrap();
    damage(log.header_page());
    MappedLog::seal(&fd).unwrap();
    MappedLog::open(&fd, Access::ReadOnly, own).err().map(|error| error.to_string())
}

#[test]
fn a_header_with_impossible_values_is_refused() {
    type Damage = fn(&LogHeader);
    let damages: [(u32, Damage, &str); 12] = [
        (2, |header| header.level_and_kind.store(1, Ordering::Relaxed), "2^12 bytes in a file for 2^13"),
        (1, |header| header.magic.store(0, Ordering::Relaxed), "not a log"),
        (1, |header| header.level_and_kind.store(77, Ordering::Relaxed), "format 77"),
        (2, |header| header.level_and_kind.store(0, Ordering::Relaxed), "format 0"),
        (1, |header| header.level_and_kind.store((9 << 32) | 1, Ordering::Relaxed), "unknown kind 9"),
        (1, |header| header.capacity_log2.store(64, Ordering::Relaxed), "2^64"),
        (1, |header| header.start.store(65, Ordering::Relaxed), "0x41"),
        (2, |header| header.start.store(NOT_BEGUN, Ordering::Relaxed), "0xffff"),
        (2, |header| header.ring_offset.store(8192, Ordering::Relaxed), "its ring at 0x2000"),
        (2, |header| header.tail_offset.store(u64::MAX - 4095, Ordering::Relaxed), "its words at 0xffff"),
        (2, |header| header.ring_offset.store(PREFIX_BYTES, Ordering::Relaxed), "in a file for 2^13"),
        (2, |header| header.incompat.store(2, Ordering::Relaxed), "features 0x2"),
    ];
    for (level, damage, expected) in damages {
        let refused = refusal_of(level, damage, OFFER).expect(expected);
        assert!(refused.contains(expected), "{refused}");
    }
}

#[test]
fn a_level_that_a_process_does_not_have_is_refused_and_features_of_others_are_ignored() {
    let old = Offer::levels(1..=1);
    let refused = refusal_of(2, |_| {}, old).unwrap();
    assert!(refused.contains("has format 1 and the other side format 2"), "{refused}");
    assert_eq!(refusal_of(1, |_| {}, old), None);
    // Words that level 1 does not have, and features that a reader need not know.
    assert_eq!(refusal_of(1, |header| header.incompat.store(2, Ordering::Relaxed), OFFER), None);
    let unknown = |header: &LogHeader| header.compat_and_ro_compat.store(u64::MAX, Ordering::Relaxed);
    assert_eq!(refusal_of(2, unknown, OFFER), None);
    let (fd, log) = MappedLog::create("test", Kind::Shared, 4096, 2).unwrap();
    unknown(log.header_page());
    let refused = MappedLog::open(&fd, Access::ReadWrite, OFFER).unwrap_err().to_string();
    assert!(refused.contains("features 0xffffffff"), "{refused}");
}

/// A later release may put them there.
#[test]
fn the_parts_of_a_log_are_where_its_header_says() {
    for places in [Places { tail: 8192, ring: 65536 }, Places { tail: 4096, ring: 1 << 20 }] {
        let form = Form { kind: Kind::Shared, level: 2, places };
        let (fd, log) = MappedLog::create_epoch("test", form, 8192, [3, 4], 0).unwrap();
        log.begin(None, 0);
        let other = MappedLog::open(&fd, Access::ReadWrite, OFFER).unwrap();
        assert_eq!((other.capacity_bytes(), other.kind()), (8192, Kind::Shared));
        other.tail().hint.store(77, Ordering::Relaxed);
        assert_eq!(log.tail().hint.load(Ordering::Relaxed), 77);
        other.write_payload(64, b"where it says");
        let mut byte = [0; 5];
        rustix::io::pread(&fd, &mut byte, places.ring + 64 + HEADER_BYTES).unwrap();
        assert_eq!(byte, *b"where");
        rustix::io::pread(&fd, &mut byte[..1], places.tail + 0x100).unwrap();
        assert_eq!(byte[0], 77);
    }
}
