//! The packages of this workspace, as cargo knows them.

use std::path::{Path, PathBuf};
use std::process::Command;

use causeway_testkit::{Cause, skipped};
use serde_json::Value;

/// A package.
#[derive(Clone, Debug)]
pub struct Package {
    pub name: String,
    /// Where it is, from the folder `crates`.
    pub folder: PathBuf,
    /// What it depends on: itself, its tests and its build.
    pub dependencies: Vec<Dependency>,
    pub features: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct Dependency {
    pub name: String,
    /// Of its tests alone.
    pub is_dev: bool,
}

impl Package {
    /// The folder in which its product is.
    pub fn product(&self) -> &str {
        self.folder.iter().next().and_then(|name| name.to_str()).expect("a package has a folder")
    }

    /// Does it, or do its tests, depend on this directly?
    pub fn needs(&self, name: &str) -> bool {
        self.dependencies.iter().any(|on| on.name == name)
    }
}

/// The folder `crates`.
pub fn crates() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    folder.filter(|folder| folder.ends_with("crates")).expect("this package is in `crates`").to_owned()
}

/// Whether the cargo that compiled this is installed; prints the skip of the current test if not.
pub fn has_cargo() -> bool {
    let found = Path::new(env!("CARGO")).exists();
    if !found {
        skipped(Cause::Missing("cargo"), "");
    }
    found
}

/// All packages; `None`, and the skip of the current test, where there is no cargo.
pub fn packages() -> Option<Vec<Package>> {
    if !has_cargo() {
        return None;
    }
    let crates = crates();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version=1"]).current_dir(&crates);
    let output = cargo.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let dependency = |on: &Value| Dependency { name: text(&on["name"]), is_dev: on["kind"] == "dev" };
    let package = |package: &Value| {
        let manifest = PathBuf::from(text(&package["manifest_path"]));
        let folder = manifest.parent().and_then(|folder| folder.strip_prefix(&crates).ok());
        Package {
            name: text(&package["name"]),
            folder: folder.expect("all packages are below `crates`").to_owned(),
            dependencies: package["dependencies"].as_array().unwrap().iter().map(dependency).collect(),
            features: package["features"].as_object().unwrap().keys().cloned().collect(),
        }
    };
    Some(metadata["packages"].as_array().unwrap().iter().map(package).collect())
}
