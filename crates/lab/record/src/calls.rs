//! System calls of the roles of a case, counted in a run of their own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// System calls per operation, counted by a tracer (ptrace) in a run whose times are not used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SystemCalls {
    /// Of all roles together, per operation.
    pub per_op: f64,
    /// Of each role.
    pub roles: Vec<RoleCalls>,
}

/// The system calls of one role.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoleCalls {
    /// Its name.
    pub role: String,
    /// Its operations in that run.
    pub ops: u64,
    /// Calls for each of them, by name.
    pub calls: BTreeMap<String, f64>,
}
