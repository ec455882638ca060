//! What the kernel tells beside a message of a socket: when it was sent, and by whom. A receiver that asks for it takes each message
//! with `recvmsg(2)` and reads what came with it; a message that comes without ends the run.
//!
//! # Safety
//! Calls take pointers to local structures and to slices that live across them; what the kernel has written of control data is walked
//! with the macros of its header.
#![allow(unsafe_code)]

use super::fd::peer_gone;
use super::socket;
use crate::prelude::*;
use crate::sys;

choice! {
    pub(super) enum Asked { None = "none", Time = "time", Creds = "creds", Both = "both" }
    axis "metadata", default None: "what the receiver asks for with each message and reads: time: when it was sent (SO_TIMESTAMPNS); \
        creds: process, user and group of its sender (SO_PASSCRED); both"
}

/// Of a byte stream, whose bytes have a sender and no time.
pub(super) const CREDS: Axis =
    Axis { values: Values::OneOf(&[Asked::None.name(), Asked::Creds.name()]), ..Asked::AXIS };
/// Of UDP, whose packets have a time and no sender.
pub(super) const TIME: Axis =
    Axis { values: Values::OneOf(&[Asked::None.name(), Asked::Time.name()]), ..Asked::AXIS };

impl Asked {
    fn has_time(self) -> bool {
        matches!(self, Asked::Time | Asked::Both)
    }

    fn has_creds(self) -> bool {
        matches!(self, Asked::Creds | Asked::Both)
    }
}

/// io_uring is asked to receive bytes alone here.
pub(super) fn fit(params: &CaseParams) -> Result<(), Unsupported> {
    match params.choice() {
        Asked::None => Ok(()),
        asked if params.wait == Wait::Uring => Err(Unsupported(format!(
            "metadata={} needs a call of recvmsg for each message, and wait=uring makes none; take another wait",
            asked.name()
        ))),
        _ => Ok(()),
    }
}

/// In the coordinator, at both ends and before anything is sent: a Unix socket notes time and sender when a message is sent, and only where
/// an end has asked by then.
pub(super) fn ask(socket: &OwnedFd, params: &CaseParams) -> io::Result<()> {
    let asked: Asked = params.choice();
    for (option, is_asked) in
        [(libc::SO_TIMESTAMPNS, asked.has_time()), (libc::SO_PASSCRED, asked.has_creds())]
    {
        if is_asked {
            sys::set_socket_option(socket, libc::SOL_SOCKET, option, 1)?;
        }
    }
    Ok(())
}

/// Sizes of buffers, and what was asked for, as the kernel has it.
pub(super) fn facts(socket: BorrowedFd<'_>) -> io::Result<Facts> {
    let has = |option| match sys::socket_option(&socket, libc::SOL_SOCKET, option) {
        Ok(value) => Ok(value != 0),
        // Since Linux 6.16 a socket whose messages carry no credentials refuses to be asked for them.
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(false),
        Err(error) => Err(error),
    };
    let asked = match (has(libc::SO_TIMESTAMPNS)?, has(libc::SO_PASSCRED)?) {
        (false, false) => Asked::None,
        (true, false) => Asked::Time,
        (false, true) => Asked::Creds,
        (true, true) => Asked::Both,
    };
    let mut facts = socket::facts(socket)?;
    facts.insert("metadata".into(), asked.name().into());
    Ok(facts)
}

/// Who has sent a message, as the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sender {
    process: libc::pid_t,
    user: libc::uid_t,
    group: libc::gid_t,
}

/// What came with one message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Came {
    time_ns: Option<u64>,
    sender: Option<Sender>,
}

/// Takes messages together with what was asked for.
pub(crate) struct Metadata {
    asked: Asked,
    /// Of the first message; all come from one process.
    sender: Option<Sender>,
    /// The latest time.
    time_ns: u64,
}

impl Metadata {
    /// `None` where the case asks for nothing.
    pub(super) fn of(params: &CaseParams) -> Option<Metadata> {
        let asked: Asked = params.choice();
        (asked != Asked::None).then_some(Metadata { asked, sender: None, time_ns: 0 })
    }

    /// One call, as `recv(2)` with these flags.
    #[inline]
    pub(crate) fn receive(&mut self, fd: RawFd, buffer: &mut [u8], flags: libc::c_int) -> io::Result<usize> {
        let (count, came) = receive(fd, buffer, flags)?;
        // What the other end's close looks like: nothing, from nobody.
        if count == 0 && came.sender.is_none_or(|sender| sender.process == 0) && came.time_ns.is_none() {
            return Err(peer_gone());
        }
        self.check(came)?;
        Ok(count)
    }

    /// The time is that of the system, which may be set back while messages are on their way: that it is there is what can be asked.
    #[inline]
    fn check(&mut self, came: Came) -> io::Result<()> {
        if self.asked.has_time() {
            self.time_ns = came.time_ns.filter(|ns| *ns > 0).ok_or_else(|| without("its time"))?;
        }
        if self.asked.has_creds() {
            let sender = came.sender.filter(|sender| sender.process > 0);
            let sender = sender.ok_or_else(|| without("the credentials of its sender"))?;
            if *self.sender.get_or_insert(sender) != sender {
                return Err(io::Error::other(format!(
                    "a message came from {sender:?}, those before from others"
                )));
            }
        }
        Ok(())
    }
}

#[cold]
fn without(what: &str) -> io::Error {
    io::Error::other(format!("a message came without {what}"))
}

/// Room for both, aligned as the kernel's header wants it.
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

// SAFETY: arithmetic on numbers.
const CONTROL_BYTES: usize = unsafe {
    libc::CMSG_SPACE(size_of::<libc::timespec>() as u32) + libc::CMSG_SPACE(size_of::<libc::ucred>() as u32)
} as usize;

#[inline]
fn receive(fd: RawFd, buffer: &mut [u8], flags: libc::c_int) -> io::Result<(usize, Came)> {
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut control = Control([0; CONTROL_BYTES]);
    // SAFETY: all zeros is a valid header: no address, no parts, no control data.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    (header.msg_iov, header.msg_iovlen) = (&raw mut part, 1);
    (header.msg_control, header.msg_controllen) = (control.0.as_mut_ptr().cast(), CONTROL_BYTES as _);
    // SAFETY: the header points to what is above, all of which lives across the call.
    let count = sys::check_count(unsafe { libc::recvmsg(fd, &raw mut header, flags) })?;
    let mut came = Came::default();
    // SAFETY: the kernel has filled in as much control data as the header now says.
    let mut at = unsafe { libc::CMSG_FIRSTHDR(&raw const header) };
    // SAFETY: null or a control message inside of `control`.
    while let Some(message) = unsafe { at.as_ref() } {
        // SAFETY: the data of a control message follows its header.
        let data = unsafe { libc::CMSG_DATA(at) };
        match (message.cmsg_level, message.cmsg_type) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                // SAFETY: a control message of this kind holds a time.
                let time = unsafe { data.cast::<libc::timespec>().read_unaligned() };
                came.time_ns = Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64);
            }
            (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) => {
                // SAFETY: a control message of this kind holds credentials.
                let libc::ucred { pid, uid, gid } = unsafe { data.cast::<libc::ucred>().read_unaligned() };
                came.sender = Some(Sender { process: pid, user: uid, group: gid });
            }
            _ => {}
        }
        // SAFETY: `at` is a control message of this header.
        at = unsafe { libc::CMSG_NXTHDR(&raw const header, at) };
    }
    Ok((count, came))
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_os::socket as os;
    use std::time::SystemTime;

    fn taken(asked: Asked, options: &[libc::c_int]) -> io::Result<Metadata> {
        let (near, far) = os::seqpacket_pair().unwrap();
        for option in options {
            sys::set_socket_option(&far, libc::SOL_SOCKET, *option, 1).unwrap();
        }
        sys::send(&near, b"message").unwrap();
        let mut metadata = Metadata { asked, sender: None, time_ns: 0 };
        let mut buffer = [0; 8];
        assert_eq!(metadata.receive(far.as_raw_fd(), &mut buffer, 0)?, 7);
        assert_eq!(&buffer[..7], b"message");
        drop(near);
        assert_eq!(
            metadata.receive(far.as_raw_fd(), &mut buffer, 0).unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
        Ok(metadata)
    }

    #[test]
    fn what_was_asked_for_comes_with_the_message_and_is_that_of_its_sender() {
        let wall_ns = || SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
        let before_ns = wall_ns();
        let metadata = taken(Asked::Both, &[libc::SO_TIMESTAMPNS, libc::SO_PASSCRED]).unwrap();
        let second_ns = 1_000_000_000;
        assert!(metadata.time_ns + second_ns > before_ns && metadata.time_ns < wall_ns() + second_ns);
        let sender = metadata.sender.unwrap();
        assert_eq!(sender.process as u32, std::process::id());
        assert_eq!((sender.user, sender.group), {
            let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
            (user.as_raw(), group.as_raw())
        });
    }

    #[test]
    fn a_message_without_what_was_asked_for_is_an_error() {
        let why = |asked, options: &[libc::c_int]| taken(asked, options).map(drop).unwrap_err().to_string();
        assert!(why(Asked::Time, &[libc::SO_PASSCRED]).contains("its time"));
        assert!(why(Asked::Both, &[libc::SO_TIMESTAMPNS]).contains("credentials"));
        let mut metadata = Metadata { asked: Asked::Creds, sender: None, time_ns: 0 };
        let mut comes_from = |process| {
            let sender = Some(Sender { process, user: 0, group: 0 });
            metadata.check(Came { time_ns: None, sender })
        };
        assert!(comes_from(7).is_ok() && comes_from(7).is_ok());
        assert!(comes_from(8).unwrap_err().to_string().contains("from others"));
    }
}
