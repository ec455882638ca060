//! Policies, access rules and the options of a group, from what Python has for them.

use std::time::Duration;

use causeway::{Access, GroupOptions};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::wait::duration;

/// What happens when a subscriber falls behind.
#[pyclass(frozen, eq, from_py_object, module = "causeway_ipc")]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy(pub causeway::Policy);

fn limited(seconds: f64) -> PyResult<Duration> {
    duration(Some(seconds))?
        .ok_or_else(|| PyValueError::new_err(format!("{seconds} s is no deadline; use RELIABLE for none")))
}

#[pymethods]
impl Policy {
    #[classattr]
    const RELIABLE: Policy = Policy(causeway::Policy::Reliable);
    #[classattr]
    const LOSSY: Policy = Policy(causeway::Policy::Lossy);

    #[staticmethod]
    fn demote_after(seconds: f64) -> PyResult<Policy> {
        Ok(Policy(causeway::Policy::DemoteAfter(limited(seconds)?)))
    }

    #[staticmethod]
    fn disconnect_after(seconds: f64) -> PyResult<Policy> {
        Ok(Policy(causeway::Policy::DisconnectAfter(limited(seconds)?)))
    }

    #[staticmethod]
    fn lag_at_most(bytes: u64) -> Policy {
        Policy(causeway::Policy::LagAtMost(bytes))
    }

    fn __repr__(&self) -> String {
        format!("<Policy: {}>", self.0)
    }
}

/// `"same-user"`, `"any-user"`, or the numbers of users.
#[derive(FromPyObject)]
enum Who {
    Named(String),
    Users(Vec<u32>),
}

fn access(who: &Bound<'_, PyAny>) -> PyResult<Access> {
    match who.extract()? {
        Who::Named(name) if name == "same-user" => Ok(Access::SameUser),
        Who::Named(name) if name == "any-user" => Ok(Access::AnyUser),
        Who::Named(name) => Err(PyValueError::new_err(format!(
            "{name:?} is no rule; use \"same-user\", \"any-user\" or a list of uids"
        ))),
        Who::Users(users) => Ok(Access::Users(users.into_iter().collect())),
    }
}

/// Sets the option of this name.
pub fn set(options: GroupOptions, name: &str, value: &Bound<'_, PyAny>) -> PyResult<GroupOptions> {
    Ok(match name {
        "capacity_bytes" => options.capacity_bytes(value.extract()?),
        "remote_publishers" => options.remote_publishers(value.extract()?),
        "format" => options.format(value.extract()?),
        "publisher_rate_max" => options.publisher_rate_max(value.extract()?),
        "publishers" => options.publishers(access(value)?),
        "subscribers" => options.subscribers(access(value)?),
        "most_patient" => options.most_patient(value.extract::<Policy>()?.0),
        "most_patient_for_others" => options.most_patient_for_others(value.extract::<Policy>()?.0),
        "several_publishers" if value.extract()? => options.several_publishers(),
        "late_publishers" if value.extract()? => options.late_publishers(),
        "large_payloads" if value.extract()? => options.large_payloads(),
        "several_publishers" | "late_publishers" | "large_payloads" => options,
        other => return Err(PyValueError::new_err(format!("a group has no option {other:?}"))),
    })
}
