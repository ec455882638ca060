//! Calls.
//!
//! # Safety
//! See `handle` and `input`. A handler is called by threads of the library, several at once; C has promised that it and
//! what it is given may be used so, until `cw_server_free` returns.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc, reason = "the header has the rules for all pointers")]

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use causeway::call::{CallId, Client, Reply, Request, Responder, ServeOptions, Server};

use crate::error::{CW_CANCELLED, CW_NOT_FOUND, CW_OK, Failure};
use crate::group::access;
use crate::handle::{Handle, frees, give, makers, methods};
use crate::input::{Options, Out, SizedOut, descriptors, flags, options, path, slice, timeout};

/// Serves calls.
pub type cw_server = Handle<Serving>;
/// Replies to one call. `None` once it has.
pub type cw_responder = Handle<Option<Responder>>;
/// Calls a server.
pub type cw_client = Handle<Calling>;

const ANY_CLIENT: u32 = 1;
const DESCRIPTORS: u32 = 2;

/// See `causeway.h`, as all structures here.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct cw_serve_options {
    pub capacity_bytes: u64,
    pub flags: u32,
    pub reserved: u32,
    pub patience_ns: u64,
    pub clients: *const u32,
    pub client_count: u64,
}

// SAFETY: numbers, and a pointer that may be null.
unsafe impl Options for cw_serve_options {}

/// A request, or a reply.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct cw_request {
    pub data: *const c_void,
    pub bytes: u64,
    pub fds: *const c_int,
    pub fd_count: u64,
    pub pid: u32,
    pub uid: u32,
    pub gid: u32,
    pub reserved: u32,
}

/// What answers calls. An exception of C++ that leaves it ends the program.
pub type cw_handler = Option<unsafe extern "C-unwind" fn(*mut c_void, *const cw_request, *mut cw_responder)>;

/// What the caller of `cw_call_serve` has said of its handler.
#[derive(Clone, Copy)]
struct Handler {
    call: unsafe extern "C-unwind" fn(*mut c_void, *const cw_request, *mut cw_responder),
    user: *mut c_void,
}

// SAFETY: C has promised it, see the text of this file.
unsafe impl Send for Handler {}
// SAFETY: as above.
unsafe impl Sync for Handler {}

/// How many handlers run: what C gave them stays until they have ended.
#[derive(Debug, Default)]
struct Running {
    /// The number, and whether no further one may begin.
    state: Mutex<(usize, bool)>,
    ended: Condvar,
}

thread_local! {
    /// Is this a thread of a handler? It does not wait for itself.
    static IS_HANDLER: Cell<bool> = const { Cell::new(false) };
}

impl Running {
    fn begin(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 += usize::from(!state.1);
        !state.1
    }

    fn end(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).0 -= 1;
        self.ended.notify_all();
    }

    fn close(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.1 = true;
        while state.0 > 0 && !IS_HANDLER.get() {
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Handler {
    fn answer(self, request: Request<'_>) {
        let Request { bytes, descriptors, client, responder, .. } = request;
        let fds = raw(&descriptors);
        let asked = cw_request {
            data: bytes.as_ptr().cast(),
            bytes: bytes.len() as u64,
            fds: fds.as_ptr(),
            fd_count: fds.len() as u64,
            pid: client.pid,
            uid: client.uid,
            gid: client.gid,
            reserved: 0,
        };
        let mut handle = std::ptr::null_mut();
        // SAFETY: a place for a pointer. Without memory for a number of the process, the client is told that there is no reply.
        let given = unsafe { Out::new(&raw mut handle) }.and_then(|out| give(out, Some(responder)));
        if given.is_ok() {
            IS_HANDLER.set(true);
            let left = Left;
            // SAFETY: see the text of this file.
            unsafe { (self.call)(self.user, &raw const asked, handle) };
            std::mem::forget(left);
        }
    }
}

/// Is dropped only by what unwinds out of a handler: an exception, or the end of its thread. Nobody can tell what it has left behind.
struct Left;

impl Drop for Left {
    #[expect(clippy::print_stderr, reason = "nobody is left to return it to")]
    fn drop(&mut self) {
        eprintln!("libcauseway: an exception has left the handler of a call; catch it in the handler");
        std::process::abort()
    }
}

fn raw(fds: &[OwnedFd]) -> Vec<RawFd> {
    fds.iter().map(AsRawFd::as_raw_fd).collect()
}

/// A server, and its handlers.
#[derive(Debug)]
pub struct Serving {
    server: Option<Server>,
    running: Arc<Running>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.server = None;
        self.running.close();
    }
}

makers! {
    /// [`ServeOptions::serve`].
    fn cw_call_serve(
        at: *const c_char,
        given: *const cw_serve_options,
        options_bytes: usize,
        handler: cw_handler,
        user: *mut c_void,
        server: *mut *mut cw_server,
    ) {
        let (at, given, server) = (path(at)?, options(given, options_bytes)?, Out::new(server)?);
        let call = handler.ok_or_else(|| crate::input::null("the handler"))?;
        let is_set = flags(given.flags, ANY_CLIENT | DESCRIPTORS)?;
        let clients = access(is_set & ANY_CLIENT != 0, given.clients, given.client_count)?;
        let mut options = ServeOptions::new().clients(clients).descriptors(is_set & DESCRIPTORS != 0);
        if given.capacity_bytes != 0 {
            options = options.capacity_bytes(given.capacity_bytes);
        }
        if given.patience_ns != 0 {
            options = options.patience(Duration::from_nanos(given.patience_ns));
        }
        let running = Arc::<Running>::default();
        let (handler, counted) = (Handler { call, user }, Arc::clone(&running));
        let answer = move |request: Request<'_>| {
            if counted.begin() {
                handler.answer(request);
                counted.end();
            }
        };
        give(server, Serving { server: Some(options.serve(at, answer)?), running })
    }
}

methods! {
    /// [`Server::clients`].
    fn cw_server_clients(server: cw_server, clients: *mut usize) {
        Out::new(clients)?.write(server.server.as_ref().map_or(0, Server::clients));
        Ok(CW_OK)
    }
}

frees! {
    /// Ends it, and waits for the handlers that run.
    cw_server_free: cw_server;
}

methods! {
    /// [`Responder::reply_with_descriptors`]. After it, whatever it returns, there is nothing left to reply to.
    fn cw_reply(
        responder: cw_responder,
        data: *const c_void,
        bytes: usize,
        fds: *const c_int,
        fd_count: usize,
    ) {
        let (data, fds) = (slice(data.cast::<u8>(), bytes)?, descriptors(fds, fd_count)?);
        let Some(responder) = responder.take() else { return Ok(CW_CANCELLED) };
        responder.reply_with_descriptors(data, &fds)?;
        Ok(CW_OK)
    }

    /// [`Responder::is_cancelled`].
    fn cw_responder_is_cancelled(responder: cw_responder, is_cancelled: *mut u32) {
        Out::new(is_cancelled)?.write(responder.as_ref().is_none_or(Responder::is_cancelled).into());
        Ok(CW_OK)
    }
}

frees! {
    /// Ends it; the client of a call without a reply is told that there is none.
    cw_responder_free: cw_responder;
}

/// A client, and the descriptors of its last reply.
#[derive(Debug)]
pub struct Calling {
    client: Client,
    descriptors: Vec<OwnedFd>,
    raw: Vec<RawFd>,
}

impl Calling {
    fn wait(&mut self, call: CallId, out: SizedOut<cw_request>) -> Result<c_int, Failure> {
        let Reply { bytes, descriptors, .. } = self.client.wait(call)?;
        if !(descriptors.is_empty() && self.raw.is_empty()) {
            self.raw = raw(&descriptors);
            self.descriptors = descriptors;
        }
        out.write(cw_request {
            data: bytes.as_ptr().cast(),
            bytes: bytes.len() as u64,
            fds: self.raw.as_ptr(),
            fd_count: self.raw.len() as u64,
            pid: 0,
            uid: 0,
            gid: 0,
            reserved: 0,
        });
        Ok(CW_OK)
    }
}

makers! {
    /// [`Client::connect`].
    fn cw_client_connect(at: *const c_char, client: *mut *mut cw_client) {
        let (at, out) = (path(at)?, Out::new(client)?);
        give(out, Calling { client: Client::connect(at)?, descriptors: Vec::new(), raw: Vec::new() })
    }
}

methods! {
    /// [`Client::spin_at_most`].
    fn cw_client_spin_at_most(calling: cw_client, longest_ns: u64) {
        calling.client.spin_at_most(Duration::from_nanos(longest_ns));
        Ok(CW_OK)
    }

    /// [`Client::call`].
    fn cw_client_call(
        calling: cw_client,
        data: *const c_void,
        bytes: usize,
        timeout_ns: i64,
        reply: *mut cw_request,
        reply_bytes: usize,
    ) {
        let (data, out) = (slice(data.cast::<u8>(), bytes)?, SizedOut::new(reply, reply_bytes)?);
        let call = calling.client.begin(data, timeout(timeout_ns))?;
        calling.wait(call, out)
    }

    /// [`Client::begin_with_descriptors`].
    fn cw_client_begin(
        calling: cw_client,
        data: *const c_void,
        bytes: usize,
        fds: *const c_int,
        fd_count: usize,
        timeout_ns: i64,
        call: *mut u64,
    ) {
        let (data, fds) = (slice(data.cast::<u8>(), bytes)?, descriptors(fds, fd_count)?);
        let out = Out::new(call)?;
        let call = calling.client.begin_with_descriptors(data, &fds, timeout(timeout_ns))?;
        out.write(call.number());
        Ok(CW_OK)
    }

    /// [`Client::wait`].
    fn cw_client_wait(calling: cw_client, call: u64, reply: *mut cw_request, reply_bytes: usize) {
        calling.wait(CallId::from_number(call), SizedOut::new(reply, reply_bytes)?)
    }

    /// [`Client::poll`].
    fn cw_client_poll(calling: cw_client, calls: *mut u64, capacity: usize, count: *mut usize) {
        let count = Out::new(count)?;
        if capacity > 0 {
            Out::new(calls)?;
        }
        let over = calling.client.poll()?;
        for (index, call) in over.iter().take(capacity).enumerate() {
            calls.add(index).write(call.number());
        }
        count.write(over.len());
        Ok(CW_OK)
    }

    /// [`Client::cancel`].
    fn cw_client_cancel(calling: cw_client, call: u64) {
        let was_there = calling.client.cancel(CallId::from_number(call));
        Ok(if was_there { CW_OK } else { CW_NOT_FOUND })
    }
}

frees! {
    /// Ends it.
    cw_client_free: cw_client;
}
