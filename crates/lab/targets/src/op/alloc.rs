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
use std::io;

use super::{Op, OpContext};
use weighbridge_harness::allocator::{self, Allocator};
use weighbridge_harness::axis::{Axis, Choice, Values};
use weighbridge_harness::contract::{Caps, Facts, Unsupported};
use weighbridge_harness::host::Host;
use weighbridge_harness::params::CaseParams;

/// Allocators are shared by the threads of a process, so several roles are threads of one.
pub(super) const CAPS: Caps = Caps::PAYLOAD.and(Caps::ONE_PROCESS);

/// Allocates an object of `bytes` bytes.
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

/// May this allocator allocate so much here?
pub(super) fn fit(params: &CaseParams) -> Result<(), Unsupported> {
    match params.payload_bytes {
        0 => Err(Unsupported("an object of no bytes is none; the smallest size is 1".into())),
        _ => allocator::fit(params),
    }
}

/// Facts of every allocating operation.
pub(super) fn facts(params: &CaseParams) -> io::Result<Facts> {
    Ok(Facts::from([("allocator".into(), allocator::loaded(params)?)]))
}

/// One object, allocated and freed: the allocator's fast path.
#[derive(Debug)]
pub struct Reuse {
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

    fn each(&self) -> Option<u64> {
        Some(1)
    }

    fn finish(&mut self) -> io::Result<Facts> {
        Ok(self.facts.clone())
    }
}

/// Objects that are allocated one after the other and then freed in the same order.
#[derive(Debug)]
struct Batch {
    bytes: usize,
    objects: Vec<*mut c_void>,
    facts: Facts,
}

impl Batch {
    fn new(context: &OpContext<'_>, count: usize) -> io::Result<Batch> {
        let mut batch = Batch {
            bytes: context.params.payload_bytes,
            objects: vec![std::ptr::null_mut(); count],
            facts: facts(context.params)?,
        };
        // The heap grows now, and not while somebody counts faults.
        batch.allocate()?;
        batch.free();
        Ok(batch)
    }

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

/// An operation on a batch, whose number of objects is the value of an axis.
macro_rules! batch {
    ($(#[$doc:meta])* $name:ident, $id:literal, $about:literal, $axis:expr, $default:literal, $parts:expr) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name(Batch);

        impl $name {
            const COUNT: Axis = $axis;

            fn count(params: &CaseParams) -> usize {
                params.number(Self::COUNT.name).unwrap_or($default)
            }
        }

        impl Op for $name {
            const ID: &'static str = $id;
            const ABOUT: &'static str = $about;
            const CAPS: Caps = CAPS;
            const AXES: &'static [Axis] = &[Self::COUNT, Allocator::AXIS];
            const PARTS: &'static [&'static str] = $parts;

            fn fit(_host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
                fit(params)
            }

            fn setup(context: &OpContext<'_>) -> io::Result<$name> {
                Ok($name(Batch::new(context, Self::count(context.params))?))
            }

            #[inline]
            fn once(&mut self) -> io::Result<u64> {
                self.0.allocate()?;
                self.0.free();
                Ok(1)
            }

            fn each(&self) -> Option<u64> {
                Some(1)
            }

            fn ops_of_once(params: &CaseParams) -> u64 {
                Self::count(params) as u64
            }

            /// Whether a large batch gives its memory back to the kernel in between is the allocator's business.
            fn faults(_params: &CaseParams) -> Option<f64> {
                None
            }

            fn part(&mut self, index: usize) -> io::Result<()> {
                match index {
                    0 => self.0.allocate(),
                    _ => Ok(self.0.free()),
                }
            }

            fn finish(&mut self) -> io::Result<Facts> {
                Ok(self.0.facts.clone())
            }
        }
    };
}

batch!(
    /// Many objects at a time.
    Pattern, "alloc-pattern",
    "malloc of `count` objects, then free of all in the same order; both timed together, and apart as series",
    Axis { name: "count", default: "256", values: Values::OneOf(&["256", "10000"]), about: "objects allocated before the first is freed" },
    256, &["alloc_ns", "free_ns"]
);
batch!(
    /// A few objects at a time.
    Bulk, "alloc-bulk",
    "malloc of `bulk` objects, then free of all; the C library has no call for many, so this is what such a call would be compared with",
    Axis { name: "bulk", default: "16", values: Values::Count, about: "objects at a time" },
    16, &[]
);
