//! How a receiver goes on where the bridge before it was.

use std::collections::HashSet;
use std::path::Path;

use causeway::{Group, Policy, Received, SubscribeOptions};

use super::{Inner, Item, Origin, Waiting};
use crate::failure::Result;
use crate::lists::GroupPlace;
use crate::state::State;
use crate::status::{Direction, Status};
use crate::wire::mark_of;

/// What the bridge before this one has passed: from its file, and from the log where that file leaves it open.
pub(super) fn restore(
    group: &Group,
    place: &GroupPlace,
    folder: &Path,
    status: &Status,
) -> Result<(Option<State>, Inner)> {
    let mut reader = group.subscribe(SubscribeOptions::new(Policy::Lossy).from_oldest())?;
    let route = status.route("group", &place.name, Direction::In, "");
    let state = match State::open(folder, &place.name, &place.path, reader.group_number()) {
        Ok(state) => state,
        Err(failure) => {
            route.fail(&format!("{failure}: what comes in may come twice after a restart of this bridge"));
            return Ok((None, Inner::default()));
        }
    };
    let oldest = reader.position().0;
    let mut inner = Inner::default();
    let mut marks = None;
    for (slot, passed) in state.all() {
        if passed.intent > passed.next {
            let marks: &HashSet<u64> = marks.get_or_insert_with(|| marks_in(&mut reader, state.position()));
            let is_there = marks.contains(&mark_of(passed.host, passed.intent - 1));
            // Where the log has been overwritten since, nobody knows: rather lost and counted than twice.
            if !is_there && oldest > state.position() {
                let why = "the bridge before this one was killed while it passed them, and may not have";
                let (index, item) = (passed.intent - 1, Item::Lost(passed.intent - passed.next, why.into()));
                inner.backlog.push_back((
                    passed.host,
                    passed.group,
                    Waiting { index, item, is_awaited: false },
                ));
                state.pass(slot, passed.intent, None);
            } else {
                state.pass(slot, if is_there { passed.intent } else { passed.next }, None);
            }
        }
    }
    inner.backlog_bytes = inner.backlog.iter().map(|(.., waiting)| waiting.bytes()).sum();
    for (slot, passed) in state.all() {
        let (slot, group, next) = (Some(slot), passed.group, passed.next);
        inner.origins.insert(passed.host, Origin { slot, group, next, done: next, ..Origin::default() });
    }
    Ok((Some(state), inner))
}

/// The marks of all messages in the log behind the last one that was passed: one before it may be of a group that the host had before.
fn marks_in(reader: &mut causeway::Subscriber, passed: u64) -> HashSet<u64> {
    let mut marks = HashSet::new();
    while let Ok(received) = reader.try_recv() {
        if let Received::Message(message) = received
            && (passed == 0 || message.position.0 > passed)
        {
            marks.insert(message.mark);
        }
    }
    marks
}
