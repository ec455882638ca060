//! The sender's own pages, put into a pipe instead of copied; the receiver reads, which is the one copy.
//!
//! **Who owns a page.** From `vmsplice` until the receiver has read it, a page belongs to the pipe, and what is written to
//! it meanwhile changes the message. Nothing tells the sender when that is over. But a pipe has a fixed number of
//! places, each holds one page or a part of one, and they are emptied in order; so a page is out of the pipe once as
//! many further pages have gone in as there are places. Messages therefore take turns in page-aligned buffers, enough of them
//! that the others fill the pipe: no message from the receiver is needed.
//!
//! # Safety
//! The call takes pointer and length from one slice. The kernel keeps reading those pages after it returns, through
//! addresses of its own; what it sees is plain bytes.
#![allow(unsafe_code)]

use causeway_os::memory::page_bytes;
use rustix::pipe::{PipeFlags, fcntl_getpipe_size, pipe_with};

use super::copying::{Copying, Transport};
use super::fd::{self, Line};
use super::pipe;
use crate::prelude::*;
use crate::sys;

pub(super) struct Vmsplice;

impl Mechanism for Vmsplice {
    const ID: &'static str = "vmsplice";
    const ABOUT: &'static str =
        "the sender's pages in a pipe, one for each direction: copied once, by the receiver";
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::DUPLEX).and(Caps::ONE_COPY).and(Caps::BYTE_STREAM);
    const WAITS: &'static [Wait] = fd::WAITS;
    const AXES: &'static [Axis] = &[pipe::PIPE_SIZE];
    type End = Copying<Pages>;

    fn properties(_params: &CaseParams) -> Properties {
        properties::of_kernel(Across::PassedDescriptors)
    }

    fn fit(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        pipe::fits_pipe_size(host, params)
    }

    fn create(_host: &Host, params: &CaseParams) -> io::Result<[EndResources; 2]> {
        pipe::create_two(params, || Ok(pipe_with(PipeFlags::CLOEXEC)?))
    }

    fn attach(_side: Side, mut resources: EndResources, params: &CaseParams) -> io::Result<Self::End> {
        let line = Line::take(&mut resources, params.wait)?;
        let buffers = Buffers::new(fcntl_getpipe_size(line.writer.fd())?, params.payload_bytes);
        Copying::new(Pages { line, buffers, next: 0 }, params.payload_bytes)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Buffers {
    count: usize,
    stride: usize,
}

impl Buffers {
    /// All but one of them fill the pipe, even where each message fills its last page only in part.
    fn new(pipe_bytes: usize, message_bytes: usize) -> Buffers {
        let places = pipe_bytes / page_bytes();
        let pages = message_bytes.div_ceil(page_bytes()).max(1);
        Buffers { count: places.div_ceil(pages) + 1, stride: pages * page_bytes() }
    }
}

pub(super) struct Pages {
    line: Line,
    buffers: Buffers,
    next: usize,
}

impl Transport for Pages {
    const SENDS_FROM_ANYWHERE: bool = false;

    #[inline]
    fn reserve(&mut self) -> io::Result<usize> {
        Ok(self.next * self.buffers.stride)
    }

    #[inline]
    fn send(&mut self, mut message: &[u8]) -> io::Result<()> {
        let flags = if self.line.writer.spins() { libc::SPLICE_F_NONBLOCK } else { 0 };
        while !message.is_empty() {
            let part = libc::iovec { iov_base: message.as_ptr().cast_mut().cast(), iov_len: message.len() };
            // SAFETY: one part is passed and one is announced; its pointer and length come from one slice, which is
            // only read.
            let count = self
                .line
                .writer
                .call(|pipe| sys::check_count(unsafe { libc::vmsplice(pipe, &part, 1, flags) }))?;
            message = &message[count..];
        }
        self.next = if self.next + 1 == self.buffers.count { 0 } else { self.next + 1 };
        Ok(())
    }

    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        fd::read_exactly(&mut self.line.reader, buffer)
    }

    fn outgoing_bytes(&self, _message_bytes: usize) -> usize {
        self.buffers.count * self.buffers.stride
    }

    fn facts(&self) -> io::Result<Facts> {
        let mut facts = pipe::facts(self.line.writer.fd())?;
        facts.insert("sender_buffers".into(), self.buffers.count.to_string());
        Ok(facts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_buffers_but_one_fill_the_pipe() {
        let page = page_bytes();
        for places in [1, 2, 16, 256] {
            for message_bytes in [0, 1, page - 1, page, page + 1, 16 * page, 17 * page, 4 << 20] {
                let Buffers { count, stride } = Buffers::new(places * page, message_bytes);
                assert!(stride >= message_bytes && stride.is_multiple_of(page));
                let pages = message_bytes.div_ceil(page).max(1);
                assert!((count - 1) * pages >= places, "{places} places, messages of {message_bytes} bytes");
            }
        }
    }
}
