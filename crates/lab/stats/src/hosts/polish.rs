//! Median polish (Tukey 1977): a table of logarithms as a level, an effect of each row, one of each column, and what is left.

use super::known_median;

/// Passes over rows and columns; what a further one changes is far below any margin.
const PASSES: usize = 4;

/// A table in which values may be missing (not a number).
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    columns: usize,
    values: Vec<f64>,
}

impl Grid {
    /// With nothing in it.
    pub fn new(rows: usize, columns: usize) -> Grid {
        Grid { columns, values: vec![f64::NAN; rows * columns] }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.values.len().checked_div(self.columns).unwrap_or(0)
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// A value; not a number where it is missing.
    pub fn get(&self, row: usize, column: usize) -> f64 {
        self.values[row * self.columns + column]
    }

    /// Sets a value.
    pub fn set(&mut self, row: usize, column: usize, value: f64) {
        self.values[row * self.columns + column] = value;
    }

    /// A row.
    pub fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.columns..][..self.columns]
    }
}

/// What a table comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct Polished {
    /// Level of each column where a row has no effect; not a number for an empty one.
    pub columns: Vec<f64>,
    /// Effect of each row, of which the median is 0; not a number for an empty one.
    pub rows: Vec<f64>,
    /// What is left of each value.
    pub residuals: Grid,
}

/// Takes medians of rows and columns away in turn.
pub fn polish(grid: &Grid) -> Polished {
    let (rows, columns) = (grid.rows(), grid.columns);
    let mut left = grid.clone();
    let (mut of_rows, mut of_columns) = (vec![0.0; rows], vec![0.0; columns]);
    let mut space = Vec::with_capacity(rows.max(columns));
    for _ in 0..PASSES {
        for (column, effect) in of_columns.iter_mut().enumerate() {
            let median = known_median((0..rows).map(|row| left.get(row, column)), &mut space);
            *effect += median.unwrap_or(f64::NAN);
            (0..rows).for_each(|row| left.values[row * columns + column] -= median.unwrap_or(0.0));
        }
        for (row, effect) in of_rows.iter_mut().enumerate() {
            let median = known_median(left.row(row).iter().copied(), &mut space);
            *effect += median.unwrap_or(f64::NAN);
            left.values[row * columns..][..columns].iter_mut().for_each(|value| *value -= median.unwrap_or(0.0));
        }
    }
    let level = known_median(of_rows.iter().copied(), &mut space).unwrap_or(0.0);
    of_rows.iter_mut().for_each(|effect| *effect -= level);
    of_columns.iter_mut().for_each(|effect| *effect += level);
    Polished { columns: of_columns, rows: of_rows, residuals: left }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_come_back_and_a_wild_cell_stays_one_cell() {
        let (of_rows, of_columns) = ([0.0, 0.06, -0.02, 0.0, 0.01], [1.0, 5.0, -3.0]);
        let mut grid = Grid::new(5, 3);
        for (row, effect) in of_rows.iter().enumerate() {
            (0..3).for_each(|column| grid.set(row, column, effect + of_columns[column]));
        }
        grid.set(3, 2, 7.0);
        grid.set(4, 0, f64::NAN);
        let found = polish(&grid);
        for (row, effect) in of_rows.iter().enumerate() {
            assert!((found.rows[row] - effect).abs() < 1e-12, "{:?}", found.rows);
        }
        assert!((found.residuals.get(3, 2) - 10.0).abs() < 1e-12);
        assert!(found.residuals.get(4, 0).is_nan() && found.residuals.get(0, 0).abs() < 1e-12);
        let nothing = polish(&Grid::new(2, 2));
        assert!(nothing.rows.iter().chain(&nothing.columns).all(|effect| effect.is_nan()));
    }
}
