//! Who writes down every signal and every change of names, in the order of arrival.

use std::path::Path;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use causeway_bus::wire::{Arg, Args, Header};
use causeway_bus::{Connection, Incoming};

use super::{CONTROL, TRAFFIC};

use crate::support::*;

/// What was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A signal of a participant.
    Signal {
        /// Which.
        participant: u32,
        /// In which of its lives, from 0.
        life: u32,
        /// The how manieth of this life, from 1.
        number: u32,
    },
    /// Arguments of `NameOwnerChanged`.
    Changed(Vec<String>),
}

/// A thread that records until `End`.
pub struct Recorder(JoinHandle<Vec<Seen>>);

impl Recorder {
    /// One that has the bus in its memory.
    pub fn member(socket: &Path) -> Recorder {
        let mut bus = Connection::open(socket).unwrap();
        rules().iter().for_each(|rule| bus.add_match(rule).unwrap());
        Recorder::start(move |next| {
            let incoming = bus.next(Some(Duration::from_secs(1))).unwrap();
            match incoming {
                Some(Incoming::Signal(message)) => next(message.bytes()),
                None => {}
                other => panic!("{other:?}"),
            }
        })
    }

    /// One at the socket.
    pub fn client(address: &str) -> Recorder {
        let mut bus = causeway_bus::client::Bus::open(address).unwrap();
        rules().iter().for_each(|rule| bus.add_match(rule).unwrap());
        Recorder::start(move |next| {
            if let Some(message) = bus.receive(Duration::from_secs(1)).unwrap() {
                next(&message);
            }
        })
    }

    /// `take` hands over the next message if one comes within a second.
    fn start(mut take: impl FnMut(&mut dyn FnMut(&[u8])) + Send + 'static) -> Recorder {
        let (ready, is_ready) = mpsc::channel();
        let recorder = Recorder(std::thread::spawn(move || {
            ready.send(()).unwrap();
            let (mut seen, mut has_ended) = (Vec::new(), false);
            let mut quiet_since = Instant::now();
            while !has_ended {
                take(&mut |message| {
                    quiet_since = Instant::now();
                    let header = Header::parse(message).unwrap();
                    has_ended |= (header.interface, header.member) == (Some(CONTROL), Some("End"));
                    seen.extend(Seen::of(&header, &message[header.header_bytes..]));
                });
                assert!(
                    quiet_since.elapsed() < PATIENCE,
                    "nothing after {:?}, the {}th",
                    seen.last(),
                    seen.len()
                );
            }
            seen
        }));
        is_ready.recv().unwrap();
        recorder
    }

    /// All that it saw until the end.
    pub fn finish(self) -> Vec<Seen> {
        self.0.join().unwrap()
    }
}

fn rules() -> [String; 3] {
    let of = |interface| format!("type='signal',interface='{interface}'");
    // Its names begin with `day.`, its connections with a colon; those of recorders come one after the other.
    let names = "type='signal',sender='org.freedesktop.DBus',member='NameOwnerChanged',arg0namespace='day'";
    [of(TRAFFIC), of(CONTROL), names.into()]
}

impl Seen {
    fn of(header: &Header<'_>, body: &[u8]) -> Option<Seen> {
        let text = |arg| match arg {
            Ok(Arg::Text(text)) => Some(text),
            _ => None,
        };
        let mut args = Args::new(header, body).map_while(text);
        match header.member {
            Some("NameOwnerChanged") => Some(Seen::Changed(args.map(str::to_owned).collect())),
            _ if header.interface == Some(TRAFFIC) => {
                let [participant, life, number] = super::participant::token(args.next()?)?;
                Some(Seen::Signal { participant, life, number })
            }
            _ => None,
        }
    }
}
