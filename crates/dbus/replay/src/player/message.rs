//! A captured message with the names and serials of this bus.

use causeway_dbus_wire::driver::DRIVER;
use causeway_dbus_wire::wire::{Arg, Args, Body, Builder, Header, names};

use super::Player;
use crate::plan::{Destination, Step};

/// A unique name that no broker gives, in place of those of connections that a replay does not have.
const NOBODY: &str = ":0.0";

impl Player<'_> {
    pub(super) fn message(&self, step: &Step, flags: u8, to: Destination, answers: Option<usize>) -> Vec<u8> {
        let message = self.plan.message(step);
        let header = Header::parse(message).expect("it was parsed for the plan");
        let renamed = (header.destination == Some(DRIVER)).then(|| self.renamed(message, &header)).flatten();
        let own = || Body::marshalled(header.endian, header.signature, &message[header.header_bytes..]);
        let mut made = Builder::like(&header).flags(flags).body(renamed.unwrap_or_else(own));
        if let Destination::Connection(id) = to {
            made = made.destination(&self.ends[id].unique);
        }
        if let Some(call) = answers {
            let caller = &self.ends[self.plan.steps[call].from];
            made = made.reply_serial(caller.serial_of(call).expect("an answer waits for its call"));
        }
        let serial = self.ends[step.from].next_serial();
        made.build(serial).expect("a message of 128 MiB at most, whose names keep their kind")
    }

    /// The argument of a call to the driver with the names of this bus; nothing if it has no unique names.
    fn renamed(&self, message: &[u8], header: &Header<'_>) -> Option<Body> {
        let mut args = Args::new(header, &message[header.header_bytes..]);
        let Some(Ok(Arg::Text(text))) = args.next().filter(|_| header.signature == "s") else { return None };
        let renamed = self.renamed_text(text)?;
        Some(Body::in_order(header.endian).text(&renamed))
    }

    /// A unique name, or a match rule, with the names of this bus.
    pub(super) fn renamed_text(&self, text: &str) -> Option<String> {
        let new = |name: &str| {
            let end = self.by_captured.get(name).map(|id| &self.ends[*id]);
            let begun = end.filter(|end| !end.unique.is_empty());
            // The name as it was may be that of another connection here.
            names::is_unique(name).then(|| begun.map_or(NOBODY, |end| end.unique.as_str()))
        };
        if let Some(new) = new(text) {
            return Some(new.to_owned());
        }
        let parts = causeway_dbus_wire::rule::parts(text).ok()?;
        let renamed: Vec<_> =
            parts.iter().filter_map(|part| Some((part.at.clone(), new(&part.value)?))).collect();
        let mut made = text.to_owned();
        for (at, name) in renamed.iter().rev() {
            made.replace_range(at.clone(), &format!("'{name}'"));
        }
        (!renamed.is_empty()).then_some(made)
    }
}
