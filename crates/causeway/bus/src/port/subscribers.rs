//! Which members want a signal: what the directory says, remembered until it changes.

use crate::shared::directory::Directory;
use crate::shared::filter::{SignalKeys, SignalTexts};

const REMEMBERED: usize = 8;

/// The signals that were sent last, and the slots of the members that want them.
#[derive(Debug, Default)]
pub(super) struct SubscriberCache {
    known: Vec<Known>,
    /// The one that is forgotten next.
    oldest: usize,
}

#[derive(Debug, Default)]
struct Known {
    sender: u64,
    interface: String,
    member: String,
    path: String,
    arg0: Option<String>,
    /// The version of the directory that `slots` is from; `None` before it was asked.
    version: Option<u64>,
    slots: Vec<u16>,
}

impl SubscriberCache {
    /// Finds a signal, or remembers it; returns where it is, until the next call.
    pub fn find(&mut self, texts: &SignalTexts<'_>) -> usize {
        if let Some(at) = self.known.iter().position(|known| known.texts() == *texts) {
            return at;
        }
        let at = if self.known.len() < REMEMBERED { self.known.len() } else { self.oldest };
        if at == self.known.len() {
            self.known.push(Known::default());
        }
        self.oldest = (at + 1) % REMEMBERED;
        let known = &mut self.known[at];
        known.sender = texts.sender;
        texts.interface.clone_into(&mut known.interface);
        texts.member.clone_into(&mut known.member);
        texts.path.clone_into(&mut known.path);
        known.arg0 = texts.arg0.map(str::to_owned);
        known.version = None;
        at
    }

    /// The slots of the members that want the signal that [`SubscriberCache::find`] has found, each once, lowest first.
    ///
    /// To be asked after its entry was appended. A member has its filter, and the directory the version that goes with it, before it
    /// learns that its rule is there: a signal behind that finds both.
    pub fn slots(&mut self, at: usize, directory: &Directory) -> &[u16] {
        let known = &mut self.known[at];
        // Before the filters: a change meanwhile makes this list one of an old version.
        let version = directory.filter_version();
        if known.version != Some(version) {
            let mut slots = std::mem::take(&mut known.slots);
            slots.clear();
            let keys = SignalKeys::of(known.texts());
            let wanting = directory.listeners().filter(|peer| directory.wants(*peer, &keys));
            slots.extend(wanting.map(|peer| directory.carrier(peer)));
            slots.sort_unstable();
            slots.dedup();
            (known.slots, known.version) = (slots, Some(version));
        }
        &known.slots
    }
}

impl Known {
    fn texts(&self) -> SignalTexts<'_> {
        SignalTexts {
            sender: self.sender,
            member: &self.member,
            path: &self.path,
            interface: &self.interface,
            arg0: self.arg0.as_deref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::directory::{Peer, State};
    use crate::shared::filter::Filter;

    fn texts<'a>(member: &'a str, arg0: Option<&'a str>) -> SignalTexts<'a> {
        SignalTexts { sender: 7, member, path: "/", interface: "a.b", arg0 }
    }

    #[test]
    fn a_change_of_a_filter_is_noticed_and_others_are_remembered() {
        let (_fd, directory) = Directory::create(8, 16, 16, [1, 2]).unwrap();
        let member = |slot: u16, state| {
            let peer = Peer { id: u64::from(slot) + 2, carrier: slot, state, ..Peer::default() };
            directory.set_peer(slot, &peer);
        };
        let filter = |rule: &str| Filter::new([&rule.parse().unwrap()], |_| None);
        (1..4).for_each(|slot| member(slot, State::Active));
        let mut cache = SubscriberCache::default();
        let mut ask = |member: &str, arg0: Option<&str>| {
            let at = cache.find(&texts(member, arg0));
            cache.slots(at, &directory).to_vec()
        };
        assert_eq!(ask("M", None), []);
        directory.set_filter(3, &filter("member='M'"));
        directory.set_filter(1, &filter("member='M',arg0='x'"));
        assert_eq!((ask("M", None), ask("M", Some("x")), ask("N", None)), (vec![3], vec![1, 3], vec![]));
        // A client of the gateway is reached through its carrier, which is there once.
        for client in [9, 10] {
            directory.set_peer(client, &Peer { id: 30, carrier: 3, state: State::Active, ..Peer::default() });
            directory.set_filter(client, &Filter::all());
        }
        assert_eq!((ask("M", None), ask("N", None)), (vec![3], vec![3]));
        directory.set_state(10, State::Leaving);
        directory.set_state(9, State::Leaving);
        directory.set_state(3, State::Leaving);
        assert_eq!((ask("M", None), ask("M", Some("x"))), (vec![], vec![1]));
        for other in 0..2 * REMEMBERED {
            assert_eq!(ask(&"O".repeat(other + 1), None), []);
        }
        assert_eq!(ask("M", Some("x")), [1]);
    }
}
