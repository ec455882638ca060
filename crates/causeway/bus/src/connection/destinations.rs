//! Destinations that were resolved before: most messages of a program go to a few names.

use std::hash::BuildHasher;

use rustc_hash::FxBuildHasher;

use crate::port::To;
use crate::shared::directory::{Directory, OwnerRead};
use crate::shared::unique_name::unique_number;

/// Places for destinations; a power of two.
const PLACES: usize = 64;

/// The destinations that were resolved last, one in each place.
#[derive(Debug, Default)]
pub(super) struct Destinations(Vec<Option<Destination>>);

#[derive(Debug)]
struct Destination {
    name: Box<str>,
    peer: u16,
    id: u64,
    /// What the directory says of a well-known name.
    owner: Option<OwnerRead>,
}

impl Destinations {
    /// Where messages for a connection go, from its unique name or one that it owns; `None` if the directory shows no such connection.
    pub fn resolve(&mut self, name: &str, directory: &Directory) -> Option<To> {
        if self.0.is_empty() {
            self.0.resize_with(PLACES, || None);
        }
        let place = &mut self.0[FxBuildHasher.hash_one(name) as usize % PLACES];
        let known = place.as_ref().filter(|known| *known.name == *name);
        if let Some(to) = known.and_then(|known| known.to(directory)) {
            return Some(to);
        }
        *place = Destination::find(name, directory);
        place.as_ref().and_then(|found| found.to(directory))
    }
}

impl Destination {
    fn find(name: &str, directory: &Directory) -> Option<Destination> {
        let (peer, id, owner) = match unique_number(name) {
            Some(id) => (directory.find(id)?, id, None),
            None => {
                let owner = directory.owner(name)?;
                (owner.peer, owner.id, Some(owner))
            }
        };
        Some(Destination { name: name.into(), peer, id, owner })
    }

    /// As far as this is what the directory says now.
    fn to(&self, directory: &Directory) -> Option<To> {
        let is_owner = self.owner.is_none_or(|owner| directory.is_owner_still(&owner));
        let slot = directory.active_carrier(self.peer, self.id).filter(|_| is_owner)?;
        Some(To::Peer { slot, id: self.id })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::directory::{Owner, Peer, State};

    const NAME: &str = "com.example.Name";

    fn to(slot: u16, id: u64) -> Option<To> {
        Some(To::Peer { slot, id })
    }

    #[test]
    fn a_destination_follows_its_name_and_ends_with_its_connection() {
        let (_fd, directory) = Directory::create(4, 8, 16, [1, 2]).unwrap();
        let set = |index: u16, id: u64, carrier: u16| {
            let peer = Peer { id, carrier, state: State::Active, ..Peer::default() };
            directory.set_peer(index, &peer);
        };
        let own = |peer: u16, id: u64| {
            assert!(directory.set_owner(NAME, Some(&Owner { peer, id, queue: Vec::new() })));
        };
        let mut destinations = Destinations::default();
        let mut ask = |name: &str| [(); 2].map(|()| destinations.resolve(name, &directory));
        assert_eq!((ask(NAME), ask(":1.5"), ask(":1.07")), ([None; 2], [None; 2], [None; 2]));
        set(1, 7, 1);
        own(1, 7);
        assert_eq!((ask(NAME), ask(":1.5")), ([to(1, 7); 2], [to(1, 7); 2]));
        // A client is reached through its carrier.
        set(6, 8, 0);
        own(6, 8);
        assert_eq!((ask(NAME), ask(":1.6"), ask(":1.5")), ([to(0, 8); 2], [to(0, 8); 2], [to(1, 7); 2]));
        directory.set_state(6, State::Leaving);
        assert_eq!((ask(NAME), ask(":1.6")), ([None; 2], [None; 2]));
        own(1, 7);
        assert_eq!(ask(NAME), [to(1, 7); 2]);
        assert!(directory.set_owner(NAME, None));
        assert_eq!((ask(NAME), ask(":1.5")), ([None; 2], [to(1, 7); 2]));
        // The slot has another member, and so has the name.
        set(1, 9, 1);
        own(1, 9);
        assert_eq!((ask(NAME), ask(":1.5"), ask(":1.7")), ([to(1, 9); 2], [None; 2], [to(1, 9); 2]));
    }
}
