//! In what two kernels differ before any of them runs: their configurations and their compilers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::kernel::Kernel;

/// The text of the compiler in a configuration.
const COMPILER: &str = "CONFIG_CC_VERSION_TEXT";
/// Differences that are listed; of more the number is told.
const LISTED: usize = 40;

/// What differs, a sentence each: the compiler, then options by name. A configuration that was not found is a sentence of its own.
pub fn differences(a: &Kernel, b: &Kernel) -> Vec<String> {
    if a.image == b.image {
        return Vec::new();
    }
    let read = |name: &str, kernel: &Kernel| -> Result<String, String> {
        let Some(path) = &kernel.config else {
            return Err(format!(
                "configuration: that of {name} ({}) was not found, so differences of options and compilers are not known",
                kernel.name
            ));
        };
        text(path).map_err(|why| format!("configuration: `{}` cannot be read: {why}", path.display()))
    };
    match (read("A", a), read("B", b)) {
        (Ok(a), Ok(b)) => of_texts(&a, &b),
        (a, b) => [a.err(), b.err()].into_iter().flatten().collect(),
    }
}

/// The configuration in this file; one that is compressed is handed to gzip, as `zcat` does.
fn text(path: &Path) -> Result<String, String> {
    if path.extension().is_none_or(|end| end != "gz") {
        return fs::read_to_string(path).map_err(|error| error.to_string());
    }
    let output = Command::new("gzip").arg("-dc").arg(path).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("gzip cannot be started: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("gzip says: {}", String::from_utf8_lossy(&output.stderr).trim()))
    }
}

fn of_texts(a: &str, b: &str) -> Vec<String> {
    let (a, b) = (options(a), options(b));
    let mut names: BTreeSet<&str> = a.keys().chain(b.keys()).copied().collect();
    names.retain(|name| a.get(name) != b.get(name));
    let differs = |what: &str, name: &str| {
        let [a, b] = [&a, &b].map(|options| options.get(name).copied().unwrap_or("not set"));
        format!("{what}: A {a}, B {b}")
    };
    let mut sentences = Vec::new();
    if names.remove(COMPILER) {
        sentences.push(differs("compiler", COMPILER));
    }
    let option = |name: &&str| differs(&format!("configuration {name}"), name);
    sentences.extend(names.iter().take(LISTED).map(option));
    if names.len() > LISTED {
        sentences.push(format!("configuration: {} further options differ", names.len() - LISTED));
    }
    sentences
}

/// `CONFIG_X=value`; an option that is a comment is not set.
fn options(text: &str) -> BTreeMap<&str, &str> {
    text.lines().filter(|line| line.starts_with("CONFIG_")).filter_map(|line| line.split_once('=')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiler_is_first_and_options_that_are_the_same_are_left_out() {
        let a =
            "# Linux\nCONFIG_CC_VERSION_TEXT=\"gcc 12\"\nCONFIG_SLUB=y\nCONFIG_A=y\n# CONFIG_B is not set\n";
        let b = "CONFIG_CC_VERSION_TEXT=\"gcc 13\"\nCONFIG_SLUB=y\n# CONFIG_A is not set\nCONFIG_B=m\n";
        assert_eq!(
            of_texts(a, b),
            [
                "compiler: A \"gcc 12\", B \"gcc 13\"",
                "configuration CONFIG_A: A y, B not set",
                "configuration CONFIG_B: A not set, B m",
            ]
        );
        assert!(of_texts(a, a).is_empty());
        let many: String = (0..60).map(|i| format!("CONFIG_X{i}=y\n")).collect();
        let listed = of_texts(&many, "");
        let (last, first) = listed.split_last().unwrap();
        assert_eq!((first.len(), last.as_str()), (40, "configuration: 20 further options differ"));
    }

    #[test]
    fn a_compressed_configuration_is_read_and_a_damaged_one_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("config");
        fs::write(&plain, "CONFIG_X=y\n").unwrap();
        if Command::new("gzip").arg("-k").arg(&plain).status().is_err() {
            eprintln!("skipped: gzip is not installed");
            return;
        }
        assert_eq!(text(&plain).unwrap(), "CONFIG_X=y\n");
        assert_eq!(text(&plain.with_extension("gz")).unwrap(), "CONFIG_X=y\n");
        fs::write(plain.with_extension("gz"), "nonsense").unwrap();
        assert!(text(&plain.with_extension("gz")).unwrap_err().starts_with("gzip says: "));
    }

    #[test]
    fn a_configuration_that_is_not_there_is_said_and_one_kernel_differs_in_nothing() {
        let kernel = |name: &str| Kernel { name: name.into(), image: name.into(), ..Kernel::default() };
        let said = differences(&kernel("old"), &kernel("new"));
        assert_eq!(said.len(), 2);
        assert!(said[0].contains("that of A (old) was not found"), "{said:?}");
        assert!(differences(&kernel("old"), &kernel("old")).is_empty());
    }
}
