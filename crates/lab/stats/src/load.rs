//! Operations that are due at a rate: was it held, and what does it cost?

/// Below this share of the rate that was asked for, it was not held.
const HELD: f64 = 0.99;
/// What clocks and the beginning of a schedule may add to a rate.
const ROUNDED: f64 = 1.01;

/// Operations a second, of so many in a time.
pub fn per_second(operations: u64, wall_ns: u64) -> f64 {
    operations as f64 * 1e9 / wall_ns.max(1) as f64
}

/// Was the rate that was asked for held?
pub fn is_held(asked_per_s: f64, held_per_s: f64) -> bool {
    held_per_s >= HELD * asked_per_s
}

/// Were there more operations in a time than can have been due in it? The first one is due at its beginning.
pub fn is_more_than_due(asked_per_s: f64, operations: u64, wall_ns: u64) -> bool {
    per_second(operations.saturating_sub(1), wall_ns) > ROUNDED * asked_per_s
}

/// CPU time per second of time that passed, as per cent of one CPU: of so many operations in that time, each with so much CPU time.
pub fn cpu_percent(cpu_ns_per_op: f64, ops: u64, wall_ns: u64) -> f64 {
    100.0 * cpu_ns_per_op * ops as f64 / wall_ns.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_held_to_within_a_hundredth_and_nothing_comes_before_it_is_due() {
        assert_eq!(per_second(500, 250_000_000), 2000.0);
        assert!(is_held(2000.0, 1981.0) && !is_held(2000.0, 1979.0));
        // Five operations in a little more than four intervals.
        assert!(!is_more_than_due(100.0, 5, 41_000_000));
        assert!(is_more_than_due(100.0, 7, 41_000_000));
        assert!(
            is_more_than_due(2000.0, 2100, 1_000_000_000) && !is_more_than_due(2000.0, 2001, 1_000_000_000)
        );
    }

    #[test]
    fn two_cpus_that_are_busy_all_the_time_are_two_hundred_per_cent() {
        assert_eq!(cpu_percent(20_000.0, 100_000, 1_000_000_000), 200.0);
        assert_eq!(cpu_percent(1_000.0, 2_000, 1_000_000_000), 0.2);
        assert_eq!(cpu_percent(1_000.0, 0, 0), 0.0);
    }
}
