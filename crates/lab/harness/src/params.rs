//! A case in typed form: what a mechanism and a pattern need to know, parsed and checked once.

use std::collections::{BTreeMap, BTreeSet};

use weighbridge_record::CaseId;

use crate::axis::{self, Axis, Choice};
pub use crate::axis::{Touch, Wait};

/// A case as the ends see it.
#[derive(Clone, Debug)]
pub struct CaseParams {
    /// Name of the case.
    pub id: CaseId,
    /// Bytes of a message.
    pub payload_bytes: usize,
    /// How the ends wait.
    pub wait: Wait,
    /// How much of the payload is touched.
    pub touch: Touch,
    /// CPU of each role; empty when not pinned.
    pub cpus: Vec<u32>,
    /// Every axis with its effective value.
    pub axes: BTreeMap<String, String>,
}

impl CaseParams {
    /// Parses and checks the axes of a case against those declared for it, or says which is not declared or takes no such value. Without
    /// `waits` an axis `wait` has a meaning that only its family knows, and stays a word.
    pub fn new(id: &CaseId, declared: &[Axis], waits: &[Wait]) -> Result<CaseParams, String> {
        for (name, value) in &id.axes {
            let axis = declared.iter().find(|axis| axis.name == name).ok_or_else(|| {
                let known: Vec<_> = declared.iter().map(|axis| axis.name).collect();
                format!("{}/{} has no axis `{name}`; it has {}", id.pattern, id.mechanism, known.join(", "))
            })?;
            axis.check(value)?;
        }
        let mut axes: BTreeMap<String, String> = declared
            .iter()
            .map(|axis| (axis.name.to_owned(), id.axes.get(axis.name).map_or(axis.default, |v| v).to_owned()))
            .collect();
        let wait = match Wait::parse(axes.get(axis::WAIT.name).map_or(axis::DEFAULT, |wait| wait)) {
            _ if waits.is_empty() => Wait::Block,
            None => waits.first().copied().unwrap_or(Wait::Block),
            Some(wait) if waits.contains(&wait) => wait,
            Some(wait) => {
                let offered = waits.iter().map(|wait| wait.name()).collect::<Vec<_>>().join(", ");
                return Err(format!(
                    "{} does not wait by {}; it offers {offered}",
                    id.mechanism,
                    wait.name()
                ));
            }
        };
        if axes.contains_key(axis::WAIT.name) && !waits.is_empty() {
            axes.insert(axis::WAIT.name.into(), wait.name().into());
        }
        let touch = axes.get(Touch::AXIS.name).map_or(Touch::All, |name| {
            Touch::parse(name).expect("an axis of this name takes no other words")
        });
        let payload_bytes = usize::try_from(id.payload_bytes).map_err(|_| {
            format!("a payload of {} bytes does not fit this machine's memory", id.payload_bytes)
        })?;
        Ok(CaseParams { id: id.clone(), payload_bytes, wait, touch, cpus: Vec::new(), axes })
    }

    /// The value of an axis. Panics where it is not declared for this case, as all that follow do: a bug in the mechanism that asks.
    pub fn axis(&self, name: &str) -> &str {
        self.axes.get(name).unwrap_or_else(|| panic!("{} asks for an undeclared axis `{name}`", self.id))
    }

    /// The value of an axis of numbers; `None` where it stands at `default`.
    pub fn number(&self, name: &str) -> Option<usize> {
        self.axis(name).parse().ok()
    }

    /// The value of an axis of numbers that has no `default`.
    pub fn count(&self, axis: Axis) -> usize {
        self.number(axis.name).expect("the axis takes nothing but numbers")
    }

    /// The value of an axis of words.
    pub fn choice<C: Choice>(&self) -> C {
        self.choice_if_declared()
            .unwrap_or_else(|| panic!("{} asks for an undeclared axis `{}`", self.id, C::AXIS.name))
    }

    /// The value of an axis of words; `None` where it is not declared for this case. Panics where the axis of this name is another one.
    pub fn choice_if_declared<C: Choice>(&self) -> Option<C> {
        let name = self.axes.get(C::AXIS.name)?;
        let value = C::parse(name);
        assert!(value.is_some(), "{} has a value of another axis `{}`: {name}", self.id, C::AXIS.name);
        value
    }

    /// How many CPUs the roles have, of `allowed` where they are not pinned.
    pub fn cpu_count(&self, allowed: usize) -> usize {
        match self.cpus.iter().collect::<BTreeSet<_>>().len() {
            0 => allowed,
            cpus => cpus,
        }
    }

    /// Do all roles share one CPU?
    pub fn same_cpu(&self) -> bool {
        self.cpus.windows(2).all(|pair| pair[0] == pair[1]) && !self.cpus.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAITS: &[Wait] = &[Wait::Block, Wait::Poll];

    #[test]
    fn defaults_are_filled_in_and_what_the_case_does_not_have_is_refused_with_what_it_has() {
        let of = |id: CaseId| CaseParams::new(&id, axis::COMMON, WAITS);
        let id = CaseId::new("roundtrip", "pipe", 1, "free");
        let params = of(id.clone()).unwrap();
        assert_eq!((params.wait, params.axis("wait"), params.axis("touch")), (Wait::Block, "block", "all"));
        for (axis, value, words) in [
            ("color", "red", ["no axis `color`", "wait, touch"]),
            ("wait", "uring", ["does not wait by uring", "it offers block, poll"]),
        ] {
            let why = of(id.clone().with(axis, value)).unwrap_err();
            assert!(words.iter().all(|word| why.contains(word)), "{why}");
        }
    }
}
