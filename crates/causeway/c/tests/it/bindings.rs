//! `bindings.txt` says of each public function of the libraries which function of C has it, or why none does.

use std::collections::BTreeSet;
use std::path::Path;

use crate::header::{functions, package};

/// Functions that C alone needs.
const OF_C: &[&str] =
    &["cw_error_", "_free", "cw_sub_fd", "cw_pub_abandon", "cw_large_pub_abandon", "cwb_get_events"];
/// Not public, although some types there have names of public ones.
const PRIVATE: &[&str] = &["shared/", "log/", "zbus/", "serve/", "wire.rs", "request.rs"];

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| !word.is_empty())
}

/// The name behind `fn` in a line of this indentation that begins with `pub`.
fn function<'a>(line: &'a str, indentation: &str) -> Option<&'a str> {
    let rest = line.strip_prefix(indentation)?.strip_prefix("pub ")?;
    let (qualifiers, rest) = rest.split_once("fn ").filter(|(before, _)| !before.contains('('))?;
    words(qualifiers).all(|word| ["const", "unsafe", "async"].contains(&word)).then(|| words(rest).next())?
}

fn read(folder: &Path, root: &Path, found: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            read(&path, root, found);
        } else if !PRIVATE.iter().any(|private| name.starts_with(private)) {
            let text = std::fs::read_to_string(&path).unwrap();
            found.push((name, text.split("#[cfg(test)]\nmod tests {").next().unwrap().to_owned()));
        }
    }
}

/// The public functions below a folder, of types and modules that these files make public.
fn public(folder: &str, exporting: &[&str]) -> BTreeSet<String> {
    let (root, mut files, mut exported) = (package().join(folder), Vec::new(), BTreeSet::new());
    read(&root, &root, &mut files);
    for (_, text) in files.iter().filter(|(name, _)| exporting.contains(&name.as_str())) {
        let lists = text.split("\npub use ").skip(1).flat_map(|rest| words(rest.split(';').next().unwrap()));
        exported.extend(lists.map(str::to_owned));
    }
    let mut found = BTreeSet::new();
    for (name, text) in &files {
        let (mut of, mut is_hidden) = (None, false);
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("impl") {
                let rest = if rest.starts_with('<') {
                    rest.split_once("> ").map_or("", |(_, rest)| rest)
                } else {
                    rest
                };
                of = words(rest).next().filter(|of| !rest.contains(" for ") && exported.contains(*of));
            }
            if let (Some(of), Some(function)) = (of, function(line, "    "))
                && !is_hidden
            {
                found.insert(format!("{of}::{function}"));
            }
            if let Some(function) = function(line, "")
                && (exported.contains(function) || exporting.contains(&name.as_str()))
            {
                found.insert(function.to_owned());
            }
            if line == "}" {
                of = None;
            }
            let is_said = line.trim_start().starts_with(['#', '/']);
            is_hidden = is_said && (is_hidden || line.contains("doc(hidden)"));
        }
    }
    found
}

#[test]
fn a_list_says_of_each_public_function_what_has_it_in_c_or_why_nothing_does() {
    let text = std::fs::read_to_string(package().join("bindings.txt")).unwrap();
    let declared: BTreeSet<_> = functions().into_iter().map(|function| function.name).collect();
    let mut bound = BTreeSet::new();
    for (section, folder, exporting, least) in [
        ("[causeway]", "../causeway/src", ["lib.rs", "call/mod.rs"], 150),
        ("[bus]", "../bus/src", ["lib.rs", "client/mod.rs"], 130),
    ] {
        let public = public(folder, &exporting);
        assert!(public.len() > least, "{folder}: {public:?}");
        let lines = text.split(section).nth(1).unwrap().split("\n[").next().unwrap().lines();
        let mut open = public.clone();
        for line in lines.filter(|line| !line.is_empty()) {
            let (names, is_bound) = match (line.split_once(" = "), line.split_once(" - ")) {
                (Some((name, of_c)), _) => {
                    bound.extend(of_c.split(' ').map(str::to_owned));
                    (name, true)
                }
                (None, Some((name, why))) if why.len() > 5 => (name, false),
                _ => panic!("neither a binding nor a reason: {line}"),
            };
            let fits = |one: &&String| match names.strip_suffix('*') {
                Some(start) if !is_bound => one.starts_with(start),
                _ => *one == names,
            };
            let listed: Vec<_> = open.iter().filter(fits).cloned().collect();
            // What is bound by name may stand below a star as well.
            assert!(!listed.is_empty(), "{section}: there is no {names}, or it is listed twice");
            listed.iter().for_each(|one| _ = open.remove(one));
        }
        assert!(open.is_empty(), "{section}: bindings.txt does not say of these: {open:?}");
    }
    let unknown: Vec<_> = bound.difference(&declared).collect();
    assert!(unknown.is_empty(), "no header declares {unknown:?}");
    let is_of_c = |name: &&String| OF_C.iter().any(|of_c| name.starts_with(of_c) || name.ends_with(of_c));
    let unbound: Vec<_> = declared.difference(&bound).filter(|name| !is_of_c(name)).collect();
    assert!(unbound.is_empty(), "logic of their own? bindings.txt does not have {unbound:?}");
}
