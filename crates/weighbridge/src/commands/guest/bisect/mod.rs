//! `weighbridge guest bisect`: which commit of a kernel made a case cost more or less, and in which function.
//!
//! `git bisect` chooses; counts that repeat to 0.1 % decide. What this adds is distrust: both ends are counted before anything is searched,
//! and the commit that was found and its parent once more after it, because a search always names some commit.

mod look;
mod shown;

use weighbridge_guest::qemu;

use super::machine;
use crate::commands::measuring::interrupt;
use crate::guest_args::Bisect;
use crate::repository::{Judged, Repository, Step, short};
use crate::{Exit, Failure, output};
use look::{Count, Kernels, Look};

pub fn bisect(args: &Bisect) -> Result<Exit, Failure> {
    let interrupt = interrupt()?;
    let command = super::explain::command_of_one(&args.case, args.machine.cpus, args.runs)?;
    qemu::find().map_err(|error| super::failure(&error))?;
    let repository = Repository::open(&args.repository)?;
    let (good, bad) = (repository.commit(&args.good)?, repository.commit(&args.bad)?);
    let commits = repository.distance(&good, &bad)?;
    machine::warn_of(&args.machine);
    let mut search = Search {
        kernels: Kernels { args, command, repository: &repository, interrupt: &interrupt },
        repository: &repository,
        is_quiet: args.quiet,
        margin: args.margin,
        boots: 0,
        skipped: Vec::new(),
    };
    match search.run(&good, &bad, commits) {
        Err(Ended::Interrupted) => {
            output::say("interrupted: the repository is as it was, and no commit is named");
            Ok(Exit::Interrupted)
        }
        Err(Ended::Failed(failure)) => Err(failure),
        Ok(found) => {
            output::print(shown::rendered(args, &repository, &found))?;
            Ok(if found.is_sure(args.margin) { Exit::Fine } else { Exit::Undecided })
        }
    }
}

/// Why there is no answer.
enum Ended {
    Interrupted,
    Failed(Failure),
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Ended {
        Ended::Failed(failure)
    }
}

/// A commit that was skipped, and why.
struct Skipped {
    commit: String,
    why: String,
}

/// What was found.
struct Found {
    /// Both ends.
    ends: [Count; 2],
    culprit: Culprit,
    skipped: Vec<Skipped>,
    boots: u32,
    commits: usize,
}

enum Culprit {
    /// The ends differ by no more than the margin.
    None,
    /// It, its parent and it once more.
    One { commit: String, parent: String, counts: [Count; 2], functions: Result<Vec<Change>, String> },
    /// One of these, which cannot be told apart because all but the last were skipped.
    OneOf(Vec<String>),
}

/// A function whose count changed.
struct Change {
    function: String,
    instructions: [f64; 2],
}

impl Change {
    fn difference(&self) -> f64 {
        self.instructions[1] - self.instructions[0]
    }
}

/// How much more the second costs, as a share.
fn change([before, after]: [f64; 2]) -> f64 {
    after / before - 1.0
}

impl Found {
    /// Of the whole difference, what share is the commit's own.
    fn share(&self) -> Option<f64> {
        let Culprit::One { counts, .. } = &self.culprit else { return None };
        let whole = change(self.ends.each_ref().map(|end| end.count));
        Some(change(counts.each_ref().map(|of| of.count)) / whole)
    }

    /// Is one commit named, which differs from its parent by more than the margin and explains most of the difference?
    fn is_sure(&self, margin: f64) -> bool {
        let Culprit::One { counts, .. } = &self.culprit else { return false };
        let own = change(counts.each_ref().map(|of| of.count));
        own.abs() > margin && self.share().is_some_and(|share| (0.5..2.0).contains(&share))
    }
}

struct Search<'a> {
    kernels: Kernels<'a>,
    repository: &'a Repository,
    is_quiet: bool,
    margin: f64,
    boots: u32,
    skipped: Vec<Skipped>,
}

impl Search<'_> {
    fn run(&mut self, good: &str, bad: &str, commits: usize) -> Result<Found, Ended> {
        let ends = [self.end("good", good)?, self.end("bad", bad)?];
        let culprit = if change(ends.each_ref().map(|end| end.count)).abs() <= self.margin {
            Culprit::None
        } else {
            self.search(good, bad, &ends, commits)?
        };
        Ok(Found { ends, culprit, skipped: std::mem::take(&mut self.skipped), boots: self.boots, commits })
    }

    /// The control: where an end does not boot there is nothing to search.
    fn end(&mut self, which: &str, commit: &str) -> Result<Count, Ended> {
        match self.look(commit, false)? {
            Ok(count) => Ok(count),
            Err(why) => {
                let commit = short(commit);
                Err(Failure::new(format!("the {which} end, {commit}, cannot be measured: {why}")).into())
            }
        }
    }

    fn search(&mut self, good: &str, bad: &str, ends: &[Count; 2], commits: usize) -> Result<Culprit, Ended> {
        let mut step = self.repository.begin(good, bad)?;
        // Every commit is judged once at most; git ends before that.
        for _ in 0..=commits {
            match step {
                Step::Found(commit) => return self.confirm(commit),
                Step::OneOf(commits) => return Ok(Culprit::OneOf(commits)),
                Step::Judge => {}
            }
            let commit = self.repository.head()?;
            let judged = match self.look(&commit, false)? {
                // By the nearer end: the logarithm, as of every ratio.
                Ok(count) => {
                    let [to_good, to_bad] = ends.each_ref().map(|end| (count.count / end.count).ln().abs());
                    if to_good <= to_bad { Judged::Good } else { Judged::Bad }
                }
                Err(why) => {
                    self.skipped.push(Skipped { commit, why });
                    Judged::Skip
                }
            };
            step = self.repository.judge(judged)?;
        }
        Err(Failure::new("git bisect does not come to an end").into())
    }

    /// Counts the commit and its parent once more, and by function where that can be.
    fn confirm(&mut self, commit: String) -> Result<Culprit, Ended> {
        let parent = self.repository.parent(&commit)?;
        let mut again = |commit: &str| match self.look(commit, true)? {
            Ok(count) => Ok(count),
            Err(why) => {
                let commit = short(commit);
                Err(Ended::Failed(Failure::new(format!(
                    "{commit} was measured in the search and cannot be measured again: {why}"
                ))))
            }
        };
        let counts = [again(&parent)?, again(&commit)?];
        let functions = look::changes(&counts);
        Ok(Culprit::One { commit, parent, counts, functions })
    }

    /// One commit: what it counts, or why it cannot be measured.
    fn look(&mut self, commit: &str, by_function: bool) -> Result<Result<Count, String>, Ended> {
        let looked = self.kernels.look(commit, by_function)?;
        let (what, outcome) = match looked {
            Look::Interrupted => return Err(Ended::Interrupted),
            Look::NotBuilt(why) => {
                (format!("does not build: {why}"), Err(format!("it does not build: {why}")))
            }
            Look::NotBooted(why) => {
                self.boots += 1;
                (why.clone(), Err(why))
            }
            Look::Counted(count) => {
                self.boots += 1;
                (format!("{:.1} {}", count.count, count.unit), Ok(count))
            }
        };
        if !self.is_quiet {
            output::say(&format!("{}: {what}", short(commit)));
        }
        Ok(outcome)
    }
}
