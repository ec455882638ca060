//! Two ends through a broker as [`crate::pair`] has them, each by a library.

use std::io;
use std::marker::PhantomData;
use std::os::unix::net::UnixStream;

use causeway_os::socket::stream_pair;
use weighbridge_harness::axis::Axis;
use weighbridge_harness::buffer::Buffer;
use weighbridge_harness::contract::{
    Caps, CounterCheck, EndResources, Endpoint, Facts, InSuites, Mechanism, Side, Unsupported,
};
use weighbridge_harness::host::Host;
use weighbridge_harness::params::{CaseParams, Wait};
use weighbridge_harness::pattern::{self, Pattern};
use weighbridge_record::Properties;

use super::{Connected, Role, facts, recv_name, send_name};
use crate::broker::{Kind, Running};
use crate::credit::{Credit, depth};
use crate::handle::BrokerHandle;
use crate::pair::Pair;

/// Two connections of a library to one broker.
#[derive(Debug)]
pub struct PairByLibrary<K>(PhantomData<K>);

impl<K: Kind> Mechanism for PairByLibrary<K> {
    const ID: &'static str = Pair::<K>::ID;
    const ABOUT: &'static str = Pair::<K>::ABOUT;
    const CAPS: Caps = Pair::<K>::CAPS;
    const WAITS: &'static [Wait] = Pair::<K>::WAITS;
    const AXES: &'static [Axis] = Pair::<K>::AXES;
    const IN_SUITES: InSuites = Pair::<K>::IN_SUITES;
    const COUNTER_CHECK: Option<CounterCheck> = Pair::<K>::COUNTER_CHECK;
    type End = LibraryEnd;

    fn properties(params: &CaseParams) -> Properties {
        Pair::<K>::properties(params)
    }

    fn fit(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        Pair::<K>::fit(host, params)
    }

    /// The socket for credit carries the server's name first.
    fn create(_host: &Host, params: &CaseParams) -> io::Result<[EndResources; 2]> {
        let running = Running::of(K::PROGRAM, params)?;
        let (near, far) = stream_pair()?;
        let (near, far) = (running.resources([near], ""), running.resources([far], ""));
        Ok([EndResources { guard: Some(Box::new(running)), ..near }, far])
    }

    fn attach(side: Side, mut resources: EndResources, params: &CaseParams) -> io::Result<LibraryEnd> {
        let broker = BrokerHandle::of(&resources)?;
        let is_stream = params.id.pattern == pattern::Stream::ID;
        let mut socket = UnixStream::from(resources.take_fd());
        let connected = match side {
            Side::Far => {
                let connected = K::connect(params, &broker.address, Role::Server, "")?;
                send_name(&mut socket, &connected.unique_name()?)?;
                connected
            }
            Side::Near => {
                let role = if is_stream { Role::Sender } else { Role::Caller };
                K::connect(params, &broker.address, role, &recv_name(&mut socket)?)?
            }
        };
        Ok(LibraryEnd {
            connected,
            outgoing: Buffer::new(params.payload_bytes.max(1))?,
            credit: is_stream.then(|| Credit::new(side, socket.into(), depth(params))),
            broker_version: broker.version,
        })
    }
}

/// A connection of a library, of the client or of the server.
pub struct LibraryEnd {
    connected: Box<dyn Connected>,
    /// What the program wants to send; the library copies it into its message.
    outgoing: Buffer,
    credit: Option<Credit>,
    broker_version: String,
}

pub struct Written<'a> {
    end: &'a mut LibraryEnd,
    len: usize,
}

impl AsMut<[u8]> for Written<'_> {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.end.outgoing.bytes_mut()[..self.len]
    }
}

impl Endpoint for LibraryEnd {
    type Tx<'a> = Written<'a>;
    type Rx<'a> = &'a [u8];

    #[inline]
    fn loan(&mut self, len: usize) -> io::Result<Written<'_>> {
        if let Some(credit) = &mut self.credit {
            credit.spend()?;
        }
        Ok(Written { end: self, len })
    }

    #[inline]
    fn commit(tx: Written<'_>) -> io::Result<()> {
        let LibraryEnd { connected, outgoing, .. } = tx.end;
        connected.send(&outgoing.bytes()[..tx.len])
    }

    #[inline]
    fn take(&mut self, _len: usize) -> io::Result<&[u8]> {
        let payload = self.connected.receive()?;
        if let Some(credit) = &mut self.credit {
            credit.earn()?;
        }
        Ok(payload)
    }

    fn prefault(&mut self) -> io::Result<()> {
        self.outgoing.prefault()
    }

    fn facts(&self) -> io::Result<Facts> {
        let mut facts = facts(&*self.connected, &self.broker_version)?;
        facts.extend(self.credit.as_ref().map(|credit| ("depth".into(), credit.depth().to_string())));
        Ok(facts)
    }
}
