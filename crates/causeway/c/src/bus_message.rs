//! Messages that were received.
//!
//! # Safety
//! See `handle` and `input`. What is handed out points into the message, which does not change until it is freed.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc, reason = "the header has the rules for all pointers")]

use std::ffi::{c_char, c_int, c_void};
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::ptr::null;

use causeway_bus::wire::{Header, Kind, Value};
use causeway_bus::{Call, Message};

use crate::error::{CW_NOT_FOUND, CW_OK, CWB_E_ARGUMENTS, Failure};
use crate::handle::{Handle, frees, look, methods};
use crate::input::Out;

/// A message.
pub type cwb_message = Handle<Read>;

/// A message, and what was taken out of it.
#[derive(Debug)]
pub struct Read {
    message: Message,
    /// The same, where it is to be answered.
    call: Option<Call>,
    descriptors: Option<Vec<Option<OwnedFd>>>,
}

impl Read {
    pub(crate) fn new(message: Message, call: Option<Call>) -> Read {
        Read { message, call, descriptors: None }
    }

    /// The call, to be answered.
    pub(crate) fn call(&self) -> Result<Call, Failure> {
        let none = || crate::input::range("this message is not a call; answer those of the kind CWB_CALL");
        self.call.clone().ok_or_else(none)
    }

    /// Text of the message for C: in the bytes of a message a zero byte follows each.
    fn c_text(&self, text: Option<&str>) -> *const c_char {
        let bytes = self.message.bytes();
        let Some(text) = text else { return null() };
        let end =
            (text.as_ptr() as usize).checked_sub(bytes.as_ptr() as usize).map(|start| start + text.len());
        match end.and_then(|end| bytes.get(end)) {
            Some(0) => text.as_ptr().cast(),
            _ => null(),
        }
    }

    fn descriptors(&mut self) -> &mut Vec<Option<OwnedFd>> {
        let message = &self.message;
        self.descriptors.get_or_insert_with(|| message.take_descriptors().into_iter().map(Some).collect())
    }
}

/// The kind of a message, as D-Bus numbers it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwb_message_kind(message: *mut cwb_message) -> u32 {
    // SAFETY: see the text of this file.
    unsafe {
        look("cwb_message_kind", message, 0, |read| match read.message.header().kind {
            Kind::MethodCall => 1,
            Kind::MethodReturn => 2,
            Kind::Error => 3,
            Kind::Signal => 4,
            Kind::Other(number) => number.into(),
        })
    }
}

/// A function for each text of a header.
macro_rules! texts {
    ($($(#[$doc:meta])* $name:ident: $text:expr;)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(message: *mut cwb_message) -> *const c_char {
            let of: for<'a> fn(Header<'a>) -> Option<&'a str> = $text;
            // SAFETY: see the text of this file.
            unsafe { look(stringify!($name), message, null(), |read| read.c_text(of(read.message.header()))) }
        }
    )*};
}

texts! {
    /// Who has sent it.
    cwb_message_sender: |header| header.sender;
    /// The object.
    cwb_message_path: |header| header.path;
    /// The interface.
    cwb_message_interface: |header| header.interface;
    /// The method or signal.
    cwb_message_member: |header| header.member;
    /// The name of an error.
    cwb_message_error_name: |header| header.error_name;
    /// The types of its arguments.
    cwb_message_signature: |header| Some(header.signature).filter(|types| !types.is_empty());
}

/// [`Message::position`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwb_message_position(message: *mut cwb_message) -> u64 {
    // SAFETY: see the text of this file.
    unsafe { look("cwb_message_position", message, 0, |read| read.message.position()) }
}

/// [`Message::sent_ns`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cwb_message_sent_ns(message: *mut cwb_message) -> u64 {
    // SAFETY: see the text of this file.
    unsafe { look("cwb_message_sent_ns", message, 0, |read| read.message.sent_ns()) }
}

methods! {
    /// [`Message::body`].
    fn cwb_message_body(read: cwb_message, data: *mut *const c_void, bytes: *mut usize) {
        let (data, bytes) = (Out::new(data)?, Out::new(bytes)?);
        data.write(read.message.body().as_ptr().cast());
        bytes.write(read.message.body().len());
        Ok(CW_OK)
    }

    /// The argument with an index: of this type, by itself or as a variant.
    fn cwb_message_arg(read: cwb_message, index: u32, of: u32, value: *mut c_void) {
        Out::new(value)?;
        let found = argument(&read.message, index)?;
        match (u8::try_from(of).unwrap_or(0), &found) {
            (b'y', Value::Byte(number)) => value.cast::<u8>().write(*number),
            (b'b', Value::Bool(flag)) => value.cast::<c_int>().write((*flag).into()),
            (b'n', Value::I16(number)) => value.cast::<i16>().write(*number),
            (b'q', Value::U16(number)) => value.cast::<u16>().write(*number),
            (b'i', Value::I32(number)) => value.cast::<i32>().write(*number),
            (b'u', Value::U32(number)) => value.cast::<u32>().write(*number),
            (b'x', Value::I64(number)) => value.cast::<i64>().write(*number),
            (b't', Value::U64(number)) => value.cast::<u64>().write(*number),
            (b'd', Value::F64(number)) => value.cast::<f64>().write(*number),
            (b's', Value::Text(text)) | (b'o', Value::Path(text)) | (b'g', Value::Signature(text)) => {
                value.cast::<*const c_char>().write(read.c_text(Some(text)));
            }
            (b'h', Value::Descriptor(number)) => {
                let number = *number as usize;
                drop(found);
                let fd =
                    read.descriptors().get(number).and_then(|fd| fd.as_ref().map(AsRawFd::as_raw_fd));
                let Some(fd) = fd else { return Ok(CW_NOT_FOUND) };
                value.cast::<c_int>().write(fd);
            }
            _ => return Err(other_type(index, &found)),
        }
        Ok(CW_OK)
    }

    /// The argument with an index, an array of bytes.
    fn cwb_message_arg_bytes(read: cwb_message, index: u32, data: *mut *const c_void, bytes: *mut usize) {
        let (data, bytes) = (Out::new(data)?, Out::new(bytes)?);
        match argument(&read.message, index)? {
            Value::Bytes(found) => {
                data.write(found.as_ptr().cast());
                bytes.write(found.len());
                Ok(CW_OK)
            }
            other => Err(other_type(index, &other)),
        }
    }
}

fn argument(message: &Message, index: u32) -> Result<Value<'_>, Failure> {
    let mut all = message.values()?;
    if index as usize >= all.len() {
        return Err(Failure::outcome(CW_NOT_FOUND));
    }
    Ok(match all.swap_remove(index as usize) {
        Value::Variant(inner) => *inner,
        other => other,
    })
}

fn other_type(index: u32, found: &Value<'_>) -> Failure {
    let text = format!("argument {index} has type {:?}; ask for that", found.signature());
    Failure::new(CWB_E_ARGUMENTS, text)
}

methods! {
    /// Takes the descriptor with an index out of the message: the caller closes it.
    fn cwb_message_take_fd(read: cwb_message, index: u32, fd: *mut c_int) {
        let out = Out::new(fd)?;
        let taken = read.descriptors().get_mut(index as usize).and_then(Option::take);
        let Some(taken) = taken else { return Ok(CW_NOT_FOUND) };
        out.write(taken.into_raw_fd());
        Ok(CW_OK)
    }
}

frees! {
    /// Ends it.
    cwb_message_free: cwb_message;
}
