//! What a recorder on one CPU holds: a publisher on another one says so many messages of 64 bytes a second.
//!
//! `cargo build --release -p causeway-recorder --bins --examples`, then `target/release/examples/rate RATE SECONDS FILE`.
#![allow(clippy::print_stdout, reason = "it prints its figures")]

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use causeway::{Group, GroupOptions};
use causeway_os::sched::{allowed_cpus, pin, pin_process};

/// Messages that are due at once: a publisher that is not alone says several at a time.
const SLICES_PER_S: u64 = 2000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |default: &str| arguments.next().unwrap_or_else(|| default.to_owned());
    let (rate, seconds): (u64, u64) = (next("1000000").parse()?, next("5").parse()?);
    let folder = tempfile::tempdir()?;
    let file = match next("").as_str() {
        "" => folder.path().join("rate.mcap"),
        named => PathBuf::from(named),
    };
    let cpus = allowed_cpus()?;
    let socket = folder.path().join("group");
    let group = Group::create("rate", GroupOptions::new().several_publishers().capacity_bytes(64 << 20))?;
    group.serve_at(&socket)?;
    let program = std::env::current_exe()?
        .parent()
        .and_then(|examples| Some(examples.parent()?.join("causeway-record")));
    let program = program.ok_or("no folder has this program")?;
    let mut recorder =
        Command::new(program).arg(&socket).arg("-o").arg(&file).stderr(Stdio::inherit()).spawn()?;
    pin_process(recorder.id(), &cpus[cpus.len() - 1..])?;
    while group.report()?.subscribers.is_empty() {
        std::thread::sleep(Duration::from_millis(1));
    }
    pin(&cpus[..1])?;
    let mut publisher = group.publisher()?;
    let mut payload = [0u8; 64];
    let (begin, mut late) = (Instant::now(), 0u64);
    for slice in 0..seconds * SLICES_PER_S {
        let due = begin + Duration::from_secs(1).mul_f64(slice as f64 / SLICES_PER_S as f64);
        match due.checked_duration_since(Instant::now()) {
            Some(left) => std::thread::sleep(left),
            None => late += 1,
        }
        for number in 0..rate / SLICES_PER_S {
            // No two are alike, so that they compress as little as what programs say.
            let word = (slice << 20 | number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            payload.chunks_exact_mut(8).enumerate().for_each(|(at, chunk)| {
                chunk.copy_from_slice(&word.rotate_left(at as u32 * 7).to_le_bytes());
            });
            publisher.try_publish(&payload)?;
        }
    }
    let took = begin.elapsed();
    drop((publisher, group));
    let status = recorder.wait()?;
    let usage = cpu_of_children_s();
    let messages = rate / SLICES_PER_S * SLICES_PER_S * seconds;
    println!(
        "{messages} messages of 64 bytes in {:.2} s ({:.0} a second; {late} of {} slices late): exit code {:?}, CPU {usage:.2} s of the recorder, {} bytes",
        took.as_secs_f64(),
        messages as f64 / took.as_secs_f64(),
        seconds * SLICES_PER_S,
        status.code(),
        std::fs::metadata(&file)?.len()
    );
    Ok(())
}

/// CPU time of the processes that this one has waited for, in seconds.
fn cpu_of_children_s() -> f64 {
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_CHILDREN);
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    usage.map_or(0.0, |usage| seconds(usage.user_time()) + seconds(usage.system_time()))
}
