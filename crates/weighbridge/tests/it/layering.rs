//! Folders below `crates` are products, and arrows between them point down; those between packages make no circle. What only tests need counts
//! as well: who works on a product needs nothing of what stands above it.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use crate::workspace::{Dependency, Package, crates, has_cargo, packages};

/// Every product, and those that its packages may need. None is listed before what it needs.
const PRODUCTS: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("causeway", &["base"]),
    ("lab", &["base", "causeway"]),
    ("dbus", &["base", "causeway", "lab"]),
    ("guest", &["base", "causeway", "lab"]),
    ("weighbridge", &["base", "causeway", "lab", "dbus", "guest"]),
];

/// What tests share: `ALONE` does not count it.
const TESTKIT: &str = "causeway-testkit";
const TESTKIT_MACROS: &str = "causeway-testkit-macros";

/// Packages that need none of ours, and why.
const ALONE: &[(&str, &str)] = &[
    ("causeway-os", "the kernel as safe types"),
    ("causeway-dbus-wire", "pure: bytes of messages"),
    ("causeway-waiting", "pure: times to times"),
    (TESTKIT, "every package's tests may need it"),
    (TESTKIT_MACROS, "testkit's attribute"),
    ("weighbridge-stats", "pure: numbers to numbers"),
    ("weighbridge-guest-plugin", "an emulator loads it"),
];

/// What a package, or each package of a product (`lab/`), must not need, although it may by its place; directly, or by way of what others need
/// without their tests.
const NEVER: &[(&str, &[&str], &str)] = &[
    ("causeway-ipc", &["causeway-bus"], "a log needs no bus"),
    ("causeway-ipc", &["clap"], "a program that uses the log gets no command line with it"),
    ("causeway-bus", &["causeway-ipc"], "a bus needs no log"),
    ("causeway-bus", &["clap"], "a program that uses the bus gets no command line with it"),
    (
        "causeway-bus",
        &["serde", "serde_json", "hdrhistogram"],
        "a member compiles what it needs, and nothing else",
    ),
    ("causewayd", &["causeway-ipc", "causeway-cli"], "a broker needs no log, and nothing to look at it"),
    ("lab/", &["causeway-bus", "causewayd", "causeway-cli"], "brokers are measured from dbus"),
    ("lab/", &["clap"], "only the program has a command line"),
    (
        "weighbridge-probe",
        &["weighbridge-record", "weighbridge-stats"],
        "what a machine says, not what it means",
    ),
    ("weighbridge-record", &["causeway-os", "weighbridge-probe"], "a format, read on any machine"),
    (
        "weighbridge-analysis",
        &["causeway-os", "weighbridge-probe", "weighbridge-harness"],
        "pure: from records to numbers",
    ),
    ("weighbridge-report", &["causeway-os", "weighbridge-probe"], "reads records of any machine"),
    (
        "weighbridge-report",
        &["weighbridge-harness", "weighbridge-targets"],
        "one writes records, one reads them",
    ),
    ("weighbridge-harness", &["causeway-ipc", "weighbridge-targets"], "the harness names no family"),
    ("weighbridge-harness", &["weighbridge-report"], "one writes records, one reads them"),
    (
        "weighbridge-targets",
        &["weighbridge-observe", "weighbridge-report"],
        "what is measured looks at nothing",
    ),
    ("weighbridge-observe", &["weighbridge-report"], "one writes records, one reads them"),
    ("weighbridge-dbus-traffic", &["causeway-os", "causeway-bus"], "captures, read on any machine"),
    ("weighbridge-dbus-client", &["weighbridge-harness"], "a client is used outside of the laboratory, too"),
    ("weighbridge-dbus-exam", &["weighbridge-harness"], "a bus is examined without measuring"),
    ("guest/", &["causeway-bus", "weighbridge-harness"], "a guest brings its own laboratory"),
];

#[test]
fn dependencies_point_down() {
    let Some(packages) = packages() else { return };
    for (name, _) in ALONE {
        assert!(packages.iter().any(|package| package.name == *name), "no package {name}");
    }
    assert_eq!(wrong(&packages), Vec::<String>::new());
}

#[test]
fn every_arrow_that_must_never_be_is_refused_where_it_is_added() {
    let Some(packages) = packages() else { return };
    let is_known = |name: &str| packages.iter().any(|of| of.name == name || of.needs(name));
    for (of, never, why) in NEVER {
        let at = packages.iter().position(|package| is_of(of, package));
        let at = at.unwrap_or_else(|| panic!("no package {of}"));
        for on in *never {
            assert!(is_known(on), "no package {on}");
            for is_dev in [false, true] {
                let mut packages = packages.clone();
                packages[at].dependencies.push(Dependency { name: (*on).into(), is_dev });
                let refused = format!("{} must not need {on}: {why}", packages[at].name);
                assert!(wrong(&packages).contains(&refused), "{refused}");
            }
        }
    }
}

/// All that a member compiles, with what its dependencies need; whoever adds to it says so here.
const OF_A_MEMBER: &[&str] = &[
    "bitflags",
    "causeway-bus",
    "causeway-dbus-wire",
    "causeway-os",
    "causeway-waiting",
    "cfg-if",
    "cfg_aliases",
    "libc",
    "linux-raw-sys",
    "nix",
    "rustc-hash",
    "rustix",
];

#[test]
fn a_member_compiles_these_packages_and_no_others() {
    if !has_cargo() {
        return;
    }
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([
        "tree",
        "--offline",
        "--package=causeway-bus",
        "--edges=normal,build",
        "--prefix=none",
        "--format={p}",
    ]);
    let output = cargo.current_dir(crates()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).unwrap();
    let compiled: BTreeSet<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(compiled.into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>(), OF_A_MEMBER);
}

#[test]
fn what_does_not_point_down_is_refused() {
    type More = &'static [(&'static str, &'static [&'static str])];
    let fine: More = &[
        ("base/os", &["tests:testkit"]),
        ("base/testkit", &[]),
        ("causeway/bus", &["os", "tests:testkit"]),
        ("lab/harness", &["bus"]),
        ("weighbridge", &["harness", "clap"]),
        // What tests of another need stays with it.
        ("causeway/causeway", &["other"]),
        ("causeway/other", &["tests:clap"]),
    ];
    let refused: &[(More, &str)] = &[
        (&[("causeway/log", &["harness"])], "log (causeway) must not need harness (lab)"),
        // What only tests need is no better.
        (&[("causeway/log", &["tests:harness"])], "log (causeway) must not need harness (lab)"),
        (&[("guest/guest", &["exam"]), ("dbus/exam", &[])], "guest (guest) must not need exam (dbus)"),
        (&[("lab/a", &["b"]), ("lab/b", &["tests:a"])], "a circle: a, b"),
        (&[("lab/a", &["b"]), ("lab/b", &["tests:c"]), ("lab/c", &["a"])], "a circle: a, b, c"),
        (&[("more/a", &[])], "a: no product `more`"),
        (
            &[("lab/weighbridge-stats", &["os"])],
            "weighbridge-stats must not need os: pure: numbers to numbers",
        ),
        // By way of another.
        (
            &[("causeway/causeway-bus", &["log"]), ("causeway/log", &["clap"])],
            "causeway-bus must not need clap: a program that uses the bus gets no command line with it",
        ),
    ];
    let wrong = |packages: &[(&str, &[&str])]| wrong(&packages.iter().map(fixture).collect::<Vec<_>>());
    assert_eq!(wrong(fine), Vec::<String>::new());
    for (more, why) in refused {
        assert_eq!(wrong(&[fine, more].concat()), [*why]);
    }
}

/// A package by its folder, which is called as its last part; `tests:` is before what its tests need.
fn fixture((folder, dependencies): &(&str, &[&str])) -> Package {
    let named = |name: &str| name.replace("testkit", TESTKIT);
    let dependency = |name: &&str| {
        let (is_dev, name) = name.strip_prefix("tests:").map_or((false, *name), |name| (true, name));
        Dependency { name: named(name), is_dev }
    };
    let name = named(folder.rsplit('/').next().unwrap());
    let dependencies = dependencies.iter().map(dependency).collect();
    Package { name, folder: folder.into(), dependencies, features: Vec::new() }
}

/// Is a row of [`NEVER`] about this package?
fn is_of(row: &str, package: &Package) -> bool {
    row == package.name || row.strip_suffix('/') == Some(package.product())
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
            let is_part = |on: &Package| name == TESTKIT && on.name == TESTKIT_MACROS;
            let others = ours.filter(|on| on.name != TESTKIT && !is_part(on));
            wrong.extend(others.map(|on| format!("{name} must not need {}: {why}", on.name)));
        }
        let all = reached(name, &by_name, |on| !on.is_dev);
        for (_, never, why) in NEVER.iter().filter(|(of, ..)| is_of(of, package)) {
            let never = never.iter().filter(|on| all.contains(*on) || package.needs(on));
            wrong.extend(never.map(|on| format!("{name} must not need {on}: {why}")));
        }
    }
    let all: BTreeMap<&str, _> =
        by_name.keys().map(|name| (*name, reached(name, &by_name, |_| true))).collect();
    let circle = |(name, on): (&&str, &BTreeSet<&str>)| {
        let leads_back = |other: &&str| all.get(other).is_some_and(|back| back.contains(*name));
        let circle: Vec<String> = on.iter().copied().filter(leads_back).map(String::from).collect();
        on.contains(*name).then(|| format!("a circle: {}", circle.join(", ")))
    };
    wrong.extend(all.iter().filter_map(circle).collect::<BTreeSet<_>>());
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
