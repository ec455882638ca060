//! Running averages taken apart again.
//!
//! A tool that prints "events per call" since its start hides every change: the figure moves slowly while the
//! behavior jumps. What happened in each interval can be had back from the printed columns.

/// The number of calls in each interval, from the events per second of each one-second interval and the printed
/// ratio of all events so far to all calls so far.
///
/// Calls so far are events so far over the ratio; the calls of an interval are the difference of two such counts.
/// A ratio printed with d significant digits leaves each count uncertain by about `calls so far` · 10^(1−d), so
/// intervals with very few calls can come out a little below 0; they are not rounded up here.
///
/// # Panics
/// If the columns differ in length, or a ratio is not positive.
pub fn uncumulate(events_per_s: &[f64], cumulative_ratio: &[f64]) -> Vec<f64> {
    assert_eq!(events_per_s.len(), cumulative_ratio.len(), "the two columns differ in length");
    let (mut events, mut calls_before) = (0.0, 0.0);
    let interval = |(&in_second, &ratio): (&f64, &f64)| {
        assert!(ratio > 0.0, "a ratio of {ratio} events per call");
        events += in_second;
        let calls = events / ratio;
        let made = calls - calls_before;
        calls_before = calls;
        made
    };
    events_per_s.iter().zip(cumulative_ratio).map(interval).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Dumazet's epoll_bench, 2006, `-n 2000 -i`: events per second and "samples per call", as published.
    const AF_INET: ([f64; 15], [f64; 15]) = (
        [
            69210., 59436., 60722., 60583., 58192., 54291., 47978., 59009., 58248., 58708., 58613., 58490.,
            59108., 59636., 59355.,
        ],
        [
            2.97224, 5.48675, 8.03185, 10.5644, 12.999, 15.2398, 17.2222, 19.6426, 22.0306, 24.4497, 26.816,
            29.1708, 31.5557, 33.9292, 36.2914,
        ],
    );

    #[test]
    fn a_ratio_that_seems_to_grow_from_3_to_36_was_about_900_from_the_second_second_on() {
        let (events, ratio) = AF_INET;
        let calls = uncumulate(&events, &ratio);
        assert_eq!(calls[0].round(), 23285.0);
        assert_eq!(calls.iter().sum::<f64>().round(), 24292.0);
        let later: Vec<f64> = (1..15).map(|second| events[second] / calls[second]).collect();
        let typical = crate::median(&later);
        assert!((800.0..1000.0).contains(&typical), "{typical}: {later:?}");
        // The published column never comes near it.
        assert!(ratio.iter().all(|published| *published < typical / 20.0));
    }

    #[test]
    fn a_steady_ratio_stays_what_it_is() {
        assert_eq!(uncumulate(&[100.0, 50.0, 200.0], &[2.0, 2.0, 2.0]), [50.0, 25.0, 100.0]);
    }
}
