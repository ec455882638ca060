//! What is known of a pattern once types are erased: its roles, its axes, its unit.

use std::sync::LazyLock;

use super::caps::Caps;
use crate::axis::Axis;
use crate::params::CaseParams;
use crate::shared::MAX_ROLES;

/// Which pattern, once types are erased. Signals, operations and whatever else has patterns of its own describe them with
/// this too.
#[derive(Clone, Copy, Debug)]
pub struct PatternInfo {
    /// Name in case ids.
    pub id: &'static str,
    /// What it is, in one sentence, as `weighbridge list` prints it.
    pub about: &'static str,
    /// Needs of a mechanism.
    pub needs: Caps,
    /// Names of the roles of a case; how many there are may depend on an axis.
    pub roles: fn(&CaseParams) -> Vec<&'static str>,
    /// Settings of its own.
    pub axes: &'static [Axis],
    /// Unit of its values.
    pub unit: Unit,
    /// Do all roles do the same? Then they take the CPUs of a placement in turn; otherwise the first role has the first
    /// CPU, and all others the second.
    pub is_symmetric: bool,
}

/// Names of `count` roles that all do the same: `role-0`, `role-1` …
pub fn role_names(count: usize) -> Vec<&'static str> {
    static NAMES: LazyLock<Vec<String>> =
        LazyLock::new(|| (0..MAX_ROLES).map(|role| format!("role-{role}")).collect());
    // More than there can be are refused before anybody is named.
    (0..count).map(|role| NAMES.get(role).map_or("role", String::as_str)).collect()
}

/// What a sample is turned into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds of an operation, with the name of one.
    NanosPer(&'static str),
    /// Bytes that arrived in a second; messages where they are empty.
    BytesPerSecond,
    /// Operations in a second, with the name of many.
    PerSecond(&'static str),
}

impl Unit {
    /// As the record spells it.
    pub fn name(self, payload_bytes: u64) -> String {
        match self {
            Unit::NanosPer(op) => format!("ns/{op}"),
            Unit::BytesPerSecond if payload_bytes == 0 => "messages/s".into(),
            Unit::BytesPerSecond => "bytes/s".into(),
            Unit::PerSecond(ops) => format!("{ops}/s"),
        }
    }

    /// Is more better?
    pub fn higher_is_better(self) -> bool {
        !matches!(self, Unit::NanosPer(_))
    }
}
