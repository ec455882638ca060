//! Code size in a patch report: of the kernels, of the modules that were loaded, and of all modules that were built with the kernels.

use std::path::{Path, PathBuf};

use weighbridge_guest::bloat::{Bloat, Sizes};
use weighbridge_guest::job;
use weighbridge_guest::kernel::Kernel;
use weighbridge_guest::module_sizes::ModuleSizes;
use weighbridge_guest::modules;
use weighbridge_report::Block;

use super::machine::Guest;

/// Symbols of which the sizes are listed: of a whole kernel thousands change with a compiler.
const SYMBOLS: usize = 40;
/// The same of modules.
const MODULES: usize = 40;

/// Without a heading of their own.
pub fn blocks(a: &Guest<'_>, b: &Guest<'_>) -> Vec<Block> {
    let mut blocks = vec![of_kernels(&a.kernel, &b.kernel)];
    blocks.extend(of_loaded(&a.modules, &b.modules));
    blocks.extend(of_built(&a.kernel, &b.kernel).into_iter().flatten());
    blocks
}

fn said(sentence: impl Into<String>) -> Block {
    Block::sentences([sentence.into()])
}

/// In which symbols and sections the kernels differ, or why that is not known.
fn of_kernels(a: &Kernel, b: &Kernel) -> Block {
    if a.image == b.image {
        return said("both sides are the same kernel");
    }
    let (Some(old), Some(new)) = (&a.vmlinux, &b.vmlinux) else {
        let without = [("A", a), ("B", b)].into_iter().filter(|(_, kernel)| kernel.vmlinux.is_none());
        let names: Vec<&str> = without.map(|(name, _)| name).collect();
        return said(format!(
            "not compared: no vmlinux was found beside the image of {}; a build tree has it, and so have packages of symbols",
            names.join(" and ")
        ));
    };
    bloat(old, new)
}

fn bloat(old: &Path, new: &Path) -> Block {
    match (Sizes::of(old), Sizes::of(new)) {
        (Ok(old), Ok(new)) => Block::Verbatim(Bloat::new(&old, &new).text_of(SYMBOLS)),
        (old, new) => Block::sentences(
            [old.err(), new.err()].into_iter().flatten().map(|why| format!("not compared: {why}")),
        ),
    }
}

/// The modules that each side loads, where both load one of the same name and from different files.
fn of_loaded(a: &[PathBuf], b: &[PathBuf]) -> Vec<Block> {
    let pairs = a.iter().filter_map(|old| {
        let in_guest = job::module_path(old);
        let new = b.iter().find(|new| job::module_path(new) == in_guest)?;
        (old != new).then_some((old, new))
    });
    pairs
        .flat_map(|(old, new)| {
            let name = old.file_name().unwrap_or_default().display();
            [Block::Paragraph(format!("The module {name}, which both sides load:")), bloat(old, new)]
        })
        .collect()
}

/// All modules that were found with the kernels.
fn of_built(a: &Kernel, b: &Kernel) -> Option<[Block; 2]> {
    let (old, new) = (modules::all(a), modules::all(b));
    if a.image == b.image || old.is_empty() || new.is_empty() {
        return None;
    }
    let sizes = ModuleSizes::new(&old, &new);
    Some([
        Block::Paragraph("Modules that were built with the kernels:".into()),
        Block::Verbatim(sizes.text_of(MODULES)),
    ])
}

#[cfg(test)]
mod tests {
    use weighbridge_report::{Document, Section, Style};

    use super::*;

    fn shown(blocks: &[Block]) -> String {
        let sections = vec![Section::of("x", [], blocks.to_vec())];
        Document { sections, ..Document::default() }.text(Style { width: Some(200), ..Style::default() })
    }

    fn kernel(image: &str, vmlinux: Option<PathBuf>) -> Kernel {
        let (name, image) = (image.into(), image.into());
        Kernel { name, image, version: String::new(), modules: None, config: None, vmlinux }
    }

    #[test]
    fn code_sizes_are_compared_where_both_kernels_have_symbols() {
        let elf = std::env::current_exe().ok();
        for (a, b, shown_is) in [
            (kernel("a", None), kernel("b", elf.clone()), "beside the image of A;"),
            (kernel("a", None), kernel("a", None), "the same kernel"),
            (kernel("a", elf.clone()), kernel("b", elf.clone()), "grow/shrink: 0/0"),
            (kernel("a", Some("/nothing".into())), kernel("b", elf), "cannot take sizes from `/nothing`"),
        ] {
            let shown = shown(&[of_kernels(&a, &b)]);
            assert!(shown.contains(shown_is), "{shown}");
        }
    }

    #[test]
    fn modules_of_both_sides_are_compared_and_those_that_both_share_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let module = |path: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::copy(std::env::current_exe().unwrap(), &path).unwrap();
            path
        };
        let [old, new, shared, only_in_b] =
            ["a/bench.ko", "b/bench.ko", "shared.ko", "b/more.ko"].map(module);
        let loaded = of_loaded(&[old, shared.clone()], &[new, shared, only_in_b]);
        let text = shown(&loaded);
        assert!(loaded.len() == 2 && text.contains("The module bench.ko"), "{text}");
        let with_modules = |image: &str, release: &str| {
            module(&format!("{release}/kernel/net/veth.ko"));
            Kernel { modules: Some(folder.path().join(release)), ..kernel(image, None) }
        };
        let (a, b) = (with_modules("a", "6.1"), with_modules("b", "6.2"));
        let built = shown(&of_built(&a, &b).unwrap());
        assert!(built.contains("1 of the same size, 0 of another, 0 only in A"), "{built}");
        assert_eq!((of_built(&a, &a), of_built(&a, &kernel("c", None))), (None, None));
    }
}
