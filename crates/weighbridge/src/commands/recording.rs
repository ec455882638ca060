//! The kernel's events meanwhile: who runs, who is woken, interrupts, idle CPUs, in a trace buffer of our own.

use weighbridge_analysis::timeline::{
    CALL_EVENTS, EVENTS, Formats, OPTIONAL_EVENTS, Trace, check_page_format,
};
use weighbridge_probe::tracefs::{Instance, Tracefs};

/// Of each CPU: tens of thousands of records, which are more than the marks of a run have operations.
const BUFFER_KIB: u32 = 4096;

/// CPUs that are recorded at most: each has a buffer.
const MOST_CPUS: usize = 16;

/// What is recorded.
#[derive(Clone, Copy, Debug)]
pub struct What<'n> {
    /// Names of the programs whose system calls are recorded, as far as the kernel can; none are of others.
    pub calls_of: &'n [&'n str],
    /// Beside calls, who runs and nothing else: less to look at costs less.
    pub is_brief: bool,
}

/// A recording at work. Dropped, nothing of it is left.
#[derive(Debug)]
pub struct Recording {
    instance: Instance,
    formats: Formats,
    cpus: Vec<u32>,
}

impl Recording {
    /// Begins to record on the first of these CPUs, which are those that matter most; `Trace::unrecorded` says which are missing. A full buffer
    /// keeps what is newest. The sentence of an error says what is refused, and what would allow it.
    pub fn begin(cpus: &[u32], what: What<'_>) -> Result<Recording, String> {
        let cpus = &cpus[..cpus.len().min(MOST_CPUS)];
        let refused = |error: causeway_os::Error| error.to_string();
        let tracefs = Tracefs::open().map_err(refused)?;
        let instance = tracefs.instance().map_err(refused)?;
        instance.set_clock("mono").map_err(refused)?;
        cpus.iter().try_for_each(|cpu| instance.set_buffer_kib(*cpu, BUFFER_KIB)).map_err(refused)?;
        instance.set_cpus(cpus).map_err(refused)?;
        let mut formats = Formats::default();
        check_page_format(&instance.page_format().map_err(refused)?).map_err(|error| error.to_string())?;
        let mut enable = |name: &str| -> Result<(), String> {
            let event = tracefs.event(name).map_err(refused)?;
            formats.add(name, event.id, &event.format).map_err(|error| error.to_string())?;
            instance.enable(name).map_err(refused)
        };
        EVENTS.into_iter().take(if what.is_brief { 1 } else { EVENTS.len() }).try_for_each(&mut enable)?;
        for name in OPTIONAL_EVENTS.into_iter().filter(|_| !what.is_brief) {
            // What a kernel does not have is not shown.
            let _ = enable(name);
        }
        if let [first, others @ ..] = what.calls_of {
            let of = |name: &&str| format!("comm == \"{name}\"");
            let filter = others.iter().fold(of(first), |filter, name| format!("{filter} || {}", of(name)));
            for name in CALL_EVENTS {
                // Of all threads there would be too many.
                let _ = instance.filter(name, &filter).is_ok() && enable(name).is_ok();
            }
        }
        instance.start().map_err(refused)?;
        Ok(Recording { instance, formats, cpus: cpus.to_vec() })
    }

    /// Ends it: what was recorded.
    pub fn end(self) -> Result<Trace, String> {
        let Recording { instance, formats, cpus } = self;
        instance.stop().map_err(|error| error.to_string())?;
        let taken = cpus.iter().map(|cpu| instance.take_pages(*cpu).map(|pages| (*cpu, pages)));
        let pages: Vec<(u32, Vec<Vec<u8>>)> =
            taken.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
        let pages = pages.iter().map(|(cpu, pages)| (*cpu, pages.as_slice()));
        let mut trace = Trace::decode(pages, &formats);
        for cpu in cpus {
            // A record that found no place leaves no trace in the pages.
            trace.dropped += instance.dropped(cpu).unwrap_or(0);
        }
        Ok(trace)
    }
}
