//! Which format the logs of a group have: one that all members have. Of these the highest, up to the one that the creator asks for; if it
//! asks for none, the present one for as long as it will do.
//!
//! A log keeps its format; another one begins with another log ([`epochs`](super::epochs)). A member that does not have the present
//! format is admitted with the next log, which has one that it has; when the last such member has left, another log has the format that
//! was asked for again. Where no other log can begin, such a member is refused. See `docs/decisions/formats.md`.

use causeway_os::handshake::{Offer, Part};

use super::connections::{Answer, Role};
use super::state::State;
use crate::error::Refusal;
use crate::log::Memory;
use crate::log::form::OFFER;
use crate::wire::{Message, Op};

impl State {
    /// Takes note of what a peer says that it has. Refuses one that this release cannot work with at all.
    pub fn note_offer(&mut self, token: u64, message: &Message) -> Answer {
        let Some(offer) = message.offer() else { return Ok(()) };
        let part = if message.op == Op::Subscribe { Part::Reads } else { Part::Writes };
        self.connections.get_mut(token)?.offer = offer;
        OFFER.agree(offer, part).map(drop).map_err(|_| Refusal::OtherFormat)
    }

    /// The offers of those whose format counts.
    fn member_offers(&self) -> impl Iterator<Item = Offer> + '_ {
        let members = self.connections.iter().filter(|connection| match connection.role {
            Role::Client | Role::Mapper { .. } | Role::Pool { .. } | Role::Claimant { .. } => false,
            Role::Publisher { .. } | Role::LatePublisher { .. } | Role::Subscriber { .. } => true,
            Role::Waiting | Role::Joining { .. } => true,
        });
        members.map(|connection| connection.offer)
    }

    /// What this group has for one more member.
    pub fn offer(&self) -> Offer {
        let present = self.logs.present.level();
        if !self.can_resize() || self.logs.is_closed {
            return Offer::levels(present..=present);
        }
        let common = Offer { max: self.options.format.unwrap_or(OFFER.max), ..OFFER };
        let with = |common: Offer, one: Offer| Offer {
            min: common.min.max(one.min),
            max: common.max.min(one.max),
            ..common
        };
        self.member_offers().fold(common, with)
    }

    /// Whether this peer can have the logs that there are now. Where another one is to begin first, it is on its way.
    pub fn has_format(&mut self, token: u64) -> Answer<bool> {
        let offer = self.connections.get(token)?.offer;
        self.offer().agree(offer, Part::Reads).map_err(|_| Refusal::OtherFormat)?;
        let coming = self.logs.next.as_ref().map(|next| next.log.level());
        let has = |level: u32| (offer.min..=offer.max).contains(&level);
        if has(self.logs.present.level()) && coming.is_none_or(has) {
            return Ok(true);
        }
        self.want_log(self.logs.present.capacity_bytes())?;
        Ok(false)
    }

    /// The format that the next log is to have.
    pub fn next_level(&self) -> u32 {
        let offer = self.offer();
        self.wanted_level().clamp(offer.min, offer.max.max(offer.min))
    }

    fn wanted_level(&self) -> u32 {
        self.options.format.unwrap_or_else(|| self.logs.present.level())
    }

    /// Asks for another log if the present one, or the one that comes, is not what the members that there are now should have.
    pub fn follow_formats(&mut self) {
        let level = self.logs.next.as_ref().map_or(&self.logs.present, |next| &next.log).level();
        let is_settled = level == self.wanted_level() && self.subscribers.waiting.is_empty();
        if !is_settled && self.pages.is_sealed() && self.next_level() != level {
            // With too many earlier logs it is asked for again when one of them is not needed any more.
            let _ = self.want_log(self.logs.present.capacity_bytes());
        }
    }

    /// Allows the highest format of this release. Returns that of the next log: an older member holds it back until it leaves.
    pub fn upgrade(&mut self) -> Answer<u32> {
        if self.logs.present.level() < OFFER.max && !self.can_resize() {
            return Err(Refusal::FormatFixed);
        }
        self.options.format = Some(OFFER.max);
        self.follow_formats();
        Ok(self.next_level())
    }

    /// Admits the subscribers that wait, as far as they have the format of the present log.
    pub fn admit_waiting(&mut self) {
        for (token, policy) in std::mem::take(&mut self.subscribers.waiting) {
            self.connections.make_visitor(token);
            match self.grant_subscriber(token, policy) {
                Ok(true) => {}
                Ok(false) => {
                    self.connections.set_role(token, Role::Waiting);
                    self.subscribers.waiting.push((token, policy));
                }
                Err(refusal) => self.refuse(token, refusal),
            }
        }
    }

    /// Refuses a request. The refusal says what this group has.
    pub fn refuse(&self, token: u64, refusal: Refusal) {
        let offer = self.offer();
        // One whose formats are all too high or too low for this release is told what that has.
        let is_far =
            self.connections.get(token).is_ok_and(|one| OFFER.agree(one.offer, Part::Reads).is_err());
        let offer = if is_far { OFFER } else { offer };
        self.connections.send(token, Message::refusal(refusal).with_offer(offer));
    }
}
