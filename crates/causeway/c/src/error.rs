//! What functions return, and details of what failed.
//!
//! # Safety
//! The accessors rely on their caller for a pointer that `cw_*` has returned and that was not freed.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int};

use causeway::call::{CallError, ReplyError};
use causeway::{Error, PublishTimeoutError, RecvTimeoutError, TryPublishError, TryRecvError};
use causeway_bus::Error as BusError;

/// The code that a function returns, or why it has none.
pub type Done = Result<c_int, Failure>;

/// Done as asked.
pub const CW_OK: c_int = 0;

macro_rules! codes {
    ($($name:ident = $number:literal: $meaning:literal;)*) => {
        $(#[doc = $meaning] pub const $name: c_int = $number;)*
        /// All codes but [`CW_OK`] with their numbers: what the headers must say, too.
        pub const CODES: &[(&str, c_int)] = &[$((stringify!($name), $number),)*];
    };
}

codes! {
    CW_MAY_SLEEP = 1: "Nothing is there: wait for the descriptor.";
    CW_EMPTY = 2: "There is no message yet.";
    CW_FULL = 3: "The log is full.";
    CW_TIMED_OUT = 4: "The time is over.";
    CW_LOST = 5: "Messages were lost before the next one.";
    CW_DEMOTED = 6: "Publishers no longer wait for this subscriber.";
    CW_ENDED = 7: "The group has ended: everything was received.";
    CW_OVERWRITTEN = 8: "What was read does not count: it was overwritten meanwhile.";
    CW_CANCELLED = 9: "The call was cancelled, never begun, or its reply was taken.";
    CW_NO_REPLY = 10: "The server ended the call without a reply.";
    CW_CLIENT_GONE = 11: "The client of a call is gone, or does not read its replies.";
    CW_NOT_FOUND = 12: "There is no such thing.";
    CWB_AUTHORITY_GONE = 13: "The process that serves the bus is gone; members go on.";
    CW_E_PANIC = -4097: "The library has a defect; the handle is unusable from now on.";
    CW_E_POISONED = -4098: "An earlier call on this handle returned `CW_E_PANIC`.";
    CW_E_FORKED = -4099: "The handle belongs to the process that made it, and this is a child of that.";
    CW_E_BUSY = -4100: "Another thread uses this handle at this moment.";
    CW_E_NULL = -4101: "A pointer is null that must not be.";
    CW_E_RANGE = -4102: "A number, a flag or a text is none that is possible here.";
    CW_E_STATE = -4103: "Not now: a loan or a view is open, or none is.";
    CW_E_OS = -4104: "The kernel refused a call: `cw_error_errno`.";
    CW_E_KERNEL = -4105: "This kernel lacks what the library needs.";
    CW_E_INVALID = -4106: "A descriptor, a message or an argument is not what it should be.";
    CW_E_REFUSED = -4107: "The server refused: `cw_error_remedy` says what helps.";
    CW_E_SERVER_GONE = -4108: "The process that serves is gone.";
    CW_E_TOO_LONG = -4109: "A message is longer than is possible.";
    CW_E_EVICTED = -4110: "This publisher was evicted.";
    CW_E_MISSED_DEADLINE = -4111: "This subscriber missed its deadline and is disconnected.";
    CW_E_CORRUPT = -4112: "Shared memory holds what no correct process writes.";
    CW_E_NO_ANSWER = -4113: "The server does not answer in time.";
    CW_E_WRONG_SIZE = -4114: "A message is not as long as its type.";
    CW_E_TOO_MANY_REFERENCES = -4115: "This subscriber holds as many payloads as it may.";
    CW_E_NOT_SEALED = -4116: "This payload can change: copy it.";
    CW_E_REPLIES_NOT_READ = -4117: "The server ended the connection, because its replies were not read.";
    CW_E_UNKNOWN = -4118: "A failure that this version has no number for.";
    CWB_E_METHOD = -4119: "The answer is a D-Bus error: `cw_error_name`.";
    CWB_E_ARGUMENTS = -4120: "The arguments have other types.";
    CWB_E_DISCONNECTED = -4121: "The bus ended this connection.";
    CWB_E_AUTHORITY_GONE = -4122: "The process that serves the bus is gone, and what was asked needs it.";
}

/// Why a function did not what it was asked. Positive codes are outcomes, and have no details. It is small, so that what
/// may fail and does not costs little.
#[derive(Debug)]
pub struct Failure {
    /// The code.
    pub code: c_int,
    details: Option<Box<Details>>,
}

#[derive(Debug)]
struct Details {
    text: String,
    errno: c_int,
    name: Option<String>,
}

impl Failure {
    /// A failure with a sentence: what happened, a semicolon, and what to do.
    #[cold]
    pub fn new(code: c_int, text: impl ToString) -> Failure {
        Failure::with(code, text, 0, None)
    }

    #[cold]
    fn with(code: c_int, text: impl ToString, errno: c_int, name: Option<String>) -> Failure {
        Failure { code, details: Some(Box::new(Details { text: text.to_string(), errno, name })) }
    }

    /// An outcome.
    pub fn outcome(code: c_int) -> Failure {
        Failure { code, details: None }
    }

    fn os(text: impl ToString, errno: Option<i32>) -> Failure {
        Failure::with(CW_E_OS, text, errno.unwrap_or(0), None)
    }

    /// The code, with the details where the caller wants them.
    ///
    /// # Safety
    /// `error` is null, or may be written to.
    #[cold]
    pub unsafe fn report(self, error: *mut *mut cw_error) -> c_int {
        if let Some(details) = self.details
            && !error.is_null()
        {
            let Details { text, errno, name } = *details;
            let (text, remedy) = text.split_once("; ").unwrap_or((&text, ""));
            let told = cw_error {
                code: self.code,
                errno,
                text: c_string(text),
                remedy: (!remedy.is_empty()).then(|| c_string(remedy)),
                name: name.as_deref().map(c_string),
            };
            // SAFETY: the caller's promise.
            unsafe { error.write(Box::into_raw(Box::new(told))) };
        }
        self.code
    }
}

/// Text for C, to the first zero byte.
pub fn c_string(text: &str) -> CString {
    CString::new(text.split('\0').next().unwrap_or_default()).unwrap_or_default()
}

impl From<rustix::io::Errno> for Failure {
    fn from(errno: rustix::io::Errno) -> Failure {
        Failure::os(errno, Some(errno.raw_os_error()))
    }
}

impl From<Error> for Failure {
    #[cold]
    fn from(error: Error) -> Failure {
        let code = match &error {
            Error::Os(os) => return Failure::os(&error, os.raw_os_error()),
            Error::Disconnected => return Failure::outcome(CW_ENDED),
            Error::Overwritten => return Failure::outcome(CW_OVERWRITTEN),
            Error::Kernel(_) => CW_E_KERNEL,
            Error::Invalid { .. } => CW_E_INVALID,
            Error::Refused(_) | Error::OtherFormat(_) => CW_E_REFUSED,
            Error::ServerGone => CW_E_SERVER_GONE,
            Error::TooLong { .. } => CW_E_TOO_LONG,
            Error::Evicted => CW_E_EVICTED,
            Error::MissedDeadline { .. } => CW_E_MISSED_DEADLINE,
            Error::Corrupt { .. } => CW_E_CORRUPT,
            Error::NoAnswer => CW_E_NO_ANSWER,
            Error::WrongSize { .. } => CW_E_WRONG_SIZE,
            Error::TooManyReferences => CW_E_TOO_MANY_REFERENCES,
            _ => CW_E_UNKNOWN,
        };
        Failure::new(code, error)
    }
}

/// The outcomes of the log: which of them only one way to wait has, and its code.
macro_rules! outcomes {
    ($($name:ident::$expected:ident => $code:ident,)*) => {$(
        impl From<$name> for Failure {
            fn from(error: $name) -> Failure {
                match error {
                    $name::$expected => Failure::outcome($code),
                    $name::Disconnected => Failure::outcome(CW_ENDED),
                    $name::Failed(error) => error.into(),
                }
            }
        }
    )*};
}

outcomes! {
    TryPublishError::Full => CW_FULL,
    PublishTimeoutError::Timeout => CW_TIMED_OUT,
    TryRecvError::Empty => CW_EMPTY,
    RecvTimeoutError::Timeout => CW_TIMED_OUT,
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Failure {
        match error {
            CallError::Deadline => Failure::outcome(CW_TIMED_OUT),
            CallError::Cancelled => Failure::outcome(CW_CANCELLED),
            CallError::NoReply => Failure::outcome(CW_NO_REPLY),
            CallError::ServerGone => Failure::new(CW_E_SERVER_GONE, error),
            CallError::RepliesNotRead => Failure::new(CW_E_REPLIES_NOT_READ, error),
            CallError::RequestTooLong { .. } | CallError::ReplyTooLong { .. } => {
                Failure::new(CW_E_TOO_LONG, error)
            }
            CallError::Failed(error) => error.into(),
            other => Failure::new(CW_E_UNKNOWN, other),
        }
    }
}

impl From<ReplyError> for Failure {
    fn from(error: ReplyError) -> Failure {
        match error {
            ReplyError::Cancelled => Failure::outcome(CW_CANCELLED),
            ReplyError::ClientGone | ReplyError::ClientNotReading => Failure::outcome(CW_CLIENT_GONE),
            ReplyError::TooLong { .. } => Failure::new(CW_E_TOO_LONG, error),
            ReplyError::Failed(error) => error.into(),
            other => Failure::new(CW_E_UNKNOWN, other),
        }
    }
}

impl From<BusError> for Failure {
    #[cold]
    fn from(error: BusError) -> Failure {
        let code = match &error {
            BusError::Os(os) => return Failure::os(&error, os.raw_os_error()),
            BusError::Full => return Failure::outcome(CW_FULL),
            BusError::Method { name, message } => {
                return Failure::with(CWB_E_METHOD, message, 0, Some(name.clone()));
            }
            BusError::Refused(_) => CW_E_REFUSED,
            BusError::Invalid(_) => CW_E_INVALID,
            BusError::Arguments(_) => CWB_E_ARGUMENTS,
            BusError::TooLong { .. } => CW_E_TOO_LONG,
            BusError::Disconnected(_) => CWB_E_DISCONNECTED,
            BusError::Broken { .. } => CW_E_CORRUPT,
            BusError::AuthorityGone => CWB_E_AUTHORITY_GONE,
            _ => CW_E_UNKNOWN,
        };
        Failure::new(code, error)
    }
}

/// What failed.
#[derive(Debug)]
pub struct cw_error {
    code: c_int,
    errno: c_int,
    text: CString,
    remedy: Option<CString>,
    name: Option<CString>,
}

fn text_or_null(text: Option<&CString>) -> *const c_char {
    text.map_or(std::ptr::null(), |text| text.as_ptr())
}

/// Its code.
///
/// # Safety
/// As all functions here: null, or an error that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cw_error_code(error: *const cw_error) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { error.as_ref() }.map_or(0, |error| error.code)
}

/// The number of the kernel's error; 0 where the kernel has none.
///
/// # Safety
/// See [`cw_error_code`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cw_error_errno(error: *const cw_error) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { error.as_ref() }.map_or(0, |error| error.errno)
}

/// What happened.
///
/// # Safety
/// See [`cw_error_code`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cw_error_text(error: *const cw_error) -> *const c_char {
    // SAFETY: the caller's promise.
    text_or_null(unsafe { error.as_ref() }.map(|error| &error.text))
}

/// What to do about it, where that is known.
///
/// # Safety
/// See [`cw_error_code`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cw_error_remedy(error: *const cw_error) -> *const c_char {
    // SAFETY: the caller's promise.
    text_or_null(unsafe { error.as_ref() }.and_then(|error| error.remedy.as_ref()))
}

/// The name of a D-Bus error.
///
/// # Safety
/// See [`cw_error_code`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cw_error_name(error: *const cw_error) -> *const c_char {
    // SAFETY: the caller's promise.
    text_or_null(unsafe { error.as_ref() }.and_then(|error| error.name.as_ref()))
}

/// Frees it; null is nothing.
///
/// # Safety
/// See [`cw_error_code`]. It is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cw_error_free(error: *mut cw_error) {
    if !error.is_null() {
        // SAFETY: `Failure::report` made it, and the caller gives it back once.
        drop(unsafe { Box::from_raw(error) });
    }
}
