//! No circle of imports has more than two files, in any crate.
//!
//! A file is one node; its arrows are the paths that it imports (`use crate::…`, `use super::…`, child modules) and the paths that
//! it writes out. A file may use what the module around it defines, so arrows to a module above it in the tree are not counted,
//! and neither is anything in `mod tests`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A module by its path from the root of its crate: `["plan", "general"]`. The root itself is empty.
type Module = Vec<String>;
type Arrows = BTreeMap<Module, BTreeSet<Module>>;

const MOST_FILES: usize = 2;

#[test]
fn no_circle_of_imports_has_more_than_two_files() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    for entry in fs::read_dir(crates).unwrap() {
        let src = entry.unwrap().path().join("src");
        let arrows = arrows(&sources(&src));
        assert!(!arrows.is_empty(), "{} has no sources", src.display());
        for circle in circles(&arrows).into_iter().filter(|circle| circle.len() > MOST_FILES) {
            let inside = |module: &Module| {
                arrows[module].intersection(&circle).map(|to| to.join("::")).collect::<Vec<_>>()
            };
            let lines = circle
                .iter()
                .map(|module| format!("\n  {} uses {}", module.join("::"), inside(module).join(", ")));
            found.push(format!("{}:{}", src.display(), lines.collect::<String>()));
        }
    }
    assert!(found.is_empty(), "circles of imports:\n{}", found.join("\n"));
}

#[test]
fn a_circle_is_found_in_each_way_to_write_an_import() {
    let tree = |a: &str, b: &str, c: &str| {
        let text = [
            (vec!["a".into()], a.to_owned()),
            (vec!["b".into()], b.to_owned()),
            (vec!["c".into()], c.to_owned()),
        ];
        circles(&arrows(&text.into()))
    };
    let through_c = |c: &str| tree("use crate::b::B;", "use crate::{c::{self, C}, x};", c);
    for c in
        ["use super::a::{A, X};", "fn f() { crate::a::g() }", "use crate::{\n    x,\n    a::A as Other,\n};"]
    {
        assert_eq!(through_c(c).len(), 1, "{c}");
        assert_eq!(through_c(c)[0].len(), 3, "{c}");
    }
    for c in
        ["", "// use crate::a::A;", "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}", "use std::a::A;"]
    {
        assert_eq!(through_c(c), [], "{c}");
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

/// The text of every file below `src`, by its module, without comments and tests.
fn sources(src: &Path) -> BTreeMap<Module, String> {
    let mut sources = BTreeMap::new();
    let mut folders: Vec<PathBuf> = vec![src.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(src).unwrap().with_extension("");
                let mut module: Module = name
                    .iter()
                    .map(|part| part.to_str().expect("names of sources are UTF-8").to_owned())
                    .collect();
                if ["mod", "lib", "main"].contains(&module.last().map_or("", String::as_str)) {
                    module.pop();
                }
                *sources.entry(module).or_default() += fs::read_to_string(&path).unwrap().as_str();
            }
        }
    }
    sources
}

fn arrows(sources: &BTreeMap<Module, String>) -> Arrows {
    let of_module = |(module, text): (&Module, &String)| {
        let text = without_comments_and_tests(text);
        let imported = imports(&text).into_iter().chain(written_out(&text));
        let to = imported.filter_map(|path| file_of(&path, module, sources));
        (module.clone(), to.filter(|to| !module.starts_with(to)).collect())
    };
    sources.iter().map(of_module).collect()
}

fn without_comments_and_tests(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap_or("")).collect();
    let text = lines.join("\n");
    let tests = ["#[cfg(test)]\nmod ", "#[cfg(all(test"].iter().filter_map(|start| text.find(start)).min();
    text[..tests.unwrap_or(text.len())].to_owned()
}

/// Every path that a `use` names.
fn imports(text: &str) -> Vec<String> {
    let statements = text.split(';').filter_map(|statement| {
        let (before, tree) = statement.rsplit_once("use ")?;
        let starts = before.is_empty() || before.ends_with(|c: char| c.is_whitespace());
        starts.then_some(tree)
    });
    statements.flat_map(expand).collect()
}

/// `a::{b, c::{d, e}}` is `a::b`, `a::c::d` and `a::c::e`.
fn expand(tree: &str) -> Vec<String> {
    let Some((prefix, rest)) = tree.split_once('{') else {
        return vec![tree.split(" as ").next().unwrap_or("").trim().to_owned()];
    };
    let inside = rest.rsplit_once('}').map_or(rest, |(inside, _)| inside);
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for c in inside.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if c == ',' && depth == 0 {
            parts.push(String::new());
        } else {
            parts.last_mut().unwrap().push(c);
        }
    }
    parts.iter().flat_map(|part| expand(&format!("{}{}", prefix.trim(), part.trim()))).collect()
}

/// Paths in the midst of code: `crate::a::f()`, `super::a::f()`, `part::f()`.
fn written_out(text: &str) -> Vec<String> {
    let is_of_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    text.split(|c| !is_of_path(c)).filter(|word| word.contains("::")).map(String::from).collect()
}

/// The file that a path leads to from a module; none where it leaves the crate.
fn file_of(path: &str, from: &Module, sources: &BTreeMap<Module, String>) -> Option<Module> {
    let mut parts = path.split("::").map(str::trim).peekable();
    let mut base: Module = match parts.peek()? {
        &"crate" => Vec::new(),
        _ => from.clone(),
    };
    while let Some(part) = parts.next_if(|part| ["crate", "self", "super"].contains(part)) {
        if part == "super" {
            base.pop();
        }
    }
    let is_relative = !path.starts_with("crate") && !path.starts_with("super") && !path.starts_with("self");
    let wanted: Module = base.iter().cloned().chain(parts.map(String::from)).collect();
    // A name without a prefix is a child module or of another crate.
    if is_relative && !sources.contains_key(wanted.get(..=base.len())?) {
        return None;
    }
    (0..=wanted.len()).rev().map(|len| wanted[..len].to_vec()).find(|module| sources.contains_key(module))
}

/// Sets of modules each of which leads to every other.
fn circles(arrows: &Arrows) -> Vec<BTreeSet<Module>> {
    let reachable: BTreeMap<&Module, BTreeSet<&Module>> =
        arrows.keys().map(|module| (module, reachable(module, arrows))).collect();
    let mut circles: Vec<BTreeSet<Module>> = Vec::new();
    for (module, to) in &reachable {
        let circle: BTreeSet<Module> = to
            .iter()
            .filter(|other| reachable[*other].contains(module))
            .map(|other| (*other).clone())
            .collect();
        if circle.len() > 1 && !circles.contains(&circle) {
            circles.push(circle);
        }
    }
    circles
}

/// Everything that a module leads to; itself only by way of others.
fn reachable<'a>(from: &Module, arrows: &'a Arrows) -> BTreeSet<&'a Module> {
    let mut seen = BTreeSet::new();
    let mut open: Vec<&Module> = arrows[from].iter().collect();
    while let Some(module) = open.pop() {
        if seen.insert(module) {
            open.extend(&arrows[module]);
        }
    }
    seen
}
