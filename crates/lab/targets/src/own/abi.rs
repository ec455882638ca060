//! `weighbridge-target.h` in Rust, and the calls into a shared object that was compiled with it.
//!
//! # Safety
//! A shared object promises what the header says: that functions have these signatures, that what they point to is there as long as the
//! header says, and that an end is used by one thread. Code that breaks this can do to its process what it likes; so only processes
//! that have nothing else to do load one: a short-lived child of the coordinator, and the peers of a run. What can be looked at
//! without trust is looked at: version and size before anything else, null pointers, lengths.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt::Display;
use std::mem::{ManuallyDrop, MaybeUninit, offset_of};
use std::os::fd::FromRawFd;
use std::path::Path;
use std::ptr;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::prelude::*;

/// The version of the header that this program reads.
pub(super) const VERSION: u32 = 2;
/// Most descriptors that `create` hands over to an end.
pub(super) const FDS_MAX: usize = 128;
/// Most bytes that it does.
pub(super) const BYTES_MAX: usize = 1024;
/// No object in memory is longer.
const MESSAGE_MAX: usize = isize::MAX as usize;
/// More mechanisms are a table without an end.
const TARGETS_MAX: usize = 64;

/// `struct weighbridge_case`.
#[repr(C)]
pub(super) struct Case {
    struct_bytes: u32,
    end_count: u32,
    name: *const c_char,
    payload_bytes: usize,
    wait: *const c_char,
    pattern: *const c_char,
    folder: *const c_char,
    prefix: *const c_char,
}

impl Case {
    /// A case whose strings are there until the process ends.
    pub(super) fn new(
        end_count: u32,
        payload_bytes: usize,
        [name, wait, pattern, folder, prefix]: [&str; 5],
    ) -> io::Result<&'static Case> {
        let leaked = |text: &str| Ok::<_, io::Error>(CString::new(text)?.into_raw().cast_const());
        let (name, wait, pattern) = (leaked(name)?, leaked(wait)?, leaked(pattern)?);
        let (folder, prefix) = (leaked(folder)?, leaked(prefix)?);
        let struct_bytes = size_of::<Case>() as u32;
        let case = Case { struct_bytes, end_count, name, payload_bytes, wait, pattern, folder, prefix };
        Ok(Box::leak(Box::new(case)))
    }
}

/// `struct weighbridge_resources`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Resources {
    pub(super) fd_count: u32,
    pub(super) fds: [c_int; FDS_MAX],
    pub(super) byte_count: u32,
    pub(super) bytes: [u8; BYTES_MAX],
}

impl Resources {
    pub(super) const EMPTY: Resources =
        Resources { fd_count: 0, fds: [-1; FDS_MAX], byte_count: 0, bytes: [0; BYTES_MAX] };
}

type Create = unsafe extern "C" fn(*const Case, *mut Resources) -> c_int;
type Attach = unsafe extern "C" fn(*const Case, u32, *mut Resources, *mut *mut c_void) -> c_int;
type Loan = unsafe extern "C" fn(*mut c_void, usize, *mut *mut c_void, *mut usize) -> c_int;
type Commit = unsafe extern "C" fn(*mut c_void, *mut c_void, usize) -> c_int;
type Take = unsafe extern "C" fn(*mut c_void, usize, *mut *const c_void, *mut usize) -> c_int;
type Release = unsafe extern "C" fn(*mut c_void, *const c_void) -> c_int;
type OfEnd = unsafe extern "C" fn(*mut c_void) -> c_int;
type Fact = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char);

/// `struct weighbridge_target`. What its version began with ends with `error_text`.
#[repr(C)]
struct RawTarget {
    version: u32,
    struct_bytes: u32,
    name: *const c_char,
    about: *const c_char,
    measured_version: *const c_char,
    capabilities: u32,
    waits: *const c_char,
    to_itself_bytes: usize,
    create: Option<Create>,
    attach: Option<Attach>,
    loan: Option<Loan>,
    commit: Option<Commit>,
    take: Option<Take>,
    release: Option<Release>,
    prefault: Option<OfEnd>,
    settle: Option<OfEnd>,
    close: Option<unsafe extern "C" fn(*mut c_void)>,
    position: Option<unsafe extern "C" fn(*mut c_void) -> u64>,
    facts: Option<unsafe extern "C" fn(*mut c_void, Fact, *mut c_void) -> c_int>,
    error_text: Option<unsafe extern "C" fn(c_int) -> *const c_char>,
}

/// What every object of the version has; what was added later stands behind it.
const LEAST_BYTES: usize = offset_of!(RawTarget, error_text) + size_of::<*const c_void>();
/// A longer one was never compiled.
const MOST_BYTES: usize = 4096;

/// What a mechanism says of itself, as it says it.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) name: String,
    pub(super) about: String,
    pub(super) measured_version: String,
    pub(super) capabilities: u32,
    pub(super) waits: String,
    pub(super) to_itself_bytes: usize,
}

/// A shared object in this process.
pub(super) struct Loaded {
    targets: Vec<&'static RawTarget>,
    /// Never closed: its threads, if it has any, may run until the process ends.
    _library: &'static Library,
}

impl Loaded {
    /// Loads it, which runs its initializers, and looks at the table that it exports.
    pub(super) fn open(path: &Path) -> io::Result<Loaded> {
        // SAFETY: what initializers may do is the promise above. All symbols are looked up now, so that one that is missing is said here.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }
            .map_err(|error| io::Error::other(format!("it cannot be loaded: {error}")))?;
        let library: &'static Library = Box::leak(Box::new(library));
        // SAFETY: the symbol is only looked at as an address here.
        let table = unsafe { library.get::<*const RawTarget>(b"weighbridge_targets\0") };
        let table = table.map_err(|_| {
            io::Error::other("it exports no weighbridge_targets; weighbridge-target.h says what that is")
        })?;
        let mut entry = table.as_raw_ptr().cast::<u8>().cast_const();
        let mut targets = Vec::new();
        // All have the length of the first.
        let mut stride = None;
        for index in 0.. {
            // SAFETY: entries begin with two words in every version of the header, and one that is zero ends the table.
            let (version, bytes) = unsafe { (*entry.cast::<u32>(), *entry.cast::<u32>().add(1)) };
            if version == 0 && index > 0 {
                break;
            }
            let len = bytes as usize;
            if version != VERSION
                || !(LEAST_BYTES..=MOST_BYTES).contains(&len)
                || len != *stride.get_or_insert(len)
            {
                return Err(io::Error::other(format!(
                    "its entry {index} has version {version} and {bytes} bytes, where this program reads version {VERSION} with {}; compile \
                     it with the weighbridge-target.h of this program, and end the table with an entry of zeros",
                    size_of::<RawTarget>()
                )));
            }
            if index == TARGETS_MAX {
                return Err(io::Error::other(format!(
                    "its table has no end after {index} entries; the last one must be zero"
                )));
            }
            // SAFETY: an entry of the version is as long as it says, and stays while the library is loaded.
            targets.push(known_part(index, unsafe { std::slice::from_raw_parts(entry, len) })?);
            entry = entry.wrapping_add(len);
        }
        Ok(Loaded { targets, _library: library })
    }

    /// What its mechanisms say of themselves; a function that must be there and is not is an error.
    pub(super) fn describe(&self) -> io::Result<Vec<Said>> {
        self.targets.iter().map(|target| describe(target)).collect()
    }

    fn find(&self, name: &str) -> io::Result<&'static RawTarget> {
        let is_meant = |target: &&&RawTarget| {
            // SAFETY: `describe` has read this name in another process that loaded the same bytes.
            unsafe { CStr::from_ptr(target.name) }.to_bytes() == name.as_bytes()
        };
        let found = self.targets.iter().find(is_meant).copied();
        found.ok_or_else(|| io::Error::other(format!("the shared object has no {name} any more")))
    }

    /// Calls `create`: what each end gets.
    pub(super) fn create(&self, name: &str, case: &'static Case) -> io::Result<Vec<Resources>> {
        let target = self.find(name)?;
        let mut ends = vec![Resources::EMPTY; case.end_count as usize];
        if let Some(create) = target.create {
            // SAFETY: a case that stays, and as many places as it says, which are written.
            target.check("create", unsafe { create(case, ends.as_mut_ptr()) })?;
        }
        Ok(ends)
    }

    /// Calls `attach`, once per end.
    pub(super) fn attach(
        &self,
        name: &str,
        case: &'static Case,
        side: u32,
        mut resources: Resources,
    ) -> io::Result<End> {
        let target = self.find(name)?;
        let mut end = ptr::null_mut();
        let attach = target.attach.expect("`describe` has looked");
        // SAFETY: a case that stays, resources that belong to the end from here on, and a place that is written.
        target.check("attach", unsafe { attach(case, side, &mut resources, &mut end) })?;
        Ok(End { target, end, not_released: Cell::new(0), held: None })
    }
}

/// Entry `index` of a table, as far as this program knows what stands there: what an older header has not is zero, and what a newer one
/// has beyond is refused where something uses it.
fn known_part(index: usize, entry: &'static [u8]) -> io::Result<&'static RawTarget> {
    let len = entry.len().min(size_of::<RawTarget>());
    if entry[len..].iter().any(|byte| *byte != 0) {
        return Err(io::Error::other(format!(
            "its entry {index} uses what a newer weighbridge-target.h has; compile it with that of this program"
        )));
    }
    let mut known = Box::new(MaybeUninit::<RawTarget>::zeroed());
    // SAFETY: `len` bytes are in both, and every field may be zero: a number, a pointer that is null, a function that is not there.
    unsafe {
        ptr::copy_nonoverlapping(entry.as_ptr(), known.as_mut_ptr().cast(), len);
        Ok(Box::leak(known).assume_init_ref())
    }
}

fn describe(target: &RawTarget) -> io::Result<Said> {
    let text = |what: &str, text: *const c_char| {
        if text.is_null() {
            return Err(io::Error::other(format!("it has a mechanism without {what}")));
        }
        // SAFETY: a string that ends with a zero, by the promise of the header.
        Ok(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    };
    let name = text("name", target.name)?;
    let has = [
        ("attach", target.attach.is_some()),
        ("loan", target.loan.is_some()),
        ("commit", target.commit.is_some()),
        ("take", target.take.is_some()),
    ];
    if let Some((function, _)) = has.iter().find(|(_, has)| !has) {
        return Err(io::Error::other(format!("its mechanism {name} has no function `{function}`")));
    }
    Ok(Said {
        about: text("about", target.about)?,
        measured_version: text("measured_version", target.measured_version)?,
        capabilities: target.capabilities,
        waits: text("waits", target.waits)?,
        to_itself_bytes: target.to_itself_bytes,
        name,
    })
}

impl RawTarget {
    #[inline]
    fn check(&self, function: &str, error: c_int) -> io::Result<()> {
        if error == 0 { Ok(()) } else { Err(self.error(function, error)) }
    }

    #[cold]
    fn error(&self, function: &str, error: c_int) -> io::Error {
        let of_system = io::Error::from_raw_os_error(error);
        // SAFETY: a function that turns a number into a string that stays, by the promise of the header.
        let own = self.error_text.map(|text| unsafe { text(error) }).filter(|text| !text.is_null());
        let words = match own {
            // SAFETY: as above.
            Some(text) => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
            None => of_system.to_string(),
        };
        io::Error::new(of_system.kind(), format!("its function `{function}` failed: {words}"))
    }
}

/// An end in this process; closed when dropped.
pub(super) struct End {
    target: &'static RawTarget,
    end: *mut c_void,
    /// What `release` has failed with: said by the next call that can say it.
    not_released: Cell<c_int>,
    /// The message that [`End::take_held`] gave out last.
    held: Option<*const c_void>,
}

/// Room for a message.
pub(super) struct Room<'a> {
    end: &'a End,
    data: *mut u8,
    len: usize,
}

/// A message that was taken; released when dropped.
pub(super) struct Taken<'a> {
    end: &'a End,
    data: *const u8,
    len: usize,
}

fn lie(of: impl Display) -> io::Error {
    io::Error::other(of.to_string())
}

impl End {
    #[inline]
    pub(super) fn loan(&mut self, len: usize) -> io::Result<Room<'_>> {
        let (mut data, mut room) = (ptr::null_mut(), 0);
        let loan = self.target.loan.expect("`describe` has looked");
        // SAFETY: this end, and two places that are written.
        self.target.check("loan", unsafe { loan(self.end, len, &mut data, &mut room) })?;
        if room < len {
            return Err(lie(format_args!("its function `loan` gave {room} bytes, asked were {len}")));
        }
        if data.is_null() && len > 0 {
            return Err(lie(format_args!("its function `loan` gave no place for {len} bytes")));
        }
        let data = if data.is_null() { ptr::NonNull::dangling().as_ptr() } else { data.cast() };
        Ok(Room { end: self, data, len })
    }

    #[inline]
    pub(super) fn take(&mut self, expected: usize) -> io::Result<Taken<'_>> {
        self.target.check("release", self.not_released.get())?;
        let (mut data, mut len) = (ptr::null(), 0);
        let take = self.target.take.expect("`describe` has looked");
        // SAFETY: this end, and two places that are written.
        self.target.check("take", unsafe { take(self.end, expected, &mut data, &mut len) })?;
        if len > MESSAGE_MAX || (data.is_null() && len > 0) {
            return Err(lie(format_args!("its function `take` gave no place for {len} bytes")));
        }
        let data = if data.is_null() { ptr::NonNull::dangling().as_ptr() } else { data.cast() };
        Ok(Taken { end: self, data, len })
    }

    /// The next message, kept until this is called again.
    #[inline]
    pub(super) fn take_held(&mut self, expected: usize) -> io::Result<&[u8]> {
        self.release_held();
        let taken = ManuallyDrop::new(self.take(expected)?);
        let (data, len) = (taken.data, taken.len);
        self.held = Some(data.cast());
        // SAFETY: the end keeps so many bytes there until they are released, and while they are borrowed nobody has it done.
        Ok(unsafe { std::slice::from_raw_parts(data, len) })
    }

    fn release_held(&mut self) {
        if let Some(data) = self.held.take() {
            self.release(data);
        }
    }

    #[inline]
    fn release(&self, data: *const c_void) {
        if let Some(release) = self.target.release {
            // SAFETY: this end, and a message of it that nobody reads any more.
            let error = unsafe { release(self.end, data) };
            if error != 0 {
                self.not_released.set(error);
            }
        }
    }

    pub(super) fn prefault(&mut self) -> io::Result<()> {
        // SAFETY: this end.
        self.target.prefault.map_or(Ok(()), |call| self.target.check("prefault", unsafe { call(self.end) }))
    }

    pub(super) fn settle(&mut self) -> io::Result<()> {
        self.target.check("release", self.not_released.get())?;
        // SAFETY: this end.
        self.target.settle.map_or(Ok(()), |call| self.target.check("settle", unsafe { call(self.end) }))
    }

    pub(super) fn has_position(&self) -> bool {
        self.target.position.is_some()
    }

    #[inline]
    pub(super) fn position(&mut self) -> u64 {
        // SAFETY: this end.
        self.target.position.map_or(0, |position| unsafe { position(self.end) })
    }

    pub(super) fn facts(&self) -> io::Result<Facts> {
        /// # Safety
        /// `to` is the `Facts` that were handed over with it, and the strings end with a zero.
        unsafe extern "C" fn fact(to: *mut c_void, name: *const c_char, value: *const c_char) {
            if name.is_null() || value.is_null() {
                return;
            }
            // SAFETY: what is promised above.
            unsafe {
                let text = |text| CStr::from_ptr(text).to_string_lossy().into_owned();
                (*to.cast::<Facts>()).insert(text(name), text(value));
            }
        }
        let mut found = Facts::new();
        if let Some(facts) = self.target.facts {
            // SAFETY: this end, and facts that nobody else looks at meanwhile.
            self.target.check("facts", unsafe { facts(self.end, fact, (&raw mut found).cast()) })?;
        }
        Ok(found)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.release_held();
        if let Some(close) = self.target.close {
            // SAFETY: this end, which nobody uses any more.
            unsafe { close(self.end) }
        }
    }
}

impl Room<'_> {
    #[inline]
    pub(super) fn commit(self) -> io::Result<()> {
        let target = self.end.target;
        let commit = target.commit.expect("`describe` has looked");
        // SAFETY: this end, and what it has lent.
        target.check("commit", unsafe { commit(self.end.end, self.data.cast(), self.len) })
    }
}

impl AsMut<[u8]> for Room<'_> {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: the end has lent at least so many bytes until the loan is committed, and lends nothing else meanwhile.
        unsafe { std::slice::from_raw_parts_mut(self.data, self.len) }
    }
}

impl AsRef<[u8]> for Taken<'_> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the end keeps so many bytes there until they are released.
        unsafe { std::slice::from_raw_parts(self.data, self.len) }
    }
}

impl Drop for Taken<'_> {
    #[inline]
    fn drop(&mut self) {
        self.end.release(self.data.cast());
    }
}

/// A descriptor of this process by its number, duplicated; the number stays with whoever made it.
pub(super) fn duplicate(number: c_int) -> io::Result<OwnedFd> {
    // SAFETY: `fcntl` looks the number up and refuses one that is not open.
    let copy = crate::sys::check(unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) })?;
    // SAFETY: a new descriptor, of which nobody else knows.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}
