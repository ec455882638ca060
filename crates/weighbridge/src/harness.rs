//! What the harness itself costs, measured in the same session as what it measures.
//!
//! A session has a case `noop` of every pattern that it runs, at the smallest payload, whatever was selected: each report shows what of
//! its figures is the loop, and a clock or an allocation in the loop, which is in every figure, is seen there.

use weighbridge_harness::catalogue;
use weighbridge_harness::contract::{Caps, Prepared};
use weighbridge_harness::ctx::Time;
use weighbridge_harness::host::Host;
use weighbridge_record::CaseId;

/// The mechanism of every pattern that does nothing.
const NOOP: &str = "noop";

/// The cases of the harness that `cases` lack: of each pattern one, with a payload of one byte where it has any, in its first placement, with
/// the pattern's own settings.
pub fn missing(cases: &[Prepared], host: &Host) -> Vec<Prepared> {
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

fn noop(case: &Prepared, cases: &[Prepared]) -> CaseId {
    let of_pattern = cases.iter().filter(|other| other.pattern.id == case.pattern.id);
    let smallest = of_pattern.map(|other| other.params.id.payload_bytes).min().unwrap_or(0);
    let of_op = case.params.id.pattern == "solo" || case.params.id.pattern == "parallel";
    // The touching of more would hide what is in the loop.
    let payload = if of_op { 0 } else { smallest.min(1) };
    let id = CaseId::new(case.pattern.id, NOOP, payload, &case.params.id.placement);
    let own = |name: &str| case.pattern.axes.iter().any(|axis| axis.name == name);
    let axes = case.params.id.axes.iter().filter(|(name, _)| own(name));
    axes.fold(id, |id, (name, value)| id.with(name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_that_runs_has_its_harness_once_at_the_smallest_payload() {
        crate::register();
        let host = Host::look().unwrap();
        let prepare = |id: &str| catalogue::prepare(&id.parse().unwrap(), &host).unwrap();
        let cases = [
            "roundtrip/pipe/4096/same-cpu",
            "roundtrip/pipe/64/same-cpu",
            "pingpong/futex/0/same-cpu",
            "solo/memcpy/64/same-cpu",
            "fan-out/unix-stream/64/same-cpu/receivers=3",
            "stream/mock/1/free",
            "contend/noop/0/same-cpu",
            "contend/mutex/0/same-cpu",
        ]
        .map(prepare);
        let missing = |cases: &[Prepared]| -> Vec<String> {
            missing(cases, &host).iter().map(|case| case.params.id.to_string()).collect()
        };
        let wanted = [
            "roundtrip/noop/1/same-cpu",
            "pingpong/noop/0/same-cpu",
            "solo/noop/0/same-cpu",
            "fan-out/noop/1/same-cpu/receivers=3",
        ];
        assert_eq!(missing(&cases), wanted);
        assert_eq!(missing(&cases[..1]), ["roundtrip/noop/1/same-cpu"]);
        let of_one_pattern = ["roundtrip/pipe/64/same-cpu", "roundtrip/noop/64/same-cpu"].map(prepare);
        assert_eq!(missing(&of_one_pattern), [""; 0]);
    }
}
