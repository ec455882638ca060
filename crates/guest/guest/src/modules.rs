//! Modules of kernels: files by their path, or modules of a guest's kernel by name, with what they need before them; and how the kernel that runs this
//! gets one.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::error::Error;
use crate::kernel::Kernel;

/// The modules of a folder (every `.ko` file in it), or the one file. Their order is that of their names.
///
/// # Errors
/// There is none.
pub fn at(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let cannot = |why: String| Error::new(format!("no module can be taken from `{}`: {why}", path.display()));
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = fs::read_dir(path).map_err(|error| cannot(error.to_string()))?;
    let is_module = |path: &PathBuf| stem(path).is_some();
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_module).collect();
    found.sort();
    if found.is_empty() {
        return Err(cannot("there is no .ko file in it; `make` builds them".into()));
    }
    Ok(found)
}

/// The name of a module file without `.ko` and what compresses it; nothing for other files.
pub(crate) fn stem(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let name = [".zst", ".xz", ".gz"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    // The kernel takes both signs for the same.
    name.strip_suffix(".ko").map(|stem| stem.replace('-', "_"))
}

/// Every module that was found with the kernel: of its folder of modules, or of its build tree, which lists them in `modules.order`.
pub fn all(kernel: &Kernel) -> Vec<PathBuf> {
    match Files::of(kernel) {
        Some(Files { folder, known }) => known.values().map(|(path, _)| folder.join(path)).collect(),
        None => Vec::new(),
    }
}

/// The modules of a kernel, and the folder below which their paths are.
struct Files {
    folder: PathBuf,
    known: Known,
}

impl Files {
    fn of(kernel: &Kernel) -> Option<Files> {
        if let Some(folder) = &kernel.modules {
            let dependencies = text(folder, "modules.dep");
            // An unpacked package has none: `depmod` makes it where the package is installed.
            let known = if dependencies.is_empty() { scanned(folder) } else { parsed(&dependencies) };
            return Some(Files { folder: folder.clone(), known });
        }
        let tree = kernel.build_tree()?;
        let known = ordered(&tree, &text(&tree, "modules.order"));
        (!known.is_empty()).then_some(Files { folder: tree, known })
    }
}

fn text(folder: &Path, file: &str) -> String {
    fs::read_to_string(folder.join(file)).unwrap_or_default()
}

/// `modules.order` of a build tree: `kernel/fs/ext4/ext4.ko` up to Linux 6.2, `fs/ext4/ext4.o` from then on.
fn ordered(tree: &Path, text: &str) -> Known {
    let module = |line: &str| {
        let path = tree.join(line.strip_prefix("kernel/").unwrap_or(line)).with_extension("ko");
        Some((stem(&path)?, (path, None)))
    };
    text.lines().filter_map(module).collect()
}

/// Modules of the kernel by name, each after those that it depends on, each once. What is built into the kernel is left out.
///
/// # Errors
/// The kernel has no folder of modules, or not this module.
pub fn by_name(kernel: &Kernel, names: &[&str]) -> Result<Vec<PathBuf>, Error> {
    let Some(Files { folder, known }) = Files::of(kernel) else {
        return Err(Error::new(format!(
            "the modules of `{}` were not found: there is no folder lib/modules/{} beside it, and no build tree with modules.order",
            kernel.name,
            kernel.release()
        )));
    };
    let built_in: Vec<String> =
        text(&folder, "modules.builtin").lines().filter_map(|line| stem(Path::new(line))).collect();
    let mut order = Vec::new();
    for name in names {
        let name = name.replace('-', "_");
        if !built_in.contains(&name) && !add(&name, &known, &built_in, &mut order) {
            return Err(Error::new(format!(
                "the kernel {} has no module {name}, and it is not built in",
                kernel.release()
            )));
        }
    }
    Ok(order.into_iter().map(|path| folder.join(path)).collect())
}

/// A module: its path below the folder, and the names of those that it needs, where they are known already.
type Known = BTreeMap<String, (PathBuf, Option<Vec<String>>)>;

/// Adds a module behind its dependencies. False where there is none.
fn add(name: &str, known: &Known, built_in: &[String], order: &mut Vec<PathBuf>) -> bool {
    let Some((path, needs)) = known.get(name) else { return built_in.iter().any(|other| other == name) };
    if order.contains(path) {
        return true;
    }
    let needs = needs.clone().unwrap_or_else(|| depends(path));
    let complete = needs.iter().all(|needed| add(needed, known, built_in, order));
    if !order.contains(path) {
        order.push(path.clone());
    }
    complete
}

/// `modules.dep`: `path: paths of all that it needs`.
fn parsed(text: &str) -> Known {
    let names = |paths: &str| paths.split_whitespace().filter_map(|path| stem(Path::new(path))).collect();
    let line = |line: &str| {
        let (path, needs) = line.split_once(':')?;
        let mut needs: Vec<String> = names(needs);
        // The nearest is first there, and must be loaded last.
        needs.reverse();
        Some((stem(Path::new(path))?, (PathBuf::from(path), Some(needs))))
    };
    text.lines().filter_map(line).collect()
}

/// The modules that there are. Thousands are found and a few wanted: what one needs is read when it is asked for.
fn scanned(folder: &Path) -> Known {
    let mut known = Known::new();
    let mut folders = vec![folder.join("kernel"), folder.join("updates"), folder.join("extra")];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            } else if let Some(name) = stem(&path) {
                known.insert(name, (path, None));
            }
        }
    }
    known
}

/// What a module needs; nothing where it cannot be read.
fn depends(module: &Path) -> Vec<String> {
    let list = info(module, "depends=").unwrap_or_default();
    list.split(',').filter(|name| !name.is_empty()).map(|name| name.replace('-', "_")).collect()
}

/// The value behind `name=` in a module's section `.modinfo`.
fn info(module: &Path, name: &str) -> Option<String> {
    use object::{Object, ObjectSection};
    let bytes = fs::read(module).ok()?;
    let section = object::File::parse(&bytes[..]).ok()?.section_by_name(".modinfo")?.data().ok()?;
    let value = section.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(name.as_bytes()))?;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// A file is compressed: `finit_module` unpacks it where the kernel can (`include/uapi/linux/module.h`).
const MODULE_INIT_COMPRESSED_FILE: i32 = 4;

/// Loads a module into the kernel that runs this. False where the kernel has one of its name already.
///
/// # Errors
/// Why not, as a sentence.
pub fn load(module: &Path, parameters: &str) -> Result<bool, String> {
    let cannot = |why: &dyn Display| format!("the module {} cannot be loaded: {why}", module.display());
    let file = fs::File::open(module).map_err(|error| cannot(&error))?;
    let parameters = CString::new(parameters).map_err(|error| cannot(&error))?;
    let flags =
        if module.extension().is_some_and(|end| end == "ko") { 0 } else { MODULE_INIT_COMPRESSED_FILE };
    let error = match rustix::system::finit_module(file, &parameters, flags) {
        Ok(()) => return Ok(true),
        Err(Errno::EXIST) => return Ok(false),
        Err(error) => error,
    };
    let release = rustix::system::uname();
    let here = release.release().to_string_lossy();
    Err(match (built_for(module), error) {
        (Some(built), _) if built != here => {
            cannot(&format!("it was built for {built}, and this kernel is {here}"))
        }
        (_, Errno::PERM) => cannot(&"it needs root (CAP_SYS_MODULE), and a kernel that is not locked down"),
        (_, Errno::NOSYS) => cannot(&"this kernel loads no modules (CONFIG_MODULES)"),
        (_, Errno::KEYREJECTED) => cannot(&"this kernel loads only modules with a signature that it knows"),
        _ => cannot(&error),
    })
}

/// Takes a module out of the kernel, by its name.
///
/// # Errors
/// Why not, as a sentence.
pub fn unload(name: &str) -> Result<(), String> {
    let cannot = |why: &dyn Display| format!("the module {name} cannot be taken out of the kernel: {why}");
    let c_name = CString::new(name).map_err(|error| cannot(&error))?;
    rustix::system::delete_module(&c_name, 0).map_err(|error| cannot(&error))
}

/// The release that a module was built for: the first word of its `vermagic`.
pub fn built_for(module: &Path) -> Option<String> {
    info(module, "vermagic=")?.split_whitespace().next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEP: &str = "kernel/net/netfilter/x_tables.ko.xz:\n\
        kernel/net/ipv4/netfilter/ip_tables.ko.xz: kernel/net/netfilter/x_tables.ko.xz\n\
        kernel/net/ipv4/netfilter/iptable_raw.ko.xz: kernel/net/ipv4/netfilter/ip_tables.ko.xz kernel/net/netfilter/x_tables.ko.xz\n\
        kernel/drivers/net/veth.ko:\n";

    fn kernel(folder: &Path) -> Kernel {
        Kernel { version: "6.1.0 (a@b)".into(), modules: Some(folder.to_owned()), ..Kernel::default() }
    }

    #[test]
    fn a_module_comes_after_those_that_it_needs_and_once() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("modules.dep"), DEP).unwrap();
        fs::write(folder.path().join("modules.builtin"), "kernel/net/core/pktgen.ko\n").unwrap();
        let found = by_name(&kernel(folder.path()), &["iptable-raw", "veth", "pktgen", "ip_tables"]).unwrap();
        let names: Vec<String> = found.iter().filter_map(|path| stem(path)).collect();
        assert_eq!(names, ["x_tables", "ip_tables", "iptable_raw", "veth"]);
        let why = by_name(&kernel(folder.path()), &["none"]).unwrap_err().to_string();
        assert_eq!(why, "the kernel 6.1.0 has no module none, and it is not built in");
    }

    #[test]
    fn a_build_tree_lists_its_modules_in_the_form_of_either_release() {
        let tree = tempfile::tempdir().unwrap();
        let boot = tree.path().join("arch/x86/boot");
        fs::create_dir_all(&boot).unwrap();
        let built = Kernel { image: boot.join("bzImage"), modules: None, ..kernel(tree.path()) };
        assert!(all(&built).is_empty());
        assert!(by_name(&built, &["veth"]).unwrap_err().to_string().contains("modules.order"));
        let order = "kernel/drivers/net/veth.ko\nnet/core/pktgen.o\n";
        fs::write(tree.path().join("modules.order"), order).unwrap();
        let names = |paths: Vec<PathBuf>| paths.iter().filter_map(|path| stem(path)).collect::<Vec<_>>();
        assert_eq!(names(all(&built)), ["pktgen", "veth"]);
        let found = by_name(&built, &["veth", "pktgen"]).unwrap();
        assert_eq!(found[0], tree.path().join("drivers/net/veth.ko"));
        assert_eq!(names(found), ["veth", "pktgen"]);
    }

    #[test]
    fn what_is_no_module_is_not_loaded_and_the_sentence_says_why() {
        let file = tempfile::NamedTempFile::with_suffix(".ko").unwrap();
        let why = load(file.path(), "").unwrap_err();
        let start = format!("the module {} cannot be loaded: ", file.path().display());
        assert!(why.starts_with(&start), "{why}");
        assert!(load(Path::new("/nothing.ko"), "").unwrap_err().contains("No such file"));
        assert!(unload("weighbridge_no_such_module").unwrap_err().contains("cannot be taken out"));
    }

    #[test]
    fn a_folder_gives_its_modules_and_one_without_says_how_to_build_them() {
        let folder = tempfile::tempdir().unwrap();
        assert!(at(folder.path()).unwrap_err().to_string().contains("`make` builds them"));
        for name in ["b.ko", "a.ko.zst", "a.o"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let names: Vec<_> = at(folder.path()).unwrap().iter().filter_map(|path| stem(path)).collect();
        assert_eq!(names, ["a", "b"]);
    }
}
