//! How the allocator of this process behaves, for programs that may not pause.
//!
//! What glibc leaves for later it does at once, and of hundreds of thousands of small pieces that takes more than ten milliseconds.
//!
//! # Safety
//! `mallopt` sets numbers of the allocator under its lock, and touches no memory of the program.
#![allow(unsafe_code)]

/// More than the cache of a thread has, so that an allocation of it looks at all that was freed.
const SORTED_FOR: usize = 4 << 10;

/// Has freed memory merged with its neighbors when it is freed, instead of all of it later at once; returns whether that was set.
///
/// glibc keeps small pieces that are freed apart (in its *fastbins*), and merges all of them at the first free of 64 KiB or more.
/// A program sets this before its first thread starts. The cache of each thread, which serves most allocations, stays. Other C libraries have
/// nothing like it.
pub fn merge_at_once() -> bool {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: two numbers, of which glibc refuses what it does not know.
        unsafe { libc::mallopt(libc::M_MXFAST, 0) == 1 }
    }
    #[cfg(not(target_env = "gnu"))]
    false
}

/// Has the allocator put what was freed where it belongs: to be called after each of many parts in which much is freed, and nothing allocated.
///
/// glibc sorts freed pieces by their size (out of its *unsorted bin*) in the first allocation for which its caches have nothing, 10,000
/// in each such allocation.
pub fn sort_freed() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(SORTED_FOR)));
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use causeway_testkit::heap::freed;

    use super::*;

    /// More than other tests of this process free beside these.
    const PIECES: usize = 9_000;
    const FEW: u64 = 1_000;

    #[test]
    fn small_pieces_are_merged_when_they_are_freed() {
        let pieces = || (0..PIECES as u64).map(|number| Box::new([number; 6])).collect::<Vec<_>>();
        let mut apart = pieces();
        let before = freed(|| apart.clear());
        assert!(before.apart > PIECES as u64 / 2, "{before:?}: it does so by itself");
        assert!(merge_at_once());
        sort_freed();
        let mut merged = pieces();
        let after = freed(|| merged.clear());
        assert!(after.apart < FEW, "{after:?}");
    }

    #[test]
    fn what_was_freed_is_sorted_when_that_is_asked_for() {
        // Every other one goes: what stays stands between.
        let pieces = || (0..PIECES).map(|number| Some(vec![number as u8; 2_000])).collect::<Vec<_>>();
        let every_other = |pieces: &mut Vec<Option<Vec<u8>>>| {
            pieces.iter_mut().step_by(2).for_each(|piece| *piece = None);
        };
        let mut unsorted = pieces();
        let before = freed(|| every_other(&mut unsorted));
        assert!(before.unsorted > PIECES as u64 / 4, "{before:?}: it does so by itself");
        let mut sorted = pieces();
        let after = freed(|| {
            every_other(&mut sorted);
            sort_freed();
        });
        assert!(after.unsorted < FEW, "{after:?}");
    }
}
