//! The stable name of a case: a path, so that a glob selects.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The axis that belongs to the place of a case and not to its mechanism.
const IDLE: &str = "idle";

/// `pattern/mechanism/payload_bytes/placement[/axis=value…]`, for example `roundtrip/pipe/4096/same-cpu/wait=poll`.
///
/// The first four parts are always there. Axes stand in alphabetical order, and an axis at its default is left out,
/// so one case has one spelling. Whether the names exist is not known here; the laboratory decides that.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CaseId {
    /// How the ends talk: `roundtrip`, `stream`, …
    pub pattern: String,
    /// The mechanism, signal or operation: `pipe`, `eventfd`, `memcpy`, …
    pub mechanism: String,
    /// Bytes of payload; 0 where there is none.
    pub payload_bytes: u64,
    /// Where the peers run: `same-cpu`, `two-cpus`, …
    pub placement: String,
    /// What differs from the default, by name.
    pub axes: BTreeMap<String, String>,
}

impl CaseId {
    /// An id with every axis at its default.
    pub fn new(pattern: &str, mechanism: &str, payload_bytes: u64, placement: &str) -> CaseId {
        CaseId {
            pattern: pattern.into(),
            mechanism: mechanism.into(),
            payload_bytes,
            placement: placement.into(),
            axes: BTreeMap::new(),
        }
    }

    /// The same id with one more axis set.
    pub fn with(mut self, axis: &str, value: &str) -> CaseId {
        self.axes.insert(axis.into(), value.into());
        self
    }

    /// Where the roles run, and what the CPUs there do while they are idle: what cases of one table have in common.
    pub fn place(&self) -> Place<'_> {
        Place { placement: &self.placement, idle: self.axes.get(IDLE).map(String::as_str) }
    }

    /// The mechanism with the axes that are not at their default, without that of [`CaseId::place`]: what a column of a table is called.
    ///
    /// ```
    /// # use weighbridge_record::CaseId;
    /// let id = CaseId::new("roundtrip", "pipe", 1, "same-cpu").with("wait", "poll");
    /// assert_eq!(id.variant(), "pipe wait=poll");
    /// ```
    pub fn variant(&self) -> String {
        let mut out = self.mechanism.clone();
        for (axis, value) in self.axes.iter().filter(|(axis, _)| *axis != IDLE) {
            out.push(' ');
            out.push_str(axis);
            out.push('=');
            out.push_str(value);
        }
        out
    }
}

/// A placement, and the value of the axis `idle` where it is not the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place<'a> {
    /// Where the roles run: `same-cpu`, `two-cpus`, …
    pub placement: &'a str,
    /// What the CPUs do while no role runs on them: `busy` if they do not halt.
    pub idle: Option<&'a str>,
}

/// As in a case id: `two-cpus` or `two-cpus idle=busy`.
impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.placement)?;
        self.idle.map_or(Ok(()), |idle| write!(f, " {IDLE}={idle}"))
    }
}

impl fmt::Display for CaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}/{}", self.pattern, self.mechanism, self.payload_bytes, self.placement)?;
        for (axis, value) in &self.axes {
            write!(f, "/{axis}={value}")?;
        }
        Ok(())
    }
}

/// Why a text is not a case id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseCaseIdError {
    text: String,
    why: &'static str,
}

impl fmt::Display for ParseCaseIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a case id: {}", self.text, self.why)
    }
}

impl std::error::Error for ParseCaseIdError {}

impl FromStr for CaseId {
    type Err = ParseCaseIdError;

    fn from_str(text: &str) -> Result<CaseId, ParseCaseIdError> {
        let no = |why| ParseCaseIdError { text: text.into(), why };
        let mut parts = text.split('/');
        let mut part = |why| parts.next().filter(|part| !part.is_empty()).ok_or(no(why));
        let pattern = part("it begins with a pattern")?;
        let mechanism = part("the second part is a mechanism")?;
        let payload = part("the third part is the payload in bytes")?;
        let payload_bytes = payload.parse().map_err(|_| no("the third part is the payload in bytes"))?;
        let placement = part("the fourth part is a placement")?;
        let mut id = CaseId::new(pattern, mechanism, payload_bytes, placement);
        for axis in parts {
            let (name, value) = axis
                .split_once('=')
                .filter(|(name, value)| !name.is_empty() && !value.is_empty())
                .ok_or(no("after the placement come axes, each name=value"))?;
            if id.axes.insert(name.into(), value.into()).is_some() {
                return Err(no("an axis is named twice"));
            }
        }
        Ok(id)
    }
}

impl Serialize for CaseId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CaseId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<CaseId, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_being_written_and_read() {
        let id = CaseId::new("fan-in", "pipe", 1, "free").with("wait", "epoll-lt").with("streams", "500");
        assert_eq!(id.to_string(), "fan-in/pipe/1/free/streams=500/wait=epoll-lt");
        assert_eq!(id.to_string().parse::<CaseId>(), Ok(id));
    }

    #[test]
    fn what_is_no_id_says_which_part_is_wrong() {
        for (text, why) in [
            ("", "pattern"),
            ("roundtrip", "second part"),
            ("roundtrip/pipe/many/same-cpu", "payload"),
            ("roundtrip/pipe/1", "fourth part"),
            ("roundtrip/pipe/1/same-cpu/poll", "name=value"),
            ("roundtrip/pipe/1/same-cpu/wait=poll/wait=spin", "twice"),
        ] {
            let error = text.parse::<CaseId>().unwrap_err().to_string();
            assert!(error.contains(why), "{text:?} gave {error:?}");
        }
    }
}
