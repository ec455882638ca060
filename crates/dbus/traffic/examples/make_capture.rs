//! Writes a capture to try the analyzer on: `make_capture boot FILE` or `make_capture COUNT FILE`.

#[path = "../tests/it/common/mod.rs"]
mod common;

use std::fs::File;
use std::io::BufWriter;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [what, path] = args.as_slice() else {
        return Err("usage: make_capture boot|COUNT FILE".into());
    };
    let file = BufWriter::new(File::create_new(path)?);
    match what.as_str() {
        "boot" => drop(common::boot(file)),
        count => drop(common::mixed(file, count.parse()?)),
    }
    Ok(())
}
