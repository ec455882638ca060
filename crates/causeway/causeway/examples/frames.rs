//! Large payloads, written where their subscribers read them: `frames publish SOCKET` in one process, `frames SOCKET` in others.
#![allow(clippy::print_stdout, reason = "an example talks")]

use causeway::{Group, GroupOptions, Policy, PoolOptions, Received};

const FRAME_BYTES: usize = 1080 * 1920 * 3;

fn publish(path: &str) -> causeway::Result<()> {
    let group = Group::create("frames", GroupOptions::new().large_payloads())?;
    let mut publisher = group.large_publisher(PoolOptions::new(FRAME_BYTES).files(4).sealed())?;
    group.serve_at(path)?;
    publisher.get_mut().wait_for_subscribers(1, None)?;
    let mut gray = 0_u8;
    while publisher.get_mut().wait_for_subscribers(1, Some(std::time::Duration::ZERO))? {
        let mut frame = publisher.loan(FRAME_BYTES)?;
        frame.fill(gray);
        frame.publish()?;
        gray = gray.wrapping_add(1);
    }
    Ok(())
}

fn show(path: &str) -> causeway::Result<()> {
    let mut subscriber = Group::join(path)?.large_subscribe(Policy::Reliable)?;
    for _ in 0..3 {
        let Received::Message(message) = subscriber.recv()? else {
            unreachable!("publishers wait for this subscriber")
        };
        // Nobody can change a sealed payload, so this is the memory that was written.
        let frame = message.payload.as_slice().expect("the pool is sealed");
        let sum: u64 = frame.iter().map(|byte| u64::from(*byte)).sum();
        println!("mean {:.1}", sum as f64 / frame.len() as f64);
    }
    Ok(())
}

fn main() -> causeway::Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match &*arguments {
        [word, path] if word == "publish" => publish(path),
        [path] => show(path),
        _ => panic!("usage: frames [publish] SOCKET"),
    }
}
