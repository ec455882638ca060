//! A connection to a bus: a member at its native socket, or a client at its D-Bus socket. Messages are bytes either way.

use std::time::{Duration, Instant};

use causeway_bus::wire::{Arg, Args, Body, Builder, FLAG_NO_REPLY_EXPECTED, Header, Kind, names};
use causeway_bus::{Connection, Incoming};
pub use causeway_dbus_wire::driver::{DRIVER, DRIVER_PATH};
use weighbridge_dbus_client as gateway;

use super::which::{Bus, gateway_at, not_joined};
use crate::failure::Failure;

const UNKNOWN_METHOD: &str = "org.freedesktop.DBus.Error.UnknownMethod";
const NOTHING_HERE: &str = "this connection has no objects";

/// A method of an object of a connection; its names are valid.
pub struct Method<'a> {
    service: &'a str,
    path: &'a str,
    interface: &'a str,
    member: &'a str,
}

impl<'a> Method<'a> {
    /// Checks the names.
    ///
    /// # Errors
    /// Which of them is none.
    pub fn new(
        service: &'a str,
        path: &'a str,
        interface: &'a str,
        member: &'a str,
    ) -> Result<Method<'a>, Failure> {
        check_service(service)?;
        check_member(path, interface, member)?;
        Ok(Method { service, path, interface, member })
    }
}

/// Is it the name of a connection?
pub fn check_service(name: &str) -> Result<(), Failure> {
    check(name, names::is_bus_name, "name of a connection, such as com.example.Clock or :1.7")
}

/// Are these the names of a method or signal?
pub fn check_member(path: &str, interface: &str, member: &str) -> Result<(), Failure> {
    check(path, names::is_path, "object path, such as /com/example/clock")?;
    check(interface, names::is_interface, "interface, such as com.example.Clock")?;
    check(member, names::is_member, "name of a method or a signal, such as Now")
}

fn check(text: &str, is_valid: fn(&str) -> bool, what: &str) -> Result<(), Failure> {
    if is_valid(text) { Ok(()) } else { Err(Failure::Usage(format!("{text:?} is no {what}"))) }
}

/// A connection of either kind.
pub enum Client {
    Native(Box<Connection>),
    Gateway(Box<gateway::Connection>),
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// Nobody serves there, or this user is not let in.
    pub fn open(bus: &Bus) -> Result<Client, Failure> {
        match bus {
            Bus::Native(path) => match Connection::open(path) {
                Ok(connection) => Ok(Client::Native(Box::new(connection))),
                Err(error) => Err(not_joined(path, error)),
            },
            Bus::Gateway(address) => Ok(Client::Gateway(Box::new(gateway_at(address)?))),
        }
    }

    /// The unique name of this connection.
    pub fn unique_name(&self) -> &str {
        match self {
            Client::Native(connection) => connection.unique_name(),
            Client::Gateway(connection) => connection.unique_name(),
        }
    }

    /// Calls a method; returns the reply.
    ///
    /// # Errors
    /// The reply is an error or does not come in time.
    pub fn call(&mut self, method: &Method<'_>, body: Body, timeout: Duration) -> Result<Vec<u8>, Failure> {
        let Method { service, path, interface, member } = *method;
        match self {
            Client::Native(connection) => {
                let serial = connection.start_call(service, path, interface, member, body)?;
                Ok(connection.finish_call(serial, timeout)?.bytes().to_vec())
            }
            Client::Gateway(connection) => {
                let call = Builder::call(path, member).interface(interface).destination(service).body(body);
                Ok(connection.call(&call, timeout)?)
            }
        }
    }

    /// Emits a signal; the bus has it when this returns. The names are valid.
    ///
    /// # Errors
    /// The bus or this connection has ended.
    pub fn emit(&mut self, path: &str, interface: &str, member: &str, body: Body) -> Result<(), Failure> {
        match self {
            Client::Native(connection) => Ok(connection.emit(path, interface, member, body)?),
            Client::Gateway(connection) => {
                connection.send(&Builder::signal(path, interface, member).body(body))?;
                connection.ask_driver("GetId", Body::default())?;
                Ok(())
            }
        }
    }

    /// From now on signals come that a rule matches.
    ///
    /// # Errors
    /// The bus refuses the rule.
    pub fn add_match(&mut self, rule: &str) -> Result<(), Failure> {
        match self {
            Client::Native(connection) => Ok(connection.add_match(rule)?),
            Client::Gateway(connection) => {
                connection.ask_driver("AddMatch", Body::default().text(rule))?;
                Ok(())
            }
        }
    }

    /// Does a name have an owner, and which?
    ///
    /// # Errors
    /// The bus or this connection has ended.
    pub fn owner(&mut self, name: &str) -> Result<Option<String>, Failure> {
        match self {
            Client::Native(connection) => Ok(connection.name_owner(name)),
            Client::Gateway(connection) => {
                match connection.ask_driver("GetNameOwner", Body::default().text(name)) {
                    Ok(reply) => Ok(texts(&reply).into_iter().next()),
                    Err(gateway::Error::Refused { .. }) => Ok(None),
                    Err(other) => Err(other.into()),
                }
            }
        }
    }

    /// The next signal; `None` when the time is over. Calls of this connection are answered with an error.
    ///
    /// # Errors
    /// The bus or this connection has ended.
    pub fn next_signal(&mut self, deadline: Option<Instant>) -> Result<Option<Vec<u8>>, Failure> {
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            match self {
                Client::Native(connection) => match connection.next(left)? {
                    Some(Incoming::Signal(message)) => return Ok(Some(message.bytes().to_vec())),
                    Some(Incoming::Call(call)) => {
                        connection.reply_error(&call, UNKNOWN_METHOD, NOTHING_HERE)?
                    }
                    Some(Incoming::AuthorityGone) => return Err(causeway_bus::Error::AuthorityGone.into()),
                    Some(_) => {}
                    None if left.is_some() => return Ok(None),
                    None => {}
                },
                Client::Gateway(connection) => {
                    const LONG: Duration = Duration::from_secs(3600);
                    let Some(bytes) = connection.receive(left.unwrap_or(LONG))? else {
                        if left.is_some() {
                            return Ok(None);
                        }
                        continue;
                    };
                    let header = Header::parse(&bytes).map_err(gateway::Error::Protocol)?;
                    match (header.kind, header.sender) {
                        (Kind::Signal, _) => return Ok(Some(bytes)),
                        (Kind::MethodCall, Some(sender)) if header.flags & FLAG_NO_REPLY_EXPECTED == 0 => {
                            let body = Body::default().text(NOTHING_HERE);
                            let error = Builder::error(header.serial, UNKNOWN_METHOD);
                            connection.send(&error.destination(sender).body(body))?;
                        }
                        _ => {}
                    }
                }
            }
        }
    }
}

/// What `ask` returns, if it does so in time. Otherwise it goes on in a thread that ends with this process: connecting and the answers of
/// a bus that is stopped cannot be waited for with a limit.
///
/// # Errors
/// [`Failure::NoAnswer`], or those of `ask`.
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

/// The strings among the arguments of a message.
pub fn texts(message: &[u8]) -> Vec<String> {
    let Ok(header) = Header::parse(message) else { return Vec::new() };
    let args = Args::new(&header, &message[header.header_bytes..]);
    args.filter_map(|arg| if let Ok(Arg::Text(text)) = arg { Some(text.to_owned()) } else { None }).collect()
}
