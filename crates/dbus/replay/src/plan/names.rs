//! Who owns which well-known name at a moment of the capture, and what a message to the name waits for.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::Wait;

#[derive(Debug, Default)]
pub struct Name {
    pub owner: Option<usize>,
    /// What makes the owner the owner.
    pub ready: Vec<Wait>,
    previous: Option<usize>,
    /// The driver's answers to calls that found no owner: of each connection the last, with its place in the inbox.
    asked: BTreeMap<usize, usize>,
    /// Calls that wait for the owner whom they started.
    pub deferred: Vec<usize>,
}

impl Name {
    /// A call of this connection found no owner, which the driver's answer at this place of its inbox says.
    pub fn ask(&mut self, connection: usize, place: usize) {
        self.asked.insert(connection, place);
    }

    /// What a connection that wants the name waits for: the calls before have found nobody.
    pub fn asked(&self) -> impl Iterator<Item = Wait> + '_ {
        self.asked.iter().map(|(connection, place)| Wait::Inbox(*connection, place + 1))
    }

    pub fn give(&mut self, to: usize, ready: Vec<Wait>) {
        if let Some(owner) = self.owner.filter(|owner| *owner != to) {
            self.previous = Some(owner);
        }
        self.owner = Some(to);
        self.ready = ready;
        self.asked.clear();
    }

    pub fn free(&mut self) {
        self.previous = self.owner.take().or(self.previous);
        self.ready.clear();
    }

    /// The connections that must have received everything before the name changes hands, or is asked for and refused.
    pub fn latest(&self) -> impl Iterator<Item = usize> + use<> {
        self.owner.into_iter().chain(self.previous)
    }
}

#[derive(Debug, Default)]
pub struct Names<'a>(FxHashMap<&'a str, Name>);

impl<'a> Names<'a> {
    pub fn get(&mut self, name: &'a str) -> &mut Name {
        self.0.entry(name).or_default()
    }

    /// What makes the owner of a name its owner; nothing where it has none.
    pub fn ready(&self, name: &str) -> &[Wait] {
        self.0.get(name).map_or(&[], |name| &name.ready)
    }

    pub fn all(&self) -> Vec<String> {
        let mut all: Vec<String> = self.0.keys().map(|name| (*name).to_owned()).collect();
        all.sort_unstable();
        all
    }

    pub fn deferred(&self) -> usize {
        self.0.values().map(|name| name.deferred.len()).sum()
    }

    /// A connection has left, which is known when `gone` holds.
    pub fn leave(&mut self, connection: usize, gone: Wait) {
        for name in self.0.values_mut() {
            if name.owner == Some(connection) {
                name.free();
            } else if name.owner.is_some() && name.previous == Some(connection) {
                name.ready.push(gone);
            }
        }
    }
}
