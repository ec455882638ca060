//! `--label NAME=VALUE`: what the user says of a session. Labels are public: they are in the record, and go wherever it goes.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::{Failure, redact};

/// Most labels of a session.
const MOST: usize = 32;
/// Bytes of the longest value.
const LONGEST: usize = 256;
/// Bytes of the longest name.
const LONGEST_NAME: usize = 64;

/// The label that names the machine.
pub const MACHINE: &str = "machine";
/// The label that names what a session is part of.
pub const CAMPAIGN: &str = "campaign";
/// Names the type of a cloud's instance, where the firmware does not.
pub const INSTANCE_TYPE: &str = "instance_type";

/// One label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    name: String,
    value: String,
}

/// Reads a label. What it says where that is none has nothing of the value in it, which may be a secret that does not belong there.
pub fn parse(text: &str) -> Result<Label, String> {
    let (name, value) =
        text.split_once('=').ok_or("a label is NAME=VALUE, as in rack=r7; several have commas between")?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._/-".contains(c);
    if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(is_plain) {
        return Err(format!(
            "the name of a label has 1 to {LONGEST_NAME} letters, digits, dots, dashes, slashes or underscores, as in rack=r7"
        ));
    }
    if value.is_empty() || value.len() > LONGEST || value.chars().any(char::is_control) {
        return Err(format!("the value of the label `{name}` must have 1 to {LONGEST} bytes, on one line"));
    }
    if redact::is_secret_name(name) || redact::has_secret(value) {
        return Err(format!(
            "the label `{name}` looks like a credential; labels are public and go wherever the record goes, so leave it out"
        ));
    }
    Ok(Label { name: name.into(), value: value.into() })
}

static LABELS: OnceLock<BTreeMap<String, String>> = OnceLock::new();

/// To be called once, before anything is measured.
pub fn keep(labels: &[Label]) -> Result<(), Failure> {
    if labels.len() > MOST {
        return Err(Failure::mistake(format!(
            "{} labels are more than {MOST}; leave some out",
            labels.len()
        )));
    }
    let mut all = BTreeMap::new();
    for Label { name, value } in labels {
        if all.insert(name.clone(), value.clone()).is_some() {
            return Err(Failure::mistake(format!("the label `{name}` is given twice; which is meant?")));
        }
    }
    let _ = LABELS.set(all);
    Ok(())
}

/// Those of this session.
pub fn all() -> BTreeMap<String, String> {
    LABELS.get().cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_has_a_name_and_a_value_and_is_no_credential() {
        let label = |name: &str, value: &str| Ok(Label { name: name.into(), value: value.into() });
        assert_eq!(parse("rack=r7"), label("rack", "r7"));
        assert_eq!(parse("example.org/zone=a=b c"), label("example.org/zone", "a=b c"));
        for (text, words) in [
            ("rack", "NAME=VALUE"),
            ("=x", "the name of a label"),
            ("a b=x", "the name of a label"),
            ("rack=", "1 to 256 bytes"),
            ("rack=a\nb", "on one line"),
            ("password=hunter2", "labels are public"),
            ("store=s3://me:hunter2@bucket", "labels are public"),
        ] {
            let why = parse(text).unwrap_err();
            assert!(why.contains(words) && !why.contains("hunter2"), "{text}: {why}");
        }
    }
}
