//! Names of a guest's addresses: the functions of its kernel and modules, and the programs that are mapped in user mode.
//!
//! The guest sends them behind its record ([`of_this_guest`]), because only it knows where its kernel lies:
//!
//! ```text
//! weighbridge-symbols 1
//! map START END PATH
//! fn DISTANCE NAME [MODULE]
//! ```
//!
//! Addresses are hexadecimal; that of a function is its distance from the one before.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::ops::Range;

use crate::error::Error;

/// The first line.
const HEAD: &str = "weighbridge-symbols 1\n";

/// The symbols of the guest in which this runs.
///
/// # Errors
/// The kernel hides or does not have them, as the end of a sentence.
pub fn of_this_guest() -> Result<String, String> {
    let read = |path: &str| fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"));
    let functions = functions(&read("/proc/kallsyms")?);
    if functions.keys().all(|address| *address == 0) {
        return Err("its kernel does not tell the addresses of its functions (CONFIG_KALLSYMS)".into());
    }
    Ok(written(&functions, &read("/proc/self/maps")?))
}

/// A function: its name, and the module that it belongs to.
type Name = (String, Option<String>);

/// The functions of `/proc/kallsyms`: `ADDRESS TYPE NAME [MODULE]`. Of several at one address the global one.
fn functions(kallsyms: &str) -> BTreeMap<u64, Name> {
    let mut functions: BTreeMap<u64, (bool, Name)> = BTreeMap::new();
    for line in kallsyms.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [address, kind @ ("t" | "T" | "w" | "W"), name, module @ ..] = &words[..] else { continue };
        let Ok(address) = u64::from_str_radix(address, 16) else { continue };
        let is_global = *kind == "T";
        let is_better = |(other, _): &(bool, Name)| is_global && !other;
        if !is_border(name) && functions.get(&address).is_none_or(is_better) {
            let module = module.first().map(|module| module.trim_matches(['[', ']']).to_owned());
            functions.insert(address, (is_global, ((*name).into(), module)));
        }
    }
    functions.into_iter().map(|(address, (_, name))| (address, name)).collect()
}

/// Names of the linker for where a part of the kernel begins and ends.
fn is_border(name: &str) -> bool {
    matches!(name, "_text" | "_stext" | "_etext" | "_sinittext" | "_einittext")
        || ["_text_start", "_text_end", "_thunk_start", "_thunk_end"].iter().any(|end| name.ends_with(end))
}

/// The form of the port. Of `maps`, as `/proc/PID/maps` has it, what is executable.
fn written(functions: &BTreeMap<u64, Name>, maps: &str) -> String {
    let mut text = String::from(HEAD);
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        let (Some(range), Some(access)) = (words.next(), words.next()) else { continue };
        let path = words.nth(3).unwrap_or("anonymous memory");
        if let Some((start, end)) = range.split_once('-').filter(|_| access.contains('x')) {
            let _ = writeln!(text, "map {start} {end} {path}");
        }
    }
    let mut before = 0;
    for (address, (name, module)) in functions {
        let module = module.as_ref().map_or(String::new(), |module| format!(" {module}"));
        let _ = writeln!(text, "fn {:x} {name}{module}", address - before);
        before = *address;
    }
    text
}

/// Where an address lies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In a function of the kernel.
    Function {
        /// Its name.
        name: String,
        /// The module that it belongs to; absent in the kernel itself.
        module: Option<String>,
    },
    /// In user mode, in a file that is mapped there, by its name without folders.
    User(String),
}

/// The names of a guest's addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Symbols {
    functions: BTreeMap<u64, Name>,
    maps: Vec<(Range<u64>, String)>,
}

impl Symbols {
    /// Separates a guest's answer into the record and the symbols behind it.
    ///
    /// # Errors
    /// There are no symbols, or they are damaged.
    pub fn split(answer: &[u8]) -> Result<(&[u8], Symbols), Error> {
        let head = HEAD.as_bytes();
        // A record is lines that begin with a brace.
        let at = answer.windows(head.len()).rposition(|bytes| bytes == head);
        let Some(at) = at else { return Err(Error::new("the guest sent no names of functions")) };
        let (record, symbols) = answer.split_at(at);
        let text = String::from_utf8_lossy(&symbols[head.len()..]);
        let mut read = Symbols::default();
        let mut address = 0u64;
        for line in text.lines() {
            read.line(line, &mut address)
                .ok_or_else(|| Error::new(format!("the guest sent `{line}`, which names no function")))?;
        }
        Ok((record, read))
    }

    fn line(&mut self, line: &str, address: &mut u64) -> Option<()> {
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let (kind, rest) = line.split_once(' ')?;
        let mut words = rest.splitn(3, ' ');
        let (first, second, third) = (number(words.next()?)?, words.next()?, words.next());
        match kind {
            "map" => self.maps.push((first..number(second)?, third?.into())),
            "fn" => {
                *address = address.checked_add(first)?;
                self.functions.insert(*address, (second.into(), third.map(String::from)));
            }
            _ => return None,
        }
        Some(())
    }

    /// Where `address` lies.
    pub fn place(&self, address: u64) -> Place {
        if address >> 63 == 0 {
            let map = self.maps.iter().find(|(range, _)| range.contains(&address));
            let file = map.map_or("elsewhere", |(_, path)| path.rsplit('/').next().unwrap_or(path));
            return Place::User(file.into());
        }
        match self.functions.range(..=address).next_back() {
            Some((_, (name, module))) => Place::Function { name: name.clone(), module: module.clone() },
            None => Place::Function { name: "no symbol".into(), module: None },
        }
    }

    /// Does a function begin at `address`?
    pub fn is_entry(&self, address: u64) -> bool {
        self.functions.contains_key(&address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KALLSYMS: &str = "\
ffffffff81000000 T _stext
ffffffff81000000 t local_name
ffffffff81000000 T global_name
ffffffff81000040 t later
ffffffff81000080 D some_data
ffffffffc0000000 t pipe_filter\t[some_module]
";
    const MAPS: &str = "\
555555554000-555555654000 r--p 00000000 00:01 5                          /weighbridge
555555654000-555555900000 r-xp 00100000 00:01 5                          /weighbridge
7ffff7c00000-7ffff7e00000 r-xp 00028000 00:01 7                          /lib/x86_64-linux-gnu/libc.so.6
7ffff7fc5000-7ffff7fc6000 r-xp 00000000 00:00 0                          [vdso]
";

    fn symbols() -> Symbols {
        let mut answer = b"{\"kind\":\"end\"}\n".to_vec();
        answer.extend(written(&functions(KALLSYMS), MAPS).bytes());
        let (record, symbols) = Symbols::split(&answer).unwrap();
        assert_eq!(record, b"{\"kind\":\"end\"}\n");
        symbols
    }

    #[test]
    fn an_address_is_in_the_function_that_begins_last_before_it() {
        let symbols = symbols();
        let name = |address: u64| match symbols.place(address) {
            Place::Function { name, module } => (name, module),
            Place::User(file) => panic!("{file}"),
        };
        assert_eq!(name(0xffff_ffff_8100_003f), ("global_name".into(), None));
        assert_eq!(name(0xffff_ffff_8100_0040), ("later".into(), None));
        assert_eq!(name(0xffff_ffff_8100_0090), ("later".into(), None), "data is no function");
        assert_eq!(name(0xffff_ffff_c000_0010), ("pipe_filter".into(), Some("some_module".into())));
        assert_eq!(name(0xffff_8000_0000_0000), ("no symbol".into(), None));
        assert!(symbols.is_entry(0xffff_ffff_8100_0040) && !symbols.is_entry(0xffff_ffff_8100_0041));
    }

    #[test]
    fn an_address_in_user_mode_is_in_the_file_that_is_mapped_there() {
        let symbols = symbols();
        for (address, file) in [
            (0x5555_5565_4000, "weighbridge"),
            (0x7fff_f7c0_0000, "libc.so.6"),
            (0x7fff_f7fc_5010, "[vdso]"),
            (0x5555_5555_4000, "elsewhere"),
        ] {
            assert_eq!(symbols.place(address), Place::User(file.into()));
        }
    }

    #[test]
    fn symbols_that_are_missing_or_damaged_are_told() {
        let why = |answer: &str| Symbols::split(answer.as_bytes()).unwrap_err().to_string();
        assert_eq!(why("{}\n"), "the guest sent no names of functions");
        assert!(why("{}\nweighbridge-symbols 1\nfn xyz f\n").contains("fn xyz f"));
        assert!(why("{}\nweighbridge-symbols 1\nmap 0 1\n").contains("map 0 1"));
    }
}
