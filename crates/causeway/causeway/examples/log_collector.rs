//! Many publishers, one subscriber that must not miss a line: a log collector.
//!
//! Publishers are threads here. In other processes they would join with `Group::join` and the group would be made with
//! `remote_publishers`.
//!
//! `cargo run -p causeway-ipc --example log_collector`
#![allow(clippy::print_stdout, reason = "an example talks")]

use causeway::{Group, GroupOptions, Policy, Received};

const PROGRAMS: usize = 3;
const LINES: usize = 5;

fn main() -> causeway::Result<()> {
    let group = Group::create("lines", GroupOptions::new().several_publishers())?;
    let mut collector = group.subscribe(Policy::Reliable)?;
    std::thread::scope(|scope| {
        for program in 0..PROGRAMS {
            let mut publisher = group.publisher()?;
            scope.spawn(move || -> causeway::Result<()> {
                for line in 0..LINES {
                    // Waits while the collector is a whole log behind: no line is lost.
                    publisher.publish(format!("program {program}, line {line}").as_bytes())?;
                }
                Ok(())
            });
        }
        let mut lines = 0;
        while lines < PROGRAMS * LINES {
            match collector.recv()? {
                Received::Message(message) => {
                    println!("[{:>5}] {}", message.position.0, String::from_utf8_lossy(message.bytes));
                    lines += 1;
                }
                Received::Lost { .. } | Received::Demoted => {
                    unreachable!("a reliable subscriber loses nothing")
                }
            }
        }
        Ok(())
    })
}
