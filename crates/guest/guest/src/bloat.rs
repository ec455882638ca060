//! In what two ELF files differ: the sizes of their symbols and of their sections. For kernels (`vmlinux`), modules and programs.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

use object::{Object, ObjectSection, ObjectSymbol, SectionFlags, SymbolKind, elf};
use serde::Serialize;

use crate::error::Error;

/// The sizes of one file, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Of functions and data, by name; those of one name are added up.
    pub symbols: BTreeMap<String, u64>,
    /// Of the sections that are in memory when the file runs.
    pub sections: BTreeMap<String, u64>,
}

/// The size of one symbol or section in both files, in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The symbol or the section.
    pub name: String,
    /// In the old file; absent where it is not there.
    pub old: Option<u64>,
    /// In the new file; absent where it is not there.
    pub new: Option<u64>,
    /// New minus old.
    pub delta: i64,
}

/// What changed from one file to the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Bloat {
    /// Symbols of another size, the one that grew most first.
    pub symbols: Vec<Change>,
    /// Every section, the one that grew most first.
    pub sections: Vec<Change>,
    /// All symbols of the old file together, in bytes.
    pub old_bytes: u64,
    /// All symbols of the new file together, in bytes.
    pub new_bytes: u64,
}

impl Sizes {
    /// Reads an ELF file.
    ///
    /// # Errors
    /// It cannot be read, is no ELF file, or has no symbols.
    pub fn of(path: &Path) -> Result<Sizes, Error> {
        let cannot = |why: String| Error::new(format!("cannot take sizes from `{}`: {why}", path.display()));
        let bytes = std::fs::read(path).map_err(|error| cannot(error.to_string()))?;
        if bytes.get(0x202..0x206) == Some(b"HdrS") {
            return Err(cannot(
                "it is a bzImage, which is compressed; take the vmlinux of the same build".into(),
            ));
        }
        Sizes::of_elf(&bytes).map_err(cannot)
    }

    fn of_elf(bytes: &[u8]) -> Result<Sizes, String> {
        let file = object::File::parse(bytes).map_err(|error| format!("it is not an ELF file: {error}"))?;
        let mut sizes = Sizes::default();
        for section in file.sections() {
            let SectionFlags::Elf { sh_flags } = section.flags() else { continue };
            let name = section.name().unwrap_or_default();
            if sh_flags & u64::from(elf::SHF_ALLOC) != 0 && section.size() > 0 {
                *sizes.sections.entry(name.into()).or_default() += section.size();
            }
        }
        for symbol in file.symbols() {
            let is_sized = symbol.size() > 0 && !symbol.is_undefined();
            let is_named = !matches!(symbol.kind(), SymbolKind::Section | SymbolKind::File);
            if let (true, true, Ok(name)) = (is_sized, is_named, symbol.name()) {
                *sizes.symbols.entry(stable(name).into()).or_default() += symbol.size();
            }
        }
        if sizes.symbols.is_empty() {
            Err("it has no symbols; take the file before it was stripped".into())
        } else {
            Ok(sizes)
        }
    }
}

/// A name without what changes from build to build: the number behind the last full stop that compilers give to copies of one
/// function, and the hash of Rust's names (`17h` and 16 hexadecimal digits before the final `E`).
fn stable(name: &str) -> &str {
    let without_number =
        name.rsplit_once('.').filter(|(_, number)| number.bytes().all(|byte| byte.is_ascii_digit()));
    let name = without_number.map_or(name, |(name, _)| name);
    let hash = name.len().checked_sub(20).filter(|_| name.starts_with("_ZN") && name.ends_with('E'));
    match hash.and_then(|at| Some((name.get(..at)?, name.get(at..)?))) {
        Some((path, hash)) if hash.starts_with("17h") => path,
        _ => name,
    }
}

impl Bloat {
    /// What changed from `old` to `new`.
    pub fn new(old: &Sizes, new: &Sizes) -> Bloat {
        let mut symbols = changes(&old.symbols, &new.symbols);
        symbols.retain(|change| change.delta != 0);
        Bloat {
            symbols,
            sections: changes(&old.sections, &new.sections),
            old_bytes: old.symbols.values().sum(),
            new_bytes: new.symbols.values().sum(),
        }
    }

    /// The symbols whose names are wanted in both files, those of the same size too.
    pub fn of_symbols(old: &Sizes, new: &Sizes, is_wanted: impl Fn(&str) -> bool) -> Vec<Change> {
        let mut symbols = changes(&old.symbols, &new.symbols);
        symbols.retain(|change| is_wanted(&change.name));
        symbols.sort_by(|a, b| a.name.cmp(&b.name));
        symbols
    }

    /// As bloat-o-meter of the kernel's `scripts` prints it, and below it the sections.
    pub fn text(&self) -> String {
        self.text_of(usize::MAX)
    }

    /// The same with no more than `most` symbols, those that changed most.
    pub fn text_of(&self, most: usize) -> String {
        let count = |is: fn(&Change) -> bool| self.symbols.iter().filter(|change| is(change)).count();
        let (added, removed) = (count(|change| change.old.is_none()), count(|change| change.new.is_none()));
        let (more, less) = (count(|change| change.delta > 0), count(|change| change.delta < 0));
        let deltas = self.symbols.iter().map(|change| change.delta);
        let up: i64 = deltas.clone().filter(|delta| *delta > 0).sum();
        let down: i64 = deltas.filter(|delta| *delta < 0).sum();
        let percent = match self.old_bytes {
            0 => 0.0,
            old => (self.new_bytes as f64 - old as f64) * 100.0 / old as f64,
        };
        format!(
            "add/remove: {added}/{removed} grow/shrink: {}/{} up/down: {up}/{down} ({})\n{}\
             Total: Before={}, After={}, chg {percent:+.2}%\n\n{}",
            more - added,
            less - removed,
            up + down,
            table("Symbol", &self.symbols, most),
            self.old_bytes,
            self.new_bytes,
            table("Section", &self.sections, usize::MAX)
        )
    }
}

/// A row for each, in their order, with the bytes of both files.
pub fn listed(changes: &[Change]) -> String {
    let rows = changes.iter().map(row);
    format!("{:<40} {:>9} {:>9} {:>9}\n{}", "Symbol", "old", "new", "delta", rows.collect::<String>())
}

fn row(change: &Change) -> String {
    let Change { name, old, new, delta } = change;
    let [old, new] = [old, new].map(|bytes| bytes.map_or("-".into(), |bytes| bytes.to_string()));
    format!("{name:<40} {old:>9} {new:>9} {delta:>+9}\n")
}

/// A row for each of the `most` that changed most, and how many there are beyond them.
pub(crate) fn table(head: &str, changes: &[Change], most: usize) -> String {
    let mut shown: Vec<&Change> = changes.iter().collect();
    shown.sort_by_key(|change| Reverse(change.delta.unsigned_abs()));
    shown.truncate(most);
    shown.sort_by(|a, b| order(a, b));
    let mut text = format!("{head:<40} {:>9} {:>9} {:>9}\n", "old", "new", "delta");
    shown.into_iter().for_each(|change| text += &row(change));
    if most < changes.len() {
        let (further, what) = (changes.len() - most, head.to_lowercase());
        text += &format!("… and {further} further {what}s that changed less\n");
    }
    text
}

/// What is of another size, and what is not, the one that grew most first.
pub(crate) fn changes(old: &BTreeMap<String, u64>, new: &BTreeMap<String, u64>) -> Vec<Change> {
    let added = new.keys().filter(|name| !old.contains_key(*name));
    let change = |name: &String| {
        let (old, new) = (old.get(name).copied(), new.get(name).copied());
        // No file has 2⁶³ bytes.
        let delta = new.unwrap_or(0).cast_signed() - old.unwrap_or(0).cast_signed();
        Change { name: name.clone(), old, new, delta }
    };
    let mut all: Vec<Change> = old.keys().chain(added).map(change).collect();
    all.sort_by(order);
    all
}

/// What grew most is first.
fn order(a: &Change, b: &Change) -> std::cmp::Ordering {
    b.delta.cmp(&a.delta).then_with(|| a.name.cmp(&b.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(symbols: &[(&str, u64)]) -> Sizes {
        let map =
            |pairs: &[(&str, u64)]| pairs.iter().map(|(name, bytes)| ((*name).to_owned(), *bytes)).collect();
        Sizes {
            symbols: map(symbols),
            sections: map(&[(".text", symbols.iter().map(|(_, bytes)| bytes).sum())]),
        }
    }

    #[test]
    fn what_grew_is_first_and_totals_are_those_of_all_symbols() {
        let old = sizes(&[("same", 1000), ("grows", 100), ("shrinks", 50), ("gone", 10)]);
        let new = sizes(&[("same", 1000), ("grows", 140), ("shrinks", 45), ("added", 16)]);
        let text = Bloat::new(&old, &new).text();
        let lines: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            lines,
            [
                "add/remove: 1/1 grow/shrink: 1/1 up/down: 56/-15 (41)",
                "Symbol old new delta",
                "grows 100 140 +40",
                "added - 16 +16",
                "shrinks 50 45 -5",
                "gone 10 - -10",
                "Total: Before=1160, After=1201, chg +3.53%",
                "",
                "Section old new delta",
                ".text 1160 1201 +41",
            ]
        );
        assert!(Bloat::new(&old, &old).symbols.is_empty());
        let short = Bloat::new(&old, &new).text_of(2);
        assert!(short.contains("grows") && short.contains("added") && !short.contains("shrinks"), "{short}");
        assert!(short.contains("… and 2 further symbols"), "{short}");
    }

    #[test]
    fn symbols_that_are_asked_for_are_listed_by_name_also_those_that_did_not_change() {
        let old = sizes(&[("kmem_cache_free", 315), ("kmem_cache_alloc", 225), ("kfree", 274)]);
        let new = sizes(&[("kmem_cache_free", 315), ("kmem_cache_alloc", 201), ("kfree", 250)]);
        let found = Bloat::of_symbols(&old, &new, |name| name.starts_with("kmem_cache"));
        let text = listed(&found);
        let lines: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            lines,
            ["Symbol old new delta", "kmem_cache_alloc 225 201 -24", "kmem_cache_free 315 315 +0"]
        );
    }

    #[test]
    fn names_are_compared_without_what_a_compiler_counts() {
        assert_eq!(stable("slab_alloc.constprop.0"), "slab_alloc.constprop");
        assert_eq!(stable("slab_alloc.cold"), "slab_alloc.cold");
        assert_eq!(stable("_ZN4core3fmt5write17h0123456789abcdefE"), "_ZN4core3fmt5write");
        assert_eq!(stable("_ZN1aE"), "_ZN1aE");
    }

    #[test]
    fn this_program_has_symbols_and_sections() {
        let sizes = Sizes::of(&std::env::current_exe().unwrap()).unwrap();
        assert!(sizes.sections[".text"] > 1000 && sizes.symbols.len() > 100);
        assert!(!sizes.sections.contains_key(".debug_info"), "{:?}", sizes.sections);
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("text");
        std::fs::write(&text, "no ELF").unwrap();
        assert!(Sizes::of(&text).unwrap_err().to_string().contains("it is not an ELF file"));
    }
}
