//! The sizes at which another mechanism that meets the demands becomes cheaper than the choice.
//!
//! Told only between two sizes next to each other of which the record has a sure order, one this way and one the other: what is not told apart at
//! a size says nothing of where an order turns.

use weighbridge_record::{CaseId, Crossover, Properties};
use weighbridge_stats::curve::{Both, Meeting, meeting};

use super::choice::{Contender, Demand, Field};
use super::contenders::Nearest;
use super::question::Question;
use crate::model::Report;

/// A size of the record, and who contends there.
struct Size<'a> {
    nearest: Nearest<'a>,
    contenders: Vec<Contender>,
}

impl Size<'_> {
    fn place(&self, like: &CaseId) -> Option<usize> {
        self.contenders
            .iter()
            .position(|one| CaseId { payload_bytes: like.payload_bytes, ..one.case.clone() } == *like)
    }

    /// What the second costs over what the first does, where it is sure who of them is ahead.
    fn sure_ratio(&self, first: &CaseId, second: &CaseId) -> Option<f64> {
        let [first, second] = [self.place(first)?, self.place(second)?];
        let field = Field { contenders: &self.contenders, contest: &self.nearest.contest.what };
        let ratio = self.contenders[second].times_first / self.contenders[first].times_first;
        // The order and the ratio of what is told must be one.
        let is_sure =
            (field.is_ahead(first, second) && ratio > 1.0) || (field.is_ahead(second, first) && ratio < 1.0);
        is_sure.then_some(ratio)
    }

    fn meets(&self, case: &CaseId, demands: &[Demand]) -> bool {
        self.place(case).is_some_and(|at| demands.iter().all(|of| of.is_met(&self.contenders[at])))
    }
}

/// Where others that meet all demands become cheaper than the choice at this size, the nearest first.
pub fn crossovers(
    report: &Report,
    here: &Nearest<'_>,
    chosen: &CaseId,
    question: &Question,
    known: impl Fn(&CaseId) -> Option<Properties> + Copy,
) -> Vec<Crossover> {
    let of_size = |payload_bytes: u64| Question { payload_bytes, ..question.clone() };
    let same = |contest: &Nearest<'_>| contest.receivers == here.receivers && contest.rate == here.rate;
    let mut sizes: Vec<Size<'_>> = report
        .contests
        .iter()
        .filter(|contest| contest.source == here.contest.source)
        .map(|contest| Nearest::new(report, contest.clone()))
        .filter(same)
        .map(|nearest| {
            let contenders = nearest.contenders(&of_size(nearest.payload_bytes), known);
            Size { nearest, contenders }
        })
        .filter(|size| size.place(chosen).is_some())
        .collect();
    sizes.sort_by_key(|size| size.nearest.payload_bytes);
    sizes.dedup_by_key(|size| size.nearest.payload_bytes);
    let Some(at) = sizes.iter().position(|size| size.nearest.payload_bytes == chosen.payload_bytes) else {
        return Vec::new();
    };
    let demands = question.demands();
    let others = sizes[at].contenders.iter().map(|one| &one.case);
    let others = others.filter(|one| one.mechanism != chosen.mechanism && sizes[at].meets(one, &demands));
    let upwards: Vec<&Size<'_>> = sizes[at..].iter().collect();
    let downwards: Vec<&Size<'_>> = sizes[..=at].iter().rev().collect();
    let mut found: Vec<Crossover> = others
        .flat_map(|other| [&upwards, &downwards].map(|away| turn(away, chosen, other, &demands)))
        .flatten()
        .collect();
    let distance = |of: &Crossover| {
        of.bytes.map_or(f64::INFINITY, |bytes| (bytes / chosen.payload_bytes as f64).ln().abs())
    };
    found.sort_by(|a, b| distance(a).total_cmp(&distance(b)));
    found
}

/// Of sizes away from the question, the first two between which the other surely becomes cheaper.
fn turn(away: &[&Size<'_>], chosen: &CaseId, other: &CaseId, demands: &[Demand]) -> Option<Crossover> {
    let ratio = |size: &Size<'_>| size.sure_ratio(chosen, other);
    let last = away.iter().take_while(|size| ratio(size).is_some_and(|ratio| ratio > 1.0)).count();
    let (near, far) = (away.get(last.checked_sub(1)?)?, away.get(last)?);
    let ratios = [ratio(near)?, ratio(far)?];
    if !far.meets(other, demands) {
        return None;
    }
    let sizes = [near, far].map(|size| size.nearest.payload_bytes);
    let both =
        |(bytes, ratio): (u64, f64)| Both { size: bytes as f64, first: (1.0, None), second: (ratio, None) };
    let Some(Meeting::At { size, first_is_cheaper_below, .. }) =
        meeting(&[both((sizes[0], ratios[0])), both((sizes[1], ratios[1]))])
    else {
        return None;
    };
    let [low, high] = [sizes[0].min(sizes[1]), sizes[0].max(sizes[1])];
    Some(Crossover {
        first: chosen.clone(),
        second: other.clone(),
        range_bytes: [low, high],
        bytes: Some(size),
        between_bytes: [Some(low as f64), Some(high as f64)],
        first_is_cheaper_below: Some(first_is_cheaper_below),
        crossings: 1,
    })
}
