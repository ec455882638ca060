//! Prints each message of the group that is served at a socket, until it ends: `subscriber SOCKET`.
#![allow(clippy::print_stdout, reason = "an example talks")]

use causeway::{Error, Group, Policy, Received};

fn main() -> causeway::Result<()> {
    let path = std::env::args().nth(1).expect("usage: subscriber SOCKET");
    let mut subscriber = Group::join(path)?.subscribe(Policy::Reliable)?;
    loop {
        match subscriber.recv() {
            Ok(Received::Message(message)) => println!("{}", String::from_utf8_lossy(message.bytes)),
            Ok(_) => unreachable!("publishers wait for this subscriber"),
            Err(Error::Disconnected) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}
