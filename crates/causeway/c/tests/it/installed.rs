//! The library as `make install` puts it into a folder, and programs that are compiled against it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use causeway_testkit::watchdog::{COMPILING, extend_limit};
use causeway_testkit::{Cause, has_program, skipped, trial_succeeds};

use crate::header::package;

/// Runs a command, which must succeed.
#[track_caller]
pub fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{err}", output.status);
    output
}

/// The flags to compile a C program against the library; `None` where a tool is missing, and the test is skipped.
pub fn installed() -> Option<&'static Path> {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    let has_tools = ["cc", "make", "pkg-config", "cargo"].into_iter().all(has_program);
    has_tools.then(|| {
        extend_limit(COMPILING);
        ROOT.get_or_init(install).as_path()
    })
}

fn install() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let profile = program.ancestors().nth(2).expect("target/PROFILE/deps/PROGRAM");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--offline", "--package", "causeway-c", "--features", "panic-injection"]);
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    succeed(cargo.current_dir(package()).env("CARGO_TARGET_DIR", profile.parent().unwrap()));
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libcauseway");
    let mut make = Command::new("make");
    make.arg("--silent").arg("-C").arg(package()).args(["install", "PREFIX=/opt/causeway", "STRIP="]);
    make.arg(format!("ARCHIVE={}", profile.join("libcauseway_c.a").display()));
    succeed(make.arg(format!("DESTDIR={}", root.display())));
    root
}

fn pkg_config(root: &Path, packages: &[&str]) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    command.args(["--cflags", "--libs", "causeway"]).args(packages).env("PKG_CONFIG_SYSROOT_DIR", root);
    command.env("PKG_CONFIG_PATH", root.join("opt/causeway/lib/pkgconfig"));
    let flags = String::from_utf8(succeed(&mut command).stdout).unwrap();
    flags.split_whitespace().map(str::to_owned).collect()
}

/// Whether pkg-config knows this library; prints the skip of the test if not.
pub fn knows(package: &'static str) -> bool {
    trial_succeeds(Command::new("pkg-config").args(["--exists", package]), Cause::Missing(package))
}

/// Compiles a program of this package against the shared library.
#[track_caller]
pub fn compiled(root: &Path, source: &str, name: &str, packages: &[&str], flags: &[&str]) -> PathBuf {
    let flags: Vec<&str> = ["-std=gnu11"].into_iter().chain(flags.iter().copied()).collect();
    compiled_by("cc", root, source, name, packages, &flags)
}

/// As [`compiled`], by this compiler.
#[track_caller]
pub fn compiled_by(
    compiler: &str,
    root: &Path,
    source: &str,
    name: &str,
    packages: &[&str],
    flags: &[&str],
) -> PathBuf {
    let program = root.join(name);
    let mut command = Command::new(compiler);
    command.args(["-O1", "-g", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread", "-o"]);
    command.arg(&program).arg(package().join(source)).args(flags);
    command.args(pkg_config(root, packages));
    command.arg(format!("-Wl,-rpath,{}", root.join("opt/causeway/lib").display()));
    succeed(&mut command);
    program
}

#[test]
fn the_shared_library_has_its_soname_and_exports_what_the_headers_declare_in_one_version() {
    let Some(root) = installed().filter(|_| has_program("readelf")) else { return };
    let library = root.join("opt/causeway/lib/libcauseway.so");
    let read = |what: &str| {
        let output = succeed(Command::new("readelf").args(["--wide", what]).arg(&library));
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(read("--dynamic").contains("Library soname: [libcauseway.so.0.1]"));
    let mut exported = Vec::new();
    for line in read("--dyn-syms").lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        if let [_, _, _, _, "GLOBAL" | "WEAK", _, section, name, ..] = words[..]
            && section.parse::<u32>().is_ok()
        {
            let unversioned = || panic!("{name} has no version, or is not ours");
            exported.push(name.strip_suffix("@@CAUSEWAY_0.1").unwrap_or_else(unversioned).to_owned());
        }
    }
    let mut declared: Vec<_> = crate::header::functions().into_iter().map(|function| function.name).collect();
    declared.sort();
    exported.sort();
    assert_eq!(exported, declared);
}

/// `CAUSEWAY_C_RELEASE` names the library of a release before this one, as `libcauseway0` has it.
#[test]
fn a_program_that_was_linked_with_the_release_before_finds_all_that_it_needs() {
    let Some(before) = std::env::var_os("CAUSEWAY_C_RELEASE") else {
        return skipped(Cause::Setting("CAUSEWAY_C_RELEASE"), "it names libcauseway.so of a release before");
    };
    let Some(root) = installed().filter(|_| has_program("abidiff")) else { return };
    let library = root.join("opt/causeway/lib/libcauseway.so");
    let output = Command::new("abidiff").args([&*before, OsStr::new(&library)]).output().unwrap();
    // Bits: 1 and 2 for a mistake, 4 for a change, 8 for one that programs do not survive.
    let bits = output.status.code().unwrap();
    assert_eq!(bits & !4, 0, "{}", String::from_utf8_lossy(&[output.stdout, output.stderr].concat()));
}
