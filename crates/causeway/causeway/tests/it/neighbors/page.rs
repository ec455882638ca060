//! A subscriber takes the memory of its page away.
//!
//! Only the length of a page was sealed, and the subscriber could punch a hole into it: the next load of a publisher then made a
//! new page, at the publisher's charge, one fault for each publish, and out of memory it was killed.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use causeway::{GroupOptions, Policy};
use causeway_os::memory::{Access, Mapping, Seals, add_seals};
use causeway_os::socket::{recv_with_fds, send_with_fds};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use rustix::net::SendFlags;

use super::public_group;
use crate::common::wire::{Joined, ask, connect, message};
use crate::common::{LONG, Peer, Rng, eventually, served, subscribers, taken};

fn punch(page: &OwnedFd) -> Result<(), Errno> {
    fallocate(page, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, 4096)
}

#[test]
fn a_subscriber_can_neither_take_the_memory_of_its_page_away_nor_share_its_right_to_write() {
    let (_dir, socket, group) = public_group(GroupOptions::new().capacity_bytes(4096));
    let joined = Joined::new(&socket, 3);
    assert_eq!(punch(&joined.page_fd), Err(Errno::PERM));
    for (fd, len) in [(&joined.log, 16384), (&joined.status, 8192), (&joined.page_fd, 4096)] {
        assert!(Mapping::shared(fd, len, Access::ReadWrite).is_err(), "it can write what is not its own");
        assert!(rustix::io::pwrite(fd, b"x", 0).is_err() && rustix::fs::ftruncate(fd, 0).is_err());
    }
    // The memory itself cannot be taken away through the mapping either.
    // SAFETY: one page that belongs to this test; whatever is in it is valid.
    let removed =
        unsafe { rustix::mm::madvise(joined.page.as_ptr().cast(), 4096, rustix::mm::Advice::LinuxRemove) };
    assert!(removed.is_err());
    assert_eq!(group.report().unwrap().subscribers.len(), 1);
}

#[test]
fn a_subscriber_whose_page_is_not_sealed_or_has_a_hole_is_refused_and_nobody_knows_it() {
    let (_dir, socket, group) = public_group(GroupOptions::new().capacity_bytes(4096));
    let mut publisher = group.publisher().unwrap();
    for (hole, seals) in [(false, false), (true, true), (true, false)] {
        let connection = connect(&socket);
        send_with_fds(&connection, &message(3, &[0, 0]), &[]).unwrap();
        let (_, mut fds) = recv_with_fds(&connection, &mut [0; 64], 6).unwrap();
        let page = fds.remove(2);
        assert!(group.report().unwrap().subscribers.is_empty());
        if hole {
            punch(&page).unwrap();
        }
        if seals {
            add_seals(&page, Seals::FUTURE_WRITE | Seals::SEAL).unwrap();
        }
        assert_eq!(ask(&connection, 6, &[])[2], 17, "hole: {hole}, seals: {seals}");
        assert!(group.report().unwrap().subscribers.is_empty());
        // Nor does any publisher wait for it.
        for _ in 0..200 {
            publisher.try_publish(b"on").unwrap();
        }
    }
}

/// The attacker's process: writes at random into its page and sends at random on its sockets, until it is killed.
pub fn scribble(socket: &Path, seed: u64) {
    let joined = Joined::new(socket, 3);
    rustix::io::ioctl_fionbio(&joined.doorbell, false).unwrap();
    let _ = rustix::net::send(&joined.doorbell, &[0; 4096], SendFlags::DONTWAIT);
    let mut random = Rng::with_seed(seed);
    loop {
        let value = random.u64(..);
        match random.u32(..4) {
            0 => joined.page.atomic_u64(0).store(value, Ordering::Relaxed),
            1 => joined.page.atomic_u32(128).store(value as u32 | 1, Ordering::Relaxed),
            _ => joined.page.atomic_u64(random.usize(..512) * 8).store(value, Ordering::Relaxed),
        }
        if random.u32(..1024) == 0 {
            // Not empty: an empty message is the end of the connection.
            let junk: Vec<u8> = (0..random.usize(1..=100)).map(|_| random.u8(..)).collect();
            let request = message(random.u32(..24), &[0, 0]);
            for bytes in [&junk[..], &request] {
                let _ = rustix::net::send(&joined.socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
            }
        }
    }
}

/// With the trust that a group has by default, a subscriber's page is all that it can damage.
#[test]
fn subscribers_that_scribble_neither_stop_nor_confuse_anybody() {
    for options in [GroupOptions::new(), GroupOptions::new().several_publishers()] {
        let (_dir, socket, group) = served(options.capacity_bytes(16 << 10));
        let mut publisher = group.publisher().unwrap();
        let mut honest = group.subscribe(Policy::Reliable).unwrap();
        let attackers = [77, 78].map(|seed| Peer::start("scribble", &socket, seed));
        eventually("no attacker joins", || subscribers(&group) == 3);
        let end = Instant::now() + Duration::from_millis(1500);
        for number in (0u64..).take_while(|_| Instant::now() < end) {
            let payload = vec![number as u8; (number % 3000) as usize];
            publisher
                .publish_timeout(&payload, LONG)
                .unwrap_or_else(|error| panic!("message {number}: {error}"));
            assert!(taken(&mut honest).bytes == payload, "message {number}");
        }
        // The door is still open.
        let _late = group.subscribe(Policy::Lossy).unwrap();
        assert!(group.report().is_ok());
        drop(attackers);
    }
}
