//! Publisher and subscribers as tasks of a tokio program.
//!
//! `cargo run -p causeway-ipc --features tokio --example tokio_program`
#![allow(clippy::print_stdout, reason = "an example talks")]

use causeway::{AsyncPublisher, AsyncSubscriber, Group, GroupOptions, Policy, Received};

const MESSAGES: u32 = 1000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> causeway::Result<()> {
    let group = Group::create("tasks", GroupOptions::new().capacity_bytes(4096))?;
    let mut publisher = AsyncPublisher::new(group.publisher()?);
    let mut tasks = Vec::new();
    for name in 0..3 {
        let mut subscriber = AsyncSubscriber::new(group.subscribe(Policy::Reliable)?)?;
        tasks.push(tokio::spawn(async move {
            let mut sum = 0u64;
            for _ in 0..MESSAGES {
                match subscriber.recv().await? {
                    Received::Message(message) => {
                        sum += u64::from(u32::from_le_bytes(message.bytes.try_into().unwrap_or_default()));
                    }
                    other => println!("task {name}: {other:?}"),
                }
            }
            println!("task {name}: the sum of {MESSAGES} messages is {sum}");
            Ok::<_, causeway::Error>(())
        }));
    }
    // The log holds 63 messages; this task waits while it is full.
    for number in 1..=MESSAGES {
        publisher.publish(&number.to_le_bytes()).await?;
    }
    for task in tasks {
        task.await.expect("a task does not panic")?;
    }
    Ok(())
}
