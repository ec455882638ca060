//! The library in twenty lines: `analyse_capture FILE` prints counts, and how long they took.
#![allow(clippy::print_stdout, reason = "that is what it is for")]

use std::fs::File;
use std::time::Instant;

use weighbridge_dbus_traffic::capture::Reader;
use weighbridge_dbus_traffic::traffic::{Analyzer, Options};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: analyse_capture FILE")?;
    let began = Instant::now();
    let mut reader = Reader::new(File::open(path)?)?;
    let mut analyzer = Analyzer::new(Options::default());
    while let Some(packet) = reader.next_packet()? {
        analyzer.push(&packet);
    }
    let analysis = analyzer.finish();
    println!("{:#?}", analysis.facts.totals);
    println!("{} findings about match rules, {:?}", analysis.findings.len(), began.elapsed());
    Ok(())
}
