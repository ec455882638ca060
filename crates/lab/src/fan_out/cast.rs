//! What reaches many: the contract between the pattern and its mechanisms.

use std::io;

use crate::contract::{Caps, Facts, Fit, Handoff};
use crate::host::Host;
use crate::link::Link;

/// A way to send a message to many receivers.
pub(super) trait Cast: 'static {
    /// Its name in case ids.
    const ID: &'static str;
    /// One sentence.
    const ABOUT: &'static str;
    /// What it can do; [`Caps::LOSSY`] matters here.
    const CAPS: Caps;
    /// The sending end.
    type Sender: Send;
    /// A receiving end.
    type Receiver: Receive;

    /// May this case run here?
    fn fit(_host: &Host, _link: &Link) -> Fit {
        Fit::Yes
    }

    /// In the coordinator: one handoff for the sender, then one for each receiver.
    fn plan(link: &Link, receivers: usize) -> io::Result<Vec<Handoff>>;

    /// In the sender.
    fn sender(handoff: Handoff, link: &Link) -> io::Result<Self::Sender>;

    /// In a receiver.
    fn receiver(handoff: Handoff, link: &Link) -> io::Result<Self::Receiver>;
}

/// The sending end.
pub(super) trait Send {
    /// Where the next message is written, as long as a message is.
    fn room(&mut self) -> &mut [u8];

    /// Sends what was written there to all receivers.
    fn emit(&mut self) -> io::Result<()>;

    /// Effective settings.
    fn facts(&self) -> Facts {
        Facts::new()
    }
}

/// A receiving end.
pub(super) trait Receive {
    /// The next message, waiting for it. `None`: nothing came for a while, which only a lossy mechanism says.
    fn take(&mut self) -> io::Result<Option<&[u8]>>;

    /// Effective settings.
    fn facts(&self) -> Facts {
        Facts::new()
    }
}
