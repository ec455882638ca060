//! Native members in experiments, and the properties that are not examined with them.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use causeway_bus::{Monitor, Observed};
use causeway_dbus_wire::wire::Builder;
use weighbridge_dbus_client::{Connection, Error, Member, Notes};

use crate::link::Link;

const BYTES: &str = "a native member has no stream of bytes that could hold something else than messages; the tests of causeway-bus write wild bytes into its memory";

/// Properties that are not examined with native members, and why.
pub const NOT_EXAMINED: &[(&str, &str)] = &[
    ("invalid-headers", BYTES),
    ("invalid-bodies", BYTES),
    ("unknown-type", BYTES),
    ("before-hello", "a native member joins over the control socket, and there is no Hello"),
    ("second-hello", "a native member joins over the control socket, and there is no Hello"),
    ("missing-descriptors", "the library of a native member says how many descriptors come with a message"),
    ("equal-serials", "the library of a native member gives its messages their serials"),
];

/// A native member, or the monitor that it has become.
#[derive(Debug)]
pub struct Native {
    path: PathBuf,
    name: String,
    /// Nothing once it is a monitor.
    member: Option<Member>,
    monitor: Option<Monitor>,
}

impl Native {
    /// Joins the bus that is served at a path.
    ///
    /// # Errors
    /// Nobody serves there, or the bus refuses.
    pub fn join(path: &Path) -> Result<Native, Error> {
        let member = Member::join(path)?;
        let name = member.unique_name().to_owned();
        Ok(Native { path: path.into(), name, member: Some(member), monitor: None })
    }
}

impl Link for Native {
    fn unique_name(&self) -> &str {
        &self.name
    }

    fn send(&mut self, message: &Builder<'_>, descriptors: &[BorrowedFd<'_>]) -> Result<u32, Error> {
        self.member.as_mut().ok_or(Error::Closed)?.send_with_fds(message, descriptors)
    }

    fn receive(&mut self, patience: Duration) -> Result<Option<Vec<u8>>, Error> {
        match (&mut self.member, &mut self.monitor) {
            (_, Some(monitor)) => observe(monitor, patience),
            (Some(member), None) => member.receive(patience),
            (None, None) => Err(Error::Closed),
        }
    }

    fn become_monitor(&mut self) -> Result<bool, Error> {
        self.monitor = Some(Monitor::open(&self.path)?);
        self.member = None;
        Ok(true)
    }

    fn note_messages(&mut self, notes: Notes) {
        if let Some(member) = &mut self.member {
            member.note_messages(notes);
        }
    }

    fn keep_descriptors(&mut self) {
        if let Some(member) = &mut self.member {
            member.keep_descriptors();
        }
    }

    fn take_descriptors(&mut self) -> Vec<OwnedFd> {
        self.member.as_mut().map(Member::take_descriptors).unwrap_or_default()
    }

    fn socket(&mut self) -> Option<&mut Connection> {
        None
    }
}

/// What a monitor sees next. What it loses is missing in the experiment.
fn observe(monitor: &mut Monitor, patience: Duration) -> Result<Option<Vec<u8>>, Error> {
    let deadline = Instant::now() + patience;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match monitor.next(Some(left))? {
            Some(Observed::Message(message)) => return Ok(Some(message.bytes().to_vec())),
            Some(Observed::Lost { .. }) => {}
            None => return Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_examined_natively_is_a_property() {
        for (id, _) in NOT_EXAMINED {
            assert!(crate::properties().any(|property| property.id == *id), "{id}");
        }
    }
}
