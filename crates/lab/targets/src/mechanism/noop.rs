//! Nothing: the same loops, the same touching, no exchange. What it costs is what the harness costs.

use crate::prelude::*;

pub(super) struct Noop;

impl Mechanism for Noop {
    const ID: &'static str = "noop";
    const ABOUT: &'static str = "the harness itself: loops and touching without any exchange";
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::DUPLEX).and(Caps::HARNESS);
    const WAITS: &'static [Wait] = &[Wait::Block];
    const IN_SUITES: InSuites = InSuites::Never("the harness itself, which each suite measures once");
    type End = NoopEnd;

    fn properties(_params: &CaseParams) -> Properties {
        Properties::default()
    }

    fn create(_host: &Host, _params: &CaseParams) -> io::Result<[EndResources; 2]> {
        Ok([EndResources::default(), EndResources::default()])
    }

    fn attach(_side: Side, _resources: EndResources, params: &CaseParams) -> io::Result<NoopEnd> {
        NoopEnd::new(params)
    }
}

pub(super) struct NoopEnd {
    buffer: Buffer,
}

impl NoopEnd {
    pub(super) fn new(params: &CaseParams) -> io::Result<NoopEnd> {
        Ok(NoopEnd { buffer: Buffer::new(params.payload_bytes.max(1))? })
    }
}

pub(super) struct Loan<'a> {
    end: &'a mut NoopEnd,
    len: usize,
}

impl AsMut<[u8]> for Loan<'_> {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.end.buffer.bytes_mut()[..self.len]
    }
}

impl Endpoint for NoopEnd {
    type Tx<'a> = Loan<'a>;
    type Rx<'a> = &'a [u8];

    #[inline]
    fn loan(&mut self, len: usize) -> io::Result<Loan<'_>> {
        Ok(Loan { end: self, len })
    }

    #[inline]
    fn commit(tx: Loan<'_>) -> io::Result<()> {
        // Otherwise the compiler may see through it, and the loop is not a loop. A thin reference stays in a register.
        std::hint::black_box(tx.end);
        Ok(())
    }

    #[inline]
    fn take(&mut self, len: usize) -> io::Result<&[u8]> {
        Ok(&std::hint::black_box(self).buffer.bytes()[..len])
    }

    fn prefault(&mut self) -> io::Result<()> {
        self.buffer.prefault()
    }
}
