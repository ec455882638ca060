//! How far a run is: a live line on a terminal, a plain line now and then elsewhere.
//!
//! It is drawn only when the session says so, that is, between two runs. There is no thread that draws and no timer: the
//! coordinator must not wake while something is timed.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget};
use weighbridge_harness::session::Progress;

use crate::output;
use crate::values::spoken;

/// The bar's resolution.
const STEPS: u64 = 1000;
/// Plain lines are at least so far apart.
const PAUSE: Duration = Duration::from_secs(5);

/// Where progress is shown.
#[derive(Debug)]
pub enum ProgressStyle {
    /// Progress is not shown.
    Hidden,
    /// As one line that is drawn anew.
    Live(ProgressBar),
    /// As lines, one for a round at most.
    Plain {
        /// The next round to tell of.
        next_round: u32,
        /// When the last line was written.
        last: Option<Instant>,
    },
}

impl ProgressStyle {
    /// On standard error, in the form that suits it.
    pub fn on_stderr() -> ProgressStyle {
        if !io::stderr().is_terminal() {
            return ProgressStyle::Plain { next_round: 0, last: None };
        }
        ProgressStyle::Live(bar(STEPS))
    }

    /// Shows how far the session is.
    pub fn update(&mut self, progress: &Progress<'_>) {
        match self {
            ProgressStyle::Hidden => {}
            ProgressStyle::Live(bar) => {
                let share = progress.elapsed.as_secs_f64()
                    / (progress.elapsed + progress.remaining).as_secs_f64().max(f64::MIN_POSITIVE);
                // An estimate that grows must not draw the bar back.
                let position = ((share * STEPS as f64) as u64).max(bar.position());
                bar.set_message(live(progress));
                bar.set_position(position);
            }
            ProgressStyle::Plain { next_round, last } => {
                if progress.round >= *next_round && last.is_none_or(|last| last.elapsed() >= PAUSE) {
                    *next_round = progress.round + 1;
                    *last = Some(Instant::now());
                    output::say(&plain(progress));
                }
            }
        }
    }

    /// Leaves the terminal as it was.
    pub fn clear(&self) {
        if let ProgressStyle::Live(bar) = self {
            bar.finish_and_clear();
        }
    }
}

/// A bar of `steps` steps with a message, as one line on standard error.
pub fn bar(steps: u64) -> ProgressBar {
    // Runs take a tenth of a second or so: each may be drawn.
    let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr_with_hz(100));
    bar.set_style(
        indicatif::ProgressStyle::with_template("{bar:20} {wide_msg}").expect("the template is well formed"),
    );
    bar
}

/// What matters most stands first: the line ends where the terminal does.
fn live(progress: &Progress<'_>) -> String {
    let left = match progress.remaining.as_secs() {
        0 => "a moment".into(),
        seconds => spoken(Duration::from_secs(seconds)),
    };
    format!(
        "{left} left, {}/{} done, round {}, run {}: {}",
        progress.closed,
        progress.cases,
        progress.round + 1,
        progress.runs + 1,
        progress.case
    )
}

fn plain(progress: &Progress<'_>) -> String {
    format!(
        "round {}: {} runs made, {} of {} cases done, {} used, at most {} to go",
        progress.round + 1,
        progress.runs,
        progress.closed,
        progress.cases,
        spoken(progress.elapsed),
        spoken(progress.remaining)
    )
}
