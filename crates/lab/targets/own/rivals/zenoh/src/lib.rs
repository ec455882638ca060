//! Zenoh as mechanisms of Weighbridge: a shared object that exports what `weighbridge-target.h` says, in Rust.
//!
//! Each end is a peer with a session, a publisher and a subscriber, whose messages come through the default channel. The ends are connected
//! by a Unix socket and look for nobody else: scouting is off. All else is as Zenoh has it by default, but that a sender waits where
//! a queue is full (`CongestionControl::Block`), because a mechanism that loses messages is another mechanism. `zenoh-shm` allocates
//! messages in shared memory, of which the socket carries descriptions; `zenoh` has shared memory off.
//!
//! # Safety
//! Weighbridge calls each function as the header says: with an end that `attach` has made, from one thread, and with places that may be
//! written. What is lent lies in a message of the end until it is committed, and what was taken until it is released.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, IntoRawFd};
use std::os::unix::net::UnixStream;
use std::ptr;
use std::sync::Mutex;

use zenoh::bytes::ZBytes;
use zenoh::handlers::FifoChannelHandler;
use zenoh::pubsub::{Publisher, Subscriber};
use zenoh::qos::CongestionControl;
use zenoh::sample::Sample;
use zenoh::shm::{
    BlockOn, GarbageCollect, PosixShmProviderBackend, ShmProvider, ShmProviderBuilder, ZShmMut,
};
use zenoh::{Config, Session, Wait};

/// What an end goes wrong with, in words.
type Fallible<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const FDS_MAX: usize = 128;
const BYTES_MAX: usize = 1024;
const VERSION: u32 = 2;
const DUPLEX: u32 = 1 << 0;
const ZERO_COPY: u32 = 1 << 4;
const MAPS: u32 = 1 << 6;
const THREADS: u32 = 1 << 8;
/// An error of Zenoh; of which, `error_text` says.
const OWN: c_int = 1000;
const EPIPE: c_int = 32;

/// `struct weighbridge_case`.
#[repr(C)]
pub struct Case {
    struct_bytes: u32,
    end_count: u32,
    name: *const c_char,
    payload_bytes: usize,
    wait: *const c_char,
    pattern: *const c_char,
    folder: *const c_char,
    prefix: *const c_char,
}

/// `struct weighbridge_resources`.
#[repr(C)]
pub struct Resources {
    fd_count: u32,
    fds: [c_int; FDS_MAX],
    byte_count: u32,
    bytes: [u8; BYTES_MAX],
}

/// `struct weighbridge_target`.
#[repr(C)]
pub struct Target {
    version: u32,
    struct_bytes: u32,
    name: *const c_char,
    about: *const c_char,
    measured_version: *const c_char,
    capabilities: u32,
    waits: *const c_char,
    to_itself_bytes: usize,
    create: Option<unsafe extern "C" fn(*const Case, *mut Resources) -> c_int>,
    attach: Option<unsafe extern "C" fn(*const Case, u32, *mut Resources, *mut *mut End) -> c_int>,
    loan: Option<unsafe extern "C" fn(*mut End, usize, *mut *mut u8, *mut usize) -> c_int>,
    commit: Option<unsafe extern "C" fn(*mut End, *mut u8, usize) -> c_int>,
    take: Option<unsafe extern "C" fn(*mut End, usize, *mut *const u8, *mut usize) -> c_int>,
    release: Option<unsafe extern "C" fn(*mut End, *const u8) -> c_int>,
    prefault: Option<unsafe extern "C" fn(*mut End) -> c_int>,
    settle: Option<unsafe extern "C" fn(*mut End) -> c_int>,
    close: Option<unsafe extern "C" fn(*mut End)>,
    position: Option<unsafe extern "C" fn(*mut End) -> u64>,
    facts: Option<unsafe extern "C" fn(*mut End, *const c_void, *mut c_void) -> c_int>,
    error_text: Option<unsafe extern "C" fn(c_int) -> *const c_char>,
}

// SAFETY: nothing of the table is ever written, and its strings are constants.
unsafe impl Sync for Target {}

const fn entry(name: &'static CStr, about: &'static CStr, more: u32) -> Target {
    Target {
        version: VERSION,
        struct_bytes: size_of::<Target>() as u32,
        name: name.as_ptr(),
        about: about.as_ptr(),
        measured_version: c"zenoh 1.10.2".as_ptr(),
        capabilities: DUPLEX | MAPS | THREADS | more,
        waits: c"block".as_ptr(),
        to_itself_bytes: 0,
        create: Some(create),
        attach: Some(attach),
        loan: Some(loan),
        commit: Some(commit),
        take: Some(take),
        release: Some(release),
        prefault: None,
        settle: Some(settle),
        close: Some(close),
        position: None,
        facts: None,
        error_text: Some(error_text),
    }
}

#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name is that of the header")]
pub static weighbridge_targets: [Target; 3] = [
    entry(
        c"zenoh",
        c"Zenoh: peers with a publisher and a subscriber each, over a Unix socket; shared memory off",
        0,
    ),
    entry(
        c"zenoh-shm",
        c"Zenoh: the same with messages in shared memory, described over a Unix socket",
        ZERO_COPY,
    ),
    Target { version: 0, struct_bytes: 0, name: ptr::null(), create: None, ..entry(c"", c"", 0) },
];

pub struct End {
    publisher: Publisher<'static>,
    subscriber: Subscriber<FifoChannelHandler<Sample>>,
    session: Session,
    provider: Option<ShmProvider<PosixShmProviderBackend>>,
    meeting: UnixStream,
    out: Out,
    taken: Option<Taken>,
}

/// Where the next message is written.
enum Out {
    Nothing,
    Heap(Vec<u8>),
    Shared(ZShmMut),
}

struct Taken {
    payload: ZBytes,
    /// Of a message that came in pieces: all of them, one after the other.
    whole: Option<Vec<u8>>,
}

static LAST_ERROR: Mutex<Option<CString>> = Mutex::new(None);

fn said<T>(result: Fallible<T>, write: impl FnOnce(T)) -> c_int {
    match result {
        Ok(value) => {
            write(value);
            0
        }
        Err(error) => {
            let is_end = error.downcast_ref::<std::io::Error>().is_some_and(is_gone);
            *LAST_ERROR.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) =
                CString::new(error.to_string()).ok();
            if is_end { EPIPE } else { OWN }
        }
    }
}

fn is_gone(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

/// The text stays: a message of an error that ends a run.
unsafe extern "C" fn error_text(error: c_int) -> *const c_char {
    let text = LAST_ERROR.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
    text.filter(|_| error == OWN).map_or(ptr::null(), |text| text.into_raw().cast_const())
}

/// A socket between the ends, which they meet on when nothing is timed.
unsafe extern "C" fn create(_of: *const Case, ends: *mut Resources) -> c_int {
    said(UnixStream::pair().map_err(Into::into), |(near, far)| {
        for (number, socket) in [near, far].into_iter().enumerate() {
            // SAFETY: there are two ends.
            let end = unsafe { &mut *ends.add(number) };
            (end.fd_count, end.fds[0]) = (1, socket.into_raw_fd());
        }
    })
}

fn meet(mut meeting: &UnixStream) -> Fallible<()> {
    meeting.write_all(&[0])?;
    meeting.read_exact(&mut [0])?;
    Ok(())
}

unsafe fn text<'a>(text: *const c_char) -> Fallible<&'a str> {
    // SAFETY: a string of the case, which ends with a zero and stays.
    Ok(unsafe { CStr::from_ptr(text) }.to_str()?)
}

unsafe extern "C" fn attach(of: *const Case, side: u32, from: *mut Resources, made: *mut *mut End) -> c_int {
    // SAFETY: a case, and resources whose descriptor belongs to this end.
    let (case, meeting) = unsafe { (&*of, UnixStream::from_raw_fd((*from).fds[0])) };
    // SAFETY: a place that may be written.
    said(attached(case, side, meeting), |end| unsafe { *made = Box::into_raw(Box::new(end)) })
}

fn attached(case: &Case, side: u32, meeting: UnixStream) -> Fallible<End> {
    // SAFETY: the strings of a case.
    let (name, folder) = unsafe { (text(case.name)?, text(case.folder)?) };
    let is_shared = name == "zenoh-shm";
    let mut config = Config::default();
    let mut set = |key: &str, value: String| config.insert_json5(key, &value);
    set("mode", r#""peer""#.into())?;
    set("scouting/multicast/enabled", "false".into())?;
    set("scouting/gossip/enabled", "false".into())?;
    set("transport/shared_memory/enabled", is_shared.to_string())?;
    let endpoint = format!(r#"["unixsock-stream/{folder}/end"]"#);
    let (listens, connects) = if side == 0 { (endpoint, "[]".into()) } else { ("[]".into(), endpoint) };
    set("listen/endpoints", listens)?;
    set("connect/endpoints", connects)?;
    if side == 1 {
        meet(&meeting)?;
    }
    let session = zenoh::open(config).wait()?;
    if side == 0 {
        meet(&meeting)?;
    }
    let key = |side: u32| format!("weighbridge/{side}");
    let subscriber = session.declare_subscriber(key(1 - side)).wait()?;
    let publisher =
        session.declare_publisher(key(side)).congestion_control(CongestionControl::Block).wait()?;
    let matching = publisher.matching_listener().wait()?;
    while !publisher.matching_status().wait()?.matching() {
        matching.recv()?;
    }
    drop(matching);
    meet(&meeting)?;
    // As many messages as our rings hold: what fits 256 KiB, at least 2 and at most 64; and those that are written and read.
    let messages = (256 << 10) / (case.payload_bytes + 128);
    let bytes = (messages.clamp(2, 64) + 6) * (case.payload_bytes + 4096);
    let provider = is_shared.then(|| ShmProviderBuilder::default_backend(bytes).wait()).transpose()?;
    Ok(End { publisher, subscriber, session, provider, meeting, out: Out::Nothing, taken: None })
}

unsafe extern "C" fn loan(end: *mut End, bytes: usize, data: *mut *mut u8, room: *mut usize) -> c_int {
    // SAFETY: an end that `attach` has made, and nobody else uses now.
    let end = unsafe { &mut *end };
    // SAFETY: places that may be written.
    said(lent(end, bytes), |place| unsafe { (*data, *room) = (place, bytes) })
}

fn lent(end: &mut End, bytes: usize) -> Fallible<*mut u8> {
    end.out = match &end.provider {
        // There is no shared memory of nothing.
        Some(provider) if bytes > 0 => {
            Out::Shared(provider.alloc(bytes).with_policy::<BlockOn<GarbageCollect>>().wait()?)
        }
        _ => Out::Heap(Vec::with_capacity(bytes)),
    };
    Ok(match &mut end.out {
        Out::Shared(message) => message.as_mut_ptr(),
        Out::Heap(message) => message.as_mut_ptr(),
        Out::Nothing => ptr::null_mut(),
    })
}

unsafe extern "C" fn commit(end: *mut End, _data: *mut u8, bytes: usize) -> c_int {
    // SAFETY: as above.
    let end = unsafe { &mut *end };
    let message: ZBytes = match std::mem::replace(&mut end.out, Out::Nothing) {
        Out::Nothing => ZBytes::new(),
        Out::Shared(message) => message.into(),
        Out::Heap(mut message) => {
            // SAFETY: so many bytes were lent, and the sender has written them.
            unsafe { message.set_len(bytes) };
            message.into()
        }
    };
    said(end.publisher.put(message).wait(), |()| ())
}

unsafe extern "C" fn take(end: *mut End, _expected: usize, data: *mut *const u8, bytes: *mut usize) -> c_int {
    // SAFETY: as above.
    let end = unsafe { &mut *end };
    said(end.subscriber.recv(), |sample| {
        let payload = sample.payload().clone();
        let whole = (payload.slices().count() > 1).then(|| payload.to_bytes().into_owned());
        let taken = end.taken.insert(Taken { payload, whole });
        let message = match &taken.whole {
            Some(whole) => whole,
            None => taken.payload.slices().next().unwrap_or(&[]),
        };
        // SAFETY: places that may be written. The message lies in what this end keeps until it is released.
        unsafe { (*data, *bytes) = (message.as_ptr(), message.len()) };
    })
}

unsafe extern "C" fn release(end: *mut End, _data: *const u8) -> c_int {
    // SAFETY: as above.
    unsafe { (*end).taken = None };
    0
}

unsafe extern "C" fn settle(end: *mut End) -> c_int {
    // SAFETY: as above.
    match said(meet(unsafe { &(*end).meeting }), |()| ()) {
        // An end that is gone needs nothing.
        EPIPE => 0,
        result => result,
    }
}

unsafe extern "C" fn close(end: *mut End) {
    // SAFETY: an end that `attach` has made, and nobody uses any more.
    let end = unsafe { Box::from_raw(end) };
    // The process ends next, whatever this says.
    let _ = end.session.close().wait();
}
