//! The way into every function. A handle belongs to the process that made it and to one thread at a time; no panic
//! leaves, and a handle in which one happened is not used again.
//!
//! # Safety
//! A handle is null, or comes from [`give`] and was not freed: C cannot be held to that, and says so in the headers.
//! What a second thread does to one in use is found in its first word, before its value is touched.
#![allow(unsafe_code)]

use std::any::Any;
use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::addr_of_mut;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{CW_E_BUSY, CW_E_FORKED, CW_E_PANIC, CW_E_POISONED, CW_OK, Done, Failure, cw_error};
use crate::fork::Process;
use crate::input::{Out, null};

// No process has these numbers.
const BUSY: u64 = u64::MAX;
const POISONED: u64 = u64::MAX - 1;

/// What C knows as a pointer to an incomplete type.
#[derive(Debug)]
pub struct Handle<T> {
    /// The number of its process while nobody uses it: that of another process is none to exchange.
    state: AtomicU64,
    process: Process,
    value: ManuallyDrop<T>,
}

/// Hands out a new handle.
pub fn give<T>(out: Out<*mut Handle<T>>, value: T) -> Done {
    let process = Process::this()?;
    let (state, value) = (AtomicU64::new(process.number), ManuallyDrop::new(value));
    out.write(Box::into_raw(Box::new(Handle { state, process, value })));
    Ok(CW_OK)
}

/// A handle that is in use by this thread, and unusable once this is dropped: a panic does that.
struct Lease<'a, T> {
    state: &'a AtomicU64,
    // Behind a reference: the number is read where it is used, and needs no register between.
    process: &'a Process,
    value: &'a mut T,
}

impl<'a, T> Lease<'a, T> {
    /// # Safety
    /// See the text of this file.
    #[inline(always)]
    unsafe fn of(handle: *mut Handle<T>) -> Result<Lease<'a, T>, Failure> {
        if handle.is_null() {
            return Err(null("the handle"));
        }
        // SAFETY: the handle is alive; these fields are read by all threads and, but for the atomic, written by none.
        let (process, state) = unsafe { (&(*handle).process, &(*handle).state) };
        // PAIR c-handle: the thread that has it next sees what this one did.
        match state.compare_exchange(process.number_now(), BUSY, Ordering::Acquire, Ordering::Relaxed) {
            // SAFETY: from here on no other thread touches the value.
            Ok(_) => Ok(Lease { state, process, value: unsafe { &mut *addr_of_mut!((*handle).value) } }),
            Err(state) => Err(not_idle(process, state)),
        }
    }

    /// Others may use it.
    #[inline(always)]
    fn end(self) {
        self.state.store(self.process.number, Ordering::Release); // PAIR c-handle
        std::mem::forget(self);
    }
}

impl<T> Drop for Lease<'_, T> {
    #[cold]
    fn drop(&mut self) {
        self.state.store(POISONED, Ordering::Release);
    }
}

/// Does something with what a handle stands for.
///
/// # Safety
/// See the text of this file.
#[inline(always)]
pub unsafe fn with<T, R>(
    handle: *mut Handle<T>,
    work: impl FnOnce(&mut T) -> Result<R, Failure>,
) -> Result<R, Failure> {
    // SAFETY: the caller's promise.
    let lease = unsafe { Lease::of(handle)? };
    let done = work(&mut *lease.value);
    lease.end();
    done
}

#[cold]
fn not_idle(process: &Process, state: u64) -> Failure {
    if process.number_now() != process.number {
        return Failure::new(
            CW_E_FORKED,
            "this handle was made before a fork; in the child free it and make another one",
        );
    }
    if state == BUSY {
        return Failure::new(CW_E_BUSY, "another thread uses this handle; use it from one thread at a time");
    }
    Failure::new(CW_E_POISONED, "an earlier call on this handle ended in a defect of the library; free it")
}

/// Runs the function `name` on a handle.
///
/// # Safety
/// See the text of this file; `error` is null or may be written to.
#[inline(always)]
pub unsafe fn on<T>(
    name: &'static str,
    handle: *mut Handle<T>,
    error: *mut *mut cw_error,
    work: impl FnOnce(&mut T) -> Done,
) -> c_int {
    // By value, as in the macros: a reference to each argument would have all of them in memory.
    let work = move || {
        // SAFETY: the caller's promise.
        unsafe {
            with(handle, |value| {
                inject(name);
                work(value)
            })
        }
    };
    // SAFETY: the caller's promise.
    unsafe { run(error, work) }
}

/// Runs the function `name`, which has no handle yet.
///
/// # Safety
/// `error` is null or may be written to.
pub unsafe fn make(name: &'static str, error: *mut *mut cw_error, work: impl FnOnce() -> Done) -> c_int {
    let work = || {
        inject(name);
        work()
    };
    // SAFETY: the caller's promise.
    unsafe { run(error, work) }
}

#[inline(always)]
unsafe fn run(error: *mut *mut cw_error, work: impl FnOnce() -> Done) -> c_int {
    let failure = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(code)) => return code,
        Ok(Err(failure)) => failure,
        Err(panic) => panicked(&*panic),
    };
    // SAFETY: the caller's promise.
    unsafe { failure.report(error) }
}

#[cold]
fn panicked(panic: &(dyn Any + Send)) -> Failure {
    let said = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    Failure::new(CW_E_PANIC, format!("libcauseway has a defect: {}", said.unwrap_or("it did not say which")))
}

/// Reads from a handle what has a place in no code; `otherwise` where that is not possible.
///
/// # Safety
/// As [`on`].
pub unsafe fn look<T, R>(
    name: &'static str,
    handle: *mut Handle<T>,
    otherwise: R,
    at: impl FnOnce(&mut T) -> R,
) -> R {
    let mut found = None;
    // SAFETY: the caller's promise.
    unsafe {
        on(name, handle, std::ptr::null_mut(), |value| {
            found = Some(at(value));
            Ok(CW_OK)
        })
    };
    found.unwrap_or(otherwise)
}

/// Ends a handle. One that another thread uses stays. In a child of the process that made it, its memory is freed and
/// nothing else: what is shared is the parent's.
///
/// # Safety
/// As [`on`]; it is not used again.
pub unsafe fn free<T>(name: &'static str, handle: *mut Handle<T>) {
    let work = || {
        if handle.is_null() {
            return Ok(CW_OK);
        }
        inject(name);
        // SAFETY: as in `Lease::of`.
        let (process, state) = unsafe { (&(*handle).process, &(*handle).state) };
        let is_own = process.number_now() == process.number;
        // PAIR c-handle
        if is_own && state.swap(BUSY, Ordering::Acquire) == BUSY {
            return Err(not_idle(process, BUSY));
        }
        // SAFETY: `give` made it, and the caller gives it back once.
        let mut handle = unsafe { Box::from_raw(handle) };
        if is_own {
            // SAFETY: it is dropped here alone.
            unsafe { ManuallyDrop::drop(&mut handle.value) };
        }
        Ok(CW_OK)
    };
    // SAFETY: null.
    unsafe { run(std::ptr::null_mut(), work) };
}

/// Exports functions of a handle, which is the first argument; a `cw_error **` follows the last.
macro_rules! methods {
    ($($(#[$doc:meta])* fn $name:ident($handle:ident: $of:ty $(, $argument:ident: $type:ty)* $(,)?) $body:block)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            $handle: *mut $of,
            $($argument: $type,)*
            error: *mut *mut $crate::error::cw_error,
        ) -> std::ffi::c_int {
            // SAFETY: the caller keeps the rules of the header.
            unsafe { $crate::handle::on(stringify!($name), $handle, error, move |$handle| $body) }
        }
    )*};
}

/// Exports functions that make a handle.
macro_rules! makers {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            $($argument: $type,)*
            error: *mut *mut $crate::error::cw_error,
        ) -> std::ffi::c_int {
            // SAFETY: the caller keeps the rules of the header.
            unsafe { $crate::handle::make(stringify!($name), error, move || $body) }
        }
    )*};
}

/// Exports functions that end a handle.
macro_rules! frees {
    ($($(#[$doc:meta])* $name:ident: $of:ty;)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(handle: *mut $of) {
            // SAFETY: the caller keeps the rules of the header.
            unsafe { $crate::handle::free(stringify!($name), handle) }
        }
    )*};
}

pub(crate) use {frees, makers, methods};

#[cfg(not(feature = "panic-injection"))]
#[inline(always)]
fn inject(_name: &str) {}

#[cfg(feature = "panic-injection")]
static PANIC_IN: std::sync::Mutex<String> = std::sync::Mutex::new(String::new());

#[cfg(feature = "panic-injection")]
fn inject(name: &str) {
    let mut wanted = PANIC_IN.lock().expect("nobody panics while it is held");
    if *wanted == name {
        wanted.clear();
        drop(wanted);
        panic!("injected into {name}");
    }
}

/// The next call of the function of this name panics. For tests; the shared library does not export it.
///
/// # Safety
/// A text that ends with a zero byte.
#[cfg(feature = "panic-injection")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cw_test_panic_in(name: *const std::ffi::c_char) {
    // SAFETY: the caller's promise.
    let name = unsafe { std::ffi::CStr::from_ptr(name) };
    *PANIC_IN.lock().expect("nobody panics while it is held") = name.to_string_lossy().into_owned();
}
