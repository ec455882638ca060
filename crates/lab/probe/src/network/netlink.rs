//! Messages of netlink, and the kernel's answers to them.
//!
//! Source of the format: `include/uapi/linux/netlink.h` of the kernel, and its `Documentation/userspace-api/netlink/intro.rst`. A message is a header of 16
//! bytes (length, type, flags, sequence number, port), a fixed part, and attributes: length and type of 2 bytes each, the value,
//! padded to 4 bytes.

use std::io;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};

use causeway_os::{Context, Result};

const REQUEST: u16 = 1;
pub(super) const ACK: u16 = 4;
/// Replaces what is there.
pub(super) const REPLACE: u16 = 0x100;
/// Fails where it is there.
pub(super) const EXCLUSIVE: u16 = 0x200;
/// Makes it.
pub(super) const CREATE: u16 = 0x400;
/// Adds it behind the others.
pub(super) const APPEND: u16 = 0x800;

/// The type of an answer that is an error number, of which 0 is success.
const ERROR: u16 = 2;
const HEADER_BYTES: usize = 16;
/// Of an attribute that holds attributes.
const NESTED: u16 = 1 << 15;
/// The kernel answers while it is asked. A socket on which nothing comes is a defect, which must not hang anything.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub(super) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    pub(super) fn new(kind: u16, flags: u16, fixed: &[u8]) -> Message {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(flags | REQUEST).to_ne_bytes());
        let mut message = Message { bytes };
        message.pad(fixed);
        message
    }

    /// Bytes that are followed by attributes.
    fn pad(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    pub(super) fn with(mut self, kind: u16, value: &[u8]) -> Message {
        let length = u16::try_from(value.len() + 4).expect("attributes are short");
        self.bytes.extend(length.to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.pad(value);
        self
    }

    /// With an attribute that is a text and ends with a zero.
    pub(super) fn with_text(self, kind: u16, text: &str) -> Message {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0);
        self.with(kind, &bytes)
    }

    /// With an attribute that is a number in network byte order, as those of netfilter are.
    pub(super) fn with_be32(self, kind: u16, number: u32) -> Message {
        self.with(kind, &number.to_be_bytes())
    }

    /// With an attribute that holds a fixed part and what `inside` adds.
    pub(super) fn with_nested(
        mut self,
        kind: u16,
        fixed: &[u8],
        inside: impl FnOnce(Message) -> Message,
    ) -> Message {
        let start = self.bytes.len();
        self.bytes.extend([0; 4]);
        self.pad(fixed);
        let mut message = inside(self);
        let length = u16::try_from(message.bytes.len() - start).expect("attributes are short");
        message.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        message.bytes[start + 2..start + 4].copy_from_slice(&(kind | NESTED).to_ne_bytes());
        message
    }

    fn wants_answer(&self) -> bool {
        u16::from_ne_bytes([self.bytes[6], self.bytes[7]]) & ACK != 0
    }

    fn finished(&self, sequence: u32) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        let length = u32::try_from(bytes.len()).expect("messages are short");
        bytes[0..4].copy_from_slice(&length.to_ne_bytes());
        bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        bytes
    }
}

/// Sends the messages in one piece, and waits at most 10 s for the answer to each of those that want one. `op` and `on` are for the error.
pub(super) fn request(
    protocol: Option<Protocol>,
    messages: &[Message],
    op: &'static str,
    on: impl Fn() -> String,
) -> Result<()> {
    let exchange = || -> io::Result<()> {
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
        let bytes: Vec<u8> =
            messages.iter().zip(1..).flat_map(|(message, sequence)| message.finished(sequence)).collect();
        sendto(&socket, &bytes, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        let mut wanted = messages.iter().filter(|message| message.wants_answer()).count();
        let mut buffer = vec![0; 1 << 16];
        while wanted > 0 {
            let read = match recv(&socket, &mut buffer[..], RecvFlags::empty()) {
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => {
                    return Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        "the kernel did not answer within 10 s",
                    ));
                }
                read => read?.0,
            };
            for code in answers(&buffer[..read])? {
                match code {
                    0 => wanted = wanted.saturating_sub(1),
                    code => return Err(io::Error::from_raw_os_error(-code)),
                }
            }
        }
        Ok(())
    };
    exchange().context(op, on)
}

/// The error numbers of the answers in a datagram, negative as the kernel sends them.
fn answers(mut bytes: &[u8]) -> io::Result<Vec<i32>> {
    let mut found = Vec::new();
    while bytes.len() >= HEADER_BYTES {
        let length = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
        let kind = u16::from_ne_bytes([bytes[4], bytes[5]]);
        let message = bytes.get(..length).filter(|message| message.len() >= HEADER_BYTES);
        let message = message.ok_or_else(|| io::Error::other("a message of netlink ends in the middle"))?;
        if let (ERROR, Some(code)) = (kind, message[HEADER_BYTES..].first_chunk::<4>()) {
            found.push(i32::from_ne_bytes(*code));
        }
        bytes = &bytes[length.next_multiple_of(4).min(bytes.len())..];
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_its_length_and_attributes_lie_at_multiples_of_four() {
        let message = Message::new(16, ACK, &[7; 2])
            .with_text(3, "eth")
            .with_nested(18, &[], |inside| inside.with(1, b"abcde"));
        assert!(message.wants_answer() && !Message::new(16, CREATE, &[]).wants_answer());
        let bytes = message.finished(9);
        let expected = [
            &44_u32.to_ne_bytes()[..],
            &16_u16.to_ne_bytes(),
            &(ACK | REQUEST).to_ne_bytes(),
            &9_u32.to_ne_bytes(),
            &[0, 0, 0, 0, 7, 7, 0, 0],
            &[8_u16, 3].map(u16::to_ne_bytes).concat(),
            b"eth\0",
            &[16_u16, 18 | NESTED].map(u16::to_ne_bytes).concat(),
            &[9_u16, 1].map(u16::to_ne_bytes).concat(),
            b"abcde\0\0\0",
        ];
        assert_eq!(bytes, expected.concat());
    }

    #[test]
    fn answers_are_found_behind_each_other_and_a_broken_one_is_told() {
        let answer = |code: i32| {
            let mut message = Message::new(ERROR, 0, &code.to_ne_bytes()).finished(1);
            message.extend([0; 16]);
            let length = u32::try_from(message.len()).unwrap();
            message[0..4].copy_from_slice(&length.to_ne_bytes());
            message
        };
        let both = [answer(0), answer(-17)].concat();
        assert_eq!(answers(&both).unwrap(), [0, -17]);
        assert!(answers(&both[..both.len() - 1]).is_err());
        let mut endless = answer(0);
        endless[0..4].fill(0);
        assert!(answers(&endless).is_err(), "a length of 0 must not be read for ever");
    }
}
