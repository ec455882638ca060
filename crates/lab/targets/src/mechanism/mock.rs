//! A known latency in virtual time: for tests of everything around the measurement.

use super::noop::{Loan, NoopEnd};
use crate::prelude::*;
use weighbridge_harness::ctx::advance_virtual_time;

pub(super) struct Mock;

const fn axis(name: &'static str, default: &'static str, about: &'static str) -> Axis {
    Axis { name, default, values: Values::Count, about }
}

impl Mechanism for Mock {
    const ID: &'static str = "mock";
    const ABOUT: &'static str = "a known latency in virtual time, for tests of the program itself";
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::DUPLEX).and(Caps::HARNESS).and(Caps::VIRTUAL_TIME);
    const WAITS: &'static [Wait] = &[Wait::Block];
    const AXES: &'static [Axis] = &[
        axis("latency-ns", "1000", "virtual time of each message taken"),
        axis("latency-ns-per-kib", "default", "virtual time of each KiB of it besides; default is none"),
        axis(
            "apart-ns",
            "default",
            "virtual time of a message besides where two roles exchange it, which no other case has; default is none",
        ),
        Fault::AXIS,
    ];
    const IN_SUITES: InSuites = InSuites::Never("its time is virtual");
    type End = MockEnd;

    fn properties(_params: &CaseParams) -> Properties {
        Properties::default()
    }

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
                nothing: NoopEnd::new(params)?,
                latency_ns: latency_ns(params),
                facts_fail: fault == Fault::FactsFail,
            }),
        }
    }
}

choice! {
    enum Fault { None = "none", AttachFails = "attach-fails", Dies = "dies", Stalls = "stalls", Panics = "panics", FactsFail = "facts-fail" }
    axis "fault", default None: "what goes wrong in the second role"
}

fn latency_ns(params: &CaseParams) -> u64 {
    let fixed = params.number("latency-ns").unwrap_or(1000) as u64;
    let per_kib = params.number("latency-ns-per-kib").unwrap_or(0) as u64;
    let apart = if params.id.pattern == "self" { 0 } else { params.number("apart-ns").unwrap_or(0) };
    fixed + per_kib * params.payload_bytes as u64 / 1024 + apart as u64
}

pub(super) struct MockEnd {
    nothing: NoopEnd,
    latency_ns: u64,
    facts_fail: bool,
}

impl Endpoint for MockEnd {
    type Tx<'a> = Loan<'a>;
    type Rx<'a> = &'a [u8];

    fn loan(&mut self, len: usize) -> io::Result<Loan<'_>> {
        self.nothing.loan(len)
    }

    fn commit(tx: Loan<'_>) -> io::Result<()> {
        NoopEnd::commit(tx)
    }

    fn take(&mut self, len: usize) -> io::Result<&[u8]> {
        advance_virtual_time(self.latency_ns);
        self.nothing.take(len)
    }

    fn facts(&self) -> io::Result<Facts> {
        if self.facts_fail { Err(io::Error::from(io::ErrorKind::PermissionDenied)) } else { Ok(Facts::new()) }
    }
}
