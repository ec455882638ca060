//! What somebody may have meant: names and case ids close to one that leads nowhere.

use weighbridge_record::CaseId;

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
    match glob.contains(['*', '?', '[', '{']) {
        true => 1.0,
        // One size is as good a suggestion as the next: 4096 is hardly a slip for 4095.
        false if is_number(part) => {
            if glob == part {
                1.0
            } else {
                0.7
            }
        }
        false => strsim::normalized_damerau_levenshtein(glob, part),
    }
}

fn is_number(part: &str) -> bool {
    part.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Vec<CaseId> {
        let mechanisms = ["pipe", "unix-stream", "ring-futex"];
        let sizes = [1, 4096];
        let cases = mechanisms.iter().flat_map(|mechanism| sizes.map(|size| (mechanism, size)));
        cases.map(|(mechanism, size)| CaseId::new("roundtrip", mechanism, size, "same-cpu")).collect()
    }

    #[test]
    fn a_slip_in_one_part_of_a_path_leads_to_the_ids_without_it() {
        assert_eq!(
            ids("roundtrip/pip/*", &known()),
            ["roundtrip/pipe/1/same-cpu", "roundtrip/pipe/4096/same-cpu"]
        );
        assert_eq!(ids("roundtrp/pipe/4096/same-cpu", &known())[0], "roundtrip/pipe/4096/same-cpu");
        assert_eq!(
            ids("roundtrip/ring-futx/4096/same-cup", &known())[0],
            "roundtrip/ring-futex/4096/same-cpu"
        );
    }

    #[test]
    fn a_slip_in_a_single_word_leads_to_words() {
        assert_eq!(ids("ring-futx", &known()), ["ring-futex"]);
        assert_eq!(ids("unix-steam", &known()), ["unix-stream"]);
    }

    #[test]
    fn what_is_like_nothing_gets_no_suggestion() {
        assert!(ids("carrier-pigeon", &known()).is_empty());
        assert!(ids("", &known()).is_empty());
    }
}
