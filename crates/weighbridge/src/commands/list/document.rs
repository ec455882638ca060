//! The list for programs.

use serde_json::{Value, json};
use weighbridge_harness::axis::{self, Axis};
use weighbridge_harness::catalogue;
use weighbridge_harness::contract::Target;
use weighbridge_harness::host::Host;
use weighbridge_harness::placement;
use weighbridge_harness::plan::{self, Changes};
use weighbridge_record::{CaseId, Properties};

use super::{caps, pattern_ids, takes, waits};

/// Everything there is, as one document.
pub fn all(host: &Host) -> Value {
    let axes = |axes: &[Axis]| -> Vec<Value> {
        let axis = |axis: &Axis| {
            json!({
                "name": axis.name, "about": axis.about, "default": axis.default, "takes": takes(axis.values),
            })
        };
        axes.iter().map(axis).collect()
    };
    let patterns: Vec<Value> = catalogue::patterns()
        .into_iter()
        .map(|pattern| json!({ "name": pattern.id, "about": pattern.about, "axes": axes(pattern.axes) }))
        .collect();
    let mechanisms: Vec<Value> = catalogue::all()
        .map(|target| {
            json!({
                "name": target.id,
                "about": target.about,
                "caps": caps(target),
                "patterns": pattern_ids(target),
                "waits": waits(target),
                "axes": axes(target.axes),
                "properties": properties_of(target),
            })
        })
        .collect();
    let placements: Vec<Value> = placement::ALL
        .iter()
        .map(|placement| match placement::place(placement.name, host) {
            Ok(placed) => json!({
                "name": placement.name, "about": placement.about, "here": true, "resolved": placed.resolved,
                "cpus": placed.cpus,
            }),
            Err(why) => {
                json!({ "name": placement.name, "about": placement.about, "here": false, "why": why })
            }
        })
        .collect();
    let suites: Vec<Value> = plan::suites()
        .map(|suite| {
            json!({
                "name": suite.name, "about": suite.about, "cases": suite.cases(&Changes::default()).len(),
                "budget_s": suite.budget.as_secs_f64(), "precision": suite.precision,
            })
        })
        .collect();
    json!({
        "patterns": patterns, "mechanisms": mechanisms, "axes": axes(axis::COMMON),
        "placements": placements, "suites": suites,
    })
}

/// In the first of its patterns, with its defaults.
fn properties_of(target: &Target) -> Option<Properties> {
    let id = CaseId::new(target.patterns.first()?.id, target.id, 0, "free");
    let (target, _, params) = catalogue::resolve(&id).ok()?;
    target.properties_of(&params)
}
