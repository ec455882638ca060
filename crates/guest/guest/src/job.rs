//! What a guest shall do: written by the program outside, read by the same program inside.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// Where the guest finds its job.
pub const PATH: &str = "/job.json";
/// Where the guest finds the modules.
const MODULES: &str = "/modules";

/// What a guest shall do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Modules to load, in this order, each with its parameters.
    pub modules: Vec<Module>,
    /// Arguments of this program for the command that measures; it writes its record to the file [`RECORD`].
    pub command: Vec<String>,
    /// Are the names of the kernel's functions wanted behind the record, and is the end of all windows to be marked?
    #[serde(default)]
    pub functions: bool,
}

/// The record of the command, in the guest.
pub const RECORD: &str = "/tmp/record.jsonl";

/// A module to load.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    /// Where it is in the guest.
    pub path: String,
    /// Its parameters, as `insmod` takes them.
    pub parameters: String,
}

/// Where the guest finds a module whose file is `module` outside.
pub fn module_path(module: &Path) -> String {
    let name = module.file_name().unwrap_or_default();
    format!("{MODULES}/{}", name.to_string_lossy())
}
