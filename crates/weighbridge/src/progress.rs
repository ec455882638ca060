//! How far a run is: a live line on a terminal, a plain line now and then elsewhere.
//!
//! It is drawn only between two runs. There is no thread that draws and no timer: the coordinator must not wake while something is timed,
//! unless it is asked for a line each second.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget};
use weighbridge_harness::coordinator::Live;
use weighbridge_harness::session::Progress;
use weighbridge_report::grouped;

use crate::output;
use crate::values::spoken;

/// The bar's resolution.
const STEPS: u64 = 1000;
/// Plain lines about a session are at least so far apart.
const PAUSE: Duration = Duration::from_secs(5);

/// Says what a run has done so far.
pub fn tell(live: &Live<'_>) {
    output::say(&line(live));
}

fn line(Live { case, elapsed, step, ops, ops_per_s }: &Live<'_>) -> String {
    let seconds = elapsed.as_secs();
    let so_far = match (ops, ops_per_s) {
        (0, _) => format!("no sample yet, in {}", step.name()),
        (ops, None) => format!("{} operations", grouped(*ops)),
        (ops, Some(rate)) => format!("{} operations, {} a second", grouped(*ops), grouped(*rate as u64)),
    };
    format!("{case}: {seconds} s: {so_far}")
}

/// Where progress is shown.
#[derive(Debug)]
pub enum ProgressStyle {
    Hidden,
    /// As one line that is drawn anew.
    Live(ProgressBar),
    /// As lines, one for a round at most.
    Plain {
        next_round: u32,
        /// When the last line was written.
        last: Option<Instant>,
    },
}

impl ProgressStyle {
    /// On standard error, in the form that suits it.
    pub fn new(is_quiet: bool) -> ProgressStyle {
        if is_quiet {
            return ProgressStyle::Hidden;
        }
        if !io::stderr().is_terminal() {
            return ProgressStyle::Plain { next_round: 0, last: None };
        }
        // Runs take a tenth of a second or so: each may be drawn.
        let bar = ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::stderr_with_hz(100));
        let template = indicatif::ProgressStyle::with_template("{bar:20} {wide_msg}");
        bar.set_style(template.expect("the template is well formed"));
        ProgressStyle::Live(bar)
    }

    /// Draws the live line anew, where there is one. What matters most stands first: the line ends where the terminal does.
    pub fn draw(&mut self, share: f64, line: impl FnOnce() -> String) {
        if let ProgressStyle::Live(bar) = self {
            bar.set_message(line());
            // An estimate that grows must not draw the bar back.
            bar.set_position(((share * STEPS as f64) as u64).max(bar.position()));
        }
    }

    /// Writes a plain line where there are some, once in a round and not before `pause` is over.
    pub fn say(&mut self, round: u32, pause: Duration, line: impl FnOnce() -> String) {
        if let ProgressStyle::Plain { next_round, last } = self
            && round >= *next_round
            && last.is_none_or(|last| last.elapsed() >= pause)
        {
            (*next_round, *last) = (round + 1, Some(Instant::now()));
            output::say(&line());
        }
    }

    /// Shows how far a session is.
    pub fn update(&mut self, progress: &Progress<'_>) {
        let Progress { case, runs, closed, cases, round, elapsed, remaining } = progress;
        let round_shown = round + 1;
        let all = (*elapsed + *remaining).as_secs_f64().max(f64::MIN_POSITIVE);
        self.draw(elapsed.as_secs_f64() / all, || {
            let left = match remaining.as_secs() {
                0 => "a moment".into(),
                seconds => spoken(Duration::from_secs(seconds)),
            };
            format!("{left} left, {closed}/{cases} done, round {round_shown}, run {}: {case}", runs + 1)
        });
        self.say(*round, PAUSE, || {
            let (used, left) = (spoken(*elapsed), spoken(*remaining));
            format!(
                "round {round_shown}: {runs} runs made, {closed} of {cases} cases done, {used} used, at most {left} to go"
            )
        });
    }

    /// Leaves the terminal as it was.
    pub fn clear(&self) {
        if let ProgressStyle::Live(bar) = self {
            bar.finish_and_clear();
        }
    }
}
