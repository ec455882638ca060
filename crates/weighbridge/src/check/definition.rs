//! What it takes to compare a figure of another tool with one of ours: the form of an entry in
//! [`definitions`](super::definitions).

/// One case of another tool and the case of ours that it is compared with.
#[derive(Debug)]
pub struct Definition {
    /// Its name on the command line: the tool, then what of it.
    pub name: &'static str,
    pub tool: &'static Tool,
    /// Program and arguments; see [`Blanks::fill_in`].
    pub command: &'static [&'static str],
    /// What must listen before the command can begin, and the words that it writes when it does.
    pub server: Option<Server>,
    pub place: Place,
    pub case: &'static str,
    pub unit: &'static str,
    pub runs: Runs,
    /// Where the figure stands in what the tool prints.
    pub reads: Reads,
    /// From the figure to our unit.
    pub scale: Scale,
    pub meaning: Meaning,
    /// From where to where ours over theirs is expected.
    pub band: [f64; 2],
    /// Why the ratio is expected in the band.
    pub because: &'static str,
    /// What is known to move the ratio out of the band.
    pub outside: &'static str,
}

/// A figure of another tool that is compared with none of ours, and why nothing of ours is equal enough.
#[derive(Debug)]
pub struct Unequal {
    /// The tool, then what of it.
    pub name: &'static str,
    pub why: &'static str,
}

/// Runs in a turn: the median of theirs is compared with the median of ours. A tool that is done in a fraction of a second, with one
/// mean of all that happened meanwhile, runs several times, so that one disturbance does not decide.
#[derive(Clone, Copy, Debug)]
pub struct Runs {
    pub theirs: usize,
    pub ours: usize,
}

/// An external tool.
#[derive(Debug)]
pub struct Tool {
    pub name: &'static str,
    pub package: &'static str,
    /// Folders in addition to those of `PATH` in which that package puts programs; one `*` stands for any name.
    pub folders: &'static [&'static str],
}

/// The other half of a tool that needs two.
#[derive(Clone, Copy, Debug)]
pub struct Server {
    pub command: &'static [&'static str],
    /// It has this in its output once it listens.
    pub ready: &'static str,
}

/// How the CPUs of the tool are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// We do: it may run where our roles run, and nowhere else.
    Ours,
    /// It does, by its arguments or by itself; it may run wherever we may.
    Own,
}

/// Where a figure stands in what a tool prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// The number before these words.
    Before(&'static str),
    /// The number after these words.
    After(&'static str),
    /// The second of the two numbers that the last line of figures consists of.
    SecondOfTwo,
    /// The number before `GB/sec`, `MB/sec`, `KB/sec` or `bytes/sec`, which perf counts in powers of 1024; in bytes per
    /// second.
    PerfBytes,
    /// What the receiver counted, in bits per second, in iperf3's JSON.
    Iperf3Received,
}

/// From the figure of a tool to our unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// The figure times this.
    Times(f64),
    /// This over the figure: from the time of a fixed amount of work to a rate.
    Over(f64),
}

impl Scale {
    /// The figure in our unit.
    pub fn apply(self, figure: f64) -> f64 {
        match self {
            Scale::Times(factor) => figure * factor,
            Scale::Over(work) => work / figure,
        }
    }
}

/// What a figure counts, so that no hop is compared with a round trip.
#[derive(Debug)]
pub struct Meaning {
    /// Hop or round trip, GB or GiB, copies.
    pub counts: &'static str,
    /// Size, and whether its buffer is used again.
    pub message: &'static str,
    /// Processes or threads, and how they wait.
    pub peers: &'static str,
    /// What happens before and inside the time that is measured.
    pub warm_up: &'static str,
}

/// What stands for the braces in a command.
#[derive(Debug)]
pub struct Blanks {
    /// CPUs of our roles.
    pub cpus: Vec<u32>,
    /// A TCP port that no process listens on.
    pub port: u16,
}

impl Blanks {
    /// Words of a command: `{near}` and `{far}` are the CPUs of our first and last role, `{port}` is the port.
    pub fn fill_in(&self, words: &[&str]) -> Vec<String> {
        let cpu = |cpu: Option<&u32>| cpu.map_or(String::new(), u32::to_string);
        let (near, far) = (cpu(self.cpus.first()), cpu(self.cpus.last()));
        let fill = |word: &&str| {
            word.replace("{near}", &near).replace("{far}", &far).replace("{port}", &self.port.to_string())
        };
        words.iter().map(fill).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_are_filled_in_and_a_time_for_work_becomes_a_rate() {
        let filled = Blanks { cpus: vec![3, 1], port: 4000 }.fill_in(&["x", "{near},{far}", "-p", "{port}"]);
        assert_eq!(filled, ["x", "3,1", "-p", "4000"]);
        assert_eq!(Scale::Over(100.0).apply(4.0), 25.0);
    }
}
