//! Non-negative least squares: prices that cannot be measured alone, from costs in which they occur.
//!
//! The algorithm is that of Lawson and Hanson (Solving Least Squares Problems, 1974, chapter 23). [`robust`] repeats it with the weights of
//! Huber (1964), so that one cost which the model does not describe does not move all prices.

/// What the equations come to.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The solution: none is below 0.
    pub solution: Vec<f64>,
    /// Right side less the left side at the solution, one for each row.
    pub residuals: Vec<f64>,
}

/// Steps after which the algorithm gives up; it needs at most a few for each column.
const MOST_STEPS: usize = 300;
/// Rounds of weights; they settle after a few.
const ROUNDS: usize = 8;

/// Minimizes the sum of squares of `b − A·x` over all `x ≥ 0`. `rows` are the rows of A.
///
/// # Panics
/// If rows differ in length, their number is not that of `b`, or a value is not finite.
pub fn nnls(rows: &[Vec<f64>], b: &[f64]) -> Fit {
    let columns = rows.first().map_or(0, Vec::len);
    assert!(rows.iter().all(|row| row.len() == columns), "rows of different lengths");
    assert_eq!(rows.len(), b.len(), "a right side for each row");
    let is_finite = |values: &[f64]| values.iter().all(|value| value.is_finite());
    assert!(is_finite(b) && rows.iter().all(|row| is_finite(row)), "a value is not finite");
    let residuals = |x: &[f64]| -> Vec<f64> {
        rows.iter().zip(b).map(|(row, b)| b - row.iter().zip(x).map(|(a, x)| a * x).sum::<f64>()).collect()
    };
    let scale = rows.iter().flatten().chain(b).fold(0.0_f64, |most, value| most.max(value.abs()));
    let tolerance = 1e-10 * scale * scale * rows.len().max(1) as f64;
    let mut x = vec![0.0; columns];
    let mut is_passive = vec![false; columns];
    let mut is_refused = vec![false; columns];
    for _ in 0..MOST_STEPS {
        let left = residuals(&x);
        let gradient =
            |column: usize| rows.iter().zip(&left).map(|(row, left)| row[column] * left).sum::<f64>();
        let best = (0..columns)
            .filter(|column| !is_passive[*column] && !is_refused[*column])
            .map(|column| (column, gradient(column)))
            .filter(|(_, gradient)| *gradient > tolerance)
            .max_by(|(_, a), (_, b)| a.total_cmp(b));
        let Some((entering, _)) = best else { break };
        is_passive[entering] = true;
        loop {
            let Some(wanted) = least_squares(rows, b, &is_passive) else {
                // It is a combination of those that are in already.
                is_passive[entering] = false;
                is_refused[entering] = true;
                break;
            };
            let leaving = (0..columns).filter(|column| is_passive[*column] && wanted[*column] <= 0.0);
            let step = leaving
                .map(|column| x[column] / (x[column] - wanted[column]).max(f64::MIN_POSITIVE))
                .fold(1.0_f64, f64::min);
            for column in 0..columns {
                if is_passive[column] {
                    x[column] += step * (wanted[column] - x[column]);
                }
            }
            if step >= 1.0 {
                break;
            }
            for column in 0..columns {
                if is_passive[column] && x[column] <= 1e-12 * scale {
                    (x[column], is_passive[column]) = (0.0, false);
                }
            }
        }
    }
    Fit { residuals: residuals(&x), solution: x }
}

/// As [`nnls`], with rows whose residual is beyond `tolerance` weighted by `tolerance` over the residual.
pub fn robust(rows: &[Vec<f64>], b: &[f64], tolerance: f64) -> Fit {
    let mut fit = nnls(rows, b);
    for _ in 0..ROUNDS {
        // The square root, as squares are minimized.
        let weights: Vec<f64> =
            fit.residuals.iter().map(|left| (tolerance / left.abs().max(tolerance)).sqrt()).collect();
        let weighted: Vec<Vec<f64>> = rows
            .iter()
            .zip(&weights)
            .map(|(row, weight)| row.iter().map(|value| value * weight).collect())
            .collect();
        let right: Vec<f64> = b.iter().zip(&weights).map(|(b, weight)| b * weight).collect();
        let next = nnls(&weighted, &right);
        let residuals = rows
            .iter()
            .zip(b)
            .map(|(row, b)| b - row.iter().zip(&next.solution).map(|(a, x)| a * x).sum::<f64>())
            .collect();
        fit = Fit { solution: next.solution, residuals };
    }
    fit
}

/// Least squares over some columns, by the normal equations and Gaussian elimination; the others are 0. `None` where the columns are not
/// independent.
fn least_squares(rows: &[Vec<f64>], b: &[f64], uses: &[bool]) -> Option<Vec<f64>> {
    let used: Vec<usize> = (0..uses.len()).filter(|column| uses[*column]).collect();
    let count = used.len();
    let product = |one: usize, other: usize| rows.iter().map(|row| row[one] * row[other]).sum::<f64>();
    let mut system: Vec<Vec<f64>> = used
        .iter()
        .map(|one| {
            let right = rows.iter().zip(b).map(|(row, b)| row[*one] * b).sum();
            used.iter().map(|other| product(*one, *other)).chain([right]).collect()
        })
        .collect();
    let diagonal: Vec<f64> = (0..count).map(|index| system[index][index]).collect();
    for column in 0..count {
        let pivot =
            (column..count).max_by(|a, b| system[*a][column].abs().total_cmp(&system[*b][column].abs()))?;
        system.swap(column, pivot);
        if system[column][column].abs() <= 1e-9 * diagonal[column] {
            return None;
        }
        let above = system[column].clone();
        for row in system.iter_mut().skip(column + 1) {
            let factor = row[column] / above[column];
            row.iter_mut().zip(&above).skip(column).for_each(|(value, above)| *value -= factor * above);
        }
    }
    let mut solution = vec![0.0; uses.len()];
    for index in (0..count).rev() {
        let known: f64 = (index + 1..count).map(|later| system[index][later] * solution[used[later]]).sum();
        solution[used[index]] = (system[index][count] - known) / system[index][index];
    }
    Some(solution)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_near(found: &[f64], wanted: &[f64]) {
        assert_eq!(found.len(), wanted.len());
        let far = found.iter().zip(wanted).any(|(found, wanted)| (found - wanted).abs() > 1e-9);
        assert!(!far, "{found:?} instead of {wanted:?}");
    }

    #[test]
    fn where_the_free_solution_is_positive_it_is_that_one() {
        let rows = [vec![1.0, 2.0], vec![3.0, 4.0], vec![5.0, 6.0]];
        // x = (2, 3) exactly.
        let fit = nnls(&rows, &[8.0, 18.0, 28.0]);
        is_near(&fit.solution, &[2.0, 3.0]);
        is_near(&fit.residuals, &[0.0; 3]);
    }

    #[test]
    fn what_would_be_negative_is_zero_and_the_rest_is_fitted_without_it() {
        // Free least squares of a line through these points has a negative intercept.
        let rows: Vec<Vec<f64>> = (0..4).map(|x| vec![f64::from(x), 1.0]).collect();
        let fit = nnls(&rows, &[-1.0, 1.0, 3.0, 5.0]);
        // Without the intercept: Σxy/Σx² = (1 + 6 + 15)/14.
        is_near(&fit.solution, &[22.0 / 14.0, 0.0]);
        let nothing = nnls(&[vec![1.0], vec![2.0]], &[-1.0, -2.0]);
        is_near(&nothing.solution, &[0.0]);
    }

    /// At the solution no column with a price of zero would lessen the squares, and every other one is at its minimum: the conditions of
    /// Karush, Kuhn and Tucker.
    #[test]
    fn the_conditions_of_a_minimum_hold_for_arbitrary_problems() {
        let mut random = crate::random::Random::new(3);
        for _ in 0..200 {
            let mut number = || random.below(2001) as f64 / 1000.0 - 1.0;
            let rows: Vec<Vec<f64>> = (0..9).map(|_| (0..4).map(|_| number()).collect()).collect();
            let b: Vec<f64> = (0..9).map(|_| number()).collect();
            let fit = nnls(&rows, &b);
            for column in 0..4 {
                let gradient: f64 =
                    rows.iter().zip(&fit.residuals).map(|(row, left)| row[column] * left).sum();
                let price = fit.solution[column];
                assert!(price >= 0.0);
                let is_minimum = if price > 0.0 { gradient.abs() < 1e-8 } else { gradient < 1e-8 };
                assert!(is_minimum, "{fit:?}: gradient {gradient} of column {column}");
            }
        }
    }

    #[test]
    fn columns_that_depend_on_each_other_end_the_search_and_not_the_program() {
        let rows = [vec![1.0, 1.0, 0.0], vec![2.0, 2.0, 1.0], vec![3.0, 3.0, 0.0]];
        let fit = nnls(&rows, &[2.0, 5.0, 6.0]);
        is_near(&fit.residuals, &[0.0; 3]);
        assert!((fit.solution[0] + fit.solution[1] - 2.0).abs() < 1e-9, "{fit:?}");
    }

    #[test]
    fn one_row_that_is_far_off_does_not_move_a_robust_fit() {
        let rows: Vec<Vec<f64>> = (0..9).map(|_| vec![2.0]).collect();
        let mut b = vec![2.0; 9];
        b[4] = 20.0;
        assert!(nnls(&rows, &b).solution[0] > 1.9, "squares follow the outlier");
        let found = robust(&rows, &b, 0.05).solution[0];
        assert!((found - 1.0).abs() < 0.01, "{found}");
    }
}
