//! Operations: work of one role, without a peer. One file for each idea, and one line for each operation in the list below.
//!
//! They are driven by `solo`: one role alone, and by `parallel`: as many as there are CPUs, each by itself.

mod alloc;
mod calls;
mod cycles;
mod hand_over;
mod memory;
mod packets;
mod pages;
mod parallel;
mod pool;
mod solo;
mod spawn;

use std::marker::PhantomData;

use crate::prelude::*;
use crate::sys;
use weighbridge_harness::counter_check::Quiet;

/// Something to do over and over. Errors are those of the system call that failed.
pub(crate) trait Op: Sized + 'static {
    const ID: &'static str;
    const ABOUT: &'static str;
    /// [`Caps::PAYLOAD`] where it has a size, [`Caps::ONE_PROCESS`] where its roles must be threads.
    const CAPS: Caps = Caps::NONE;
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

    /// Can this case run here? If not: one sentence with the limit's name and how to raise it.
    fn fit(_host: &Host, _params: &CaseParams) -> Result<(), Unsupported> {
        Ok(())
    }

    /// Makes ready for one role, in its thread, after it is pinned. The case is skipped where that fails.
    fn setup(context: &OpContext<'_>) -> io::Result<Self>;

    /// Does the operation once. The result depends on what was done.
    fn once(&mut self) -> io::Result<u64>;

    /// What each call of [`once`](Op::once) returns: the sum of a batch is checked.
    fn each(&self) -> u64 {
        1
    }

    /// Does the operation up to `n` times; returns how often, and the sum of the results. Fewer only where another role must do
    /// something first.
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
    fn part(&mut self, _index: usize) -> io::Result<()> {
        Ok(())
    }

    /// Page faults of one operation; `None` where that is not known.
    fn faults(_params: &CaseParams) -> Option<f64> {
        Some(0.0)
    }

    /// After the last one: what it did is looked at once more, and settings are read back.
    fn finish(&mut self) -> io::Result<Facts> {
        Ok(Facts::new())
    }
}

#[derive(Clone, Copy)]
pub(crate) struct OpContext<'a> {
    params: &'a CaseParams,
    role: usize,
    roles: usize,
}

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
fn check(each: u64, done: u64, sum: u64) -> io::Result<()> {
    let expected = each.wrapping_mul(done);
    if sum == expected {
        return Ok(());
    }
    Err(io::Error::other(format!("{done} operations gave {sum:#x} in all, and not {expected:#x}")))
}

/// What a system call returned, unless it failed.
#[inline]
fn value(result: impl Into<i64>) -> io::Result<u64> {
    sys::check(result.into()).map(|result| result as u64)
}

/// Declares an operation without settings: id, what it is, fields with their first values, what differs from the defaults of
/// [`Op`]; then what it does once, and what that must give. The text of the module says why its calls are safe.
macro_rules! op {
    (
        $name:ident, $id:literal, $about:literal, { $($field:ident: $type:ty = $init:expr),* },
        $(const $const:ident: $const_type:ty = $value:expr,)* |$op:ident| $once:expr, each $each:expr
    ) => {
        pub(super) struct $name {
            $($field: $type,)*
        }

        impl Op for $name {
            const ID: &'static str = $id;
            const ABOUT: &'static str = $about;
            $(const $const: $const_type = $value;)*

            fn setup(_context: &OpContext<'_>) -> io::Result<$name> {
                Ok($name { $($field: $init,)* })
            }

            #[inline]
            #[allow(unused_unsafe, reason = "some call what is safe")]
            fn once(&mut self) -> io::Result<u64> {
                let $op = self;
                // SAFETY: see the module's text.
                unsafe { $once }
            }

            fn each(&self) -> u64 {
                $each
            }
        }
    };
}

use op;

/// Every operation, in the order in which people read of them.
pub const ALL: &[Target] = &[
    of::<calls::Noop>(),
    of::<calls::Getpid>(),
    of::<calls::Getppid>(),
    of::<calls::ClockVdso>(),
    of::<calls::ClockSyscall>(),
    of::<calls::SchedYield>(),
    of::<calls::ReadZero>(),
    of::<calls::WriteNull>(),
    of::<calls::Stat>(),
    of::<calls::Fstat>(),
    of::<calls::Statfs>(),
    of::<calls::Fstatfs>(),
    of::<calls::UringNop>(),
    of::<calls::FutexWake>(),
    of::<cycles::PipeCycle>(),
    of::<cycles::SocketpairCycle>(),
    of::<cycles::EventfdCycle>(),
    of::<cycles::MemfdCycle>(),
    of::<cycles::EpollAddRemove>(),
    of::<cycles::OpenClose>(),
    of::<cycles::AcceptCycle>(),
    of::<pages::MmapTouchMunmap>(),
    of::<pages::FirstTouch>(),
    of::<cycles::ThreadCycle>(),
    of::<cycles::ForkCycle>(),
    of::<spawn::PosixSpawnCycle>(),
    of::<memory::Memory<memory::Memcpy>>(),
    of::<memory::Memory<memory::RepMovsb>>(),
    of::<memory::Memory<memory::RepMovsq>>(),
    of::<memory::Memory<memory::CopyUnrolled>>(),
    of::<memory::Memory<memory::CopyNt>>(),
    of::<memory::Memory<memory::Memset<{ memory::FILL }>>>(),
    of::<memory::Memory<memory::Memset<0>>>(),
    of::<memory::Memory<memory::ReadSum>>(),
    of::<alloc::Reuse>(),
    of::<alloc::Objects<alloc::Pattern>>(),
    of::<alloc::Objects<alloc::Bulk>>(),
    of::<hand_over::HandOver<false>>(),
    of::<hand_over::HandOver<true>>(),
    of::<pool::PoolArrayQueue>(),
    of::<cycles::EventfdClose>(),
    of::<cycles::PipeClose>(),
    of::<cycles::DgramByte>(),
    of::<cycles::SysvMessage>(),
    of::<packets::Veth<{ packets::DROP }>>(),
    of::<packets::Veth<{ packets::ACCEPT }>>(),
    of::<packets::Veth<{ packets::FORWARD }>>(),
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
        properties: |_| None,
        waits: &[],
        axes: O::AXES,
        patterns: Patterns::<O>::ALL,
        fit: fit::<O>,
        create: |_, _| Ok(Vec::new()),
        drive: |pattern, _, _, cx| match pattern {
            solo::ID => solo::drive_solo::<O>(cx),
            _ => parallel::drive_parallel::<O>(cx),
        },
        counter_check: |case, per_op| O::QUIET.check(per_op, O::faults(&case.params)),
        in_suites: InSuites::Never("no suite compares every operation with every other"),
        environment: &[],
    }
}

fn fit<O: Op>(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
    let placement = params.id.placement.as_str();
    if params.id.pattern == solo::ID && !matches!(placement, "same-cpu" | "free") {
        return Err(Unsupported(format!(
            "one role alone has no {placement}; use same-cpu, which pins it, or free"
        )));
    }
    if !O::CAPS.has(Caps::PAYLOAD) {
        carries_nothing(params)?;
    }
    O::fit(host, params)
}
