//! What every mechanism promises, of the example in C that documents show: a shared object that is compiled here.

use std::process::{Command, ExitCode, Stdio};

use causeway_testkit::{Cause, TempDir, find_program, skipped};
use libtest_mimic::Trial;
use weighbridge_harness::catalogue;
use weighbridge_harness::contract::Target;
use weighbridge_harness::host::Host;
use weighbridge_harness::peer;
use weighbridge_targets::own;

use crate::{pairs, runs};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/own/doorbell.c");

/// Adds the example to the catalogue, as long as nothing was looked up there, and gives the folder in which it is; in a
/// process that was started for a target, does what it was started for, and gives its exit code.
pub fn begin() -> Result<Option<TempDir>, ExitCode> {
    let args: Vec<String> = std::env::args().collect();
    match &args[..] {
        [_, first, ..] if first == peer::ARGUMENT => own::register_for_peer(),
        [_, first, parent] if first == own::ARGUMENT => {
            let control = causeway_os::process::inherited_fd(3).expect("the coordinator passes a socket");
            return Err(own::main(parent.parse().expect("a process id"), control));
        }
        _ => return Ok(load()),
    }
    Ok(None)
}

fn load() -> Option<TempDir> {
    find_program("cc")?;
    let folder = causeway_testkit::temp_dir("own");
    let object = folder.path().join("libdoorbell.so");
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-shared", "-fPIC", SOURCE, "-o"]).arg(&object).stdin(Stdio::null());
    assert!(cc.status().unwrap().success(), "{SOURCE} is not compiled");
    own::load(&[object]).unwrap();
    Some(folder)
}

pub fn trials(host: &'static Host) -> Vec<Trial> {
    if find_program("cc").is_none() {
        return vec![runs::trial("mechanism/doorbell/is_compiled", || skipped(Cause::Missing("cc"), ""))];
    }
    let mine = catalogue::all().filter(|target| target.id == "doorbell");
    mine.flat_map(|target: &'static Target| runs::trials_of(host, target, pairs::PROMISES)).collect()
}
