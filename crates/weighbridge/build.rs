//! Tells the program which commit it is built from, where git knows, and the linker what it asks for.

use std::process::Command;

fn main() {
    // musl is one library. A C compiler for it brings empty ones for the other names; rustup, which links without one, does not.
    if std::env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|libc| libc == "musl") {
        let folder = std::env::var("OUT_DIR").unwrap();
        std::fs::write(format!("{folder}/libdl.a"), "!<arch>\n").unwrap();
        println!("cargo::rustc-link-search=native={folder}");
    }
    println!("cargo::rerun-if-env-changed=GIT_COMMIT");
    if std::env::var_os("GIT_COMMIT").is_some() {
        return;
    }
    // Every source of the program lies beside this crate; with any change there, the mark of changes may change too.
    println!("cargo::rerun-if-changed=..");
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--path-format=absolute", "--git-path", name])
            .filter(|path| std::path::Path::new(path).exists())
        {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    let described = git(&["describe", "--always", "--exclude=*", "--abbrev=12", "--dirty=+changes"]);
    if let Some(commit) = described {
        println!("cargo::rustc-env=GIT_COMMIT={commit}");
    }
}

/// What git says, on one line; nothing where there is no git or no repository.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").env("GIT_OPTIONAL_LOCKS", "0").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty() && !text.contains('\n')).then_some(text)
}
