//! Another build of this program: is it one, and can its peers take part in a run of ours?

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use causeway_os::process::{pidfd_open, wait_readable};
use serde_json::{Value, json};
use weighbridge_harness::peer;
use weighbridge_record::SCHEMA;

use crate::args::{COMMIT, PROFILE};

/// The first argument that makes this program say what [`Build`] holds.
pub const ARGUMENT: &str = "__protocol";
/// A program that has not answered by then is not a build of this one.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a build of this program says of itself: version, commit where that is known, and `release` or `debug`.
pub type Build = [String; 3];

/// What this build answers.
pub fn answer() -> String {
    let answer = json!({
        "weighbridge": env!("CARGO_PKG_VERSION"),
        "protocol": peer::PROTOCOL,
        "schema": SCHEMA,
        "arch": std::env::consts::ARCH,
        "commit": COMMIT,
        "profile": PROFILE,
    });
    format!("{answer}\n")
}

/// This build.
pub fn own() -> Build {
    [env!("CARGO_PKG_VERSION"), COMMIT.unwrap_or("unknown"), PROFILE].map(String::from)
}

/// Asks a program whether its peers can take part; why not is what follows the name of the program in a sentence.
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
    Ok([version, text("commit").unwrap_or("unknown".into()), text("profile").unwrap_or_default()])
}

/// What it writes to standard output before it ends.
fn heard(program: &Path) -> io::Result<Vec<u8>> {
    // A name without a slash would be looked up in PATH.
    let program = std::fs::canonicalize(program)?;
    let mut command = Command::new(program);
    command.arg(ARGUMENT).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let end = Instant::now() + PATIENCE;
    if !pidfd_open(child.id()).and_then(|pidfd| wait_readable(pidfd.as_fd(), Some(end))).unwrap_or(false) {
        child.kill()?;
    }
    child.wait()?;
    let mut heard = Vec::new();
    let stdout = child.stdout.take().expect("it is piped");
    stdout.take(1 << 16).read_to_end(&mut heard)?;
    Ok(heard)
}
