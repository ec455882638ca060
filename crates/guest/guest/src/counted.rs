//! Lines of a record whose clock counts instructions: what says nanoseconds there means instructions, and is called so.
//!
//! With `-icount shift=0` the guest's clock advances by 1 ns for each instruction, of all its CPUs together. The numbers therefore
//! stay, and their units change. Rates, which are per second there, become amounts per instruction.

use std::collections::BTreeMap;

use weighbridge_record::{CLOCK_OF_INSTRUCTIONS, Line, PerOp};

/// What a unit of nanoseconds or seconds means when the clock counts instructions, and by what the figure is divided.
///
/// `ns/roundtrip` is `instructions/roundtrip`; `bytes/s`, which is per 10⁹ instructions, is `bytes/instruction`; other rates are so
/// small then that they are given for a million instructions.
pub fn unit(unit: &str) -> (String, f64) {
    if let Some(per) = unit.strip_prefix("ns") {
        return (format!("instructions{per}"), 1.0);
    }
    match unit.strip_suffix("/s") {
        Some("bytes") => ("bytes/instruction".into(), 1e9),
        Some(what) => (format!("{what}/million instructions"), 1e3),
        None => (unit.into(), 1.0),
    }
}

/// The name of a series: `alloc_ns` is `alloc_instructions`, and what is per second is per 10⁹ instructions.
fn series(name: &str) -> String {
    let ends = [("_ns", "_instructions"), ("_per_s", "_per_billion_instructions")];
    let renamed = ends.iter().find_map(|(time, count)| Some(format!("{}{count}", name.strip_suffix(time)?)));
    renamed.unwrap_or_else(|| name.into())
}

fn rename<V>(all: &mut BTreeMap<String, V>) {
    *all = std::mem::take(all).into_iter().map(|(name, values)| (series(&name), values)).collect();
}

/// The lines of a guest's record in instructions. What single operations took is left out: reports call it a time.
pub fn in_instructions(mut lines: Vec<Line>) -> Vec<Line> {
    let mut divisors = BTreeMap::new();
    for line in &mut lines {
        match line {
            Line::Header(header) => {
                let clock = &mut header.machine.clock;
                clock.source = CLOCK_OF_INSTRUCTIONS.into();
                clock.tsc_hz = None;
            }
            Line::Case(case) => {
                let (name, divisor) = unit(&case.unit);
                case.unit = name;
                divisors.insert(case.case.clone(), divisor);
            }
            Line::Run(run) => {
                let divisor = divisors.get(&run.case).copied().unwrap_or(1.0);
                run.value /= divisor;
                run.samples.iter_mut().for_each(|sample| *sample /= divisor);
                per_op(&mut run.per_op);
                run.roles.iter_mut().for_each(|role| per_op(&mut role.per_op));
                rename(&mut run.series);
                run.latencies = None;
                // The roles share the one CPU that there is, and nobody else is there.
                run.noise.cpu_pressure = None;
            }
            Line::Summary(summary) => {
                let (name, divisor) = unit(&summary.unit);
                summary.unit = name;
                summary.median /= divisor;
                let ranges = [summary.session_range.as_mut(), summary.across_sessions.as_mut()];
                let pairs = [Some(&mut summary.range), summary.ci95.as_mut()].into_iter().chain(ranges);
                pairs.flatten().flatten().for_each(|value| *value /= divisor);
                summary.best = summary.best.map(|best| best / divisor);
                per_op(&mut summary.per_op);
                rename(&mut summary.series);
                rename(&mut summary.series_ci95);
                for regime in &mut summary.regimes {
                    regime.levels = regime.levels.map(|levels| levels.map(|level| level / divisor));
                }
                summary.distribution = None;
            }
            _ => {}
        }
    }
    lines
}

/// The time that the roles ran is the number of instructions that they ran.
fn per_op(per_op: &mut PerOp) {
    per_op.instructions = Some(std::mem::take(&mut per_op.cpu_ns));
    // The kernel divides CPU time between user and kernel mode by its ticks, which count nothing here.
    (per_op.user_ns, per_op.kernel_ns) = (None, None);
    per_op.cycles = None;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_unit_of_time_is_left() {
        for (of, counted, divisor) in [
            ("ns/roundtrip", "instructions/roundtrip", 1.0),
            ("ns", "instructions", 1.0),
            ("bytes/s", "bytes/instruction", 1e9),
            ("messages/s", "messages/million instructions", 1e3),
            ("%", "%", 1.0),
        ] {
            assert_eq!(unit(of), (counted.into(), divisor));
        }
        assert_eq!(series("alloc_ns"), "alloc_instructions");
        assert_eq!(series("bytes_per_s"), "bytes_per_billion_instructions");
        assert_eq!(series("events_per_call"), "events_per_call");
    }
}
