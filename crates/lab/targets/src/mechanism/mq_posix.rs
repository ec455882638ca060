//! POSIX message queues, one for each direction.
//!
//! A queue has a name for as long as it takes to open and unlink it; peers are handed descriptors, which can be polled.
//! The name is in the kernel's own list: no mounted `/dev/mqueue` is needed.
//!
//! # Safety
//! The calls take pointer and length from one slice, a text that ends with zero, or a local structure.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::FromRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Resource, getrlimit};

use super::copying::{Copying, Transport};
use super::fd::Line;
use super::{fits_sysctl, stale};
use crate::prelude::*;
use crate::sys;

pub(super) struct MqPosix;

const DEPTH: Axis = Axis {
    name: "depth",
    default: "default",
    values: Values::Count,
    about: "messages that a queue holds; default is 10, or fs.mqueue.msg_max where that is less",
};
const DEFAULT_DEPTH: u64 = 10;
const PRIORITY: Axis = Axis {
    name: "priority",
    default: "0",
    values: Values::AtLeast(0),
    about: "priority of all messages, from 0 to 32767; their receiver asks for it and checks it. A queue hands out the highest first, so that \
            messages of several priorities would not arrive in order",
};
/// `MQ_PRIO_MAX` of Linux.
const PRIORITIES: usize = 32_768;
const MSG_MAX: &str = "fs/mqueue/msg_max";

impl Mechanism for MqPosix {
    const ID: &'static str = "mq-posix";
    const ABOUT: &'static str =
        "POSIX message queues, one for each direction, all messages of one priority (axis priority)";
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::DUPLEX);
    const WAITS: &'static [Wait] = &[Wait::Block, Wait::Poll, Wait::Epoll, Wait::Spin];
    const AXES: &'static [Axis] = &[DEPTH, PRIORITY];
    const IN_SUITES: InSuites = InSuites::AtSmallSizes("fs.mqueue.msgsize_max is 8 KiB by default");
    type End = Copying<Queues>;

    fn properties(_params: &CaseParams) -> Properties {
        // A queue outlives who wrote it, and tells nobody; containers have an IPC namespace each.
        properties::of_kernel(Across::OneNamespace).with(Property::SurvivesKill, false)
    }

    fn fit(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        if host.sysctl_number(MSG_MAX).is_none() {
            return Err(Unsupported("this kernel has no POSIX message queues (CONFIG_POSIX_MQUEUE)".into()));
        }
        let priority = params.count(PRIORITY);
        if priority >= PRIORITIES {
            return Err(Unsupported(format!(
                "priority={priority} is above 32767, the highest of a message queue"
            )));
        }
        let (size, depth) = (message_bytes(params), depth(host, params));
        fits_sysctl(host, "fs/mqueue/msgsize_max", size, &format!("a message of {size} bytes"))?;
        fits_sysctl(host, MSG_MAX, depth, &format!("depth={depth}"))?;
        let (needed, most) = (2 * queue_bytes(size, depth), rlimit());
        if needed > most {
            return Err(Unsupported(format!(
                "two queues of {depth} messages of {size} bytes take {needed} bytes, more than RLIMIT_MSGQUEUE = \
                 {most}; raise it with ulimit -q {needed}, or lower depth"
            )));
        }
        Ok(())
    }

    fn create(host: &Host, params: &CaseParams) -> io::Result<[EndResources; 2]> {
        let make = || make(message_bytes(params), depth(host, params));
        let (request, reply) = (make()?, make()?);
        let (request2, reply2) = (request.try_clone()?, reply.try_clone()?);
        Ok([EndResources::of([reply, request]), EndResources::of([request2, reply2])])
    }

    fn attach(_side: Side, mut resources: EndResources, params: &CaseParams) -> io::Result<Self::End> {
        let line = Line::take(&mut resources, params.wait)?;
        let most_bytes = attributes(line.writer.fd())?.mq_msgsize as usize;
        let priority = params.count(PRIORITY) as libc::c_uint;
        Copying::new(Queues { line, most_bytes, priority }, params.payload_bytes)
    }
}

/// A queue for messages of no bytes cannot be made.
fn message_bytes(params: &CaseParams) -> u64 {
    params.payload_bytes.max(1) as u64
}

fn depth(host: &Host, params: &CaseParams) -> u64 {
    let most = host.sysctl_number(MSG_MAX).unwrap_or(DEFAULT_DEPTH);
    params.number(DEPTH.name).map_or(DEFAULT_DEPTH.min(most), |depth| depth as u64)
}

/// What a queue counts for towards RLIMIT_MSGQUEUE: each message with its header, and a node for each priority that
/// may be waiting (getrlimit(2)).
fn queue_bytes(size: u64, depth: u64) -> u64 {
    const HEADER: u64 = 48;
    const NODE: u64 = 48;
    const PRIORITIES: u64 = 32_768;
    depth.saturating_mul(size.saturating_add(HEADER)).saturating_add(depth.min(PRIORITIES) * NODE)
}

fn rlimit() -> u64 {
    getrlimit(Resource::Msgqueue).current.unwrap_or(u64::MAX)
}

fn make(size: u64, depth: u64) -> io::Result<OwnedFd> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = format!("/{}", stale::name(WHAT, COUNT.fetch_add(1, Ordering::Relaxed)));
    let name = CString::new(name).expect("a name of letters and digits");
    // SAFETY: all zeros is a valid value of these numbers; some C libraries have more of them than are documented.
    let mut attributes: libc::mq_attr = unsafe { MaybeUninit::zeroed().assume_init() };
    attributes.mq_maxmsg = depth as _;
    attributes.mq_msgsize = size as _;
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
    // SAFETY: the name ends with zero; mode and attributes are what O_CREAT asks for.
    let queue = unsafe { libc::mq_open(name.as_ptr(), flags, 0o600 as libc::mode_t, &raw const attributes) };
    let queue = sys::check(queue).map_err(explain)?;
    // SAFETY: the call made this descriptor, and no other code has it.
    let queue = unsafe { OwnedFd::from_raw_fd(queue) };
    // SAFETY: the name ends with zero.
    sys::check(unsafe { libc::mq_unlink(name.as_ptr()) })?;
    Ok(queue)
}

fn explain(error: io::Error) -> io::Error {
    let why = match error.raw_os_error() {
        Some(libc::EMFILE) => format!(
            "other queues of this user take too much of RLIMIT_MSGQUEUE = {}; close them, or raise it with ulimit -q",
            rlimit()
        ),
        Some(libc::ENOSPC) => "there are fs.mqueue.queues_max queues already; raise it with sysctl".into(),
        Some(libc::ENOSYS) => "this kernel has no POSIX message queues".into(),
        _ => return error,
    };
    io::Error::new(error.kind(), format!("cannot open a message queue: {why} ({error})"))
}

const WHAT: &str = "mq";

/// Takes away the queues of programs that were killed between opening and unlinking, where they can be listed.
pub(super) fn cleanup() {
    stale::clean_up_dir(Path::new("/dev/mqueue"), WHAT, |path| {
        let _ = fs::remove_file(path);
    });
}

fn attributes(queue: BorrowedFd<'_>) -> io::Result<libc::mq_attr> {
    let mut attributes = MaybeUninit::<libc::mq_attr>::zeroed();
    // SAFETY: the kernel writes the structure that is passed.
    sys::check(unsafe { libc::mq_getattr(queue.as_raw_fd(), attributes.as_mut_ptr()) })?;
    // SAFETY: zeroed, then written by the kernel; any numbers are a valid value.
    Ok(unsafe { attributes.assume_init() })
}

pub(super) struct Queues {
    line: Line,
    most_bytes: usize,
    priority: libc::c_uint,
}

impl Transport for Queues {
    #[inline]
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        let (pointer, len, priority) = (message.as_ptr().cast(), message.len(), self.priority);
        // SAFETY: pointer and length come from one slice.
        self.line
            .writer
            .call(|queue| sys::check_count(unsafe { libc::mq_send(queue, pointer, len, priority) } as isize))
            .map(drop)
    }

    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (pointer, len) = (buffer.as_mut_ptr().cast(), buffer.len());
        let mut priority = 0;
        // Not asked for where it is 0, as programs without priorities do.
        let place = if self.priority == 0 { std::ptr::null_mut() } else { &raw mut priority };
        let count = self.line.reader.wait_and(|queue| {
            // SAFETY: pointer and length come from one slice; the priority has a place, or none is asked for.
            sys::check_count(unsafe { libc::mq_receive(queue, pointer, len, place) })
        })?;
        if priority != self.priority {
            let wanted = self.priority;
            return Err(io::Error::other(format!(
                "a message of priority {priority} came in place of {wanted}"
            )));
        }
        Ok(count)
    }

    fn least_buffer_bytes(&self) -> usize {
        self.most_bytes
    }

    fn facts(&self) -> io::Result<Facts> {
        let attributes = attributes(self.line.writer.fd())?;
        Ok(Facts::from([
            ("queue_messages".into(), attributes.mq_maxmsg.to_string()),
            ("priority".into(), self.priority.to_string()),
            ("queue_message_bytes".into(), attributes.mq_msgsize.to_string()),
        ]))
    }
}
