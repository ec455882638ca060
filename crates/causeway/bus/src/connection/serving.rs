//! Serving: the library answers what it knows, and a handler of the program the rest.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use causeway_dbus_wire::wire::{Body, Builder, Fault};
use causeway_os::clock;

use super::sleep::{end_after, has_passed};
use super::{Call, Connection, Incoming, Message, Reply, outcome};
use crate::content::Payload;
use crate::error::{Error, Result, name};

/// What a handler answers.
#[derive(Debug)]
pub enum Answer {
    /// These arguments, now.
    Now(Payload),
    /// The program answers later, with [`Connection::reply`] or [`Connection::reply_error`] and a clone of the call.
    Later,
}

impl From<Payload> for Answer {
    fn from(payload: Payload) -> Answer {
        Answer::Now(payload)
    }
}

impl From<Body> for Answer {
    fn from(body: Body) -> Answer {
        Answer::Now(body.into())
    }
}

/// An error as the answer to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The name of the error, such as [`name::INVALID_ARGS`].
    pub name: String,
    /// What it says.
    pub text: String,
}

impl Refusal {
    /// An error of this name.
    pub fn new(name: &str, text: impl Into<String>) -> Refusal {
        Refusal { name: name.to_owned(), text: text.into() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.text)
    }
}

impl From<(&str, &str)> for Refusal {
    fn from((name, text): (&str, &str)) -> Refusal {
        Refusal::new(name, text)
    }
}

/// Arguments that cannot be read are `InvalidArgs`, the error of a further call is handed on, anything else is
/// `Failed`.
impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        match error {
            Error::Method { name, message } => Refusal { name, text: message },
            Error::Arguments(why) => Refusal::new(name::INVALID_ARGS, why.to_string()),
            other => Refusal::new(name::FAILED, other.to_string()),
        }
    }
}

/// What cannot be written as an argument.
impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Refusal {
        Refusal::new(name::FAILED, fault.to_string())
    }
}

/// The connection, while a handler of [`Connection::serve`] has it, with [`Context::call_then`].
#[derive(Debug)]
pub struct Context<'a> {
    connection: &'a mut Connection,
    later: &'a mut Vec<Later>,
}

/// What goes on when a reply has come.
type Then = dyn FnOnce(&mut Context<'_>, Result<Reply>) -> Result<()>;

struct Later {
    serial: u32,
    end_ns: Option<u64>,
    timeout: Duration,
    then: Box<Then>,
}

impl fmt::Debug for Later {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Later").field("serial", &self.serial).finish_non_exhaustive()
    }
}

impl Deref for Context<'_> {
    type Target = Connection;
    fn deref(&self) -> &Connection {
        self.connection
    }
}

impl DerefMut for Context<'_> {
    fn deref_mut(&mut self) -> &mut Connection {
        self.connection
    }
}

impl Context<'_> {
    /// Calls a method and goes on serving; `then` gets the reply, or an error as [`Connection::call`] returns it, also
    /// after
    /// [`call_timeout`](crate::ConnectionOptions::call_timeout). An error of `then` ends [`Connection::serve`].
    pub fn call_then(
        &mut self,
        destination: &str,
        path: &str,
        interface: &str,
        member: &str,
        body: impl Into<Payload>,
        then: impl FnOnce(&mut Context<'_>, Result<Reply>) -> Result<()> + 'static,
    ) -> Result<()> {
        let Payload { body, descriptors } = body.into();
        let call = Builder::call(path, member)
            .interface(interface)
            .destination(destination)
            .flags(self.call_flags());
        let timeout = self.options.call_timeout;
        let end_ns = end_after(clock::monotonic_ns(), timeout);
        let serial = self.send_message_with_descriptors(&call.body(body), descriptors)?;
        self.later.push(Later { serial, end_ns, timeout, then: Box::new(then) });
        Ok(())
    }

    /// A reply has come; those to calls of the program's own are not waited for here.
    fn finish(&mut self, reply: Message) -> Result<()> {
        let serial = reply.header().reply_serial;
        match self.later.iter().position(|later| Some(later.serial) == serial) {
            Some(index) => {
                let later = self.later.swap_remove(index);
                (later.then)(self, outcome(reply))
            }
            None => Ok(()),
        }
    }

    /// Ends the calls whose time is over.
    fn finish_late(&mut self) -> Result<()> {
        while let Some(index) = self.later.iter().position(|later| has_passed(later.end_ns)) {
            let Later { serial, timeout, then, .. } = self.later.swap_remove(index);
            self.connection.drop_message(serial);
            then(self, Err(Error::timed_out(timeout)))?;
        }
        Ok(())
    }

    /// How long until the first of the calls ends.
    fn patience(&self) -> Option<Duration> {
        let first = self.later.iter().filter_map(|later| later.end_ns).min()?;
        // Zero would be no wait at all.
        Some(Duration::from_nanos(first.saturating_sub(clock::monotonic_ns()).max(1)))
    }
}

impl Connection {
    /// Answers calls, with what `handle` returns for each, until `stop` is set, which is looked at after each message.
    ///
    /// The handler has the connection as well: it emits signals, sets properties, calls others and goes on when their
    /// replies have come ([`Context::call_then`]), and answers later. While it runs, nothing else is served. Signals
    /// that come are discarded.
    ///
    /// Calls of `org.freedesktop.DBus.Peer`, `Introspect` of objects that were [described](Connection::describe), and
    /// the properties that have a
    /// [value](Connection::set_property) are answered here; of a program that has described no object, `Introspect` is
    /// answered where `handle` does not know it ([`Connection::reply_error`]).
    ///
    /// ```no_run
    /// use std::sync::atomic::AtomicBool;
    ///
    /// use causeway_bus::{Connection, Refusal, name, wire::Body};
    ///
    /// let mut bus = Connection::session()?;
    /// bus.serve(&AtomicBool::new(false), |bus, call| match call.header().member {
    ///     Some("Add") => {
    ///         let (one, other): (f64, f64) = call.args()?;
    ///         bus.emit("/", "com.example.Sums", "Added", Body::of(&(one + other))?)?;
    ///         Ok(Body::of(&(one + other))?)
    ///     }
    ///     _ => Err(Refusal::new(name::UNKNOWN_METHOD, "there is one method: Add")),
    /// })?;
    /// # Ok::<(), causeway_bus::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Connection::next`], and if an answer cannot be sent because the connection has ended.
    pub fn serve<A: Into<Answer>>(
        &mut self,
        stop: &AtomicBool,
        mut handle: impl FnMut(&mut Context<'_>, &Call) -> std::result::Result<A, Refusal>,
    ) -> Result<()> {
        let mut later = Vec::new();
        let mut context = Context { connection: self, later: &mut later };
        let served = context.serve(stop, |bus, call| handle(bus, call).map(Into::into));
        // Nobody goes on with what has not come.
        later.iter().for_each(|later| self.drop_message(later.serial));
        served
    }

    /// Answers a call that [`Connection::serve`] would answer without its handler; says whether it was one. For
    /// programs with a loop of their own.
    ///
    /// # Errors
    /// The answer cannot be sent: the connection has ended.
    pub fn answer_standard(&mut self, call: &Call) -> Result<bool> {
        match self.standard_answer(call) {
            Some(Ok(body)) => self.reply(call, body)?,
            Some(Err(refusal)) => self.answer(call, Err(refusal))?,
            None => return Ok(false),
        }
        Ok(true)
    }
}

impl Context<'_> {
    fn serve(
        &mut self,
        stop: &AtomicBool,
        mut handle: impl FnMut(&mut Context<'_>, &Call) -> std::result::Result<Answer, Refusal>,
    ) -> Result<()> {
        while !stop.load(Ordering::Relaxed) {
            let patience = self.patience();
            match self.next(patience)? {
                Some(Incoming::Call(call)) => self.answer(&call, &mut handle)?,
                Some(Incoming::Reply(reply)) => self.finish(reply)?,
                Some(Incoming::AuthorityGone) => return Err(Error::AuthorityGone),
                Some(Incoming::Signal(_)) => {}
                None => self.finish_late()?,
            }
        }
        Ok(())
    }

    fn answer(
        &mut self,
        call: &Call,
        handle: &mut impl FnMut(&mut Context<'_>, &Call) -> std::result::Result<Answer, Refusal>,
    ) -> Result<()> {
        if self.answer_standard(call)? {
            return Ok(());
        }
        match handle(self, call) {
            Ok(Answer::Now(payload)) => self.reply(call, payload),
            Ok(Answer::Later) => Ok(()),
            Err(refusal) => self.connection.answer(call, Err(refusal)),
        }
    }
}
