//! Pointers and lengths of the caller, checked before they are used.
//!
//! # Safety
//! A pointer that is not null is good for as many bytes as the caller says, or to a zero byte: that is what C promises.
#![allow(unsafe_code)]

use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use crate::error::{CW_E_NULL, CW_E_RANGE, Failure};

/// The failure for a value that is not possible.
#[cold]
pub fn range(text: impl ToString) -> Failure {
    Failure::new(CW_E_RANGE, text)
}

/// The failure for a pointer that is missing.
#[cold]
pub fn null(what: &str) -> Failure {
    Failure::new(CW_E_NULL, format!("{what} is null; pass a valid pointer"))
}

/// Where a result is written, once there is one.
#[derive(Clone, Copy, Debug)]
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    /// # Safety
    /// See the text of this file; it is good until the function returns.
    #[inline(always)]
    pub unsafe fn new(pointer: *mut T) -> Result<Out<T>, Failure> {
        if pointer.is_null() { Err(null("the place for the result")) } else { Ok(Out(pointer)) }
    }

    #[inline(always)]
    pub fn write(self, value: T) {
        // SAFETY: it is not null, and was said to be good.
        unsafe { self.0.write(value) }
    }
}

/// Writes a result where the caller wants it.
///
/// # Safety
/// See the text of this file.
#[inline(always)]
pub unsafe fn offer<T>(pointer: *mut T, value: T) {
    if !pointer.is_null() {
        // SAFETY: the caller's promise.
        unsafe { pointer.write(value) }
    }
}

/// Where a structure is written that may have fewer fields, or more, than this version knows.
#[derive(Clone, Copy, Debug)]
pub struct SizedOut<T>(*mut T, usize);

impl<T: Copy> SizedOut<T> {
    /// # Safety
    /// As [`Out::new`], for so many bytes.
    #[inline(always)]
    pub unsafe fn new(pointer: *mut T, bytes: usize) -> Result<SizedOut<T>, Failure> {
        if pointer.is_null() {
            Err(null("the structure for the result"))
        } else {
            Ok(SizedOut(pointer, bytes))
        }
    }

    #[inline(always)]
    pub fn write(self, value: T) {
        if self.1 == size_of::<T>() {
            // SAFETY: the caller has so many bytes.
            unsafe { self.0.write(value) }
        } else {
            // A copy: the value itself need not be in memory for it.
            let value = { value };
            self.write_known(&value);
        }
    }

    /// As [`SizedOut::write`], for a caller of another version.
    #[cold]
    #[inline(never)]
    fn write_known(self, value: &T) {
        let known = self.1.min(size_of::<T>());
        // SAFETY: as above; what this version does not know is zeroed.
        unsafe {
            self.0.cast::<u8>().copy_from_nonoverlapping((&raw const *value).cast(), known);
            self.0.cast::<u8>().add(known).write_bytes(0, self.1 - known);
        }
    }
}

/// Structures of which all zeroes are a value.
///
/// # Safety
/// They are.
pub unsafe trait Options: Copy {}

/// Options of any length: what the caller leaves out is zero, what this version does not know must be.
///
/// # Safety
/// See the text of this file.
pub unsafe fn options<T: Options>(pointer: *const T, bytes: usize) -> Result<T, Failure> {
    // SAFETY: zeroes are a value.
    let mut options: T = unsafe { std::mem::zeroed() };
    if pointer.is_null() {
        return if bytes == 0 { Ok(options) } else { Err(null("the options")) };
    }
    let known = bytes.min(size_of::<T>());
    // SAFETY: the caller's bytes; every bit pattern of what they hold is checked before it is used.
    let rest = unsafe {
        (&raw mut options).cast::<u8>().copy_from_nonoverlapping(pointer.cast(), known);
        std::slice::from_raw_parts(pointer.cast::<u8>().add(known), bytes - known)
    };
    if rest.iter().any(|byte| *byte != 0) {
        return Err(range(format!(
            "options of {bytes} bytes set fields that this version of libcauseway does not have; use a newer one, or leave them zero"
        )));
    }
    Ok(options)
}

/// # Safety
/// See the text of this file.
pub unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a str, Failure> {
    if pointer.is_null() {
        return Err(null(what));
    }
    // SAFETY: it ends with a zero byte.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| range(format!("{what} is not UTF-8; encode it so")))
}

/// # Safety
/// See the text of this file.
pub unsafe fn path<'a>(pointer: *const c_char) -> Result<&'a Path, Failure> {
    if pointer.is_null() {
        return Err(null("the path"));
    }
    // SAFETY: it ends with a zero byte.
    Ok(Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(pointer) }.to_bytes())))
}

/// # Safety
/// See the text of this file: so many elements, of which no other thread changes one meanwhile.
#[inline(always)]
pub unsafe fn slice<'a, T>(pointer: *const T, count: usize) -> Result<&'a [T], Failure> {
    // One comparison for none and for too many.
    if !pointer.is_null() && count.wrapping_sub(1) < isize::MAX as usize / size_of::<T>() {
        // SAFETY: the caller's promise.
        return Ok(unsafe { std::slice::from_raw_parts(pointer, count) });
    }
    match count {
        0 => Ok(&[]),
        _ if pointer.is_null() => Err(null("the data")),
        _ => Err(range(format!("{count} elements are more than memory holds"))),
    }
}

/// Bytes that are written to. As [`slice`].
///
/// # Safety
/// As [`slice`], and they may be written to.
pub unsafe fn bytes_mut<'a>(pointer: *mut c_void, count: usize) -> Result<&'a mut [u8], Failure> {
    match count {
        0 => Ok(&mut []),
        _ if pointer.is_null() => Err(null("the buffer")),
        _ if count > isize::MAX as usize => Err(range(format!("{count} bytes are more than memory holds"))),
        // SAFETY: the caller's promise.
        _ => Ok(unsafe { std::slice::from_raw_parts_mut(pointer.cast(), count) }),
    }
}

/// Descriptors of the caller, which stay its own.
///
/// # Safety
/// As [`slice`].
pub unsafe fn descriptors<'a>(fds: *const RawFd, count: usize) -> Result<Vec<BorrowedFd<'a>>, Failure> {
    // SAFETY: the caller's promise.
    let fds = unsafe { slice(fds, count)? };
    fds.iter().map(|fd| descriptor(*fd)).collect()
}

/// A descriptor of the caller.
pub fn descriptor<'a>(fd: RawFd) -> Result<BorrowedFd<'a>, Failure> {
    if fd < 0 {
        return Err(range(format!("{fd} is not a descriptor; pass one that is open")));
    }
    // SAFETY: it is not -1. Whether it is open the kernel says.
    Ok(unsafe { BorrowedFd::borrow_raw(fd) })
}

/// A descriptor that the caller gives away.
///
/// # Safety
/// It is open, and not used by the caller again.
pub unsafe fn own(fd: RawFd) -> OwnedFd {
    // SAFETY: the caller's promise.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// How long to wait; negative is without a limit.
#[inline(always)]
pub fn timeout(timeout_ns: i64) -> Option<Duration> {
    u64::try_from(timeout_ns).ok().map(Duration::from_nanos)
}

/// Refuses flags that this version does not know.
pub fn flags(given: u32, known: u32) -> Result<u32, Failure> {
    match given & !known {
        0 => Ok(given),
        unknown => Err(range(format!("flags {unknown:#x} have no meaning here; use those of the header"))),
    }
}
