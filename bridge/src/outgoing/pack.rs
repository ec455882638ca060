//! Small messages that go together.

use zenoh::Wait;
use zenoh::bytes::ZBytes;
use zenoh::qos::CongestionControl;
use zenoh::sample::Locality;

use super::Publishers;
use crate::failure::Result;
use crate::keys::GroupKeys;
use crate::net::Net;
use crate::status::{Route, count};
use crate::wire::{Kind, PACKED_BYTES, Packed, Stamp};

/// Small messages of one topic that go together, where there are several at once.
pub(super) struct Pack {
    /// Whether there are packs at all.
    pub(super) packs: bool,
    pub(super) bytes: Vec<u8>,
    /// Of the first one; then with the index of the last one.
    pub(super) stamp: Option<Stamp>,
    pub(super) count: u64,
}

impl Pack {
    pub(super) fn add(&mut self, packed: &Packed<'_>, stamp: &Stamp) {
        match &mut self.stamp {
            Some(first) => {
                first.index = packed.index;
                first.is_awaited |= stamp.is_awaited;
            }
            none => *none = Some(stamp.clone()),
        }
        packed.append_to(&mut self.bytes);
        self.count += 1;
    }

    /// Sends it; one message alone as it is.
    pub(super) fn send(
        &mut self,
        net: &Net,
        keys: &GroupKeys,
        publishers: &mut Publishers,
        route: &Route,
    ) -> Result<()> {
        let Some(mut stamp) = self.stamp.take() else { return Ok(()) };
        let (mut bytes, messages) = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.count));
        if messages == 1 {
            bytes.drain(..PACKED_BYTES);
        } else {
            stamp.kind = Kind::Pack;
        }
        let publisher = match publishers.get(&stamp.topic) {
            Some(publisher) => publisher,
            None => {
                let publisher = net.session.declare_publisher(keys.topic(stamp.topic));
                let publisher = publisher.congestion_control(CongestionControl::Block);
                let publisher = publisher.allowed_destination(Locality::Remote).wait()?;
                publishers.entry(stamp.topic).or_insert(publisher)
            }
        };
        publisher.put(ZBytes::from(bytes)).attachment(stamp.to_bytes()).wait()?;
        count(&route.counters.sent, messages);
        Ok(())
    }
}
