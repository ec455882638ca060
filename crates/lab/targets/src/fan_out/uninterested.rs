//! Receivers that have joined and want none of the messages: what those who do not care cost the sender, and whether a filter lets
//! them sleep.

use weighbridge_probe::counters::ThreadCounters;

use super::{VERIFIED, burst};
use crate::prelude::*;

/// How many there are, for mechanisms that can tell who wants a message before anybody wakes up.
pub(super) const UNINTERESTED: Axis = Axis {
    name: "uninterested",
    default: "0",
    values: Values::AtLeast(0),
    about: "number of receivers more that have joined and sleep, and want none of the messages: by a socket filter that returns \
        zero, or by topics; that they get nothing and sleep on is checked",
};

/// How many uninterested receivers a case has.
pub(super) fn count(params: &CaseParams) -> usize {
    params.axes.get(UNINTERESTED.name).map_or(0, |_| params.count(UNINTERESTED))
}

/// The end of one of them.
pub trait Uninterested {
    /// Sleeps until the sender has ended, which rings `ended`.
    ///
    /// # Errors
    /// A message came, or as of any receiver.
    fn sleep(&mut self, ended: BorrowedFd<'_>) -> io::Result<()>;

    /// How often `messages` messages may wake it although it wants none.
    fn wakes_at_most(&self, _messages: u64) -> u64 {
        0
    }
}

/// Sleeps through the run. It is an error if it was woken much more often than it may be: the one switch in which it falls asleep is
/// its own, and a stop by a signal or a page that must be read are no messages.
pub(super) fn drive(mut end: Box<dyn Uninterested>, ended: OwnedFd, cx: &mut Ctx<'_>) -> io::Result<Facts> {
    const OTHER_REASONS: u64 = 16;
    let burst = burst(cx.params);
    cx.set_ops_each(burst);
    let mut slept = 0;
    let messages = cx.stand_by(|| {
        let before = ThreadCounters::read();
        end.sleep(ended.as_fd())?;
        slept = ThreadCounters::read().since(&before).voluntary_switches;
        Ok(())
    })?;
    let messages = VERIFIED + messages * burst;
    let most = end.wakes_at_most(messages) + OTHER_REASONS;
    if slept > most {
        return Err(io::Error::other(format!(
            "a receiver that wants no message slept {slept} times during {messages} messages, where {most} times are explained: its filter does not hold"
        )));
    }
    Ok(Facts::new())
}
