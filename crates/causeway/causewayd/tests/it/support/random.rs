//! Random numbers that can be had again, and rounds that last as long as wanted.

use std::time::{Duration, Instant};

use causeway_testkit::Rng;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// From CAUSEWAYD_HOSTILE_SEED; otherwise from a new seed where CAUSEWAYD_HOSTILE_SECONDS are given, and from three that are always the same
/// where not.
pub fn generators() -> impl Iterator<Item = Rng> {
    let new = || number("CAUSEWAYD_HOSTILE_SECONDS").map(|_| u64::from(std::process::id()) << 20 | 1);
    let seeds = number("CAUSEWAYD_HOSTILE_SEED").or_else(new).map_or(vec![1, 2, 3], |seed| vec![seed]);
    seeds.into_iter().map(|seed| {
        println!("again with CAUSEWAYD_HOSTILE_SEED={seed}");
        Rng::with_seed(seed)
    })
}

/// Runs rounds: at least so many, and more as long as the seconds of CAUSEWAYD_HOSTILE_SECONDS last. Returns how many.
pub fn rounds(least: usize, mut round: impl FnMut(usize)) -> usize {
    let time = Duration::from_secs(number("CAUSEWAYD_HOSTILE_SECONDS").unwrap_or(0));
    let (began, mut count) = (Instant::now(), 0);
    while count < least || began.elapsed() < time {
        round(count);
        count += 1;
    }
    count
}
