//! System V message queues, one for each direction.
//!
//! These have no descriptors: a queue is a number, and stays until somebody removes it. The coordinator holds a guard that
//! does so when the run is over. Where the program may have an IPC namespace of its own (see [`Host::look`]), queues also
//! go with it, whatever kills it. Elsewhere their keys carry our process id, and the next start removes those of the
//! dead; a mark in their mode tells them from queues that are not ours.
//!
//! # Safety
//! The calls take pointer and length from one slice that begins with the type of the message, or a local structure.
#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::mem::MaybeUninit;

use super::copying::{Copying, Transport};
use super::{fd, stale};
use crate::sys;
use weighbridge_harness::contract::{Caps, EndResources, Facts, InSuites, Mechanism, Side, Unsupported};
use weighbridge_harness::host::Host;
use weighbridge_harness::params::{CaseParams, Wait};

/// `msgget(2)`.
#[derive(Debug)]
pub struct MsgSysv;

impl Mechanism for MsgSysv {
    const ID: &'static str = "msg-sysv";
    const ABOUT: &'static str = "System V message queues, one for each direction, all messages of one type";
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::DUPLEX);
    const WAITS: &'static [Wait] = &[Wait::Block, Wait::Spin];
    const IN_SUITES: InSuites = InSuites::AtSmallSizes("kernel.msgmax is 8 KiB by default");
    type End = Copying<Queues>;

    fn fit(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        let size = params.payload_bytes as u64;
        for (path, what) in [("kernel/msgmax", "a message"), ("kernel/msgmnb", "a queue")] {
            let name = path.replace('/', ".");
            let Some(most) = host.sysctl_number(path) else {
                return Err(Unsupported(
                    "this kernel has no System V message queues (CONFIG_SYSVIPC)".into(),
                ));
            };
            if size > most {
                return Err(Unsupported(format!(
                    "a message of {size} bytes exceeds {name} = {most}, the most that {what} holds; \
                     raise it with sysctl {name}={size}"
                )));
            }
        }
        Ok(())
    }

    fn create(host: &Host, _params: &CaseParams) -> io::Result<[EndResources; 2]> {
        let (request, reply) = (Queue::make()?, Queue::make()?);
        let private = u64::from(host.has_private_ipc);
        let ids = [request.0 as u64, reply.0 as u64];
        let near = EndResources {
            words: vec![ids[1], ids[0], private],
            guard: Some(Box::new([request, reply])),
            ..EndResources::default()
        };
        Ok([near, EndResources { words: vec![ids[0], ids[1], private], ..EndResources::default() }])
    }

    fn attach(_side: Side, resources: EndResources, params: &CaseParams) -> io::Result<Self::End> {
        let [incoming, outgoing, private] = resources.words[..] else {
            unreachable!("plan hands over three words")
        };
        let flags = if params.wait == Wait::Spin { libc::IPC_NOWAIT } else { 0 };
        let ends =
            Queues { incoming: incoming as i32, outgoing: outgoing as i32, flags, is_private: private != 0 };
        Copying::new(ends, params.payload_bytes)
    }
}

/// First byte of our keys; below it two bits of a count, and a process id, which has 22 bits at most.
const KEY_TAG: i32 = 0x57 << 24;
const KEY_TAG_MASK: i32 = 0xff << 24;
const PID_BITS: u32 = 22;
/// For its owner, to read and write. The execute bits mean nothing to a queue: that is our mark.
const MODE: i32 = 0o711;

/// A queue, removed when dropped.
#[derive(Debug)]
pub(crate) struct Queue(pub(crate) i32);

impl Queue {
    /// A new one.
    pub(crate) fn make() -> io::Result<Queue> {
        for count in 0..4 {
            let key = KEY_TAG | count << PID_BITS | std::process::id() as i32;
            // SAFETY: only numbers are passed.
            let made = unsafe { libc::msgget(key, libc::IPC_CREAT | libc::IPC_EXCL | MODE) };
            match sys::check(made) {
                Ok(made) => return Ok(Queue(made)),
                Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => {
                    return Err(io::Error::other(
                        "there are kernel.msgmni message queues already; remove some (ipcs -q), or raise it with sysctl",
                    ));
                }
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("all four keys of this process are taken by queues of other runs"))
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        remove(self.0);
    }
}

fn remove(id: i32) {
    // SAFETY: removal reads and writes no structure. A queue that is gone already is no error to us.
    unsafe { libc::msgctl(id, libc::IPC_RMID, std::ptr::null_mut()) };
}

/// Removes the queues of dead programs: our key, our mark, our user.
pub fn cleanup() {
    let Ok(table) = fs::read_to_string("/proc/sysvipc/msg") else { return };
    let us = rustix::process::geteuid().as_raw();
    for line in table.lines().skip(1) {
        // key msqid perms cbytes qnum lspid lrpid uid gid cuid …; perms in octal, the rest in decimal.
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[key, id, mode, _, _, _, _, _, _, creator, ..] = &words[..] else { continue };
        let (Ok(key), Ok(id)) = (key.parse::<i32>(), id.parse()) else { continue };
        let is_ours = key & KEY_TAG_MASK == KEY_TAG
            && i32::from_str_radix(mode, 8) == Ok(MODE)
            && creator.parse() == Ok(us);
        if is_ours && stale::is_dead(key & ((1 << PID_BITS) - 1)) {
            remove(id);
        }
    }
}

/// A queue to receive from, and one to send to.
pub struct Queues {
    incoming: i32,
    outgoing: i32,
    flags: i32,
    is_private: bool,
}

/// Repeats a call while there is nothing, or no room, and for a signal. Only with IPC_NOWAIT is that so in a good run.
#[inline]
fn until_done(call: impl Fn() -> isize) -> io::Result<usize> {
    loop {
        match sys::check_count(call()) {
            Ok(count) => return Ok(count),
            Err(error) if fd::is_transient(&error) || error.raw_os_error() == Some(libc::ENOMSG) => {
                std::hint::spin_loop();
            }
            Err(error) => return Err(error),
        }
    }
}

impl Transport for Queues {
    /// The type, a `long` above 0.
    const PREFIX: &'static [u8] = &(1 as libc::c_long).to_ne_bytes();

    #[inline]
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        let (pointer, len) = (message.as_ptr().cast(), message.len() - Self::PREFIX.len());
        // SAFETY: pointer and length come from one slice, which begins with the type, and that is not counted.
        until_done(|| unsafe { libc::msgsnd(self.outgoing, pointer, len, self.flags) } as isize)?;
        Ok(())
    }

    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (pointer, len) = (buffer.as_mut_ptr().cast(), buffer.len() - Self::PREFIX.len());
        // SAFETY: pointer and length come from one slice, which begins with the type, and that is not counted.
        until_done(|| unsafe { libc::msgrcv(self.incoming, pointer, len, 0, self.flags) })
    }

    fn facts(&self) -> io::Result<Facts> {
        let namespace = if self.is_private { "private" } else { "shared" };
        let queue_bytes = queue_bytes(self.outgoing)?;
        Ok(Facts::from([
            ("ipc_namespace".into(), namespace.into()),
            ("queue_bytes".into(), queue_bytes.to_string()),
        ]))
    }
}

fn queue_bytes(id: i32) -> io::Result<u64> {
    let mut state = MaybeUninit::<libc::msqid_ds>::zeroed();
    // SAFETY: the kernel writes the structure that is passed.
    sys::check(unsafe { libc::msgctl(id, libc::IPC_STAT, state.as_mut_ptr()) })?;
    // SAFETY: zeroed, then written by the kernel; any numbers are a valid value.
    Ok(unsafe { state.assume_init() }.msg_qbytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn exists(id: i32) -> bool {
        queue_bytes(id).is_ok()
    }

    #[test]
    fn a_queue_is_removed_with_its_guard() {
        let queue = Queue::make().unwrap();
        let id = queue.0;
        assert!(exists(id));
        drop(queue);
        assert!(!exists(id));
    }

    #[test]
    fn queues_of_the_dead_are_removed_and_others_are_not() {
        let mut child = Command::new("/bin/true").spawn().unwrap();
        let dead = child.id() as i32;
        child.wait().unwrap();
        // SAFETY: only numbers are passed.
        let make = |key, mode| unsafe { libc::msgget(key, libc::IPC_CREAT | libc::IPC_EXCL | mode) };
        let of_dead = make(KEY_TAG | dead, MODE);
        let unmarked = make(KEY_TAG | 1 << PID_BITS | dead, 0o600);
        let ours = Queue::make().unwrap();
        cleanup();
        let left = [of_dead, unmarked, ours.0].map(exists);
        remove(unmarked);
        assert_eq!(left, [false, true, true]);
    }
}
