//! What the authority holds for members: descriptors, and messages in files, each under the token of the message to which it belongs.
//!
//! The sender deposits before its message is in the order log, so that a receiver that finds the message finds the deposit. A deposit
//! ends when all have taken it that the message is for, have passed the message without taking it, or are gone. The deposits of a
//! sender that has ended stay until their receivers have passed its end.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use super::PeerId;
use crate::error::{Error, Result, name};
use crate::port::To;

/// How much may be on its way beside the log. What is above is refused with `LimitsExceeded`.
#[derive(Clone, Debug)]
pub struct TransferLimits {
    /// Descriptors of the messages of one connection that have not been taken.
    pub descriptors_per_connection: usize,
    /// Bytes of the messages of one connection that lie in files and have not been taken.
    pub bytes_per_connection: u64,
    /// Descriptors of all connections. The process that serves the bus has them open.
    pub descriptors: usize,
    /// Bytes of all connections.
    pub bytes: u64,
}

impl Default for TransferLimits {
    /// 512 descriptors and 256 MiB of each connection; of all connections 1 GiB, and a quarter of the descriptors that this process may
    /// have now.
    fn default() -> TransferLimits {
        let (soft, _) = causeway_os::limits::nofile();
        TransferLimits {
            descriptors_per_connection: 512,
            bytes_per_connection: 256 << 20,
            descriptors: usize::try_from(soft / 4).unwrap_or(usize::MAX).clamp(256, 16384),
            bytes: 1 << 30,
        }
    }
}

/// What travels with one message.
#[derive(Debug)]
pub struct Deposit {
    /// Whose limits it counts against.
    pub charged: PeerId,
    /// For whom it is.
    pub to: To,
    /// Bytes of the message in the file that is the first descriptor; 0 if the message is in the outbox.
    pub body_bytes: u64,
    /// The file of the message, if there is one, and the descriptors.
    pub descriptors: Vec<OwnedFd>,
    /// Members that have taken a copy, as long as it is not known for whom the signal is.
    taken: Vec<u16>,
    waits_for: Option<WaitsFor>,
}

/// Who has not taken a deposit.
#[derive(Debug)]
struct WaitsFor {
    slots: Vec<u16>,
    /// Who has passed this position of the order log does not take it any more.
    end: u64,
}

impl Deposit {
    /// A deposit that nobody has taken.
    pub fn new(charged: PeerId, to: To, body_bytes: u64, descriptors: Vec<OwnedFd>) -> Deposit {
        Deposit { charged, to, body_bytes, descriptors, taken: Vec::new(), waits_for: None }
    }
}

/// All deposits, by the number of the member whose outbox has the message, and the token.
#[derive(Debug)]
pub struct Tokens {
    limits: TransferLimits,
    held: BTreeMap<(PeerId, u32), Deposit>,
    last: u32,
}

impl Tokens {
    /// No deposits.
    pub fn new(limits: TransferLimits) -> Tokens {
        Tokens { limits, held: BTreeMap::new(), last: 0 }
    }

    /// A token for a message in the outbox of the authority.
    pub fn next_token(&mut self) -> u32 {
        self.last = self.last.wrapping_add(1).max(1);
        self.last
    }

    /// Holds a deposit.
    ///
    /// # Errors
    /// `LimitsExceeded`; the token is 0 or has a deposit.
    pub fn deposit(&mut self, owner: PeerId, token: u32, deposit: Deposit) -> Result<()> {
        if token == 0 || self.held.contains_key(&(owner, token)) {
            return Err(Error::Refused(format!("token {token} is not free")));
        }
        let limits = &self.limits;
        let (descriptors, bytes) = self.in_flight(Some(deposit.charged));
        check(
            "descriptors of this connection",
            descriptors + deposit.descriptors.len(),
            limits.descriptors_per_connection,
        )?;
        check("bytes of this connection", bytes + deposit.body_bytes, limits.bytes_per_connection)?;
        let (descriptors, bytes) = self.in_flight(None);
        check("descriptors of all connections", descriptors + deposit.descriptors.len(), limits.descriptors)?;
        check("bytes of all connections", bytes + deposit.body_bytes, limits.bytes)?;
        self.held.insert((owner, token), deposit);
        Ok(())
    }

    /// Descriptors and bytes that are held, of one connection or of all.
    pub fn in_flight(&self, charged: Option<PeerId>) -> (usize, u64) {
        let counted = self.held.values().filter(|deposit| charged.is_none_or(|id| id == deposit.charged));
        counted.fold((0, 0), |(descriptors, bytes), deposit| {
            (descriptors + deposit.descriptors.len(), bytes + deposit.body_bytes)
        })
    }

    /// The deposit for the peer `id`, whose messages the member in `slot` reads.
    pub fn find(&self, owner: PeerId, token: u32, slot: u16, id: PeerId) -> Option<&Deposit> {
        let deposit = self.held.get(&(owner, token))?;
        let is_for = match deposit.to {
            To::All => !deposit.taken.contains(&slot),
            to => to == To::Peer { slot, id },
        };
        is_for.then_some(deposit)
    }

    /// Is a deposit held that the member in `slot` may still take, as far as its sender has said for whom it is?
    pub fn may_be_for(&self, owner: PeerId, token: u32, slot: u16) -> bool {
        self.held.get(&(owner, token)).is_some_and(|deposit| {
            deposit.waits_for.as_ref().is_none_or(|waits_for| waits_for.slots.contains(&slot))
        })
    }

    /// The member in `slot` has taken a deposit. Returned if nobody else is to take it.
    pub fn taken(&mut self, owner: PeerId, token: u32, slot: u16) -> Option<Deposit> {
        let deposit = self.held.get_mut(&(owner, token))?;
        let is_last = match (&mut deposit.waits_for, deposit.to) {
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
        deposit.taken.push(slot);
        None
    }

    /// A signal is at `position` of the log, and is for the members in these slots.
    pub fn sent(&mut self, owner: PeerId, token: u32, position: u64, mut slots: Vec<u16>) {
        let Some(deposit) = self.held.get_mut(&(owner, token)).filter(|deposit| deposit.to == To::All) else {
            return;
        };
        slots.retain(|slot| !deposit.taken.contains(slot));
        if slots.is_empty() {
            self.held.remove(&(owner, token));
        } else {
            deposit.waits_for = Some(WaitsFor { slots, end: position.saturating_add(1) });
        }
    }

    /// A member that deposited has ended; its last message is before `end`. Returns who may still take what it left, of those that
    /// are `present`.
    pub fn owner_left(&mut self, owner: PeerId, end: u64, present: &[u16]) -> Vec<u16> {
        let mut waiting = Vec::new();
        for (_, deposit) in self.held.range_mut((owner, 0)..=(owner, u32::MAX)) {
            let slots = match deposit.to {
                To::Peer { slot, .. } => vec![slot],
                To::All => present.to_vec(),
            };
            let waits_for = deposit.waits_for.get_or_insert(WaitsFor { slots, end });
            waiting.extend_from_slice(&waits_for.slots);
        }
        waiting.sort_unstable();
        waiting.dedup();
        waiting
    }

    /// A connection has ended: `slot` if it was a member. It takes nothing any more.
    pub fn receiver_left(&mut self, id: PeerId, slot: Option<u16>) {
        self.held.retain(|_, deposit| match (deposit.to, &mut deposit.waits_for) {
            (To::Peer { id: to, .. }, _) => to != id,
            (To::All, Some(waits_for)) => {
                waits_for.slots.retain(|waiting| Some(*waiting) != slot);
                !waits_for.slots.is_empty()
            }
            (To::All, None) => true,
        });
    }

    /// Ends the deposits that all have passed. `cursor` is how far the member in a slot has read.
    pub fn sweep(&mut self, cursor: impl Fn(u16) -> u64) {
        self.held.retain(|_, deposit| {
            let Some(waits_for) = &mut deposit.waits_for else { return true };
            waits_for.slots.retain(|slot| cursor(*slot) < waits_for.end);
            !waits_for.slots.is_empty()
        });
    }

    /// Are there deposits that end when members have read on?
    pub fn has_waiting(&self) -> bool {
        self.held.values().any(|deposit| deposit.waits_for.is_some())
    }
}

fn check<T: PartialOrd + std::fmt::Display>(what: &str, count: T, most: T) -> Result<()> {
    if count <= most {
        return Ok(());
    }
    let text = format!("{count} {what} would be on their way, {most} may be: receivers must read first");
    Err(Error::method(name::LIMITS_EXCEEDED, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENDER: PeerId = 5;
    const ONE: To = To::Peer { slot: 2, id: 7 };

    fn tokens() -> Tokens {
        Tokens::new(TransferLimits {
            descriptors_per_connection: 4,
            bytes_per_connection: 100,
            descriptors: 6,
            bytes: 150,
        })
    }

    fn deposit(to: To, count: usize, body_bytes: u64) -> Deposit {
        let fd = || rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        Deposit::new(SENDER, to, body_bytes, (0..count).map(|_| fd()).collect())
    }

    #[test]
    fn what_is_for_one_goes_when_that_one_has_taken_it_or_is_gone() {
        let mut tokens = tokens();
        tokens.deposit(SENDER, 1, deposit(ONE, 2, 0)).unwrap();
        tokens.deposit(SENDER, 2, deposit(ONE, 1, 0)).unwrap();
        for (token, slot, id) in [(3, 2, 7), (1, 3, 7), (1, 2, 8), (0, 2, 7)] {
            assert!(tokens.find(SENDER, token, slot, id).is_none(), "{token} {slot} {id}");
        }
        assert!(tokens.find(SENDER + 1, 1, 2, 7).is_none());
        assert_eq!(tokens.find(SENDER, 1, 2, 7).unwrap().descriptors.len(), 2);
        assert_eq!(tokens.taken(SENDER, 1, 2).unwrap().descriptors.len(), 2);
        tokens.receiver_left(8, Some(3));
        assert_eq!(tokens.in_flight(None), (1, 0));
        tokens.receiver_left(7, Some(2));
        assert_eq!(tokens.in_flight(None), (0, 0));
    }

    #[test]
    fn what_is_for_several_goes_with_the_last_of_them() {
        let mut tokens = tokens();
        tokens.deposit(SENDER, 1, deposit(To::All, 1, 0)).unwrap();
        // One was faster than the note of its sender.
        assert!(tokens.taken(SENDER, 1, 4).is_none());
        assert!(tokens.find(SENDER, 1, 4, 9).is_none(), "taken twice");
        assert!(tokens.may_be_for(SENDER, 1, 5), "not known yet");
        tokens.sent(SENDER, 1, 10, vec![2, 3, 4, 6]);
        assert_eq!([2, 4, 5].map(|slot| tokens.may_be_for(SENDER, 1, slot)), [true, false, false]);
        assert!(tokens.taken(SENDER, 1, 2).is_none());
        tokens.sweep(|slot| if slot == 3 { 11 } else { 10 });
        assert!(tokens.has_waiting());
        tokens.receiver_left(11, Some(6));
        assert_eq!((tokens.in_flight(None), tokens.has_waiting()), ((0, 0), false));
        // Nobody wants it.
        tokens.deposit(SENDER, 2, deposit(To::All, 1, 0)).unwrap();
        tokens.sent(SENDER, 2, 10, Vec::new());
        assert_eq!(tokens.in_flight(None), (0, 0));
    }

    #[test]
    fn what_a_dead_sender_left_goes_when_its_end_is_passed() {
        let mut tokens = tokens();
        tokens.deposit(SENDER, 1, deposit(ONE, 1, 0)).unwrap();
        tokens.deposit(SENDER, 2, deposit(To::All, 1, 0)).unwrap();
        assert_eq!(tokens.owner_left(SENDER, 20, &[0, 2, 3]), [0, 2, 3]);
        assert!(tokens.find(SENDER, 1, 2, 7).is_some(), "its message may be there");
        tokens.sweep(|slot| if slot == 3 { 19 } else { 20 });
        assert_eq!(tokens.in_flight(None), (1, 0));
        tokens.sweep(|_| 20);
        assert_eq!(tokens.in_flight(None), (0, 0));
    }

    #[test]
    fn limits_hold_for_one_connection_and_for_all() {
        let mut tokens = tokens();
        let refused = |outcome: Result<()>, what: &str| {
            let error = outcome.unwrap_err();
            assert_eq!(error.name(), Some(name::LIMITS_EXCEEDED));
            assert!(error.to_string().contains(what), "{error}");
        };
        tokens.deposit(SENDER, 1, deposit(ONE, 4, 0)).unwrap();
        refused(tokens.deposit(SENDER, 2, deposit(ONE, 1, 0)), "5 descriptors of this connection");
        let other = |count, bytes| Deposit { charged: 6, ..deposit(ONE, count, bytes) };
        refused(tokens.deposit(6, 1, other(3, 0)), "7 descriptors of all");
        refused(tokens.deposit(6, 1, other(1, 101)), "101 bytes of this");
        tokens.deposit(6, 1, other(1, 100)).unwrap();
        refused(tokens.deposit(8, 1, Deposit { charged: 8, ..deposit(ONE, 1, 51) }), "151 bytes of all");
        for token in [0, 1] {
            assert!(matches!(tokens.deposit(SENDER, token, deposit(ONE, 0, 0)), Err(Error::Refused(_))));
        }
        assert_eq!(tokens.in_flight(Some(6)), (1, 100));
    }
}
