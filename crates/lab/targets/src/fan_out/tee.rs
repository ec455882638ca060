//! `tee(2)`: a message is written once into a pipe, its pages are lent to the pipe of every receiver, and the last one gets
//! them with `splice(2)`. Receivers read.

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_getpipe_size, pipe_with, splice, tee};

use super::burst;
use super::message::Room;
use super::multicast::{Multicast, MulticastSender, pairs};
use super::unicast::Receiver;
use crate::prelude::*;

pub(super) struct PipeTee;

/// Pages of a pipe, unless it was resized; each message takes at least one.
const PIPE_PAGES: u64 = 16;

impl Multicast for PipeTee {
    const ID: &'static str = "pipe-tee";
    const ABOUT: &'static str =
        "written once into a pipe, then tee(2) to the pipe of each receiver and splice(2) to the last";
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::BYTE_STREAM);
    type Sender = Sender;
    type Receiver = Receiver<true>;

    fn properties(_params: &CaseParams) -> Properties {
        properties::of_kernel(Across::PassedDescriptors)
    }

    fn fit(_host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        let pages = pages_each(params) * burst(params);
        if pages > PIPE_PAGES {
            return Err(Unsupported(format!(
                "{pages} pages for each receiver are more than the {PIPE_PAGES} of a pipe, and tee into a full pipe would \
                 lend a message in parts that cannot be put together; use smaller messages or bursts"
            )));
        }
        Ok(())
    }

    fn ahead_max(params: &CaseParams) -> Option<u64> {
        Some(PIPE_PAGES / pages_each(params).max(1))
    }

    fn create(_params: &CaseParams, receivers: usize) -> io::Result<Vec<EndResources>> {
        let (source_read, source_write) = pipe_with(PipeFlags::CLOEXEC)?;
        let mut resources_by_role =
            pairs(receivers, || pipe_with(PipeFlags::CLOEXEC).map(|(read, write)| (write, read)))?;
        resources_by_role[0].fds.splice(0..0, [source_read, source_write]);
        Ok(resources_by_role)
    }

    fn sender(mut resources: EndResources, params: &CaseParams) -> io::Result<Sender> {
        let (source_read, source_write) = (resources.take_fd(), resources.take_fd());
        let last = resources.fds.pop().ok_or_else(|| io::Error::other("there is no receiver"))?;
        let sizes = resources.fds.iter().chain([&source_read, &last]).map(fcntl_getpipe_size);
        let pipe_bytes = sizes.collect::<Result<Vec<_>, _>>()?.into_iter().min().unwrap_or(0);
        let page = causeway_os::memory::page_bytes();
        if pipe_bytes < PIPE_PAGES as usize * page {
            return Err(io::Error::other(format!(
                "a pipe has only {pipe_bytes} bytes: fs.pipe-user-pages-soft is used up; raise it with sysctl"
            )));
        }
        let message = Room::new(params.payload_bytes)?;
        Ok(Sender { source_read, source_write, others: resources.fds, last, message, pipe_bytes })
    }

    fn receiver(resources: EndResources, params: &CaseParams) -> io::Result<Self::Receiver> {
        Receiver::new(resources, params)
    }
}

/// Pages of a pipe that a message takes.
fn pages_each(params: &CaseParams) -> u64 {
    (params.payload_bytes as u64).div_ceil(causeway_os::memory::page_bytes() as u64)
}

pub(super) struct Sender {
    source_read: OwnedFd,
    source_write: OwnedFd,
    others: Vec<OwnedFd>,
    last: OwnedFd,
    message: Room,
    pipe_bytes: usize,
}

impl MulticastSender for Sender {
    #[inline]
    fn send(&mut self, write: impl FnOnce(&mut [u8])) -> io::Result<()> {
        let message = self.message.filled(write);
        let (len, none) = (message.len(), SpliceFlags::empty());
        whole(len, || rustix::io::write(&self.source_write, message))?;
        for other in &self.others {
            whole(len, || tee(&self.source_read, other, len, none))?;
        }
        whole(len, || splice(&self.source_read, None, &self.last, None, len, none))
    }

    fn facts(&self) -> Facts {
        Facts::from([("pipe_bytes".into(), self.pipe_bytes.to_string())])
    }
}

/// There is room for all of it, so nothing less may come of it.
#[inline]
fn whole(len: usize, call: impl Fn() -> Result<usize, Errno>) -> io::Result<()> {
    match rustix::io::retry_on_intr(call)? {
        count if count == len => Ok(()),
        count => Err(io::Error::other(format!("{count} of {len} bytes went on"))),
    }
}
