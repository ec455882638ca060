//! A payload by reference: a read-only buffer over its memory, without a copy, where no process can change it.
//!
//! # Safety
//! The buffer protocol hands out an address. It stays valid because each view holds a reference to its `Payload`, which keeps the
//! mapping: only `release` gives it up, and that fails while views live (`views`, counted under the lock).
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use causeway::LargePayload;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::errors::{self, Closed};
use crate::handle::{Process, guarded};

#[derive(Debug)]
struct Held {
    payload: Option<Arc<LargePayload>>,
    views: usize,
}

/// A payload that was received by reference.
#[pyclass(frozen, module = "causeway_ipc")]
#[derive(Debug)]
pub struct Payload {
    held: Mutex<Held>,
    process: Process,
}

impl Payload {
    pub fn new(payload: LargePayload) -> Payload {
        Payload {
            held: Mutex::new(Held { payload: Some(Arc::new(payload)), views: 0 }),
            process: Process::this(),
        }
    }

    fn lock(&self) -> PyResult<MutexGuard<'_, Held>> {
        self.process.check()?;
        Ok(self.held.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn payload(&self) -> PyResult<Arc<LargePayload>> {
        self.lock()?.payload.clone().ok_or_else(|| Closed::new_err("the payload was released"))
    }

    /// A copy, made without the interpreter.
    pub fn copy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        guarded(|| {
            let payload = self.payload()?;
            PyBytes::new_with(py, payload.payload_bytes(), |into| {
                py.detach(|| payload.copy_to(into)).map(drop).map_err(errors::log)
            })
        })
    }
}

#[pymethods]
impl Payload {
    fn __len__(&self) -> PyResult<usize> {
        guarded(|| Ok(self.payload()?.payload_bytes()))
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.copy(py)
    }

    /// Can no process change it? Then it has a buffer.
    #[getter]
    fn sealed(&self) -> PyResult<bool> {
        guarded(|| Ok(self.payload()?.as_slice().is_some()))
    }

    /// Gives the memory back; fails while views live.
    #[pyo3(name = "release")]
    fn give_back(&self) -> PyResult<()> {
        guarded(|| {
            let mut held = self.lock()?;
            if held.views > 0 {
                return Err(PyBufferError::new_err(format!(
                    "{} views of this payload live; release or delete them first",
                    held.views
                )));
            }
            let payload = held.payload.take();
            drop(held);
            drop(payload);
            Ok(())
        })
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.give_back()
    }

    /// # Safety
    /// `view` is null, or a buffer that the interpreter wants filled.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        guarded(|| {
            if view.is_null() {
                return Err(PyBufferError::new_err("there is no view to fill"));
            }
            // SAFETY: not null, and the caller's to write. Whatever fails below, nothing is exported.
            unsafe { (*view).obj = std::ptr::null_mut() };
            let mut held = slf.get().lock()?;
            let payload = held.payload.as_ref().ok_or_else(|| Closed::new_err("the payload was released"))?;
            let bytes = payload.as_slice().ok_or_else(|| {
                PyBufferError::new_err("its publisher can still change this payload; copy it with bytes(), or publish from a sealed pool")
            })?;
            // SAFETY: the bytes live as long as `slf` holds the payload, which `views` makes sure of; nobody writes them (sealed), and
            // the view is read-only.
            let filled = unsafe {
                ffi::PyBuffer_FillInfo(
                    view,
                    slf.as_ptr(),
                    bytes.as_ptr().cast_mut().cast(),
                    bytes.len().cast_signed(),
                    1,
                    flags,
                )
            };
            if filled != 0 {
                return Err(PyErr::fetch(slf.py()));
            }
            held.views += 1;
            Ok(())
        })
    }

    /// # Safety
    /// `_view` was filled by `__getbuffer__`.
    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        // Also in a child that was forked: its views end, too.
        self.held.lock().unwrap_or_else(PoisonError::into_inner).views -= 1;
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        if !self.process.is_this() {
            // The child has none of the memory.
            std::mem::forget(self.held.get_mut().map(|held| held.payload.take()));
        }
    }
}
