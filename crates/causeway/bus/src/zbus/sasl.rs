//! The handshake of a D-Bus socket, as zbus speaks it. The kernel has authenticated this process when it joined the bus.
//!
//! Source: D-Bus Specification, section "Authentication Protocol".

use std::io;

use causeway_dbus_wire::wire;

/// Longest line of a handshake.
const LINE_BYTES_MAX: usize = 16 << 10;

/// Takes lines, and then messages, from a stream of bytes.
#[derive(Debug, Default)]
pub(super) struct Sasl {
    unread: Vec<u8>,
    is_over: bool,
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// To say that the client is who it is.
    Authenticate,
    /// To answer with this line.
    Answer(&'static str),
    /// To send a message.
    Message(Vec<u8>),
}

impl Sasl {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
    }

    /// The next step, if its bytes are complete.
    ///
    /// # Errors
    /// Bytes that are neither a line nor a message.
    pub(super) fn next(&mut self) -> io::Result<Option<Step>> {
        while !self.is_over {
            let Some(end) = self.unread.windows(2).position(|two| two == b"\r\n") else {
                return match self.unread.len() {
                    0..=LINE_BYTES_MAX => Ok(None),
                    _ => Err(invalid("a line of the handshake does not end")),
                };
            };
            let line: Vec<u8> = self.unread.drain(..end + 2).collect();
            // The first one begins with a zero byte.
            let line = line.strip_prefix(b"\0").unwrap_or(&line);
            match line.split(|byte| byte.is_ascii_whitespace()).next() {
                Some(b"AUTH") => return Ok(Some(Step::Authenticate)),
                Some(b"BEGIN") => self.is_over = true,
                Some(b"NEGOTIATE_UNIX_FD") => {
                    return Ok(Some(Step::Answer("AGREE_UNIX_FD")));
                }
                _ => return Ok(Some(Step::Answer("ERROR no such command"))),
            }
        }
        let bytes = match wire::message_bytes(&self.unread) {
            Ok(bytes) if bytes <= self.unread.len() => bytes,
            Ok(_) | Err(wire::Fault::Cut) => return Ok(None),
            Err(fault) => return Err(invalid(&format!("no message after the handshake: {fault}"))),
        };
        Ok(Some(Step::Message(self.unread.drain(..bytes).collect())))
    }
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_is_understood_however_its_bytes_are_cut() {
        let hello = wire::Builder::call("/", "Hello").destination("org.freedesktop.DBus").build(1).unwrap();
        let all = [b"\0AUTH EXTERNAL 30\r\nNEGOTIATE_UNIX_FD\r\nBEGIN\r\n", &hello[..], &hello[..]].concat();
        for piece in [1, 7, all.len()] {
            let (mut sasl, mut steps) = (Sasl::default(), Vec::new());
            for bytes in all.chunks(piece) {
                sasl.push(bytes);
                while let Some(step) = sasl.next().unwrap() {
                    steps.push(step);
                }
            }
            let message = || Step::Message(hello.clone());
            let agreed = Step::Answer("AGREE_UNIX_FD");
            assert_eq!(steps, [Step::Authenticate, agreed, message(), message()]);
        }
    }

    #[test]
    fn what_is_neither_line_nor_message_is_an_error() {
        let mut sasl = Sasl::default();
        sasl.push(&[b'A'; LINE_BYTES_MAX + 1]);
        assert!(sasl.next().is_err());
        let mut sasl = Sasl::default();
        sasl.push(b"WHAT\r\nBEGIN\r\nneither nor message");
        assert_eq!(sasl.next().unwrap(), Some(Step::Answer("ERROR no such command")));
        assert!(sasl.next().is_err());
    }
}
