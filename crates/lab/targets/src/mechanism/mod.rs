//! The mechanisms. Each has one line in the list below and one file, which those of one kind share.

pub(crate) mod backing;
mod copying;
mod doorbell;
pub(crate) mod fd;
mod socket;
pub(crate) mod stale;
pub(crate) mod sysv;

mod buffers_barrier;
pub(crate) mod causeway;
mod causeway_call;
mod causeway_memfd;
mod fifo;
mod memfd_pass;
mod metadata;
mod mock;
mod mq_posix;
pub(crate) mod msg_sysv;
mod noop;
mod pipe;
mod pipe_packet;
mod process_vm;
mod ring;
pub(crate) mod tcp;
mod udp;
mod unix_socket;
mod vmsplice;

use weighbridge_record::CaseId;

use crate::prelude::*;
use backing::Backing;
use weighbridge_harness::pattern::target;

/// Every mechanism, in the order in which people read of them.
pub const ALL: &[Target] = &[
    target::<noop::Noop>(),
    target::<pipe::Pipe>(),
    target::<pipe_packet::PipePacket>(),
    target::<fifo::Fifo>(),
    target::<unix_socket::UnixSocket<unix_socket::Stream>>(),
    target::<unix_socket::UnixSocket<unix_socket::Seqpacket>>(),
    target::<unix_socket::UnixSocket<unix_socket::Dgram>>(),
    target::<tcp::Tcp>(),
    target::<udp::Udp>(),
    target::<mq_posix::MqPosix>(),
    target::<msg_sysv::MsgSysv>(),
    target::<ring::Ring<doorbell::Spin>>(),
    target::<ring::Ring<doorbell::Futex>>(),
    target::<ring::Ring<doorbell::EventFd>>(),
    target::<buffers_barrier::BuffersBarrier>(),
    target::<causeway::Causeway<causeway::OneWriter>>(),
    target::<causeway::Causeway<causeway::ManyWriters>>(),
    target::<causeway_call::CausewayCall>(),
    target::<causeway_memfd::CausewayMemfd>(),
    target::<memfd_pass::MemfdPass>(),
    target::<vmsplice::Vmsplice>(),
    target::<process_vm::ProcessVm>(),
    target::<mock::Mock>(),
];

/// What the harness is handed.
pub const FAMILY: Family = Family { cleanup, same_code, ..Family::of(ALL) };

/// A FIFO is a pipe with a name, and `/dev/shm` is where a memory file comes from.
fn same_code(case: &CaseId) -> Option<CaseId> {
    let mut twin = case.clone();
    if case.mechanism == "fifo" {
        twin.mechanism = "pipe".into();
        return Some(twin);
    }
    let is_shm = twin.axes.get(Backing::AXIS.name).is_some_and(|backing| backing == Backing::Shm.name());
    is_shm.then(|| {
        twin.axes.remove(Backing::AXIS.name);
        twin
    })
}

/// Removes what dead processes of this user have left of mechanisms that need names.
fn cleanup() {
    fifo::cleanup();
    mq_posix::cleanup();
    sysv::cleanup::<msg_sysv::Queues>();
}

/// May this case have so much of what the kernel limits by a number under `/proc/sys`? `what` is what it wants.
fn fits_sysctl(host: &Host, path: &str, wanted: u64, what: &str) -> Result<(), Unsupported> {
    let name = path.replace('/', ".");
    match host.sysctl_number(path) {
        Some(most) if wanted > most => {
            Err(Unsupported(format!("{what} exceeds {name} = {most}; raise it with sysctl {name}={wanted}")))
        }
        _ => Ok(()),
    }
}

/// A setting that is on or off, as facts spell it.
pub(crate) fn yes_no(is_so: bool) -> String {
    if is_so { "yes" } else { "no" }.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use weighbridge_harness::catalogue;
    use weighbridge_harness::contract::CounterCheck;
    use weighbridge_record::PerOp;

    /// The harness with a counter check of its own.
    struct Judged;

    impl Mechanism for Judged {
        const ID: &'static str = "judged";
        const ABOUT: &'static str = "";
        const CAPS: Caps = Caps::PAYLOAD;
        const WAITS: &'static [Wait] = &[Wait::Block];
        const COUNTER_CHECK: Option<CounterCheck> = Some(|_, per_op| match per_op.minor_faults {
            1.0 => Vec::new(),
            faults => vec![format!("{faults} page faults, where this mechanism takes one")],
        });
        type End = <noop::Noop as Mechanism>::End;

        fn properties(_params: &CaseParams) -> Properties {
            SHARED_MEMORY
        }

        fn create(host: &Host, params: &CaseParams) -> io::Result<[EndResources; 2]> {
            noop::Noop::create(host, params)
        }

        fn attach(side: Side, resources: EndResources, params: &CaseParams) -> io::Result<Self::End> {
            noop::Noop::attach(side, resources, params)
        }
    }

    #[test]
    fn a_mechanism_may_judge_its_counters_itself() {
        static JUDGED: Target = target::<Judged>();
        crate::register();
        let (pipe, pattern, params) = catalogue::resolve(&"roundtrip/pipe/1/free".parse().unwrap()).unwrap();
        let faults = |minor_faults| PerOp { minor_faults, ..PerOp::default() };
        let said = |target, faults: &PerOp| {
            let case = Prepared {
                params: params.clone(),
                target,
                pattern,
                resolved_placement: "free",
                places: Vec::new(),
            };
            counter_check::check(&case, faults, 1e6)
        };
        assert_eq!(said(&JUDGED, &faults(1.0)), [""; 0]);
        assert!(said(pipe, &faults(1.0))[0].contains("page faults"), "the common check of messages");
        assert!(said(&JUDGED, &faults(2.0))[0].contains("where this mechanism takes one"));
    }

    #[test]
    fn what_is_the_same_code_in_the_kernel_is_known() {
        for (case, twin) in [
            ("roundtrip/fifo/1/same-cpu", Some("roundtrip/pipe/1/same-cpu")),
            ("stream/ring-spin/1/two-cpus/backing=shm", Some("stream/ring-spin/1/two-cpus")),
            ("stream/ring-spin/1/two-cpus/backing=file", None),
            ("roundtrip/pipe/1/same-cpu", None),
        ] {
            assert_eq!(same_code(&case.parse().unwrap()), twin.map(|twin| twin.parse().unwrap()), "{case}");
        }
    }
}
