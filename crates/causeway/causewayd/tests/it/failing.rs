//! System calls of causewayd that take a descriptor, a mapping, a thread or a process fail, each once: whoever asked may lose what it asked for,
//! and its connection; nobody else loses anything, and nothing is left.
//!
//! causewayd runs under ptrace, and the k-th of these calls fails without being made, for all k of a scene.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use causeway_bus::client::{Bus as Client, Error};
use causeway_bus::wire::{Body, Builder};
use causeway_bus::{Connection as Member, ConnectionOptions, Incoming, Payload};
use causeway_testkit::Call;
use nix::libc;

use crate::support::*;

/// How many calls fail one after the other: one, and as many as while descriptors are short for a while.
const LENGTHS: [u64; 2] = [1, 12];

/// Which call is the first to fail, counted from 0 since this was set, `u64::MAX` for none; and how many fail.
struct Failing {
    at: AtomicU64,
    length: AtomicU64,
    /// Only those fail that start threads.
    are_threads: AtomicBool,
    seen: AtomicU64,
    what: Mutex<String>,
}

impl Failing {
    fn error_of(&self, call: &Call) -> Option<i32> {
        let [first, second, third, fourth, fifth, _] = call.arguments;
        let (name, error) = match call.number as i64 {
            libc::SYS_accept4 => ("accept4", libc::EMFILE),
            libc::SYS_socket => ("socket", libc::EMFILE),
            libc::SYS_socketpair => ("socketpair", libc::EMFILE),
            libc::SYS_pipe2 => ("pipe2", libc::EMFILE),
            libc::SYS_openat => ("openat", libc::EMFILE),
            libc::SYS_eventfd2 => ("eventfd2", libc::EMFILE),
            libc::SYS_memfd_create => ("memfd_create", libc::EMFILE),
            libc::SYS_pidfd_open => ("pidfd_open", libc::EMFILE),
            libc::SYS_dup | libc::SYS_dup3 => ("dup", libc::EMFILE),
            libc::SYS_fcntl if second == libc::F_DUPFD_CLOEXEC as u64 => ("dup", libc::EMFILE),
            libc::SYS_getsockopt if third == libc::SO_PEERPIDFD as u64 => ("SO_PEERPIDFD", libc::EMFILE),
            libc::SYS_epoll_ctl if second == libc::EPOLL_CTL_ADD as u64 => ("epoll_ctl", libc::ENOSPC),
            libc::SYS_ftruncate | libc::SYS_fallocate => ("ftruncate", libc::ENOSPC),
            // Of files, and stacks of threads; anonymous memory is the allocator's.
            libc::SYS_mmap if fifth as i32 >= 0 || fourth & libc::MAP_STACK as u64 != 0 => {
                ("mmap", libc::ENOMEM)
            }
            libc::SYS_clone | libc::SYS_vfork | libc::SYS_fork => ("fork", libc::EAGAIN),
            libc::SYS_clone3 => ("thread", libc::EAGAIN),
            _ => return None,
        };
        if self.are_threads.load(Ordering::Relaxed) && name != "thread" {
            return None;
        }
        let number = self.seen.fetch_add(1, Ordering::Relaxed);
        let since = number.checked_sub(self.at.load(Ordering::Relaxed))?;
        if since >= self.length.load(Ordering::Relaxed) {
            return None;
        }
        *self.what.lock().unwrap() = format!("{name}({first}, {second}, {third}, {fourth}, {fifth})");
        Some(error)
    }
}

/// Calls that stay unanswered are no failure: who was not heard has its own deadline.
fn call(client: &mut Client, to: &str, member: &str) -> Result<Vec<u8>, Error> {
    let call = Builder::call(PATH, member).destination(to).interface(INTERFACE);
    client.call(&call.body(Body::default().blob(&[7; 100_000])), Duration::from_secs(5))
}

/// Takes what has come, and answers calls.
fn serve(member: &mut Member) -> Result<(), causeway_bus::Error> {
    while let Some(incoming) = member.next(Some(Duration::from_millis(1)))? {
        if let Incoming::Call(call) = incoming {
            member.reply(&call, text("answer"))?;
        }
    }
    Ok(())
}

/// Everything for which causewayd needs descriptors, mappings, threads or processes. Each part may fail, and ends.
fn act(bus: &Broker, path: &std::path::Path) {
    if let Ok(mut client) = Client::open(&bus.address) {
        let _ = client.request_name("com.example.Acting", 0);
        let _ = call(&mut client, "a.Service", "Start");
        let _ = client.ask_driver("ReloadConfig", Body::default());
        let options =
            ConnectionOptions { call_timeout: Duration::from_secs(5), ..ConnectionOptions::default() };
        if let Ok(mut member) = Member::open_with(path, options) {
            let _ = member.use_descriptor();
            // A long message of a client, and a descriptor and a long one of a member.
            let to = member.unique_name().to_owned();
            let long = Builder::call(PATH, "Take").destination(&to).body(Body::default().blob(&[7; 3 << 20]));
            let _ = client.send(&long);
            let _ = serve(&mut member);
            let payload = Payload::from(Body::default().blob(&[7; 100_000])).descriptor(file("x"));
            let _ = member.call_without_reply(client.unique_name(), PATH, INTERFACE, "Take", payload);
            let _ = client.ask_driver("GetId", Body::default());
        }
        // One that leaves with a descriptor that nobody has taken.
        let file = file("y");
        let half = Builder::signal(PATH, INTERFACE, "Half").unix_fds(1);
        let _ = client.send_with_fds(&half, &[std::os::fd::AsFd::as_fd(&file)]);
    }
}

#[test]
fn a_call_of_the_kernel_that_fails_costs_only_the_one_that_asked() {
    if !has_ptrace() {
        return;
    }
    own_process!();
    let folder = temp_dir("failing");
    write_service(folder.path(), "a.Service", "/bin/false", "");
    let config = with_services(&folder, "");
    let bus = Broker::native_with(&["--config-file", &config, "--laggard-deadline", "20s"]);
    let path = bus.path();
    let failing = Failing {
        at: u64::MAX.into(),
        length: 1.into(),
        are_threads: false.into(),
        seen: 0.into(),
        what: Mutex::default(),
    };
    let traced = Traced::seize_running(bus.child.pid() as i32);
    std::thread::scope(|scope| {
        let acting = scope.spawn(|| {
            let (mut one, mut two, mut witness) = (bus.member(), bus.member(), bus.client());
            // Others are not touched.
            let mut check = || {
                exchange(&mut one, &mut two);
                sync(&mut witness);
                ask_bus(&mut one);
            };
            let round = |first: u64, length: u64| {
                failing.seen.store(0, Ordering::Relaxed);
                failing.length.store(length, Ordering::Relaxed);
                failing.at.store(first, Ordering::Relaxed);
                act(&bus, &path);
                failing.at.store(u64::MAX, Ordering::Relaxed);
                failing.seen.load(Ordering::Relaxed)
            };
            let calls = round(u64::MAX, 0);
            assert!(calls > 20, "the scene has too few calls that can fail: {calls}");
            check();
            let before = Held::by(bus.child.pid());
            for length in LENGTHS {
                for first in (0..calls).step_by(length.min(4) as usize) {
                    round(first, length);
                    let at =
                        || format!("{length} calls from {first} on failed, {}", failing.what.lock().unwrap());
                    check();
                    // New ones come.
                    Client::open(&bus.address).unwrap_or_else(|error| panic!("{}: {error}", at()));
                    let mut new = Member::open(&path).unwrap_or_else(|error| panic!("{}: {error}", at()));
                    new.use_descriptor().unwrap_or_else(|error| panic!("{}: {error}", at()));
                }
                // Threads that close descriptors end after a while, and no other one starts.
                let is_closer = |task: std::io::Result<std::fs::DirEntry>| {
                    std::fs::read_to_string(task.unwrap().path().join("comm"))
                        .is_ok_and(|name| name == "closer\n")
                };
                eventually("a thread stays", || {
                    let tasks = std::fs::read_dir(format!("/proc/{}/task", bus.child.pid())).unwrap();
                    !tasks.into_iter().any(is_closer)
                });
                failing.are_threads.store(true, Ordering::Relaxed);
                assert!(round(0, u64::MAX) > 0, "no thread is started");
                failing.are_threads.store(false, Ordering::Relaxed);
                let held = || {
                    check();
                    Held::by(bus.child.pid())
                };
                let what = format!("something is left after {length} calls failed, and there was {before:?}");
                eventually_seen(&what, held, |now| now.is_within(before));
            }
            eprintln!("each of {calls} calls failed");
        });
        traced.run_failing(|call| failing.error_of(call), || acting.is_finished());
        traced.kill();
        if let Err(panic) = acting.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// What was rung is taken by another member between the moment in which the bus sees it and that in which it takes it, and the doorbell was made
/// to block.
#[test]
fn a_ring_that_another_one_takes_first_keeps_the_bus_from_nothing() {
    if !has_ptrace() {
        return;
    }
    const ROUNDS: u64 = 10;
    own_process!();
    let bus = Broker::native();
    let (mut client, mut witness) = (bus.client(), bus.member());
    let hostile = raw::Raw::join(&bus.path());
    rustix::io::ioctl_fionbio(&hostile.doorbell, false).unwrap();
    let (pid, taken) = (bus.child.pid(), AtomicU64::new(0));
    let traced = Traced::seize_running(pid as i32);
    let take = |call: &Call| {
        let is_read = [libc::SYS_read, libc::SYS_readv, libc::SYS_preadv2].contains(&(call.number as i64));
        let link = std::fs::read_link(format!("/proc/{pid}/fd/{}", call.arguments[0]));
        if is_read && link.is_ok_and(|link| link.to_string_lossy().contains("eventfd")) {
            let (mut count, at_once) = ([0; 8], rustix::io::ReadWriteFlags::NOWAIT);
            let buffers = &mut [std::io::IoSliceMut::new(&mut count)];
            let has_taken = rustix::io::preadv2(&hostile.doorbell, buffers, u64::MAX, at_once).is_ok();
            taken.fetch_add(has_taken.into(), Ordering::Relaxed);
        }
        None
    };
    std::thread::scope(|scope| {
        let hostile = &hostile;
        let acting = scope.spawn(move || {
            for _ in 0..ROUNDS {
                rustix::io::write(&hostile.doorbell, &1u64.to_ne_bytes()).unwrap();
                sync(&mut client);
            }
            ask_bus(&mut witness);
        });
        traced.run_failing(take, || acting.is_finished());
        traced.kill();
        if let Err(panic) = acting.join() {
            std::panic::resume_unwind(panic);
        }
    });
    assert!(taken.load(Ordering::Relaxed) > 0, "nothing was taken");
}

/// Its sockets, its file of metrics and the lock of the native socket go; whoever waits for a reply gets an error.
#[test]
fn a_bus_that_cannot_go_on_says_why_and_ends_every_call() {
    if !has_ptrace() {
        return;
    }
    own_process!();
    let folder = temp_dir("failing");
    let path = |name: &str| folder.path().join(name);
    let log = temp_dir("failing");
    let said = log.path().join("log");
    let arguments = ["--address", &at(&path("bus")), "--native"];
    let mut command = causewayd(&arguments);
    command.arg(path("native")).arg("--metrics").arg(path("metrics"));
    let bus = Broker::spawn(command.stderr(std::fs::File::create(&said).unwrap()));
    let pid = bus.child.pid();
    let silent = bus.client();
    let (mut one, mut two) = (bus.client(), Member::open(path("native")).unwrap());
    let mut other = Member::open(path("native")).unwrap();
    let to = silent.unique_name().to_owned();
    let traced = Traced::seize_running(pid as i32);
    // The loop's own, which was made first.
    let is_epoll = |fd: &u64| {
        let link = std::fs::read_link(format!("/proc/{pid}/fd/{fd}"));
        link.is_ok_and(|link| link.to_string_lossy().contains("eventpoll"))
    };
    let epoll = (3..).find(is_epoll).unwrap();
    let has_asked = AtomicU64::new(0);
    let waits = [libc::SYS_epoll_wait, libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2];
    let fails = |call: &Call| {
        let is_wait = waits.contains(&(call.number as i64)) && call.arguments[0] == epoll;
        (is_wait && has_asked.load(Ordering::Relaxed) == 2).then_some(libc::ENOMEM)
    };
    std::thread::scope(|scope| {
        let (to, has_asked) = (&to, &has_asked);
        let asking = scope.spawn(move || {
            let asked = one.send(&Builder::call(PATH, "Ask").destination(to)).unwrap();
            has_asked.fetch_add(1, Ordering::Relaxed);
            let ended = end_of(&mut one);
            assert!(matches!(ended, Error::Closed), "{asked}: {ended:?}");
        });
        let calling = scope.spawn(move || {
            let serial = two.start_call(to, PATH, INTERFACE, "Ask", Body::default()).unwrap();
            has_asked.fetch_add(1, Ordering::Relaxed);
            two.finish_call(serial, PATIENCE).unwrap_err()
        });
        assert_eq!(traced.run_failing(fails, || false), Some(3));
        asking.join().unwrap();
        let error = calling.join().unwrap();
        assert!(matches!(error, causeway_bus::Error::AuthorityGone), "{error}");
    });
    let error = loop {
        match other.next(Some(PATIENCE)) {
            Ok(Some(Incoming::AuthorityGone)) | Err(causeway_bus::Error::AuthorityGone) => break None,
            Ok(Some(_)) => {}
            outcome => break Some(format!("{outcome:?}")),
        }
    };
    assert_eq!(error, None, "a member that waits is not told");
    let said = std::fs::read_to_string(said).unwrap();
    assert!(said.contains("causewayd: cannot wait for events: "), "{said}");
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "{left:?}");
}
