//! Copies between shared and private memory, while other processes may read or change what is shared.
//!
//! # Safety
//!
//! Shared bytes are loaded and stored by atomics or by instructions that are opaque to the compiler, never through a Rust
//! reference: what changes meanwhile is torn, and the program stays defined. Each caller promises that the ranges exist.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

/// Copies bytes out of shared memory that another process may change meanwhile. The copy may be torn, the program stays
/// defined.
///
/// Uses inline assembly, which is opaque to the compiler, and atomic words. Long copies use the string copy of the processor,
/// which is as fast as memcpy from some hundred bytes on (every x86-64 since 2012 has ERMS).
///
/// # Safety
/// `from` lies in shared memory, is a multiple of 8, and is valid for `length` bytes rounded up to a multiple of 8. `to` is private
/// memory, valid for `length` bytes.
#[inline(always)]
pub unsafe fn copy_out(from: *mut u8, to: *mut u8, length: usize) {
    #[cfg(target_arch = "x86_64")]
    if length >= STRING_COPY_BYTES {
        // SAFETY: the caller's promise.
        return unsafe { copy_string(from, to, length) };
    }
    let word_at = |at| {
        // SAFETY: aligned and inside the range, rounded up.
        let word = unsafe { AtomicU64::from_ptr(from.add(at).cast()) };
        word.load(Ordering::Relaxed).to_ne_bytes()
    };
    // SAFETY: the caller's promise.
    let mut at = unsafe { copy_blocks(from, to, length) };
    while at + 8 <= length {
        // SAFETY: inside the range; an array of bytes needs no alignment.
        unsafe { to.add(at).cast::<[u8; 8]>().write(word_at(at)) };
        at += 8;
    }
    if at < length {
        // SAFETY: inside the range: fewer than 8 bytes are left.
        unsafe { to.add(at).copy_from_nonoverlapping(word_at(at).as_ptr(), length - at) };
    }
}

/// Copies bytes into shared memory, where other processes may read them meanwhile. As [`copy_out`], in the other direction. Bytes
/// after the last one, up to a multiple of 8, are left as they are or become 0.
///
/// # Safety
/// `to` lies in shared memory that is mapped for writing, is a multiple of 8 unless `length` is 0, and is valid for `length` bytes rounded up
/// to a multiple of 8, which no other thread writes. `from` is valid for `length` bytes that no thread changes.
#[inline(always)]
pub unsafe fn copy_in(from: *const u8, to: *mut u8, length: usize) {
    #[cfg(target_arch = "x86_64")]
    if length >= STRING_COPY_BYTES {
        // SAFETY: the caller's promise.
        return unsafe { copy_string(from, to, length) };
    }
    let store = |at, word| {
        // SAFETY: aligned and inside the range, rounded up.
        let place = unsafe { AtomicU64::from_ptr(to.add(at).cast()) };
        place.store(u64::from_ne_bytes(word), Ordering::Relaxed);
    };
    // SAFETY: the caller's promise.
    let mut at = unsafe { copy_blocks(from, to, length) };
    while at + 8 <= length {
        // SAFETY: inside the range; an array of bytes needs no alignment.
        store(at, unsafe { from.add(at).cast::<[u8; 8]>().read() });
        at += 8;
    }
    if at < length {
        let mut word = [0; 8];
        // SAFETY: inside the range: fewer than 8 bytes are left.
        unsafe { word.as_mut_ptr().copy_from_nonoverlapping(from.add(at), length - at) };
        store(at, word);
    }
}

/// From this length on the processor's string copy is used.
#[cfg(target_arch = "x86_64")]
const STRING_COPY_BYTES: usize = 768;

/// Copies everything in blocks of 32 bytes if there is at least one; returns how many bytes that was, `length` or 0. The last
/// block ends where the bytes end, and may begin in the one before.
///
/// # Safety
/// `from` and `to` are valid for `length` bytes and do not overlap.
#[inline(always)]
unsafe fn copy_blocks(from: *const u8, to: *mut u8, length: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    if let Some(last) = length.checked_sub(32) {
        let copy_block = |at: usize| {
            // SAFETY: `at` is at most `last`, so the block is inside both ranges; the instructions take any alignment.
            unsafe {
                std::arch::asm!(
                    "movups {a}, [{from} + {at}]", "movups {b}, [{from} + {at} + 16]",
                    "movups [{to} + {at}], {a}", "movups [{to} + {at} + 16], {b}",
                    from = in(reg) from, to = in(reg) to, at = in(reg) at, a = out(xmm_reg) _, b = out(xmm_reg) _,
                    options(nostack, preserves_flags));
            }
        };
        (0..last).step_by(32).for_each(copy_block);
        copy_block(last);
        return length;
    }
    let _ = (from, to, length);
    0
}

/// # Safety
/// `from` and `to` are valid for `length` bytes and do not overlap.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn copy_string(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: the caller's promise; the direction flag is clear in all Rust code.
    unsafe {
        std::arch::asm!("rep movsb", inout("rcx") length => _, inout("rsi") from => _, inout("rdi") to => _,
            options(nostack, preserves_flags));
    }
}
