//! Before the first message: is the bus free of the names, and what was there before the capture.

use causeway_bus::client::{Bus, Error as ClientError};
use causeway_dbus_wire::driver::{ALLOW_REPLACEMENT, DRIVER};
use causeway_dbus_wire::wire::{Args, Body, Header, Leaf, walk};

use super::Player;
use crate::Error;
use crate::end::open;

impl Player<'_> {
    /// Checks that no other program has a name of the plan, and returns the process of the bus.
    pub(super) fn look_around(&self) -> Result<Option<u32>, Error> {
        let failed = |source| Error::Connection {
            name: None,
            taken: 0,
            planned: self.plan.steps.len() as u64,
            source,
        };
        let mut asker = open(self.address, Some(self.natives.outbox_bytes)).map_err(failed)?;
        let reply = asker.ask_driver("ListNames", Body::default()).map_err(failed)?;
        let header = Header::parse(&reply).map_err(|fault| failed(ClientError::Protocol(fault)))?;
        let mut taken = None;
        let _ = walk(&header, &reply[header.header_bytes..], &mut |leaf, _| match leaf {
            Leaf::Text(DRIVER) => {}
            Leaf::Text(name) => taken = taken.take().or(self.plan.names.iter().find(|known| *known == name)),
            _ => {}
        });
        if let Some(name) = taken {
            return Err(Error::NameTaken(name.clone()));
        }
        if self.options.pid.is_some() {
            return Ok(self.options.pid);
        }
        // A bus that does not tell is measured without its process.
        let asked = asker.ask_driver("GetConnectionUnixProcessID", Body::default().text(DRIVER));
        Ok(asked.ok().and_then(|reply| Args::of(&reply).first_u32()))
    }

    /// Makes the connections from before the capture, with their names and rules.
    pub(super) fn set_up(&mut self) -> Result<(), Error> {
        let mut connections: Vec<(usize, Bus)> = Vec::new();
        for (id, planned) in self.plan.connections.iter().enumerate() {
            if planned.is_from_before {
                let connection = self.join(id)?;
                self.ends[id].unique = connection.unique_name().to_owned();
                connections.push((id, connection));
            }
        }
        for (id, connection) in &mut connections {
            for (_, name) in self.plan.setup.names.iter().filter(|(owner, _)| owner == id) {
                // Another connection may take the name over, as some in the capture may.
                let answer = connection.request_name(name, ALLOW_REPLACEMENT);
                if answer.map_err(|error| self.failed(*id, error))? != 1 {
                    return Err(Error::NameTaken(name.clone()));
                }
            }
            for (_, rule) in self.plan.setup.rules.iter().filter(|(owner, _)| owner == id) {
                let rule = self.renamed_text(rule).unwrap_or_else(|| rule.clone());
                match connection.ask_driver("AddMatch", Body::default().text(&rule)) {
                    // The bus of the capture took a rule that this one does not.
                    Ok(_) | Err(ClientError::Refused { .. }) => {}
                    Err(error) => return Err(self.failed(*id, error)),
                }
            }
        }
        connections.into_iter().try_for_each(|(id, connection)| self.adopt(id, connection))
    }
}
