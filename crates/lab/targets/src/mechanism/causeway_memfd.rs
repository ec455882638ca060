//! `causeway-memfd`: payloads by reference over Causeway. The payload lies in a memory file that both ends map, and the log carries
//! where.
//!
//! With `reuse=yes` the files stay mapped and are used again: nothing is mapped for a message, and no descriptor travels. With
//! `reuse=no` each payload is a fresh file, sealed so that its sender cannot change it, which the receiver fetches from the server, maps and unmaps. An
//! empty message has no file.
//!
//! # Safety
//! Both ends are this program, which writes no payload that it has published, and both receive reliably: so the bytes hold still until
//! their receiver drops them.
#![allow(unsafe_code)]

use causeway::{
    Group, GroupOptions, LargeLoan, LargePayload, LargePublisher, LargeSubscriber, Loan, Policy, PoolOptions,
    Received, TryRecvError,
};
use causeway_os::socket;

use super::causeway::{SURVIVES, accept_invitation, create, invite, limit_spinning, meet};
use super::fd::one_each;
use super::memfd_pass::{DEPTH, Reuse, depth};
use super::yes_no;
use crate::prelude::*;

const LOG_BYTES: usize = 64 << 10;

/// Payloads by reference, a group in each direction.
pub(super) struct CausewayMemfd;

impl Mechanism for CausewayMemfd {
    const ID: &'static str = "causeway-memfd";
    const ABOUT: &'static str =
        "Causeway, a payload by reference: in a memory file that both ends map, used again or sealed";
    // Not `MAPS`: by default files stay mapped. With `reuse=no` a report marks the page faults of each message.
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::DUPLEX).and(Caps::ZERO_COPY);
    const WAITS: &'static [Wait] = &[Wait::SpinBlock, Wait::Block, Wait::Spin];
    const AXES: &'static [Axis] = &[Reuse::AXIS, DEPTH];
    const IN_SUITES: InSuites = InSuites::Never(
        "it is for large payloads; ibench and kdbench compare it by size with copies and memory files",
    );
    const TO_ITSELF: Result<usize, &'static str> = Ok(usize::MAX);
    type End = ReferenceEnd;

    fn properties(_params: &CaseParams) -> Properties {
        SURVIVES
    }

    fn create(_host: &Host, _params: &CaseParams) -> io::Result<[EndResources; 2]> {
        Ok(one_each(socket::seqpacket_pair()?))
    }

    fn attach(_side: Side, mut resources: EndResources, params: &CaseParams) -> io::Result<ReferenceEnd> {
        let control_socket = resources.take_fd();
        let own = create(GroupOptions::new().large_payloads(), LOG_BYTES)?;
        let pool = PoolOptions::new(params.payload_bytes.max(1)).files(depth(params).clamp(1, 64) as u32);
        let publisher = own.large_publisher(match params.choice() {
            Reuse::Yes => pool.reused(),
            Reuse::No => pool.sealed(),
        })?;
        invite(&own, &control_socket)?;
        let theirs = accept_invitation(&control_socket)?;
        let mut subscriber = theirs.large_subscribe(Policy::Reliable)?;
        limit_spinning(subscriber.get_mut(), params);
        meet(&control_socket)?;
        Ok(ReferenceEnd { publisher, subscriber, spins: params.wait == Wait::Spin, _groups: [own, theirs] })
    }

    fn attach_both(resources: [EndResources; 2], params: &CaseParams) -> io::Result<[Self::End; 2]> {
        attach_at_once::<Self>(resources, params)
    }
}

pub(super) struct ReferenceEnd {
    publisher: LargePublisher,
    subscriber: LargeSubscriber,
    spins: bool,
    _groups: [Group; 2],
}

pub(super) enum Written<'a> {
    Reference(LargeLoan<'a>),
    Empty(Loan<'a>),
}

impl AsMut<[u8]> for Written<'_> {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        match self {
            Written::Reference(loan) => loan,
            Written::Empty(loan) => loan,
        }
    }
}

/// A message that was received. Dropped, it gives its file back.
pub(super) struct Read(LargePayload);

impl AsRef<[u8]> for Read {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        // SAFETY: trusted publishers, a reliable receiver; see above.
        unsafe { self.0.bytes() }
    }
}

impl Endpoint for ReferenceEnd {
    type Tx<'a> = Written<'a>;
    type Rx<'a> = Read;

    #[inline]
    fn loan(&mut self, len: usize) -> io::Result<Written<'_>> {
        Ok(match len {
            0 => Written::Empty(self.publisher.get_mut().loan(0)?),
            _ => Written::Reference(self.publisher.loan(len)?),
        })
    }

    #[inline]
    fn commit(tx: Written<'_>) -> io::Result<()> {
        match tx {
            Written::Reference(loan) => loan.publish()?,
            Written::Empty(loan) => loan.commit()?,
        };
        Ok(())
    }

    #[inline]
    fn take(&mut self, _len: usize) -> io::Result<Read> {
        loop {
            match self.subscriber.try_recv() {
                Ok(Received::Message(message)) => return Ok(Read(message.payload)),
                Ok(Received::Lost { messages, .. }) => {
                    return Err(io::Error::other(format!("{messages} messages were lost")));
                }
                Ok(Received::Demoted) => {}
                Err(TryRecvError::Empty) => {}
                Err(error) => return Err(error.into()),
            }
            let subscriber = self.subscriber.get_mut();
            let _ = if self.spins { subscriber.spin(None)? } else { subscriber.wait(None)? };
        }
    }

    #[inline]
    fn position(&mut self) -> u64 {
        self.subscriber.get_mut().position().0
    }

    fn facts(&self) -> io::Result<Facts> {
        let report = self.publisher.pool_report();
        Ok(Facts::from([
            ("memfds_made".into(), report.made.to_string()),
            ("memfds_sealed".into(), yes_no(report.is_sealed)),
        ]))
    }
}
