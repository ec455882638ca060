//! A repository of git: the commits that are searched, and files that are put back as they were.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::{Failure, output};

/// The repository, without changes.
#[derive(Debug)]
pub struct Repository {
    pub folder: PathBuf,
    /// The branch, or the commit, that was checked out.
    before: String,
}

/// What git bisect wants next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The commit that is checked out is to be judged.
    Judge,
    /// This is the first bad commit.
    Found(String),
    /// It is one of these, and all but the last were skipped.
    OneOf(Vec<String>),
}

/// What was found out of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    Good,
    Bad,
    Skip,
}

impl Repository {
    /// One that is only read. Refuses what is none.
    pub fn read(folder: &Path) -> Result<Repository, Failure> {
        let repository = Repository { folder: folder.into(), before: String::new() };
        let found = repository.line(["rev-parse", "--git-dir"]);
        found.map_err(|why| Failure::mistake(format!("`{}` is no repository: {why}", folder.display())))?;
        Ok(repository)
    }

    /// Refuses what has no files, what has changes, and what is being bisected.
    pub fn open(folder: &Path) -> Result<Repository, Failure> {
        let mut repository = Repository::read(folder)?;
        let name = folder.display();
        let top = repository
            .line(["rev-parse", "--show-toplevel"])
            .map_err(|why| Failure::mistake(format!("`{name}` has no files checked out: {why}")))?;
        repository.folder = top.into();
        let changes =
            repository.lines(["status", "--porcelain", "--untracked-files=no"]).map_err(Failure::new)?;
        if let [first, ..] = &changes[..] {
            return Err(Failure::mistake(format!(
                "`{name}` has changes that are not committed, such as `{}`; commit or stash them (`git stash`)",
                first.trim()
            )));
        }
        if repository.line(["bisect", "log"]).is_ok() {
            return Err(Failure::mistake(format!(
                "`{name}` is being bisected already; end that with `git bisect reset`"
            )));
        }
        let branch = repository.line(["symbolic-ref", "--quiet", "--short", "HEAD"]);
        repository.before = match branch {
            Ok(branch) => branch,
            Err(_) => repository.line(["rev-parse", "HEAD"]).map_err(Failure::new)?,
        };
        Ok(repository)
    }

    /// The commit that a name means.
    pub fn commit(&self, name: &str) -> Result<String, Failure> {
        self.line(["rev-parse", "--verify", "--quiet", "--end-of-options", &format!("{name}^{{commit}}")])
            .map_err(|_| {
                Failure::mistake(format!("there is no commit `{name}` in `{}`", self.folder.display()))
            })
    }

    /// How many commits lie between a good and a bad one, the bad one counted.
    pub fn distance(&self, good: &str, bad: &str) -> Result<usize, Failure> {
        if self.run(["merge-base", "--is-ancestor", good, bad]).is_err() || good == bad {
            return Err(Failure::mistake(format!(
                "{} is not before {} in history: the good commit must be an ancestor of the bad one",
                short(good),
                short(bad)
            )));
        }
        let count = self.line(["rev-list", "--count", &format!("{good}..{bad}")]).map_err(Failure::new)?;
        count.parse().map_err(Failure::of)
    }

    /// Those commits, the oldest first; of merges the side that was merged into.
    pub fn line_of(&self, good: &str, bad: &str) -> Result<Vec<String>, Failure> {
        self.lines(["rev-list", "--first-parent", "--reverse", &format!("{good}..{bad}")])
            .map_err(Failure::new)
    }

    /// Checks a commit out, over whatever a build has changed.
    pub fn check_out(&self, commit: &str) -> Result<(), Failure> {
        self.run(["checkout", "--quiet", "--force", "--detach", commit]).map(drop).map_err(Failure::new)
    }

    pub fn head(&self) -> Result<String, Failure> {
        self.line(["rev-parse", "HEAD"]).map_err(Failure::new)
    }

    /// The commit before one: of a merge the first, which is the side that it was merged into.
    pub fn parent(&self, commit: &str) -> Result<String, Failure> {
        self.line(["rev-parse", &format!("{commit}^")]).map_err(Failure::new)
    }

    pub fn subject(&self, commit: &str) -> String {
        self.line(["log", "-1", "--format=%s", commit]).unwrap_or_default()
    }

    /// Begins a bisection.
    pub fn begin(&self, good: &str, bad: &str) -> Result<Step, Failure> {
        self.step(&["start", bad, good])
    }

    /// Tells what the commit is that is checked out.
    pub fn judge(&self, judged: Judged) -> Result<Step, Failure> {
        // A build that changes files of the repository would keep git from checking out the next commit.
        self.run(["reset", "--quiet", "--hard"]).map_err(Failure::new)?;
        self.step(&[match judged {
            Judged::Good => "good",
            Judged::Bad => "bad",
            Judged::Skip => "skip",
        }])
    }

    fn step(&self, words: &[&str]) -> Result<Step, Failure> {
        let all: Vec<&str> = std::iter::once("bisect").chain(words.iter().copied()).collect();
        let output = self.output(&all).map_err(Failure::new)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        match step_of(&text) {
            Step::Judge if !output.status.success() => {
                Err(Failure::new(format!("git bisect {} failed: {}", words.join(" "), said(&output))))
            }
            step => Ok(step),
        }
    }

    fn output<S: AsRef<OsStr>>(&self, words: &[S]) -> Result<Output, String> {
        let mut command = Command::new("git");
        command.arg("-C").arg(&self.folder).args(words).env("LC_ALL", "C").stdin(Stdio::null());
        // Of a hook that starts us they would name another repository.
        ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"].iter().for_each(|name| _ = command.env_remove(name));
        command.output().map_err(|error| format!("git cannot be started: {error}"))
    }

    fn run<const N: usize>(&self, words: [&str; N]) -> Result<String, String> {
        let output = self.output(&words)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(format!("git {} failed: {}", words[0], said(&output)))
    }

    fn lines<const N: usize>(&self, words: [&str; N]) -> Result<Vec<String>, String> {
        Ok(self.run(words)?.lines().map(str::to_owned).collect())
    }

    fn line<const N: usize>(&self, words: [&str; N]) -> Result<String, String> {
        Ok(self.run(words)?.trim().to_owned())
    }
}

/// As it was.
impl Drop for Repository {
    fn drop(&mut self) {
        if self.before.is_empty() {
            return;
        }
        let _ = self.run(["bisect", "reset"]);
        if let Err(why) = self.run(["checkout", "--quiet", "--force", &self.before]) {
            output::warn(&format!("`{}` is not checked out again: {why}", self.before));
        }
    }
}

fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    text.lines().find(|line| !line.is_empty()).unwrap_or("it says nothing").trim().to_owned()
}

/// What git bisect says, in the words that it has had since version 1.6.
fn step_of(text: &str) -> Step {
    const END: &str = " is the first bad commit";
    if let Some(commit) = text.lines().find_map(|line| line.strip_suffix(END)) {
        return Step::Found(commit.trim().to_owned());
    }
    if text.contains("We cannot bisect more!") {
        let is_commit = |line: &&str| line.len() >= 40 && line.chars().all(|c| c.is_ascii_hexdigit());
        return Step::OneOf(text.lines().map(str::trim).filter(is_commit).map(str::to_owned).collect());
    }
    Step::Judge
}

/// A commit as people write it.
pub fn short(commit: &str) -> &str {
    &commit[..commit.len().min(12)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_says_is_understood() {
        let (a, b) = ("a".repeat(40), "b".repeat(40));
        assert_eq!(step_of(&format!("{a} is the first bad commit\ncommit {a}\n")), Step::Found(a.clone()));
        let skipped = format!(
            "There are only 'skip'ped commits left to test.\nThe first bad commit could be any of:\n{a}\n{b}\nWe cannot bisect more!\n"
        );
        assert_eq!(step_of(&skipped), Step::OneOf(vec![a.clone(), b]));
        assert_eq!(
            step_of(&format!("Bisecting: 5 revisions left to test after this\n[{a}] x\n")),
            Step::Judge
        );
    }
}
