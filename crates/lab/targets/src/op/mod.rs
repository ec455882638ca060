//! Operations: work of one role, without a peer. One file for each idea, and one line for each operation in the list below.
//!
//! They are driven by `solo`: one role alone, and by `parallel`: as many as there are CPUs, each by itself.

mod alloc;
mod descriptors;
mod first_touch;
mod hand_over;
pub(crate) mod memory;
mod noop;
mod packets;
mod parallel;
mod pool;
mod processes;
mod proxy;
mod solo;
mod syscalls;
mod wakes;

use std::io;
use std::marker::PhantomData;

use weighbridge_harness::axis::Axis;
use weighbridge_harness::contract::{
    Caps, Facts, InSuites, PatternInfo, Target, Unit, Unsupported, carries_nothing,
};
use weighbridge_harness::counter_check::Quiet;
use weighbridge_harness::host::Host;
use weighbridge_harness::params::CaseParams;

/// Something to do over and over.
pub trait Op: Sized + 'static {
    /// Its name in case ids.
    const ID: &'static str;
    /// What a reader should know, in one sentence.
    const ABOUT: &'static str;
    /// [`Caps::PAYLOAD`] where it has a size, [`Caps::ONE_PROCESS`] where its roles must be threads.
    const CAPS: Caps = Caps::NONE;
    /// Settings of its own.
    const AXES: &'static [Axis] = &[];
    /// Unit of its values when it is done alone.
    const UNIT: Unit = Unit::NanosPer("op");
    /// Can it be done alone? What one role hands over to another cannot.
    const HAS_SOLO: bool = true;
    /// Tells by the index of a role whether its operations count in the rate of several roles.
    const COUNTS: fn(usize) -> bool = |_| true;
    /// Which counts of the operation must be zero.
    const QUIET: Quiet = Quiet::ALL;
    /// Names of the parts of an operation that are timed apart as well, with their unit.
    const PARTS: &'static [&'static str] = &[];

    /// Can this case run here?
    ///
    /// # Errors
    /// It cannot: one sentence with the limit's name and how to raise it.
    fn fit(_host: &Host, _params: &CaseParams) -> Result<(), Unsupported> {
        Ok(())
    }

    /// Makes ready for one role, in its thread, after it is pinned.
    ///
    /// # Errors
    /// That of the kernel; the case is then skipped with it.
    fn setup(context: &OpContext<'_>) -> io::Result<Self>;

    /// Does the operation once. The result depends on what was done.
    ///
    /// # Errors
    /// The error of the system call that failed.
    fn once(&mut self) -> io::Result<u64>;

    /// What each call of [`once`](Op::once) returns, where that is known: the sum of a batch is then checked.
    fn each(&self) -> Option<u64> {
        None
    }

    /// Does the operation up to `n` times; returns how often, and the sum of the results. Fewer only where another role must do
    /// something first.
    ///
    /// # Errors
    /// As [`once`](Op::once).
    #[inline]
    fn up_to(&mut self, n: u64) -> io::Result<(u64, u64)> {
        Ok((n, run(self, n)?))
    }

    /// How many operations one call of [`once`](Op::once) stands for.
    fn ops_of_once(_params: &CaseParams) -> u64 {
        1
    }

    /// Bytes of payload of one operation.
    fn op_bytes(_params: &CaseParams) -> u64 {
        0
    }

    /// How often a byte of payload crosses the memory bus, by counting: an estimate, where one can be made.
    fn bus_crossings(_params: &CaseParams) -> Option<f64> {
        None
    }

    /// One of [`PARTS`](Op::PARTS), done as often as one call of [`once`](Op::once) does it; parts are done in turn.
    ///
    /// # Errors
    /// As [`once`](Op::once).
    fn part(&mut self, _index: usize) -> io::Result<()> {
        Ok(())
    }

    /// Page faults of one operation; `None` where that is not known.
    fn faults(_params: &CaseParams) -> Option<f64> {
        Some(0.0)
    }

    /// After the last one: what it did is looked at once more, and settings are read back.
    ///
    /// # Errors
    /// A sentence on what was not done.
    fn finish(&mut self) -> io::Result<Facts> {
        Ok(Facts::new())
    }
}

/// Where a role sits.
#[derive(Clone, Copy, Debug)]
pub struct OpContext<'a> {
    /// The case.
    pub params: &'a CaseParams,
    /// Index of the role.
    pub role: usize,
    /// Number of roles.
    pub roles: usize,
}

/// The loop around every operation.
#[inline]
fn run<O: Op>(op: &mut O, n: u64) -> io::Result<u64> {
    let mut sum = 0u64;
    for _ in 0..n {
        sum = sum.wrapping_add(op.once()?);
    }
    Ok(sum)
}

/// Compares the sum of a batch with what it must be.
#[inline]
fn check(each: Option<u64>, done: u64, sum: u64) -> io::Result<()> {
    match each.map(|each| each.wrapping_mul(done)) {
        Some(expected) if expected != sum => {
            Err(io::Error::other(format!("{done} operations gave {sum:#x} in all, and not {expected:#x}")))
        }
        _ => Ok(()),
    }
}

/// Every operation, in the order in which people read of them.
pub const ALL: &[Target] = &[
    of::<noop::Noop>(),
    of::<syscalls::Getpid>(),
    of::<syscalls::Getppid>(),
    of::<syscalls::ClockVdso>(),
    of::<syscalls::ClockSyscall>(),
    of::<syscalls::SchedYield>(),
    of::<syscalls::ReadZero>(),
    of::<syscalls::WriteNull>(),
    of::<syscalls::Stat>(),
    of::<syscalls::Statfs>(),
    of::<syscalls::Fstatfs>(),
    of::<syscalls::UringNop>(),
    of::<wakes::FutexWake>(),
    of::<descriptors::PipeCycle>(),
    of::<descriptors::SocketpairCycle>(),
    of::<descriptors::EventfdCycle>(),
    of::<descriptors::MemfdCycle>(),
    of::<descriptors::EpollAddRemove>(),
    of::<descriptors::OpenClose>(),
    of::<descriptors::AcceptCycle>(),
    of::<processes::MmapTouchMunmap>(),
    of::<first_touch::FirstTouch>(),
    of::<processes::ThreadCycle>(),
    of::<processes::ForkCycle>(),
    of::<processes::PosixSpawnCycle>(),
    of::<memory::Memory<memory::Memcpy>>(),
    of::<memory::Memory<memory::RepMovsb>>(),
    of::<memory::Memory<memory::CopyNt>>(),
    of::<memory::Memory<memory::Memset<{ memory::FILL }>>>(),
    of::<memory::Memory<memory::Memset<0>>>(),
    of::<memory::Memory<memory::ReadSum>>(),
    of::<alloc::Reuse>(),
    of::<alloc::Pattern>(),
    of::<alloc::Bulk>(),
    of::<hand_over::RemoteFree>(),
    of::<hand_over::OneFreeAll>(),
    of::<pool::PoolArrayQueue>(),
    of::<proxy::EventfdClose>(),
    of::<proxy::PipeClose>(),
    of::<proxy::DgramByte>(),
    of::<proxy::SysvMessage>(),
    of::<packets::Veth<packets::Drop>>(),
    of::<packets::Veth<packets::Accept>>(),
];

/// The patterns of an operation, in its unit.
struct Patterns<O>(PhantomData<O>);

impl<O: Op> Patterns<O> {
    const ALL: &'static [PatternInfo] = if O::HAS_SOLO {
        &[solo::info(O::UNIT), parallel::info(O::UNIT)]
    } else {
        &[parallel::info(O::UNIT)]
    };
}

const fn of<O: Op>() -> Target {
    Target {
        id: O::ID,
        about: O::ABOUT,
        caps: O::CAPS,
        waits: &[],
        axes: O::AXES,
        patterns: Patterns::<O>::ALL,
        fit: fit::<O>,
        create: |_, _| Ok(Vec::new()),
        drive: |pattern, _, params, cx| match pattern {
            solo::ID => solo::drive_solo::<O>(params, cx),
            _ => parallel::drive_parallel::<O>(params, cx),
        },
        counter_check: |case, per_op| O::QUIET.check(per_op, O::faults(&case.params)),
        in_suites: InSuites::Never("no suite compares every operation with every other"),
    }
}

fn fit<O: Op>(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
    let is_alone = params.id.pattern == solo::ID;
    match params.id.placement.as_str() {
        "same-cpu" | "free" => {}
        placement if is_alone => {
            return Err(Unsupported(format!(
                "one role alone has no {placement}; use same-cpu, which pins it, or free"
            )));
        }
        _ => {}
    }
    if !O::CAPS.has(Caps::PAYLOAD) {
        carries_nothing(params)?;
    }
    O::fit(host, params)
}
