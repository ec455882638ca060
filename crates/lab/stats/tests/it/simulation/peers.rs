//! Simulated peers: what a run would have measured, from a known distribution.

use fastrand::Rng;

/// A standard normal value (Box and Muller 1958).
pub fn normal(random: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

/// A log-normal value with median 1.
pub fn log_normal(random: &mut Rng, sigma: f64) -> f64 {
    (sigma * normal(random)).exp()
}

/// How a peer behaves.
#[derive(Clone, Copy, Debug)]
pub enum Peer {
    /// Always the same.
    Constant,
    /// Log-normal samples around a level of the run that is log-normal itself.
    LogNormal { between: f64, within: f64 },
    /// Seven runs in ten at one level, three at nearly twice that.
    BimodalRuns { within: f64 },
    /// Samples of both levels in every run.
    BimodalSamples { within: f64 },
    /// Like `LogNormal`, and every run warms up or slows down by up to a tenth from its first sample to its last.
    Drifting { between: f64, within: f64 },
    /// Like `LogNormal`, and one sample in every run takes a thousand times as long.
    Stall { between: f64, within: f64 },
}

/// Samples of one run.
pub const SAMPLES: usize = 21;

impl Peer {
    /// The samples of one fresh run.
    pub fn run(self, random: &mut Rng) -> Vec<f64> {
        let samples = |level: f64, within: f64, random: &mut Rng| -> Vec<f64> {
            (0..SAMPLES).map(|_| level * log_normal(random, within)).collect()
        };
        match self {
            Peer::Constant => vec![1260.6; SAMPLES],
            Peer::LogNormal { between, within } => {
                let level = 1000.0 * log_normal(random, between);
                samples(level, within, random)
            }
            Peer::BimodalRuns { within } => {
                let level = if random.f64() < 0.7 { 5.1 } else { 9.8 };
                samples(level, within, random)
            }
            Peer::BimodalSamples { within } => {
                let mut out = samples(5.1, within, random);
                for sample in &mut out {
                    *sample *= if random.f64() < 0.3 { 9.8 / 5.1 } else { 1.0 };
                }
                out
            }
            Peer::Drifting { between, within } => {
                let level = 1000.0 * log_normal(random, between);
                let drift = 0.2 * (random.f64() - 0.5);
                let mut out = samples(level, within, random);
                for (i, sample) in out.iter_mut().enumerate() {
                    *sample *= 1.0 + drift * i as f64 / (SAMPLES - 1) as f64;
                }
                out
            }
            Peer::Stall { between, within } => {
                let level = 1000.0 * log_normal(random, between);
                let mut out = samples(level, within, random);
                out[random.usize(..SAMPLES)] *= 1000.0;
                out
            }
        }
    }
}
