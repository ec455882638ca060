//! Settings of the whole machine that differ between the sides: sysctls, set before each run of a side.
//!
//! A process of its own, the guardian, knows what there was before. It waits for the end of a pipe that only this process holds
//! open, and puts everything back when that comes, however this process ends.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};

use crate::interrupt::Interrupt;

/// The first argument of a guardian.
pub const ARGUMENT: &str = "--put-settings-back";
const ARMED: &str = "armed\n";

/// A sysctl as it was typed, as in `vm.swappiness` or `net/ipv4/conf/eth0.1/forwarding`, and a value.
pub type Sysctl = (String, String);

/// The sysctls that a comparison changes.
#[derive(Debug)]
pub struct MachineSettings {
    paths: Vec<PathBuf>,
    /// The value of each on side A and on side B.
    values: [Vec<String>; 2],
    guardian: Child,
    /// Its end is what the guardian waits for.
    lifeline: Option<ChildStdin>,
}

impl MachineSettings {
    /// Starts the guardian, and tries the values of both sides; `None` where no side names any. A sysctl that only one side names has its
    /// present value on the other. After an error everything is as it was.
    pub fn new(program: &Path, [a, b]: [&[Sysctl]; 2]) -> Result<Option<MachineSettings>, String> {
        let names: BTreeSet<&str> = a.iter().chain(b).map(|(name, _)| name.as_str()).collect();
        if names.is_empty() {
            return Ok(None);
        }
        let paths: Vec<PathBuf> = names.iter().map(|name| path_of(name)).collect::<Result<_, _>>()?;
        let before: Vec<String> = paths.iter().map(|path| value_of(path)).collect::<Result<_, _>>()?;
        let of = |side: &[Sysctl]| -> Vec<String> {
            let value = |(name, before): (&&str, &String)| {
                side.iter().rfind(|(typed, _)| typed == *name).map_or(before, |(_, value)| value).clone()
            };
            names.iter().zip(&before).map(value).collect()
        };
        let values = [of(a), of(b)];
        let (guardian, lifeline) = start_guardian(program, &paths, &before)
            .map_err(|error| format!("the process that puts settings back cannot be started: {error}"))?;
        let mut settings = MachineSettings { paths, values, guardian, lifeline: Some(lifeline) };
        for side in [1, 0] {
            settings.apply(side)?;
        }
        Ok(Some(settings))
    }

    /// Sets the values of side A (0) or B (1).
    pub fn apply(&mut self, side: usize) -> Result<(), String> {
        self.paths.iter().zip(&self.values[side]).try_for_each(|(path, value)| set(path, value))
    }

    /// Puts everything back; the guardian says what could not be.
    pub fn put_back(mut self) -> Result<(), String> {
        self.end()
    }

    fn end(&mut self) -> Result<(), String> {
        if self.lifeline.take().is_none() {
            return Ok(());
        }
        match self.guardian.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(_) => Err("not every setting of the machine could be put back".into()),
            Err(error) => Err(format!("the process that puts settings back is lost: {error}")),
        }
    }
}

impl Drop for MachineSettings {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// The file of a sysctl. Dots stand for slashes where the name has no slash itself.
fn path_of(name: &str) -> Result<PathBuf, String> {
    let relative = if name.contains('/') { name.to_owned() } else { name.replace('.', "/") };
    let path = Path::new("/proc/sys").join(&relative);
    let is_inside = relative.split('/').all(|part| !part.is_empty() && part != "..");
    if is_inside && path.is_file() {
        Ok(path)
    } else {
        Err(format!("there is no sysctl `{name}`: {} is not a file", path.display()))
    }
}

fn value_of(path: &Path) -> Result<String, String> {
    let text =
        fs::read_to_string(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    Ok(words(&text))
}

/// Numbers of one sysctl stand between tabs or blanks.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn set(path: &Path, value: &str) -> Result<(), String> {
    let refused = |error: io::Error| {
        let remedy = match error.kind() {
            io::ErrorKind::PermissionDenied => "; run the comparison as root",
            io::ErrorKind::ReadOnlyFilesystem => "; /proc/sys is read-only here, as in most containers",
            _ => "",
        };
        format!("{} does not take `{value}`: {error}{remedy}", path.display())
    };
    // In one call: the kernel parses each write by itself.
    fs::OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|mut file| file.write_all(value.as_bytes()))
        .map_err(refused)?;
    match value_of(path)? {
        now if now == words(value) => Ok(()),
        now => Err(format!("{} does not take `{value}`: it became `{now}`", path.display())),
    }
}

fn start_guardian(program: &Path, paths: &[PathBuf], before: &[String]) -> io::Result<(Child, ChildStdin)> {
    // A group of its own: Ctrl-C on the terminal is not for it.
    let mut guardian = Command::new(program)
        .arg(ARGUMENT)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()?;
    let mut lifeline = guardian.stdin.take().expect("it was asked for");
    let known: Vec<(&PathBuf, &String)> = paths.iter().zip(before).collect();
    writeln!(lifeline, "{}", serde_json::to_string(&known)?)?;
    let mut said = String::new();
    BufReader::new(guardian.stdout.take().expect("it was asked for")).read_line(&mut said)?;
    if said == ARMED { Ok((guardian, lifeline)) } else { Err(io::Error::other("it does not answer")) }
}

/// The work of a guardian: reads what there was, waits for the end of standard input, and puts it back.
pub fn guard() -> ExitCode {
    // It has to outlive what ends others.
    let _signals = Interrupt::install();
    let mut input = BufReader::new(io::stdin());
    let mut line = String::new();
    let known = input.read_line(&mut line).ok().and_then(|_| serde_json::from_str(&line).ok());
    let Some(known): Option<Vec<(PathBuf, String)>> = known else { return ExitCode::FAILURE };
    if io::stdout().write_all(ARMED.as_bytes()).and_then(|()| io::stdout().flush()).is_err() {
        return ExitCode::FAILURE;
    }
    let _ = io::copy(&mut input, &mut io::sink());
    let mut code = ExitCode::SUCCESS;
    for (path, value) in known {
        if let Err(why) = set(&path, &value) {
            let _ = writeln!(io::stderr(), "warning: {why}; put it back by hand");
            code = ExitCode::FAILURE;
        }
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_files_below_proc_sys_and_nothing_else() {
        assert_eq!(path_of("kernel.ostype"), path_of("kernel/ostype"));
        assert_eq!(path_of("kernel.ostype").unwrap(), Path::new("/proc/sys/kernel/ostype"));
        for name in ["kernel", "kernel.no-such", "../version", "kernel/../../version", "", "kernel..ostype"] {
            let why = path_of(name).unwrap_err();
            assert!(why.contains("there is no sysctl"), "{name}: {why}");
        }
    }
}
