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
    use super::*;

    #[test]
    fn this_c_library_can_merge_at_once() {
        assert!(merge_at_once());
    }
}
