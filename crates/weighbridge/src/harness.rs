//! What the harness itself costs, measured in the same session as what it measures.
//!
//! A session of a suite, or of what a glob selects from it, has a case `noop` of every pattern that it runs, so that each
//! report shows what of its figures is the loop. Where all words are complete ids, those cases are measured and no others.

use weighbridge_harness::catalogue;
use weighbridge_harness::contract::{Caps, Prepared};
use weighbridge_harness::ctx::Time;
use weighbridge_harness::host::Host;
use weighbridge_record::CaseId;

/// The mechanism of every pattern that does nothing.
const NOOP: &str = "noop";

/// The cases of the harness that `cases` lack: of each pattern one, at its smallest payload, in its first placement, with
/// the pattern's own settings.
pub fn missing(globs: &[String], cases: &[Prepared], host: &Host) -> Vec<Prepared> {
    if !globs.is_empty() && globs.iter().all(|glob| is_complete(glob)) {
        return Vec::new();
    }
    let mut found: Vec<Prepared> = Vec::new();
    for case in cases.iter().filter(|case| case.target.time() == Time::Raw) {
        let is_there =
            |known: &Prepared| known.pattern.id == case.pattern.id && known.target.caps.has(Caps::HARNESS);
        if cases.iter().chain(&found).any(is_there) {
            continue;
        }
        // A pattern without a harness, or a place where it cannot run, has none to show.
        found.extend(catalogue::prepare(&noop(case, cases), host).ok());
    }
    found
}

fn is_complete(glob: &str) -> bool {
    !glob.contains(['*', '?', '[', '{']) && glob.parse::<CaseId>().is_ok()
}

fn noop(case: &Prepared, cases: &[Prepared]) -> CaseId {
    let of_pattern = cases.iter().filter(|other| other.pattern.id == case.pattern.id);
    let smallest = of_pattern.map(|other| other.params.id.payload_bytes).min().unwrap_or(0);
    let of_op = case.params.id.pattern == "solo" || case.params.id.pattern == "parallel";
    let payload = if of_op { 0 } else { smallest };
    let id = CaseId::new(case.pattern.id, NOOP, payload, &case.params.id.placement);
    let own = |name: &str| case.pattern.axes.iter().any(|axis| axis.name == name);
    case.params
        .id
        .axes
        .iter()
        .filter(|(name, _)| own(name))
        .fold(id, |id, (name, value)| id.with(name, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn prepared(host: &Host, ids: &[&str]) -> Vec<Prepared> {
        crate::register();
        ids.iter().map(|id| catalogue::prepare(&id.parse().unwrap(), host).unwrap()).collect()
    }

    fn ids(cases: &[Prepared]) -> Vec<String> {
        cases.iter().map(|case| case.params.id.to_string()).collect()
    }

    #[test]
    fn every_pattern_that_runs_has_its_harness_once() {
        let host = Host::look().unwrap();
        let cases = prepared(
            &host,
            &[
                "roundtrip/pipe/4096/same-cpu",
                "roundtrip/pipe/64/same-cpu",
                "pingpong/futex/0/same-cpu",
                "solo/memcpy/64/same-cpu",
                "fan-out/unix-stream/64/same-cpu/receivers=3",
                "stream/mock/1/free",
                "contend/noop/0/same-cpu",
                "contend/mutex/0/same-cpu",
            ],
        );
        let wanted = [
            "roundtrip/noop/64/same-cpu",
            "pingpong/noop/0/same-cpu",
            "solo/noop/0/same-cpu",
            "fan-out/noop/64/same-cpu/receivers=3",
        ];
        assert_eq!(ids(&missing(&[], &cases, &host)), wanted);
        assert_eq!(
            ids(&missing(&["roundtrip/*".into()], &cases[..1], &host)),
            ["roundtrip/noop/4096/same-cpu"]
        );
        let complete = ["roundtrip/pipe/4096/same-cpu".to_owned()];
        assert_eq!(ids(&missing(&complete, &cases[..1], &host)), [""; 0], "no harness was asked for");
    }

    #[test]
    fn every_pattern_has_a_harness() {
        crate::register();
        let with_harness: BTreeSet<&str> = catalogue::all()
            .filter(|target| target.id == NOOP && target.caps.has(Caps::HARNESS))
            .flat_map(|target| target.patterns.iter().map(|pattern| pattern.id))
            .collect();
        let all: BTreeSet<&str> = catalogue::patterns().iter().map(|pattern| pattern.id).collect();
        assert_eq!(with_harness, all);
    }
}
