//! Mappings of every kind, and what they refuse.

use super::super::memfd;
use super::*;
use causeway_testkit::{Cause, skipped};
use nix::sys::resource::{UsageWho, getrusage};
use std::panic::{AssertUnwindSafe, catch_unwind};

#[test]
fn a_view_shows_a_file_that_is_sealed_against_writing() {
    use super::super::{Seals, add_seals};
    let fd = memfd("sealed", 8192).unwrap();
    rustix::io::pwrite(&fd, &7u64.to_ne_bytes(), 4096).unwrap();
    add_seals(&fd, Seals::WRITE | Seals::SHRINK).unwrap();
    let view = Mapping::view(&fd, 8192).unwrap();
    assert_eq!(view.load_u64(4096).load(Ordering::Relaxed), 7);
    assert!(Mapping::view(&fd, 8193).is_err());
}

#[test]
fn what_one_mapping_stores_another_loads_and_the_file_keeps() {
    let fd = memfd("shared", 8192).unwrap();
    let writer = Mapping::shared(&fd, 8192, Access::ReadWrite).unwrap();
    let reader = Mapping::shared_at(&fd, page_bytes() as u64, 4096, Access::ReadOnly).unwrap();
    writer.atomic_u64(page_bytes() + 8).store(0x0102_0304_0506_0708, Ordering::Release);
    assert_eq!(reader.load_u64(8).load(Ordering::Acquire), 0x0102_0304_0506_0708);
    // SAFETY: no other code has this file.
    unsafe { writer.slice_mut(3, 2).copy_from_slice(b"ab") };
    let mut bytes = [0; 8];
    assert_eq!(rustix::io::pread(&fd, &mut bytes, 0), Ok(8));
    assert_eq!(&bytes, b"\0\0\0ab\0\0\0");
}

#[test]
fn words_outside_or_across_a_boundary_are_bugs() {
    let memory = Mapping::anonymous(100).unwrap();
    let panics = |f: &dyn Fn()| catch_unwind(AssertUnwindSafe(f)).is_err();
    memory.atomic_u32(96).store(1, Ordering::Relaxed);
    memory.atomic_u64(88).store(1, Ordering::Relaxed);
    for offset in [97, 98, 100, 104, usize::MAX, usize::MAX - 3] {
        assert!(panics(&|| memory.atomic_u32(offset).store(1, Ordering::Relaxed)), "{offset}");
    }
    for offset in [4, 92, 96, 104] {
        assert!(panics(&|| memory.atomic_u64(offset).store(1, Ordering::Relaxed)), "{offset}");
    }
    // SAFETY: the memory is ours alone; nothing is kept.
    assert!(panics(&|| assert_eq!(unsafe { memory.slice(50, 51) }.len(), 51)));
    // SAFETY: as above.
    assert!(panics(&|| assert_eq!(unsafe { memory.slice(usize::MAX, 2) }.len(), 2)));
}

#[test]
fn a_read_only_mapping_gives_nothing_to_write_through() {
    let fd = memfd("read-only", 4096).unwrap();
    let memory = Mapping::shared(&fd, 4096, Access::ReadOnly).unwrap();
    // SAFETY: it panics before there is a slice.
    let attempt = catch_unwind(AssertUnwindSafe(|| unsafe { memory.slice_mut(0, 1) }[0] = 1));
    assert!(attempt.is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| memory.atomic_u32(0).load(Ordering::Relaxed))).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| memory.atomic_u64(0).load(Ordering::Relaxed))).is_err());
    assert_eq!(memory.load_u32(4).load(Ordering::Relaxed), 0);
    assert_eq!(memory.load_u64(8).load(Ordering::Relaxed), 0);
}

#[test]
fn a_copy_has_every_byte_and_no_more() {
    let memory = Mapping::anonymous(96).unwrap();
    let words = memory.atomic_u64s(0, 12);
    words
        .iter()
        .zip(1u64..)
        .for_each(|(word, number)| word.store(number * 0x0101_0101_0101_0101, Ordering::Relaxed));
    for (offset, bytes) in [(0, 0), (0, 1), (8, 8), (16, 17), (0, 95), (0, 96), (88, 8), (96, 0)] {
        let mut copy = Vec::new();
        memory.copy(offset, bytes, &mut copy);
        let expected: Vec<u8> = (offset..offset + bytes).map(|at| (at / 8 + 1) as u8).collect();
        assert_eq!(copy, expected, "{bytes} from {offset}");
        memory.copy(0, 17, &mut copy);
        memory.copy(offset, bytes, &mut copy);
        assert_eq!(copy, expected, "{bytes} from {offset}, over others");
    }
    for (offset, bytes) in [(0, 97), (88, 9), (4, 8), (96, 1), (usize::MAX - 7, 8)] {
        assert!(
            catch_unwind(AssertUnwindSafe(|| memory.copy(offset, bytes, &mut Vec::new()))).is_err(),
            "{bytes} from {offset}"
        );
    }
}

#[test]
fn what_is_copied_in_comes_out_again_at_every_length_and_nothing_beside_it_changes() {
    let memory = Mapping::anonymous(1024).unwrap();
    let bytes: Vec<u8> = (0..900_u32).map(|n| (n * 7 % 251) as u8).collect();
    for length in 0..=bytes.len() {
        let words = memory.atomic_u64s(0, 128);
        words.iter().for_each(|word| word.store(u64::MAX, Ordering::Relaxed));
        memory.copy_in(8, &bytes[..length]);
        let behind = 1 + length.div_ceil(8);
        let is_untouched = |word: &AtomicU64| word.load(Ordering::Relaxed) == u64::MAX;
        assert!(is_untouched(&words[0]) && words[behind..].iter().all(is_untouched), "{length}");
        let mut copy = Vec::new();
        memory.copy(8, length, &mut copy);
        assert_eq!(copy, bytes[..length]);
    }
}

#[test]
fn a_mapping_beyond_the_end_of_the_file_is_refused() {
    let fd = memfd("short", 4096).unwrap();
    for (offset, len) in [(0, 4097), (4096, 1), (u64::MAX - 4095, 4096)] {
        let error = Mapping::shared_at(&fd, offset, len, Access::ReadOnly).unwrap_err();
        assert_eq!(error.os().kind(), io::ErrorKind::UnexpectedEof, "{error}");
    }
    assert_eq!(Mapping::shared(&fd, 0, Access::ReadOnly).unwrap_err().raw_os_error(), Some(libc::EINVAL));
}

#[test]
fn a_ring_needs_whole_pages() {
    let page = page_bytes();
    let fd = memfd("ring", 2 * page as u64).unwrap();
    for len in [0, 1, page + 8] {
        let error = Mapping::ring(&fd, 0, len, Access::ReadWrite).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "{len}");
    }
    assert_eq!(Mapping::ring(&fd, page as u64, page, Access::ReadWrite).unwrap().len(), 2 * page);
}

#[test]
fn a_dropped_mapping_is_gone() {
    // By the name of its file, since its addresses may be somebody else's a moment later.
    let listed = || std::fs::read_to_string("/proc/self/maps").unwrap().contains("memfd:to-be-dropped");
    let fd = memfd("to-be-dropped", 4 * page_bytes() as u64).unwrap();
    let plain = Mapping::shared(&fd, page_bytes() + 1, Access::ReadWrite).unwrap();
    assert!(listed());
    drop(plain);
    assert!(!listed());
    let ring = Mapping::ring(&fd, 0, page_bytes(), Access::ReadWrite).unwrap();
    assert!(listed());
    drop(ring);
    assert!(!listed());
    // A ring that fails half-way leaves nothing either.
    Mapping::ring(&fd, 1, page_bytes(), Access::ReadWrite).unwrap_err();
    assert!(!listed());
}

/// Minor faults that writing (or only reading) every page of `memory` takes.
fn faults_of_access(memory: &Mapping) -> u64 {
    let faults = || getrusage(UsageWho::RUSAGE_THREAD).unwrap().minor_page_faults();
    let before = faults();
    for offset in (0..memory.len()).step_by(page_bytes()) {
        let word = memory.atomic_u32(offset);
        let value = word.load(Ordering::Relaxed);
        if memory.access() == Access::ReadWrite {
            word.store(value + 1, Ordering::Relaxed);
        }
    }
    u64::try_from(faults() - before).unwrap()
}

#[test]
fn prefaulted_memory_takes_no_faults() {
    const PAGES: u64 = 256;
    let len = PAGES as usize * page_bytes();
    let fresh = || {
        let memory = Mapping::anonymous(len).unwrap();
        // Huge pages would take one fault for many pages and hide the difference.
        let _ = memory.advise(Advice::LinuxNoHugepage);
        // A fork in the test of another thread would make each page copy-on-write, and take a fault for each.
        memory.dont_fork().unwrap();
        memory
    };
    let untouched = faults_of_access(&fresh());
    assert!(untouched >= PAGES, "{untouched}");
    let populated = fresh();
    populated.prefault().unwrap();
    let by_kernel = faults_of_access(&populated);
    assert!(by_kernel < PAGES / 8, "{by_kernel}");
    let touched = fresh();
    touched.touch_every_page();
    let by_hand = faults_of_access(&touched);
    assert!(by_hand < PAGES / 8, "{by_hand}");
}

#[test]
fn prefaulting_changes_no_byte_and_does_not_write_what_is_read_only() {
    let fd = memfd("prefault", 8 * page_bytes() as u64).unwrap();
    rustix::io::pwrite(&fd, &[7; 100], 0).unwrap();
    for access in [Access::ReadOnly, Access::ReadWrite] {
        let memory = Mapping::shared(&fd, 8 * page_bytes(), access).unwrap();
        memory.prefault().unwrap();
        memory.touch_every_page();
        // SAFETY: nothing writes to this file any more.
        assert_eq!(unsafe { memory.slice(0, 101) }, [[7; 100].as_slice(), &[0]].concat());
    }
}

#[test]
fn a_locked_mapping_is_listed_as_locked() {
    let memory = Mapping::anonymous(page_bytes()).unwrap();
    if let Err(error) = memory.lock() {
        return skipped(Cause::Rights("locked memory"), error);
    }
    memory.dont_fork().unwrap();
    let flags = vm_flags(memory.as_ptr() as usize);
    assert!(flags.contains(" lo") && flags.contains(" dc"), "{flags}");
}

/// The `VmFlags` line of the mapping that begins at `address`.
fn vm_flags(address: usize) -> String {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let (_, of_it) = smaps.split_once(&format!("{address:x}-")).expect("a mapping begins there");
    of_it.lines().find(|line| line.starts_with("VmFlags:")).expect("it has flags").to_owned()
}
