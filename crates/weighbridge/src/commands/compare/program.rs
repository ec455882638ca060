//! Another build of this program: is it one, and can its peers take part in a run of ours?

use std::io::{self, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weighbridge_harness::peer;
use weighbridge_record::SCHEMA;

use crate::args::{COMMIT, PROFILE};

/// The first argument that makes this program say what [`Build`] holds.
pub const ARGUMENT: &str = "__protocol";
/// A program that has not answered by then is none of ours.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a build of this program says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Build {
    /// Its version.
    pub version: String,
    /// The commit it was built from, where that is known.
    pub commit: Option<String>,
    /// `release` or `debug`.
    pub profile: String,
}

impl Default for Build {
    /// This one.
    fn default() -> Build {
        Build {
            version: env!("CARGO_PKG_VERSION").into(),
            commit: COMMIT.map(str::to_owned),
            profile: PROFILE.into(),
        }
    }
}

/// What this build answers.
pub fn answer() -> String {
    let Build { version, commit, profile } = Build::default();
    let answer = json!({
        "weighbridge": version,
        "protocol": peer::PROTOCOL,
        "schema": SCHEMA,
        "arch": std::env::consts::ARCH,
        "commit": commit,
        "profile": profile,
    });
    format!("{answer}\n")
}

/// Asks a program whether its peers can take part.
///
/// # Errors
/// Why they cannot, as what follows the name of the program in a sentence.
pub fn ask(program: &Path) -> Result<Build, String> {
    let heard = heard(program).map_err(|error| format!("it cannot be started: {error}"))?;
    let no = "it is not a weighbridge that can take part in a comparison: it does not answer `__protocol`";
    let answer: Value = serde_json::from_slice(&heard).map_err(|_| no.to_owned())?;
    let text = |name: &str| answer[name].as_str().map(str::to_owned);
    let (Some(version), Some(arch)) = (text("weighbridge"), text("arch")) else { return Err(no.into()) };
    if arch != std::env::consts::ARCH {
        return Err(format!("it is built for {arch}, and this program for {}", std::env::consts::ARCH));
    }
    for (name, own) in [("protocol", peer::PROTOCOL), ("schema", SCHEMA)] {
        let theirs = answer[name].as_u64().unwrap_or(0);
        if theirs != u64::from(own) {
            return Err(format!(
                "it is weighbridge {version} with {name} {theirs}, and this program has {name} {own}, so its peers cannot take \
                 part; build both sides from versions that agree, or compare records with --with"
            ));
        }
    }
    Ok(Build { version, commit: text("commit"), profile: text("profile").unwrap_or_default() })
}

/// What it writes to standard output before it ends.
fn heard(program: &Path) -> io::Result<Vec<u8>> {
    // A name without a slash would be looked up in PATH.
    let program = std::fs::canonicalize(program)?;
    let mut child = Command::new(program)
        .arg(ARGUMENT)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let began = Instant::now();
    while child.try_wait()?.is_none() {
        if began.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut heard = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(1 << 16).read_to_end(&mut heard)?;
    }
    Ok(heard)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_are_none_of_ours_are_refused() {
        let why = ask(Path::new("/bin/true")).unwrap_err();
        assert!(why.contains("not a weighbridge"), "{why}");
        let why = ask(Path::new("/etc/passwd")).unwrap_err();
        assert!(why.contains("cannot be started"), "{why}");
    }
}
