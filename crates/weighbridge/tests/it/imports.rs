//! No circle of imports has more than two files, in any crate.
//!
//! A file is one node; its arrows are the paths that it imports (`use crate::…`, `use super::…`, child modules) and the paths that
//! it writes out. A file may use what the module around it defines, so arrows to a module above it in the tree are not counted,
//! and neither is anything that is compiled for tests alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use crate::workspace::{crates, packages};

/// A module by its path from the root of its crate: `["plan", "general"]`. The root itself is empty.
type Module = Vec<String>;
type Arrows = BTreeMap<Module, BTreeSet<Module>>;

const MOST_FILES: usize = 2;

#[test]
fn no_circle_of_imports_has_more_than_two_files() {
    let mut found = Vec::new();
    let Some(packages) = packages() else { return };
    for package in packages {
        let src = crates().join(package.folder).join("src");
        let mut sources = BTreeMap::new();
        read(&src, &mut Vec::new(), &mut sources);
        let arrows = arrows(&sources);
        assert!(!arrows.is_empty(), "{} has no sources", src.display());
        for circle in circles(&arrows).into_iter().filter(|circle| circle.len() > MOST_FILES) {
            let lines = circle.iter().map(|module| {
                let inside: Vec<_> = arrows[module].intersection(&circle).map(|to| to.join("::")).collect();
                format!("\n  {} uses {}", module.join("::"), inside.join(", "))
            });
            found.push(format!("{}:{}", src.display(), lines.collect::<String>()));
        }
    }
    assert!(found.is_empty(), "circles of imports:\n{}", found.join("\n"));
}

/// In a crate of three files, `a` uses `b`, `b` uses `c`, and `c` is this text.
#[test]
fn a_circle_is_found_in_each_way_to_write_an_import_and_nowhere_else() {
    let circles_with = |c: &str| -> Vec<usize> {
        let text = [("a", "use crate::b::B;"), ("b", "use crate::{c::{self, C}, x};"), ("c", c)];
        let sources = text.map(|(module, text)| (vec![module.to_owned()], text.to_owned()));
        circles(&arrows(&sources.into())).iter().map(BTreeSet::len).collect()
    };
    for c in [
        "use super::a::{A, X};",
        "fn f() { crate::a::g() }",
        "fn f() { g!(crate::a::g()) }",
        "use crate::{\n    x,\n    a::A as Other,\n};",
        "pub(crate) use crate::a::*;",
        // What is compiled for tests alone ends where it ends.
        "#[cfg(test)]\nmod tests;\n\nuse crate::a::A;",
        "#[cfg(test)]\n#[path = \"c_tests.rs\"]\nmod tests;\nuse crate::a::A;",
        "#[cfg(test)]\nmod tests {\n    const BRACE: char = '}';\n}\nuse crate::a::A;",
        "#[cfg(test)]\nuse crate::x::{X, Y};\nuse crate::a::A;",
        "#[cfg(not(test))]\nuse crate::a::A;",
        "const URL: &str = \"https://a.example\"; fn f() { crate::a::g() }",
    ] {
        assert_eq!(circles_with(c), [3], "{c}");
    }
    for c in [
        "",
        "// use crate::a::A;",
        "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}",
        "#[cfg(all(test, not(loom)))]\nmod tests {\n    use crate::a::A;\n}",
        "#[cfg(test)]\nuse crate::{a::A, x};",
        "#[cfg(test)]\npub(crate) fn f() -> bool {\n    crate::a::g()\n}",
        "const TEXT: &str = \"use crate::a::A;\";",
        "use std::a::A;",
    ] {
        assert_eq!(circles_with(c), [0; 0], "{c}");
    }
}

#[test]
fn a_module_may_list_its_parts_and_they_may_use_what_it_defines() {
    let parts = [
        (vec!["m".into()], "mod part;\nconst ALL: &[T] = &[part::T];".to_owned()),
        (vec!["m".into(), "part".into()], "use super::T;".to_owned()),
    ];
    let arrows = arrows(&parts.into());
    assert_eq!(arrows[&vec!["m".to_owned()]].len(), 1);
    assert_eq!(circles(&arrows), []);
}

/// The text of every file below a folder, by its module.
fn read(folder: &Path, above: &mut Module, sources: &mut BTreeMap<Module, String>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.unwrap().path();
        let name = path.file_stem().and_then(|name| name.to_str()).expect("names of sources are UTF-8");
        let is_root = ["mod", "lib", "main"].contains(&name);
        above.extend((!is_root).then(|| name.to_owned()));
        if path.is_dir() {
            read(&path, above, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            *sources.entry(above.clone()).or_default() += &fs::read_to_string(&path).unwrap();
        }
        above.truncate(above.len() - usize::from(!is_root));
    }
}

fn arrows(sources: &BTreeMap<Module, String>) -> Arrows {
    let found: BTreeMap<&Module, Found> =
        sources.iter().map(|(module, text)| (module, Found::of(text))).collect();
    let is_test = |module: &Module| {
        (1..=module.len()).any(|len| {
            let around = found.get(&module[..len - 1].to_vec());
            around.is_some_and(|around| around.tests.contains(&module[len - 1]))
        })
    };
    let of_module = |(module, found): (&&Module, &Found)| {
        let to = found.paths.iter().filter_map(|path| file_of(path, module, sources));
        ((*module).clone(), to.filter(|to| !module.starts_with(to)).collect())
    };
    found.iter().filter(|(module, _)| !is_test(module)).map(of_module).collect()
}

/// What stands in a file, without what is compiled for tests alone.
#[derive(Default)]
struct Found {
    /// Every path, by its parts: `use crate::a::{b, c}` has two, `crate::a::f()` is one.
    paths: Vec<Vec<String>>,
    /// Modules for tests alone.
    tests: BTreeSet<String>,
}

impl Found {
    fn of(text: &str) -> Found {
        let mut found = Found::default();
        found.look(text.parse().unwrap_or_else(|error| panic!("{error}: {text}")));
        found
    }

    fn look(&mut self, stream: TokenStream) {
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        let mut rest = &tokens[..];
        while let [token, after @ ..] = rest {
            let here = std::mem::replace(&mut rest, after);
            match token {
                TokenTree::Punct(sign) if sign.as_char() == '#' => {
                    if let [TokenTree::Group(attribute), item @ ..] = after
                        && is_for_tests(attribute)
                    {
                        rest = self.skip(item);
                    }
                }
                TokenTree::Ident(word) if word == "use" => {
                    let end = after.iter().position(|token| is_sign(token, ';')).unwrap_or(after.len());
                    self.expand(&[], &after[..end]);
                    rest = &after[end..];
                }
                TokenTree::Ident(_) => {
                    let (path, after) = path(here);
                    rest = after;
                    self.paths.extend((path.len() > 1).then_some(path));
                }
                TokenTree::Group(group) => self.look(group.stream()),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }

    /// What is behind an item: its end is a semicolon or its block.
    fn skip<'a>(&mut self, item: &'a [TokenTree]) -> &'a [TokenTree] {
        let is = |token: &TokenTree, word: &str| matches!(token, TokenTree::Ident(ident) if ident == word);
        let is_block = |token: &TokenTree| matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
        let is_use = item
            .iter()
            .take_while(|token| !is_block(token) && !is_sign(token, ';'))
            .any(|token| is(token, "use"));
        let end = item.iter().position(|token| is_sign(token, ';') || !is_use && is_block(token));
        let (item, rest) = item.split_at(end.map_or(item.len(), |end| end + 1));
        if let Some(at) = item.iter().position(|token| is(token, "mod")) {
            self.tests.insert(item[at + 1].to_string());
        }
        rest
    }

    /// `a::{b, c::{d, e}}` is `a::b`, `a::c::d` and `a::c::e`.
    fn expand(&mut self, prefix: &[String], tree: &[TokenTree]) {
        let (tail, rest) = path(tree);
        let path = [prefix, &tail].concat();
        match rest
            .iter()
            .find_map(|token| if let TokenTree::Group(group) = token { Some(group) } else { None })
        {
            Some(group) => {
                let tokens: Vec<TokenTree> = group.stream().into_iter().collect();
                tokens.split(|token| is_sign(token, ',')).for_each(|part| self.expand(&path, part));
            }
            None => self.paths.push(path),
        }
    }
}

fn is_sign(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign)
}

/// `cfg(test)` or `cfg(all(test, …))`.
fn is_for_tests(attribute: &Group) -> bool {
    let text: String = attribute.stream().to_string().split_whitespace().collect();
    text == "cfg(test)" || text.starts_with("cfg(all(test,")
}

/// The parts of the path at the begin, and what is behind it; the colons before a group or a type belong to the path.
fn path(tokens: &[TokenTree]) -> (Vec<String>, &[TokenTree]) {
    let (mut parts, mut rest) = (Vec::new(), tokens);
    loop {
        rest = match rest {
            [first, second, after @ ..] if is_sign(first, ':') && is_sign(second, ':') => after,
            _ if parts.is_empty() => rest,
            _ => return (parts, rest),
        };
        let [TokenTree::Ident(part), after @ ..] = rest else { return (parts, rest) };
        parts.push(part.to_string());
        rest = after;
    }
}

/// The file that a path leads to from a module; none where it leaves the crate.
fn file_of(path: &[String], from: &Module, sources: &BTreeMap<Module, String>) -> Option<Module> {
    let first = path.first()?;
    let mut wanted = if first == "crate" { Vec::new() } else { from.clone() };
    let inner = path.iter().skip_while(|part| {
        if *part == "super" {
            wanted.pop();
        }
        ["crate", "self", "super"].contains(&part.as_str())
    });
    let inner: Vec<String> = inner.cloned().collect();
    let is_relative = inner.len() == path.len();
    let base = wanted.len();
    wanted.extend(inner);
    // A name without a prefix is a child module or of another crate.
    if is_relative && !sources.contains_key(wanted.get(..=base)?) {
        return None;
    }
    (0..=wanted.len()).rev().map(|len| wanted[..len].to_vec()).find(|module| sources.contains_key(module))
}

/// Sets of modules each of which leads to every other.
fn circles(arrows: &Arrows) -> Vec<BTreeSet<Module>> {
    let reachable: BTreeMap<&Module, BTreeSet<&Module>> =
        arrows.keys().map(|module| (module, reachable(module, arrows))).collect();
    let circle_of = |module: &Module| -> BTreeSet<Module> {
        let back = |other: &&&Module| reachable.get(**other).is_some_and(|to| to.contains(module));
        reachable[module].iter().filter(back).map(|other| (*other).clone()).collect()
    };
    let circles: BTreeSet<_> = arrows.keys().map(circle_of).filter(|circle| circle.len() > 1).collect();
    circles.into_iter().collect()
}

/// Everything that a module leads to; itself only by way of others.
fn reachable<'a>(from: &Module, arrows: &'a Arrows) -> BTreeSet<&'a Module> {
    let mut seen = BTreeSet::new();
    let mut open: Vec<&Module> = arrows[from].iter().collect();
    while let Some(module) = open.pop() {
        if seen.insert(module) {
            open.extend(arrows.get(module).into_iter().flatten());
        }
    }
    seen
}
