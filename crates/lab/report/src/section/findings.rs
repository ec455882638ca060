//! Comparisons in sentences: which order of mechanisms is sure, then pairs that belong to no such order; each behind a fold.

use std::collections::{BTreeMap, HashMap, HashSet};

use weighbridge_record::earlier::is_beside_a_load;
use weighbridge_record::{CaseId, Comparison, Contest, Contestant, Findings, Place};
use weighbridge_stats::contest::FEWEST_SETS;

use super::Context;
use crate::document::{Block, Item, Section, Table};
use crate::model::{HARNESS, Report, Sourced};
use crate::notes::{ELSEWHERE, FEW, few};
use crate::units::{count, range, significant, size};
use crate::words::{self, listed, many, plain};

const ABOUT: &str = "Each line compares the mechanisms of one pattern, payload and placement pair by pair: through their ratios to the hub, \
                     or by runs of the same round. Everything that a line calls sure holds simultaneously; the confidence accounts for \
                     the number of lines.";
const PAIRS: &str =
    "The interval of each of these pairs has 95 % by itself; the number of pairs is not accounted for.";

/// Number of statements in a line; the table has the rest.
const STATEMENTS: usize = 2;
/// Number of mechanisms that a sentence names where there are more; the others are counted.
const NAMED: usize = 3;
/// The same of those that may be the fastest.
const CANDIDATES: usize = 6;

/// None where the record compares nothing.
pub fn sections(cx: &Context<'_>) -> Vec<Section> {
    let report = cx.report;
    let mut contests = contests(report);
    // Counted instructions are what they are: that chance cannot be told from them after one run is no finding.
    if report.counts_instructions() && contests.iter().all(|contest| contest.what.sure.is_empty()) {
        contests.clear();
    }
    let others = others(report);
    let count = contests.len() + others.len();
    if count == 0 {
        return Vec::new();
    }
    let mut blocks = Vec::new();
    let mut all = Vec::new();
    if !contests.is_empty() {
        let chance: Vec<String> = report.findings.iter().map(|findings| by_chance(&findings.what)).collect();
        let about = Block::Paragraph(format!("{ABOUT} {}", chance.join(" ")).trim_end().into());
        let lines = |contests: &[&Sourced<Contest>]| -> Vec<Item> {
            contests.iter().map(|contest| line(report, contest).into()).collect()
        };
        if report.counts_instructions() {
            let mut list = lines(&chosen(&contests, FEW));
            let rest = contests.len() - list.len();
            list.extend((rest > 0).then(|| Item::without_folds(format!("… {rest} more; {ELSEWHERE}"))));
            blocks.extend([about, Block::List(list)]);
        } else {
            // The answers show them; these are the words.
            blocks.push(Block::fold("In sentences".into(), vec![about, Block::List(lines(&contests))]));
        }
    }
    for contest in &contests {
        all.extend([Block::Heading(line(report, contest)), Block::Table(table(report, contest))]);
    }
    if !others.is_empty() {
        let about = Block::Paragraph(PAIRS.into());
        if contests.is_empty() {
            let items = others.iter().cloned().map(Item::from).collect();
            blocks.extend([about.clone(), Block::List(few(items))]);
        }
        all.extend([Block::Heading("Other pairs".into()), about, Block::sentences(others)]);
    }
    blocks.push(Block::fold(format!("{}, lowest cost first", many(count, "comparison")), all));
    Section::new("findings", "Findings", blocks)
}

/// All contests by pattern and place in the order of the cases; sizes ascending.
pub fn contests(report: &Report) -> Vec<&Sourced<Contest>> {
    let mut ranks = HashMap::new();
    for id in report.cases.iter().map(|case| &case.id).chain(report.contests.iter().map(place_of)) {
        let next = ranks.len();
        ranks.entry((id.pattern.as_str(), id.place())).or_insert(next);
    }
    let mut contests: Vec<&Sourced<Contest>> = report.contests.iter().collect();
    contests.sort_by_key(|contest| {
        let id = place_of(contest);
        (ranks[&(id.pattern.as_str(), id.place())], id.payload_bytes, contest.source)
    });
    contests
}

/// Any case of a contest: pattern, size and placement are those of all.
pub fn place_of(contest: &Sourced<Contest>) -> &CaseId {
    &contest.what.contestants[0].case
}

/// Comparisons whose cases are in no contest together.
fn others(report: &Report) -> Vec<String> {
    let is_in = |contest: &Contest, id: &CaseId| contest.contestants.iter().any(|one| one.case == *id);
    let rest = report.comparisons.iter().filter(|Sourced { source, what }| {
        let sides = [&what.case, &what.baseline];
        let known = report
            .contests
            .iter()
            .any(|contest| contest.source == *source && sides.iter().all(|side| is_in(&contest.what, side)));
        !known && sides.iter().all(|side| side.mechanism != HARNESS)
    });
    rest.map(|comparison| finding(report, comparison)).collect()
}

/// At most `count` contests: of each pattern and placement first the smallest size, then the largest, then others.
pub fn chosen<'a>(contests: &[&'a Sourced<Contest>], count: usize) -> Vec<&'a Sourced<Contest>> {
    let mut places: Vec<(&str, Place<'_>, Vec<usize>)> = Vec::new();
    for (index, contest) in contests.iter().enumerate() {
        let id = place_of(contest);
        let (pattern, at) = (id.pattern.as_str(), id.place());
        match places.iter_mut().find(|place| (place.0, place.1) == (pattern, at)) {
            Some(place) => place.2.push(index),
            None => places.push((pattern, at, vec![index])),
        }
    }
    let mut ranked: Vec<(usize, usize)> = Vec::new();
    for (_, _, indices) in &places {
        let last = indices.len() - 1;
        let mut order = vec![0, last, last / 2];
        order.extend(0..=last);
        let mut seen = HashSet::new();
        let distinct = order.into_iter().filter(|at| seen.insert(*at));
        ranked.extend(distinct.enumerate().map(|(rank, at)| (rank, indices[at])));
    }
    ranked.sort_unstable();
    let mut kept: Vec<usize> = ranked.into_iter().take(count).map(|(_, index)| index).collect();
    kept.sort_unstable();
    kept.into_iter().map(|index| contests[index]).collect()
}

/// How many orders are claimed in a record, and how many of them chance is expected to make.
fn by_chance(findings: &Findings) -> String {
    let Findings { contests, claimed, fdr, expected_by_chance } = findings;
    format!(
        "Some order is sure in {claimed} of {}. Of these, at most {} % are expected to be wrong by chance: {}.",
        many(*contests as usize, "line"),
        count(fdr * 100.0),
        count(*expected_by_chance)
    )
}

/// Where no order is sure, that is the finding; with what would help, as far as the record tells.
pub fn nothing_apart(report: &Report, contests: &[&Sourced<Contest>]) -> String {
    if report.is_imported() {
        return "At 95 %, no difference between these benchmarks is told apart from chance.".into();
    }
    let all = || contests.iter().flat_map(|contest| &contest.what.contestants);
    let mut ways = Vec::new();
    if report.cases.iter().any(|case| is_beside_a_load(case.runs.iter())) {
        ways.push(
            "end what else uses the CPUs: in most runs some task waited for one most of the time".to_owned(),
        );
    }
    let few = all().filter(|one| (one.sets as usize) < FEWEST_SETS).count();
    if few > 0 {
        let cases = many(few, "case");
        ways.push(format!(
            "a longer --budget: {cases} had fewer than {FEWEST_SETS} sets, below which nothing is called sure"
        ));
    }
    // By how much an interval must narrow so that the difference that was seen lies outside.
    let needed = |one: &Contestant| {
        let ([low, high], seen) = (one.interval?, one.times_first.ln().abs());
        (seen > 0.0).then(|| ((high / low).ln() / 2.0 / seen).powi(2))
    };
    if let Some(times) =
        all().filter_map(needed).filter(|times| (1.0..=100.0).contains(times)).min_by(f64::total_cmp)
    {
        ways.push(format!(
            "about {} times as many sets (--runs, --budget): then the nearest to a difference would be one, if it is real",
            significant(times.max(1.1))
        ));
    }
    if contests
        .iter()
        .any(|of| place_of(of).placement == "two-cpus" && !place_of(of).axes.contains_key("idle"))
    {
        ways.push("--set idle=busy, which keeps a virtual CPU from halting between two messages".into());
    }
    let help = if ways.is_empty() {
        "Further sets would not help: what was seen of differences is far below what the intervals tell apart"
            .into()
    } else {
        format!("What would help: {}", ways.join("; "))
    };
    format!(
        "On this machine, in this session, no mechanism could be told apart from another: that is the finding, and no order of the tables \
         below is one. {help}."
    )
}

/// `roundtrip 64 KiB same-cpu: ring-futex is surely ahead of pipe and fifo; pipe costs 1.31 × as much as ring-futex (1.24–1.40).`
fn line(report: &Report, contest: &Sourced<Contest>) -> String {
    let id = place_of(contest);
    let payload = if id.payload_bytes == 0 { String::new() } else { size(id.payload_bytes) + " " };
    let settings = settings(&contest.what, &["idle"]);
    plain(&format!("{} {payload}{}{settings}: {}.", id.pattern, id.place(), order(report, contest)))
}

/// Every contestant with its tier.
fn table(report: &Report, contest: &Sourced<Contest>) -> Table {
    let first = name(report, contest, &contest.what.contestants[0]);
    let cost = format!("times the cost of {first}");
    let row = |one: &Contestant| {
        [
            one.tier.saturating_add(1).to_string(),
            name(report, contest, one),
            if one.may_be_best { "yes" } else { "no" }.to_owned(),
            ratio(one.times_first),
            one.interval.map_or(String::new(), |ends| range(ends, ratio)),
            one.sets.to_string(),
        ]
    };
    let heads = ["tier", "mechanism", "may be the fastest", &cost, "interval", "sets"];
    let table = Table::new("", heads, contest.what.contestants.iter().map(row)).with_texts([1, 2]);
    Table { labels: 2, ..table }
}

pub fn name(report: &Report, contest: &Sourced<Contest>, one: &Contestant) -> String {
    named(report, contest, &one.case)
}

/// A contestant by its mechanism and the axes in which it differs from another.
pub fn named(report: &Report, contest: &Sourced<Contest>, case: &CaseId) -> String {
    let mut own = case.clone();
    let common = common_axes(&contest.what);
    own.axes.retain(|axis, _| !common.contains_key(axis));
    report.variant(contest.source, &own)
}

/// Axes on which all contestants stand alike, and not at their default: they belong to the question.
pub fn common_axes(contest: &Contest) -> BTreeMap<String, String> {
    let [first, others @ ..] = &contest.contestants[..] else { return BTreeMap::new() };
    let is_common =
        |axis: &String, value: &String| others.iter().all(|one| one.case.axes.get(axis) == Some(value));
    let own = first.case.axes.iter().filter(|(axis, value)| is_common(axis, value));
    own.map(|(axis, value)| (axis.clone(), value.clone())).collect()
}

/// The same as in a heading, without those that are in the words of the place: ` receivers=20 wait=epoll`.
pub fn settings(contest: &Contest, told: &[&str]) -> String {
    let of = common_axes(contest).into_iter().filter(|(axis, _)| !told.contains(&axis.as_str()));
    of.map(|(axis, value)| format!(" {axis}={value}")).collect()
}

/// What is sure of an order, and between which of the leaders none is.
fn order(report: &Report, contest: &Sourced<Contest>) -> String {
    let Contest { contestants: all, sure, .. } = &contest.what;
    let of_tier = |tier: u32| all.iter().filter(move |one| one.tier == tier);
    let names = |tier: u32| -> Vec<String> { of_tier(tier).map(|one| name(report, contest, one)).collect() };
    let tiers = |which: std::ops::RangeInclusive<u32>| {
        which.map(|tier| listed(NAMED, names(tier))).collect::<Vec<_>>().join(", then ")
    };
    let leaders = names(0);
    let Some(next) = of_tier(1).next() else { return without_tiers(report, contest) };
    let last = all.iter().map(|one| one.tier).max().unwrap_or(0);
    if leaders.len() > NAMED + 1 {
        let (first, behind) = (leaders.len(), tiers(1..=last));
        return format!("{}; surely behind the first {first}: {behind}", candidates(report, contest));
    }
    let mut text = if last == 1 {
        format!("{} surely ahead of {}", are(leaders.clone()), listed(NAMED, names(1)))
    } else {
        format!("surely in this order: {}", tiers(0..=last))
    };
    if let Some(interval) = next.interval {
        let (first, next_name) = (&leaders[0], name(report, contest, next));
        let (times, interval) = (ratio(next.times_first), ends(interval));
        text += &format!("; {next_name} costs {times} × as much as {first} ({interval})");
    }
    if leaders.len() > 1 {
        let has_leader = |ids: &[CaseId]| of_tier(0).any(|one| ids.contains(&one.case));
        if sure.iter().any(|order| has_leader(&order.ahead) && has_leader(&order.behind)) {
            text += &format!("; {}", candidates(report, contest));
        } else {
            text += &format!("; between {} no order is sure", listed(NAMED, leaders));
        }
    }
    text
}

/// Where no cut through the whole order is sure, some pairs may be.
fn without_tiers(report: &Report, contest: &Sourced<Contest>) -> String {
    let Contest { contestants: all, sure, .. } = &contest.what;
    let names = |ids: &mut dyn Iterator<Item = &CaseId>| -> Vec<String> {
        ids.map(|id| named(report, contest, id)).collect()
    };
    if sure.is_empty() {
        let everyone = listed(NAMED, names(&mut all.iter().map(|one| &one.case)));
        if all.iter().any(|one| one.interval.is_some()) {
            return format!("between {everyone} no order is sure");
        }
        let fewest = all.iter().map(|one| one.sets).min().unwrap_or(0) as usize;
        return format!("{} of {everyone} are too few for any order", many(fewest, "set"));
    }
    let told = sure.iter().take(STATEMENTS).map(|order| {
        let behind = listed(NAMED, names(&mut order.behind.iter()));
        format!("{} surely ahead of {behind}", are(names(&mut order.ahead.iter())))
    });
    let told: Vec<String> = told.collect();
    format!("{}; {}", told.join("; "), candidates(report, contest))
}

/// `pipe is`, `pipe and fifo are`.
fn are(names: Vec<String>) -> String {
    let verb = if names.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", listed(NAMED, names))
}

/// Which may be the fastest.
fn candidates(report: &Report, contest: &Sourced<Contest>) -> String {
    let may = contest.what.contestants.iter().filter(|one| one.may_be_best);
    let may: Vec<String> = may.map(|one| name(report, contest, one)).collect();
    match may.as_slice() {
        [only] => format!("{only} is surely the fastest"),
        _ => format!("the fastest is one of {}", listed(CANDIDATES, may)),
    }
}

/// `At 4 KiB on one CPU ring-futex is 1.3 × faster than pipe (interval 1.2–1.4).`
fn finding(report: &Report, comparison: &Sourced<Comparison>) -> String {
    let Comparison { case, baseline, speedup, ci95, pairs } = &comparison.what;
    let alike = case.pattern == baseline.pattern
        && case.payload_bytes == baseline.payload_bytes
        && case.place() == baseline.place();
    let (place, left, right) = if alike {
        let [left, right] = [case, baseline].map(|id| report.variant(comparison.source, id));
        (place(case.payload_bytes, case.place()), left, right)
    } else {
        ("Of two cases".into(), case.to_string(), baseline.to_string())
    };
    let said = match ci95 {
        Some([low, high]) if *low <= 1.0 && *high >= 1.0 => format!(
            "there is no clear difference between {left} and {right} (speed ratio {}, interval {})",
            ratio(*speedup),
            ends([*low, *high])
        ),
        Some(interval) if *speedup >= 1.0 => {
            let times = ratio(*speedup);
            format!("{left} is {times} × faster than {right} (interval {})", ends(*interval))
        }
        // The same ratio told from the other side, so that the reader never divides.
        Some([low, high]) => {
            let times = ratio(1.0 / speedup);
            format!("{left} is {times} × slower than {right} (interval {})", ends([1.0 / high, 1.0 / low]))
        }
        None => format!(
            "{left} and {right} were compared in {} only, too few for an interval (speed ratio {})",
            many(*pairs as usize, "pair"),
            ratio(*speedup)
        ),
    };
    plain(&format!("{place} {said}."))
}

fn place(payload_bytes: u64, at: Place<'_>) -> String {
    let at = words::place(at);
    match payload_bytes {
        0 => at[..1].to_uppercase() + &at[1..],
        bytes => format!("At {} {at}", size(bytes)),
    }
}

fn ends([low, high]: [f64; 2]) -> String {
    format!("{}–{}", ratio(low), ratio(high))
}

/// Two decimals near 1, where they matter; three where two would read `1.00 × faster`; three digits elsewhere.
pub fn ratio(value: f64) -> String {
    match value {
        _ if value != 1.0 && (0.995..1.005).contains(&value) => format!("{value:.3}"),
        _ if (0.1..10.0).contains(&value) => format!("{value:.2}"),
        _ => significant(value),
    }
}

#[cfg(test)]
mod tests {
    use weighbridge_record::SureOrder;

    use super::*;

    type Told = (&'static str, u32, f64, Option<[f64; 2]>);
    type Sure = (&'static [&'static str], &'static [&'static str]);

    /// A contest of cases with tier, times the first, interval.
    fn contest(of: &[Told], sure: &[Sure], size: u64) -> Sourced<Contest> {
        let case = |mechanism: &str| CaseId::new("roundtrip", mechanism, size, "same-cpu");
        let contestant = |(mechanism, tier, times_first, interval): &Told| Contestant {
            case: case(mechanism),
            tier: *tier,
            may_be_best: *tier == 0,
            times_first: *times_first,
            interval: *interval,
            sets: 4,
        };
        let ids = |names: &[&str]| names.iter().map(|name| case(name)).collect();
        let sure = sure.iter().map(|(ahead, behind)| SureOrder { ahead: ids(ahead), behind: ids(behind) });
        let contestants = of.iter().map(contestant).collect();
        Sourced { source: 0, what: Contest { contestants, sure: sure.collect(), confidence: 0.95 } }
    }

    #[test]
    fn a_line_says_what_is_sure_of_an_order_and_no_more() {
        let (a, b) = (("a", 0, 1.0, None), ("b", 0, 1.02, Some([0.98, 1.07])));
        let c = ("c", 1, 1.3, Some([1.2, 1.4]));
        let d = ("d", 1, 1.4, Some([1.3, 1.5]));
        let e = ("e", 2, 9.0, Some([8.0, 9.9]));
        let tiers: Sure = (&["a", "b"], &["c", "d"]);
        let mut crowd = ["a", "b", "c", "d", "e"].map(|name| (name, 0, 1.0, Some([0.9, 1.1]))).to_vec();
        crowd.extend([("x", 1, 2.0, Some([1.8, 2.2])), ("y", 2, 3.0, Some([2.8, 3.2]))]);
        let no_cut = [a, ("b", 0, 1.1, Some([0.9, 1.3])), ("c", 0, 1.3, Some([1.1, 1.5]))];
        let few = ["a", "b", "c", "d", "e"].map(|name| (name, 0, 1.0, None));
        for (of, sure, says) in [
            (
                &[a, b, c, d][..],
                &[tiers][..],
                "a and b are surely ahead of c and d; c costs 1.30 × as much as a (1.20–1.40); between a and b no order is sure",
            ),
            (
                &[a, c, d, e],
                &[tiers],
                "surely in this order: a, then c and d, then e; c costs 1.30 × as much as a (1.20–1.40)",
            ),
            (&crowd, &[], "the fastest is one of a, b, c, d and e; surely behind the first 5: x, then y"),
            (&no_cut, &[(&["a"], &["c"])], "a is surely ahead of c; the fastest is one of a, b and c"),
            (&no_cut, &[], "between a, b and c no order is sure"),
            (&few, &[], "4 sets of a, b, c and 2 more are too few for any order"),
        ] {
            let text = line(&Report::default(), &contest(of, sure, 4096));
            assert_eq!(text, format!("roundtrip 4 KiB same-cpu: {says}."));
        }
    }

    #[test]
    fn how_many_claims_are_chance_is_said_in_one_sentence() {
        let text = by_chance(&Findings { contests: 14, claimed: 12, fdr: 0.05, expected_by_chance: 0.6 });
        let says = "Some order is sure in 12 of 14 lines. Of these, at most 5 % are expected to be wrong by chance: 0.6.";
        assert_eq!(text, says);
    }

    #[test]
    fn a_machine_on_which_nothing_can_be_told_apart_is_the_finding_with_what_would_help() {
        let said = |of: &[Told], placement: &str| {
            let mut contest = contest(of, &[], 64);
            for one in &mut contest.what.contestants {
                one.case.placement = placement.into();
                one.sets = if one.interval.is_some() || one.times_first == 1.0 { 9 } else { 4 };
            }
            nothing_apart(&Report::default(), &[&contest])
        };
        // 3 % apart with arms of 9 %: nine times the sets.
        let text = said(&[("a", 0, 1.0, None), ("b", 0, 1.03, Some([0.9424, 1.1257]))], "two-cpus");
        for part in ["no mechanism could be told apart", "about 9.04 times as many sets", "--set idle=busy"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let unsure = contest(&[("a", 0, 1.0, None), ("b", 0, 1.03, Some([0.94, 1.13]))], &[], 64);
        let sure = contest(&[("a", 0, 1.0, None), ("b", 1, 3.0, Some([2.9, 3.1]))], &[(&["a"], &["b"])], 64);
        for (contests, is_said) in [(vec![unsure.clone()], true), (vec![unsure, sure], false)] {
            let report = Report { contests, ..Report::default() };
            let text = crate::text(&report, crate::Style { color: false, width: Some(300), ascii: false });
            assert_eq!(text.contains("no mechanism could be told apart"), is_said, "{text}");
        }
        let text = said(&[("a", 0, 1.0, None), ("b", 0, 1.3, None)], "same-cpu");
        assert!(
            text.contains("a longer --budget: 1 case had fewer than 6 sets") && !text.contains("idle"),
            "{text}"
        );
        let text = said(&[("a", 0, 1.0, None), ("b", 0, 1.0001, Some([0.9, 1.1]))], "same-cpu");
        assert!(text.ends_with("far below what the intervals tell apart."), "{text}");
    }

    #[test]
    fn few_contests_are_chosen_from_all_places_and_from_both_ends_of_the_sizes() {
        let mut report = Report::default();
        for placement in ["same-cpu", "two-cpus"] {
            for size in [1, 2, 4, 8, 16] {
                let mut contest = contest(&[("a", 0, 1.0, None), ("b", 0, 1.0, None)], &[], size);
                contest.what.contestants.iter_mut().for_each(|one| one.case.placement = placement.into());
                report.contests.push(contest);
            }
        }
        let all = contests(&report);
        let sizes =
            |count| chosen(&all, count).iter().map(|one| place_of(one).payload_bytes).collect::<Vec<_>>();
        assert_eq!(sizes(4), [1, 16, 1, 16]);
        assert_eq!(sizes(6), [1, 4, 16, 1, 4, 16]);
        assert_eq!(sizes(99), [1, 2, 4, 8, 16, 1, 2, 4, 8, 16]);
    }

    #[test]
    fn a_pair_is_said_to_differ_where_its_interval_excludes_one() {
        let unclear = "there is no clear difference between ring-futex and pipe (speed ratio 1.05, interval ";
        for (speedup, ci95, says) in [
            (1.3, Some([1.2, 1.4]), "ring-futex is 1.30 × faster than pipe (interval 1.20–1.40)".into()),
            (0.5, Some([0.4, 0.8]), "ring-futex is 2.00 × slower than pipe (interval 1.25–2.50)".into()),
            // A ratio close to one is not called one.
            (1.004, Some([1.002, 1.006]), "ring-futex is 1.004 × faster than pipe (interval 1.002–1.01)".into()),
            (1.05, Some([0.9, 1.1]), format!("{unclear}0.90–1.10)")),
            (1.05, Some([1.0, 1.2]), format!("{unclear}1.00–1.20)")),
            (1.05, Some([0.8, 1.0]), format!("{unclear}0.80–1.00)")),
            (
                3.0,
                None,
                "ring-futex and pipe were compared in 4 pairs only, too few for an interval (speed ratio 3.00)".into(),
            ),
        ] {
            let case = |mechanism| CaseId::new("roundtrip", mechanism, 4096, "same-cpu");
            let what =
                Comparison { case: case("ring-futex"), baseline: case("pipe"), speedup, ci95, pairs: 4 };
            let text = finding(&Report::default(), &Sourced { source: 0, what });
            assert_eq!(text, format!("At 4 KiB on one CPU {says}."));
        }
    }
}
