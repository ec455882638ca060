//! A load that changes faster than a round of cases and slower than a slice: it moves memory for 50 ms, then rests for a time of 25 to
//! 75 ms. `cargo run --release -p weighbridge-targets --example noise [SECONDS] [THREADS]` runs for so long, with one such thread or more.

use std::time::{Duration, Instant};

const BUSY: Duration = Duration::from_millis(50);
/// Larger than any second-level cache, so that it disturbs what others keep there.
const WORKING_SET_BYTES: usize = 64 << 20;

fn main() {
    let number = |position: usize| std::env::args().nth(position).and_then(|text| text.parse().ok());
    let (seconds, threads) = (number(1).unwrap_or(3600), number(2).unwrap_or(1));
    let end = Instant::now() + Duration::from_secs(seconds);
    std::thread::scope(|scope| {
        for seed in 1..=threads {
            scope.spawn(move || disturb(end, seed));
        }
    });
}

fn disturb(end: Instant, seed: u64) {
    let (mut memory, mut random) = (vec![0u8; WORKING_SET_BYTES], fastrand::Rng::with_seed(seed));
    while Instant::now() < end {
        let start = Instant::now();
        while start.elapsed() < BUSY {
            let half = memory.len() / 2;
            let (from, to) = memory.split_at_mut(half);
            to.copy_from_slice(from);
            std::hint::black_box(&mut memory);
        }
        std::thread::sleep(Duration::from_millis(random.u64(25..=75)));
    }
}
