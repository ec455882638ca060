//! Allocation by one role at a time: reuse, patterns, bulk.
//!
//! An operation is one allocation and its free. The tests of the kernel's allocators that these take after divide by
//! numbers of objects that were not all allocated by the one who is timed; here every operation is done whole by the
//! role that counts it. Objects are not written.
//!
//! # Safety
//! Every pointer comes from `malloc` and is freed once.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::hint;
use std::marker::PhantomData;

use super::{Op, OpContext};
use crate::prelude::*;
use weighbridge_harness::allocator::{self, Allocator};

/// Allocators are shared by the threads of a process, so several roles are threads of one.
pub(super) const CAPS: Caps = Caps::PAYLOAD.and(Caps::ONE_PROCESS);

#[inline]
pub(super) fn allocate(bytes: usize) -> io::Result<*mut c_void> {
    // SAFETY: malloc takes any number. The compiler must not see that the object is never read.
    let object = hint::black_box(unsafe { libc::malloc(hint::black_box(bytes)) });
    if object.is_null() { Err(io::Error::from(io::ErrorKind::OutOfMemory)) } else { Ok(object) }
}

/// Frees an object.
///
/// # Safety
/// It came from [`allocate`], and it is not used any more.
#[inline]
pub(super) unsafe fn free(object: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { libc::free(object) }
}

/// An object has at least one byte.
pub(super) fn fit_object(params: &CaseParams) -> Result<(), Unsupported> {
    match params.payload_bytes {
        0 => Err(Unsupported("an object of no bytes is none; the smallest size is 1".into())),
        _ => Ok(()),
    }
}

/// May this allocator allocate so much here?
pub(super) fn fit(params: &CaseParams) -> Result<(), Unsupported> {
    fit_object(params)?;
    allocator::fit(params)
}

pub(super) fn facts(params: &CaseParams) -> io::Result<Facts> {
    Ok(Facts::from([("allocator".into(), allocator::loaded(params)?)]))
}

/// One object, allocated and freed: the allocator's fast path.
pub(super) struct Reuse {
    bytes: usize,
    facts: Facts,
}

impl Op for Reuse {
    const ID: &'static str = "alloc-reuse";
    const ABOUT: &'static str = "malloc and free of one object, over and over: the fast path";
    const CAPS: Caps = CAPS;
    const AXES: &'static [Axis] = &[Allocator::AXIS];

    fn fit(_host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        fit(params)
    }

    fn setup(context: &OpContext<'_>) -> io::Result<Reuse> {
        Ok(Reuse { bytes: context.params.payload_bytes, facts: facts(context.params)? })
    }

    #[inline]
    fn once(&mut self) -> io::Result<u64> {
        let object = allocate(self.bytes)?;
        // SAFETY: just allocated.
        unsafe { free(object) };
        Ok(1)
    }

    fn finish(&mut self) -> io::Result<Facts> {
        Ok(self.facts.clone())
    }
}

/// How many objects a batch has: the value of an axis.
pub(super) trait Size: 'static {
    const ID: &'static str;
    const ABOUT: &'static str;
    const COUNT: Axis;
    const DEFAULT: usize;
    const AXES: &'static [Axis] = &[Self::COUNT, Allocator::AXIS];
    const PARTS: &'static [&'static str];

    fn count(params: &CaseParams) -> usize {
        params.number(Self::COUNT.name).unwrap_or(Self::DEFAULT)
    }
}

pub(super) struct Pattern;

impl Size for Pattern {
    const ID: &'static str = "alloc-pattern";
    const ABOUT: &'static str = "malloc of `count` objects, then free of all in the same order; both timed together, and apart as series";
    const COUNT: Axis = Axis {
        name: "count",
        default: "256",
        values: Values::OneOf(&["256", "10000"]),
        about: "objects allocated before the first is freed",
    };
    const DEFAULT: usize = 256;
    const PARTS: &'static [&'static str] = &["alloc_ns", "free_ns"];
}

pub(super) struct Bulk;

impl Size for Bulk {
    const ID: &'static str = "alloc-bulk";
    const ABOUT: &'static str = "malloc of `bulk` objects, then free of all; the C library has no call for many, so this is what such a call would be compared with";
    const COUNT: Axis =
        Axis { name: "bulk", default: "16", values: Values::Count, about: "objects at a time" };
    const DEFAULT: usize = 16;
    const PARTS: &'static [&'static str] = &[];
}

/// Objects that are allocated one after the other and then freed in the same order.
pub(super) struct Objects<S> {
    bytes: usize,
    objects: Vec<*mut c_void>,
    facts: Facts,
    size: PhantomData<S>,
}

impl<S> Objects<S> {
    #[inline]
    fn allocate(&mut self) -> io::Result<()> {
        for object in &mut self.objects {
            *object = allocate(self.bytes)?;
        }
        Ok(())
    }

    #[inline]
    fn free(&mut self) {
        for object in &self.objects {
            // SAFETY: allocated by `allocate`, whose pointers are all new each time.
            unsafe { free(*object) };
        }
    }
}

impl<S: Size> Op for Objects<S> {
    const ID: &'static str = S::ID;
    const ABOUT: &'static str = S::ABOUT;
    const CAPS: Caps = CAPS;
    const AXES: &'static [Axis] = S::AXES;
    const PARTS: &'static [&'static str] = S::PARTS;

    fn fit(_host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        fit(params)
    }

    fn setup(context: &OpContext<'_>) -> io::Result<Self> {
        let mut objects = Objects {
            bytes: context.params.payload_bytes,
            objects: vec![std::ptr::null_mut(); S::count(context.params)],
            facts: facts(context.params)?,
            size: PhantomData,
        };
        // The heap grows now, and not while somebody counts faults.
        objects.allocate()?;
        objects.free();
        Ok(objects)
    }

    #[inline]
    fn once(&mut self) -> io::Result<u64> {
        self.allocate()?;
        self.free();
        Ok(1)
    }

    fn ops_of_once(params: &CaseParams) -> u64 {
        S::count(params) as u64
    }

    /// Whether a large batch gives its memory back to the kernel in between is the allocator's business.
    fn faults(_params: &CaseParams) -> Option<f64> {
        None
    }

    fn part(&mut self, index: usize) -> io::Result<()> {
        if index == 0 {
            return self.allocate();
        }
        self.free();
        Ok(())
    }

    fn finish(&mut self) -> io::Result<Facts> {
        Ok(self.facts.clone())
    }
}
