//! A record of schema 1, kept as it was written, is read whole and in the words of the present schema.

use std::path::Path;

use serde_json::Value;
use weighbridge_record::{Line, SCHEMA, read_file};

fn kept() -> (Vec<Value>, Vec<Line>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/schema-1.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    let written = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let reading = read_file(&path).unwrap();
    assert_eq!(reading.problems, []);
    (written, reading.lines)
}

/// Everything at the end of a path of names and indices, with that path.
fn leaves(value: &Value, path: &str, all: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| leaves(value, &format!("{path}.{name}"), all));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, value)| leaves(value, &format!("{path}.{at}"), all));
        }
        _ => all.push((path.to_owned(), value.clone())),
    }
}

#[test]
fn nothing_of_an_old_record_is_lost() {
    let (written, lines) = kept();
    assert_eq!(written.len(), lines.len());
    let mut seen = 0;
    for (written, line) in written.iter().zip(&lines) {
        let read = serde_json::to_value(line).unwrap();
        let (mut before, mut after) = (Vec::new(), Vec::new());
        leaves(written, "", &mut before);
        leaves(&read, "", &mut after);
        for (path, value) in before {
            let path = path.replace(".shape", ".anomalies");
            let value = match value.as_str() {
                Some(text) => text.replace("handoff", "pingpong").replace("shape: ", "anomaly: ").into(),
                None if path == ".schema" => SCHEMA.into(),
                None => value,
            };
            seen += 1;
            assert!(after.contains(&(path.clone(), value.clone())), "{path} = {value} is not in {read}");
        }
    }
    assert!(seen > 1000, "{seen}");
}

#[test]
fn an_old_pattern_has_its_new_name_everywhere() {
    let (written, lines) = kept();
    assert!(written.iter().any(|line| line.to_string().contains("\"case\":\"handoff/futex/0/same-cpu\"")));
    let text = lines.iter().map(|line| serde_json::to_string(line).unwrap()).collect::<String>();
    assert!(!text.contains("handoff"));
    assert!(
        text.contains("\"case\":\"pingpong/futex/0/same-cpu\"") && text.contains("\"pattern\":\"pingpong\"")
    );
    let skipped = |line: &Line| matches!(line, Line::Skipped(skip) if skip.case.mechanism == "mq-posix");
    assert!(lines.iter().any(skipped) && matches!(lines.last(), Some(Line::End(end)) if end.complete));
}
