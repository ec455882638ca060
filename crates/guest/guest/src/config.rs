//! In what two kernels differ before any of them runs: their configurations and their compilers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::kernel::Kernel;
use crate::port::checksum;

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

/// What a report says of a kernel's configuration: name and value each. Nothing where the configuration was not found.
pub fn facts(kernel: &Kernel) -> Vec<(&'static str, String)> {
    kernel.config.as_deref().and_then(|path| text(path).ok()).map_or(Vec::new(), |text| facts_of(&text))
}

fn facts_of(text: &str) -> Vec<(&'static str, String)> {
    let options = options(text);
    let is_set = |name: &str| options.get(name) == Some(&"y");
    let first = |choices: &[(&str, &str)]| {
        choices.iter().find(|(option, _)| is_set(option)).map(|(_, name)| (*name).to_owned())
    };
    let preempt = first(&[
        ("CONFIG_PREEMPT_RT", "PREEMPT_RT"),
        ("CONFIG_PREEMPT", "PREEMPT"),
        ("CONFIG_PREEMPT_LAZY", "PREEMPT_LAZY"),
        ("CONFIG_PREEMPT_VOLUNTARY", "PREEMPT_VOLUNTARY"),
        ("CONFIG_PREEMPT_NONE", "PREEMPT_NONE"),
    ]);
    let dynamic = if is_set("CONFIG_PREEMPT_DYNAMIC") { ", PREEMPT_DYNAMIC" } else { "" };
    let allocator = first(&[("CONFIG_SLUB", "SLUB"), ("CONFIG_SLAB", "SLAB"), ("CONFIG_SLOB", "SLOB")]);
    let compiler = options.get(COMPILER).map(|text| text.trim_matches('"').to_owned());
    let all: String = options.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
    let digest = format!("{:016x} ({} options)", checksum(all.as_bytes()), options.len());
    [
        ("config", Some(digest)),
        ("preempt", preempt.map(|name| name + dynamic)),
        ("allocator", allocator),
        ("compiler", compiler),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value?)))
    .collect()
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
    fn a_report_names_preemption_allocator_compiler_and_a_digest_of_all_options() {
        let text = "# Linux\nCONFIG_CC_VERSION_TEXT=\"gcc (Debian 12.2.0) 12.2.0\"\nCONFIG_PREEMPT=y\nCONFIG_PREEMPT_DYNAMIC=y\n\
                    CONFIG_SLUB=y\n# CONFIG_SLAB is not set\n";
        let of = |text: &str| facts_of(text).into_iter().collect::<BTreeMap<_, _>>();
        let found = of(text);
        assert_eq!(found["preempt"], "PREEMPT, PREEMPT_DYNAMIC");
        assert_eq!((&*found["allocator"], &*found["compiler"]), ("SLUB", "gcc (Debian 12.2.0) 12.2.0"));
        assert!(found["config"].ends_with(" (4 options)"), "{found:?}");
        // Order and comments are none of the configuration; each value is.
        let mut lines: Vec<&str> = text.lines().skip(1).collect();
        lines.reverse();
        assert_eq!(of(&lines.join("\n"))["config"], found["config"]);
        assert_ne!(of(&text.replace("SLUB=y", "SLUB=m"))["config"], found["config"]);
        assert!(facts(&Kernel::default()).is_empty());
    }

    #[test]
    fn a_compressed_configuration_is_read_and_a_damaged_one_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("config");
        fs::write(&plain, "CONFIG_X=y\n").unwrap();
        if !causeway_testkit::has_program("gzip") {
            return;
        }
        assert!(Command::new("gzip").arg("-k").arg(&plain).status().unwrap().success());
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
