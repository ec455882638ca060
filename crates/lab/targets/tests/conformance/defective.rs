//! Two pipes between two ends that can be told to have a defect; and a harness with one.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use weighbridge_harness::axis::{Axis, Choice, choice};
use weighbridge_harness::contract::{
    Caps, EndResources, Endpoint, Family, InSuites, Mechanism, Side, Target,
};
use weighbridge_harness::host::Host;
use weighbridge_harness::params::{CaseParams, Wait};
use weighbridge_harness::pattern;

/// What the laboratory is handed.
pub const FAMILIES: &[Family] = &[Family::of(TARGETS)];
const TARGETS: &[Target] = &[pattern::target::<Defective<false>>(), pattern::target::<Defective<true>>()];

choice! {
    /// Nothing; the case says `wait=block`, and the reader asks again and again; one bit of each message is wrong, once some have been
    /// right.
    enum Defect { None = "none", Spins = "spins", DamagesLate = "damages-late" }
    axis "defect", default None: "what is wrong with it"
}

/// Messages that are right before the defect `damages-late` begins: more than are checked before anything is timed.
const RIGHT_MESSAGES: u64 = 200;

/// Pipes, or the harness with a reading of the clock for each message.
struct Defective<const HARNESS: bool>;

impl<const HARNESS: bool> Mechanism for Defective<HARNESS> {
    const ID: &'static str = if HARNESS { "defective-harness" } else { "defective" };
    const ABOUT: &'static str = "pipes, or the harness, with a defect";
    const CAPS: Caps =
        Caps::PAYLOAD.and(Caps::DUPLEX).and(if HARNESS { Caps::HARNESS } else { Caps::BYTE_STREAM });
    const WAITS: &'static [Wait] = &[Wait::Block];
    const AXES: &'static [Axis] = &[Defect::AXIS];
    const IN_SUITES: InSuites = InSuites::Never("it is defective");
    type End = DefectiveEnd;

    fn create(_host: &Host, _params: &CaseParams) -> io::Result<[EndResources; 2]> {
        if HARNESS {
            return Ok([EndResources::default(), EndResources::default()]);
        }
        let ((request_read, request_write), (reply_read, reply_write)) = (io::pipe()?, io::pipe()?);
        let of = |read: io::PipeReader, write: io::PipeWriter| {
            EndResources::of([OwnedFd::from(read), OwnedFd::from(write)])
        };
        Ok([of(reply_read, request_write), of(request_read, reply_write)])
    }

    fn attach(_side: Side, mut resources: EndResources, params: &CaseParams) -> io::Result<DefectiveEnd> {
        let defect = params.choice();
        let pipes = (!HARNESS).then(|| (resources.take_fd(), resources.take_fd()));
        if let (Some((read, _)), Defect::Spins) = (&pipes, defect) {
            rustix::io::ioctl_fionbio(read, true)?;
        }
        let buffer = || vec![0; params.payload_bytes];
        let pipes = pipes.map(|(read, write)| (read.into(), write.into()));
        Ok(DefectiveEnd { pipes, outgoing: buffer(), incoming: buffer(), sent: 0, defect })
    }
}

struct DefectiveEnd {
    pipes: Option<(File, File)>,
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
        let Some((_, write)) = &mut end.pipes else {
            black_box(causeway_os::clock::now_ns());
            return Ok(());
        };
        end.sent += 1;
        if end.defect == Defect::DamagesLate && end.sent > RIGHT_MESSAGES {
            end.outgoing[0] ^= 1;
        }
        write.write_all(&end.outgoing[..len])
    }

    fn take(&mut self, len: usize) -> io::Result<&[u8]> {
        let Some((read, _)) = &mut self.pipes else { return Ok(&black_box(self).outgoing[..len]) };
        let mut filled = 0;
        while filled < len {
            match read.read(&mut self.incoming[filled..len]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(&self.incoming[..len])
    }
}
