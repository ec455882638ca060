//! One publisher, many subscribers: a price ticker. Subscribers that cannot keep up lose prices, and are told how many.
//!
//! `cargo run -p causeway-ipc --example price_ticker`
#![allow(clippy::print_stdout, reason = "an example talks")]

use causeway::{Error, Group, GroupOptions, Policy, Received};

const SUBSCRIBERS: usize = 4;
const PRICES: u32 = 100_000;

fn main() -> causeway::Result<()> {
    let group = Group::create("prices", GroupOptions::new().capacity_bytes(64 << 10))?;
    let mut publisher = group.publisher()?;
    let subscribers =
        (0..SUBSCRIBERS).map(|_| group.subscribe(Policy::Lossy)).collect::<Result<Vec<_>, _>>()?;

    std::thread::scope(|scope| {
        for (name, mut subscriber) in subscribers.into_iter().enumerate() {
            scope.spawn(move || -> causeway::Result<()> {
                let (mut seen, mut lost, mut last) = (0, 0, 0);
                loop {
                    match subscriber.recv() {
                        Ok(Received::Message(message)) => {
                            seen += 1;
                            last = u32::from_le_bytes(message.bytes.try_into().unwrap_or_default());
                        }
                        Ok(Received::Lost { messages, .. }) => lost += messages,
                        Ok(Received::Demoted) => unreachable!("the policy has no deadline"),
                        Err(Error::Disconnected) => break,
                        Err(error) => return Err(error),
                    }
                }
                println!("subscriber {name}: {seen} prices seen, {lost} lost, the last one {last}");
                Ok(())
            });
        }
        for price in 1..=PRICES {
            // No subscriber holds space, so this never waits.
            publisher.publish(&price.to_le_bytes())?;
        }
        drop(publisher);
        Ok(())
    })
}
