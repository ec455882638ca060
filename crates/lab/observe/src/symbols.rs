//! Names of functions for addresses: of the kernel by `/proc/kallsyms`, of processes by the symbols of the files that they had mapped.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use blazesym::MaybeDefault;
use blazesym::symbolize::source::{Elf, Kernel, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};

use crate::rights::Rights;

/// The memory map of a process: which file lies where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryMap(Vec<Mapping>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Mapping {
    start: u64,
    end: u64,
    file_offset: u64,
    path: PathBuf,
}

impl MemoryMap {
    /// Reads the text of `/proc/PID/maps`: the mappings of files that are still there, and those that have another name.
    pub fn parse(text: &str) -> MemoryMap {
        let mapping = |line: &str| {
            let mut fields = line.splitn(6, ' ');
            let (start, end) = fields.next()?.split_once('-')?;
            let (offset, path) = (fields.nth(1)?, fields.nth(2)?.trim());
            let number = |text: &str| u64::from_str_radix(text, 16).ok();
            // What was mapped is gone; a file that has its name now is another one.
            let is_there = !path.is_empty() && !path.ends_with(" (deleted)");
            let (start, end, file_offset) = (number(start)?, number(end)?, number(offset)?);
            is_there.then(|| Mapping { start, end, file_offset, path: path.into() })
        };
        MemoryMap(text.lines().filter_map(mapping).collect())
    }

    /// The file at an address, and the place in it.
    fn place(&self, address: u64) -> Option<(&Path, u64)> {
        let mapping = self.0.iter().find(|mapping| (mapping.start..mapping.end).contains(&address))?;
        Some((&mapping.path, address - mapping.start + mapping.file_offset))
    }
}

pub struct Symbols {
    symbolizer: Symbolizer,
    kernel: HashMap<u64, String>,
    user: HashMap<(PathBuf, u64), String>,
    hidden: Option<String>,
}

impl Symbols {
    pub fn new() -> Symbols {
        Symbols {
            symbolizer: Symbolizer::new(),
            kernel: HashMap::new(),
            user: HashMap::new(),
            hidden: kernel_symbols_hidden(),
        }
    }

    /// Why functions of the kernel have no names here, where they have none.
    pub fn hidden(&self) -> Option<&str> {
        self.hidden.as_deref()
    }

    /// The kernel function at an address; `[kernel]` where it is not known.
    pub fn kernel(&mut self, address: u64) -> String {
        if self.hidden.is_some() {
            return "[kernel]".into();
        }
        let find = || {
            // Addresses of kallsyms are those of the running kernel; an image on disk may be of another build.
            let kernel = Kernel { vmlinux: MaybeDefault::None, ..Kernel::default() };
            name(self.symbolizer.symbolize_single(&Source::Kernel(kernel), Input::AbsAddr(address)))
        };
        self.kernel.entry(address).or_insert_with(|| find().unwrap_or_else(|| "[kernel]".into())).clone()
    }

    /// The function at an address of a process; the file in brackets where it has no name for it, `[unknown]` where there is no file.
    pub fn user(&mut self, map: &MemoryMap, address: u64) -> String {
        let Some((path, offset)) = map.place(address) else { return "[unknown]".into() };
        let find = || {
            let file = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
            let in_brackets = if file.starts_with('[') { file.into_owned() } else { format!("[{file}]") };
            if !path.is_absolute() {
                return in_brackets;
            }
            let source = Source::Elf(Elf::new(path));
            let found = self.symbolizer.symbolize_single(&source, Input::FileOffset(offset));
            name(found).unwrap_or(in_brackets)
        };
        self.user.entry((path.into(), offset)).or_insert_with(find).clone()
    }
}

fn name(found: blazesym::Result<Symbolized<'_>>) -> Option<String> {
    found.ok()?.into_sym().map(|symbol| symbol.name.into_owned())
}

/// Why `/proc/kallsyms` tells no addresses, where it tells none.
pub(crate) fn kernel_symbols_hidden() -> Option<String> {
    let mut first = String::new();
    let _ = File::open("/proc/kallsyms").and_then(|file| BufReader::new(file).read_line(&mut first));
    (!tells_addresses(&first)).then(|| Rights::read().why_symbols_are_hidden())
}

/// A kernel that hides addresses writes zeros.
fn tells_addresses(line: &str) -> bool {
    let address = line.split_whitespace().next().unwrap_or("");
    address.bytes().any(|digit| digit != b'0') && u64::from_str_radix(address, 16).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_place_in_the_file_that_is_mapped_there() {
        let map = MemoryMap::parse(
            "55d0c0a00000-55d0c0a52000 r--p 00000000 fe:00 123 /usr/bin/some program\n\
             55d0c0a52000-55d0c0b00000 r-xp 00052000 fe:00 123 /usr/bin/some program\n\
             55d0c1000000-55d0c1001000 r-xp 00000000 fe:00 124 /usr/lib/replaced.so (deleted)\n\
             7f0000000000-7f0000001000 rw-p 00000000 00:00 0 \n\
             7ffe12345000-7ffe12347000 r-xp 00000000 00:00 0                          [vdso]\n",
        );
        assert_eq!(map.0.len(), 3, "a mapping without a name is none, nor is one of a file that is gone");
        assert_eq!(map.place(0x55d0_c0a5_2010), Some((Path::new("/usr/bin/some program"), 0x52010)));
        assert_eq!(map.place(0x7ffe_1234_5001), Some((Path::new("[vdso]"), 1)));
        assert_eq!(map.place(0x7f00_0000_0000), None);
        let mut symbols = Symbols::new();
        assert_eq!(symbols.user(&map, 0x7ffe_1234_5001), "[vdso]");
        assert_eq!(symbols.user(&map, 0x55d0_c0a5_2010), "[some program]", "there is no such file");
        assert_eq!(symbols.user(&map, 0x55d0_c100_0010), "[unknown]");
        assert_eq!(symbols.user(&map, 1), "[unknown]");
    }

    #[test]
    fn zeros_are_hidden_addresses() {
        assert!(!tells_addresses("0000000000000000 T _stext\n"));
        assert!(!tells_addresses(""));
        assert!(tells_addresses("ffffffff81000000 T _stext\n"));
    }
}
