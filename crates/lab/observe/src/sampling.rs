//! Samples of CPUs by their clock, with the stack of whatever runs there.

use std::io;
use std::os::fd::AsFd;

use perf_event_open::config::{CallChain, Cpu, Opts, Proc, SampleOn};
use perf_event_open::count::Counter;
use perf_event_open::event::sw::Software;
use perf_event_open::sample::Sampler;
use perf_event_open::sample::record::Record;
use perf_event_open::sample::record::sample::CallChain as Chain;
use weighbridge_probe::counters::EventSwitch;

/// Time between two samples of a CPU: about a thousand a second, and no multiple or fraction of a timer tick of 1, 4 or 10 ms. In a virtual
/// machine a sample costs some 50 µs, its two exits among them, which comes to 5 % of the time.
pub const PERIOD_NS: u64 = 987_000;

/// Pages of the buffer of a CPU, as a power of two: 512 KiB, which holds a second of samples with deep stacks, and which every user
/// may lock (`kernel.perf_event_mlock_kb`).
const BUFFER_PAGES_EXPONENT: u8 = 7;
/// Deeper stacks are cut off at the outer end.
const MOST_FRAMES: u16 = 64;

/// One sample. Addresses stand from the innermost to the outermost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The process that ran; 0 for none.
    pub process: u32,
    /// Its stack in the kernel; empty in user mode.
    pub kernel: Vec<u64>,
    /// Its stack in user mode, as far as frame pointers tell it.
    pub user: Vec<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    pub samples: Vec<Sample>,
    /// Samples that found no room.
    pub lost: u64,
    /// Times that the kernel stopped sampling for a while.
    pub throttled: u64,
}

/// Samplers, one for each CPU. They take no sample until they are switched on, and end with this value.
pub struct Sampling {
    cpus: Vec<(Counter, Sampler, bool)>,
}

impl Sampling {
    /// Opens a sampler for each of `cpus`, of whatever runs there.
    pub fn open(cpus: &[u32]) -> io::Result<Sampling> {
        Ok(Sampling { cpus: cpus.iter().map(|cpu| sampler(*cpu)).collect::<io::Result<_>>()? })
    }

    /// What starts and stops them.
    pub fn switch(&self) -> io::Result<EventSwitch> {
        let fds = self.cpus.iter().map(|(counter, ..)| counter.file().as_fd().try_clone_to_owned());
        Ok(EventSwitch::new(fds.collect::<io::Result<_>>()?))
    }

    /// Takes the samples out of the buffers. The samplers must be off.
    pub fn take(&self) -> io::Result<Taken> {
        let mut taken = Taken::default();
        for (counter, sampler, tells_lost) in &self.cpus {
            let mut told = 0;
            for (_, record) in sampler.iter().into_iter().flatten() {
                match record {
                    Record::Sample(sample) => taken.samples.push(sample_of(*sample)),
                    Record::LostRecords(lost) => told += lost.lost_records,
                    Record::Throttle(_) => taken.throttled += 1,
                    _ => {}
                }
            }
            // The records that tell of losses stop where the buffer is full; the counter knows all.
            let counted = if *tells_lost { counter.stat()?.lost_records.unwrap_or(0) } else { 0 };
            taken.lost += counted.max(told);
        }
        Ok(taken)
    }
}

fn sampler(cpu: u32) -> io::Result<(Counter, Sampler, bool)> {
    let mut opts = Opts { sample_on: SampleOn::Count(PERIOD_NS), ..Opts::default() };
    opts.record_id_format.task = true;
    opts.sample_format.call_chain = Some(CallChain {
        exclude_user: false,
        exclude_kernel: false,
        defer_user: false,
        max_stack_frames: MOST_FRAMES,
    });
    let open = |opts: &Opts| Counter::new(Software::CpuClock, (Proc::ALL, Cpu(cpu)), opts);
    opts.stat_format.lost_records = true;
    let (counter, tells_lost) = match open(&opts) {
        // Before Linux 6.0 a counter does not know what was lost.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            opts.stat_format.lost_records = false;
            (open(&opts)?, false)
        }
        opened => (opened?, true),
    };
    let sampler = counter.sampler(BUFFER_PAGES_EXPONENT)?;
    Ok((counter, sampler, tells_lost))
}

fn sample_of(sample: perf_event_open::sample::record::sample::Sample) -> Sample {
    let mut found = Sample { process: sample.record_id.task.map_or(0, |task| task.pid), ..Sample::default() };
    for chain in sample.call_chain.into_iter().flatten() {
        match chain {
            Chain::Kernel(addresses) => found.kernel = addresses,
            Chain::User(addresses) => found.user = addresses,
            _ => {}
        }
    }
    found
}
