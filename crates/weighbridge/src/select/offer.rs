//! What there is to select from where no suite is named: everything that `weighbridge list` shows, at a few sizes and in
//! the placements that suit the pattern.

use weighbridge_harness::catalogue;
use weighbridge_harness::contract::{Caps, PatternInfo, Target};
use weighbridge_harness::{axis, plan};
use weighbridge_record::CaseId;

use super::glob::{Glob, value_matches};
use crate::values::{self, has_wildcards};

/// One byte, a page, and what a pipe holds: where nothing says otherwise.
const SIZES: &[u64] = &[1, 4096, 65536];
/// Where nothing says otherwise, and there are two roles or more.
const PLACEMENTS: &[&str] = &["same-cpu", "two-cpus"];

/// Sizes and placements that are wanted in place of those above.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    /// Payload sizes in bytes. What carries no payload stays as it is.
    pub sizes: Option<&'a [u64]>,
    pub placements: Option<&'a [String]>,
}

/// A pattern with what it can drive, in the order of the list.
fn pairs() -> impl Iterator<Item = (&'static PatternInfo, &'static Target)> {
    let can = |(pattern, target): &(&PatternInfo, &Target)| target.caps.has(pattern.needs);
    catalogue::all()
        .flat_map(|target| target.patterns.iter().map(move |pattern| (pattern, target)))
        .filter(can)
}

/// Every case there is, with its axes at their defaults.
pub fn all(wanted: Wanted<'_>) -> Vec<CaseId> {
    pairs().flat_map(|(pattern, target)| cases(pattern, target, wanted)).collect()
}

/// The cases that match a glob, with their axes at their defaults.
///
/// The harness itself and what is there for tests have their place in no comparison: they are selected by name only.
pub fn matching(glob: &Glob, wanted: Wanted<'_>) -> Vec<CaseId> {
    let size = glob.size.map(|size| [size]);
    let placement = glob.placement.clone().map(|placement| [placement]);
    let wanted = Wanted {
        sizes: size.as_ref().map_or(wanted.sizes, |size| Some(&size[..])),
        placements: placement.as_ref().map_or(wanted.placements, |placement| Some(&placement[..])),
    };
    let is_meant = |target: &Target| !only_by_name(target) || glob.names(target.id);
    let meant = pairs().filter(|(_, target)| is_meant(target));
    meant.flat_map(|(pattern, target)| cases(pattern, target, wanted)).filter(|id| glob.matches(id)).collect()
}

fn only_by_name(target: &Target) -> bool {
    target.caps.has(Caps::HARNESS) || target.caps.has(Caps::VIRTUAL_TIME)
}

fn cases(pattern: &PatternInfo, target: &Target, wanted: Wanted<'_>) -> Vec<CaseId> {
    let sizes = if target.caps.has(Caps::PAYLOAD) { wanted.sizes.unwrap_or(SIZES) } else { &[0] };
    let placements: Vec<&str> = match wanted.placements {
        Some(placements) => placements.iter().map(String::as_str).collect(),
        None => placements(pattern, target).to_vec(),
    };
    let id = |size: &u64, placement: &&str| CaseId::new(pattern.id, target.id, *size, placement);
    sizes.iter().flat_map(|size| placements.iter().map(move |placement| id(size, placement))).collect()
}

/// One CPU and two; one alone where there is one role; all of them where there is a role for each.
fn placements(pattern: &PatternInfo, target: &Target) -> &'static [&'static str] {
    let Ok((_, _, params)) = catalogue::resolve(&CaseId::new(pattern.id, target.id, 0, "same-cpu")) else {
        return PLACEMENTS;
    };
    match params.axes.get(axis::ROLES) {
        Some(roles) if roles == "default" => &["spread"],
        _ if (pattern.roles)(&params).len() == 1 => &["same-cpu"],
        _ => PLACEMENTS,
    }
}

/// The value of an axis as ids have it: bytes without a suffix.
pub fn written_out(axis: &str, value: &str) -> String {
    let is_it =
        |declared: &axis::Axis| declared.name == axis && matches!(declared.values, axis::Values::Bytes);
    let takes_bytes = || pairs().any(|(pattern, target)| target.axes_in(pattern).iter().any(is_it));
    match values::size(value) {
        Ok(bytes) if takes_bytes() => bytes.to_string(),
        _ => value.to_owned(),
    }
}

/// A case on every combination of values that a glob sets, and the values that it does not take with the reason.
pub fn with_axes(id: &CaseId, axes: &[(String, String)]) -> Vec<CaseId> {
    let values = |axis: &str, glob: &str| -> Vec<String> {
        let declared = catalogue::resolve(id).ok().map(|(target, pattern, _)| target.axes_in(pattern));
        let declared = declared.unwrap_or_default().into_iter().find(|declared| declared.name == axis);
        match declared.map(|declared| (declared.values, declared.default)) {
            _ if !has_wildcards(glob) => vec![written_out(axis, glob)],
            Some((axis::Values::OneOf(words), _)) => words
                .iter()
                .filter(|word| **word != "default" && value_matches(glob, word))
                .filter(|word| catalogue::resolve(&id.clone().with(axis, word)).is_ok())
                .map(|word| (*word).to_owned())
                .collect(),
            Some((_, default)) if value_matches(glob, default) => vec![default.to_owned()],
            _ => vec![glob.to_owned()],
        }
    };
    let axes: Vec<(String, Vec<String>)> =
        axes.iter().map(|(axis, glob)| (axis.clone(), values(axis, glob))).collect();
    plan::with_axes(id.clone(), &axes)
}
