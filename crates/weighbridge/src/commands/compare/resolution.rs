//! What this machine can tell apart, as earlier comparisons found: kept beside the records, so that a comparison can say
//! beforehand what it will come to.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use weighbridge_record::{CaseVerdict, Header, Machine};
use weighbridge_stats::median;
use weighbridge_stats::sequential::Looks;
use weighbridge_stats::verdict::Resolution;

use crate::store;

const FILE: &str = "resolution.json";
/// Half-widths are kept as those of so many sets.
const SETS: usize = 12;

/// What is kept of one placement on one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Kept {
    machine: String,
    placement: String,
    /// As a logarithm, of so many sets: always [`SETS`].
    half_width: f64,
    sets: usize,
    seconds_a_set: f64,
}

/// What earlier comparisons on this machine found, for these placements: a sentence each.
pub fn foretold<'a>(
    machine: &Machine,
    placements: impl Iterator<Item = &'a str>,
    margin: f64,
    looks: &Looks,
) -> Vec<String> {
    let (kept, name) = (store::folder().map(|folder| read(&folder)).unwrap_or_default(), name(machine));
    let mut said = Vec::new();
    for placement in placements {
        let found = kept.iter().find(|kept| kept.machine == name && kept.placement == placement);
        let sentence = found.map(|kept| sentence(kept, margin, looks));
        said.extend(sentence.filter(|sentence| !said.contains(sentence)));
    }
    said
}

fn sentence(kept: &Kept, margin: f64, looks: &Looks) -> String {
    let resolution =
        Resolution { half_width: kept.half_width, displacement: 0.0, sets: SETS, has_moved: false };
    let seconds = kept.seconds_a_set * SETS as f64;
    let shown = format!(
        "this machine resolves {:.2} % in {seconds:.1} s a case at {}",
        100.0 * kept.half_width.exp_m1(),
        kept.placement
    );
    let margin_shown = 100.0 * margin;
    match resolution.sets_needed(margin, looks) {
        Some(sets) => format!("{shown}; a margin of {margin_shown} % needs {sets} sets"),
        None => format!("{shown}; a margin of {margin_shown} % needs more sets than a comparison has"),
    }
}

/// Keeps what a comparison found. Where that cannot be, the comparison is none the worse for it.
pub fn keep(header: &Header, verdicts: &[&CaseVerdict], elapsed_s: f64) -> Result<(), String> {
    let sets: u32 = verdicts.iter().map(|of| of.sets + of.failed_sets).sum();
    let mut found: Vec<Kept> = Vec::new();
    for of in verdicts {
        let placement = &of.case.placement;
        if found.iter().any(|kept| kept.placement == *placement) {
            continue;
        }
        let widths: Vec<f64> = verdicts
            .iter()
            .filter(|of| of.case.placement == *placement && of.sets > 0 && !of.is_void())
            .filter_map(|of| {
                let half_width = of.resolution.filter(|width| *width > 0.0)?.ln_1p();
                let of_case =
                    Resolution { half_width, displacement: 0.0, sets: of.sets as usize, has_moved: false };
                Some(of_case.with_sets(SETS))
            })
            .collect();
        // In virtual time nothing is unsure, and that says nothing of the machine.
        if !widths.is_empty() {
            found.push(Kept {
                machine: name(&header.machine),
                placement: placement.clone(),
                half_width: median(&widths),
                sets: SETS,
                seconds_a_set: elapsed_s / f64::from(sets.max(1)),
            });
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    let folder = store::create_folder()?;
    let is_new =
        |kept: &Kept| found.iter().any(|new| new.machine == kept.machine && new.placement == kept.placement);
    let mut all: Vec<Kept> = read(&folder).into_iter().filter(|kept| !is_new(kept)).collect();
    all.extend(found);
    write(&folder, &all)
        .map_err(|error| format!("`{}` cannot be written: {error}", folder.join(FILE).display()))
}

/// Records of one machine have this in common.
fn name(machine: &Machine) -> String {
    format!("{}, {}, {} CPUs", machine.hostname, machine.cpu_model, machine.allowed_cpus.len())
}

/// Nothing where there is no such file, or it is damaged: it is only a help.
fn read(folder: &Path) -> Vec<Kept> {
    let text = std::fs::read_to_string(folder.join(FILE)).unwrap_or_default();
    let all: Vec<Value> = serde_json::from_str(&text).unwrap_or_default();
    let kept = all.into_iter().filter_map(|of| serde_json::from_value::<Kept>(of).ok());
    kept.filter(|of| of.half_width > 0.0 && of.seconds_a_set > 0.0).collect()
}

/// Whole or not at all, also where two programs write at once.
fn write(folder: &Path, all: &[Kept]) -> std::io::Result<()> {
    let text = serde_json::to_string(all)? + "\n";
    let temporary = folder.join(format!("{FILE}.{}", std::process::id()));
    std::fs::write(&temporary, text)?;
    std::fs::rename(&temporary, folder.join(FILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_again_and_damage_is_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (machine, placement) = ("host, cpu, 2 CPUs".into(), "same-cpu".into());
        let kept = Kept { machine, placement, half_width: 0.004, sets: SETS, seconds_a_set: 0.3 };
        write(folder.path(), std::slice::from_ref(&kept)).unwrap();
        assert_eq!(read(folder.path()), std::slice::from_ref(&kept));
        std::fs::write(folder.path().join(FILE), "[{").unwrap();
        assert_eq!(read(folder.path()), []);
        let looks = Looks::default();
        let said = sentence(&kept, 0.02, &looks);
        assert!(said.starts_with("this machine resolves 0.40 % in 3.6 s a case at same-cpu; "), "{said}");
        assert!(said.ends_with("a margin of 2 % needs 15 sets"), "{said}");
        assert!(sentence(&kept, 0.0001, &looks).contains("more sets than"));
    }
}
