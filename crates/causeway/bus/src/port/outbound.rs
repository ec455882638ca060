//! A message to be sent, as a port takes it.

use causeway_dbus_wire::wire::{Header, Layout, Numbers};

use super::To;
use crate::shared::filter::SignalTexts;

/// A message to be sent: its bytes, and what of its header the bus needs.
#[derive(Clone, Copy, Debug)]
pub struct Outbound<'a> {
    /// For whom it is.
    pub to: To,
    pub sender: u64,
    /// What decides who wants it, if it is for all.
    pub signal: Option<SignalTexts<'a>>,
    pub numbers: Numbers,
    pub header_bytes: usize,
    pub bytes: &'a [u8],
}

impl<'a> Outbound<'a> {
    pub fn new(to: To, sender: u64, header: &Header<'a>, bytes: &'a [u8]) -> Outbound<'a> {
        let Header { kind, flags, serial, header_bytes, body_bytes, reply_serial, unix_fds, .. } = *header;
        let numbers = Numbers { kind, flags, serial, body_bytes, reply_serial, unix_fds };
        let signal = (to == To::All).then(|| SignalTexts::new(sender, header, &bytes[header_bytes..]));
        Outbound { to, sender, signal, numbers, header_bytes, bytes }
    }

    /// A message of this layout. The texts of its header are not looked at unless it is for all.
    #[inline]
    pub fn of_layout(to: To, sender: u64, layout: &Layout, bytes: &'a [u8]) -> Outbound<'a> {
        match to {
            To::All => Outbound::new(to, sender, &layout.header(bytes), bytes),
            To::Peer { .. } => {
                let (numbers, header_bytes) = (layout.numbers(bytes), layout.header_bytes());
                Outbound { to, sender, signal: None, numbers, header_bytes, bytes }
            }
        }
    }
}
