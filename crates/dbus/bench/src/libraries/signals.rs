//! Signals to many as [`crate::fan_out`] has them, emitted and received by a library.

use std::io;
use std::marker::PhantomData;
use std::os::unix::net::UnixStream;

use causeway_os::socket::stream_pair;
use weighbridge_harness::axis::Axis;
use weighbridge_harness::buffer::Buffer;
use weighbridge_harness::contract::{Caps, EndResources, Facts, Unsupported};
use weighbridge_harness::host::Host;
use weighbridge_harness::params::{CaseParams, Wait};
use weighbridge_record::Properties;
use weighbridge_targets::fan_out::{Multicast, MulticastReceiver, MulticastSender, receivers};

use super::{Connected, Role, facts, recv_name, send_name};
use crate::broker::{Kind, Running};
use crate::fan_out::Signals;
use crate::handle::BrokerHandle;

#[derive(Debug)]
pub struct SignalsByLibrary<K>(PhantomData<K>);

impl<K: Kind> Multicast for SignalsByLibrary<K> {
    const ID: &'static str = Signals::<K>::ID;
    const ABOUT: &'static str = Signals::<K>::ABOUT;
    const CAPS: Caps = Signals::<K>::CAPS;
    const WAITS: &'static [Wait] = Signals::<K>::WAITS;
    const AXES: &'static [Axis] = Signals::<K>::AXES;
    type Sender = Emitter;
    type Receiver = Subscriber;

    fn properties(params: &CaseParams) -> Properties {
        Signals::<K>::properties(params)
    }

    fn fit(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        Signals::<K>::fit(host, params)
    }

    fn ahead_max(params: &CaseParams) -> Option<u64> {
        Signals::<K>::ahead_max(params)
    }

    /// All receivers tell the sender over one socket that they have subscribed.
    fn create(_params: &CaseParams, receivers: usize) -> io::Result<Vec<EndResources>> {
        let running = Running::start(K::PROGRAM)?;
        let (receives, sends) = stream_pair()?;
        let mut resources_by_role = vec![running.resources([receives], "")];
        for _ in 0..receivers {
            resources_by_role.push(running.resources([sends.try_clone()?], ""));
        }
        resources_by_role[0].guard = Some(Box::new(running));
        Ok(resources_by_role)
    }

    fn sender(mut resources: EndResources, params: &CaseParams) -> io::Result<Emitter> {
        let broker = BrokerHandle::of(&resources)?;
        let connected = K::connect(params, &broker.address, Role::Emitter, "")?;
        let mut socket = UnixStream::from(resources.take_fd());
        for _ in 0..receivers(params) {
            recv_name(&mut socket)?;
        }
        let mut outgoing = Buffer::new(params.payload_bytes.max(1))?;
        outgoing.prefault()?;
        let facts = facts(&*connected, &broker.version)?;
        Ok(Emitter { connected, outgoing, payload_bytes: params.payload_bytes, facts })
    }

    fn receiver(mut resources: EndResources, params: &CaseParams) -> io::Result<Subscriber> {
        let broker = BrokerHandle::of(&resources)?;
        let connected = K::connect(params, &broker.address, Role::Subscriber, "")?;
        send_name(&mut UnixStream::from(resources.take_fd()), "subscribed")?;
        let facts = facts(&*connected, &broker.version)?;
        Ok(Subscriber { connected, facts })
    }
}

pub struct Emitter {
    connected: Box<dyn Connected>,
    outgoing: Buffer,
    payload_bytes: usize,
    facts: Facts,
}

impl MulticastSender for Emitter {
    #[inline]
    fn send(&mut self, write: impl FnOnce(&mut [u8])) -> io::Result<()> {
        let payload = &mut self.outgoing.bytes_mut()[..self.payload_bytes];
        write(payload);
        self.connected.send(payload)
    }

    fn facts(&self) -> Facts {
        self.facts.clone()
    }
}

pub struct Subscriber {
    connected: Box<dyn Connected>,
    facts: Facts,
}

impl MulticastReceiver for Subscriber {
    #[inline]
    fn take(&mut self) -> io::Result<Option<&[u8]>> {
        self.connected.receive().map(Some)
    }

    fn facts(&self) -> Facts {
        self.facts.clone()
    }
}
