//! Messages that are not in the outbox alone: what is added to one that is sent, and to one that was read.

use std::os::fd::OwnedFd;

use causeway_dbus_wire::wire::Header;

use super::{AUTHORITY, AUTHORITY_ID, Port, Received};
use crate::error::{Error, Result};
use crate::shared::body::SealedBody;
use crate::shared::filter::SignalTexts;
use crate::shared::header::{BODY_IN_FILE, INLINE};

/// What of a message is staged with the authority, outside of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransferRef {
    /// Under which token; 0 if nothing does.
    pub token: u32,
    /// Whether the whole message lies in a file; in the outbox is its header only.
    pub is_in_file: bool,
}

impl TransferRef {
    pub(super) fn form(self) -> u16 {
        if self.is_in_file { BODY_IN_FILE } else { INLINE }
    }

    /// The bytes of a message, with a header of so many, that go into the outbox.
    pub(super) fn inline(self, header_bytes: usize, message: &[u8]) -> &[u8] {
        if self.is_in_file { &message[..header_bytes] } else { message }
    }
}

impl Port {
    /// Slots of the members that a signal is for, as far as their filters can tell now.
    pub fn subscriber_slots(&mut self, signal: &SignalTexts<'_>) -> Vec<u16> {
        let signal = self.subscribers.find(signal);
        self.subscribers.slots(signal, &self.directory).to_vec()
    }
}

impl Received {
    pub fn owner(&self) -> u64 {
        if self.slot == AUTHORITY { AUTHORITY_ID } else { self.header.sender }
    }

    /// Does it lie in a file that is not here?
    pub fn is_header_only(&self) -> bool {
        self.header.form == BODY_IN_FILE && !self.bytes.are_mapped()
    }

    /// Adds what came under its token, which is taken if it fits. All of it is input from another process, and checked.
    pub fn complete(&mut self, descriptors: &mut Vec<OwnedFd>) -> Result<()> {
        let refuse = |why: &str| Err(Error::Refused(why.to_owned()));
        if self.header.form == BODY_IN_FILE {
            let Some(file) = descriptors.first() else { return refuse("the file of the message is missing") };
            let message = SealedBody::open(file, u64::from(self.header.message_bytes))?;
            if !message.starts_with(&self.bytes) {
                return refuse("the file holds another message than the log");
            }
            self.bytes = message.into();
            // It is a memory file, whose closing waits for nobody.
            descriptors.remove(0);
        }
        match Header::parse(&self.bytes) {
            Ok(header) if header.unix_fds as usize == descriptors.len() => {}
            Ok(header) => {
                let (came, named) = (descriptors.len(), header.unix_fds);
                return refuse(&format!("{came} descriptors came, but the message announces {named}"));
            }
            Err(fault) => return refuse(&format!("invalid message: {fault}")),
        }
        self.descriptors = std::mem::take(descriptors).into();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::FileDescriptors;
    use crate::shared::body;
    use crate::shared::header::BusHeader;
    use causeway_dbus_wire::wire::{Body, Builder};

    fn complete(message: &[u8], transfer: TransferRef, descriptors: &mut Vec<OwnedFd>) -> Result<Received> {
        let header = Header::parse(message).unwrap();
        let mut received = Received {
            position: 0,
            slot: 3,
            header: BusHeader {
                sender: 9,
                form: transfer.form(),
                token: transfer.token,
                message_bytes: message.len() as u32,
                ..BusHeader::default()
            },
            bytes: transfer.inline(header.header_bytes, message).to_vec().into(),
            descriptors: FileDescriptors::default(),
        };
        received.complete(descriptors).map(|()| received)
    }

    fn message(unix_fds: u32) -> Vec<u8> {
        let signal =
            Builder::signal("/", "a.b", "C").unix_fds(unix_fds).body(Body::default().blob(&[7; 9000]));
        signal.build(1).unwrap()
    }

    fn fds(count: usize) -> Vec<OwnedFd> {
        (0..count).map(|_| body::write(b"other").unwrap()).collect()
    }

    #[test]
    fn a_message_is_completed_by_exactly_what_it_names() {
        for named in [1, 3] {
            let message = message(named);
            let inline = TransferRef { token: 1, is_in_file: false };
            let whole = complete(&message, inline, &mut fds(named as usize)).unwrap();
            assert_eq!((&*whole.bytes, whole.descriptors.count()), (&message[..], named as usize));
            let in_file = TransferRef { token: 1, is_in_file: true };
            let mut all = fds(named as usize);
            all.insert(0, body::write(&message).unwrap());
            let whole = complete(&message, in_file, &mut all).unwrap();
            assert_eq!((&*whole.bytes, whole.descriptors.count()), (&message[..], named as usize));
            assert!(whole.bytes.are_mapped());
            for count in [0, named as usize - 1, named as usize + 1] {
                let error = complete(&message, inline, &mut fds(count)).unwrap_err();
                assert!(error.to_string().contains("descriptors came"), "{error}");
                assert!(complete(&message, in_file, &mut fds(count)).is_err());
            }
        }
    }

    #[test]
    fn a_file_with_another_message_is_refused() {
        let in_file = TransferRef { token: 1, is_in_file: true };
        let (is, other) = (message(0), vec![7; message(0).len()]);
        let error = complete(&is, in_file, &mut vec![body::write(&other).unwrap()]).unwrap_err();
        assert!(error.to_string().contains("another message"), "{error}");
        let longer = [&is[..], b"x"].concat();
        assert!(complete(&is, in_file, &mut vec![body::write(&longer).unwrap()]).is_err());
    }
}
