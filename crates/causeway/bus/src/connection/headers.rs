//! Headers that were checked before: most messages of one sender differ in their serials and their body only.

use causeway_dbus_wire::wire::{Header, Layout};

use crate::port::Received;

/// Places for headers; a power of two.
const PLACES: usize = 64;
/// Longer headers are not remembered.
const LONGEST: usize = 1024;

/// The headers that were checked last, one in each place.
#[derive(Debug, Default)]
pub(super) struct KnownHeaders(Vec<Option<Box<Known>>>);

#[derive(Debug)]
struct Known {
    sender: u64,
    bytes: Vec<u8>,
    layout: Layout,
}

impl KnownHeaders {
    /// The layout of the header of a message; `None` if the header breaks the D-Bus specification or names another sender.
    pub fn layout(&mut self, received: &Received) -> Option<Layout> {
        if self.0.is_empty() {
            self.0.resize_with(PLACES, || None);
        }
        let of = &received.header;
        let mixed = of.sender.wrapping_mul(31) + u64::from(of.kind) * 7 + u64::from(of.body_offset / 8);
        let place = &mut self.0[mixed as usize % PLACES];
        match place {
            Some(known) if known.sender == of.sender && known.layout.is_of(&known.bytes, &received.bytes) => {
                Some(known.layout)
            }
            _ => {
                let layout = layout_of(received)?;
                if layout.header_bytes() <= LONGEST {
                    let bytes = received.bytes[..layout.header_bytes()].to_vec();
                    *place = Some(Box::new(Known { sender: of.sender, bytes, layout }));
                }
                Some(layout)
            }
        }
    }
}

/// As [`KnownHeaders::layout`], of a message whose like does not come again.
pub(super) fn layout_of(received: &Received) -> Option<Layout> {
    let header = Header::parse(&received.bytes).ok()?;
    let sender = crate::authority::name_of(received.header.sender);
    (header.sender == Some(&sender)).then(|| Layout::of(&header, &received.bytes))
}
