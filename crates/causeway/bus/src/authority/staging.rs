//! What the authority holds for members: descriptors, and messages in files, each under the token of the message to which it belongs.
//!
//! A sender stages a transfer before its message is in the order log, so that a receiver that finds the message finds the staged transfer. A staged transfer
//! ends when all have taken it that the message is for, have passed the message without taking it, or are gone. The staged transfers of a
//! sender that has ended stay until their receivers have passed its end.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;

use causeway_os::Context;

use super::PeerId;
use super::foreign::ForeignDescriptors;
use crate::error::{Error, Result, name};
use crate::port::{AUTHORITY, To};
use crate::share::Share;

/// How much may be in flight outside of the log. A connection has its [`Share`]; what is above is refused with `LimitsExceeded`.
#[derive(Clone, Debug)]
pub struct TransferLimits {
    /// Descriptors of messages that have not been taken. The process that serves the bus has them open.
    pub descriptors: Share,
    /// Bytes of messages that lie in files and have not been taken.
    pub bytes: Share,
}

impl Default for TransferLimits {
    /// 512 descriptors and 256 MiB of each connection; of all 1 GiB, and a quarter of the descriptors that this process may
    /// have.
    fn default() -> TransferLimits {
        let (soft, _) = causeway_os::limits::nofile();
        TransferLimits {
            descriptors: Share { limit: 512, budget: (soft / 4).clamp(256, 16384) },
            bytes: Share { limit: 256 << 20, budget: 1 << 30 },
        }
    }
}

/// What travels with one message.
#[derive(Debug)]
pub struct StagedTransfer {
    /// Whose limits it counts against.
    pub charged: PeerId,
    pub to: To,
    /// Bytes of the message in the file that is the first descriptor; 0 if the message is in the outbox.
    pub body_bytes: u64,
    /// The file of the message, if there is one, and the descriptors.
    pub descriptors: ForeignDescriptors,
    /// Members that have taken a copy, as long as others may take one.
    taken: Vec<u16>,
    waits_for: Option<WaitsFor>,
}

#[derive(Debug)]
struct WaitsFor {
    slots: Vec<u16>,
    /// Who has passed this position of the order log does not take it any more.
    end: u64,
}

impl StagedTransfer {
    pub fn new(charged: PeerId, to: To, body_bytes: u64, descriptors: ForeignDescriptors) -> StagedTransfer {
        StagedTransfer { charged, to, body_bytes, descriptors, taken: Vec::new(), waits_for: None }
    }

    pub fn copies(&self) -> Result<Vec<OwnedFd>> {
        let copies = self.descriptors.iter().map(OwnedFd::try_clone).collect::<std::io::Result<_>>();
        Ok(copies.context("copy", || "descriptors")?)
    }

    /// The only receiver needs it no more, and the authority may until it has read up to `end`.
    fn keep_for_authority(&mut self, receiver: u16, end: u64) {
        self.taken.push(receiver);
        self.waits_for = Some(WaitsFor { slots: vec![AUTHORITY], end });
    }
}

/// All staged transfers, by the number of the member whose outbox has the message, and the token.
#[derive(Debug)]
pub struct StagingArea {
    limits: TransferLimits,
    held: BTreeMap<(PeerId, u32), StagedTransfer>,
    last: u32,
}

impl StagingArea {
    pub fn new(limits: TransferLimits) -> StagingArea {
        StagingArea { limits, held: BTreeMap::new(), last: 0 }
    }

    /// A token for a message in the outbox of the authority.
    pub fn next_token(&mut self) -> u32 {
        self.last = self.last.wrapping_add(1).max(1);
        self.last
    }

    /// Holds a staged transfer. Fails with `LimitsExceeded`, or if the token is 0 or has a staged transfer.
    pub fn stage(&mut self, owner: PeerId, token: u32, staged: StagedTransfer) -> Result<()> {
        if token == 0 || self.held.contains_key(&(owner, token)) {
            return Err(Error::Refused(format!("token {token} is in use")));
        }
        let (own, all) = (self.in_flight(Some(staged.charged)), self.in_flight(None));
        let count = staged.descriptors.len() as u64;
        check("descriptors", self.limits.descriptors, (own.0 as u64, all.0 as u64), count)?;
        check("bytes", self.limits.bytes, (own.1, all.1), staged.body_bytes)?;
        self.held.insert((owner, token), staged);
        Ok(())
    }

    /// Descriptors and bytes that are held, of one connection or of all.
    pub fn in_flight(&self, charged: Option<PeerId>) -> (usize, u64) {
        let counted = self.held.values().filter(|staged| charged.is_none_or(|id| id == staged.charged));
        counted.fold((0, 0), |(descriptors, bytes), staged| {
            (descriptors + staged.descriptors.len(), bytes + staged.body_bytes)
        })
    }

    /// Descriptors and bytes that are held, of each connection.
    pub fn in_flight_of_each(&self) -> HashMap<PeerId, (usize, u64)> {
        let mut all: HashMap<PeerId, (usize, u64)> = HashMap::new();
        for staged in self.held.values() {
            let (descriptors, bytes) = all.entry(staged.charged).or_default();
            *descriptors += staged.descriptors.len();
            *bytes += staged.body_bytes;
        }
        all
    }

    /// The staged transfer for the peer `id`, whose messages the member in `slot` reads.
    pub fn find(&self, owner: PeerId, token: u32, slot: u16, id: PeerId) -> Option<&StagedTransfer> {
        let staged = self.any(owner, token)?;
        let is_for = staged.to == To::All || staged.to == To::Peer { slot, id };
        (is_for && !staged.taken.contains(&slot)).then_some(staged)
    }

    /// The staged transfer with this token, for any receiver.
    pub fn any(&self, owner: PeerId, token: u32) -> Option<&StagedTransfer> {
        self.held.get(&(owner, token))
    }

    /// Is a staged transfer held that the member in `slot` may still take, as far as its sender has said for whom it is?
    pub fn may_be_for(&self, owner: PeerId, token: u32, slot: u16) -> bool {
        self.held.get(&(owner, token)).is_some_and(|staged| {
            staged.waits_for.as_ref().is_none_or(|waits_for| waits_for.slots.contains(&slot))
        })
    }

    /// The member in `slot` has taken a staged transfer. Returned if nobody else is to take it.
    pub fn taken(&mut self, owner: PeerId, token: u32, slot: u16) -> Option<StagedTransfer> {
        let staged = self.held.get_mut(&(owner, token))?;
        let is_last = match (&mut staged.waits_for, staged.to) {
            (_, To::Peer { .. }) => true,
            (Some(waits_for), To::All) => {
                waits_for.slots.retain(|waiting| *waiting != slot);
                waits_for.slots.is_empty()
            }
            (None, To::All) => false,
        };
        if is_last {
            return self.held.remove(&(owner, token));
        }
        staged.taken.push(slot);
        None
    }

    /// The only receiver, in `slot`, has taken it. It stays until the authority has read up to `end`, for those that watch the
    /// bus.
    pub fn taken_and_watched(&mut self, owner: PeerId, token: u32, slot: u16, end: u64) {
        if let Some(staged) = self.held.get_mut(&(owner, token)) {
            staged.keep_for_authority(slot, end);
        }
    }

    /// A signal is at `position` of the log, and is for the members in these slots.
    pub fn sent(&mut self, owner: PeerId, token: u32, position: u64, mut slots: Vec<u16>) {
        let Some(staged) = self.held.get_mut(&(owner, token)).filter(|staged| staged.to == To::All) else {
            return;
        };
        slots.retain(|slot| !staged.taken.contains(slot));
        if slots.is_empty() {
            self.held.remove(&(owner, token));
        } else {
            staged.waits_for = Some(WaitsFor { slots, end: position.saturating_add(1) });
        }
    }

    /// A sender has ended; its last message is before `end`. Returns who of those `present` may still take what it left.
    pub fn owner_left(&mut self, owner: PeerId, end: u64, present: &[u16]) -> Vec<u16> {
        let mut waiting = Vec::new();
        for (_, staged) in self.held.range_mut((owner, 0)..=(owner, u32::MAX)) {
            let slots = match staged.to {
                To::Peer { slot, .. } => vec![slot],
                To::All => present.to_vec(),
            };
            let waits_for = staged.waits_for.get_or_insert(WaitsFor { slots, end });
            waiting.extend_from_slice(&waits_for.slots);
        }
        waiting.sort_unstable();
        waiting.dedup();
        waiting
    }

    /// A connection has ended, in `slot` if it was a member. What was for it stays, if the bus is watched, until the authority
    /// has read up to `watched`.
    pub fn receiver_left(&mut self, id: PeerId, slot: Option<u16>, watched: Option<u64>) {
        self.held.retain(|_, staged| match (staged.to, &mut staged.waits_for) {
            (To::Peer { id: to, slot }, _) if to == id && slot != AUTHORITY => match watched {
                _ if staged.taken.contains(&slot) => true,
                Some(end) => {
                    staged.keep_for_authority(slot, end);
                    true
                }
                None => false,
            },
            (To::Peer { id: to, .. }, _) => to != id,
            (To::All, Some(waits_for)) => {
                waits_for.slots.retain(|waiting| Some(*waiting) != slot);
                !waits_for.slots.is_empty()
            }
            (To::All, None) => true,
        });
    }

    /// Ends the staged transfers that all have passed. `cursor` is how far the member in a slot has read.
    pub fn sweep(&mut self, cursor: impl Fn(u16) -> u64) {
        self.held.retain(|_, staged| {
            let Some(waits_for) = &mut staged.waits_for else { return true };
            waits_for.slots.retain(|slot| cursor(*slot) < waits_for.end);
            !waits_for.slots.is_empty()
        });
    }

    /// Are there staged transfers that end when members have read on?
    pub fn has_waiting(&self) -> bool {
        self.held.values().any(|staged| staged.waits_for.is_some())
    }
}

/// May a connection that has `own` of `held` on their way send `more`?
fn check(what: &str, share: Share, (own, held): (u64, u64), more: u64) -> Result<()> {
    if share.allows_message(own, held, more) {
        return Ok(());
    }
    let (count, most) = (own.saturating_add(more), share.most(own, held));
    let (limit, budget) = (share.limit, share.budget);
    let text = format!(
        "{count} {what} of this connection would be in flight, more than the limit of {most}: receivers must read first \
         (AuthorityOptions::transfers allows {limit} to each connection; all have {held} of {budget})"
    );
    Err(Error::method(name::LIMITS_EXCEEDED, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENDER: PeerId = 5;
    const ONE: To = To::Peer { slot: 2, id: 7 };

    fn staging() -> StagingArea {
        StagingArea::new(TransferLimits {
            descriptors: Share { limit: 4, budget: 8 },
            bytes: Share { limit: 100, budget: 150 },
        })
    }

    fn staged(to: To, count: usize, body_bytes: u64) -> StagedTransfer {
        let fd = || crate::control::new_doorbell().unwrap();
        StagedTransfer::new(
            SENDER,
            to,
            body_bytes,
            ForeignDescriptors::new((0..count).map(|_| fd()).collect(), drop),
        )
    }

    #[test]
    fn what_is_for_several_goes_with_the_last_of_them() {
        let mut staging = staging();
        staging.stage(SENDER, 1, staged(To::All, 1, 0)).unwrap();
        // One was faster than the note of its sender.
        assert!(staging.taken(SENDER, 1, 4).is_none());
        assert!(staging.find(SENDER, 1, 4, 9).is_none(), "taken twice");
        assert!(staging.may_be_for(SENDER, 1, 5), "not known yet");
        staging.sent(SENDER, 1, 10, vec![2, 3, 4, 6]);
        assert_eq!([2, 4, 5].map(|slot| staging.may_be_for(SENDER, 1, slot)), [true, false, false]);
        assert!(staging.taken(SENDER, 1, 2).is_none());
        staging.sweep(|slot| if slot == 3 { 11 } else { 10 });
        assert!(staging.has_waiting());
        staging.receiver_left(11, Some(6), None);
        assert_eq!((staging.in_flight(None), staging.has_waiting()), ((0, 0), false));
        // Nobody wants it.
        staging.stage(SENDER, 2, staged(To::All, 1, 0)).unwrap();
        staging.sent(SENDER, 2, 10, Vec::new());
        assert_eq!(staging.in_flight(None), (0, 0));
    }

    #[test]
    fn one_connection_reaches_its_share_and_others_still_send() {
        let mut staging = staging();
        let refused = |outcome: Result<()>, what: &str| {
            let error = outcome.unwrap_err();
            assert_eq!(error.name(), Some(name::LIMITS_EXCEEDED));
            assert!(error.to_string().contains(what), "{error}");
        };
        let of = |charged, count, bytes| {
            let mut of_other = staged(ONE, count, bytes);
            of_other.charged = charged;
            of_other
        };
        staging.stage(SENDER, 1, staged(ONE, 4, 0)).unwrap();
        refused(staging.stage(SENDER, 2, staged(ONE, 1, 0)), "5 descriptors of this connection");
        // Half of the four that are left.
        staging.stage(6, 1, of(6, 1, 0)).unwrap();
        staging.stage(6, 2, of(6, 1, 0)).unwrap();
        refused(
            staging.stage(6, 3, of(6, 1, 0)),
            "3 descriptors of this connection would be in flight, more than the limit of 2",
        );
        // The first message of one that has nothing has any size, until nothing is left.
        staging.stage(7, 1, of(7, 3, 101)).unwrap();
        refused(staging.stage(8, 1, of(8, 1, 0)), "more than the limit of 0");
        staging.stage(8, 1, of(8, 0, 50)).unwrap();
        refused(staging.stage(9, 1, of(9, 0, 1)), "1 bytes of this connection");
        for token in [0, 1] {
            assert!(matches!(staging.stage(SENDER, token, staged(ONE, 0, 0)), Err(Error::Refused(_))));
        }
        assert_eq!(staging.in_flight(Some(7)), (3, 101));
    }
}
