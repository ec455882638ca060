//! A known latency in virtual time: for tests of everything around the measurement.

use std::io;

use weighbridge_harness::axis::{Axis, Choice, Values, choice};
use weighbridge_harness::buffer::Buffer;
use weighbridge_harness::contract::{Caps, EndResources, Endpoint, Facts, InSuites, Mechanism, Side};
use weighbridge_harness::ctx::advance_virtual_time;
use weighbridge_harness::host::Host;
use weighbridge_harness::params::{CaseParams, Wait};

/// Costs what its axes say, on every machine.
#[derive(Debug)]
pub struct Mock;

impl Mechanism for Mock {
    const ID: &'static str = "mock";
    const ABOUT: &'static str = "a known latency in virtual time, for tests of the program itself";
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::DUPLEX).and(Caps::HARNESS).and(Caps::VIRTUAL_TIME);
    const WAITS: &'static [Wait] = &[Wait::Block];
    const AXES: &'static [Axis] = &[
        Axis {
            name: "latency-ns",
            default: "1000",
            values: Values::Count,
            about: "virtual time of each message taken",
        },
        Axis {
            name: "latency-ns-per-kib",
            default: "default",
            values: Values::Count,
            about: "virtual time of each KiB of it besides; default is none",
        },
        Axis {
            name: "apart-ns",
            default: "default",
            values: Values::Count,
            about: "virtual time of a message besides where two roles exchange it, which no other case has; default is none",
        },
        Fault::AXIS,
    ];
    const IN_SUITES: InSuites = InSuites::Never("its time is virtual");
    type End = MockEnd;

    fn create(_host: &Host, _params: &CaseParams) -> io::Result<[EndResources; 2]> {
        Ok([EndResources::default(), EndResources::default()])
    }

    fn attach(side: Side, _resources: EndResources, params: &CaseParams) -> io::Result<MockEnd> {
        let fault = if side == Side::Far { params.choice() } else { Fault::None };
        match fault {
            Fault::AttachFails => Err(io::Error::from(io::ErrorKind::PermissionDenied)),
            Fault::Dies => std::process::abort(),
            Fault::Stalls => loop {
                std::thread::park();
            },
            Fault::Panics => panic!("the mock was told to"),
            Fault::None | Fault::FactsFail => Ok(MockEnd {
                buffer: Buffer::new(params.payload_bytes.max(1))?,
                latency_ns: latency_ns(params),
                facts_fail: fault == Fault::FactsFail,
            }),
        }
    }
}

choice! {
    /// What goes wrong in the second role.
    enum Fault { None = "none", AttachFails = "attach-fails", Dies = "dies", Stalls = "stalls", Panics = "panics", FactsFail = "facts-fail" }
    axis "fault", default None: "what goes wrong in the second role"
}

/// What a message costs.
fn latency_ns(params: &CaseParams) -> u64 {
    let fixed = params.number("latency-ns").unwrap_or(1000) as u64;
    let per_kib = params.number("latency-ns-per-kib").unwrap_or(0) as u64;
    let apart = if params.id.pattern == "self" { 0 } else { params.number("apart-ns").unwrap_or(0) };
    fixed + per_kib * params.payload_bytes as u64 / 1024 + apart as u64
}

/// A buffer that goes nowhere, slowly.
#[derive(Debug)]
pub struct MockEnd {
    buffer: Buffer,
    latency_ns: u64,
    facts_fail: bool,
}

/// The buffer, to be written.
#[derive(Debug)]
pub struct Loan<'a>(&'a mut [u8]);

impl AsMut<[u8]> for Loan<'_> {
    fn as_mut(&mut self) -> &mut [u8] {
        self.0
    }
}

impl Endpoint for MockEnd {
    type Tx<'a> = Loan<'a>;
    type Rx<'a> = &'a [u8];

    fn loan(&mut self, len: usize) -> io::Result<Loan<'_>> {
        Ok(Loan(&mut self.buffer.bytes_mut()[..len]))
    }

    fn commit(_tx: Loan<'_>) -> io::Result<()> {
        Ok(())
    }

    fn take(&mut self, len: usize) -> io::Result<&[u8]> {
        advance_virtual_time(self.latency_ns);
        Ok(&self.buffer.bytes()[..len])
    }

    fn facts(&self) -> io::Result<Facts> {
        if self.facts_fail { Err(io::Error::from(io::ErrorKind::PermissionDenied)) } else { Ok(Facts::new()) }
    }
}
