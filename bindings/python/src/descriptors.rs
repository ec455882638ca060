//! Descriptors on their way: Python has numbers, Rust owners.
//!
//! # Safety
//! A number that Python gives is copied by the kernel before anything else, which says if it is none that is open; the copy
//! is nobody else's.
#![allow(unsafe_code)]

use std::os::fd::{BorrowedFd, IntoRawFd, OwnedFd, RawFd};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

/// A copy of the descriptor that a number or an object with `fileno()` stands for.
pub fn copy_of(value: &Bound<'_, PyAny>) -> PyResult<OwnedFd> {
    let number: RawFd = match value.extract() {
        Ok(number) => number,
        Err(_) => {
            let number = value.call_method0("fileno").and_then(|number| number.extract());
            number
                .map_err(|_| PyTypeError::new_err(format!("{value} is no descriptor, and has no fileno()")))?
        }
    };
    if number < 0 {
        return Err(PyValueError::new_err(format!("{number} is not a descriptor; pass one that is open")));
    }
    // SAFETY: it is not -1, and is borrowed for one system call, which fails for what is not open.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    Ok(borrowed.try_clone_to_owned()?)
}

/// Their numbers; from here on they are Python's.
pub fn given_away(descriptors: Vec<OwnedFd>) -> Vec<RawFd> {
    descriptors.into_iter().map(IntoRawFd::into_raw_fd).collect()
}
