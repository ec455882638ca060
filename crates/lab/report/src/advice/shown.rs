//! An advice as a document of one screen.

use weighbridge_record::{Crossover, Property};

use super::{Advice, Contender, Demand, NAMED};
use crate::document::{Block, Document, Item, Section};
use crate::units::{Scale, per_second, percent, range, significant, size, typed_percent, with_unit};
use crate::words::{listed, plain};

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
            question += &format!("; at most {} of a CPU", typed_percent(budget));
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

    /// The choice in one line: `pipe: 5.21 µs/roundtrip (5.10 to 5.32), 12.3 % of a CPU at the rate`.
    fn told(&self, of: &Contender) -> String {
        let share = of.cpu_share.map(|share| {
            let spins = if of.spins { ", because it spins" } else { "" };
            format!(", {} of a CPU at the rate{spins}", percent(share))
        });
        let late =
            of.at_rate.as_ref().map(|at| format!(" ({} from when it is due)", with_unit(&of.unit, at.value)));
        let [share, late] = [share, late].map(Option::unwrap_or_default);
        let cost = of.value.map(|value| {
            let scale = Scale::alone(&of.unit, value);
            let interval =
                of.interval.map(|interval| format!(" ({})", range(interval, |end| scale.show(end))));
            format!(": {}{}", with_unit(&of.unit, value), interval.unwrap_or_default())
        });
        format!("{}{}{share}{late}", of.name, cost.unwrap_or_default())
    }

    fn answer(&self) -> Vec<String> {
        let of = |index: usize| &self.contenders[index];
        let Some(choice) = self.choice else {
            let demands: Vec<String> = self.to_give_up.iter().map(|demand| demand.in_words()).collect();
            let then = self.choice_then.map_or(String::new(), |then| {
                let lacks_rate = self.to_give_up.iter().any(|demand| matches!(demand, Demand::Rate { .. }));
                let reached = of(then).reached_per_s().filter(|_| lacks_rate);
                let reached = reached.map(|per_s| format!(", which reaches {} a second", per_second(per_s)));
                format!(" would leave {}{}", self.told(of(then)), reached.unwrap_or_default())
            });
            return vec![format!(
                "Nothing that was measured meets all demands; giving up \"{}\"{then}.",
                demands.join("\" and \"")
            )];
        };
        let chosen = of(choice);
        let mut lines = vec![format!("Take {}", self.told(chosen))];
        lines.push(self.confidence_in_it());
        if let Some(next) = self.runner_up {
            lines.push(self.behind(choice, next));
        }
        if let Some(own) =
            chosen.properties.filter(|_| self.question.demands.contains(&Property::AcrossContainers))
        {
            lines.push(format!("Between containers it needs {}.", own.across().in_words()));
        }
        lines.extend(self.crossovers.iter().filter_map(|found| self.crossing(found)));
        lines
    }

    /// How sure the choice is, and of what.
    fn confidence_in_it(&self) -> String {
        if !self.doubts.is_empty() {
            let more = if self.not_told_apart.is_empty() && self.without_figure.is_empty() {
                ""
            } else {
                "; a longer --budget tells more"
            };
            return format!("Not sure: {}{more}.", self.doubts.join("; "));
        }
        if self.runner_up.is_none() {
            return "Sure: nothing else that was measured meets the demands.".into();
        }
        format!("Sure at {}: everything else that meets the demands costs more.", percent(self.confidence))
    }

    /// The next mechanism, and how far behind it is.
    fn behind(&self, choice: usize, next: usize) -> String {
        let [chosen, other] = [choice, next].map(|index| &self.contenders[index]);
        // Of two that are not told apart the figures may be in another order than the ratios.
        if self.not_told_apart.contains(&next) {
            return format!("Runner-up: {}, not told apart", self.told(other));
        }
        // Of figures of quite another size only the order is told.
        let Some(times) = other.value.map(|_| other.times_first / chosen.times_first) else {
            return format!("Runner-up: {}, which costs more", self.told(other));
        };
        // The intervals of a contest are of costs over that of its first.
        let interval = other.times_first_interval.filter(|_| chosen.times_first == 1.0);
        let interval = interval.map(|interval| format!(" ({})", range(interval, significant)));
        format!(
            "Runner-up: {}, {} times the cost{}",
            self.told(other),
            significant(times),
            interval.unwrap_or_default()
        )
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
        Some(format!("{side} about {} {} costs less{between}.", about(bytes), name(&found.second)))
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

    /// The candidates without a figure, those of one reason together.
    fn missing(&self) -> Vec<String> {
        let mut by_reason: Vec<(Option<&str>, Vec<String>)> = Vec::new();
        for one in &self.without_figure {
            let why = one.why.as_deref();
            match by_reason.iter_mut().find(|(reason, _)| *reason == why) {
                Some((_, names)) => names.push(one.name.clone()),
                None => by_reason.push((why, vec![one.name.clone()])),
            }
        }
        let told = |(why, names): (Option<&str>, Vec<String>)| {
            let why = why.map_or(String::new(), |why| format!(" ({})", plain(why)));
            format!("{}{why}", listed(NAMED, names))
        };
        by_reason.into_iter().map(told).collect()
    }

    fn notes(&self) -> Vec<String> {
        let mut chars = self.differences.clone();
        if !self.without_figure.is_empty() {
            let (all, of) = (self.without_figure.len(), self.candidates);
            chars.push(format!("{all} of {of} candidates have no figure: {}", self.missing().join("; ")));
        }
        for text in &mut chars {
            if let Some(first) = text.get(..1) {
                *text = first.to_uppercase() + &text[1..] + ".";
            }
        }
        chars
    }
}

/// A size that was computed, in two digits: `4.7 KiB`.
fn about(bytes: f64) -> String {
    let unit = (bytes.max(1.0).log2() / 10.0) as u32;
    let unit = unit.min(4);
    let of_unit = bytes / 1024_f64.powi(unit as i32);
    let name = ["B", "KiB", "MiB", "GiB", "TiB"][unit as usize];
    let rounded: f64 = format!("{of_unit:.1e}").parse().unwrap_or(of_unit);
    format!("{rounded} {name}")
}
