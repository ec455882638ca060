//! What somebody may have meant: names and case ids close to one that leads nowhere.

use weighbridge_record::CaseId;

use crate::values::has_wildcards;

/// Below this likeness a suggestion would only confuse.
const ALIKE: f64 = 0.6;
/// A suggestion that is less like it than the best one by more than this is none.
const WORSE: f64 = 0.15;
/// Suggestions at most.
const MOST: usize = 3;

/// The case ids closest to a glob, closest first. A word without a slash is compared with each part of an id, and the
/// parts that come close are suggested instead.
pub fn ids(glob: &str, known: &[CaseId]) -> Vec<String> {
    let known: Vec<String> = known.iter().map(CaseId::to_string).collect();
    if glob.contains('/') {
        return closest(known.iter().map(|id| (likeness_of_paths(glob, id), id.as_str())));
    }
    let parts = known.iter().flat_map(|id| id.split('/')).filter(|part| !is_number(part));
    closest(parts.map(|part| (likeness(glob, part), part)))
}

/// The words closest to one, closest first.
pub fn words(word: &str, known: &[&str]) -> Vec<String> {
    closest(known.iter().map(|known| (likeness(word, known), *known)))
}

fn closest<'a>(rated: impl Iterator<Item = (f64, &'a str)>) -> Vec<String> {
    let mut rated: Vec<(f64, &str)> = rated.filter(|(likeness, _)| *likeness >= ALIKE).collect();
    // Stable, so that among equals the order of the suite stands.
    rated.sort_by(|a, b| b.0.total_cmp(&a.0));
    let best = rated.first().map_or(0.0, |(likeness, _)| *likeness);
    let mut names: Vec<String> = Vec::new();
    for (likeness, name) in rated {
        let is_new = !names.iter().any(|kept| kept == name);
        if is_new && likeness >= best - WORSE && names.len() < MOST {
            names.push(name.into());
        }
    }
    names
}

/// Part by part, a wildcard being like everything; the part that fits worst counts most, because it is the slip.
fn likeness_of_paths(glob: &str, id: &str) -> f64 {
    let id: Vec<&str> = id.split('/').collect();
    let glob: Vec<&str> = glob.split('/').collect();
    let parts = glob.len().min(id.len());
    let each = (0..parts).map(|part| likeness(glob[part], id[part]));
    let sum: f64 = each.clone().sum();
    let worst = each.fold(1.0, f64::min);
    let missing = id.len().abs_diff(glob.len()) as f64 * 0.01;
    (sum / parts.max(1) as f64 + worst) / 2.0 - missing
}

fn likeness(glob: &str, part: &str) -> f64 {
    if has_wildcards(glob) || glob == part {
        1.0
    } else if is_number(part) {
        // One size is as good a suggestion as the next: 4096 is hardly a slip for 4095.
        0.7
    } else {
        strsim::normalized_damerau_levenshtein(glob, part)
    }
}

fn is_number(part: &str) -> bool {
    part.bytes().all(|byte| byte.is_ascii_digit())
}
