//! Who had which name when a recording began, as what came later shows: the owner that a name was taken from, or who
//! answered a call to a name of which nothing was said before.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use causeway_bus::wire::{Args, Header, Kind, names};

use crate::failure::Failure;
use crate::read::{Item, Recording};

/// The name of the bus itself.
pub const DRIVER: &str = "org.freedesktop.DBus";

/// A name that has another owner from here on; without one, the text is empty.
pub struct NameChange<'a> {
    pub name: &'a str,
    pub old: &'a str,
    pub new: &'a str,
}

/// What the bus says of a name with this message.
pub fn name_change<'a>(header: &Header<'a>, message: &'a [u8]) -> Option<NameChange<'a>> {
    if (header.sender, header.member) != (Some(DRIVER), Some("NameOwnerChanged")) {
        return None;
    }
    let mut texts = Args::of(message).texts();
    let (Some(name), Some(old), Some(new), None) = (texts.next(), texts.next(), texts.next(), texts.next())
    else {
        return None;
    };
    Some(NameChange { name, old, new })
}

/// Well-known names, and their owners in the recording.
pub type Owners = BTreeMap<String, String>;

/// Reads a whole recording of a bus.
pub fn owners_at_the_beginning(path: &Path) -> Result<Owners, Failure> {
    let mut search = Search::default();
    let _ = Recording::open(path)?.for_each(|item| {
        if let Item::Message { data, .. } = item
            && let Ok(header) = Header::parse(data)
        {
            search.see(&header, data);
        }
        Ok(())
    })?;
    Ok(search.owners)
}

#[derive(Default)]
struct Search {
    owners: Owners,
    /// Names whose owner at the beginning is known, or known to be nobody.
    settled: BTreeSet<String>,
    /// Calls to names that are not settled, by caller and serial.
    calls: HashMap<(String, u32), String>,
}

impl Search {
    fn see(&mut self, header: &Header<'_>, message: &[u8]) {
        if let Some(NameChange { name, old, .. }) = name_change(header, message) {
            if !names::is_unique(name) && self.settled.insert(name.to_owned()) && !old.is_empty() {
                self.owners.insert(name.to_owned(), old.to_owned());
            }
            return;
        }
        let (Some(sender), Some(destination)) = (header.sender, header.destination) else { return };
        match (header.kind, header.reply_serial) {
            (Kind::MethodCall, _)
                if names::is_well_known(destination) && !self.settled.contains(destination) =>
            {
                self.calls.insert((sender.to_owned(), header.serial), destination.to_owned());
            }
            (Kind::MethodReturn | Kind::Error, Some(serial)) => {
                let Some(name) = self.calls.remove(&(destination.to_owned(), serial)) else { return };
                // The bus itself says that nobody has it.
                if names::is_unique(sender) && self.settled.insert(name.clone()) {
                    self.owners.insert(name, sender.to_owned());
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use causeway_bus::wire::{Body, Builder};

    use super::*;

    fn found(messages: &[Builder<'_>]) -> Vec<(String, String)> {
        let mut search = Search::default();
        for (number, message) in messages.iter().enumerate() {
            let bytes = message.build(number as u32 + 1).unwrap();
            search.see(&Header::parse(&bytes).unwrap(), &bytes);
        }
        search.owners.into_iter().collect()
    }

    fn call(from: &'static str, to: &'static str) -> Builder<'static> {
        Builder::call("/", "Go").sender(from).destination(to)
    }

    fn changed(name: &str, old: &str, new: &str) -> Builder<'static> {
        let body = Body::default().text(name).text(old).text(new);
        Builder::signal("/org/freedesktop/DBus", "org.freedesktop.DBus", "NameOwnerChanged")
            .sender("org.freedesktop.DBus")
            .body(body)
    }

    #[test]
    fn an_owner_is_who_answered_or_who_lost_the_name() {
        let answered = [
            call(":1.5", "a.B"),
            Builder::reply(1).sender(":1.7").destination(":1.5"),
            changed("c.D", ":1.9", ""),
        ];
        let both = [("a.B".to_owned(), ":1.7".to_owned()), ("c.D".to_owned(), ":1.9".to_owned())];
        assert_eq!(found(&answered), both);
    }

    #[test]
    fn a_name_that_was_taken_or_called_in_vain_had_no_owner() {
        let taken = [
            changed("a.B", "", ":1.7"),
            call(":1.5", "a.B"),
            Builder::reply(2).sender(":1.7").destination(":1.5"),
        ];
        assert_eq!(found(&taken), []);
        let unknown = Builder::error(1, "org.freedesktop.DBus.Error.ServiceUnknown");
        let in_vain = [call(":1.5", "a.B"), unknown.sender("org.freedesktop.DBus").destination(":1.5")];
        assert_eq!(found(&in_vain), []);
        // Another answer than the one to this call says nothing of the name.
        let other = [call(":1.5", "a.B"), Builder::reply(9).sender(":1.7").destination(":1.5")];
        assert_eq!(found(&other), []);
    }
}
