//! In which modules two kernels differ: the bytes that each takes when it is loaded.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::bloat::{Change, Sizes, changes, table};
use crate::modules::stem;

/// The modules of both sides, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleSizes {
    /// Modules of another size and those of one side only, the one that grew most first.
    pub changed: Vec<Change>,
    /// How many have the same size on both sides.
    pub same: usize,
    /// How many cannot be read, are compressed, or are no ELF files with symbols, so that their sizes are not known.
    pub unread: usize,
}

impl ModuleSizes {
    /// Compares the modules of two sides. Those with the same bytes are not looked into.
    pub fn new(old: &[PathBuf], new: &[PathBuf]) -> ModuleSizes {
        let (mut old, mut new) = (by_name(old), by_name(new));
        let before = old.len();
        old.retain(|name, path| {
            let is_same = is_same(path, new.get(name));
            if is_same {
                new.remove(name);
            }
            !is_same
        });
        let mut same = before - old.len();
        let mut unread = BTreeSet::new();
        let mut sizes = |modules: BTreeMap<String, PathBuf>| -> BTreeMap<String, u64> {
            let size = |(name, path): (String, PathBuf)| match Sizes::of(&path) {
                Ok(sizes) => Some((name, sizes.sections.values().sum())),
                Err(_) => {
                    unread.insert(name);
                    None
                }
            };
            modules.into_iter().filter_map(size).collect()
        };
        let (old, new) = (sizes(old), sizes(new));
        let mut changed = changes(&old, &new);
        // What is known of one side only is not a change.
        changed.retain(|change| !unread.contains(&change.name));
        let before = changed.len();
        changed.retain(|change| change.delta != 0);
        same += before - changed.len();
        ModuleSizes { changed, same, unread: unread.len() }
    }

    /// A sentence, and a table of at most `most` modules, those that changed most.
    pub fn text_of(&self, most: usize) -> String {
        let count = |is: fn(&Change) -> bool| self.changed.iter().filter(|change| is(change)).count();
        let (removed, added) = (count(|change| change.new.is_none()), count(|change| change.old.is_none()));
        let mut text = format!(
            "{} of the same size, {} of another, {removed} only in A, {added} only in B",
            self.same,
            self.changed.len() - removed - added
        );
        if self.unread > 0 {
            let _ = write!(text, "; of {} the size cannot be read, as of compressed ones", self.unread);
        }
        text.push('\n');
        if self.changed.is_empty() {
            return text;
        }
        text += &table("Module", &self.changed, most);
        let total: i64 = self.changed.iter().map(|change| change.delta).sum();
        let _ = writeln!(text, "Total: {total:+}");
        text
    }
}

fn by_name(modules: &[PathBuf]) -> BTreeMap<String, PathBuf> {
    modules.iter().filter_map(|path| Some((stem(path)?, path.clone()))).collect()
}

/// Have both files the same bytes? Files that cannot be read have not: their sizes are then what fails.
fn is_same(old: &Path, new: Option<&PathBuf>) -> bool {
    let Some(new) = new else { return false };
    let length = |path: &Path| std::fs::metadata(path).map(|found| found.len()).ok();
    let bytes = |path: &Path| std::fs::read(path).ok();
    old == new || (length(old) == length(new) && bytes(old).is_some_and(|old| bytes(new) == Some(old)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_compared_by_name_and_what_cannot_be_read_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let elf = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let file = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, bytes).unwrap();
            path
        };
        // One byte behind its end changes a file and no size.
        let longer: Vec<u8> = elf.iter().copied().chain([0]).collect();
        let old = [
            file("a/same.ko", b"identical"),
            file("a/rebuilt.ko", &elf),
            file("a/gone.ko", &elf),
            file("a/packed.ko.xz", b"before"),
        ];
        let new = [
            file("b/same.ko", b"identical"),
            file("b/rebuilt.ko", &longer),
            file("b/added-one.ko", &elf),
            file("b/packed.ko.xz", b"after"),
        ];
        let found = ModuleSizes::new(&old, &new);
        let names: Vec<&str> = found.changed.iter().map(|change| change.name.as_str()).collect();
        assert_eq!((names, found.same, found.unread), (vec!["added_one", "gone"], 2, 1));
        let text = found.text_of(1);
        assert!(
            text.starts_with("2 of the same size, 0 of another, 1 only in A, 1 only in B; of 1 the"),
            "{text}"
        );
        assert!(text.contains("… and 1 further module") && text.ends_with("Total: +0\n"), "{text}");
        assert_eq!(ModuleSizes::new(&old, &old).changed, []);
    }
}
