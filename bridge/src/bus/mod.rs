//! Names of the bus across machines: [`exports`] offers the names of this host, [`imports`] stands for those of others.

pub mod exports;
pub mod imports;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use causeway_bus::wire::{Body, Builder, Endian, Header, signature, walk};
use causeway_os::lock::lock;
use zenoh::bytes::{Encoding, ZBytes};

use crate::lists::Names;
use crate::wire::is_checked;

/// What a bridge carries of a bus.
#[derive(Debug)]
pub struct Carried {
    /// The native socket.
    pub path: PathBuf,
    /// Names that go out.
    pub exports: Names,
    /// Names that come in.
    pub imports: Names,
    /// How long a call may take.
    pub call_timeout: Duration,
    /// The connections that stand for names of other hosts: what they own is not offered to anybody.
    pub own: Mutex<BTreeSet<String>>,
    /// Calls that went out, for their numbers.
    pub calls: AtomicU64,
}

impl Carried {
    /// Whether a unique name is that of one of this bridge's connections.
    pub fn is_own(&self, unique_name: &str) -> bool {
        lock(&self.own).contains(unique_name)
    }
}

/// The errors that a bridge gives to calls.
pub mod error {
    pub use causeway_bus::name::{FAILED, INVALID_ARGS, LIMITS_EXCEEDED, NO_REPLY, SERVICE_UNKNOWN};
    /// What a call asks for does not cross.
    pub const NOT_SUPPORTED: &str = "org.freedesktop.DBus.Error.NotSupported";
}

/// Why descriptors stay where they are.
pub const NO_DESCRIPTORS: &str =
    "file descriptors do not cross machines: the bridge has refused the message; send what is in the file";

/// What the encoding of arguments begins with; `;`, the order of the bytes (`l` or `B`), `:` and the signature follow.
const ARGUMENTS: &str = "application/x-dbus";
/// The same of errors; `;` and the name follow.
const ERROR: &str = "application/x-dbus-error";

/// The encoding of the arguments of a message.
pub fn encoding_of(header: &Header<'_>) -> Encoding {
    let order = if header.endian == Endian::Little { 'l' } else { 'B' };
    Encoding::from(format!("{ARGUMENTS};{order}:{}", header.signature))
}

/// The encoding of an error.
pub fn encoding_of_error(name: &str) -> Encoding {
    Encoding::from(format!("{ERROR};{name}"))
}

/// The name of the error that an encoding says.
pub fn error_name(encoding: &Encoding) -> String {
    let text = encoding.to_string();
    let name = text.split_once(ERROR).and_then(|(_, rest)| rest.strip_prefix(';'));
    let is_name = |name: &&str| {
        name.contains('.') && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._".contains(&byte))
    };
    name.filter(is_name).unwrap_or(error::FAILED).to_owned()
}

/// Arguments that came from another machine; they are checked before anybody on this bus sees them. Without a word on their order
/// they are little-endian, and without one on their types there are none; without a check, they are what they are.
pub fn arguments(
    encoding: Option<&Encoding>,
    payload: Option<&ZBytes>,
    check: Option<&ZBytes>,
) -> Result<Body, String> {
    let text = encoding.map(ToString::to_string).unwrap_or_default();
    let said = text.split_once(ARGUMENTS).map_or("", |(_, rest)| rest.trim_start_matches(';'));
    let (endian, types) = match said.split_once(':') {
        Some(("B", types)) => (Endian::Big, types),
        Some((_, types)) => (Endian::Little, types),
        None => (Endian::Little, said),
    };
    signature::check(types).map_err(str::to_owned)?;
    if types.contains('h') {
        return Err(NO_DESCRIPTORS.into());
    }
    let bytes = payload.map(ZBytes::to_bytes).unwrap_or_default();
    if check.is_some_and(|check| !is_checked(&check.to_bytes(), [&bytes[..]])) {
        return Err("they were damaged on their way".into());
    }
    let body = Body::marshalled(endian, types, &bytes);
    let message =
        Builder::signal("/", "a.b", "C").body(body.clone()).build(1).map_err(|long| long.to_string())?;
    let header = Header::parse(&message).map_err(|fault| fault.to_string())?;
    walk(&header, &message[header.header_bytes..], &mut |_, _| ()).map_err(|fault| fault.to_string())?;
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::check_of;

    fn header_of(message: &[u8]) -> Header<'_> {
        Header::parse(message).unwrap()
    }

    #[test]
    fn arguments_come_back_and_what_breaks_the_specification_does_not() {
        let body = Body::default().text("hello").u32(7);
        let message = Builder::signal("/", "a.b", "C").body(body).build(1).unwrap();
        let header = header_of(&message);
        let (encoding, payload) =
            (encoding_of(&header), ZBytes::from(message[header.header_bytes..].to_vec()));
        let check = ZBytes::from(check_of(&payload.to_bytes()));
        let back = arguments(Some(&encoding), Some(&payload), Some(&check)).unwrap();
        assert_eq!(back.bytes(), &message[header.header_bytes..]);
        assert!(arguments(Some(&encoding), Some(&ZBytes::from("another")), Some(&check)).is_err());
        assert!(arguments(None, None, None).is_ok(), "no arguments");
        let of = |encoding: &str, bytes: &[u8]| {
            arguments(Some(&Encoding::from(encoding)), Some(&ZBytes::from(bytes.to_vec())), None)
        };
        assert_eq!(
            of("application/x-dbus;u", &[7, 0, 0, 0]).unwrap().bytes(),
            [7, 0, 0, 0],
            "what a program writes by hand"
        );
        for (encoding, bytes) in [
            ("application/x-dbus;l:u", &[7, 0, 0][..]),
            ("application/x-dbus;l:u", &[7, 0, 0, 0, 0]),
            ("application/x-dbus;l:(", &[]),
            ("application/x-dbus;l:s", &[1, 0, 0, 0, 0xff, 0]),
            ("text/plain", &[1]),
        ] {
            assert!(of(encoding, bytes).is_err(), "{encoding}: {bytes:?}");
        }
        assert_eq!(of("application/x-dbus;l:h", &[0, 0, 0, 0]).unwrap_err(), NO_DESCRIPTORS);
    }

    #[test]
    fn an_error_keeps_its_name_and_what_is_none_is_a_failure() {
        assert_eq!(error_name(&encoding_of_error("com.example.Error.Late")), "com.example.Error.Late");
        for other in ["text/plain", "application/x-dbus-error;", "application/x-dbus-error;no name"] {
            assert_eq!(error_name(&Encoding::from(other)), error::FAILED);
        }
    }
}
