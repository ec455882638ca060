//! Serves a group at a socket, waits for a subscriber and publishes three prices: `publisher SOCKET`.

use causeway::{Group, GroupOptions};

fn main() -> causeway::Result<()> {
    let path = std::env::args().nth(1).expect("usage: publisher SOCKET");
    let group = Group::create("prices", GroupOptions::new())?;
    let mut publisher = group.publisher()?;
    group.serve_at(path)?;
    publisher.wait_for_subscribers(1, None)?;
    for price in ["42.17", "42.18", "42.19"] {
        publisher.publish(price.as_bytes())?;
    }
    Ok(())
}
