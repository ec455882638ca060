//! A member of a bus.
//!
//! # Safety
//! See `handle` and `input`.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc, reason = "the header has the rules for all pointers")]

use std::ffi::{CString, c_char, c_int};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use causeway_bus::wire::Builder;
use causeway_bus::{Connection, ConnectionOptions, Incoming};
use rustix::time::{ClockId, clock_gettime};

use crate::bus_body::{cwb_body, payload};
use crate::bus_message::{Read, cwb_message};
use crate::error::{
    CW_EMPTY, CW_NOT_FOUND, CW_OK, CW_TIMED_OUT, CWB_AUTHORITY_GONE, Done, Failure, c_string,
};
use crate::handle::{Handle, frees, give, makers, methods, with};
use crate::input::{Options, Out, flags, offer, options, path, text, timeout};

/// A connection.
pub type cwb_bus = Handle<Member>;

const NO_AUTO_START: u32 = 1;
const NEVER_POLL: u32 = 2;
const POLLIN: c_int = 1;

/// See `causeway-bus.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct cwb_options {
    pub outbox_bytes: u64,
    pub call_timeout_ns: u64,
    pub laggard_deadline_ns: u64,
    pub spin_ns: u64,
    pub inbox_bytes: u64,
    pub pending_calls: u64,
    pub flags: u32,
    pub reserved: u32,
}

// SAFETY: numbers.
unsafe impl Options for cwb_options {}

/// A connection, and when its calls end whose replies come as messages.
#[derive(Debug)]
pub struct Member {
    connection: Connection,
    unique_name: CString,
    /// What was handed out last.
    owner: CString,
    calls: Vec<(u32, u64)>,
}

/// What one look at the connection brought.
enum Came {
    Message(Read, u32),
    TimedOut(u32),
    AuthorityGone,
    Nothing,
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Member {
    /// What comes within this time, the end of a call among it.
    fn next(&mut self, timeout: Option<Duration>) -> Result<Came, Failure> {
        let deadline = timeout.map(|timeout| now_ns().saturating_add(timeout.as_nanos() as u64));
        loop {
            let first = self.calls.iter().min_by_key(|(_, end_ns)| *end_ns).copied();
            if let Some((serial, end_ns)) = first
                && end_ns <= now_ns()
            {
                self.calls.retain(|(of, _)| *of != serial);
                self.connection.forget_call(serial);
                return Ok(Came::TimedOut(serial));
            }
            let until = first.map(|(_, end_ns)| end_ns).into_iter().chain(deadline).min();
            let wait = until.map(|until| Duration::from_nanos(until.saturating_sub(now_ns())));
            let message = match self.connection.next(wait)? {
                Some(Incoming::Call(call)) => Read::new((*call).clone(), Some(call)),
                Some(Incoming::Signal(signal)) => Read::new(signal, None),
                Some(Incoming::Reply(reply)) => {
                    let serial = reply.header().reply_serial.unwrap_or(0);
                    let before = self.calls.len();
                    self.calls.retain(|(of, _)| *of != serial);
                    if self.calls.len() == before {
                        continue; // it came as its time was over
                    }
                    return Ok(Came::Message(Read::new(reply, None), serial));
                }
                Some(Incoming::AuthorityGone) => return Ok(Came::AuthorityGone),
                Some(_) => continue,
                None if deadline.is_some_and(|deadline| deadline <= now_ns()) => return Ok(Came::Nothing),
                None => continue,
            };
            return Ok(Came::Message(message, 0));
        }
    }
}

unsafe fn came(came: Came, message: Out<*mut cwb_message>, serial: *mut u32, nothing: c_int) -> Done {
    let (of, done) = match came {
        Came::Nothing => return Ok(nothing),
        Came::AuthorityGone => return Ok(CWB_AUTHORITY_GONE),
        Came::TimedOut(of) => (of, CW_TIMED_OUT),
        Came::Message(read, of) => (of, give(message, read)?),
    };
    // SAFETY: null, or the caller's place.
    unsafe { offer(serial, of) };
    Ok(done)
}

makers! {
    /// [`Connection::open_with`]; without a path the bus of the session.
    fn cwb_open(at: *const c_char, given: *const cwb_options, options_bytes: usize, bus: *mut *mut cwb_bus) {
        let (given, bus) = (options(given, options_bytes)?, Out::new(bus)?);
        let is_set = flags(given.flags, NO_AUTO_START | NEVER_POLL)?;
        let mut settings = ConnectionOptions::default();
        let time = |ns: u64| (ns != 0).then(|| Duration::from_nanos(ns));
        settings.laggard_deadline = time(given.laggard_deadline_ns);
        settings.call_timeout = time(given.call_timeout_ns).unwrap_or(settings.call_timeout);
        settings.spin = time(given.spin_ns).unwrap_or(settings.spin);
        if is_set & NEVER_POLL != 0 {
            settings.spin = Duration::ZERO;
        }
        if given.outbox_bytes != 0 {
            settings.outbox_bytes = given.outbox_bytes;
        }
        if given.inbox_bytes != 0 {
            settings.inbox_bytes = given.inbox_bytes as usize;
        }
        if given.pending_calls != 0 {
            settings.pending_calls = given.pending_calls as usize;
        }
        settings.auto_start = is_set & NO_AUTO_START == 0;
        let connection = match at.is_null() {
            false => Connection::open_with(path(at)?, settings)?,
            true => match causeway_bus::session_socket()? {
                Some(at) => Connection::open_with(at, settings)?,
                // It fails, and says what is missing.
                None => Connection::session()?,
            },
        };
        let unique_name = c_string(connection.unique_name());
        give(bus, Member { connection, unique_name, owner: CString::default(), calls: Vec::new() })
    }
}

/// Whom a call is for, and what is called there.
unsafe fn callee<'a>(
    destination: *const c_char,
    object: *const c_char,
    interface: *const c_char,
    member: *const c_char,
) -> Result<[&'a str; 4], Failure> {
    // SAFETY: see the text of this file.
    unsafe {
        let [destination, object] = [text(destination, "the destination")?, text(object, "the path")?];
        Ok([destination, object, text(interface, "the interface")?, text(member, "the member")?])
    }
}

methods! {
    /// [`Connection::unique_name`].
    fn cwb_unique_name(bus: cwb_bus, name: *mut *const c_char) {
        Out::new(name)?.write(bus.unique_name.as_ptr());
        Ok(CW_OK)
    }

    /// [`Connection::request_name`].
    fn cwb_request_name(bus: cwb_bus, name: *const c_char, how: u32, reply: *mut u32) {
        let given = bus.connection.request_name(text(name, "the name")?, flags(how, 7)?)? as u32;
        offer(reply, given);
        Ok(CW_OK)
    }

    /// [`Connection::release_name`].
    fn cwb_release_name(bus: cwb_bus, name: *const c_char, reply: *mut u32) {
        let given = bus.connection.release_name(text(name, "the name")?)? as u32;
        offer(reply, given);
        Ok(CW_OK)
    }

    /// [`Connection::name_owner`].
    fn cwb_name_owner(bus: cwb_bus, name: *const c_char, owner: *mut *const c_char) {
        let owner = Out::new(owner)?;
        let Some(name) = bus.connection.name_owner(text(name, "the name")?) else {
            return Ok(CW_NOT_FOUND);
        };
        bus.owner = c_string(&name);
        owner.write(bus.owner.as_ptr());
        Ok(CW_OK)
    }

    /// [`Connection::call`].
    fn cwb_call(
        bus: cwb_bus,
        destination: *const c_char,
        object: *const c_char,
        interface: *const c_char,
        member: *const c_char,
        body: *mut cwb_body,
        reply: *mut *mut cwb_message,
    ) {
        let reply = Out::new(reply)?;
        let [destination, object, interface, member] = callee(destination, object, interface, member)?;
        let came = bus.connection.call(destination, object, interface, member, payload(body)?)?;
        give(reply, Read::new(came, None))
    }

    /// [`Connection::call_without_reply`].
    fn cwb_call_no_reply(
        bus: cwb_bus,
        destination: *const c_char,
        object: *const c_char,
        interface: *const c_char,
        member: *const c_char,
        body: *mut cwb_body,
    ) {
        let [destination, object, interface, member] = callee(destination, object, interface, member)?;
        bus.connection.call_without_reply(destination, object, interface, member, payload(body)?)?;
        Ok(CW_OK)
    }

    /// [`Connection::send_message_with_descriptors`]: the reply comes as a message, or the end of the time does.
    fn cwb_call_async(
        bus: cwb_bus,
        destination: *const c_char,
        object: *const c_char,
        interface: *const c_char,
        member: *const c_char,
        body: *mut cwb_body,
        timeout_ns: i64,
        serial: *mut u32,
    ) {
        let out = Out::new(serial)?;
        let [destination, object, interface, member] = callee(destination, object, interface, member)?;
        let call = Builder::call(object, member).destination(destination).interface(interface);
        let (body, descriptors) = payload(body)?.into_parts();
        let serial = bus.connection.send_message_with_descriptors(&call.body(body), descriptors)?;
        let end_ns =
            timeout(timeout_ns).map_or(u64::MAX, |time| now_ns().saturating_add(time.as_nanos() as u64));
        bus.calls.push((serial, end_ns));
        out.write(serial);
        Ok(CW_OK)
    }

    /// [`Connection::forget_call`].
    fn cwb_cancel(bus: cwb_bus, serial: u32) {
        let Some(index) = bus.calls.iter().position(|(of, _)| *of == serial) else {
            return Ok(CW_NOT_FOUND);
        };
        bus.calls.swap_remove(index);
        bus.connection.forget_call(serial);
        Ok(CW_OK)
    }

    /// [`Connection::emit`].
    fn cwb_emit(
        bus: cwb_bus,
        object: *const c_char,
        interface: *const c_char,
        member: *const c_char,
        body: *mut cwb_body,
    ) {
        let [object, interface] = [text(object, "the path")?, text(interface, "the interface")?];
        bus.connection.emit(object, interface, text(member, "the member")?, payload(body)?)?;
        Ok(CW_OK)
    }

    /// [`Connection::add_match`].
    fn cwb_add_match(bus: cwb_bus, rule: *const c_char) {
        bus.connection.add_match(text(rule, "the rule")?)?;
        Ok(CW_OK)
    }

    /// [`Connection::remove_match`].
    fn cwb_remove_match(bus: cwb_bus, rule: *const c_char) {
        bus.connection.remove_match(text(rule, "the rule")?)?;
        Ok(CW_OK)
    }

    /// [`Connection::reply`].
    fn cwb_reply(bus: cwb_bus, call: *mut cwb_message, body: *mut cwb_body) {
        let call = with(call, |call| call.call())?;
        bus.connection.reply(&call, payload(body)?)?;
        Ok(CW_OK)
    }

    /// [`Connection::reply_error`].
    fn cwb_reply_error(bus: cwb_bus, call: *mut cwb_message, name: *const c_char, what: *const c_char) {
        let call = with(call, |call| call.call())?;
        bus.connection.reply_error(
            &call,
            text(name, "the name of the error")?,
            text(what, "the text")?,
        )?;
        Ok(CW_OK)
    }

    /// [`Connection::describe`].
    fn cwb_describe(bus: cwb_bus, object: *const c_char, interfaces: *const c_char) {
        bus.connection.describe(text(object, "the path")?, text(interfaces, "the description")?)?;
        Ok(CW_OK)
    }

    /// [`Connection::answer_standard`].
    fn cwb_answer_standard(bus: cwb_bus, call: *mut cwb_message) {
        let call = with(call, |call| call.call())?;
        Ok(if bus.connection.answer_standard(&call)? { CW_OK } else { CW_NOT_FOUND })
    }

    /// [`Connection::next`].
    fn cwb_next(bus: cwb_bus, timeout_ns: i64, message: *mut *mut cwb_message, serial: *mut u32) {
        let message = Out::new(message)?;
        came(bus.next(timeout(timeout_ns))?, message, serial, CW_EMPTY)
    }

    /// [`Connection::next_now`].
    fn cwb_process(bus: cwb_bus, message: *mut *mut cwb_message, serial: *mut u32) {
        let message = Out::new(message)?;
        came(bus.next(Some(Duration::ZERO))?, message, serial, CW_EMPTY)
    }

    /// The descriptor for an event loop.
    fn cwb_get_fd(bus: cwb_bus, fd: *mut c_int) {
        let fd = Out::new(fd)?;
        bus.connection.use_descriptor()?;
        fd.write(bus.connection.as_fd().as_raw_fd());
        Ok(CW_OK)
    }

    /// What to wait for at the descriptor.
    fn cwb_get_events(_bus: cwb_bus, events: *mut c_int) {
        Out::new(events)?.write(POLLIN);
        Ok(CW_OK)
    }

    /// Until when to wait: [`Connection::prepare_to_wait`], and the first end of a call.
    fn cwb_get_timeout(bus: cwb_bus, timeout_usec: *mut u64) {
        let out = Out::new(timeout_usec)?;
        bus.connection.use_descriptor()?;
        out.write(match bus.connection.prepare_to_wait() {
            false => 0,
            // Rounded up: a loop that wakes too early finds nothing, and spins.
            true => match bus.calls.iter().map(|(_, end_ns)| *end_ns).min() {
                None | Some(u64::MAX) => u64::MAX,
                Some(end_ns) => end_ns.div_ceil(1000),
            },
        });
        Ok(CW_OK)
    }
}

frees! {
    /// Ends it.
    cwb_free: cwb_bus;
}
