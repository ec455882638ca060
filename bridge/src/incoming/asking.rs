//! What a receiver asks other hosts: to begin, and for what lies between two messages that came.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Instant;

use causeway_os::lock::lock;
use zenoh::Wait;
use zenoh::query::{ConsolidationMode, QueryTarget, Reply, ReplyKeyExpr};
use zenoh::sample::{Locality, Sample};

use super::{
    ANSWER_TIME, ASK_AGAIN, Inner, Item, NOT_UNDERSTOOD, Shared, WAITING_BYTES_MAX, Waiting, stamp_of,
};
use crate::keys;
use crate::state::HOSTS_MAX;
use crate::status::{Direction, count, log};
use crate::wire::{Kind, Packet};

impl Shared {
    pub(super) fn take_beat(&self, sample: &Sample) {
        let Some(Packet::Beat { host, group, head, incarnation }) =
            Packet::parse(&sample.payload().to_bytes())
        else {
            return self.refuse(None, "a packet that is not understood, of another version perhaps; dropped");
        };
        let Some(name) = keys::name(keys::last(sample.key_expr().as_str())) else { return };
        if host == self.net.id {
            if incarnation != u64::from(self.net.incarnation) {
                let why = format!(
                    "another bridge calls itself {name}, too: messages of neither reach the other; give one another --host"
                );
                self.refuse(None, &why);
            }
            return;
        }
        let mut inner = lock(&self.inner);
        let slot = self.state.as_ref().and_then(|state| state.slot(host));
        if !inner.origins.contains_key(&host) && inner.origins.len() >= HOSTS_MAX {
            return self.refuse(None, &format!("host {name} is one too many: {HOSTS_MAX} are heard at most"));
        }
        let origin = inner.origins.entry(host).or_default();
        origin.slot = slot;
        if origin.route.is_none() || origin.name != name {
            origin.route = Some(self.status.route("group", &self.place.name, Direction::In, &name));
            origin.name = name;
        }
        if origin.left == group {
            let why = format!(
                "another bridge calls itself {}, too: one of the two is not heard; give one another --host",
                origin.name
            );
            return self.refuse(None, &why);
        }
        if origin.group != group {
            origin.set_linked(false);
        }
        if !origin.is_linked {
            return self.ask_soon(&mut inner);
        }
        // Anybody can send a beat: what is missing, or that nothing is, only the answer of the host itself says.
        origin.head = head;
        self.acknowledge(origin);
        if origin.next < head {
            self.ask_soon(&mut inner);
        }
    }

    pub(super) fn ask_soon(&self, inner: &mut Inner) {
        if !inner.has_questions {
            inner.has_questions = true;
            self.work.notify_all();
        }
    }

    /// Asks the hosts what there is to be asked. A thread does this.
    pub(super) fn ask(self: &Arc<Self>) {
        let mut inner = lock(&self.inner);
        loop {
            if inner.is_over {
                return;
            }
            if !inner.has_questions {
                (inner, _) = self.work.wait_timeout(inner, ASK_AGAIN).unwrap_or_else(PoisonError::into_inner);
            }
            inner.has_questions = false;
            let hosts: Vec<u64> = inner.origins.keys().copied().collect();
            for host in hosts {
                inner = self.ask_host(inner, host);
            }
        }
    }

    fn ask_host<'a>(
        self: &'a Arc<Self>,
        mut inner: MutexGuard<'a, Inner>,
        host: u64,
    ) -> MutexGuard<'a, Inner> {
        let waits = inner.is_busy || inner.backlog.iter().any(|(of, ..)| *of == host);
        let Some(origin) = inner.origins.get_mut(&host).filter(|origin| !origin.name.is_empty()) else {
            return inner;
        };
        if !origin.is_linked {
            // What waits is of the group that it had: first that.
            if waits || origin.asked.is_some_and(|at| at.elapsed() < ASK_AGAIN) {
                return inner;
            }
            origin.asked = Some(Instant::now());
            let hello = Packet::Hello { host: self.net.id, group: origin.group, next: origin.done };
            let key = self.keys.link(&origin.name);
            drop(inner);
            let shared = Arc::clone(self);
            self.question(&key, hello, move |reply| shared.take_welcome(host, reply), || ());
            return lock(&self.inner);
        }
        let end = origin.early.keys().next().copied().unwrap_or(origin.head);
        // No more is asked for than may wait.
        if origin.is_fetching || end <= origin.next || inner.backlog_bytes > WAITING_BYTES_MAX {
            return inner;
        }
        let Some(origin) = inner.origins.get_mut(&host) else { return inner };
        origin.is_fetching = true;
        let begun = origin.reached();
        if let Some(long) = &mut origin.long {
            long.is_coming = false;
        }
        let hello = Packet::Hello { host: self.net.id, group: origin.group, next: origin.done };
        let key = format!("{}?from={};to={end};part={}", self.keys.link(&origin.name), begun.0, begun.1);
        let route = origin.route.clone();
        drop(inner);
        let (shared, over) = (Arc::clone(self), Arc::clone(self));
        let take = move |reply: Reply| match reply.result() {
            Ok(sample) => {
                let Some(stamp) = stamp_of(sample) else {
                    return shared.refuse(route.as_deref(), NOT_UNDERSTOOD);
                };
                if let Some(route) = &route {
                    count(&route.counters.resent, u64::from(stamp.kind == Kind::Message));
                }
                shared.take(&stamp, sample.payload());
            }
            Err(error) => {
                let answer = error.payload().try_to_string().unwrap_or_default().into_owned();
                let why =
                    format!("asked for messages that are missing, the answer was: {answer}; asked again");
                shared.refuse(route.as_deref(), &why);
            }
        };
        self.question(&key, hello, take, move || {
            let mut inner = lock(&over.inner);
            if let Some(origin) = inner.origins.get_mut(&host) {
                origin.is_fetching = false;
                over.acknowledge(origin);
                let is_behind = !origin.early.is_empty() || origin.next < origin.head;
                // What brought nothing is asked again in a while.
                if is_behind && origin.reached() > begun {
                    over.ask_soon(&mut inner);
                }
            }
        });
        lock(&self.inner)
    }

    /// Asks a host; `over` is called when all answers have come, or none comes any more.
    fn question(
        &self,
        key: &str,
        packet: Packet,
        take: impl Fn(Reply) + Send + Sync + 'static,
        over: impl FnOnce() + Send + Sync + 'static,
    ) {
        struct Over<F: FnOnce()>(Option<F>);
        impl<F: FnOnce()> Drop for Over<F> {
            fn drop(&mut self) {
                self.0.take().into_iter().for_each(|over| over());
            }
        }
        let over = Over(Some(over));
        let get = self.net.session.get(key).payload(packet.to_bytes()).timeout(ANSWER_TIME);
        let get = get
            .target(QueryTarget::All)
            .consolidation(ConsolidationMode::None)
            .accept_replies(ReplyKeyExpr::Any);
        let asked = get.allowed_destination(Locality::Remote).callback(move |reply| {
            let _ = &over;
            take(reply);
        });
        if let Err(error) = asked.wait() {
            log(&format!("{key}: {error}"));
        }
    }

    fn take_welcome(&self, host: u64, reply: Reply) {
        let sample = match reply.result() {
            Ok(sample) => sample,
            Err(error) => {
                let said = error.payload().try_to_string().unwrap_or_default().into_owned();
                return self.refuse(None, &said);
            }
        };
        let Some(Packet::Welcome { group, begin, head, .. }) = Packet::parse(&sample.payload().to_bytes())
        else {
            return;
        };
        let mut inner = lock(&self.inner);
        let waits = inner.is_busy || inner.backlog.iter().any(|(of, ..)| *of == host);
        let Some(origin) = inner.origins.get_mut(&host).filter(|origin| !origin.is_linked) else { return };
        if origin.group != group || origin.slot.is_none() && origin.next == 0 {
            if waits {
                return;
            }
            if group != origin.group && origin.head > origin.next {
                // The group before has ended with these, and nobody has them any more.
                let index = origin.head - 1;
                let item = Item::Lost(origin.head - origin.next, "their group has ended".into());
                origin.go_on_at(origin.head);
                self.pass(&mut inner, host, Waiting { index, item, is_awaited: false });
                // The next answer begins the new one.
                return;
            }
            origin.left = if group == origin.group { origin.left } else { origin.group };
            (origin.group, origin.next, origin.done, origin.long) = (group, begin, begin, None);
            if let Some((state, slot)) = self.state.as_ref().zip(origin.slot) {
                state.begin(slot, group, begin);
            }
        }
        origin.early.clear();
        (origin.early_bytes, origin.head) = (0, head);
        origin.set_linked(true);
        let is_behind = origin.next < head;
        self.acknowledge(origin);
        if is_behind {
            self.ask_soon(&mut inner);
        }
    }
}
