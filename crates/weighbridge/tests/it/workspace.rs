//! The packages of this workspace, as cargo knows them.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A package.
#[derive(Clone, Debug)]
pub struct Package {
    pub name: String,
    /// Where it is, from the folder `crates`.
    pub folder: PathBuf,
    /// What it depends on: itself, its tests and its build.
    pub dependencies: Vec<Dependency>,
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
}

/// The folder `crates`.
pub fn crates() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().find(|folder| folder.ends_with("crates"));
    folder.expect("this package is below `crates`").to_owned()
}

/// All packages.
pub fn packages() -> Vec<Package> {
    let crates = crates();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version=1"]).current_dir(&crates);
    let output = cargo.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let package = |package: &Value| Package {
        name: text(&package["name"]),
        folder: Path::new(package["manifest_path"].as_str().unwrap())
            .parent()
            .and_then(|folder| folder.strip_prefix(&crates).ok())
            .expect("all packages are below `crates`")
            .to_owned(),
        dependencies: package["dependencies"]
            .as_array()
            .unwrap()
            .iter()
            .map(|on| Dependency { name: text(&on["name"]), is_dev: on["kind"] == "dev" })
            .collect(),
    };
    metadata["packages"].as_array().unwrap().iter().map(package).collect()
}
