//! Namespaces and file systems of our own, so that nothing with a name is seen by others or outlives us.
//!
//! # Safety
//!
//! `unshare` with CLONE_NEWIPC changes which message queues, semaphores and shared memory segments the thread can
//! name, with CLONE_NEWNET in which network its new sockets are, with CLONE_NEWUSER what it may do. It touches no memory and no descriptor table. `ioctl` is
//! given a structure of the kernel's form that lives across the call.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use causeway_os::{Context, Error, Result};

/// Limits that belong to the IPC namespace and begin at the kernel's defaults in a new one.
const IPC_LIMITS: [&str; 12] = [
    "fs/mqueue/msg_max",
    "fs/mqueue/msgsize_max",
    "fs/mqueue/queues_max",
    "fs/mqueue/msg_default",
    "fs/mqueue/msgsize_default",
    "kernel/msgmax",
    "kernel/msgmnb",
    "kernel/msgmni",
    "kernel/shmmax",
    "kernel/shmall",
    "kernel/shmmni",
    "kernel/sem",
];

/// Gives the calling thread an IPC namespace of its own: names of message queues, semaphores and segments made from now on are seen by no
/// other process and end with the last process in it. The limits keep, as far as the kernel lets us, the values of the old namespace, so
/// that a measurement sees the machine as its owner set it.
///
/// Called before there are other threads, it holds for the whole process. What already is open or attached stays so.
///
/// # Errors
/// `EPERM` without CAP_SYS_ADMIN.
pub fn private_ipc() -> Result<()> {
    let path = |name: &str| format!("/proc/sys/{name}");
    let values = IPC_LIMITS.map(|name| std::fs::read_to_string(path(name)));
    // SAFETY: descriptors stay shared between the threads; see the module's text.
    unsafe { unshare_unsafe(UnshareFlags::NEWIPC) }.context("leave", || "the IPC namespace")?;
    for (name, value) in IPC_LIMITS.into_iter().zip(values) {
        // Best effort: an old kernel has fewer of these, a container may not write them.
        if let Ok(value) = value {
            let _ = std::fs::write(path(name), value);
        }
    }
    Ok(())
}

/// Gives the calling thread a network of its own with nothing but a loopback interface, which is up and takes multicast; `EPERM` without
/// CAP_SYS_ADMIN. Sockets that it makes from now on stay in it wherever they are passed, and it ends with the last of them. There is no way
/// back.
pub fn private_net() -> Result<()> {
    let on = || "the network namespace";
    // SAFETY: descriptors stay shared between the threads; see the module's text.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.context("leave", on)?;
    loopback_up()
}

/// A network with nothing but a loopback interface that is up. It ends with the last of this value, the sockets that were made in it, and
/// the processes in it.
#[derive(Debug)]
pub struct Network(OwnedFd);

impl Network {
    /// Makes one; `EPERM` without CAP_SYS_ADMIN.
    pub fn new() -> Result<Network> {
        on_a_thread(|| {
            private_net()?;
            let file = std::fs::File::open("/proc/thread-self/ns/net");
            file.map(|file| Network(file.into())).context("open", || "the network namespace of a thread")
        })
    }

    /// What `work` does on a thread that is in this network; `EPERM` without CAP_SYS_ADMIN.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        on_a_thread(|| {
            move_into_link_name_space(self.as_fd(), Some(LinkNameSpaceType::Network))
                .context("enter", || "a network namespace")?;
            work()
        })
    }
}

impl AsFd for Network {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Gives the calling process a user namespace of its own, in which it may do what root may do: make networks, for one. Outside of it the process
/// keeps the rights that it had. There is no way back, and files that belong to other users look as if nobody owned them.
///
/// # Errors
/// `EINVAL` in a process with several threads; `EPERM`, `ENOSPC` or `EACCES` where the machine allows no such namespace.
pub fn private_user() -> Result<()> {
    // SAFETY: descriptors stay shared; the kernel refuses it to a process with several threads.
    unsafe { unshare_unsafe(UnshareFlags::NEWUSER) }.context("leave", || "the user namespace")
}

/// May this process make a network, at once or in a user namespace of its own? That is tried by a child, which ends.
pub fn may_make_networks() -> Result<()> {
    let on = || "the network namespace, in a user namespace of our own either";
    // SAFETY: the child of a process with threads calls nothing but the kernel, and then ends without running anything of ours.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: as above; `_exit` runs no handlers.
        unsafe {
            let refused = libc::unshare(libc::CLONE_NEWNET) < 0
                && libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET) < 0;
            libc::_exit(if refused { *libc::__errno_location() } else { 0 })
        }
    }
    let child = rustix::process::Pid::from_raw(pid)
        .ok_or_else(|| Error::last("start", "a process that tries to make a network"))?;
    let waited = rustix::io::retry_on_intr(|| {
        rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty())
    });
    let status = waited.context("wait for", || "a process that tries to make a network")?;
    match status.and_then(|(_, status)| status.exit_status()) {
        Some(0) => Ok(()),
        code => {
            Err(Error::new("leave", on(), std::io::Error::from_raw_os_error(code.unwrap_or(libc::EPERM))))
        }
    }
}

/// A thread of its own, whose namespaces end with it. A panic of `work` goes on in the caller.
fn on_a_thread<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        scope.spawn(work).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Brings the loopback interface of the calling thread's network up, with multicast: a new network and a kernel without a distribution have it
/// down. `EPERM` without CAP_NET_ADMIN, `EAFNOSUPPORT` from a kernel without IPv4.
pub fn loopback_up() -> Result<()> {
    let on = || "this network";
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)
        .context("open a socket in", on)?;
    // SAFETY: all zero is a valid value of this plain structure: no name, no flags.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (place, byte) in request.ifr_name.iter_mut().zip(b"lo") {
        *place = byte.cast_signed() as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING | libc::IFF_MULTICAST) as libc::c_short;
    // SAFETY: the request is initialized, and the kernel only reads it here.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as libc::Ioctl, &raw const request) } < 0 {
        return Err(Error::last("bring up", "the loopback interface"));
    }
    Ok(())
}

/// An empty file system in memory that is mounted nowhere, as a descriptor of its root directory. What is made in it is reached through this
/// descriptor only (and `/proc/PID/fd` of those who hold it), and is gone when the last descriptor into it is closed, whatever kills its users.
/// Mode 0700; no devices, no programs. `EPERM` without CAP_SYS_ADMIN, `ENOSYS` before Linux 5.2.
pub fn private_tmpfs() -> Result<OwnedFd> {
    mount_nowhere("tmpfs", Some(("mode", "0700"))).context("mount", || "a private tmpfs")
}

/// Mounts a file system at no place of the directory tree, without devices and programs: its root directory. The mount ends with the last
/// descriptor into it.
pub(crate) fn mount_nowhere(kind: &str, option: Option<(&str, &str)>) -> rustix::io::Result<OwnedFd> {
    let context = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    if let Some((name, value)) = option {
        rustix::mount::fsconfig_set_string(context.as_fd(), name, value)?;
    }
    rustix::mount::fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC
        | MountAttrFlags::MOUNT_ATTR_NOSUID;
    rustix::mount::fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// Makes a FIFO `name` in directory `dir`, for its owner only.
pub fn make_fifo(dir: BorrowedFd<'_>, name: &str) -> Result<()> {
    rustix::fs::mknodat(dir, name, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
        .context("make", || format!("FIFO {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_testkit::{Cause, skipped};
    use rustix::fs::OFlags;
    use rustix::io::{Errno, read, write};

    type Forbidden = Box<dyn std::error::Error + Send + Sync>;

    /// What a thread returns that this machine forbids to make namespaces.
    fn forbidden<T>(result: Result<T>) -> std::result::Result<T, Forbidden> {
        match result {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS)) => {
                Err(error.into())
            }
            other => Ok(other.unwrap_or_else(|error: Error| panic!("{error}"))),
        }
    }

    fn unless_forbidden<T>(made: std::result::Result<T, Forbidden>) -> Option<T> {
        made.inspect_err(|error| skipped(Cause::Rights("namespaces"), error)).ok()
    }

    #[test]
    fn a_private_ipc_namespace_is_another_one_with_the_same_limits() {
        // On a thread of its own: the namespace goes with it.
        let thread = std::thread::spawn(|| {
            let namespace = || std::fs::read_link("/proc/thread-self/ns/ipc").unwrap();
            forbidden(private_ipc())?;
            let second = namespace();
            // Values that no kernel has by default, in a namespace where no other process sees them.
            let limits = [
                ("fs/mqueue/msg_max", "23\n"),
                ("kernel/msgmax", "8179\n"),
                ("kernel/sem", "31999\t1023999999\t499\t31999\n"),
            ];
            let path = |name| format!("/proc/sys/{name}");
            for (name, value) in limits {
                std::fs::write(path(name), value).map_err(|error| format!("cannot write {name}: {error}"))?;
            }
            private_ipc().unwrap();
            assert_ne!(namespace(), second);
            for (name, value) in limits {
                assert_eq!(std::fs::read_to_string(path(name)).unwrap(), value, "{name}");
            }
            Ok(())
        });
        unless_forbidden(thread.join().unwrap());
    }

    #[test]
    fn a_private_network_has_a_loopback_of_its_own() {
        use std::net::{TcpListener, TcpStream};
        let outside = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = outside.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            forbidden(private_net())?;
            assert!(TcpStream::connect(address).is_err(), "what listens outside is not here");
            Ok(TcpListener::bind(address).unwrap())
        });
        // The socket keeps its network when the thread is gone, and is not reached from outside.
        let Some(inside) = unless_forbidden(thread.join().unwrap()) else { return };
        let _client = TcpStream::connect(address).unwrap();
        inside.set_nonblocking(true).unwrap();
        assert!(inside.accept().is_err() && outside.accept().is_ok());
    }

    #[test]
    fn networks_can_be_made_where_that_was_said() {
        let may = may_make_networks();
        let made = Network::new();
        // Root makes one at once; another user needs a user namespace, which a process with threads cannot have.
        if let Err(error) = &may {
            assert!(made.is_err(), "a network was made, although: {error}");
        }
        if rustix::process::geteuid().is_root() && made.is_ok() {
            may.unwrap();
        }
        let refused = private_user().unwrap_err();
        assert!(refused.raw_os_error().is_some(), "this process has several threads: {refused}");
    }

    #[test]
    fn a_fifo_in_a_private_tmpfs_works_and_has_no_name_elsewhere() {
        let mounts = || std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let before = mounts();
        let Some(dir) = unless_forbidden(forbidden(private_tmpfs())) else { return };
        assert_eq!(mounts(), before);
        assert_eq!(rustix::fs::fstat(&dir).unwrap().st_mode & 0o7777, 0o700);
        make_fifo(dir.as_fd(), "pipe").unwrap();
        assert_eq!(make_fifo(dir.as_fd(), "pipe").unwrap_err().raw_os_error(), Some(libc::EEXIST));
        let open = |flags| rustix::fs::openat(&dir, "pipe", flags | OFlags::CLOEXEC, Mode::empty());
        let reader = open(OFlags::RDONLY | OFlags::NONBLOCK).unwrap();
        let writer = open(OFlags::WRONLY).unwrap();
        // The open ends keep it alive when the directory is gone.
        drop(dir);
        assert_eq!(write(&writer, b"through"), Ok(7));
        let mut buf = [0; 16];
        assert_eq!((read(&reader, &mut buf), &buf[..7]), (Ok(7), &b"through"[..]));
        assert_eq!(read(&reader, &mut buf), Err(Errno::AGAIN));
    }

    #[test]
    fn a_fifo_in_a_plain_directory_is_for_its_owner_only() {
        let dir = tempfile::tempdir().unwrap();
        let fd = std::fs::File::open(dir.path()).unwrap();
        make_fifo(fd.as_fd(), "pipe").unwrap();
        let mode = rustix::fs::statat(&fd, "pipe", rustix::fs::AtFlags::empty()).unwrap().st_mode;
        assert_eq!((FileType::from_raw_mode(mode), mode & 0o077), (FileType::Fifo, 0));
    }
}
