//! The contract of a mechanism: what it promises a pattern, and what a pattern may rely on.

use std::io;
use std::thread;

use weighbridge_record::Properties;

use super::caps::Caps;
use super::resources::{EndResources, Facts, Figures, Side};
use super::target::{CounterCheck, InSuites, Unsupported};
use crate::axis::Axis;
use crate::host::Host;
use crate::params::{CaseParams, Wait};

/// One way to move bytes between two processes.
pub trait Mechanism: 'static {
    /// Its name in case ids.
    const ID: &'static str;
    /// What a reader should know, in one sentence.
    const ABOUT: &'static str;
    /// Its capabilities: does it keep boundaries, may it lose messages, and so on.
    const CAPS: Caps;
    /// Ways to wait that its endpoints offer; the first is the default.
    const WAITS: &'static [Wait];
    /// Settings of its own.
    const AXES: &'static [Axis] = &[];
    /// Its part in the suites that compare every mechanism.
    const IN_SUITES: InSuites = InSuites::AtEverySize;
    /// What its counters must look like, in place of what holds for two ends that exchange messages. A check that only adds to that
    /// calls [`counter_check::of_messages`](crate::counter_check::of_messages) first.
    const COUNTER_CHECK: Option<CounterCheck> = None;
    /// The largest message in bytes that surely fits where the mechanism keeps it, so that one thread that holds both ends can send it
    /// and then receive it; or why one thread can have no message on its way at all.
    const TO_ITSELF: Result<usize, &'static str> = Ok(64 << 10);
    /// One end of it.
    type End: Endpoint;

    /// What a choice may demand of it in this case. That it keeps boundaries and loses nothing follows from [`CAPS`](Mechanism::CAPS).
    fn properties(params: &CaseParams) -> Properties;

    /// The capabilities in this case: [`CAPS`](Mechanism::CAPS), unless one type stands for mechanisms that are known only when the
    /// program runs.
    #[inline]
    fn caps(_params: &CaseParams) -> Caps {
        Self::CAPS
    }

    /// Can this case run here? Otherwise one sentence with the limit's name and how to raise it; a case is never clamped and never silently
    /// dropped.
    fn fit(_host: &Host, _params: &CaseParams) -> Result<(), Unsupported> {
        Ok(())
    }

    /// In the coordinator: creates what the two ends share, near end first. A case is skipped with the error.
    fn create(host: &Host, params: &CaseParams) -> io::Result<[EndResources; 2]>;

    /// In the peer, after it is pinned.
    fn attach(side: Side, resources: EndResources, params: &CaseParams) -> io::Result<Self::End>;

    /// Attaches both ends in one thread, near end first. Where the ends wait for each other this is
    /// [`attach_at_once`].
    fn attach_both(resources: [EndResources; 2], params: &CaseParams) -> io::Result<[Self::End; 2]> {
        let [near, far] = resources;
        Ok([Self::attach(Side::Near, near, params)?, Self::attach(Side::Far, far, params)?])
    }
}

/// Attaches both ends, the far one in a thread of its own that ends with that: for ends that wait for each other.
pub fn attach_at_once<M: Mechanism<End: Send>>(
    resources: [EndResources; 2],
    params: &CaseParams,
) -> io::Result<[M::End; 2]> {
    let [near, far] = resources;
    thread::scope(|scope| {
        let far = scope.spawn(|| M::attach(Side::Far, far, params));
        let near = M::attach(Side::Near, near, params)?;
        Ok([near, far.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?])
    })
}

/// One end of a mechanism in one peer: loan and commit, take and release, so that copying and zero-copy mechanisms
/// look alike to a pattern and no adapter's copy is measured in place of the mechanism's own.
pub trait Endpoint {
    /// A message being written. Dropped without [`commit`](Endpoint::commit), it was never sent.
    type Tx<'a>: AsMut<[u8]>
    where
        Self: 'a;
    /// A message being read; released when dropped.
    type Rx<'a>: AsRef<[u8]>
    where
        Self: 'a;

    /// Room for a message of exactly `len` bytes, waiting for it where necessary. Its content is arbitrary.
    fn loan(&mut self, len: usize) -> io::Result<Self::Tx<'_>>;

    /// Sends the message in the buffer.
    fn commit(tx: Self::Tx<'_>) -> io::Result<()>;

    /// Sends a message that lies elsewhere. Copies it into a loan first, unless the mechanism can send from anywhere.
    #[inline]
    fn send_from(&mut self, message: &[u8]) -> io::Result<()> {
        let mut tx = self.loan(message.len())?;
        tx.as_mut().copy_from_slice(message);
        Self::commit(tx)
    }

    /// The next message, waiting for it. `len` is what the pattern expects: a byte stream reads exactly so much, a
    /// record mechanism returns what came, and the pattern compares.
    fn take(&mut self, len: usize) -> io::Result<Self::Rx<'_>>;

    /// How far this end has come in what it receives, as the mechanism itself counts: the number of messages, or the position in a ring
    /// or a log, which each message of one size moves by as much. 0 where it does not count. Read around a batch and compared with the
    /// operations that the harness counts; nothing may be counted for it alone.
    #[inline]
    fn position(&mut self) -> u64 {
        0
    }

    /// Touches and locks the memory that messages will lie in. Not being allowed to lock memory is a fact, not an error.
    fn prefault(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Returns when nothing that this end has sent needs it any more. Called before it is dropped.
    fn settle(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// What the mechanism has counted in the whole run, by name with unit, of the near end. Called when nothing is exchanged any more.
    fn figures(&self) -> io::Result<Figures> {
        Ok(Figures::new())
    }

    /// Effective settings, read back: pipe size, sndbuf, MSS … Called after
    /// [`prefault`](Endpoint::prefault) and before anything is exchanged: a descriptor whose other end has hung up may not answer
    /// any more.
    fn facts(&self) -> io::Result<Facts> {
        Ok(Facts::new())
    }
}
