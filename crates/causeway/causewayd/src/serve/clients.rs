//! Clients: their connections, and which of them wait for what.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::Instant;

use rustc_hash::FxHashMap;
use rustix::event::epoll::{self, EventFlags};

use super::{Slice, Token};
use crate::connection::Connection;
use crate::member::MemberId;
use crate::message::{Message, Output};

pub struct Client {
    pub connection: Connection,
    /// Where its socket is watched.
    pub set: Rc<OwnedFd>,
    /// Small pieces that have brought no whole message, one after another.
    pub pieces: u32,
    user: u32,
    /// When it must have said Hello.
    deadline: Instant,
    wants_to_write: bool,
    /// It is not read, because the order log is full, or too many descriptors wait to be closed.
    is_paused: bool,
    /// It is among those to be read.
    pub is_ready: bool,
    /// It is among those whose sockets take more.
    is_writable: bool,
    /// Its other end is closed.
    pub has_ended: bool,
    /// Until when descriptors wait for the rest of their message.
    pub half_until: Option<Instant>,
    /// How many descriptors it was charged for, and how many bytes of a message that has not arrived whole.
    pub charged: u64,
    pub charged_bytes: u64,
}

/// All clients, and queues of them.
#[derive(Default)]
pub struct Clients {
    /// Each in its own place, so that a table with very many grows at once.
    pub table: FxHashMap<MemberId, Box<Client>>,
    /// Those that have not said Hello, of each user by their deadlines.
    incomplete: BTreeMap<u32, BTreeSet<(Instant, MemberId)>>,
    /// Those whose descriptors wait for the rest of a message, by their deadlines.
    half: BTreeSet<(Instant, MemberId)>,
    /// Those to be read, each once.
    pub ready: VecDeque<MemberId>,
    /// Those that got something and were not offered it yet.
    pub dirty: VecDeque<MemberId>,
    /// Those whose sockets did not take everything and now take more, each once.
    pub writable: VecDeque<MemberId>,
    /// Those that are not read, because the order log is full.
    paused: Vec<MemberId>,
    /// Those that are not read, because they bring descriptors and too many wait to be closed.
    deferred: Vec<MemberId>,
}

impl Clients {
    pub fn get_mut(&mut self, id: MemberId) -> Option<&mut Client> {
        self.table.get_mut(&id).map(|client| &mut **client)
    }

    /// A client of a user whose Hello must come until `deadline`, and whose socket is watched in `set`.
    pub fn insert(
        &mut self,
        id: MemberId,
        user: u32,
        connection: Connection,
        deadline: Instant,
        set: Rc<OwnedFd>,
    ) {
        let client = Box::new(Client {
            connection,
            set,
            pieces: 0,
            user,
            deadline,
            wants_to_write: false,
            is_paused: false,
            is_ready: false,
            is_writable: false,
            has_ended: false,
            half_until: None,
            charged: 0,
            charged_bytes: 0,
        });
        self.table.insert(id, client);
        self.incomplete.entry(user).or_default().insert((deadline, id));
    }

    /// Takes a client out and closes its connection. Returns what waited for it.
    pub fn remove(&mut self, id: MemberId) -> Option<Output> {
        let client = self.table.remove(&id)?;
        let _ = epoll::delete(&client.set, client.connection.as_fd());
        self.forget_incomplete(client.user, client.deadline, id);
        client.half_until.map(|until| self.half.remove(&(until, id)));
        Some(client.connection.close())
    }

    /// A client has said Hello, has another number from now on, and is watched in another set. Fails where the kernel
    /// cannot watch it.
    pub fn rename(&mut self, from: MemberId, to: MemberId, set: &Rc<OwnedFd>) -> rustix::io::Result<()> {
        let Some(mut client) = self.table.remove(&from) else { return Ok(()) };
        self.forget_incomplete(client.user, client.deadline, from);
        client.connection.set_name(to.unique_name());
        if let Some(until) = client.half_until.filter(|until| self.half.remove(&(*until, from))) {
            self.half.insert((until, to));
        }
        // It stands in few of these queues, if in any: what it was told before Hello waits.
        let queues = [
            (client.is_ready, &mut self.ready),
            (client.connection.has_output(), &mut self.dirty),
            (client.is_writable, &mut self.writable),
        ];
        for (_, queue) in queues.into_iter().filter(|(is_there, _)| *is_there) {
            queue.iter_mut().filter(|id| **id == from).for_each(|id| *id = to);
        }
        self.paused.iter_mut().filter(|id| **id == from).for_each(|id| *id = to);
        let moved = client.move_to(to, set);
        self.table.insert(to, client);
        moved
    }

    /// It has said Hello, or ended.
    fn forget_incomplete(&mut self, user: u32, deadline: Instant, id: MemberId) {
        if let Entry::Occupied(mut of_user) = self.incomplete.entry(user) {
            of_user.get_mut().remove(&(deadline, id));
            if of_user.get().is_empty() {
                of_user.remove();
            }
        }
    }

    /// The rest of a message must come until then.
    pub fn await_rest(&mut self, id: MemberId, until: Option<Instant>) {
        let Some(client) = self.table.get_mut(&id) else { return };
        if let Some(before) = std::mem::replace(&mut client.half_until, until) {
            self.half.remove(&(before, id));
        }
        until.map(|until| self.half.insert((until, id)));
    }

    /// How many have not said Hello.
    pub fn incomplete_count(&self) -> usize {
        self.incomplete.values().map(BTreeSet::len).sum()
    }

    /// Who must say Hello next, and until when.
    pub fn next_hello(&self) -> Option<(Instant, MemberId)> {
        self.incomplete.values().filter_map(BTreeSet::first).min().copied()
    }

    /// Who goes first where too many have not said Hello: the oldest connection of the user that has most of them, so
    /// that no user keeps another one out.
    pub fn first_to_go(&self) -> Option<MemberId> {
        let of_user = self.incomplete.values().max_by_key(|of_user| of_user.len())?;
        of_user.first().map(|(_, id)| *id)
    }

    /// Whose message must be complete next, and until when.
    pub fn next_rest(&self) -> Option<(Instant, MemberId)> {
        self.half.first().copied()
    }

    pub fn next_deadline(&self) -> Option<Instant> {
        [self.next_hello(), self.next_rest()].into_iter().flatten().map(|(deadline, _)| deadline).min()
    }

    pub fn are_idle(&self) -> bool {
        self.ready.is_empty() && self.dirty.is_empty() && self.writable.is_empty()
    }

    /// Notes what an event says of a client.
    pub fn note(&mut self, id: MemberId, flags: EventFlags) {
        // It may have ended in this turn.
        let Some(client) = self.table.get_mut(&id) else { return };
        if flags.contains(EventFlags::OUT) && !std::mem::replace(&mut client.is_writable, true) {
            self.writable.push_back(id);
        }
        client.has_ended |= flags.intersects(EventFlags::HUP | EventFlags::ERR);
        if flags.contains(EventFlags::IN) || client.has_ended {
            self.make_ready(id);
        }
    }

    /// Lets a client be read when its turn comes.
    pub fn make_ready(&mut self, id: MemberId) {
        if let Some(client) = self.table.get_mut(&id).filter(|client| !client.is_ready) {
            client.is_ready = true;
            self.ready.push_back(id);
        }
    }

    /// Leaves a message to a client's connection, which is offered it in this turn or a later one.
    pub fn deliver(&mut self, id: MemberId, message: Rc<Message>, now: Instant) {
        if let Some(client) = self.table.get_mut(&id) {
            if !client.connection.has_output() {
                self.dirty.push_back(id);
            }
            client.connection.push(message, now);
        }
    }

    /// The next one whose socket takes more.
    pub fn pop_writable(&mut self) -> Option<MemberId> {
        let id = self.writable.pop_front()?;
        if let Some(client) = self.table.get_mut(&id) {
            client.is_writable = false;
        }
        Some(id)
    }

    /// Does not read a client until the log has space.
    pub fn pause(&mut self, id: MemberId) {
        if let Some(client) = self.table.get_mut(&id).filter(|client| !client.is_paused) {
            client.is_paused = true;
            client.watch_again(id);
            self.paused.push(id);
        }
    }

    /// Does not read a client until [`resume_deferred`](Clients::resume_deferred).
    pub fn defer(&mut self, id: MemberId) {
        if let Some(client) = self.table.get_mut(&id).filter(|client| !client.is_paused) {
            client.is_paused = true;
            client.watch_again(id);
            self.deferred.push(id);
        }
    }

    /// Reads clients again that had to wait.
    pub fn resume_deferred(&mut self) {
        for id in std::mem::take(&mut self.deferred) {
            if let Some(client) = self.table.get_mut(&id) {
                client.is_paused = false;
                client.watch_again(id);
                self.make_ready(id);
            }
        }
    }

    /// The log has space: clients are read again, as many as the slice allows and in this turn one at least.
    pub fn resume(&mut self, slice: &mut Slice) {
        while let Some(id) = self.paused.pop() {
            if let Some(client) = self.table.get_mut(&id) {
                client.is_paused = false;
                client.watch_again(id);
                // It may have sent nothing since, and have messages in its buffer.
                self.make_ready(id);
            }
            if slice.is_over() {
                break;
            }
        }
    }
}

impl Client {
    /// Has its socket watched for space as long as something waits for that.
    pub fn watch_output(&mut self, id: MemberId) {
        let wants_to_write = self.connection.has_output();
        if std::mem::replace(&mut self.wants_to_write, wants_to_write) != wants_to_write {
            self.watch_again(id);
        }
    }

    /// Watches its socket for what is wanted of it now.
    fn watch_again(&self, id: MemberId) {
        let token = Token::Member(id.0).data();
        epoll::modify(&self.set, &self.connection, token, self.interest()).expect("the socket is watched");
    }

    fn interest(&self) -> EventFlags {
        let mut interest = EventFlags::empty();
        interest.set(EventFlags::IN, !self.is_paused);
        interest.set(EventFlags::OUT, self.wants_to_write);
        interest
    }

    /// Has its socket watched there from now on. Fails where the kernel cannot watch it.
    pub fn move_to(&mut self, id: MemberId, set: &Rc<OwnedFd>) -> rustix::io::Result<()> {
        if Rc::ptr_eq(&self.set, set) {
            return Ok(());
        }
        epoll::add(set, &self.connection, Token::Member(id.0).data(), self.interest())?;
        let before = std::mem::replace(&mut self.set, Rc::clone(set));
        epoll::delete(&*before, &self.connection)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn one_that_wants_to_connect_loses_its_place_to_its_own_user_only() {
        let (mut clients, now) = (Clients::default(), Instant::now());
        let [set, other] = [(); 2].map(|()| Rc::new(epoll::create(epoll::CreateFlags::CLOEXEC).unwrap()));
        let insert = |clients: &mut Clients, id, user| {
            let (socket, _) = causeway_os::socket::stream_pair().unwrap();
            epoll::add(&set, &socket, Token::Member(id).data(), EventFlags::IN).unwrap();
            let deadline = now + Duration::from_secs(id);
            let connection = Connection::new(socket, user, ":1.5".into(), 100);
            clients.insert(MemberId(id), user, connection, deadline, Rc::clone(&set));
        };
        // Of one user, long ago, and then many of another one.
        insert(&mut clients, 1, 1000);
        (2..10).for_each(|id| insert(&mut clients, id, 2000));
        assert_eq!(clients.incomplete_count(), 9);
        assert_eq!(clients.next_hello().map(|(_, id)| id), Some(MemberId(1)));
        for id in 2..9 {
            assert_eq!(clients.first_to_go(), Some(MemberId(id)));
            clients.remove(MemberId(id));
        }
        clients.rename(MemberId(1), MemberId(100), &other).unwrap();
        assert_eq!((clients.first_to_go(), clients.incomplete_count()), (Some(MemberId(9)), 1));
        clients.remove(MemberId(9));
        assert_eq!((clients.first_to_go(), clients.next_hello()), (None, None));
    }
}
