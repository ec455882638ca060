//! Two pipes between two ends that can be told to have a defect.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use weighbridge_harness::axis::{Axis, Values};
use weighbridge_harness::contract::{
    Caps, EndResources, Endpoint, Facts, Family, InSuites, Mechanism, Side, Target,
};
use weighbridge_harness::host::Host;
use weighbridge_harness::params::{CaseParams, Wait};
use weighbridge_harness::pattern;

/// What the laboratory is handed.
pub const FAMILIES: &[Family] = &[Family::of(&[DEFECTIVE, DEAR_HARNESS])];

const DEFECTIVE: Target = pattern::target::<Defective>();

const DEAR_HARNESS: Target = pattern::target::<DearHarness>();

const DEFECT: Axis = Axis {
    name: "defect",
    default: "none",
    values: Values::OneOf(&["none", "spins", "damages-late"]),
    about: "what is wrong with it",
};

/// Messages that are right before the defect `damages-late` begins: more than are checked before anything is timed.
const RIGHT_MESSAGES: u64 = 200;

#[derive(Clone, Copy, PartialEq)]
enum Defect {
    None,
    /// The case says `wait=block`, and the reader asks again and again.
    Spins,
    /// One bit of each message is wrong, once some have been right.
    DamagesLate,
}

struct Defective;

impl Mechanism for Defective {
    const ID: &'static str = "defective";
    const ABOUT: &'static str = "pipes with a defect";
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::DUPLEX).and(Caps::BYTE_STREAM);
    const WAITS: &'static [Wait] = &[Wait::Block];
    const AXES: &'static [Axis] = &[DEFECT];
    const IN_SUITES: InSuites = InSuites::Never("it is defective");
    type End = DefectiveEnd;

    fn create(_host: &Host, _params: &CaseParams) -> io::Result<[EndResources; 2]> {
        let (request_read, request_write) = io::pipe()?;
        let (reply_read, reply_write) = io::pipe()?;
        let of = |read: io::PipeReader, write: io::PipeWriter| {
            EndResources::of([OwnedFd::from(read), OwnedFd::from(write)])
        };
        Ok([of(reply_read, request_write), of(request_read, reply_write)])
    }

    fn attach(_side: Side, mut resources: EndResources, params: &CaseParams) -> io::Result<DefectiveEnd> {
        let (read, write) = (resources.take_fd(), resources.take_fd());
        let defect = match params.axis(DEFECT.name) {
            "spins" => Defect::Spins,
            "damages-late" => Defect::DamagesLate,
            _ => Defect::None,
        };
        if defect == Defect::Spins {
            rustix::io::ioctl_fionbio(&read, true)?;
        }
        Ok(DefectiveEnd {
            read: read.into(),
            write: write.into(),
            outgoing: vec![0; params.payload_bytes],
            incoming: vec![0; params.payload_bytes],
            sent: 0,
            defect,
        })
    }
}

struct DefectiveEnd {
    read: File,
    write: File,
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
    sent: u64,
    defect: Defect,
}

struct Loan<'a> {
    end: &'a mut DefectiveEnd,
    len: usize,
}

impl AsMut<[u8]> for Loan<'_> {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.end.outgoing[..self.len]
    }
}

impl Endpoint for DefectiveEnd {
    type Tx<'a> = Loan<'a>;
    type Rx<'a> = &'a [u8];

    fn loan(&mut self, len: usize) -> io::Result<Loan<'_>> {
        Ok(Loan { end: self, len })
    }

    fn commit(tx: Loan<'_>) -> io::Result<()> {
        let Loan { end, len } = tx;
        end.sent += 1;
        if end.defect == Defect::DamagesLate && end.sent > RIGHT_MESSAGES {
            end.outgoing[0] ^= 1;
        }
        end.write.write_all(&end.outgoing[..len])
    }

    fn take(&mut self, len: usize) -> io::Result<&[u8]> {
        let mut missing = len;
        while missing > 0 {
            let begin = len - missing;
            match self.read.read(&mut self.incoming[begin..begin + missing]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => missing -= count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(&self.incoming[..len])
    }

    fn facts(&self) -> io::Result<Facts> {
        Ok(Facts::new())
    }
}

/// The harness, with a reading of the clock for each message.
struct DearHarness;

impl Mechanism for DearHarness {
    const ID: &'static str = "defective-harness";
    const ABOUT: &'static str = "the harness with a defect";
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::DUPLEX).and(Caps::HARNESS);
    const WAITS: &'static [Wait] = &[Wait::Block];
    const IN_SUITES: InSuites = InSuites::Never("it is defective");
    type End = DearEnd;

    fn create(_host: &Host, _params: &CaseParams) -> io::Result<[EndResources; 2]> {
        Ok([EndResources::default(), EndResources::default()])
    }

    fn attach(_side: Side, _resources: EndResources, params: &CaseParams) -> io::Result<DearEnd> {
        Ok(DearEnd(vec![0; params.payload_bytes]))
    }
}

struct DearEnd(Vec<u8>);

struct DearLoan<'a>(&'a mut [u8]);

impl AsMut<[u8]> for DearLoan<'_> {
    fn as_mut(&mut self) -> &mut [u8] {
        self.0
    }
}

impl Endpoint for DearEnd {
    type Tx<'a> = DearLoan<'a>;
    type Rx<'a> = &'a [u8];

    fn loan(&mut self, len: usize) -> io::Result<DearLoan<'_>> {
        Ok(DearLoan(&mut self.0[..len]))
    }

    fn commit(_tx: DearLoan<'_>) -> io::Result<()> {
        std::hint::black_box(causeway_os::clock::now_ns());
        Ok(())
    }

    fn take(&mut self, len: usize) -> io::Result<&[u8]> {
        Ok(&std::hint::black_box(self).0[..len])
    }
}
