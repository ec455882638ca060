//! The answer first: for each question of a record, which mechanisms cost how many times the fastest, in groups whose order is sure.

use serde::Serialize;
use weighbridge_record::{CaseId, Contest, Contestant, Property};

use super::Context;
use super::findings::{chosen, contests, name, named, nothing_apart, place_of, ratio, settings};
use crate::document::{Block, Rank, Ranking, Section};
use crate::model::{Report, Sourced};
use crate::units::{size, with_unit};
use crate::words;

const ABOUT: &str = "How many times the fastest the others cost, those alike in one row. All of a row cost less than all of the next for sure, unless ? \
     is between them. In parentheses is where the intervals of a row lie; all hold at once, at 95 %. A bar is solid up to the lowest figure of its row, and shaded up to the \
     highest end of an interval.";

const ABOUT_FOLLOWS: &str =
    "Below the rows stands what costs least of those that have something which the first lacks.";

/// Questions on a terminal; a page has them all.
const QUESTIONS: usize = 5;
/// Rows of one question: what is far behind is told together.
const ROWS: usize = 6;
/// The axis that a title has in words.
const RECEIVERS: &str = "receivers";
/// Those of a row cost at most so many times the first of them.
const ALIKE: f64 = 1.2;

/// None where the record compares nothing.
pub fn sections(cx: &Context<'_>) -> Vec<Section> {
    let report = cx.report;
    let all = contests(report);
    if all.is_empty() || report.counts_instructions() {
        return Vec::new();
    }
    let shown = chosen(&all, QUESTIONS);
    let rankings: Vec<Ranking> = shown.iter().map(|contest| ranking(report, contest)).collect();
    let has_more = rankings.iter().any(|ranking| !ranking.follows.is_empty());
    let about = if has_more { format!("{ABOUT} {ABOUT_FOLLOWS}") } else { ABOUT.into() };
    let mut blocks = vec![Block::Paragraph(about)];
    if all.iter().all(|contest| contest.what.sure.is_empty()) {
        blocks.insert(0, Block::Paragraph(nothing_apart(report, &all)));
    }
    blocks.extend(rankings.into_iter().map(Block::Ranking));
    let is_shown = |of: &&Sourced<Contest>| shown.iter().any(|one| std::ptr::eq(*one, *of));
    let rest: Vec<Block> =
        all.iter().filter(|of| !is_shown(of)).map(|of| Block::Ranking(ranking(report, of))).collect();
    if !rest.is_empty() {
        blocks.push(Block::fold(words::many(rest.len(), "further question"), rest));
    }
    Section::new("answers", "Answers", blocks)
}

fn ranking(report: &Report, contest: &Sourced<Contest>) -> Ranking {
    let id = place_of(contest);
    let first = &contest.what.contestants[0];
    let payload =
        if id.payload_bytes == 0 { String::new() } else { format!(" of {}", size(id.payload_bytes)) };
    let measured = report.case(contest.source, &first.case);
    let cost = measured.and_then(|case| case.summary.as_ref());
    let cost =
        cost.map_or(String::new(), |summary| format!(", {}", with_unit(&summary.unit, summary.median)));
    let axes = measured.and_then(|case| Some(&case.case.as_ref()?.axes)).unwrap_or(&first.case.axes);
    let receivers = axes.get(RECEIVERS).and_then(|count| count.parse().ok());
    let receivers =
        receivers.map_or(String::new(), |count| format!(" to {}", words::many(count, "receiver")));
    let settings = settings(&contest.what, &["idle", RECEIVERS]);
    let settings = if settings.is_empty() { settings } else { format!(",{settings}") };
    let place = words::place(id.place());
    let told = |of: &Follows| {
        let properties: Vec<&str> = of.properties.iter().map(|property| property.in_words()).collect();
        format!("{}: {} ({})", properties.join(", "), named(report, contest, &of.case), ratio(of.times_first))
    };
    Ranking {
        title: format!("{}{payload}{receivers} {place}{settings}", words::pattern(&id.pattern)),
        unit: format!("1 = {}{cost}", name(report, contest, first)),
        rows: rows(report, contest),
        follows: follows(report, contest).iter().map(told).collect(),
    }
}

/// What follows for who demands something that the mechanism of the lowest cost does not have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Follows {
    /// What is demanded.
    pub properties: Vec<Property>,
    /// The case of the lowest cost that has each of them.
    pub case: CaseId,
    /// Its cost over that of the first: what the demand costs.
    pub times_first: f64,
}

/// In the order in which people read of properties; those with one answer together.
pub fn follows(report: &Report, contest: &Sourced<Contest>) -> Vec<Follows> {
    let properties = |one: &Contestant| report.case(contest.source, &one.case)?.case.as_ref()?.properties;
    let mut contestants: Vec<&Contestant> = contest.what.contestants.iter().collect();
    contestants.sort_by(|a, b| a.times_first.total_cmp(&b.times_first));
    let Some((first, others)) = contestants.split_first() else { return Vec::new() };
    let Some(own) = properties(first) else { return Vec::new() };
    let mut out: Vec<Follows> = Vec::new();
    for property in Property::ALL.into_iter().filter(|property| !own.has(*property)) {
        let has = |one: &&&Contestant| properties(one).is_some_and(|of| of.has(property));
        let Some(best) = others.iter().find(has) else { continue };
        match out.iter_mut().find(|known| known.case == best.case) {
            Some(known) => known.properties.push(property),
            None => out.push(Follows {
                properties: vec![property],
                case: best.case.clone(),
                times_first: best.times_first,
            }),
        }
    }
    out
}

/// Those of a tier that cost about the same, lowest first.
fn rows(report: &Report, contest: &Sourced<Contest>) -> Vec<Rank> {
    let mut groups: Vec<Vec<&Contestant>> = Vec::new();
    // A contest is in the order of how far each is ahead of all others on average, which need not be that of the figures.
    let mut contestants: Vec<&Contestant> = contest.what.contestants.iter().collect();
    contestants.sort_by(|a, b| a.tier.cmp(&b.tier).then(a.times_first.total_cmp(&b.times_first)));
    for one in contestants {
        let is_alike = |of: &Contestant| of.tier == one.tier && one.times_first <= of.times_first * ALIKE;
        match groups.last_mut() {
            Some(group) if is_alike(group[0]) => group.push(one),
            _ => groups.push(vec![one]),
        }
    }
    if groups.len() > ROWS {
        let behind = groups.split_off(ROWS - 1).concat();
        groups.push(behind);
    }
    let tier = |at: usize| groups.get(at).map(|group: &Vec<&Contestant>| group[0].tier);
    let row = |(at, group): (usize, &Vec<&Contestant>)| {
        let ends = [group[0], group[group.len() - 1]].map(|one| ratio(one.times_first));
        let costs = group.iter().map(|one| one.times_first);
        let interval = hull(group);
        let is_known = group.iter().any(|one| one.interval.is_some());
        Rank {
            names: group.iter().map(|one| name(report, contest, one)).collect(),
            times: if ends[0] == ends[1] { ends[0].clone() } else { ends.join("–") },
            estimate: costs.fold(f64::INFINITY, f64::min),
            ends: interval,
            interval: is_known.then(|| interval.map(ratio).join("–")),
            is_sure: tier(at + 1).is_none_or(|next| Some(next) != tier(at)),
        }
    };
    groups.iter().enumerate().map(row).collect()
}

/// The lowest and the highest end of what is known of the costs of a row.
fn hull(group: &[&Contestant]) -> [f64; 2] {
    let ends = |one: &&Contestant| one.interval.unwrap_or([one.times_first; 2]);
    let fold = |[low, high]: [f64; 2], [a, b]: [f64; 2]| [low.min(a), high.max(b)];
    group.iter().map(ends).fold([f64::INFINITY, 0.0], fold)
}

#[cfg(test)]
mod tests {
    use weighbridge_record::CaseId;

    use super::*;

    type Told<'a> = (&'a str, u32, f64, Option<[f64; 2]>);

    fn contest(of: &[Told<'_>]) -> Sourced<Contest> {
        let contestant = |(mechanism, tier, times_first, interval): &Told<'_>| Contestant {
            case: CaseId::new("roundtrip", mechanism, 4096, "same-cpu"),
            tier: *tier,
            may_be_best: *tier == 0,
            times_first: *times_first,
            interval: *interval,
            sets: 9,
        };
        let contestants = of.iter().map(contestant).collect();
        Sourced { source: 0, what: Contest { contestants, sure: Vec::new(), confidence: 0.95 } }
    }

    #[test]
    fn a_row_has_those_that_cost_about_the_same_and_says_where_an_order_is_sure() {
        let of = contest(&[
            ("a", 0, 1.0, None),
            ("b", 0, 1.02, Some([0.99, 1.06])),
            ("c", 0, 1.3, Some([0.9, 1.4])),
            ("e", 1, 2.1, Some([1.8, 2.15])),
            ("d", 1, 2.0, Some([1.9, 2.2])),
        ]);
        let ranking = ranking(&Report::default(), &of);
        assert_eq!((&ranking.title[..], &ranking.unit[..]), ("Round trip of 4 KiB on one CPU", "1 = a"));
        let rows: Vec<_> = ranking
            .rows
            .iter()
            .map(|row| {
                (row.names.join(" "), &row.times[..], row.interval.as_deref(), row.estimate, row.is_sure)
            })
            .collect();
        let expected = [
            ("a b", "1.00–1.02", Some("0.99–1.06"), 1.0, false),
            ("c", "1.30", Some("0.90–1.40"), 1.3, true),
            ("d e", "2.00–2.10", Some("1.80–2.20"), 2.0, true),
        ];
        assert_eq!(
            rows,
            expected.map(|(names, times, interval, of, sure)| (names.to_owned(), times, interval, of, sure))
        );
    }

    /// What costs more has the longer solid bar, however little is known of it.
    #[test]
    fn a_bar_is_solid_up_to_the_figure_and_not_to_the_low_end_of_its_interval() {
        let of = contest(&[("a", 0, 1.0, None), ("b", 0, 1.43, Some([0.36, 19.2]))]);
        let ranking = ranking(&Report::default(), &of);
        let solid: Vec<f64> = ranking.rows.iter().map(|row| ranking.shares(row)[0]).collect();
        assert!(solid[0] < solid[1], "{solid:?}");
    }

    #[test]
    fn who_demands_what_the_first_lacks_is_told_what_then_costs_least() {
        use Property::{Boundaries, OtherUsers, Pollable, WithoutSharedMemory};
        let of = contest(&[("ring", 0, 1.0, None), ("pipe", 1, 1.13, None), ("tcp", 1, 2.6, None)]);
        let has: [&[Property]; 3] = [
            &[Boundaries],
            &[OtherUsers, WithoutSharedMemory],
            &[OtherUsers, WithoutSharedMemory, Pollable, Boundaries],
        ];
        let lines = of.what.contestants.iter().zip(has).map(|(one, has)| {
            let properties = Some(weighbridge_record::Properties::of(has, Default::default()));
            weighbridge_record::Line::Case(weighbridge_record::Case {
                case: one.case.clone(),
                properties,
                ..Default::default()
            })
        });
        let reading = weighbridge_record::Reading { lines: lines.collect(), problems: Vec::new() };
        let report = Report::from_reading(reading);
        let expected = [
            "users that do not trust each other, without shared memory: pipe (1.13)",
            "pollable: tcp (2.60)",
        ];
        assert_eq!(
            ranking(&report, &of).follows,
            expected,
            "nothing survives a kill; the first has boundaries"
        );
        assert_eq!(ranking(&Report::default(), &of).follows, [""; 0], "of an old record nothing is known");
    }

    #[test]
    fn axes_that_all_have_in_common_are_in_the_title_and_in_no_name() {
        let with = |times: [(&str, &str); 2]| {
            let mut of = contest(&[("a", 0, 1.0, None), ("b", 1, 2.0, None)]);
            for one in &mut of.what.contestants {
                one.case.pattern = "fan-out".into();
                for (axis, value) in times {
                    one.case.axes.insert(axis.into(), value.into());
                }
            }
            of.what.contestants[1].case.axes.insert("wait".into(), "poll".into());
            ranking(&Report::default(), &of)
        };
        let ranking = with([("receivers", "20"), ("touch", "none")]);
        assert_eq!(ranking.title, "Fan-out of 4 KiB to 20 receivers on one CPU, touch=none");
        assert_eq!((&ranking.unit[..], &ranking.rows[1].names[0][..]), ("1 = a", "b wait=poll"));
    }

    #[test]
    fn of_many_rows_the_last_are_told_together() {
        let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
        let of: Vec<_> = (0u32..9)
            .map(|tier| (names[tier as usize], tier, f64::from(tier + 1), Some([f64::from(tier + 1); 2])))
            .collect();
        let rows = ranking(&Report::default(), &contest(&of)).rows;
        assert_eq!((rows.len(), rows[5].names.join(" ")), (ROWS, "f g h i".into()));
        assert_eq!((&rows[5].times[..], rows[5].ends), ("6.00–9.00", [6.0, 9.0]));
    }
}
