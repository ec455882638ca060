//! What a case would cost otherwise: fewer or more of a part, another payload, the prices of another machine.

use weighbridge_record::Price;

use crate::explain::names;

/// A question as it was typed: `switches-1`, `payload=65536`, `prices=other.jsonl`.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    /// So many more of a part, or fewer.
    Count {
        /// The name of the part or its beginning, with `-` for a space.
        part: String,
        /// How many more.
        by: f64,
    },
    /// Another payload in bytes.
    Payload(u64),
    /// The prices of a record.
    Prices(String),
}

impl Asked {
    /// Reads a question.
    ///
    /// # Errors
    /// A sentence with the forms that there are.
    pub fn parse(text: &str) -> Result<Asked, String> {
        let help = || {
            format!(
                "`{text}` is no question: it is a part and how many more or fewer, as in switches-1 or copies+2, or payload=BYTES, or \
                 prices=RECORD"
            )
        };
        if let Some(bytes) = text.strip_prefix("payload=") {
            return bytes.parse().map(Asked::Payload).map_err(|_| help());
        }
        if let Some(record) = text.strip_prefix("prices=") {
            return if record.is_empty() { Err(help()) } else { Ok(Asked::Prices(record.into())) };
        }
        let at = text.rfind(['+', '-']).filter(|at| *at > 0).ok_or_else(help)?;
        let by: f64 = text[at..].parse().map_err(|_| help())?;
        if !by.is_finite() {
            return Err(help());
        }
        // Whether a case has the part is known later; that there is such a part at all, now.
        let part = &text[..at];
        if !names::ALL.iter().any(|name| typed(name).starts_with(&typed(part))) {
            let all: Vec<String> = names::ALL.iter().map(|name| typed(name)).collect();
            return Err(format!("no part is called `{part}`; the parts are {}", all.join(", ")));
        }
        Ok(Asked::Count { part: part.into(), by })
    }
}

/// A name as it is typed.
fn typed(name: &str) -> String {
    name.to_lowercase().replace(' ', "-")
}

/// What is otherwise, ready to be computed.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// As it was typed.
    pub text: String,
    /// What it was understood as.
    pub asked: Asked,
    /// The prices of the other record; empty for other questions.
    pub prices: Vec<Price>,
}

/// The index of the part that is meant: by its name, or a beginning that no other name has.
///
/// # Errors
/// A sentence with the names that there are.
pub fn part_named<'a>(wanted: &str, names: impl Iterator<Item = &'a str> + Clone) -> Result<usize, String> {
    let wanted = typed(wanted);
    if let Some(index) = names.clone().position(|name| typed(name) == wanted) {
        return Ok(index);
    }
    let mut begins = names.clone().enumerate().filter(|(_, name)| typed(name).starts_with(&wanted));
    match (begins.next(), begins.next()) {
        (Some((index, _)), None) => Ok(index),
        _ => Err(format!(
            "no part is called `{wanted}`; the parts are {}",
            names.map(typed).collect::<Vec<_>>().join(", ")
        )),
    }
}

/// The price of another record, moved by its uncertainty where `scatter` is not 0.
pub(crate) fn foreign(
    change: &Change,
    scatter: &[f64],
    name: &str,
    of: Option<&String>,
    place: &str,
) -> Option<f64> {
    const STANDARD_ERRORS: f64 = 2.0 * 1.959_964;
    let is_meant = |price: &Price| price.name == name && price.of.as_ref() == of && price.place == place;
    let (index, price) = change.prices.iter().enumerate().find(|(_, price)| is_meant(price))?;
    let error = price.ci95.map_or(0.0, |[low, high]| (high - low) / STANDARD_ERRORS);
    Some(price.ns + scatter.get(index)? * error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_read_and_what_is_none_is_refused_with_the_forms() {
        assert_eq!(Asked::parse("switches-1"), Ok(Asked::Count { part: "switches".into(), by: -1.0 }));
        assert_eq!(Asked::parse("own-work+0.5"), Ok(Asked::Count { part: "own-work".into(), by: 0.5 }));
        assert_eq!(Asked::parse("payload=65536"), Ok(Asked::Payload(65536)));
        assert_eq!(Asked::parse("prices=a.jsonl"), Ok(Asked::Prices("a.jsonl".into())));
        for wrong in ["", "switches", "-1", "payload=x", "prices=", "switches-", "switches-inf"] {
            assert!(Asked::parse(wrong).unwrap_err().contains("payload=BYTES"), "{wrong}");
        }
        assert!(Asked::parse("interrupts-1").unwrap_err().contains("the parts are system-calls, copies"));
    }

    #[test]
    fn parts_are_found_by_a_beginning_that_is_theirs_alone() {
        let names = ["system calls", "switches", "block and wake"];
        let find = |wanted: &str| part_named(wanted, names.iter().copied());
        assert_eq!(find("switches"), Ok(1));
        assert_eq!(find("block"), Ok(2));
        assert_eq!(find("system-calls"), Ok(0));
        assert!(find("s").unwrap_err().contains("system-calls, switches, block-and-wake"));
    }
}
