//! A case in typed form: what a mechanism and a pattern need to know, parsed and checked once.

use std::collections::BTreeMap;

use weighbridge_record::CaseId;

use crate::axis::Axis;

/// How an end waits for its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// In the receiving call itself.
    Block,
    /// `poll` before each read, as a main loop does.
    Poll,
    /// `epoll_wait` before each read.
    Epoll,
    /// A read submitted to io_uring, and waited for there.
    Uring,
    /// Without ever giving up the CPU.
    Spin,
    /// Spinning for a while, then blocking.
    SpinBlock,
    /// Giving up the CPU between two looks, but never sleeping.
    Yield,
}

impl Wait {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Wait::Block => "block",
            Wait::Poll => "poll",
            Wait::Epoll => "epoll",
            Wait::Uring => "uring",
            Wait::Spin => "spin",
            Wait::SpinBlock => "spin-block",
            Wait::Yield => "yield",
        }
    }

    /// The way to wait that a word stands for.
    pub fn parse(text: &str) -> Option<Wait> {
        [Wait::Block, Wait::Poll, Wait::Epoll, Wait::Uring, Wait::Spin, Wait::SpinBlock, Wait::Yield]
            .into_iter()
            .find(|wait| wait.name() == text)
    }
}

/// How much of a payload is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// Nothing.
    None,
    /// The first word.
    First,
    /// A word of every cache line.
    Lines,
    /// Every byte.
    All,
    /// Every byte is written, and none is read.
    Write,
}

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
    /// Parses and checks the axes of a case against those declared for it. Without `waits` an axis `wait` has a meaning
    /// that only its family knows, and stays a word.
    ///
    /// # Errors
    /// A sentence: an axis that is not declared for this case, or a value that it does not take.
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
        let wait = match Wait::parse(axes.get("wait").map_or("default", |wait| wait)) {
            _ if waits.is_empty() => Wait::Block,
            None => waits.first().copied().unwrap_or(Wait::Block),
            Some(wait) if waits.contains(&wait) => wait,
            Some(wait) => {
                let offered: Vec<_> = waits.iter().map(|wait| wait.name()).collect();
                return Err(format!(
                    "{} does not wait by {}; it offers {}",
                    id.mechanism,
                    wait.name(),
                    offered.join(", ")
                ));
            }
        };
        if axes.contains_key("wait") && !waits.is_empty() {
            axes.insert("wait".into(), wait.name().into());
        }
        let touch = match axes.get("touch").map(String::as_str) {
            Some("none") => Touch::None,
            Some("first") => Touch::First,
            Some("lines") => Touch::Lines,
            Some("write") => Touch::Write,
            _ => Touch::All,
        };
        let payload_bytes = usize::try_from(id.payload_bytes).map_err(|_| {
            format!("a payload of {} bytes does not fit this machine's memory", id.payload_bytes)
        })?;
        Ok(CaseParams { id: id.clone(), payload_bytes, wait, touch, cpus: Vec::new(), axes })
    }

    /// The value of an axis.
    ///
    /// # Panics
    /// If the axis is not declared for this case: a bug in the mechanism that asks.
    pub fn axis(&self, name: &str) -> &str {
        self.axes.get(name).unwrap_or_else(|| panic!("{} asks for an undeclared axis `{name}`", self.id))
    }

    /// The value of an axis of numbers; `None` where it stands at `default`.
    ///
    /// # Panics
    /// As [`CaseParams::axis`].
    pub fn number(&self, name: &str) -> Option<usize> {
        self.axis(name).parse().ok()
    }

    /// Do all roles share one CPU?
    pub fn same_cpu(&self) -> bool {
        self.cpus.windows(2).all(|pair| pair[0] == pair[1]) && !self.cpus.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis;

    const WAITS: &[Wait] = &[Wait::Block, Wait::Poll];

    #[test]
    fn defaults_are_filled_in_and_the_mechanisms_own_way_to_wait_is_named() {
        let params =
            CaseParams::new(&CaseId::new("roundtrip", "pipe", 1, "free"), axis::COMMON, WAITS).unwrap();
        assert_eq!(params.wait, Wait::Block);
        assert_eq!(params.axis("wait"), "block");
        assert_eq!(params.axis("touch"), "all");
    }

    #[test]
    fn an_axis_or_a_wait_that_the_case_does_not_have_is_refused_with_what_it_has() {
        let id = CaseId::new("roundtrip", "pipe", 1, "free");
        let why = CaseParams::new(&id.clone().with("colour", "red"), axis::COMMON, WAITS).unwrap_err();
        assert!(why.contains("no axis `colour`") && why.contains("wait, touch"), "{why}");
        let why = CaseParams::new(&id.with("wait", "uring"), axis::COMMON, WAITS).unwrap_err();
        assert!(why.contains("does not wait by uring; it offers block, poll"), "{why}");
    }
}
