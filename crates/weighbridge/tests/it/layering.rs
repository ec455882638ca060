//! Folders below `crates` are products, and arrows between them point down; those between packages make no circle. What only tests need counts
//! as well: who works on a product needs nothing of what stands above it.

use std::collections::{BTreeMap, BTreeSet};

use crate::workspace::{Dependency, Package, packages};

/// Every product, and those that its packages may need. None is listed before what it needs.
const PRODUCTS: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("causeway", &["base"]),
    ("lab", &["base", "causeway"]),
    ("dbus", &["base", "causeway", "lab"]),
    ("guest", &["base", "causeway", "lab"]),
    ("weighbridge", &["base", "causeway", "lab", "dbus", "guest"]),
];

/// Packages that need none of ours, and why.
const ALONE: &[(&str, &str)] = &[
    ("causeway-os", "the kernel as safe types"),
    ("causeway-dbus-wire", "pure: bytes of messages"),
    ("causeway-testkit", "every package's tests may need it"),
    ("weighbridge-stats", "pure: numbers to numbers"),
    ("weighbridge-guest-plugin", "an emulator loads it"),
];

/// What a package must not need, although it may by its place; directly or by way of others.
const NEVER: &[(&str, &str, &str)] = &[
    ("weighbridge-report", "weighbridge-harness", "one writes records, one reads them"),
    ("weighbridge-analysis", "weighbridge-harness", "pure: from records to numbers"),
    ("weighbridge-analysis", "causeway-os", "pure: from records to numbers"),
    ("weighbridge-harness", "weighbridge-targets", "the harness names no family"),
    ("weighbridge-report", "weighbridge-targets", "one writes records, one reads them"),
    ("causeway", "clap", "a program that uses the log gets no command line with it"),
    ("causeway-bus", "clap", "a program that uses the bus gets no command line with it"),
];

/// What tests share: `ALONE` does not count it.
const TESTKIT: &str = "causeway-testkit";

#[test]
fn dependencies_point_down() {
    let packages = packages();
    assert!(packages.iter().any(|package| package.dependencies.iter().any(|on| on.name == "clap")));
    let known: Vec<&str> =
        ALONE.iter().map(|(name, _)| *name).chain(NEVER.iter().map(|(name, ..)| *name)).collect();
    for name in known {
        assert!(packages.iter().any(|package| package.name == name), "no package {name}");
    }
    assert_eq!(wrong(&packages), Vec::<String>::new());
}

#[test]
fn what_does_not_point_down_is_refused() {
    let refused = |packages: &[(&str, &[&str])]| wrong(&packages.iter().map(fixture).collect::<Vec<_>>());
    let fine: &[(&str, &[&str])] = &[
        ("base/os", &["tests:testkit"]),
        ("base/testkit", &[]),
        ("causeway/bus", &["os", "tests:testkit"]),
        ("lab/harness", &["bus", "clap"]),
        ("weighbridge", &["harness"]),
    ];
    assert_eq!(refused(fine), Vec::<String>::new());
    let with = |more: &[(&'static str, &'static [&'static str])]| refused(&[fine, more].concat());
    assert_eq!(with(&[("causeway/log", &["harness"])]), ["log (causeway) must not need harness (lab)"]);
    // What only tests need is no better.
    assert_eq!(with(&[("causeway/log", &["tests:harness"])]), ["log (causeway) must not need harness (lab)"]);
    assert_eq!(
        with(&[("guest/guest", &["exam"]), ("dbus/exam", &[])]),
        ["guest (guest) must not need exam (dbus)"]
    );
    assert_eq!(with(&[("lab/a", &["b"]), ("lab/b", &["tests:a"])]), ["a circle: a, b"]);
    let three: &[(&str, &[&str])] = &[("lab/a", &["b"]), ("lab/b", &["tests:c"]), ("lab/c", &["a"])];
    assert_eq!(with(three), ["a circle: a, b, c"]);
    assert_eq!(with(&[("more/a", &[])]), ["a: no product `more`"]);
    let alone = ("lab/weighbridge-stats", &["os"] as &[_]);
    assert_eq!(with(&[alone]), ["weighbridge-stats must not need os: pure: numbers to numbers"]);
    // By way of another.
    assert_eq!(
        with(&[("causeway/causeway", &["log"]), ("causeway/log", &["clap"])]),
        ["causeway must not need clap: a program that uses the log gets no command line with it"]
    );
    // What its tests need stays with it.
    assert_eq!(
        with(&[("causeway/causeway", &["log"]), ("causeway/log", &["tests:clap"])]),
        Vec::<String>::new()
    );
}

/// A package by its folder, which is called as its last part; `tests:` is before what its tests need.
fn fixture((folder, dependencies): &(&str, &[&str])) -> Package {
    let dependencies = dependencies.iter().map(|name| match name.strip_prefix("tests:") {
        Some(name) => Dependency { name: name.into(), is_dev: true },
        None => Dependency { name: (*name).into(), is_dev: false },
    });
    let name = folder.rsplit('/').next().unwrap().replace("testkit", TESTKIT);
    let mut package = Package { name, folder: folder.into(), dependencies: dependencies.collect() };
    package.dependencies.iter_mut().for_each(|on| on.name = on.name.replace("testkit", TESTKIT));
    package
}

/// What is wrong with the dependencies of these packages.
fn wrong(packages: &[Package]) -> Vec<String> {
    let by_name: BTreeMap<&str, &Package> =
        packages.iter().map(|package| (&*package.name, package)).collect();
    let mut wrong = Vec::new();
    for package in packages {
        let (name, product) = (&*package.name, package.product());
        let Some((_, below)) = PRODUCTS.iter().find(|(known, _)| *known == product) else {
            wrong.push(format!("{name}: no product `{product}`"));
            continue;
        };
        let ours = package.dependencies.iter().filter_map(|on| by_name.get(&*on.name));
        for on in ours.clone().filter(|on| on.product() != product && !below.contains(&on.product())) {
            wrong.push(format!("{name} ({product}) must not need {} ({})", on.name, on.product()));
        }
        if let Some((_, why)) = ALONE.iter().find(|(alone, _)| *alone == name) {
            let others = ours.filter(|on| on.name != TESTKIT);
            wrong.extend(others.map(|on| format!("{name} must not need {}: {why}", on.name)));
        }
        let all = reached(name, &by_name, |on| !on.is_dev);
        let never = NEVER.iter().filter(|(of, on, _)| *of == name && all.contains(on));
        wrong.extend(never.map(|(_, on, why)| format!("{name} must not need {on}: {why}")));
    }
    let all: BTreeMap<&str, _> =
        by_name.keys().map(|name| (*name, reached(name, &by_name, |_| true))).collect();
    let circles: BTreeSet<Vec<&str>> = all
        .iter()
        .filter(|(name, on)| on.contains(*name))
        .map(|(name, on)| {
            on.iter()
                .copied()
                .filter(|other| all.get(other).is_some_and(|back| back.contains(name)))
                .collect()
        })
        .collect();
    wrong.extend(circles.iter().map(|circle| format!("a circle: {}", circle.join(", "))));
    wrong
}

/// Everything that a package needs, directly or by way of ours.
fn reached<'a>(
    from: &str,
    packages: &BTreeMap<&str, &'a Package>,
    counts: impl Fn(&Dependency) -> bool,
) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(name) = open.pop() {
        let needed = packages.get(name).into_iter().flat_map(|package| &package.dependencies);
        open.extend(needed.filter(|on| counts(on) && seen.insert(&*on.name)).map(|on| &*on.name));
    }
    seen
}
