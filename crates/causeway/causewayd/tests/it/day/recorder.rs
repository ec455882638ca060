//! Who writes down every signal and every change of names, in the order of arrival.

use std::thread::JoinHandle;

use causeway_bus::client::Bus;

use super::{CONTROL, TRAFFIC};

use crate::support::*;

/// What was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A signal: of which participant, in which of its lives from 0, and the how manieth of this life from 1.
    Signal([u32; 3]),
    /// Arguments of `NameOwnerChanged`.
    Changed(Vec<String>),
}

/// A thread that records until `End`.
pub struct Recorder(JoinHandle<Vec<Seen>>);

impl Recorder {
    pub fn start(address: &str) -> Recorder {
        let mut bus = Bus::open(address).unwrap();
        for interface in [TRAFFIC, CONTROL] {
            bus.add_match(&format!("type='signal',interface='{interface}'")).unwrap();
        }
        // Names of participants begin with `day.`, connections with a colon; those of recorders come one after the other.
        bus.add_match(&format!("sender='{DRIVER}',member='NameOwnerChanged',arg0namespace='day'")).unwrap();
        Recorder(std::thread::spawn(move || {
            let mut seen = Vec::new();
            loop {
                let message = bus.receive(PATIENCE).unwrap();
                let message = message.unwrap_or_else(|| panic!("nothing after {:?}", seen.last()));
                match (header(&message).interface, header(&message).member) {
                    (Some(CONTROL), Some("End")) => return seen,
                    (Some(TRAFFIC), _) => {
                        let text = texts(&message).remove(0);
                        seen.push(Seen::Signal(super::participant::token(&text).unwrap()));
                    }
                    (_, Some("NameOwnerChanged")) => seen.push(Seen::Changed(texts(&message))),
                    _ => {}
                }
            }
        }))
    }

    /// All that it saw until the end.
    pub fn finish(self) -> Vec<Seen> {
        self.0.join().unwrap()
    }
}
