//! Makes a store of a fleet that never was: `cargo run --example lake -- FOLDER HOSTS CASES [normal|heavy-cells|heavy-hosts|two-bands]`.
//!
//! Ten machines are off by twice the margin, ten cells by 20 %, and a setting on a tenth of the machines costs 1.5 %. A hundred machines
//! have a second boot, and so have those that a report of the first boots asks for. What was injected goes to standard output.

#![allow(clippy::print_stdout, reason = "an example")]

#[path = "../tests/it/support/world.rs"]
#[allow(missing_docs, reason = "shared with the tests")]
mod world;

use std::path::PathBuf;

use weighbridge_fleet::analysis::{Options, analyze};
use weighbridge_fleet::lake::SessionPart;
use weighbridge_fleet::rows::Record;
use weighbridge_fleet::store::results_name;
use weighbridge_fleet::table;
use world::{KINDS, World, record};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let folder = PathBuf::from(&words[0]);
    let [hosts, cases] = [1, 2].map(|at| words[at].parse().expect("a number"));
    let name = words.get(3).map_or("normal", String::as_str);
    let (_, kind) = KINDS.into_iter().find(|(known, _)| *known == name).expect("a kind of fleet");
    let world = World::new(kind, hosts, cases, 1)
        .with_facts(40, Some(0.015))
        .with_bad_hosts(10, 0.06_f64.ln_1p())
        .with_bad_cells(10, 0.2_f64.ln_1p());
    let write = |part: &SessionPart| {
        let record = Record::new("a session", &record(part)).expect("a record");
        let file = folder.join(results_name(&record));
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        std::fs::write(file, table::parquet(&table::batch(&record))).expect("a file");
    };
    (0..hosts).for_each(|host| write(&world.session(host, 0, 0, &[])));
    for asked in analyze(&world.first_session(), &Options::default()).remeasure.hosts {
        write(&world.session(asked.machine[1..].parse().expect("a number"), 1, 1, &asked.cases));
    }
    let names: Vec<String> = world.bad_hosts.iter().map(|host| world.name(*host)).collect();
    println!("bad machines: {}", names.join(" "));
    for (host, case) in &world.bad_cells {
        println!("bad cell: {} {}", world.name(*host), world.cases[*case]);
    }
    println!("a setting that costs: sysctl:guilty, with copies in power:copy and limit:nearly");
}
