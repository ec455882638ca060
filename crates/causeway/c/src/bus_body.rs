//! Arguments that are written.
//!
//! # Safety
//! See `handle` and `input`; what a type says of a value is true.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc, reason = "the header has the rules for all pointers")]

use std::ffi::{c_char, c_int, c_void};
use std::os::fd::OwnedFd;

use causeway_bus::Payload;
use causeway_bus::wire::text::marshalled;
use causeway_bus::wire::{Body, Marshal, names, signature};

use crate::error::{CW_E_STATE, CW_OK, Failure};
use crate::handle::{Handle, frees, give, makers, methods, with};
use crate::input::{Out, descriptor, range, slice, text};

/// Arguments.
pub type cwb_body = Handle<Arguments>;

/// What was appended, or was made at once.
#[derive(Debug, Default)]
pub struct Arguments {
    appended: Marshal,
    types: String,
    whole: Option<Body>,
    descriptors: Vec<OwnedFd>,
}

impl Arguments {
    fn growing(&mut self, more: &str) -> Result<&mut Marshal, Failure> {
        if self.whole.is_some() {
            return Err(Failure::new(
                CW_E_STATE,
                "these arguments were made at once; make others with cwb_body_new",
            ));
        }
        if self.types.len() + more.len() > 255 {
            return Err(range("a message has arguments of at most 255 types; send an array"));
        }
        self.types.push_str(more);
        Ok(&mut self.appended)
    }
}

/// The arguments of a call, which the handle has no more; none for null.
pub(crate) unsafe fn payload(body: *mut cwb_body) -> Result<Payload, Failure> {
    if body.is_null() {
        return Ok(Body::default().into());
    }
    // SAFETY: see the text of this file.
    let taken = unsafe { with(body, |body| Ok(std::mem::take(body)))? };
    let body = taken.whole.unwrap_or_else(|| taken.appended.into_body(&taken.types));
    Ok(Payload::new(body, taken.descriptors))
}

makers! {
    /// No arguments yet.
    fn cwb_body_new(body: *mut *mut cwb_body) { give(Out::new(body)?, Arguments::default()) }

    /// Arguments of any types but descriptors, as words ([`marshalled`]).
    fn cwb_body_of_words(
        types: *const c_char,
        words: *const *const c_char,
        count: usize,
        body: *mut *mut cwb_body,
    ) {
        let (types, body) = (text(types, "the signature")?, Out::new(body)?);
        let words = slice(words, count)?.iter().map(|word| text(*word, "a word").map(str::to_owned));
        let whole = marshalled(types, &words.collect::<Result<Vec<_>, _>>()?).map_err(range)?;
        give(body, Arguments { whole: Some(whole), ..Arguments::default() })
    }
}

methods! {
    /// Appends a value of a basic type.
    fn cwb_body_append(arguments: cwb_body, of: u32, value: *const c_void) {
        if value.is_null() {
            return Err(crate::input::null("the value"));
        }
        let letter = u8::try_from(of).unwrap_or(0);
        let checked = |is_valid: fn(&str) -> bool, what: &str| {
            let text = text(value.cast::<c_char>(), what)?;
            if is_valid(text) {
                Ok(text)
            } else {
                Err(range(format!("{text:?} is not {what}; correct it")))
            }
        };
        match letter {
            b'y' => arguments.growing("y")?.byte(value.cast::<u8>().read()),
            b'b' => match value.cast::<c_int>().read() {
                flag @ 0..=1 => arguments.growing("b")?.u32(flag as u32),
                other => return Err(range(format!("{other} is not a boolean; use 0 or 1"))),
            },
            b'n' => arguments.growing("n")?.u16(value.cast::<u16>().read()),
            b'q' => arguments.growing("q")?.u16(value.cast::<u16>().read()),
            b'i' => arguments.growing("i")?.u32(value.cast::<u32>().read()),
            b'u' => arguments.growing("u")?.u32(value.cast::<u32>().read()),
            b'x' => arguments.growing("x")?.u64(value.cast::<u64>().read()),
            b't' => arguments.growing("t")?.u64(value.cast::<u64>().read()),
            b'd' => arguments.growing("d")?.u64(value.cast::<u64>().read()),
            b's' => {
                let text = checked(|_| true, "a string")?;
                arguments.growing("s")?.text(text);
            }
            b'o' => {
                let text = checked(names::is_path, "an object path")?;
                arguments.growing("o")?.text(text);
            }
            b'g' => {
                let text = checked(|text| signature::check(text).is_ok(), "a signature")?;
                arguments.growing("g")?.signature(text);
            }
            b'h' => {
                let fd = descriptor(value.cast::<c_int>().read())?;
                let fd = fd.try_clone_to_owned().map_err(|error| {
                    range(format!("the descriptor cannot be copied ({error}); pass one that is open"))
                })?;
                let index = arguments.descriptors.len() as u32;
                arguments.growing("h")?.u32(index);
                arguments.descriptors.push(fd);
            }
            _ => return Err(range(format!("{of} is not a basic type; use a letter, such as 's'"))),
        }
        Ok(CW_OK)
    }

    /// Appends an array of bytes.
    fn cwb_body_append_bytes(arguments: cwb_body, data: *const c_void, bytes: usize) {
        let data = slice(data.cast::<u8>(), bytes)?;
        if bytes > 64 << 20 {
            return Err(range(format!("an array of {bytes} bytes exceeds 64 MiB; send it in parts")));
        }
        arguments.growing("ay")?.array(1, |out| data.iter().for_each(|byte| out.byte(*byte)));
        Ok(CW_OK)
    }
}

frees! {
    /// Ends it.
    cwb_body_free: cwb_body;
}
