//! What commands do with a connection to a bus, of either kind.

use std::time::{Duration, Instant};

use causeway_bus::client::{Bus, Error};
use causeway_bus::name::UNKNOWN_METHOD;
use causeway_bus::wire::{
    Body, Builder, Dict, FLAG_NO_REPLY_EXPECTED, Header, Kind, Value, arguments_of, names,
};
pub use causeway_dbus_wire::driver::DRIVER;
use serde_json::Map;

use super::show;
use crate::failure::Failure;

/// Who waits without a limit waits again.
pub const LONG: Duration = Duration::from_secs(3600);

/// A call of a method, whose names are valid.
pub fn call<'a>(
    service: &'a str,
    path: &'a str,
    interface: &'a str,
    member: &'a str,
) -> Result<Builder<'a>, Failure> {
    check_service(service)?;
    check_member(path, interface, member)?;
    Ok(Builder::call(path, member).interface(interface).destination(service))
}

/// Is it the name of a connection?
pub fn check_service(name: &str) -> Result<(), Failure> {
    check(name, names::is_bus_name, "the name of a connection, such as com.example.Clock or :1.7")
}

/// Are these the names of a method or signal?
pub fn check_member(path: &str, interface: &str, member: &str) -> Result<(), Failure> {
    check(path, names::is_path, "an object path, such as /com/example/clock")?;
    check(interface, names::is_interface, "an interface name, such as com.example.Clock")?;
    check(member, names::is_member, "the name of a method or a signal, such as Now")
}

fn check(text: &str, is_valid: fn(&str) -> bool, what: &str) -> Result<(), Failure> {
    if is_valid(text) { Ok(()) } else { Err(Failure::Usage(format!("{text:?} is not {what}"))) }
}

/// The entries of a reply of type `a{sv}`, without texts.
pub fn numbers(reply: &[u8]) -> Result<Map<String, serde_json::Value>, Failure> {
    let entries: Dict<String, Value<'_>> = arguments_of(reply).map_err(Error::from)?;
    let numbers = entries.0.into_iter().filter(|(_, value)| !matches!(value, Value::Text(_)));
    Ok(numbers.map(|(key, value)| (key, show::as_json(&value))).collect())
}

/// The next signal; `None` when the time is over. Calls of this connection are answered with an error.
pub fn next_signal(bus: &mut Bus, deadline: Option<Instant>) -> Result<Option<Vec<u8>>, Failure> {
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let Some(bytes) = bus.receive(left.unwrap_or(LONG))? else {
            if left.is_some() {
                return Ok(None);
            }
            continue;
        };
        let header = Header::parse(&bytes).map_err(Error::Protocol)?;
        match (header.kind, header.sender) {
            (Kind::Signal, _) => return Ok(Some(bytes)),
            (Kind::MethodCall, Some(sender)) if header.flags & FLAG_NO_REPLY_EXPECTED == 0 => {
                let error = Builder::error(header.serial, UNKNOWN_METHOD).destination(sender);
                bus.send(&error.body(Body::default().text("this connection has no objects")))?;
            }
            _ => {}
        }
    }
}

/// What `ask` returns, if it does so in time. Otherwise it goes on in a thread that ends with this process: connecting and the answers of
/// a bus that is stopped cannot be waited for with a limit.
pub fn within<T: Send + 'static>(
    timeout: Option<Duration>,
    ask: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let Some(timeout) = timeout else { return ask() };
    let (sender, answer) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(ask()));
    answer.recv_timeout(timeout).map_err(|_| Failure::NoAnswer(timeout))?
}

/// Is a message for this connection alone?
pub fn is_for(message: &[u8], unique_name: &str) -> bool {
    Header::parse(message).is_ok_and(|header| header.destination == Some(unique_name))
}
