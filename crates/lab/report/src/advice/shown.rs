//! An advice as a document of one screen.

use weighbridge_record::{Crossover, Property};

use super::{Advice, Contender, Demand, percent};
use crate::document::{Block, Document, Item, Section};
use crate::units::{grouped, significant, size, with_unit};
use crate::words::{listed, plain};

/// Names in one line; the others are counted.
const NAMED: usize = 12;

impl Advice {
    /// For people.
    pub fn document(&self) -> Document {
        let asked = &self.question;
        let demands: Vec<&str> = asked.demands.iter().map(|demand| demand.in_words()).collect();
        let mut question = asked.in_words();
        if !demands.is_empty() {
            question += &format!("; {}", demands.join(", "));
        }
        if let Some(budget) = asked.cpu_budget {
            question += &format!("; at most {} of a CPU", percent(budget));
        }
        let mut blocks = vec![Block::Paragraph(question)];
        blocks.push(Block::List(self.answer().into_iter().map(Item::from).collect()));
        let prices = self.prices();
        blocks.extend(Block::headed("What the demands cost", prices.into_iter().map(Item::from).collect()));
        blocks.extend(Block::headed("Excluded", self.excluded().into_iter().map(Item::from).collect()));
        let notes: Vec<Item> = self.notes().into_iter().map(Item::from).collect();
        blocks.extend(Block::headed("To know", notes));
        Document {
            title: "Weighbridge advice".into(),
            warnings: Vec::new(),
            sections: vec![Section { id: "advice".into(), title: "Advice".into(), blocks }],
        }
    }

    /// The choice in one line: `pipe, 5.21 µs/roundtrip, 12 % of a CPU`.
    fn told(&self, of: &Contender) -> String {
        let share = of.cpu_share.map(|share| {
            let spins = if of.spins { ", because it spins" } else { "" };
            format!(", {} of a CPU at the rate{spins}", percent(share))
        });
        let late =
            of.at_rate.as_ref().map(|at| format!(" ({} from when it is due)", with_unit(&of.unit, at.value)));
        let [share, late] = [share, late].map(Option::unwrap_or_default);
        format!("{}: {}{share}{late}", of.name, with_unit(&of.unit, of.value))
    }

    fn answer(&self) -> Vec<String> {
        let of = |index: usize| &self.contenders[index];
        let Some(choice) = self.choice else {
            let demands: Vec<String> = self.to_give_up.iter().map(|demand| demand.in_words()).collect();
            let then = self.choice_then.map_or(String::new(), |then| {
                let lacks_rate = self.to_give_up.iter().any(|demand| matches!(demand, Demand::Rate { .. }));
                let reached = of(then).reached_per_s().filter(|_| lacks_rate);
                let reached = reached
                    .map(|per_s| format!(", which reaches {} a second", grouped(per_s.round() as u64)));
                format!(" would leave {}{}", self.told(of(then)), reached.unwrap_or_default())
            });
            return vec![format!(
                "Nothing that was measured meets all demands; giving up \"{}\"{then}.",
                demands.join("\" and \"")
            )];
        };
        let chosen = of(choice);
        let mut lines = vec![format!("Take {}", self.told(chosen))];
        lines.push(match (self.not_told_apart.as_slice(), self.runner_up) {
            ([], _) if !self.surely_holds_rate => {
                "Not sure: whether it holds the rate was not measured; nothing else that does costs as little.".into()
            }
            ([], None) => "Sure: nothing else that was measured meets the demands.".into(),
            ([], Some(_)) => "Sure: everything else that meets the demands costs more.".into(),
            (others, _) => {
                let names = others.iter().map(|index| of(*index).name.clone()).collect();
                format!(
                    "Not sure: not told apart from {}; a longer --budget tells more.",
                    listed(NAMED, names)
                )
            }
        });
        if let Some(next) = self.runner_up.map(of) {
            let times = next.times_first / chosen.times_first;
            // Of two that are not told apart the figures may be in another order than the ratios.
            let is_behind = self.runner_up.is_some_and(|next| !self.not_told_apart.contains(&next));
            let times = if is_behind {
                format!("{} times the cost", significant(times))
            } else {
                "not told apart".into()
            };
            lines.push(format!("Runner-up: {}, {times}", self.told(next)));
        }
        if let Some(own) =
            chosen.properties.filter(|_| self.question.demands.contains(&Property::AcrossContainers))
        {
            lines.push(format!("Between containers it needs {}.", own.across().in_words()));
        }
        lines.extend(self.crossovers.iter().filter_map(|found| self.crossing(found)));
        lines
    }

    /// `Above 12 KiB memfd-pass costs less (between 8 KiB and 16 KiB).`
    fn crossing(&self, found: &Crossover) -> Option<String> {
        let (bytes, below) = (found.bytes?, found.first_is_cheaper_below?);
        let name = |case: &weighbridge_record::CaseId| {
            let is_it =
                |one: &&Contender| (&one.case.mechanism, &one.case.axes) == (&case.mechanism, &case.axes);
            self.contenders.iter().find(is_it).map_or(case.variant(), |one| one.name.clone())
        };
        let between = match found.between_bytes {
            [Some(low), Some(high)] => format!(" (between {} and {})", size(low as u64), size(high as u64)),
            _ => String::new(),
        };
        let side = if below { "Above" } else { "Below" };
        Some(format!(
            "{side} about {} {} costs less{between}.",
            size(bytes.round() as u64),
            name(&found.second)
        ))
    }

    fn prices(&self) -> Vec<String> {
        let price = |of: &super::Price| {
            let demand = of.demand.map_or("all of them together".into(), |demand| demand.in_words());
            let sure = if of.is_sure { "" } else { ", not surely more" };
            format!("{demand}: {} times {}{sure}", significant(of.times), of.without)
        };
        self.prices.iter().map(price).collect()
    }

    fn excluded(&self) -> Vec<String> {
        let line = |of: &super::Excluded| {
            format!("not \"{}\": {}", of.demand.in_words(), listed(NAMED, of.mechanisms.clone()))
        };
        self.excluded.iter().map(line).map(|text| plain(&text)).collect()
    }

    fn notes(&self) -> Vec<String> {
        let mut chars = self.differences.clone();
        for text in &mut chars {
            if let Some(first) = text.get(..1) {
                *text = first.to_uppercase() + &text[1..] + ".";
            }
        }
        chars
    }
}
