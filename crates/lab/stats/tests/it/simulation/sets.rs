//! Sets of a case: the logarithms of what each came to, around 0, as sessions have shown them and worse.

use fastrand::Rng;

use super::peers::normal;

/// How the sets of a case scatter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// Normal, neighbors with this correlation (an autoregression of the first order).
    Normal { correlation: f64 },
    /// This share of the sets is 1.5 times as slow.
    TwoModes { slow: f64 },
    /// Student's distribution with three degrees of freedom.
    Heavy,
}

/// Independent, correlated, in two modes, with heavy tails.
pub const SHAPES: [Shape; 7] = [
    Shape::Normal { correlation: 0.0 },
    Shape::Normal { correlation: 0.2 },
    Shape::Normal { correlation: 0.3 },
    Shape::Normal { correlation: 0.6 },
    Shape::TwoModes { slow: 0.1 },
    Shape::TwoModes { slow: 0.3 },
    Shape::Heavy,
];

impl Shape {
    /// Correlation of neighboring sets.
    pub fn correlation(self) -> f64 {
        if let Shape::Normal { correlation } = self { correlation } else { 0.0 }
    }

    /// The median of all sets of such a scatter.
    pub fn median(self, scatter: f64) -> f64 {
        match self {
            // The quantile of the fast mode at 0.5/0.9 and 0.5/0.7.
            Shape::TwoModes { slow } => scatter * if slow < 0.2 { 0.139_71 } else { 0.565_95 },
            _ => 0.0,
        }
    }

    /// So many sets in the order in which they are measured; `scatter` is a deviation, of two modes within each.
    pub fn sets(self, count: usize, scatter: f64, random: &mut Rng) -> Vec<f64> {
        let mut state = normal(random);
        let mut next = || match self {
            Shape::Normal { correlation } => {
                let value = scatter * state;
                state = correlation * state + (1.0 - correlation * correlation).sqrt() * normal(random);
                value
            }
            Shape::TwoModes { slow } => {
                (if random.f64() < slow { 1.5_f64.ln() } else { 0.0 }) + scatter * normal(random)
            }
            Shape::Heavy => {
                let squares: f64 = (0..3).map(|_| normal(random).powi(2)).sum();
                // The variance of t with three degrees of freedom is 3.
                scatter * normal(random) / squares.sqrt()
            }
        };
        (0..count).map(|_| next()).collect()
    }

    /// The log ratios of two sides that are alike.
    pub fn ratios(self, count: usize, scatter: f64, random: &mut Rng) -> Vec<f64> {
        let [one, other] = [(); 2].map(|()| self.sets(count, scatter, random));
        one.iter().zip(&other).map(|(one, other)| one - other).collect()
    }
}
