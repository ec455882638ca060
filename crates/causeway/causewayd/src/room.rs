//! How the file descriptors that this process may open are shared out, so that clients that use up one share leave the others alone.
//!
//! Of N that it may open (`RLIMIT_NOFILE`):
//!
//! | share | for |
//! |---|---|
//! | 64 | the bus itself: sockets that listen, epoll, processes that it has started, files that it reads |
//! | 253 | the message that is being received, which may bring as many |
//! | N/4 | what is staged for native members (`authority/staging.rs` of causeway-bus) |
//! | 3N/16 | descriptors of clients' messages that wait |
//! | N/16 | descriptors that wait to be closed |
//! | the rest | connections |

use crate::config::Limits;
use crate::limit::{Lever, Reached};
use crate::log;
use crate::quota::SMALL;

const OWN: u64 = 64;
/// However few files the process may open, so many clients are served.
const CONNECTIONS_MIN: u64 = 8;

/// The shares for clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    open_files: u64,
    /// Descriptors of messages that wait.
    waiting: u64,
    /// Descriptors that wait to be closed, before clients that bring more are left unread.
    pub closing: u64,
    connections: u64,
    /// Connections that have not said Hello.
    incomplete: u64,
}

impl Room {
    /// That of a process that may open so many files; nothing is no limit.
    pub fn of(open_files: Option<u64>) -> Room {
        let open_files = open_files.unwrap_or(u64::from(u32::MAX));
        let incomplete = (open_files / 64).max(CONNECTIONS_MIN);
        let message = causeway_os::socket::FDS_MAX as u64;
        let connections = (open_files / 2).saturating_sub(OWN + message + incomplete).max(CONNECTIONS_MIN);
        Room { open_files, waiting: open_files / 16 * 3, closing: open_files / 16, connections, incomplete }
    }

    /// Cuts limits of a configuration to the room that there is. A verbose bus logs it; a refusal names the way out.
    pub fn fit(self, limits: &mut Limits) {
        let count = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        limits.are_connections_cut = cut(&mut limits.connections, count(self.connections));
        cut(&mut limits.incomplete_connections, count(self.incomplete));
        // Four members at their limits have all that waits.
        limits.per_member.are_descriptors_cut = cut(&mut limits.per_member.descriptors, self.waiting / 4);
        if limits.are_connections_cut || limits.per_member.are_descriptors_cut {
            log::detail(|| {
                format!(
                    "the process may open {} files: max_completed_connections is {} and max_outgoing_unix_fds {}; to allow more, {}",
                    self.open_files,
                    limits.connections,
                    limits.per_member.descriptors,
                    Lever::OpenFiles
                )
            });
        }
    }

    /// May a message with so many descriptors pass, while so many of clients' messages are open, its own included?
    ///
    /// # Errors
    /// It may not: the bus has too many.
    pub fn check(self, count: u64, open: u64) -> Result<(), Reached> {
        let most = if count > SMALL { self.waiting / 4 * 3 } else { self.waiting };
        if open <= most {
            return Ok(());
        }
        let (lever, whose, what) = (Lever::OpenFiles, "the bus".into(), "file descriptors of messages");
        Err(Reached { lever, whose, what, has: open, more: 0, most, of_user: None })
    }
}

/// Lowers a limit to what there is. Was it higher?
fn cut<T: PartialOrd>(limit: &mut T, most: T) -> bool {
    let is_cut = *limit > most;
    if is_cut {
        *limit = most;
    }
    is_cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_together_are_no_more_than_there_is() {
        for open_files in [1024, 4096, 20_000, 1 << 20] {
            let room = Room::of(Some(open_files));
            let others = OWN + causeway_os::socket::FDS_MAX as u64 + open_files / 4;
            let shares = room.waiting + room.closing + room.connections + room.incomplete;
            assert!(shares + others <= open_files, "{open_files}: {room:?}");
        }
    }

    #[test]
    fn limits_are_cut_where_files_are_few() {
        let mut limits = Limits::session();
        Room::of(Some(1024)).fit(&mut limits);
        assert_eq!(
            (limits.connections, limits.incomplete_connections, limits.per_member.descriptors),
            (179, 16, 48)
        );
        let mut limits = Limits::default();
        Room::of(Some(1 << 20)).fit(&mut limits);
        assert_eq!((limits.connections, limits.per_member.descriptors), (2048, 1024));
    }

    #[test]
    fn large_messages_leave_the_last_quarter_to_small_ones() {
        let room = Room::of(Some(1024));
        assert!(room.check(17, 144).is_ok() && room.check(16, 192).is_ok());
        assert!(room.check(17, 145).is_err());
        let why = room.check(16, 193).unwrap_err().to_string();
        assert!(why.starts_with("the bus has 193 file descriptors of messages, of at most 192; "), "{why}");
    }
}
