//! Out of memory, descriptors, mappings or file size: an error that says what to do. No panic, no hang, no signal, and no
//! message lost without notice.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::common::limits::{forbid, in_a_process_of_its_own, limited};
use crate::common::{Peer, Role, descriptors, next, small, taken};
use causeway::{Error, Group, GroupOptions, Policy, Publisher, Refusal, Subscriber};
use causeway_os::memory::{Access, Mapping, memfd};
use causeway_testkit::{Cause, skipped};
use nix::libc;
use rustix::process::Resource;

/// What the processes of these tests do.
pub const ROLES: &[(&str, Role)] = &[
    ("without-descriptors", |socket, _| without_descriptors(socket)),
    ("without-address-space", |socket, _| without_address_space(socket)),
    ("without-mappings", |_, _| without_mappings()),
    ("without-memory", |_, number| without_memory(number as i32)),
    ("without-reserving", |_, number| without_reserving(number as i32)),
    ("in-a-small-control-group", |socket, _| in_a_small_control_group(socket)),
    ("with-small-files", |_, _| with_small_files()),
];

/// A publisher and a subscriber of one group, between which messages pass.
fn check_traffic(publisher: &mut Publisher, subscriber: &mut Subscriber) {
    for number in 0..100u32 {
        publisher.try_publish(&number.to_le_bytes()).unwrap();
        assert_eq!(taken(subscriber).bytes, number.to_le_bytes());
    }
}

// Descriptors.

#[test]
fn out_of_descriptors_every_call_is_an_error_and_succeeds_when_there_are_some() {
    in_a_process_of_its_own("without-descriptors", 0);
}

fn without_descriptors(socket: &Path) {
    let served = Group::create("served", small().several_publishers()).unwrap();
    served.serve_at(socket).unwrap();
    let mut publisher = served.publisher().unwrap();
    let (mut created, mut joined, mut failures) = (0, 0, 0);
    for room in 0..24 {
        let check = |done: Result<(), Error>| match done {
            Ok(()) => 1,
            Err(
                Error::Os(_)
                | Error::Refused(Refusal::Exhausted)
                | Error::Disconnected
                | Error::ServerGone
                | Error::NoAnswer,
            ) => 0,
            Err(other) => panic!("with room for {room}: {other:?}"),
        };
        let limit = descriptors() as u64 - 1 + room;
        let (new, guest) = limited(Resource::Nofile, limit, || {
            let new = Group::create("new", small())
                .and_then(|group| group.publisher().map(|publisher| (group, publisher)))
                .and_then(|(group, _publisher)| {
                    group.subscribe(Policy::Lossy)?.wait(Some(Duration::from_millis(1))).map(drop)
                });
            let guest = served.subscribe(Policy::Lossy).map(drop);
            (new, guest)
        });
        created += check(new);
        joined += check(guest);
        failures += 1;
    }
    assert!(created > 0 && joined > 0 && created < failures && joined < failures, "{created} {joined}");
    // The group that was there is whole, whatever was tried.
    let mut subscriber = served.subscribe(Policy::Reliable).unwrap();
    publisher.try_publish(b"whole").unwrap();
    assert_eq!(next(&mut subscriber), b"whole");
}

// Addresses and mappings.

#[test]
fn out_of_address_space_every_call_is_an_error() {
    in_a_process_of_its_own("without-address-space", 0);
}

fn without_address_space(socket: &Path) {
    let megabyte = 1 << 20;
    let large = || Group::create("large", GroupOptions::new().capacity_bytes(64 * megabyte));
    let group = large().unwrap();
    group.serve_at(socket).unwrap();
    let _publisher = group.publisher().unwrap();
    let used = || causeway_testkit::proc::status_number(std::process::id(), "VmSize").unwrap() * 1024;
    // Not enough for the ring, and enough for the ring once but not twice.
    for room in [16, 100] {
        limited(Resource::As, used() + room * megabyte, || {
            for failed in [large().map(drop), group.subscribe(Policy::Lossy).map(drop)] {
                let Err(Error::Os(error)) = &failed else { panic!("{failed:?}") };
                assert_eq!(error.raw_os_error(), Some(libc::ENOMEM), "{error}");
            }
        });
    }
    group.subscribe(Policy::Lossy).unwrap();
    large().unwrap();
}

#[test]
fn out_of_mappings_every_call_is_an_error_and_succeeds_when_there_are_some() {
    let limit = mappings_max();
    if limit > 2_000_000 {
        let detail = format!("{limit}, and a process of so many mappings is too large a test");
        return skipped(Cause::Kernel("vm.max_map_count"), detail);
    }
    in_a_process_of_its_own("without-mappings", 0);
}

fn mappings_max() -> usize {
    std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap().trim().parse().unwrap()
}

fn without_mappings() {
    let served = Group::create("served", small().several_publishers()).unwrap();
    let mut publisher = Some(served.publisher().unwrap());
    let mut subscriber = served.subscribe(Policy::Reliable).unwrap();
    // A publisher that learns of a subscriber when there are no mappings left has the server end it; this one is known.
    check_traffic(publisher.as_mut().unwrap(), &mut subscriber);
    // Rust programs end where the heap cannot grow; that is not what is tried here, so the heap gets room before.
    let mut ballast: Vec<_> = (0..200).map(|_| vec![1u8; 4096]).collect();
    ballast.drain(..199);
    // Pages of one file that do not follow one another are mappings of their own.
    let file = memfd("filler", 4096).unwrap();
    let mut filler = Vec::with_capacity(mappings_max());
    while let Ok(mapping) = Mapping::shared(&file, 4096, Access::ReadOnly) {
        filler.push(mapping);
    }
    assert!(filler.len() > 1000, "{}", filler.len());
    let (mut created, mut joined) = (0, 0);
    const ROOMS: usize = 40;
    for room in 0..ROOMS {
        let check = |done: Result<(), Error>| match done {
            Ok(()) => 1,
            Err(Error::Refused(Refusal::Exhausted)) => 0,
            Err(Error::Os(error)) => {
                let number = error.raw_os_error();
                assert!([Some(libc::ENOMEM), Some(libc::EAGAIN)].contains(&number), "{error}");
                assert!(Error::Os(error).to_string().contains("; "), "no remedy");
                0
            }
            Err(other) => panic!("with room for {room}: {other:?}"),
        };
        created += check(Group::create("new", small()).and_then(|group| {
            let mut publisher = group.publisher()?;
            let mut subscriber = group.subscribe(Policy::Reliable)?;
            let _ = subscriber.wait(Some(Duration::from_millis(1)))?;
            check_traffic(&mut publisher, &mut subscriber);
            Ok(())
        }));
        // Another group may have got no thread, page or doorbell; this one continues.
        joined += check(served.subscribe(Policy::Lossy).map(drop));
        publisher = publisher.or_else(|| served.publisher().ok());
        // A subscriber that just joined and cannot be taken in is refused; publishers stay.
        if let Some(publisher) = &mut publisher {
            publisher.try_publish(b"on").unwrap();
            assert_eq!(taken(&mut subscriber).bytes, b"on");
        }
        filler.pop();
    }
    assert!(created > 0 && created < ROOMS && joined > 0 && joined < ROOMS, "{created} {joined}");
    check_traffic(&mut publisher.unwrap(), &mut subscriber);
}

// Memory.

#[test]
fn out_of_memory_nothing_is_made_and_existing_peers_continue() {
    for errno in [libc::ENOSPC, libc::ENOMEM] {
        in_a_process_of_its_own("without-memory", errno as u64);
    }
}

/// A kernel without a page left says so when it is asked to reserve one.
fn without_memory(errno: i32) {
    let group = Group::create("there", small().several_publishers()).unwrap();
    let (mut publisher, mut subscriber) =
        (group.publisher().unwrap(), group.subscribe(Policy::Reliable).unwrap());
    forbid(libc::SYS_fallocate as u32, None, errno);
    let refused = Group::create("new", small()).unwrap_err();
    assert!(matches!(&refused, Error::Os(error) if error.raw_os_error() == Some(errno)), "{refused:?}");
    let message = refused.to_string();
    assert!(message.contains("20480 bytes of memory") && message.contains("free memory"), "{message}");
    let refused = group.subscribe(Policy::Reliable).unwrap_err();
    assert!(matches!(refused, Error::Refused(Refusal::Exhausted)), "{refused:?}");
    check_traffic(&mut publisher, &mut subscriber);
    check_traffic(&mut group.publisher().unwrap(), &mut subscriber);
}

#[test]
fn a_kernel_that_cannot_reserve_memory_is_told_from_one_that_has_none() {
    for errno in [libc::ENOSYS, libc::EOPNOTSUPP, libc::EPERM] {
        in_a_process_of_its_own("without-reserving", errno as u64);
    }
}

fn without_reserving(errno: i32) {
    forbid(libc::SYS_fallocate as u32, None, errno);
    let refused = Group::create("new", small()).unwrap_err();
    assert!(matches!(refused, Error::Kernel(lack) if lack.contains("fallocate")), "{refused:?}");
}

/// All of a log is there when it is made: later there is nothing left that could be refused, or end in a signal.
#[test]
fn a_log_has_all_its_memory_from_the_beginning() {
    let group = Group::create("whole", GroupOptions::new().capacity_bytes(1 << 20)).unwrap();
    let _publisher = group.publisher().unwrap();
    for fd in &crate::common::wire::genuine(&group)[..3] {
        let stat = rustix::fs::fstat(fd).unwrap();
        assert!(stat.st_size > 0 && stat.st_blocks * 512 >= stat.st_size, "{stat:?}");
    }
}

/// A control group of memory with this limit, if this process may make one; gone with its drop.
struct ControlGroup(PathBuf);

impl ControlGroup {
    fn new(limit: u64) -> std::io::Result<ControlGroup> {
        let version_1 = Path::new("/sys/fs/cgroup/memory");
        let (root, file) = if version_1.exists() {
            (version_1, "memory.limit_in_bytes")
        } else {
            (Path::new("/sys/fs/cgroup"), "memory.max")
        };
        let no_swap = [("memory.memsw.limit_in_bytes", limit), ("memory.swap.max", 0)];
        remove_what_killed_tests_left(root)?;
        let group = ControlGroup(root.join(format!("{PREFIX}{}", std::process::id())));
        std::fs::create_dir(&group.0)?;
        // Not made if it is missing: then this folder is no control group.
        let set = |file, bytes: u64| {
            OpenOptions::new().write(true).open(group.0.join(file))?.write_all(bytes.to_string().as_bytes())
        };
        set(file, limit)?;
        let swaps = std::fs::read_to_string("/proc/swaps").map_or(0, |swaps| swaps.lines().skip(1).count());
        if swaps > 0 && no_swap.iter().all(|(file, bytes)| set(file, *bytes).is_err()) {
            return Err(std::io::Error::other("it could swap"));
        }
        Ok(group)
    }
}

/// What the name of a control group of a test begins with; the number of the test's process follows.
const PREFIX: &str = "causeway-test-";

/// Nothing drops in a process that is killed. The kernel keeps every folder in which a process is still at work.
fn remove_what_killed_tests_left(root: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(root)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok()) else {
            continue;
        };
        // One with our own number is left of a process that had it before.
        if pid == std::process::id() || !Path::new(&format!("/proc/{pid}")).exists() {
            let _ = std::fs::remove_dir(entry.path());
        }
    }
    Ok(())
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_log_that_the_control_group_cannot_hold_is_an_error_and_no_kill() {
    let group = match ControlGroup::new(32 << 20) {
        Ok(group) => group,
        Err(error) => return skipped(Cause::Rights("control groups"), error),
    };
    Peer::start("in-a-small-control-group", &group.0, 0).succeed();
}

fn in_a_small_control_group(control_group: &Path) {
    std::fs::write(control_group.join("cgroup.procs"), std::process::id().to_string()).unwrap();
    for capacity in [32 << 20, 1 << 30] {
        let refused = Group::create("large", GroupOptions::new().capacity_bytes(capacity)).unwrap_err();
        assert!(
            matches!(&refused, Error::Os(error) if error.raw_os_error() == Some(libc::ENOMEM)),
            "{refused:?}"
        );
        assert!(refused.to_string().contains("the control group has"), "{refused}");
    }
    let group = Group::create("fits", GroupOptions::new().capacity_bytes(8 << 20)).unwrap();
    check_traffic(&mut group.publisher().unwrap(), &mut group.subscribe(Policy::Reliable).unwrap());
}

// Sizes of files.

#[test]
fn a_limit_on_the_size_of_files_is_an_error_and_no_signal() {
    in_a_process_of_its_own("with-small-files", 0);
}

fn with_small_files() {
    for limit in [0, 4096, 65536] {
        limited(Resource::Fsize, limit, || {
            let Err(Error::Os(error)) = Group::create("large", GroupOptions::new()) else {
                panic!("{limit}")
            };
            assert_eq!(error.raw_os_error(), Some(libc::EFBIG), "{error}");
        });
    }
    Group::create("large", GroupOptions::new()).unwrap();
}
