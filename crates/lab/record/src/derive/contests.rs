//! Cases that differ only in the mechanism, compared with each other; all contests of a record judged together.

use std::collections::{BTreeMap, HashMap, VecDeque};

use weighbridge_stats::contest;
use weighbridge_stats::correlation::pooled_lag1;
use weighbridge_stats::discovery;
use weighbridge_stats::duet::{Party, Slice, set_log_ratio};
use weighbridge_stats::evidence::Evidence;

use crate::{CaseId, Contest, Contestant, Findings, Hub, Run, SliceSeries, Slices, SureOrder};

/// Largest share of the contests with a claim of which something wrong may be said, on average.
pub const FALSE_DISCOVERY_RATE: f64 = 0.05;

/// Axes that say how a mechanism is used, and not what it has to do: cases that differ in them only are in one contest.
const OF_THE_MECHANISM: [&str; 15] = [
    "wait",
    "trust",
    "receive",
    "reuse",
    "backing",
    "sleeps-on",
    "capacity",
    "depth",
    "pipe-size",
    "sndbuf",
    "rcvbuf",
    "max-events",
    "yield-limit",
    "latency-ns",
    "latency-ns-per-kib",
];

/// Does an axis say how a mechanism is used?
pub fn is_of_the_mechanism(axis: &str) -> bool {
    OF_THE_MECHANISM.contains(&axis)
}

/// Patterns whose cases are different work, and not different ways to do the same.
const DIFFERENT_WORK: [&str; 2] = ["solo", "parallel"];

/// The pattern of what other tools measured: different work, but for cases that say to what they are alternatives.
const IMPORTED: &str = "imported";

/// Mechanisms that are no mechanism: the harness itself.
const NO_MECHANISM: &str = "noop";

/// A case that may take part in a contest.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Its id.
    pub case: &'a CaseId,
    /// Its unit; contestants have the same.
    pub unit: &'a str,
    /// Is a larger value better?
    pub higher_is_better: bool,
    /// Of an imported case, what it is one of several ways to do; see [`ALTERNATIVE_TO`](crate::ALTERNATIVE_TO).
    pub alternative_to: Option<&'a str>,
    /// Its runs.
    pub runs: &'a [Run],
}

/// The natural logarithm of what a case cost as a multiple of what its hub cost, from the slices of one set; nothing with too few
/// slices.
pub fn log_ratio_to_hub(slices: &Slices) -> Option<f64> {
    let of = |series: &SliceSeries, party| -> Vec<Slice> {
        let each = series.start_ns.iter().zip(&series.elapsed_ns).zip(&series.ops);
        let slice = |((&start_ns, &elapsed_ns), &ops): ((&u64, &u64), &u64)| Slice {
            start_ns,
            elapsed_ns,
            ops,
            party,
        };
        each.map(slice).filter(|slice| slice.ops > 0).collect()
    };
    let mut all = of(&slices.of_case, Party::Case(0));
    all.extend(of(&slices.of_hub, Party::Hub));
    all.sort_by_key(|slice| slice.start_ns);
    set_log_ratio(&all, Party::Case(0), Party::Hub)
}

/// All contests among the cases of one record with these hubs, in the order of the cases, and what holds of all of them; nothing where no two
/// cases can be compared.
pub fn contests(entries: &[Entry<'_>], hubs: &[Hub]) -> (Vec<Contest>, Option<Findings>) {
    let groups: Vec<Vec<Costs<'_>>> = grouped(entries);
    let session = Session { hubs, ..Session::of(&groups) };
    let contest =
        |group: &Vec<Costs<'_>>| contest::Contest::new(group.len(), |i, j| group[j].over(&group[i], session));
    let found: Vec<contest::Contest> = groups.iter().map(contest).collect();
    if found.is_empty() {
        return (Vec::new(), None);
    }
    let judged = discovery::contests(&found, FALSE_DISCOVERY_RATE);
    let lines: Vec<Contest> = groups
        .iter()
        .zip(&found)
        .zip(&judged.chosen)
        .map(|((group, found), chosen)| line(group, found, *chosen, judged.confidence, session))
        .collect();
    let findings = Findings {
        contests: lines.len() as u32,
        claimed: lines.iter().filter(|line| !line.sure.is_empty()).count() as u32,
        fdr: FALSE_DISCOVERY_RATE,
        expected_by_chance: judged.expected_by_chance(),
    };
    (lines, Some(findings))
}

/// Groups of two or more that differ only in the mechanism and how it is used.
fn grouped<'a>(entries: &[Entry<'a>]) -> Vec<Vec<Costs<'a>>> {
    let mut places = HashMap::new();
    let mut groups: Vec<Vec<Costs<'a>>> = Vec::new();
    for entry in entries {
        let id = entry.case;
        let is_comparable = match id.pattern.as_str() {
            IMPORTED => entry.alternative_to.is_some(),
            pattern => !DIFFERENT_WORK.contains(&pattern) && id.mechanism != NO_MECHANISM,
        };
        if !is_comparable {
            continue;
        }
        let costs = Costs::of(entry);
        if costs.by_round.is_empty() {
            continue;
        }
        let conditions: BTreeMap<&str, &str> = id
            .axes
            .iter()
            .filter(|(name, _)| !is_of_the_mechanism(name))
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let work = (id.pattern.as_str(), entry.alternative_to, id.payload_bytes);
        let key = (work, id.placement.as_str(), entry.unit, conditions);
        let place = *places.entry(key).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[place].push(costs);
    }
    groups.retain(|group| group.len() > 1);
    groups
}

fn line(
    group: &[Costs<'_>],
    found: &contest::Contest,
    is_chosen: bool,
    confidence: f64,
    session: Session<'_>,
) -> Contest {
    // Half of what may be wrong is for the order of pairs, half for which may be the best. Of two, one order says both.
    let is_pair = group.len() == 2;
    let each = if is_pair { confidence } else { 1.0 - (1.0 - confidence) / 2.0 };
    let tiers = found.tiers(each);
    let best = found.against_best(each);
    let ratios = found.ratios(each);
    let first = tiers.order[0];
    let tier = |index: usize| {
        let place = tiers.tiers.iter().position(|tier| tier.contains(&index));
        if is_chosen { place.expect("every contestant has a tier") as u32 } else { 0 }
    };
    let contestant = |index: &usize| {
        let index = *index;
        let pair = ratios.iter().find(|(i, j, _)| (*i, *j) == (first.min(index), first.max(index)));
        let interval = pair.and_then(|(i, _, interval)| {
            let interval = (*interval)?;
            // The interval is of the later one over the earlier one.
            Some(if *i == first {
                [interval.low, interval.high]
            } else {
                [1.0 / interval.high, 1.0 / interval.low]
            })
        });
        let times_first = if index == first {
            1.0
        } else {
            group[index].over(&group[first], session).ratio().expect("both were measured")
        };
        Contestant {
            case: group[index].case.clone(),
            tier: tier(index),
            may_be_best: match (is_chosen, is_pair) {
                (false, _) => true,
                (true, true) => tier(index) == 0,
                (true, false) => best[index].may_be_best(),
            },
            times_first,
            interval,
            sets: group[index].by_round.len() as u32,
        }
    };
    let ids = |of: &[usize]| of.iter().map(|index| group[*index].case.clone()).collect();
    let statements = if is_chosen { tiers.statements() } else { Vec::new() };
    Contest {
        contestants: tiers.order.iter().map(contestant).collect(),
        sure: statements
            .iter()
            .map(|order| SureOrder { ahead: ids(&order.ahead), behind: ids(&order.behind) })
            .collect(),
        confidence,
    }
}

/// What is known of the sets of all cases together.
#[derive(Clone, Copy, Default)]
struct Session<'a> {
    hubs: &'a [Hub],
    /// Correlation of neighboring ratios to hubs.
    of_ratios: f64,
    /// The same of values, which have in them what the machine did.
    of_values: f64,
}

impl<'a> Session<'a> {
    fn of(groups: &[Vec<Costs<'_>>]) -> Session<'a> {
        let all = || groups.iter().flatten();
        let of_ratios: Vec<&[f64]> = all().map(|costs| &costs.to_hub[..]).collect();
        let of_values: Vec<Vec<f64>> = all().map(Costs::values).collect();
        Session {
            hubs: &[],
            of_ratios: pooled_lag1(&of_ratios).unwrap_or(0.0),
            of_values: pooled_lag1(&of_values).unwrap_or(0.0),
        }
    }

    /// From one hub to another over as few meetings as possible: of each the logarithms of the cost of the nearer one over that of the
    /// next. `None` where none of the ways has enough sets.
    fn path(&self, from: &CaseId, to: &CaseId) -> Option<Vec<Vec<f64>>> {
        let mut ways = VecDeque::from([(from, Vec::new())]);
        let mut seen = vec![from];
        while let Some((here, way)) = ways.pop_front() {
            if here == to {
                return Some(way);
            }
            for (one, meeting) in
                self.hubs.iter().flat_map(|hub| hub.meetings.iter().map(move |of| (&hub.case, of)))
            {
                let (next, sign) = match (one, &meeting.with) {
                    (one, next) if one == here => (next, 1.0),
                    (next, other) if other == here => (next, -1.0),
                    _ => continue,
                };
                if meeting.ratios.len() >= contest::FEWEST_SETS && !seen.contains(&next) {
                    seen.push(next);
                    let logs: Vec<f64> = meeting.ratios.iter().map(|ratio| sign * ratio.ln()).collect();
                    ways.push_back((next, [way.clone(), vec![logs]].concat()));
                }
            }
        }
        None
    }
}

/// Logarithms of the costs of a case, by round.
struct Costs<'a> {
    case: &'a CaseId,
    /// The hub of all its sets.
    hub: Option<&'a CaseId>,
    /// As multiples of the hub's cost.
    to_hub: Vec<f64>,
    /// The values of the runs, of a rate with the sign changed.
    by_round: BTreeMap<u32, f64>,
}

impl<'a> Costs<'a> {
    fn of(entry: &Entry<'a>) -> Costs<'a> {
        let usable = |run: &&Run| run.value.is_finite() && run.value > 0.0;
        let runs = || entry.runs.iter().filter(usable);
        let sign = if entry.higher_is_better { -1.0 } else { 1.0 };
        let hub = runs().find_map(|run| run.slices.as_ref()).map(|slices| &slices.hub);
        let ratio = |run: &Run| {
            let slices = run.slices.as_ref().filter(|slices| Some(&slices.hub) == hub)?;
            log_ratio_to_hub(slices)
        };
        Costs {
            case: entry.case,
            hub,
            to_hub: runs().filter_map(ratio).collect(),
            by_round: runs().map(|run| (run.round, sign * run.value.ln())).collect(),
        }
    }

    fn values(&self) -> Vec<f64> {
        self.by_round.values().copied().collect()
    }

    /// Evidence on the cost of this case over that of another one: through their hub or hubs that met, by the runs of the rounds that both
    /// have, or, where these are too few to prove anything, by all runs.
    fn over(&self, other: &Costs<'_>, session: Session<'_>) -> Evidence {
        if let Some((own, others)) = self.hub.zip(other.hub)
            && !self.to_hub.is_empty()
            && !other.to_hub.is_empty()
            && let Some(path) = session.path(own, others)
        {
            return Evidence::chain(&self.to_hub, &path, &other.to_hub).correlated(session.of_ratios);
        }
        let pair = |(round, cost): (&u32, &f64)| Some(cost - other.by_round.get(round)?);
        let pairs: Vec<f64> = self.by_round.iter().filter_map(pair).collect();
        let evidence = if pairs.len() >= contest::FEWEST_SETS {
            Evidence::paired(pairs)
        } else {
            Evidence::independent(&self.values(), &other.values())
        };
        evidence.correlated(session.of_values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twelve runs around a level, with a scatter of ± 2.75 % of their own.
    fn runs(id: &CaseId, level: f64, own: usize) -> Vec<Run> {
        let run = |round: u32| Run {
            case: id.clone(),
            run: round,
            round,
            value: level * (1.0 + (((round as usize * 5 + own * 7) % 12) as f64 - 5.5) * 0.005),
            ..Run::default()
        };
        (0..12).map(run).collect()
    }

    fn found(cases: &[(CaseId, f64)], unit: &str) -> (Vec<Contest>, Option<Findings>) {
        let runs: Vec<Vec<Run>> =
            cases.iter().enumerate().map(|(own, (id, level))| runs(id, *level, own)).collect();
        let entries: Vec<Entry<'_>> =
            cases.iter().zip(&runs).map(|((case, _), runs)| entry(case, unit, runs)).collect();
        contests(&entries, &[])
    }

    fn entry<'a>(case: &'a CaseId, unit: &'a str, runs: &'a [Run]) -> Entry<'a> {
        Entry { case, unit, higher_is_better: unit.ends_with("/s"), alternative_to: None, runs }
    }

    fn case(mechanism: &str) -> CaseId {
        CaseId::new("roundtrip", mechanism, 64, "same-cpu")
    }

    #[test]
    fn two_in_front_are_a_tier_for_times_and_for_rates() {
        for (unit, levels) in [("ns/roundtrip", [1.3, 1.0, 1.01]), ("bytes/s", [1.0 / 1.3, 1.0, 0.99])] {
            let cases = [case("tcp"), case("ring"), case("pipe")];
            let (lines, findings) = found(&cases.into_iter().zip(levels).collect::<Vec<_>>(), unit);
            let of = |index: usize| &lines[0].contestants[index];
            assert_eq!((of(0).case.mechanism.as_str(), of(2).case.mechanism.as_str()), ("ring", "tcp"));
            assert_eq!([of(0).tier, of(1).tier, of(2).tier], [0, 0, 1], "{lines:?}");
            assert!(of(0).may_be_best && of(1).may_be_best && !of(2).may_be_best);
            let [low, high] = of(2).interval.unwrap();
            assert!((1.28..1.32).contains(&of(2).times_first) && low > 1.2 && high < 1.4, "{lines:?}");
            assert_eq!((lines[0].sure[0].ahead.len(), lines[0].sure[0].behind.len()), (2, 1));
            let findings = findings.unwrap();
            assert_eq!((findings.contests, findings.claimed), (1, 1));
        }
    }

    /// Runs of a case in turn with a hub, in rounds from this one on.
    fn runs_with_hub(id: &CaseId, hub: &CaseId, times: f64, from: u32) -> Vec<Run> {
        let with_slices = |run: Run| {
            let drift = 1.0 + 0.02 * (f64::from(run.round * 7 % 5) - 2.0);
            let series = |cost: f64, offset: u64| SliceSeries {
                start_ns: (0..8).map(|slice| slice * 10_000_000 + offset).collect(),
                elapsed_ns: vec![(cost * 1e6) as u64; 8],
                ops: vec![1000; 8],
            };
            let slices = Slices {
                hub_roles: Vec::new(),
                hub: hub.clone(),
                slice_ms: 2.0,
                of_case: series(times * drift, 0),
                of_hub: series(1.0, 5_000_000),
            };
            Run { round: run.round + from, slices: Some(slices), ..run }
        };
        runs(id, 1000.0 * times, 1).into_iter().take(6).map(with_slices).collect()
    }

    /// A table with a factor of 150 between two cases is no reason to say that no order is sure.
    #[test]
    fn cases_of_different_hubs_that_share_no_round_are_compared_through_hubs_that_met() {
        let hub = |mechanism| CaseId::new("roundtrip", mechanism, 1, "same-cpu");
        let (ring, pipe) = (case("ring"), case("pipe"));
        let of_ring = runs_with_hub(&ring, &hub("spin"), 3.0, 0);
        let of_pipe = runs_with_hub(&pipe, &hub("pipe"), 2.0, 50);
        let entries = [entry(&ring, "ns/roundtrip", &of_ring), entry(&pipe, "ns/roundtrip", &of_pipe)];
        let meeting = |ratio: f64, sets: usize| {
            let ratios: Vec<f64> = (0..sets).map(|set| ratio * (1.0 + 0.01 * set as f64)).collect();
            crate::HubMeeting { with: hub("spin"), ratio, ci95: None, ratios }
        };
        let hubs = |sets: usize| Hub {
            case: hub("pipe"),
            unit: "ns".into(),
            median: 1000.0,
            range: [900.0, 1100.0],
            sets: 30,
            doubled_slices: None,
            meetings: vec![meeting(225.0, sets)],
            earlier: None,
        };
        let (lines, findings) = contests(&entries, &[hubs(8)]);
        let [first, last] = &lines[0].contestants[..] else { panic!("{lines:?}") };
        assert_eq!((first.case.mechanism.as_str(), last.tier), ("ring", 1), "{lines:?}");
        assert!((last.times_first / 155.0 - 1.0).abs() < 0.05 && findings.unwrap().claimed == 1, "{lines:?}");
        // Without meetings, all runs of both are compared: one costs two thirds of the other.
        for hubs in [&[hubs(3)][..], &[]] {
            let (lines, _) = contests(&entries, hubs);
            assert_eq!(lines[0].contestants[0].case.mechanism, "pipe");
            assert!(
                (lines[0].contestants[1].times_first - 1.5).abs() < 0.05 && lines[0].sure.len() == 1,
                "{lines:?}"
            );
        }
    }

    #[test]
    fn what_is_not_the_same_work_is_in_no_contest() {
        let alone = [
            (case("pipe"), 1.0),
            (case("pipe").with("touch", "none"), 9.0),
            (case("noop"), 9.0),
            (CaseId::new("roundtrip", "tcp", 128, "same-cpu"), 9.0),
            (CaseId::new("solo", "getpid", 0, "same-cpu"), 1.0),
            (CaseId::new("solo", "clock-read", 0, "same-cpu"), 9.0),
        ];
        assert_eq!(found(&alone, "ns/roundtrip"), (Vec::new(), None));
        let (lines, _) =
            found(&[(case("pipe"), 1.0), (case("pipe").with("wait", "poll"), 9.0)], "ns/roundtrip");
        assert_eq!(lines.len(), 1, "a way to wait is a choice");
    }

    #[test]
    fn imported_cases_are_compared_where_they_are_called_alternatives_to_one_thing() {
        let id = |name: &str| CaseId::new("imported", &format!("kernel-bench:{name}"), 256, "unknown");
        let cases = [
            ("noop:op", None),
            ("spin-lock:op", None),
            ("kmalloc-reuse:op", Some("reuse")),
            ("pool-reuse:op", Some("reuse")),
            ("pool-pattern:alloc", Some("pattern")),
        ];
        let measured: Vec<(CaseId, Vec<Run>)> = cases
            .iter()
            .enumerate()
            .map(|(own, (name, _))| (id(name), runs(&id(name), 1.0 + own as f64, own)))
            .collect();
        let entries: Vec<Entry<'_>> = measured
            .iter()
            .zip(cases)
            .map(|((case, runs), (_, alternative_to))| Entry { alternative_to, ..entry(case, "ns/op", runs) })
            .collect();
        let (lines, findings) = contests(&entries, &[]);
        let contestants: Vec<Vec<&str>> = lines
            .iter()
            .map(|line| line.contestants.iter().map(|one| one.case.mechanism.as_str()).collect())
            .collect();
        assert_eq!(contestants, [["kernel-bench:kmalloc-reuse:op", "kernel-bench:pool-reuse:op"]]);
        assert_eq!(findings.unwrap().contests, 1);
    }

    #[test]
    fn where_nothing_differs_nothing_is_claimed() {
        let cases: Vec<(CaseId, f64)> = ["a", "b", "c"].map(|name| (case(name), 1.0)).into();
        let (lines, findings) = found(&cases, "ns/roundtrip");
        assert!(
            lines[0].sure.is_empty()
                && lines[0].contestants.iter().all(|one| one.tier == 0 && one.may_be_best)
        );
        assert_eq!(findings.unwrap().claimed, 0);
    }
}
