//! A look at a run while it goes on, once a second, for who asks for it: the coordinator then wakes up in the timed part, and so it is not
//! counted how often it does.
//!
//! It reads what the peers have written anyway, and they write nothing for it.

use std::time::{Duration, Instant};

use weighbridge_record::CaseId;
use weighbridge_stats::load;

use super::running::Party;
use crate::shared::{Sample, Step};

/// From one look to the next.
const EVERY: Duration = Duration::from_secs(1);

/// What a run has done so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Live<'a> {
    /// The case.
    pub case: &'a CaseId,
    /// Since the run began, starting its peers included.
    pub elapsed: Duration,
    /// Where the role is that is furthest behind.
    pub step: Step,
    /// Operations of all samples until now.
    pub ops: u64,
    /// Operations a second of the samples that came since the last look; none where none came.
    pub ops_per_s: Option<f64>,
}

/// Takes what a look has seen.
pub type Watcher = fn(&Live<'_>);

/// The looks at one run.
pub(super) struct Looks {
    watcher: Watcher,
    case: CaseId,
    began: Instant,
    next: Instant,
    samples_before: usize,
    last: Instant,
    /// The length of a sample is what its operations took together, which overlap at a rate.
    has_rate: bool,
}

impl Looks {
    pub(super) fn new(watcher: Watcher, case: CaseId, began: Instant, has_rate: bool) -> Looks {
        Looks { watcher, case, began, next: began + EVERY, samples_before: 0, last: began, has_rate }
    }

    /// When the next one is due.
    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// Looks, if it is time to. What one was late by, the next one is not.
    pub(super) fn look(&mut self, party: &Party) {
        let now = Instant::now();
        if now < self.next {
            return;
        }
        self.next = now.max(self.next + EVERY);
        let steps = (0..party.role_names.len()).map(|role| party.shared.step(role));
        let step = steps.min().unwrap_or(Step::Hello);
        let samples = party.shared.samples();
        let since_last = now.duration_since(std::mem::replace(&mut self.last, now));
        let ops_per_s = rate(&samples[self.samples_before..], self.has_rate.then_some(since_last));
        self.samples_before = samples.len();
        let (elapsed, ops) = (now.duration_since(self.began), samples.iter().map(|sample| sample.ops).sum());
        (self.watcher)(&Live { case: &self.case, elapsed, step, ops, ops_per_s });
    }
}

/// Operations a second of samples, in the time that they took or in another.
fn rate(samples: &[Sample], time: Option<Duration>) -> Option<f64> {
    let of_samples = || samples.iter().map(|sample| sample.elapsed_ns).sum();
    let ns = time.map_or_else(of_samples, |time| time.as_nanos() as u64);
    (!samples.is_empty()).then(|| load::per_second(samples.iter().map(|sample| sample.ops).sum(), ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_that_of_the_samples_which_came_or_of_the_time_that_passed() {
        let sample = |ops, elapsed_ns| Sample { ops, elapsed_ns, ..Sample::default() };
        let samples = [sample(100, 5_000_000), sample(300, 5_000_000)];
        assert_eq!(rate(&samples, None), Some(40_000.0));
        assert_eq!(rate(&samples, Some(Duration::from_secs(1))), Some(400.0));
        assert_eq!(rate(&[], None), None);
    }
}
