//! What `--a` and `--b` say: settings and programs, and the cases that come of them.

use std::path::PathBuf;

use weighbridge_harness::catalogue::{self, Refusal};
use weighbridge_harness::compare::{Pair, Side};
use weighbridge_harness::contract::Prepared;
use weighbridge_harness::coordinator::PeerStart;
use weighbridge_harness::host::Host;
use weighbridge_harness::plan;
use weighbridge_record::{CaseId, Skipped};

use super::program::{self, Build};
use crate::Failure;

/// One side, as it was typed.
#[derive(Clone, Debug)]
pub struct Typed {
    /// How its peers are started, and its name.
    pub side: Side,
    /// Axes that are set in every case.
    axes: Vec<(String, String)>,
    /// The build of its program, where that is another one.
    build: Option<Build>,
}

/// Reads the words of one side.
pub fn read(flag: &str, words: &[String]) -> Result<Typed, Failure> {
    let label = if words.is_empty() { "this program as it is".into() } else { words.join(" ") };
    let side = Side { label, start: PeerStart::default(), sysctls: Vec::new() };
    let mut typed = Typed { side, axes: Vec::new(), build: None };
    for word in words {
        typed.add(word).map_err(|why| Failure::new(format!("{flag} {word}: {why}")))?;
    }
    Ok(typed)
}

const FORM: &str = "a side is the path of another weighbridge, AXIS=VALUE, env:NAME=VALUE, preload:LIBRARY, cgroup:FOLDER or \
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
            self.axes.push((axis.into(), value.into()));
        } else {
            if self.build.is_some() {
                return Err("a side has one program".into());
            }
            let path = PathBuf::from(word);
            if !path.exists() {
                return Err(format!("there is no such file; {FORM}"));
            }
            self.build = Some(program::ask(&path)?);
            let path = std::fs::canonicalize(path).map_err(|error| error.to_string())?;
            self.side.start.program = Some(path);
        }
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

/// In what the programs of both sides differ.
pub fn differences(a: &Typed, b: &Typed) -> Vec<String> {
    let [a, b] = [a, b].map(|typed| typed.build.clone().unwrap_or_else(program::own));
    ["weighbridge", "commit of weighbridge", "build of weighbridge"]
        .into_iter()
        .zip(a.into_iter().zip(b))
        .filter(|(_, (a, b))| a != b)
        .map(|(name, (a, b))| format!("{name}: A {a}, B {b}"))
        .collect()
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
        ] {
            let refused = read("--a", &[word.to_owned()]).unwrap_err().to_string();
            assert!(refused.contains(why), "{word}: {refused}");
        }
    }
}
