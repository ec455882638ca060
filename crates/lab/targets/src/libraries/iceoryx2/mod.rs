//! iceoryx2: publish-subscribe in shared memory without a daemon, by polling, and with its event service.
//!
//! Each end is the only publisher of a service and the only subscriber of the other's. A message is loaned, written where
//! it lies, sent by its offset, read where it lies and released: nothing is copied. Ends that block use an event service of
//! the same name beside it: the sender notifies, and a receiver that finds no message listens.
//!
//! All is as iceoryx2 has it by default, but for this. Safe overflow is off and a full queue makes the publisher wait,
//! because a mechanism that loses messages is another mechanism; the wait is iceoryx2's own, which yields and later
//! sleeps. Queues are longer than its 2 messages where the payload is small, as long as those of our own rings. Only
//! the two ends can join, there is no history, and no signal handler is installed.

mod end;
mod fan_out;
mod place;
mod port;

use causeway_os::socket;

use crate::prelude::*;
use end::Iceoryx2End;
use weighbridge_harness::pattern;

const TARGETS: &[Target] = &[pattern::target::<Iceoryx2>(), crate::fan_out::target::<fan_out::Iceoryx2>()];

/// What the harness is handed.
pub const FAMILY: Family = Family { cleanup: place::cleanup, ..Family::of(TARGETS) };

const ID: &str = "iceoryx2";

struct Iceoryx2;

/// Who dies is found by who looks for it; its files name processes.
const PROPERTIES: Properties = Properties::of(&[], Across::OneNamespace);

const DEPTH: Axis = Axis {
    name: "depth",
    default: "default",
    values: Values::Count,
    about: "messages that a subscriber's queue holds; default is what fits 256 KiB, at least 2 and at most 64",
};
/// As our rings: what is under way should stay in a second-level cache.
const DEFAULT_BYTES: usize = 256 << 10;
/// What a message takes beside its payload, generously.
const HEADER_BYTES: usize = 128;
/// Besides the queued messages, one is written and one is read.
const BORROWED: usize = 2;

fn depth(params: &CaseParams) -> usize {
    params.number(DEPTH.name).unwrap_or_else(|| default_depth(params))
}

fn default_depth(params: &CaseParams) -> usize {
    (DEFAULT_BYTES / params.payload_bytes.saturating_add(HEADER_BYTES)).clamp(2, 64)
}

impl Mechanism for Iceoryx2 {
    const ID: &'static str = ID;
    const ABOUT: &'static str = "iceoryx2, publish-subscribe in shared memory: loaned, written and read in place; block: its event service";
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::DUPLEX).and(Caps::ZERO_COPY);
    const WAITS: &'static [Wait] = &[Wait::Spin, Wait::Block];
    const AXES: &'static [Axis] = &[DEPTH];
    const IN_SUITES: InSuites = InSuites::Never("not every build has it");
    const TO_ITSELF: Result<usize, &'static str> = Err("its two ends wait for each other while they attach");
    type End = Iceoryx2End;

    fn properties(_params: &CaseParams) -> Properties {
        PROPERTIES
    }

    fn fit(_host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        let messages = depth(params).saturating_add(BORROWED).saturating_mul(2);
        place::fits(messages, params, "lower depth")
    }

    fn create(_host: &Host, _params: &CaseParams) -> io::Result<[EndResources; 2]> {
        let (place, guard) = place::create()?;
        let (near, far) = socket::seqpacket_pair()?;
        let resources = |control_socket| EndResources {
            words: place.words().into(),
            ..EndResources::of([control_socket])
        };
        Ok([EndResources { guard: Some(Box::new(guard)), ..resources(near) }, resources(far)])
    }

    fn attach(side: Side, resources: EndResources, params: &CaseParams) -> io::Result<Iceoryx2End> {
        Iceoryx2End::attach(side, resources, params)
    }
}

/// Where the ends wait for each other when nothing is timed: a socket, which also says that the other is gone.
struct Meeting(OwnedFd);

impl Meeting {
    fn tell(&self) -> io::Result<()> {
        Ok(socket::send_with_fds(&self.0, &[0], &[])?)
    }

    /// Waits until the other end has notified.
    fn hear(&self) -> io::Result<()> {
        match socket::recv_with_fds(&self.0, &mut [0], 0)? {
            (0, _) => Err(peer_gone()),
            _ => Ok(()),
        }
    }
}

fn peer_gone() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the other end is gone")
}
