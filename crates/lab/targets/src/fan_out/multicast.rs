//! What reaches many: the contract between the pattern and its mechanisms.

use super::burst;
use super::uninterested::Uninterested;
use crate::prelude::*;

/// A way to send a message to many receivers. Errors are those of the kernel, or the other side is gone.
pub trait Multicast: 'static {
    /// Its name in case ids.
    const ID: &'static str;
    /// What it is, in one sentence, as `weighbridge list` prints it.
    const ABOUT: &'static str;
    /// Its capabilities; [`Caps::LOSSY`] matters here.
    const CAPS: Caps;
    /// Ways to wait that its receivers offer; the first is the default.
    const WAITS: &'static [Wait] = &[Wait::Block];
    /// Settings of its own.
    const AXES: &'static [Axis] = &[];
    /// The sending end.
    type Sender: MulticastSender;
    /// A receiving end.
    type Receiver: MulticastReceiver;

    /// Those that it has in this case, where that is not the same for all cases.
    fn caps(_params: &CaseParams) -> Caps {
        Self::CAPS
    }

    /// What a choice may demand of it in this case. That it keeps boundaries and loses nothing follows from [`CAPS`](Multicast::CAPS).
    fn properties(params: &CaseParams) -> Properties;

    /// Can this case run here? If not: one sentence with the limit's name and how to raise it.
    fn fit(_host: &Host, _params: &CaseParams) -> Result<(), Unsupported> {
        Ok(())
    }

    /// At a rate, the most messages that the sender may be ahead of any receiver; none where what lies between them bounds that by itself,
    /// because the sender waits for room or messages are lost.
    fn ahead_max(params: &CaseParams) -> Option<u64> {
        Some(burst(params))
    }

    /// In the coordinator: one resources for the sender, then one for each member of the group: the receivers, and after them those that
    /// want no message.
    fn create(params: &CaseParams, members: usize) -> io::Result<Vec<EndResources>>;

    /// In the sender.
    fn sender(resources: EndResources, params: &CaseParams) -> io::Result<Self::Sender>;

    /// In a receiver.
    fn receiver(resources: EndResources, params: &CaseParams) -> io::Result<Self::Receiver>;

    /// In a receiver that wants no message, of a mechanism that has the axis `uninterested`.
    fn uninterested(_resources: EndResources, _params: &CaseParams) -> io::Result<Box<dyn Uninterested>> {
        unreachable!("{} has no axis `uninterested`", Self::ID)
    }
}

/// The sending end.
pub trait MulticastSender {
    /// Sends a message to all receivers. `write` is given as many bytes as a message has, with arbitrary content, and writes
    /// it: where receivers will find it, if the mechanism can lend that.
    fn send(&mut self, write: impl FnOnce(&mut [u8])) -> io::Result<()>;

    /// Effective settings.
    fn facts(&self) -> Facts {
        Facts::new()
    }
}

/// A receiving end.
pub trait MulticastReceiver {
    /// The next message, waiting for it. `None`: nothing came for a while, which only a lossy mechanism says.
    fn take(&mut self) -> io::Result<Option<&[u8]>>;

    /// Effective settings.
    fn facts(&self) -> Facts {
        Facts::new()
    }
}

/// Resources of a mechanism that has a pair of descriptors for each receiver: the sender holds the first of every pair.
pub fn pairs<E>(
    receivers: usize,
    pair: impl Fn() -> Result<(OwnedFd, OwnedFd), E>,
) -> io::Result<Vec<EndResources>>
where
    io::Error: From<E>,
{
    let mut resources_by_role = vec![EndResources::default()];
    for _ in 0..receivers {
        let (near, far) = pair()?;
        resources_by_role[0].fds.push(near);
        resources_by_role.push(EndResources::of([far]));
    }
    Ok(resources_by_role)
}
