//! Places of members that left: when they are used again, and who is woken or evicted for that.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use causeway_os::clock;
use causeway_waiting::patience::{Clock, Owed};

use super::{Authority, Leaving, Link};
use crate::port::AUTHORITY;
use crate::shared::directory::State;

/// After so long, those who sleep are woken to read past the end of a member that left.
const LEAVING: Duration = Duration::from_secs(1);
/// So long the messages of a member that left stay for monitors.
const SHOWN: Duration = Duration::from_millis(500);

/// A process that waits for a place.
#[derive(Debug)]
pub(super) struct PlaceWanted {
    /// When it last asked.
    asked: Instant,
    /// Up to where all must read before a place is free; nothing if none is about to be.
    end: Option<u64>,
    clock: Clock,
    owed: Owed,
}

impl PlaceWanted {
    fn new(end: Option<u64>, asked: Instant) -> PlaceWanted {
        PlaceWanted { asked, end, clock: Clock::default(), owed: Owed::default() }
    }
}

impl Authority {
    /// A process waits for a place: wakes members that must read first, and evicts those that have not for the
    /// deadline. That begins anew with the end of another member, and time in which nobody asked, or this process did
    /// not run, is none of it.
    pub(super) fn demand_place(&mut self) {
        self.ring_behind();
        let (now, deadline) = (Instant::now(), self.options.laggard_deadline);
        let end = self.leaving.iter().filter_map(|one| one.end).min();
        // Who wants to join tries again every few milliseconds, or has given up.
        let is_same_wait = |wanted: &PlaceWanted| now - wanted.asked < deadline && wanted.end == end;
        let same = self.place_wanted.take().filter(is_same_wait);
        let mut wanted = same.unwrap_or_else(|| PlaceWanted::new(end, now));
        wanted.owed.wait(wanted.clock.look(clock::monotonic_ns()));
        wanted.asked = now;
        let is_late = wanted.owed.exceeds(deadline);
        self.place_wanted = Some(wanted);
        let Some(end) = end.filter(|_| is_late) else { return };
        for slot in self.before(end).into_iter().filter(|slot| *slot != AUTHORITY) {
            self.port.evict(&mut self.fds, slot);
        }
    }

    /// Wakes those who sleep before the end of a member whose place is needed.
    pub(super) fn ring_behind(&mut self) {
        if let Some(end) = self.leaving.iter().filter_map(|one| one.end).max() {
            self.ring(self.before(end));
        }
    }

    /// Slots of the members that have not read up to this position.
    pub(super) fn before(&self, end: u64) -> Vec<u16> {
        let is_before = |slot: &u16| self.port.order().cursor(*slot).load(Ordering::Acquire) < end;
        self.port.directory().present().filter(is_before).collect()
    }

    /// When to wake those who sleep before the end of a member that left. Reading does not free a slot whose process
    /// may write its line.
    pub(super) fn leaving_timeout(&self) -> Option<Duration> {
        let is_awaited = self.leaving.iter().any(|one| one.end.is_some());
        is_awaited.then(|| LEAVING.saturating_sub(self.leaving_since.elapsed()))
    }

    /// What a member that left had open stays for [`LEAVING`] at most, although others sleep.
    pub(super) fn wake_for_leaving(&mut self) {
        if self.leaving_timeout() == Some(Duration::ZERO) {
            self.leaving_since = Instant::now();
            self.ring_behind();
        }
    }

    pub(super) fn monitors(&self) -> usize {
        let is_monitor = |link: &&Link| link.has_joined && link.member.is_none() && link.holds.is_none();
        self.links.values().filter(is_monitor).count()
    }

    /// Frees the places of those who left, once all members have read what they sent. Monitors, which nobody waits for,
    /// have a moment.
    pub(super) fn free_slots(&mut self) {
        if self.leaving.is_empty() {
            return;
        }
        let (lowest, _) = self.port.lowest_cursor();
        let directory = Arc::clone(self.port.directory());
        let held: Vec<u16> = self.links.values().filter_map(|link| link.holds).collect();
        let shows = self.place_wanted.is_none() && self.monitors() > 0;
        self.leaving.retain_mut(|Leaving { index, end, since }| {
            *end = end.filter(|end| lowest < *end || shows && since.elapsed() < SHOWN);
            if end.is_some() || held.contains(index) {
                return true;
            }
            directory.set_state(*index, State::Free);
            self.fds.outboxes.remove(index);
            self.fds.doorbells.remove(index);
            self.port.forget(*index);
            false
        });
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd, OwnedFd};
    use std::path::Path;

    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

    use super::*;
    use crate::authority::{AuthorityOptions, Event, LeaveReason, PeerId};
    use crate::control::{self, JOIN, OFFER, Packet};
    use crate::error::Result;
    use crate::shared::outbox::Outbox;

    fn event(authority: &mut Authority) -> Event {
        let start = Instant::now();
        loop {
            if let Some(event) = authority.dispatch().unwrap().pop() {
                return event;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "nothing happens");
            std::thread::sleep(Duration::from_micros(500));
        }
    }

    fn join(authority: &mut Authority, path: &Path, id: PeerId) -> (OwnedFd, Result<()>) {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap();
        rustix::net::connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
        let (outbox, _) = Outbox::create(4096).unwrap();
        let request = Packet::handshake(JOIN, OFFER);
        control::send(&socket, &request, &[outbox.as_fd()]).unwrap();
        let Event::Joining(ticket, _) = event(authority) else { panic!("it does not ask to join") };
        (socket, authority.admit(ticket, id).map(|()| authority.welcome(id)))
    }

    #[test]
    fn nobody_is_woken_for_a_slot_that_only_its_process_can_free() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bus");
        let options = AuthorityOptions { members: 2, ..AuthorityOptions::default() };
        let mut authority = Authority::create(options, 1).unwrap();
        authority.serve_at(&path).unwrap();
        let (socket, joined) = join(&mut authority, &path, 2);
        joined.unwrap();
        // It gives up, and lives.
        rustix::net::shutdown(&socket, rustix::net::Shutdown::Write).unwrap();
        assert_eq!(event(&mut authority), Event::Left { peer: 2, why: None });
        authority.remove(2);
        authority.dispatch().unwrap();
        assert_eq!(authority.timeout(), None);
        assert!(join(&mut authority, &path, 3).1.is_err(), "its slot is given away");
        drop(socket);
        let start = Instant::now();
        while !authority.leaving.is_empty() {
            authority.dispatch().unwrap();
            assert!(start.elapsed() < Duration::from_secs(60), "its slot is not free");
        }
        join(&mut authority, &path, 4).1.unwrap();
    }

    /// Before, the time in which all places were taken counted as one in which the others had not read up to the end of
    /// the next that left.
    #[test]
    fn nobody_is_evicted_for_a_place_that_was_not_about_to_be_free() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bus");
        let laggard_deadline = Duration::from_millis(20);
        let options = AuthorityOptions { members: 3, laggard_deadline, ..AuthorityOptions::default() };
        let mut authority = Authority::create(options, 1).unwrap();
        authority.serve_at(&path).unwrap();
        let (_reads_nothing, joined) = join(&mut authority, &path, 2);
        joined.unwrap();
        let (leaves, joined) = join(&mut authority, &path, 3);
        joined.unwrap();
        let ask_for = |authority: &mut Authority, time: Duration| {
            let start = Instant::now();
            while start.elapsed() < time {
                assert!(join(authority, &path, 4).1.is_err());
            }
        };
        ask_for(&mut authority, laggard_deadline * 3);
        let message = causeway_dbus_wire::wire::Builder::signal("/", "a.B", "C").build(1).unwrap();
        let transfer = authority.stage_header_only(&message);
        authority.append(None, None, &message, transfer).unwrap();
        drop(leaves);
        assert!(matches!(event(&mut authority), Event::Left { peer: 3, .. }));
        authority.remove(3);
        assert!(join(&mut authority, &path, 4).1.is_err());
        assert_eq!(authority.dispatch().unwrap(), [], "evicted at once");
        // It has its deadline, and no more.
        let start = Instant::now();
        while !authority.has_evictions() {
            assert!(join(&mut authority, &path, 4).1.is_err());
            assert!(start.elapsed() < Duration::from_secs(60), "it keeps the place for ever");
        }
        let left = event(&mut authority);
        assert!(matches!(left, Event::Left { peer: 2, why: Some(LeaveReason::Laggard(_)) }), "{left:?}");
    }
}
