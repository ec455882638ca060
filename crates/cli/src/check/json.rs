//! The comparisons for programs: everything that the table has, and every turn.

use serde_json::{Value, json};

use super::Scope;
use super::definition::{Definition, Unequal};
use super::definitions::UNEQUAL;
use super::turns::Compared;
use super::verdict::judge;
use crate::args::{COMMIT, PROFILE};

/// Version of this document; it grows when a field changes its meaning or goes.
const SCHEMA: u32 = 1;

/// The document.
pub fn json(scope: &Scope, started: &str, kernel: &str, is_complete: bool) -> Value {
    let missing = scope
        .missing
        .iter()
        .map(|(tool, names)| json!({ "tool": tool.name, "debian_package": tool.package, "checks": names }));
    let refused = scope.refused.iter().map(|(definition, why)| {
        let mut value = described(definition);
        value["why"] = json!(why);
        value
    });
    json!({
        "schema": SCHEMA,
        "tool": {
            "name": env!("CARGO_PKG_NAME"), "version": env!("CARGO_PKG_VERSION"), "commit": COMMIT, "profile": PROFILE,
        },
        "started": started,
        "kernel": kernel,
        "complete": is_complete,
        "checks": scope.compared.iter().map(compared).collect::<Vec<_>>(),
        "not_here": refused.collect::<Vec<_>>(),
        "not_installed": missing.collect::<Vec<_>>(),
        "not_compared": UNEQUAL.iter().map(|Unequal { name, why }| json!({ "figure": name, "why": why })).collect::<Vec<_>>(),
    })
}

fn described(definition: &Definition) -> Value {
    let meaning = &definition.meaning;
    json!({
        "check": definition.name,
        "tool": definition.tool.name,
        "debian_package": definition.tool.package,
        "command": definition.command,
        "case": definition.case,
        "unit": definition.unit,
        "band": definition.band,
        "because": definition.because,
        "known_reasons": definition.outside,
        "theirs_is": {
            "counts": meaning.counts, "message": meaning.message, "peers": meaning.peers, "warm_up": meaning.warm_up,
        },
    })
}

fn compared(compared: &Compared) -> Value {
    let definition = compared.definition;
    let mut value = described(definition);
    let judged = judge(&compared.pairs, definition.band);
    let interval = judged.and_then(|(ratio, _)| ratio.interval);
    let medians = compared.medians();
    value["program"] = json!(compared.program.display().to_string());
    value["theirs"] = json!(medians.map(|[theirs, _]| theirs));
    value["ours"] = json!(medians.map(|[_, ours]| ours));
    value["ratio"] = json!(judged.map(|(ratio, _)| ratio.median));
    value["interval"] = json!(interval.map(|interval| [interval.low, interval.high]));
    value["confidence"] = json!(interval.map(|interval| interval.confidence));
    value["verdict"] = json!(compared.outcome());
    value["trouble"] = json!(compared.trouble);
    value["turns"] =
        compared.pairs.iter().map(|(theirs, ours)| json!({ "theirs": theirs, "ours": ours })).collect();
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::definitions;
    use weighbridge_lab::catalogue;
    use weighbridge_lab::host::Host;

    #[test]
    fn every_turn_is_in_the_document_and_a_failure_has_no_figures() {
        let definition = &definitions::ALL[0];
        let host = Host::look().unwrap();
        let new = || {
            let case = catalogue::prepare(&definition.case.parse().unwrap(), &host).unwrap();
            Compared::new(definition, case, "/usr/bin/perf".into())
        };
        let mut good = new();
        good.pairs = vec![(100.0, 110.0); 6];
        let mut bad = new();
        bad.trouble = Some("it failed".into());
        bad.has_failed = true;
        let scope = Scope { compared: vec![good, bad], ..Scope::default() };
        let document = json(&scope, "2026-01-02T03:04:05Z", "6.1", true);
        let checks = document["checks"].as_array().unwrap();
        assert_eq!(checks[0]["verdict"], "inside");
        assert_eq!(checks[0]["turns"].as_array().unwrap().len(), 6);
        assert!((checks[0]["ratio"].as_f64().unwrap() - 1.1).abs() < 1e-9);
        assert_eq!((&checks[1]["verdict"], &checks[1]["ratio"]), (&json!("failed"), &Value::Null));
        assert_eq!(checks[1]["trouble"], "it failed");
    }
}
