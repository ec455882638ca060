//! How long subscribers wait when a publisher is killed in the middle of a message.
//!
//! `cargo run --release -p causeway-ipc --example kill_latency [KILLS]`
//!
//! A publisher claims a frame and does not finish it; another one publishes a message after it; a subscriber sleeps before the
//! frame. Then the first publisher gets SIGKILL. Prints the time from the call of kill until the subscriber has the message,
//! which includes the end of a process, the pidfd, the server's decision and the wake-up.
#![allow(clippy::print_stdout, reason = "a measurement prints")]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use causeway::{Group, GroupOptions, Policy, Received, SubscribeOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("victim") => victim(&arguments.next().ok_or("a victim needs a path")?),
        kills => measure(kills.map_or(Ok(200), str::parse)?),
    }
}

/// Claims a frame, prints that, and never finishes the frame.
fn victim(path: &str) -> Result<(), Box<dyn std::error::Error>> {
    let mut publisher = Group::join(path)?.publisher()?;
    let mut loan = publisher.loan(1000)?;
    loan.fill(1);
    println!("claimed");
    std::thread::sleep(Duration::from_secs(60));
    Ok(())
}

fn measure(kills: usize) -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::temp_dir().join(format!("causeway-kill-latency-{}", std::process::id()));
    let mut taken = Vec::with_capacity(kills);
    for _ in 0..kills {
        let group =
            Group::create("kill-latency", GroupOptions::new().several_publishers().remote_publishers(1))?;
        group.serve_at(&dir)?;
        let mut victim = Command::new(std::env::current_exe()?)
            .args(["victim".as_ref(), dir.as_os_str()])
            .stdout(Stdio::piped())
            .spawn()?;
        let mut subscriber =
            group.subscribe(SubscribeOptions::new(Policy::Reliable).timeout(Duration::from_secs(20)))?;
        let mut publisher = group.publisher()?;
        BufReader::new(victim.stdout.take().ok_or("no pipe")?).read_line(&mut String::new())?;
        publisher.publish(b"behind it")?;
        let receiving = std::thread::spawn(move || {
            subscriber.spin_at_most(Duration::ZERO);
            let _ = subscriber.wait(None)?;
            let now = Instant::now();
            match subscriber.recv()? {
                Received::Message(message) => assert_eq!(message.bytes, b"behind it"),
                other => panic!("{other:?} in place of a message"),
            }
            Ok::<_, causeway::Error>(now)
        });
        while !group.report()?.subscribers.iter().all(|subscriber| subscriber.asleep) {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(2));
        let killed = Instant::now();
        victim.kill()?;
        let received = receiving.join().map_err(|_| "the subscriber panicked")??;
        victim.wait()?;
        taken.push(received - killed);
    }
    taken.sort();
    let at = |part: f64| taken[((taken.len() - 1) as f64 * part) as usize];
    println!(
        "{kills} kills: median {:.0?}, 90 % {:.0?}, 99 % {:.0?}, longest {:.0?}",
        at(0.5),
        at(0.9),
        at(0.99),
        at(1.0)
    );
    Ok(())
}
