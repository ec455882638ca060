//! The wire format of D-Bus, protocol version 1: bytes of one message to a header and arguments, and back.
//!
//! Source of every rule and limit here: the D-Bus Specification, sections "Type System", "Marshaling" and "Message Protocol".

mod body;
mod build;
mod check;
mod cursor;
mod growing;
mod header;
pub mod json;
mod known;
mod layout;
mod marshal;
pub mod names;
pub mod signature;
mod stamp;
mod template;
pub mod text;
mod types;
mod value;

pub use body::{Arg, Args, Leaf, walk};
pub use build::{Body, Builder, TooLong};
pub use check::Checker;
pub use cursor::Endian;
pub use growing::Growing;
pub use header::{
    FLAG_NO_AUTO_START, FLAG_NO_REPLY_EXPECTED, Header, Kind, header_bytes, message_bytes, whole_message,
};
pub use known::{KnownHeader, KnownHeaders};
pub use layout::{Layout, Numbers};
pub use marshal::{Marshal, OpenArray};
pub use stamp::{stamped, stamped_header};
pub use template::{Templates, Unbuildable};
pub use types::{
    Basic, Decode, DescriptorIndex, Dict, Encode, Mistyped, ObjectPath, Signature, Type, TypeSignature,
    Unmarshal, Unreadable, Variant, arguments, arguments_of,
};
pub use value::{Value, values};

use std::fmt;

/// Most bytes of a message, header and body together: 128 MiB.
pub const MESSAGE_BYTES_MAX: usize = 128 << 20;
/// Most bytes of the elements of an array: 64 MiB.
pub const ARRAY_BYTES_MAX: usize = 64 << 20;
/// Most bytes of a name of any kind.
pub const NAME_BYTES_MAX: usize = 255;
/// Most containers inside each other, variants included.
pub const DEPTH_MAX: u32 = 64;

/// Why bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fault {
    /// The bytes end before the message does.
    Cut,
    /// The bytes break a rule of the specification: which one.
    Invalid(&'static str),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::Cut => "the bytes end before the message does",
            Fault::Invalid(why) => why,
        })
    }
}

impl std::error::Error for Fault {}
