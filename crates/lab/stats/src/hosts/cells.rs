//! One case of one machine that is off, where the others of the machine are not.
//!
//! What is left of a table after its rows and columns has heavy tails: of 300,000 cells thousands are beyond five deviations with nothing
//! wrong. So the first boot only chooses what to measure again, and another boot, on which that choice does not depend, decides. Its
//! yardstick is the scatter between boots as it was, without a form: the distances of all cells of machines with two boots, each over
//! that of its case.

use crate::discovery::benjamini_hochberg;
use crate::hosts::robust_variance;
use crate::order::mean;

/// Fewest pairs of a case.
pub const FEWEST_PAIRS: usize = 10;

/// What is left in one cell: machine, case, and of its boots in the order of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Index of the machine.
    pub host: usize,
    /// Index of the case.
    pub case: usize,
    /// What is left in each boot.
    pub boots: Vec<f64>,
}

/// A cell that stands out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// Index among the cells that were given.
    pub cell: usize,
    /// Of all its boots.
    pub effect: f64,
    /// How far its first boot is beyond the margin, over the scatter of the case.
    pub score: f64,
    /// Did another boot confirm it?
    pub is_sure: bool,
}

/// What stands out, largest first. The first boot chooses at most `most` cells that another boot decides, and as many that have none.
///
/// # Panics
/// If the margin is negative.
pub fn standing_out(cells: &[Cell], cases: usize, margin: f64, q: f64, most: usize) -> Vec<Found> {
    assert!(margin >= 0.0, "a margin of {margin}");
    let mut pairs = vec![Vec::new(); cases];
    for cell in cells.iter().filter(|cell| cell.boots.len() >= 2 && cell.boots[0].abs() <= margin) {
        pairs[cell.case].push(cell.boots[1] - cell.boots[0]);
    }
    let of_case = |pairs: &Vec<f64>| (pairs.len() >= FEWEST_PAIRS).then(|| (robust_variance(pairs) / 2.0).sqrt());
    let deviations: Vec<Option<f64>> = pairs.iter().map(of_case).collect();
    let mut scatter: Vec<f64> = pairs
        .iter()
        .zip(&deviations)
        .filter_map(|(pairs, deviation)| Some((pairs, deviation.filter(|deviation| *deviation > 0.0)?)))
        .flat_map(|(pairs, deviation)| pairs.iter().map(move |pair| pair.abs() / deviation))
        .collect();
    scatter.sort_unstable_by(f64::total_cmp);
    // A difference of two boots scatters more than one of them: its tail is on the safe side.
    let tail = |score: f64| {
        let beyond = scatter.len() - scatter.partition_point(|other| *other < score);
        (1 + beyond) as f64 / (1 + scatter.len()) as f64
    };
    let score = |cell: &Cell, of: f64| {
        deviations[cell.case].filter(|deviation| *deviation > 0.0).map(|deviation| of / deviation)
    };
    // To choose, the scatter of a case over machines will do: it needs no second boot.
    let mut firsts = vec![Vec::new(); cases];
    cells.iter().for_each(|cell| firsts[cell.case].extend(cell.boots.first()));
    let spread: Vec<f64> = firsts.iter().map(|of| if of.is_empty() { 0.0 } else { robust_variance(of).sqrt() }).collect();
    let stands_out = |(index, cell): (usize, &Cell)| {
        let beyond = cell.boots.first()?.abs() - margin;
        (beyond > 0.0 && spread[cell.case] > 0.0).then(|| (index, beyond / spread[cell.case]))
    };
    let mut chosen: Vec<(usize, f64)> = cells.iter().enumerate().filter_map(stands_out).collect();
    chosen.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let (mut again, once): (Vec<_>, Vec<_>) = chosen.iter().partition(|(index, _)| cells[*index].boots.len() >= 2);
    // Chosen by the first boot alone, so that fewer are tested by the other one, of which the tail is known only so far out.
    again.truncate(most);
    let p_of_later = |&(index, _): &(usize, f64)| {
        let cell = &cells[index];
        let (first, later) = (cell.boots[0], mean(&cell.boots[1..]));
        if later.signum() != first.signum() || later.abs() <= margin {
            return 1.0;
        }
        score(cell, later.abs() - margin).map_or(1.0, tail)
    };
    let p_values: Vec<f64> = again.iter().map(p_of_later).collect();
    let sure = benjamini_hochberg(&p_values, q);
    let found = |(index, score): (usize, f64), is_sure| {
        Found { cell: index, effect: mean(&cells[index].boots), score, is_sure }
    };
    let confirmed = again.iter().zip(sure).filter(|(_, sure)| *sure).map(|(of, _)| found(*of, true));
    confirmed.chain(once.into_iter().take(most).map(|of| found(of, false))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn another_boot_decides_and_chance_of_the_first_is_none() {
        let mut random = Random::new(5);
        // Student's t with two degrees of freedom: one in two hundred is beyond fourteen deviations.
        let mut wild = || 0.01 * random.normal() / ((random.normal().powi(2) + random.normal().powi(2)) / 2.0).sqrt();
        let mut cells: Vec<Cell> = (0..3000)
            .map(|host| Cell { host, case: host % 3, boots: vec![wild(), wild()] })
            .collect();
        cells.push(Cell { host: 3000, case: 0, boots: vec![0.9, 0.9 + wild()] });
        cells.push(Cell { host: 3001, case: 1, boots: vec![0.9] });
        let found = standing_out(&cells, 3, 0.03, 0.05, 100);
        let sure: Vec<usize> = found.iter().filter(|found| found.is_sure).map(|found| found.cell).collect();
        assert_eq!(sure, [3000]);
        assert!(found.iter().any(|found| found.cell == 3001 && !found.is_sure), "{found:?}");
        assert_eq!(standing_out(&[], 3, 0.03, 0.05, 100), []);
    }
}
