//! Which of some contestants meets demands for the least cost, what is sure of that, and what each demand costs.
//!
//! The order and what is sure of it are those of the contest: nothing is estimated here.

use std::collections::HashSet;

use serde::{Serialize, Serializer};
use weighbridge_record::{CaseId, Contest, Properties, Property};
use weighbridge_stats::load::is_held;

use crate::units::grouped;

/// What a choice must have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Demand {
    /// A property of its mechanism.
    Has(Property),
    /// That it holds so many operations a second on so many CPUs.
    Rate {
        /// Operations in a second.
        per_s: f64,
        /// CPUs that there are.
        cpus: f64,
    },
    /// That it takes at most this share of a CPU at the rate.
    Budget(f64),
}

impl Demand {
    /// As a sentence has it.
    pub fn in_words(self) -> String {
        match self {
            Demand::Has(property) => property.in_words().into(),
            Demand::Rate { per_s, .. } => format!("holds {} a second", grouped(per_s.round() as u64)),
            Demand::Budget(share) => format!("at most {} of a CPU", super::percent(share)),
        }
    }

    /// Does this contestant meet it? What is not known of it, it does not.
    fn is_met(self, by: &Contender) -> bool {
        match self {
            Demand::Has(property) => by.properties.is_some_and(|own| own.has(property)),
            Demand::Rate { per_s, cpus } => match &by.at_rate {
                Some(at) => is_held(per_s, at.held_per_s),
                // One after the other no more come through than back to back, however little CPU time each takes.
                None => {
                    by.back_to_back_per_s.is_none_or(|most| most >= per_s)
                        && by.cpu_share.is_some_and(|share| share <= cpus)
                }
            },
            Demand::Budget(most) => by.cpu_share.is_some_and(|share| share <= most),
        }
    }
}

/// Its words.
impl Serialize for Demand {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.in_words())
    }
}

/// What was measured with operations due at the rate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AtRate {
    /// What an operation took from when it was due, in the unit of the contender.
    pub value: f64,
    /// Operations in a second that were reached.
    pub held_per_s: f64,
    /// CPU time of all processes in a second, as a share of one CPU.
    pub cpu_share: f64,
}

/// A contestant, and what is known of it for a choice.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Contender {
    /// The case.
    pub case: CaseId,
    /// The mechanism, with those of its axes in which contestants differ.
    pub name: String,
    /// What an operation costs, in `unit`; of a rate it is that.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// Its cost over that of the contestant with the lowest.
    pub times_first: f64,
    /// What a choice may demand of it, where that is known.
    pub properties: Option<Properties>,
    /// Operations in a second that come through back to back.
    pub back_to_back_per_s: Option<f64>,
    /// The share of one CPU that all its processes take together at the rate: as measured there, or CPU time per operation times the rate.
    pub cpu_share: Option<f64>,
    /// What was measured at the rate.
    pub at_rate: Option<AtRate>,
    /// Does the end that waits do so in poll or epoll?
    pub polls: bool,
    /// Does it poll before it sleeps, so that between operations that are far apart it does what it does not back to back?
    pub polls_first: bool,
    /// Does it spin, so that it takes its CPUs whole whatever the rate is?
    pub spins: bool,
}

/// Who takes at most this share of what there is holds a rate at which it was not measured.
const AMPLE: f64 = 0.5;

impl Contender {
    /// Operations in a second that it reached where they were due at the rate, else back to back.
    pub fn reached_per_s(&self) -> Option<f64> {
        self.at_rate.as_ref().map(|at| at.held_per_s).or(self.back_to_back_per_s)
    }

    /// Is it sure that it holds a rate: was it measured there, or do its figures leave room, and does it wait alike at every rate?
    pub fn surely_holds(&self, per_s: f64, cpus: f64) -> bool {
        self.at_rate.is_some()
            || !self.polls_first
                && self.back_to_back_per_s.is_none_or(|most| per_s <= AMPLE * most)
                && self.cpu_share.is_some_and(|share| share <= AMPLE * cpus || self.spins)
    }
}

/// Who stands before whom.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// Lowest cost first, as in the contest.
    pub contenders: &'a [Contender],
    /// What is sure of their order.
    pub contest: &'a Contest,
}

/// What a demand costs: what would be chosen without it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Price {
    /// Without which demand; absent of all of them together.
    pub demand: Option<Demand>,
    /// What would be chosen.
    pub without: String,
    /// How many times that the choice costs; at least 1.
    pub times: f64,
    /// Is it sure that the choice costs more?
    pub is_sure: bool,
}

/// Whom a demand excludes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Excluded {
    /// The demand.
    pub demand: Demand,
    /// Mechanisms.
    pub mechanisms: Vec<String>,
}

/// What follows from demands.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Index of the choice: of those that meet the demands the one with the lowest cost; nothing where none does.
    pub chosen: Option<usize>,
    /// Indices of those that meet the demands, too, and are not surely behind.
    pub not_told_apart: Vec<usize>,
    /// Index of the next mechanism that meets the demands.
    pub runner_up: Option<usize>,
    /// What the demands cost, each and all; those that cost nothing left out.
    pub prices: Vec<Price>,
    /// Who does not meet them.
    pub excluded: Vec<Excluded>,
    /// Where nothing meets the demands: which of them to give up, and the index of what is chosen then.
    pub to_give_up: Option<(Vec<Demand>, usize)>,
}

impl Field<'_> {
    /// Does the first surely cost less than the second?
    pub fn is_ahead(&self, first: usize, second: usize) -> bool {
        let [first, second] = [first, second].map(|index| &self.contenders[index].case);
        self.contest.sure.iter().any(|order| order.ahead.contains(first) && order.behind.contains(second))
    }

    /// The first that meets the demands, but for some of them.
    fn best(&self, demands: &[Demand], without: &[Demand]) -> Option<usize> {
        let meets = |by: &Contender| {
            demands.iter().filter(|demand| !without.contains(demand)).all(|demand| demand.is_met(by))
        };
        self.contenders.iter().position(meets)
    }

    /// What follows from these demands.
    pub fn choose(&self, demands: &[Demand]) -> Choice {
        let meets: Vec<usize> = (0..self.contenders.len())
            .filter(|index| demands.iter().all(|demand| demand.is_met(&self.contenders[*index])))
            .collect();
        let excluded = self.excluded(demands, &meets);
        let Some((&chosen, others)) = meets.split_first() else {
            return Choice {
                chosen: None,
                not_told_apart: Vec::new(),
                runner_up: None,
                prices: Vec::new(),
                excluded,
                to_give_up: self.fewest_missed(demands),
            };
        };
        let mechanism = |index: usize| &self.contenders[index].case.mechanism;
        Choice {
            chosen: Some(chosen),
            not_told_apart: others.iter().copied().filter(|other| !self.is_ahead(chosen, *other)).collect(),
            runner_up: others.iter().copied().find(|other| mechanism(*other) != mechanism(chosen)),
            prices: self.prices(demands, chosen),
            excluded,
            to_give_up: None,
        }
    }

    fn prices(&self, demands: &[Demand], chosen: usize) -> Vec<Price> {
        let price = |demand: Option<Demand>, without: &[Demand]| {
            let best = self.best(demands, without).filter(|best| *best != chosen)?;
            let [ours, theirs] = [chosen, best].map(|index| &self.contenders[index]);
            Some(Price {
                demand,
                without: theirs.name.clone(),
                times: ours.times_first / theirs.times_first,
                is_sure: self.is_ahead(best, chosen),
            })
        };
        let mut prices: Vec<Price> =
            demands.iter().filter_map(|demand| price(Some(*demand), &[*demand])).collect();
        let all = (demands.len() > 1).then(|| price(None, demands)).flatten();
        // Where one demand alone leads to the same choice as all of them, its own line tells the price of all.
        if all.as_ref().is_some_and(|all| prices.iter().all(|one| one.without != all.without)) {
            prices.extend(all);
        }
        prices
    }

    /// Mechanisms of which no variant meets the demands, each below those that its best variant does not meet.
    fn excluded(&self, demands: &[Demand], meets: &[usize]) -> Vec<Excluded> {
        let allowed: HashSet<&str> =
            meets.iter().map(|index| self.contenders[*index].case.mechanism.as_str()).collect();
        let mut out: Vec<Excluded> =
            demands.iter().map(|demand| Excluded { demand: *demand, mechanisms: Vec::new() }).collect();
        let mut seen = HashSet::new();
        for contender in self.contenders {
            let mechanism = contender.case.mechanism.as_str();
            if allowed.contains(mechanism) || !seen.insert(mechanism) {
                continue;
            }
            let variants = self.contenders.iter().filter(|other| other.case.mechanism == mechanism);
            let missed = |by: &Contender| -> Vec<usize> {
                (0..demands.len()).filter(|index| !demands[*index].is_met(by)).collect()
            };
            for index in variants.map(missed).min_by_key(Vec::len).unwrap_or_default() {
                out[index].mechanisms.push(mechanism.to_owned());
            }
        }
        out.retain(|excluded| !excluded.mechanisms.is_empty());
        out
    }

    /// The fewest demands to give up so that something meets the others; among these, what then costs least.
    fn fewest_missed(&self, demands: &[Demand]) -> Option<(Vec<Demand>, usize)> {
        let missed = |by: &Contender| -> Vec<Demand> {
            demands.iter().copied().filter(|demand| !demand.is_met(by)).collect()
        };
        let all = self.contenders.iter().enumerate().map(|(index, by)| (missed(by), index));
        all.min_by_key(|(missed, index)| (missed.len(), *index))
    }
}

#[cfg(test)]
mod tests {
    use weighbridge_record::{Across, Contestant, SureOrder};

    use super::*;

    /// Contestants with what they cost, what they have and their share of a CPU; the first named in `sure` are ahead of the others.
    fn field(of: &[(&str, f64, &[Property], f64)], sure: &[(&str, &[&str])]) -> (Vec<Contender>, Contest) {
        let case = |name: &str| CaseId::new("roundtrip", name, 64, "two-cpus");
        let contender = |(name, times, has, share): &(&str, f64, &[Property], f64)| Contender {
            case: case(name),
            name: (*name).into(),
            value: 1000.0 * times,
            unit: "ns/roundtrip".into(),
            times_first: *times,
            properties: Some(Properties::of(has, Across::OneNamespace)),
            back_to_back_per_s: Some(1e6 / *times),
            cpu_share: Some(*share),
            at_rate: None,
            polls: false,
            polls_first: false,
            spins: false,
        };
        let contestant = |(name, times, ..): &(&str, f64, &[Property], f64)| Contestant {
            case: case(name),
            tier: 0,
            may_be_best: true,
            times_first: *times,
            interval: None,
            sets: 9,
        };
        let order = |(ahead, behind): &(&str, &[&str])| SureOrder {
            ahead: vec![case(ahead)],
            behind: behind.iter().map(|name| case(name)).collect(),
        };
        let contest = Contest {
            contestants: of.iter().map(contestant).collect(),
            sure: sure.iter().map(order).collect(),
            confidence: 0.95,
        };
        (of.iter().map(contender).collect(), contest)
    }

    const POLLABLE: Demand = Demand::Has(Property::Pollable);
    const OTHER_USERS: Demand = Demand::Has(Property::OtherUsers);

    type Told = (Vec<Contender>, Contest);

    fn told() -> Told {
        field(
            &[
                ("ring", 1.0, &[], 1.0),
                ("bell", 1.5, &[Property::Pollable], 0.2),
                ("pipe", 2.0, &[Property::Pollable, Property::OtherUsers], 0.3),
                ("socket", 2.1, &[Property::Pollable, Property::OtherUsers], 0.05),
                ("queue", 3.0, &[Property::OtherUsers], 0.4),
            ],
            &[("ring", &["bell", "pipe", "socket", "queue"]), ("pipe", &["queue"])],
        )
    }

    fn choose((contenders, contest): &Told, demands: &[Demand]) -> Choice {
        Field { contenders, contest }.choose(demands)
    }

    #[test]
    fn the_first_that_meets_the_demands_is_chosen_and_the_others_are_named_below_what_they_lack() {
        let choice = choose(&told(), &[POLLABLE, OTHER_USERS]);
        assert_eq!((choice.chosen, choice.runner_up), (Some(2), Some(3)));
        let excluded: Vec<_> = choice.excluded.iter().map(|of| of.mechanisms.join(" ")).collect();
        assert_eq!(excluded, ["ring queue", "ring bell"]);
    }

    #[test]
    fn what_is_not_surely_behind_is_not_told_apart() {
        assert_eq!(choose(&told(), &[OTHER_USERS]).not_told_apart, [3], "the queue is surely behind");
        let first = choose(&told(), &[]);
        assert_eq!((first.chosen, first.not_told_apart, first.prices), (Some(0), vec![], vec![]));
    }

    #[test]
    fn a_demand_costs_what_would_be_chosen_without_it() {
        let price = |demands: &[Demand]| -> Vec<(Option<Demand>, String, f64, bool)> {
            let prices = choose(&told(), demands).prices.into_iter();
            prices.map(|of| (of.demand, of.without, of.times, of.is_sure)).collect()
        };
        assert_eq!(price(&[POLLABLE]), [(Some(POLLABLE), "ring".into(), 1.5, true)]);
        let both = price(&[POLLABLE, OTHER_USERS]);
        let of_bell = 2.0 / 1.5;
        assert_eq!(
            both,
            [(Some(OTHER_USERS), "bell".into(), of_bell, false), (None, "ring".into(), 2.0, true)],
            "that it is pollable costs nothing beside the other; both together do"
        );
    }

    #[test]
    fn a_budget_of_cpu_excludes_who_takes_more() {
        let budget = Demand::Budget(0.1);
        let choice = choose(&told(), &[OTHER_USERS, budget]);
        assert_eq!(choice.chosen, Some(3));
        assert_eq!(choice.excluded.last().unwrap().mechanisms, ["ring", "bell", "pipe", "queue"]);
        assert_eq!(choose(&told(), &[Demand::Rate { per_s: 1e6, cpus: 0.04 }]).chosen, None);
    }

    #[test]
    fn who_was_seen_not_to_hold_the_rate_is_excluded_whatever_it_takes() {
        let (mut contenders, contest) = told();
        contenders[0].at_rate = Some(AtRate { value: 1e6, held_per_s: 15_000.0, cpu_share: 0.1 });
        let choice = choose(&(contenders, contest), &[Demand::Rate { per_s: 20_000.0, cpus: 2.0 }]);
        assert_eq!((choice.chosen, choice.excluded[0].mechanisms.concat()), (Some(1), "ring".into()));
    }

    /// A peer on a CPU that halts takes long and little CPU time.
    #[test]
    fn who_takes_longer_back_to_back_than_the_rate_allows_does_not_hold_it() {
        let rate = Demand::Rate { per_s: 1_500_000.0, cpus: 3.0 };
        let choice = choose(&told(), &[OTHER_USERS, rate]);
        assert_eq!(
            (choice.chosen, choice.to_give_up),
            (None, Some((vec![rate], 2))),
            "a pipe reaches 500,000"
        );
    }

    #[test]
    fn where_nothing_meets_the_demands_the_fewest_are_given_up() {
        let demands = [POLLABLE, OTHER_USERS, Demand::Has(Property::SurvivesKill)];
        let choice = choose(&told(), &demands);
        assert_eq!((choice.chosen, choice.to_give_up), (None, Some((vec![demands[2]], 2))));
    }

    #[test]
    fn a_mechanism_that_meets_the_demands_in_one_variant_is_not_excluded() {
        let (mut contenders, contest) = told();
        contenders[4].case = contenders[2].case.clone().with("wait", "block");
        let choice = choose(&(contenders, contest), &[POLLABLE, OTHER_USERS]);
        assert!(choice.excluded.iter().all(|of| !of.mechanisms.contains(&"pipe".into())), "{choice:?}");
    }

    #[test]
    fn what_is_not_known_of_a_case_it_does_not_have() {
        let (mut contenders, contest) = told();
        contenders.iter_mut().for_each(|one| one.properties = None);
        assert_eq!(choose(&(contenders, contest), &[POLLABLE]).chosen, None);
    }
}
