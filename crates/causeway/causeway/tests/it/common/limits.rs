//! A process that may do less: limits lowered, system calls that fail.
//!
//! # Safety
//!
//! A filter of system calls is loaded into the calling process: `prctl` and `seccomp` get a pointer to a program that lives
//! longer than the call.
#![allow(dead_code, unsafe_code)]

use causeway_testkit::{Cause, skipped};
use nix::libc;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::Peer;

/// Raises the soft limit of open files to the hard one, for tests that have both ends of many connections in one process.
pub fn allow_many_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
}

/// Lowers a soft limit of this process, runs `work`, and raises it again.
pub fn limited<T>(resource: Resource, current: u64, work: impl FnOnce() -> T) -> T {
    let before = getrlimit(resource);
    setrlimit(resource, Rlimit { current: Some(current), ..before }).unwrap();
    let result = work();
    setrlimit(resource, before).unwrap();
    result
}

/// Runs `role` as a process of its own, which must succeed. It gets a path where no group is served.
pub fn in_a_process_of_its_own(role: &str, number: u64) {
    let dir = tempfile::tempdir().unwrap();
    Peer::start(role, &dir.path().join("group"), number).succeed();
}

/// From now on, `call` (with this value as its n-th argument) fails with `errno` in this process, which is
/// [of its own](in_a_process_of_its_own): where no filter can be loaded, the test is skipped, and the process ends here, with success.
pub fn forbid(call: u32, argument: Option<(u32, u32)>, errno: i32) {
    if !cfg!(target_arch = "x86_64") {
        skipped(Cause::Hardware("x86-64"), "the filter of system calls is written for it");
        std::process::exit(0);
    }
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const JUMP_IF: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let line = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    let mut program = vec![line(LOAD, 0, 0, 0)];
    match argument {
        None => program.push(line(JUMP_IF, call, 0, 1)),
        Some((index, value)) => {
            program.push(line(JUMP_IF, call, 0, 3));
            program.push(line(LOAD, 16 + 8 * index, 0, 0));
            program.push(line(JUMP_IF, value, 0, 1));
        }
    }
    program.push(line(RETURN, libc::SECCOMP_RET_ERRNO | errno as u32, 0, 0));
    program.push(line(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0));
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: numbers.
    let mut done = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }.into();
    if done == 0 {
        // SAFETY: `program` points to as many lines as it says, which live until the end of this function.
        done = unsafe {
            let filter = std::ptr::from_ref(&program);
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                libc::SECCOMP_FILTER_FLAG_TSYNC,
                filter,
            )
        };
    }
    let error = std::io::Error::last_os_error();
    match (done, error.raw_os_error()) {
        (0, _) => {}
        (-1, Some(libc::EPERM | libc::EACCES | libc::EINVAL | libc::ENOSYS)) => {
            skipped(Cause::Rights("seccomp"), format!("no filter of system calls can be loaded: {error}"));
            std::process::exit(0);
        }
        _ => panic!("{done}: {error}"),
    }
}
