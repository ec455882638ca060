//! `causeway-call`: calls over Causeway, a request and its reply over a pair of logs.
//!
//! In a round trip the request is the client's message and the reply the server's. In a stream each message is a call that the
//! receiver ends without a reply; so many may be in flight. Each end is client of one connection and server of another, because a
//! pattern decides who sends first.

use std::collections::VecDeque;
use std::time::Duration;

use causeway::call::{
    CallError, CallId, Client, Connection, ReplyLoan, RequestLoan, Responder, ServeOptions,
};
use causeway_os::socket;

use super::causeway::{CAPACITY, SURVIVES, capacity_bytes, fit, meet};
use super::fd::peer_gone;
use crate::prelude::*;

/// Calls of a stream in flight.
const DEPTH: usize = 16;

pub(super) struct CausewayCall;

impl Mechanism for CausewayCall {
    const ID: &'static str = "causeway-call";
    const ABOUT: &'static str =
        "Causeway, a call: request and reply over a pair of logs, numbered, copied out by their receivers";
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::DUPLEX);
    const WAITS: &'static [Wait] = &[Wait::SpinBlock, Wait::Block];
    const AXES: &'static [Axis] = &[CAPACITY];
    const IN_SUITES: InSuites =
        InSuites::AtSmallSizes("what a call costs beyond a message of causeway-sw shows at small sizes");
    const TO_ITSELF: Result<usize, &'static str> = Ok(usize::MAX);
    type End = CallEnd;

    fn properties(_params: &CaseParams) -> Properties {
        SURVIVES
    }

    fn fit(_host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        fit(params)
    }

    fn create(_host: &Host, _params: &CaseParams) -> io::Result<[EndResources; 2]> {
        let ((a, b), (c, d)) = (socket::seqpacket_pair()?, socket::seqpacket_pair()?);
        Ok([EndResources::of([a, c]), EndResources::of([b, d])])
    }

    fn attach(side: Side, mut resources: EndResources, params: &CaseParams) -> io::Result<CallEnd> {
        let sockets = [resources.take_fd(), resources.take_fd()];
        // A server does not wait long for its client.
        sockets.iter().try_for_each(meet)?;
        let [first, second] = sockets;
        let capacity_bytes = capacity_bytes(params);
        let options = ServeOptions::new().capacity_bytes(capacity_bytes as u64);
        // The near end is a client first, and the far one its server.
        let (mut client, mut server);
        if side == Side::Near {
            client = Client::over(first)?;
            server = Connection::over(second, &options)?;
        } else {
            server = Connection::over(first, &options)?;
            client = Client::over(second)?;
        }
        if params.wait != Wait::SpinBlock {
            client.spin_at_most(Duration::ZERO);
            server.spin_at_most(Duration::ZERO);
        }
        Ok(CallEnd { client, server, begun: VecDeque::new(), unanswered: None, capacity_bytes })
    }

    fn attach_both(resources: [EndResources; 2], params: &CaseParams) -> io::Result<[Self::End; 2]> {
        attach_at_once::<Self>(resources, params)
    }
}

pub(super) struct CallEnd {
    client: Client,
    server: Connection,
    /// Calls whose replies were not taken.
    begun: VecDeque<CallId>,
    /// Answers the call that was taken last.
    unanswered: Option<Responder>,
    capacity_bytes: usize,
}

pub(super) enum Written<'a> {
    /// A request, and where its number is kept.
    Request(RequestLoan<'a>, &'a mut VecDeque<CallId>),
    Reply(ReplyLoan<'a>),
}

impl AsMut<[u8]> for Written<'_> {
    #[inline(always)]
    fn as_mut(&mut self) -> &mut [u8] {
        match self {
            Written::Request(loan, _) => loan,
            Written::Reply(loan) => loan,
        }
    }
}

impl CallEnd {
    /// Waits until the oldest call of a stream has ended.
    #[cold]
    fn end_oldest(&mut self) -> io::Result<()> {
        let Some(call) = self.begun.pop_front() else { return Ok(()) };
        match self.client.wait(call) {
            Ok(_) | Err(CallError::NoReply) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Endpoint for CallEnd {
    type Tx<'a> = Written<'a>;
    type Rx<'a> = &'a [u8];

    #[inline(always)]
    fn loan(&mut self, len: usize) -> io::Result<Written<'_>> {
        if self.unanswered.is_none() {
            if self.begun.len() >= DEPTH {
                self.end_oldest()?;
            }
            return Ok(Written::Request(self.client.loan(len, None)?, &mut self.begun));
        }
        match &mut self.unanswered {
            Some(responder) => Ok(Written::Reply(responder.loan(len)?)),
            None => Err(peer_gone()),
        }
    }

    #[inline(always)]
    fn commit(tx: Written<'_>) -> io::Result<()> {
        match tx {
            Written::Request(loan, begun) => begun.push_back(loan.begin()?),
            Written::Reply(loan) => loan.send()?,
        }
        Ok(())
    }

    #[inline(always)]
    fn take(&mut self, _len: usize) -> io::Result<&[u8]> {
        if let Some(call) = self.begun.pop_front() {
            return Ok(self.client.wait(call)?.bytes);
        }
        let request = self.server.recv(None)?.ok_or_else(peer_gone)?;
        // One that was not replied to ends here.
        self.unanswered = Some(request.responder);
        Ok(request.bytes)
    }

    fn settle(&mut self) -> io::Result<()> {
        self.unanswered = None;
        while !self.begun.is_empty() {
            self.end_oldest()?;
        }
        Ok(())
    }

    fn facts(&self) -> io::Result<Facts> {
        Ok(Facts::from([
            ("capacity_bytes".into(), self.capacity_bytes.to_string()),
            ("payload_bytes_max".into(), self.client.request_bytes_max().to_string()),
        ]))
    }
}
