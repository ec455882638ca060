//! Errors of the libraries as exceptions, whose classes are in `causeway_ipc/_errors.py`.

use causeway_bus::name;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

pyo3::import_exception!(causeway_ipc._errors, Error);
pyo3::import_exception!(causeway_ipc._errors, Busy);
pyo3::import_exception!(causeway_ipc._errors, BusError);
pyo3::import_exception!(causeway_ipc._errors, Closed);
pyo3::import_exception!(causeway_ipc._errors, Disconnected);
pyo3::import_exception!(causeway_ipc._errors, Forked);
pyo3::import_exception!(causeway_ipc._errors, MissedDeadline);
pyo3::import_exception!(causeway_ipc._errors, Overwritten);
pyo3::import_exception!(causeway_ipc._errors, Refused);
pyo3::import_exception!(causeway_ipc._errors, ServerGone);
pyo3::import_exception!(causeway_ipc._errors, TooManyPayloads);

/// With a number of the kernel, Python chooses the class (`FileNotFoundError`, …).
fn os(errno: Option<i32>, text: String) -> PyErr {
    match errno {
        Some(errno) => PyOSError::new_err((errno, text)),
        None => PyOSError::new_err(text),
    }
}

/// An error of the log.
pub fn log(error: causeway::Error) -> PyErr {
    use causeway::Error as E;
    let text = error.to_string();
    match error {
        E::Os(error) => os(error.raw_os_error(), text),
        E::Invalid { what: "capacity" | "call" | "path", .. } | E::TooLong { .. } => {
            PyValueError::new_err(text)
        }
        E::Refused(_) | E::OtherFormat(_) => Refused::new_err(text),
        E::Disconnected => Disconnected::new_err(text),
        E::ServerGone => ServerGone::new_err(text),
        E::MissedDeadline { .. } => MissedDeadline::new_err(text),
        E::TooManyReferences => TooManyPayloads::new_err(text),
        E::Overwritten => Overwritten::new_err(text),
        _ => Error::new_err(text),
    }
}

/// An error of the bus: the exception has the name that D-Bus knows it by.
pub fn bus(error: causeway_bus::Error) -> PyErr {
    use causeway_bus::Error as E;
    let text = error.to_string();
    match error {
        E::Os(error) => os(error.raw_os_error(), text),
        E::Method { name, message } => BusError::new_err((name, message)),
        E::Arguments(_) => BusError::new_err((name::INVALID_ARGS, text)),
        E::Invalid(_) | E::TooLong { .. } => PyValueError::new_err(text),
        E::Refused(_) => Refused::new_err(text),
        E::AuthorityGone => ServerGone::new_err(text),
        E::Disconnected(_) => Disconnected::new_err(text),
        _ => Error::new_err(text),
    }
}
