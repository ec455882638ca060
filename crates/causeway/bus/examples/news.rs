//! A signal: `news SOCKET TEXT` emits it, `news SOCKET` prints each one.
#![allow(clippy::print_stdout, reason = "this is a command")]

use causeway_bus::wire::Body;
use causeway_bus::{Connection, Error, Incoming};

const NEWS: &str = "com.example.News";

fn main() -> Result<(), Error> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let path = arguments.first().expect("usage: news SOCKET [TEXT]");
    let mut bus = Connection::open(path)?;
    if let Some(text) = arguments.get(1) {
        bus.emit("/", NEWS, "Headline", Body::of(&text.as_str())?)?;
        return Ok(());
    }
    bus.add_match(&format!("type='signal',interface='{NEWS}'"))?;
    println!("listening");
    while let Some(incoming) = bus.next(None)? {
        match incoming {
            Incoming::Signal(signal) if signal.header().interface == Some(NEWS) => {
                println!("{}", signal.args::<&str>()?)
            }
            Incoming::AuthorityGone => break,
            _ => {}
        }
    }
    Ok(())
}
