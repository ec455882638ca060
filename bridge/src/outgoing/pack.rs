//! Small messages that go together, and the publishers of Zenoh that they go through.

use std::collections::HashMap;
use std::sync::Arc;

use zenoh::Wait;
use zenoh::bytes::ZBytes;
use zenoh::pubsub::Publisher;
use zenoh::qos::CongestionControl;
use zenoh::sample::Locality;

use super::{PACK_BYTES_MAX, Way};
use crate::failure::Result;
use crate::keys::GroupKeys;
use crate::net::Net;
use crate::status::{Route, count};
use crate::wire::{Kind, PACKED_BYTES, Packed, Stamp};

/// Small messages of one topic that go together, where there are several at once.
#[derive(Default)]
pub(super) struct Pack {
    /// Whether there are packs at all.
    pub(super) packs: bool,
    /// One payload as it is, or several with their headers.
    pub(super) bytes: Vec<u8>,
    /// The header of the first one.
    pub(super) header: [u8; PACKED_BYTES],
    /// Of the first one; then with the index of the last one.
    pub(super) stamp: Option<Stamp>,
    pub(super) count: u64,
}

impl Pack {
    pub(super) fn add(&mut self, packed: &Packed<'_>, stamp: &Stamp) {
        match &mut self.stamp {
            Some(first) => {
                assert_eq!(packed.from, first.index + 1, "a pack has no gaps");
                first.index = packed.index;
                first.is_awaited |= stamp.is_awaited;
            }
            none => *none = Some(stamp.clone()),
        }
        match self.count {
            0 => {
                self.header = packed.header();
                self.bytes.extend(packed.payload);
            }
            1 => {
                self.bytes.reserve(PACK_BYTES_MAX);
                self.bytes.splice(..0, self.header);
                packed.append_to(&mut self.bytes);
            }
            _ => packed.append_to(&mut self.bytes),
        }
        self.count += 1;
    }
}

/// Publishers of Zenoh, two for each topic: of what waits for space in Zenoh's queue, and of what is dropped without any.
pub(super) struct Publishers {
    net: Arc<Net>,
    keys: GroupKeys,
    declared: HashMap<(u32, Way), Publisher<'static>>,
}

impl Publishers {
    pub(super) fn new(net: &Arc<Net>, group: &str) -> Publishers {
        Publishers { net: Arc::clone(net), keys: net.realm.group(group), declared: HashMap::new() }
    }

    /// Whether a topic has its publishers: to declare one may wait.
    pub(super) fn has(&self, topic: u32) -> bool {
        self.declared.contains_key(&(topic, Way::Alone))
    }

    fn declare(&mut self, topic: u32) -> Result<()> {
        for (way, control) in
            [(Way::Together, CongestionControl::Block), (Way::Alone, CongestionControl::Drop)]
        {
            let publisher =
                self.net.session.declare_publisher(self.keys.topic(topic)).congestion_control(control);
            let publisher = publisher.allowed_destination(Locality::Remote).wait()?;
            self.declared.insert((topic, way), publisher);
        }
        Ok(())
    }

    /// Sends what is packed; one message alone as it is.
    pub(super) fn send(&mut self, pack: &mut Pack, way: Way, route: &Route) -> Result<()> {
        let Some(mut stamp) = pack.stamp.take() else { return Ok(()) };
        let (bytes, messages) = (std::mem::take(&mut pack.bytes), std::mem::take(&mut pack.count));
        if messages > 1 {
            stamp.kind = Kind::Pack;
        }
        if !self.has(stamp.topic) {
            self.declare(stamp.topic)?;
        }
        let publisher = &self.declared[&(stamp.topic, way)];
        let attachment = stamp.to_bytes(&bytes);
        publisher.put(ZBytes::from(bytes)).attachment(attachment).wait()?;
        count(&route.counters.sent, messages);
        Ok(())
    }
}
