//! Lines of older schemas in the words of today's. Nothing is lost on the way; a test reads a kept record.
//!
//! | schema | what changed |
//! |---|---|
//! | 2 | the pattern `handoff` became `pingpong`; the field `shape` became `anomalies`, and the flag `shape: …` `anomaly: …` |

use serde_json::Value;

use crate::SCHEMA;

const OLD_PATTERN: &str = "handoff";
const PATTERN: &str = "pingpong";

/// The line of the given schema, in today's.
pub fn migrated(mut line: Value, schema: u32) -> Value {
    if schema < 2 {
        to_2(&mut line);
    }
    line
}

fn to_2(line: &mut Value) {
    let Some(fields) = line.as_object_mut() else { return };
    if fields.contains_key("schema") {
        fields.insert("schema".into(), SCHEMA.into());
    }
    if let Some(anomalies) = fields.remove("shape") {
        fields.insert("anomalies".into(), anomalies);
    }
    for (name, value) in fields.iter_mut() {
        match (name.as_str(), &mut *value) {
            ("case" | "baseline", Value::String(id)) => *id = renamed(id),
            ("pattern", Value::String(pattern)) if pattern == OLD_PATTERN => *pattern = PATTERN.into(),
            // The selection of the run that made the record: globs and ids.
            ("settings", Value::Object(settings)) => {
                if let Some(Value::String(cases)) = settings.get_mut("cases") {
                    *cases = cases.split(',').map(renamed).collect::<Vec<_>>().join(",");
                }
            }
            ("flags", Value::Array(flags)) => {
                for flag in flags {
                    if let Some(text) = flag.as_str().and_then(|flag| flag.strip_prefix("shape: ")) {
                        *flag = format!("anomaly: {text}").into();
                    }
                }
            }
            _ => {}
        }
    }
}

/// A case id, or a glob on such, with the pattern's new name.
fn renamed(id: &str) -> String {
    match id.strip_prefix(OLD_PATTERN) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{PATTERN}{rest}"),
        _ => id.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_the_pattern_is_renamed_and_not_what_looks_like_it() {
        assert_eq!(renamed("handoff/futex/0/free"), "pingpong/futex/0/free");
        assert_eq!(renamed("handoff"), "pingpong");
        assert_eq!(renamed("roundtrip/handoff/0/free"), "roundtrip/handoff/0/free");
        assert_eq!(renamed("handoffs/x/0/free"), "handoffs/x/0/free");
    }

    #[test]
    fn a_flag_of_loss_stays_a_flag_of_loss() {
        let line = json!({ "kind": "run", "flags": ["shape: odd", "lost: 3 %", "noisy: x"] });
        assert_eq!(migrated(line, 1)["flags"], json!(["anomaly: odd", "lost: 3 %", "noisy: x"]));
    }
}
