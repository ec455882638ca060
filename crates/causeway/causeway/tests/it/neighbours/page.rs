//! A subscriber takes the memory of its page away.
//!
//! Only the length of a page was sealed, and the subscriber could punch a hole into it: the next load of a publisher then made a
//! new page, at the publisher's charge, one fault for each publish, and out of memory it was killed.

use std::os::fd::OwnedFd;

use causeway::GroupOptions;
use causeway_os::memory::{Access, Mapping, Seals, add_seals};
use causeway_os::socket::{recv_with_fds, send_with_fds};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use super::public_group;
use crate::common::wire::{Joined, ask, connect, message};

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
