//! What `--a` and `--b` say: settings and programs, and the cases that come of them.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use weighbridge_harness::catalogue::{self, Refusal};
use weighbridge_harness::compare::{Build as Program, Pair, Side};
use weighbridge_harness::contract::Prepared;
use weighbridge_harness::coordinator::PeerStart;
use weighbridge_harness::digest;
use weighbridge_harness::host::Host;
use weighbridge_harness::plan;
use weighbridge_record::{CaseId, Skipped};

use super::super::THIS_PROGRAM;
use super::program::{self, Build};
use crate::{Failure, redact, select};

/// One side, as it was typed.
#[derive(Clone, Debug)]
pub struct Typed {
    /// How its peers are started, and its name.
    pub side: Side,
    /// Axes that are set in every case.
    axes: Vec<(String, String)>,
    /// What its programs say of themselves, where it has others than this one; all of them say the same.
    build: Option<Build>,
}

/// Reads the words of one side.
pub fn read(flag: &str, words: &[String]) -> Result<Typed, Failure> {
    let label =
        if words.is_empty() { "this program as it is".into() } else { redact::word(&words.join(" ")) };
    let side = Side { label, start: PeerStart::default(), builds: Vec::new(), sysctls: Vec::new() };
    let mut typed = Typed { side, axes: Vec::new(), build: None };
    for word in words {
        typed.add(word).map_err(|why| Failure::mistake(format!("{flag} {word}: {why}")))?;
    }
    Ok(typed)
}

/// Fewest builds of a side that has several: the unit is then the build, and of fewer an interval says nothing.
const FEWEST_BUILDS: usize = 4;

/// Makes sides of different programs comparable: each has the digest of its builds, and as many of them as the other one, or one. Sides that
/// are one program have no builds.
pub fn settle([a, b]: [&mut Typed; 2]) -> Result<(), Failure> {
    if a.side.builds.is_empty() && b.side.builds.is_empty() {
        return Ok(());
    }
    for typed in [&mut *a, &mut *b] {
        if typed.side.builds.is_empty() {
            let error = |error| Failure::new(format!("this program cannot be read: {error}"));
            let digest = digest::of_file(Path::new(THIS_PROGRAM)).map_err(error)?;
            typed.side.builds.push(Program { program: None, digest });
        }
    }
    let counts = [&*a, &*b].map(|typed| typed.side.builds.len());
    match counts {
        [1, 1] if a.side.builds[0].digest == b.side.builds[0].digest => {
            // What they are started from stays; there is one layout.
            for typed in [a, b] {
                typed.side.start.program = typed.side.builds.remove(0).program;
            }
            Ok(())
        }
        [1, 1] => Ok(()),
        [of_a, of_b] if of_a != of_b && of_a.min(of_b) > 1 => Err(Failure::mistake(format!(
            "side A has {of_a} builds and B has {of_b}: builds take turns in pairs, so give as many of both, or one of one of them"
        ))),
        [of_a, of_b] if of_a.max(of_b) < FEWEST_BUILDS => Err(Failure::mistake(format!(
            "{} builds of a side say nothing of the next one: give at least {FEWEST_BUILDS}, or one (`dist/relink` makes them)",
            of_a.max(of_b)
        ))),
        _ => Ok(()),
    }
}

/// A program, or every executable file of a folder.
fn programs(path: &Path) -> Result<Vec<PathBuf>, String> {
    if !path.is_dir() {
        return Ok(vec![path.into()]);
    }
    let error = |error: std::io::Error| format!("the folder cannot be read: {error}");
    let mut all = Vec::new();
    for entry in std::fs::read_dir(path).map_err(error)? {
        let path = entry.map_err(error)?.path();
        let metadata = std::fs::metadata(&path).map_err(error)?;
        if metadata.is_file() && metadata.permissions().mode() & 0o111 != 0 {
            all.push(path);
        }
    }
    all.sort();
    if all.is_empty() { Err("there is no program in this folder".into()) } else { Ok(all) }
}

const FORM: &str = "a side is the path of another weighbridge or a folder of builds of it, AXIS=VALUE, env:NAME=VALUE, preload:LIBRARY, cgroup:FOLDER or \
                    sysctl:NAME=VALUE";

impl Typed {
    fn add(&mut self, word: &str) -> Result<(), String> {
        if let Some(library) = word.strip_prefix("preload:") {
            let library = std::fs::canonicalize(library)
                .map_err(|error| format!("the library cannot be found: {error}"))?;
            self.side.start.preload = Some(library);
        } else if let Some(variable) = word.strip_prefix("env:") {
            let (name, value) = variable
                .split_once('=')
                .filter(|(name, _)| !name.is_empty())
                .ok_or("a variable is env:NAME=VALUE")?;
            self.side.start.environment.push((name.into(), value.into()));
        } else if let Some(setting) = word.strip_prefix("sysctl:") {
            let (name, value) = setting
                .split_once('=')
                .filter(|(name, value)| !name.is_empty() && !value.is_empty())
                .ok_or("a setting of the machine is sysctl:NAME=VALUE")?;
            self.side.sysctls.push((name.into(), value.into()));
        } else if let Some(folder) = word.strip_prefix("cgroup:") {
            let folder = std::fs::canonicalize(folder)
                .map_err(|error| format!("the control group cannot be found: {error}"))?;
            if !folder.join("cgroup.procs").exists() {
                return Err(format!("{} is not a control group: it has no cgroup.procs", folder.display()));
            }
            self.side.start.cgroup = Some(folder);
        } else if let Some((axis, value)) = word.split_once('=').filter(|(axis, _)| !axis.contains('/')) {
            if axis.is_empty() || value.is_empty() || value.contains('/') {
                return Err(FORM.into());
            }
            self.axes.push((axis.into(), select::written_out(axis, value)));
        } else {
            let path = PathBuf::from(word);
            if !path.exists() {
                return Err(format!("there is no such file; {FORM}"));
            }
            for program in programs(&path)? {
                self.add_program(&program)?;
            }
        }
        Ok(())
    }

    fn add_program(&mut self, path: &Path) -> Result<(), String> {
        let error = |error: std::io::Error| format!("{} cannot be read: {error}", path.display());
        let build = program::ask(path)?;
        if let Some(first) = self.build.replace(build.clone()).filter(|first| *first != build) {
            return Err(format!(
                "the builds of a side are of one source, and {} says that it is {}, where the first one is {}",
                path.display(),
                build.join(" "),
                first.join(" ")
            ));
        }
        let digest = digest::of_file(path).map_err(error)?;
        if self.side.builds.iter().any(|other| other.digest == digest) {
            return Err(format!("{} is the same build as another one of this side", path.display()));
        }
        let program = Some(std::fs::canonicalize(path).map_err(error)?);
        self.side.builds.push(Program { program, digest });
        Ok(())
    }

    fn case(&self, id: &CaseId, host: &Host) -> Result<Prepared, String> {
        let id = self.axes.iter().fold(id.clone(), |id, (axis, value)| id.with(axis, value));
        catalogue::prepare(&plan::without_defaults(id), host).map_err(|refusal| match refusal {
            Refusal::NoSuchCase(why) | Refusal::NotHere(why) => why,
        })
    }
}

/// The selected cases with the settings of both sides, and those that one side cannot have.
pub fn pairs<'a>(
    ids: impl Iterator<Item = &'a CaseId>,
    [a, b]: [&Typed; 2],
    host: &Host,
) -> (Vec<Pair>, Vec<Skipped>) {
    let (mut pairs, mut skipped): (Vec<Pair>, Vec<Skipped>) = (Vec::new(), Vec::new());
    for id in ids {
        let of = |name: &str, typed: &Typed| {
            typed.case(id, host).map_err(|why| format!("side {name} ({}): {why}", typed.side.label))
        };
        match of("A", a).and_then(|of_a| Ok((of_a, of("B", b)?))) {
            Ok((a, b)) => {
                let is_there =
                    |pair: &Pair| pair.a.params.id == a.params.id && pair.b.params.id == b.params.id;
                if !pairs.iter().any(is_there) {
                    pairs.push(Pair { case: id.clone(), a, b });
                }
            }
            Err(why) => skipped.push(Skipped { case: id.clone(), step: "fit".into(), why }),
        }
    }
    (pairs, skipped)
}

/// Digest and path of each build of a side.
pub fn builds(typed: &Typed) -> String {
    let name = |build: &Program| {
        let path = build.program.as_deref().map_or("this program".into(), |path| path.display().to_string());
        format!("{} {path}", build.digest)
    };
    typed.side.builds.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// In what the programs of both sides differ.
pub fn differences(a: &Typed, b: &Typed) -> Vec<String> {
    let layout = match [a, b].map(|typed| typed.side.builds.len()) {
        [0, _] | [_, 0] => None,
        [1, 1] => Some(
            "layout of code: one build of each side, so where its functions lie is part of each ratio; several builds a side \
             (dist/relink) make it scatter"
                .to_owned(),
        ),
        [of_a, of_b] => Some(format!(
            "layout of code: A has {}, B has {}; a pair of them is the unit of each interval",
            builds_in_words(of_a),
            builds_in_words(of_b)
        )),
    };
    let [a, b] = [a, b].map(|typed| typed.build.clone().unwrap_or_else(program::own));
    ["weighbridge", "commit of weighbridge", "build of weighbridge"]
        .into_iter()
        .zip(a.into_iter().zip(b))
        .filter(|(_, (a, b))| a != b)
        .map(|(name, (a, b))| format!("{name}: A {a}, B {b}"))
        .chain(layout)
        .collect()
}

fn builds_in_words(count: usize) -> String {
    if count == 1 { "one build".into() } else { format!("{count} builds") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_and_what_is_none_is_refused_with_the_form() {
        let words = ["wait=poll", "nice=5", "env:A=b=c"].map(String::from);
        let typed = read("--b", &words).unwrap();
        assert_eq!(typed.axes, [("wait", "poll"), ("nice", "5")].map(|(a, b)| (a.to_owned(), b.to_owned())));
        assert_eq!(typed.side.start.environment, [("A".to_owned(), "b=c".to_owned())]);
        assert_eq!(typed.side.label, "wait=poll nice=5 env:A=b=c");
        for (word, why) in [
            ("nothing-here", "no such file; a side is"),
            ("env:x", "env:NAME=VALUE"),
            ("wait=", "AXIS=VALUE"),
            ("preload:/nothing", "cannot be found"),
            ("cgroup:/nothing", "cannot be found"),
            ("/proc/self/fdinfo", "no program in this folder"),
        ] {
            let refused = read("--a", &[word.to_owned()]).unwrap_err().to_string();
            assert!(refused.contains(why), "{word}: {refused}");
        }
    }
}
