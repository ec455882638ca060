//! Chance with a fixed seed, for bootstrap, permutations and tables drawn once.

/// SplitMix64 (Steele, Lea and Flood 2014). Our own because p values in a record must not change with the version of
/// a library.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// The same seed draws the same.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A standard normal number (Box and Muller 1958).
    pub fn normal(&mut self) -> f64 {
        let mut unit = || (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        let radius = (-2.0 * (1.0 - unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * unit()).cos()
    }

    /// A number below `limit`; the bias of the multiplication is limit/2⁶⁴.
    pub fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.next()) * limit as u128) >> 64) as usize
    }

    /// As many units as there are, drawn with replacement.
    pub fn drawn<'a, T>(&mut self, units: &'a [T]) -> Vec<&'a T> {
        units.iter().map(|_| &units[self.below(units.len())]).collect()
    }

    /// Puts the values in random order (Durstenfeld 1964).
    pub fn shuffle<T>(&mut self, values: &mut [T]) {
        for i in (1..values.len()).rev() {
            values.swap(i, self.below(i + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_gives_the_published_sequence() {
        // First outputs of SplitMix64 with seed 1234567, as in the reference implementation.
        let mut random = Random(1_234_567);
        assert_eq!([random.next(), random.next()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    /// Box and Muller by hand, from the two numbers above.
    #[test]
    fn numbers_of_each_kind_come_from_the_sequence() {
        let [first, second] = [6_457_827_717_110_365_317_u64, 3_203_168_211_198_807_973]
            .map(|bits| bits as f64 / 2.0_f64.powi(64));
        let normal = (-2.0 * (1.0 - first).ln()).sqrt() * (std::f64::consts::TAU * second).cos();
        assert!((Random::new(1_234_567).normal() - normal).abs() < 1e-12);
        let mut random = Random::new(1_234_567);
        assert_eq!(
            [random.below(1000), random.below(1000)],
            [first, second].map(|part| (part * 1000.0) as usize)
        );
        let mut random = Random::new(1_234_567);
        let units = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
        assert_eq!(
            random.drawn(&units)[..2],
            [&units[(first * 10.0) as usize], &units[(second * 10.0) as usize]]
        );
    }

    #[test]
    fn every_order_is_as_likely_when_values_are_shuffled() {
        let (mut random, mut counts) = (Random::new(3), std::collections::BTreeMap::new());
        for _ in 0..6_000 {
            let mut values = [0, 1, 2];
            random.shuffle(&mut values);
            *counts.entry(values).or_insert(0) += 1;
        }
        assert!(counts.len() == 6 && counts.values().all(|count| (900..1100).contains(count)), "{counts:?}");
    }
}
