//! Where the plugin of the emulator is that counts instructions by function.

use std::path::{Path, PathBuf};

use crate::error::Error;

/// The file that cargo makes of the crate `weighbridge-guest-plugin`.
const FILE: &str = "libweighbridge_guest_plugin.so";
/// The variable that names the file, or its folder.
pub const VARIABLE: &str = "WEIGHBRIDGE_GUEST_PLUGIN";

/// The plugin: what the variable `WEIGHBRIDGE_GUEST_PLUGIN` names; or the file beside this program, in the folder `deps` beside it, as cargo
/// leaves it, or in `lib/weighbridge` or `lib` of the prefix in whose `bin` this program is.
///
/// # Errors
/// There is none, with what brings it.
pub fn find() -> Result<PathBuf, Error> {
    let named = std::env::var_os(VARIABLE).map(PathBuf::from);
    let program = std::env::current_exe().unwrap_or_default();
    find_by(named.as_deref(), &program)
}

fn find_by(named: Option<&Path>, program: &Path) -> Result<PathBuf, Error> {
    if let Some(named) = named {
        let file = if named.is_dir() { named.join(FILE) } else { named.to_owned() };
        let why = format!(
            "{VARIABLE} names `{}`, and there is no file `{}`; without the variable the plugin is looked for beside this program",
            named.display(),
            file.display()
        );
        return if file.is_file() { Ok(file) } else { Err(Error::new(why)) };
    }
    let beside = program.parent().unwrap_or(Path::new("."));
    let places = ["", "deps", "../lib/weighbridge", "../lib"].map(|folder| beside.join(folder).join(FILE));
    places.into_iter().find(|file| file.is_file()).ok_or_else(|| {
        Error::new(format!(
            "the plugin of the emulator that counts by function, {FILE}, is not in `{}`; `cargo build -p weighbridge-guest-plugin`, with --release for a \
             release build, makes it in the folder of sources, and {VARIABLE} names another place",
            beside.display()
        ))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_plugin_is_what_the_variable_names_or_lies_beside_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        let program = at("bin/weighbridge");
        fs::create_dir_all(at("bin/deps")).unwrap();
        fs::create_dir_all(at("lib/weighbridge")).unwrap();
        let why = find_by(None, &program).unwrap_err().to_string();
        assert!(why.contains("cargo build -p weighbridge-guest-plugin") && why.contains(VARIABLE), "{why}");
        for place in ["lib/weighbridge", "bin/deps", "bin"] {
            fs::write(at(place).join(FILE), "").unwrap();
            let found = fs::canonicalize(find_by(None, &program).unwrap()).unwrap();
            assert_eq!(found, fs::canonicalize(at(place).join(FILE)).unwrap());
        }
        assert_eq!(find_by(Some(&at("bin")), Path::new("/nothing")).unwrap(), at("bin").join(FILE));
        let why = find_by(Some(&at("no.so")), &program).unwrap_err().to_string();
        assert!(why.contains("no.so") && why.contains(VARIABLE), "{why}");
    }
}
