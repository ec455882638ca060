//! The file of a search: its commits, and everything that was told of them.

use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use weighbridge_stats::bisect::Bisection;

use crate::destination::{cannot_create, create_new};
use crate::{Failure, output};

/// The version of the form.
const SCHEMA: u32 = 1;
const KIND: &str = "bisection";

/// A search. Nothing that follows from what was told is kept, so that a later program may compute it better.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    kind: String,
    schema: u32,
    /// The end before the change.
    good: String,
    /// Those after it, the oldest first; the last is the end after the change.
    pub commits: Vec<String>,
    /// The standard deviation between boots as a share, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    noise: Option<f64>,
    told: Vec<Told>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Told {
    commit: String,
    /// Its figure; absent where it cannot be measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<f64>,
}

impl State {
    pub fn new(good: String, commits: Vec<String>, noise: Option<f64>) -> State {
        State { kind: KIND.into(), schema: SCHEMA, good, commits, noise, told: Vec::new() }
    }

    pub fn read(path: &Path) -> Result<State, Failure> {
        let name = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::mistake(format!("the search `{name}` cannot be read: {error}")))?;
        let none = || {
            Failure::mistake(format!(
                "`{name}` is not a search; `weighbridge bisect start {name}` begins one"
            ))
        };
        let value: serde_json::Value = serde_json::from_str(&text).map_err(|_| none())?;
        match (value["kind"].as_str(), value["schema"].as_u64()) {
            (Some(KIND), Some(schema)) if schema > SCHEMA.into() => Err(Failure::mistake(format!(
                "`{name}` is a search of schema {schema}, and this weighbridge reads schemas up to {SCHEMA}; go on with a newer version"
            ))),
            (Some(KIND), Some(_)) => serde_json::from_value(value)
                .map_err(|error| Failure::mistake(format!("the search `{name}` is damaged: {error}"))),
            _ => Err(none()),
        }
    }

    fn text(&self) -> String {
        output::json(self)
    }

    /// Writes a new file.
    pub fn create(&self, path: &Path) -> Result<(), Failure> {
        let written = create_new(path).and_then(|mut file| file.write_all(self.text().as_bytes()));
        written.map_err(|error| cannot_create(path, "STATE", &error))
    }

    /// Writes in the place of the file, all of it or nothing: what was told took hours to measure.
    pub fn replace(&self, path: &Path) -> Result<(), Failure> {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}", std::process::id()));
        let write = || -> io::Result<()> {
            let mut file = std::fs::File::create_new(&name)?;
            file.write_all(self.text().as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&name, path)
        };
        write().map_err(|error| {
            let _ = std::fs::remove_file(&name);
            Failure::new(format!("cannot write `{}`: {error}; nothing of it was changed", path.display()))
        })
    }

    /// The commit at a position: 0 is the good end.
    pub fn commit(&self, position: usize) -> &str {
        position.checked_sub(1).map_or(&self.good, |index| &self.commits[index])
    }

    /// The position of a commit that is named by the beginning of its hash.
    pub fn position(&self, name: &str) -> Result<usize, Failure> {
        let all = 0..=self.commits.len();
        let found: Vec<usize> =
            all.filter(|at| !name.is_empty() && self.commit(*at).starts_with(&name.to_lowercase())).collect();
        match found[..] {
            [position] => Ok(position),
            [] => Err(Failure::mistake(format!("`{name}` is none of the commits of this search"))),
            _ => Err(Failure::mistake(format!(
                "`{name}` is {} commits of this search; write more of it",
                found.len()
            ))),
        }
    }

    pub fn skip(&mut self, position: usize) {
        self.told.push(Told { commit: self.commit(position).into(), value: None });
    }

    pub fn tell(&mut self, position: usize, value: f64) -> Result<(), Failure> {
        if !(value > 0.0 && value.is_finite()) {
            return Err(Failure::mistake(format!("{value} is no cost; it must be more than zero")));
        }
        self.told.push(Told { commit: self.commit(position).into(), value: Some(value) });
        Ok(())
    }

    /// What was told, as the statistics want it.
    pub fn bisection(&self) -> Bisection {
        let mut bisection = Bisection::new(self.commits.len(), self.noise);
        for told in &self.told {
            let at = (0..=self.commits.len()).find(|at| self.commit(*at) == told.commit);
            match (at, told.value) {
                (Some(at), Some(value)) => bisection.tell(at, value),
                (Some(at), None) => bisection.skip(at),
                (None, _) => {}
            }
        }
        bisection
    }
}
