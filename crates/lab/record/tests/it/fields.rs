//! Every field of a record: written and read again, and named in the document.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use weighbridge_record::Line;

/// A line of each kind with every field present, optional ones too.
const LINES: &str = include_str!("../files/every-field.jsonl");
const DOCUMENT: &str = include_str!("../../../../../docs/record.md");

/// The fields of the structs that a record is made of, and the kinds of lines, from their sources.
fn declared() -> (BTreeSet<String>, usize) {
    let (mut fields, mut kinds) = (BTreeSet::new(), 0);
    let sources = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap();
    for source in sources.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
        let (mut is_written, mut inside) = (false, "");
        for line in std::fs::read_to_string(source).unwrap().lines() {
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                _ if line.starts_with("#[derive(") => is_written = line.contains("Deserialize"),
                _ if line.starts_with('}') => (is_written, inside) = (false, ""),
                ["pub", "struct", ..] if is_written => inside = "struct",
                ["pub", "enum", "Line", "{"] => inside = "Line",
                ["pub", field, ..] if inside == "struct" => {
                    fields
                        .extend(field.strip_suffix(':').map(|name| name.trim_start_matches("r#").to_owned()));
                }
                [variant] if inside == "Line" => kinds += usize::from(variant.ends_with("),")),
                _ => {}
            }
        }
    }
    (fields, kinds)
}

/// Names of fields, at any depth.
fn names(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            found.insert(name.clone());
            names(value, found);
        }),
        Value::Array(items) => items.iter().for_each(|item| names(item, found)),
        _ => {}
    }
}

#[test]
fn every_field_survives_being_written_and_read_and_the_document_names_it() {
    let mut written = BTreeSet::new();
    for text in LINES.lines() {
        let line: Line = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let again = serde_json::to_value(&line).unwrap();
        assert_eq!(again, serde_json::from_str::<Value>(text).unwrap());
        names(&again, &mut written);
    }
    let (fields, kinds) = declared();
    assert!(fields.len() > 80, "{fields:?}");
    assert_eq!(LINES.lines().count(), kinds, "a line of each kind");
    let missing: Vec<_> = fields.difference(&written).collect();
    assert!(missing.is_empty(), "every-field.jsonl has no {missing:?}");
    let missing: Vec<_> = fields.iter().filter(|name| !DOCUMENT.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "docs/record.md does not name {missing:?}");
}
