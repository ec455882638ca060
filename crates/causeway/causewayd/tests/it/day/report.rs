//! What a participant that was not killed says at the end.

use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// Counts of one life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Signals emitted.
    pub signals: u32,
    /// Calls that ended with their reply.
    pub answered: u32,
    /// Calls that ended because their callee was gone.
    pub callee_gone: u32,
    /// Questions that the bus answered.
    pub asked: u32,
}

impl Report {
    /// Writes it where [`Report::wait_for`] looks, whole or not at all.
    pub fn write(&self, path: &Path) {
        let half = path.with_extension("half");
        let words =
            [self.signals, self.answered, self.callee_gone, self.asked].map(|count| count.to_string());
        std::fs::write(&half, words.join(" ")).unwrap();
        std::fs::rename(half, path).unwrap();
    }

    /// Waits until it is there; `pause` takes a moment and says whether the participant has ended.
    pub fn wait_for(
        path: &Path,
        pause: &mut dyn FnMut() -> Option<ExitStatus>,
        patience: Duration,
    ) -> Report {
        let end = Instant::now() + patience;
        loop {
            if let Ok(text) = std::fs::read_to_string(path) {
                let words: Vec<u32> = text.split(' ').map(|word| word.parse().unwrap()).collect();
                let [signals, answered, callee_gone, asked] = words[..] else { panic!("{text:?}") };
                return Report { signals, answered, callee_gone, asked };
            }
            let ended = pause();
            assert!(ended.is_none(), "{} ended without a report: {ended:?}", path.display());
            assert!(Instant::now() < end, "no report at {}", path.display());
        }
    }
}
