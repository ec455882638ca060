//! What signals over descriptors share: a descriptor to read and one to write, a few bytes that mean nothing.

use std::io;

use crate::contract::EndResources;
use crate::mechanism::fd::{Reader, Writer, peer_gone};
use crate::params::CaseParams;
use crate::sys;

/// One end; a signal is `N` bytes.
pub struct Descriptor<const N: usize> {
    reader: Reader,
    writer: Writer,
    bytes: [u8; N],
}

impl<const N: usize> Descriptor<N> {
    /// From the resources's descriptors: one to read, one to write. A post writes `bytes`.
    pub fn attach(
        mut resources: EndResources,
        bytes: [u8; N],
        params: &CaseParams,
    ) -> io::Result<Descriptor<N>> {
        let (read, write) = (resources.take_fd(), resources.take_fd());
        Ok(Descriptor {
            reader: Reader::new(read, params.wait)?,
            writer: Writer::new(write, params.wait)?,
            bytes,
        })
    }

    /// One write.
    #[inline]
    pub fn post(&mut self) -> io::Result<()> {
        match self.writer.call(|fd| sys::write(&fd, &self.bytes))? {
            written if written == N => Ok(()),
            written => Err(io::Error::other(format!("{written} of {N} bytes were written"))),
        }
    }

    /// One read, after waiting as the case says.
    #[inline]
    pub fn wait(&mut self) -> io::Result<()> {
        let mut bytes = [0; N];
        match self.reader.read(&mut bytes)? {
            read if read == N => Ok(()),
            0 => Err(peer_gone()),
            read => Err(io::Error::other(format!("{read} of {N} bytes were read"))),
        }
    }
}
