//! Two pipes between two ends that can be told to have a defect; and a harness with one.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use causeway_os::sched;
use weighbridge_harness::axis::{Axis, Choice, choice};
use weighbridge_harness::contract::{
    Caps, EndResources, Endpoint, Facts, Family, InSuites, Mechanism, Side, Target,
};
use weighbridge_harness::host::Host;
use weighbridge_harness::params::{CaseParams, Wait};
use weighbridge_harness::pattern;
use weighbridge_probe::topology::Topology;
use weighbridge_record::Properties;
use weighbridge_record::laws::MOVED_BY;

/// What the laboratory is handed.
pub const FAMILIES: &[Family] = &[Family::of(TARGETS)];
const TARGETS: &[Target] = &[pattern::target::<Defective<false>>(), pattern::target::<Defective<true>>()];

choice! {
    /// Nothing; the case says `wait=block`, and the reader asks again and again; one bit of each message is wrong, once some have been
    /// right; a message like the one before is not sent, only that it is; both ends may run on every CPU.
    enum Defect {
        None = "none",
        Spins = "spins",
        DamagesLate = "damages-late",
        SendsChanges = "sends-changes",
        Strays = "strays",
    }
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

    fn properties(_params: &CaseParams) -> Properties {
        Properties::default()
    }

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
        if defect == Defect::Strays {
            let cpus: Vec<u32> = Topology::read()?.cpus.iter().map(|place| place.cpu).collect();
            sched::pin(&cpus)?;
        }
        let pipes = (!HARNESS).then(|| (resources.take_fd(), resources.take_fd()));
        if let (Some((read, _)), Defect::Spins) = (&pipes, defect) {
            rustix::io::ioctl_fionbio(read, true)?;
        }
        let buffer = || vec![0; params.payload_bytes];
        let pipes = pipes.map(|(read, write)| (read.into(), write.into()));
        Ok(DefectiveEnd { pipes, outgoing: buffer(), incoming: buffer(), before: buffer(), sent: 0, defect })
    }
}

struct DefectiveEnd {
    pipes: Option<(File, File)>,
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
    /// The message that was sent last.
    before: Vec<u8>,
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
        if end.defect == Defect::Spins {
            // So the reader is the faster one, and has something to wait for.
            (0..200).for_each(|_| std::hint::spin_loop());
        }
        if end.defect == Defect::DamagesLate && end.sent > RIGHT_MESSAGES {
            end.outgoing[0] ^= 1;
        }
        if end.defect == Defect::SendsChanges {
            let has_changed = end.sent == 1 || end.outgoing[..len] != end.before[..len];
            end.before[..len].copy_from_slice(&end.outgoing[..len]);
            write.write_all(&[u8::from(has_changed)])?;
            if !has_changed {
                return Ok(());
            }
        }
        write.write_all(&end.outgoing[..len])
    }

    fn take(&mut self, len: usize) -> io::Result<&[u8]> {
        let Some((read, _)) = &mut self.pipes else { return Ok(&black_box(self).outgoing[..len]) };
        let mut has_changed = [1];
        if self.defect == Defect::SendsChanges {
            read.read_exact(&mut has_changed)?;
        }
        let mut filled = if has_changed == [0] { len } else { 0 };
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

    fn facts(&self) -> io::Result<Facts> {
        Ok(Facts::from([(MOVED_BY.into(), "read and write".into())]))
    }
}
