//! A member of the bus, whose calls wait for nothing but space: replies come as messages, and `_bus.py` gives them to who waits.

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use causeway_bus::wire::{Builder, FLAG_NO_AUTO_START, FLAG_NO_REPLY_EXPECTED, Kind};
use causeway_bus::{ConnectionOptions, Incoming, MatchRule};
use causeway_dbus_wire::rule::Owners;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::descriptors;
use crate::errors::{self, BusError};
use crate::handle::{Handle, guarded};
use crate::values::{to_payload, to_python, to_value};
use crate::wait::{duration, in_thread, sliced};

/// What came.
#[pyclass(frozen, module = "causeway_ipc")]
#[derive(Debug)]
pub struct BusMessage(Incoming);

#[pymethods]
impl BusMessage {
    /// `"call"`, `"signal"`, `"reply"`, `"error"`, or `"end"`: the process that serves the bus is gone.
    #[getter]
    fn kind(&self) -> &'static str {
        match &self.0 {
            Incoming::Call(_) => "call",
            Incoming::Signal(_) => "signal",
            Incoming::Reply(reply) if reply.header().kind == Kind::Error => "error",
            Incoming::Reply(_) => "reply",
            _ => "end",
        }
    }

    #[getter]
    fn path(&self) -> Option<&str> {
        self.0.message()?.header().path
    }

    #[getter]
    fn interface(&self) -> Option<&str> {
        self.0.message()?.header().interface
    }

    #[getter]
    fn member(&self) -> Option<&str> {
        self.0.message()?.header().member
    }

    #[getter]
    fn sender(&self) -> Option<&str> {
        self.0.message()?.header().sender
    }

    #[getter]
    fn destination(&self) -> Option<&str> {
        self.0.message()?.header().destination
    }

    #[getter]
    fn error_name(&self) -> Option<&str> {
        self.0.message()?.header().error_name
    }

    #[getter]
    fn signature(&self) -> Option<&str> {
        Some(self.0.message()?.header().signature)
    }

    #[getter]
    fn reply_serial(&self) -> Option<u32> {
        self.0.message()?.header().reply_serial
    }

    /// Its position in the one order of the bus.
    #[getter]
    fn position(&self) -> Option<u64> {
        Some(self.0.message()?.position())
    }

    /// The descriptors that came with it, which are the caller's to close; once. A value of type `h` is which of them.
    fn take_descriptors(&self) -> PyResult<Vec<RawFd>> {
        guarded(|| {
            let message = self.0.message();
            Ok(descriptors::given_away(message.map(|message| message.take_descriptors()).unwrap_or_default()))
        })
    }

    /// Its arguments.
    #[getter]
    fn args<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        guarded(|| self.arguments(py, None))
    }

    /// Its arguments, with the descriptors themselves: as `take_descriptors`.
    fn take_args<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let fds = self.take_descriptors()?;
        guarded(|| self.arguments(py, Some(&fds)))
    }
}

impl BusMessage {
    fn arguments<'py>(&self, py: Python<'py>, fds: Option<&[RawFd]>) -> PyResult<Bound<'py, PyTuple>> {
        let Some(message) = self.0.message() else { return Ok(PyTuple::empty(py)) };
        let values = message.values().map_err(errors::bus)?;
        PyTuple::new(py, values.iter().map(|value| to_python(py, value, fds)).collect::<PyResult<Vec<_>>>()?)
    }
}

/// A match rule, and who has owned the name of its sender.
#[pyclass(frozen, module = "causeway_ipc")]
#[derive(Debug)]
pub struct Rule {
    rule: MatchRule,
    owner: Mutex<Option<String>>,
}

/// The owner that the directory shows, or the last one that was known: its signals may come after its end.
struct Known<'a> {
    now: Option<String>,
    before: Option<&'a str>,
}

impl Owners for Known<'_> {
    fn owns(&self, connection: &str, _: &str) -> bool {
        self.now.as_deref() == Some(connection) || self.before == Some(connection)
    }
}

#[pymethods]
impl Rule {
    #[new]
    fn new(text: &str) -> PyResult<Rule> {
        guarded(|| {
            let rule = text.parse().map_err(|why| {
                let text = format!("invalid match rule {text:?}: {why}");
                BusError::new_err((causeway_bus::name::MATCH_RULE_INVALID, text))
            })?;
            Ok(Rule { rule, owner: Mutex::new(None) })
        })
    }

    /// Does it want this signal?
    fn matches(&self, signal: &BusMessage, connection: &Connection) -> PyResult<bool> {
        connection.0.with(|connection| {
            let Some(message) = signal.0.message() else { return Ok(false) };
            let mut owner = self.owner.lock().unwrap_or_else(PoisonError::into_inner);
            let now = self.rule.sender.as_deref().and_then(|name| connection.name_owner(name));
            let known = Known { now, before: owner.as_deref() };
            let matches = self.rule.matches(&message.header(), &message.rule_args(), &known);
            if known.now.is_some() {
                *owner = known.now;
            }
            Ok(matches)
        })
    }
}

/// A member of the bus.
#[pyclass(frozen, subclass, module = "causeway_ipc")]
#[derive(Debug)]
pub struct Connection(Handle<causeway_bus::Connection>);

#[pymethods]
impl Connection {
    /// Joins the bus at this path, or that of the session.
    #[new]
    #[pyo3(signature = (path=None, outbox_bytes=None))]
    fn new(py: Python<'_>, path: Option<PathBuf>, outbox_bytes: Option<u64>) -> PyResult<Connection> {
        guarded(|| {
            let mut options = ConnectionOptions::default();
            options.outbox_bytes = outbox_bytes.unwrap_or(options.outbox_bytes);
            let connection = in_thread(py, move || {
                let path = match path {
                    Some(path) => path,
                    None => match causeway_bus::session_socket().map_err(errors::bus)? {
                        Some(path) => path,
                        None => {
                            return Err(errors::Error::new_err(
                                "no bus of the session was found; set CAUSEWAY_BUS, or name a path",
                            ));
                        }
                    },
                };
                let mut connection =
                    causeway_bus::Connection::open_with(path, options).map_err(errors::bus)?;
                connection.use_descriptor().map_err(errors::bus)?;
                Ok(connection)
            })?;
            Ok(Connection(Handle::new(connection)))
        })
    }

    #[getter]
    fn unique_name(&self) -> PyResult<String> {
        self.0.with(|connection| Ok(connection.unique_name().to_owned()))
    }

    #[getter]
    fn bus_id(&self) -> PyResult<String> {
        self.0.with(|connection| Ok(connection.bus_id()))
    }

    fn list_names(&self) -> PyResult<Vec<String>> {
        self.0.with(|connection| Ok(connection.list_names()))
    }

    fn name_owner(&self, name: &str) -> PyResult<Option<String>> {
        self.0.with(|connection| Ok(connection.name_owner(name)))
    }

    /// What comes next; `None` when the time is over.
    #[pyo3(signature = (timeout=None))]
    fn next(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<BusMessage>> {
        self.0.with(|connection| {
            if let Some(incoming) = connection.next_now().map_err(errors::bus)? {
                return Ok(Some(BusMessage(incoming)));
            }
            let step = |slice| connection.next(Some(slice)).map_err(errors::bus);
            Ok(sliced(py, duration(timeout)?, step)?.map(BusMessage))
        })
    }

    /// What is there.
    fn next_now(&self) -> PyResult<Option<BusMessage>> {
        self.0.with(|connection| Ok(connection.next_now().map_err(errors::bus)?.map(BusMessage)))
    }

    /// Prepares a wait for the descriptor: false if there is something to take.
    fn prepare_to_wait(&self) -> PyResult<bool> {
        self.0.with(|connection| Ok(connection.prepare_to_wait()))
    }

    fn fileno(&self) -> PyResult<RawFd> {
        self.0.with(|connection| Ok(connection.as_fd().as_raw_fd()))
    }

    /// Sends a call and returns its serial, which its reply names.
    #[pyo3(signature = (destination, path, interface, member, signature, args, reply=true, auto_start=true))]
    #[allow(clippy::too_many_arguments, reason = "a call of D-Bus has as many parts")]
    fn send_call(
        &self,
        destination: &str,
        path: &str,
        interface: Option<&str>,
        member: &str,
        signature: &str,
        args: Vec<Bound<'_, PyAny>>,
        reply: bool,
        auto_start: bool,
    ) -> PyResult<u32> {
        self.0.with(|connection| {
            let unwanted = if reply { 0 } else { FLAG_NO_REPLY_EXPECTED };
            let flags = unwanted | if auto_start { 0 } else { FLAG_NO_AUTO_START };
            let call = Builder::call(path, member).destination(destination).flags(flags);
            let call = interface.into_iter().fold(call, |call, interface| call.interface(interface));
            let (body, descriptors) = to_payload(signature, &args)?.into_parts();
            connection.send_message_with_descriptors(&call.body(body), descriptors).map_err(errors::bus)
        })
    }

    #[pyo3(signature = (path, interface, member, signature="", *args))]
    fn emit(
        &self,
        path: &str,
        interface: &str,
        member: &str,
        signature: &str,
        args: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        self.0.with(|connection| {
            connection.emit(path, interface, member, to_payload(signature, &args)?).map_err(errors::bus)
        })
    }

    #[pyo3(signature = (call, signature="", *args))]
    fn reply(&self, call: &BusMessage, signature: &str, args: Vec<Bound<'_, PyAny>>) -> PyResult<()> {
        self.0.with(|connection| {
            connection.reply(as_call(call)?, to_payload(signature, &args)?).map_err(errors::bus)
        })
    }

    fn reply_error(&self, call: &BusMessage, name: &str, text: &str) -> PyResult<()> {
        self.0.with(|connection| connection.reply_error(as_call(call)?, name, text).map_err(errors::bus))
    }

    /// Answers what the library answers itself; says whether it was that.
    fn answer_standard(&self, call: &BusMessage) -> PyResult<bool> {
        self.0.with(|connection| connection.answer_standard(as_call(call)?).map_err(errors::bus))
    }

    /// Says the value of a property that `describe` has named: the library answers for it, and tells who watches.
    fn _keep_property(
        &self,
        path: &str,
        interface: &str,
        name: &str,
        signature: &str,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.0.with(|connection| {
            let value = to_value(signature, value)?;
            connection.set_property(path, interface, name, &value).map_err(errors::bus)
        })
    }

    /// Says what interfaces an object has, in XML.
    fn describe(&self, path: &str, interfaces: &str) -> PyResult<()> {
        self.0.with(|connection| connection.describe(path, interfaces).map_err(errors::bus))
    }

    fn _close(&self) -> PyResult<()> {
        self.0.take().map(drop)
    }
}

fn as_call(message: &BusMessage) -> PyResult<&causeway_bus::Call> {
    match &message.0 {
        Incoming::Call(call) => Ok(call),
        _ => Err(PyTypeError::new_err("only a call can be answered")),
    }
}
