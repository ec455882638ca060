//! Fan-out through a mechanism of a shared object: end 0 sends, and each of the others receives all of it.

use super::{OwnEnd, attach, create, fits_peers, mine};
use crate::fan_out::{self, Multicast, MulticastReceiver, MulticastSender};
use crate::prelude::*;

pub(super) const TARGET: Target = fan_out::target::<FanOut>();

struct FanOut;

impl Multicast for FanOut {
    const ID: &'static str = "own";
    const ABOUT: &'static str = "a mechanism of a shared object";
    const CAPS: Caps = Caps::PAYLOAD;
    const WAITS: &'static [Wait] = &[];
    type Sender = Sender;
    type Receiver = Receiver;

    fn caps(params: &CaseParams) -> Caps {
        mine(params).description.caps()
    }

    fn properties(_params: &CaseParams) -> Properties {
        Properties::default()
    }

    fn fit(_host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        fits_peers(params)
    }

    /// Its `loan` or `commit` waits for room, or it loses messages: the header demands either.
    fn ahead_max(_params: &CaseParams) -> Option<u64> {
        None
    }

    fn create(params: &CaseParams, members: usize) -> io::Result<Vec<EndResources>> {
        create(params, members + 1)
    }

    fn sender(resources: EndResources, params: &CaseParams) -> io::Result<Sender> {
        let end = attach(resources, params)?.prefaulted()?;
        Ok(Sender { facts: end.facts()?, end, len: params.payload_bytes })
    }

    fn receiver(resources: EndResources, params: &CaseParams) -> io::Result<Receiver> {
        let is_lossy = Self::caps(params).has(Caps::LOSSY);
        let end = attach(resources, params)?.prefaulted()?;
        Ok(Receiver { facts: end.facts()?, end, len: params.payload_bytes, is_lossy })
    }
}

struct Sender {
    end: OwnEnd,
    len: usize,
    facts: Facts,
}

impl MulticastSender for Sender {
    #[inline]
    fn send(&mut self, write: impl FnOnce(&mut [u8])) -> io::Result<()> {
        self.end.send(self.len, write)
    }

    fn facts(&self) -> Facts {
        self.facts.clone()
    }
}

struct Receiver {
    end: OwnEnd,
    len: usize,
    is_lossy: bool,
    facts: Facts,
}

impl MulticastReceiver for Receiver {
    #[inline]
    fn take(&mut self) -> io::Result<Option<&[u8]>> {
        match self.end.end.take_held(self.len) {
            Ok(message) => Ok(Some(message)),
            Err(error) if self.is_lossy && error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(self.end.mine.error(&error)),
        }
    }

    fn facts(&self) -> Facts {
        self.facts.clone()
    }
}
