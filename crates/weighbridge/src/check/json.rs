//! The comparisons for programs: the lines of the record, put together in one document.

use serde_json::{Value, json};
use weighbridge_record::{Line, SCHEMA};

use super::Scope;
use super::definition::{Tool, Unequal};
use super::definitions::UNEQUAL;

/// The document, from the lines of the record.
pub fn json(scope: &Scope, lines: &[Line]) -> Value {
    let mut document = json!({ "schema": SCHEMA, "checks": [], "not_here": [] });
    for line in lines {
        match line {
            Line::Header(header) => {
                document["tool"] = json!(header.tool);
                document["started"] = json!(header.started);
                document["command"] = json!(header.command);
                document["kernel"] = json!(header.machine.kernel);
            }
            Line::Check(check) if check.verdict == "not installed" => {}
            Line::Check(check) => {
                let list = if check.verdict == "not here" { "not_here" } else { "checks" };
                document[list].as_array_mut().expect("made above").push(json!(check));
            }
            Line::End(end) => document["complete"] = json!(end.complete),
            _ => {}
        }
    }
    let mut missing: Vec<(&Tool, Vec<&str>)> = Vec::new();
    for definition in &scope.missing {
        match missing.iter_mut().find(|(tool, _)| tool.name == definition.tool.name) {
            Some((_, names)) => names.push(definition.name),
            None => missing.push((definition.tool, vec![definition.name])),
        }
    }
    let missing = missing
        .into_iter()
        .map(|(tool, names)| json!({ "tool": tool.name, "debian_package": tool.package, "checks": names }));
    document["not_installed"] = missing.collect();
    document["not_compared"] =
        UNEQUAL.iter().map(|Unequal { name, why }| json!({ "figure": name, "why": why })).collect();
    document
}
