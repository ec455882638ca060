//! Programs of others, and our own other one, where they are.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use causeway_testkit::{Cause, has_program, skipped, trial_succeeds};

/// `weighbridge`: what the variable of that name says, or what was built in the main workspace.
pub fn weighbridge() -> Option<PathBuf> {
    let built = |profile: &str| {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../target").join(profile).join("weighbridge")
    };
    let named = env::var_os("WEIGHBRIDGE").map(PathBuf::from);
    let found = named.into_iter().chain(["release", "debug"].map(built)).find(|path| path.is_file());
    if found.is_none() {
        skipped(Cause::Missing("weighbridge"), "cargo build in the main folder, or its path in WEIGHBRIDGE");
    }
    Some(found?.canonicalize().unwrap())
}

/// A folder with both programs, for a PATH.
pub fn both(folder: &Path) -> Option<PathBuf> {
    let bin = folder.join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::os::unix::fs::symlink(weighbridge()?, bin.join("weighbridge")).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_weighbridge-fleet"), bin.join("weighbridge-fleet"))
        .unwrap();
    Some(bin)
}

/// The PATH with that folder before the others.
pub fn path_with(bin: &Path) -> String {
    format!("{}:{}", bin.display(), env::var("PATH").unwrap_or_default())
}

/// In which boot a program believes to be.
pub enum Boot {
    /// That of this machine.
    This,
    /// One of which this file has the id: it lies over the kernel's in a name space of mounts.
    Another(PathBuf),
}

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

impl Boot {
    /// `None`, with the skip printed, where this user may mount nothing.
    pub fn another(folder: &Path) -> Option<Boot> {
        let file = folder.join("boot_id");
        std::fs::write(&file, "b0075ba1-0000-4000-8000-000000000000\n").unwrap();
        let boot = Boot::Another(file);
        let is_there =
            has_program("unshare") && trial_succeeds(&mut boot.command("true"), Cause::Rights("namespaces"));
        is_there.then_some(boot)
    }

    /// A program there.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let Boot::Another(file) = self else { return Command::new(program) };
        let mut command = Command::new("unshare");
        let script = format!("mount --bind \"$0\" {BOOT_ID} && exec \"$@\"");
        command.args(["--mount", "sh", "-c", &script]).arg(file).arg(program);
        command
    }
}

/// A plan with these words, as a file.
pub fn plan(folder: &Path, words: &[&str]) -> PathBuf {
    let output = Command::new(weighbridge().unwrap())
        .arg("plan")
        .args(words)
        .args(["--format", "json"])
        .output()
        .unwrap();
    crate::push::ends_with(&output, 0);
    let file = folder.join("plan.json");
    std::fs::write(&file, output.stdout).unwrap();
    file
}

/// The text of a record in a folder.
pub fn record_in(spool: &Path) -> Option<String> {
    let mut inside = std::fs::read_dir(spool).ok()?.map(|entry| entry.unwrap().path());
    std::fs::read_to_string(inside.find(|path| path.extension().is_some_and(|end| end == "jsonl"))?).ok()
}

/// Can Python import this module, `python:` before its name? Prints the skip of the test if not.
pub fn python_has(module: &'static str) -> bool {
    let import = format!("import {}", module.trim_start_matches("python:"));
    trial_succeeds(Command::new("python3").args(["-c", &import]), Cause::Missing(module))
}
