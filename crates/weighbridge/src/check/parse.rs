//! The figure in what a tool printed, or what was expected in its place.

use serde_json::Value;

use super::definition::Reads;

/// What a program wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// To its standard output.
    pub stdout: String,
    /// To its standard error.
    pub stderr: String,
}

impl Captured {
    /// The last thing it said, for a sentence about what went wrong.
    pub fn last_line(&self) -> &str {
        [&self.stderr, &self.stdout].into_iter().find_map(|text| last_line(text)).unwrap_or_default()
    }
}

fn last_line(text: &str) -> Option<&str> {
    text.lines().map(str::trim).rfind(|line| !line.is_empty())
}

/// Finds the figure; it is above zero. Tools differ in where they write it, so both outputs are looked at.
///
/// # Errors
/// A sentence that says what was expected and what was there.
pub fn figure(reads: Reads, captured: &Captured) -> Result<f64, String> {
    let texts = [captured.stdout.as_str(), captured.stderr.as_str()];
    let in_either = |find: &dyn Fn(&str) -> Option<f64>| texts.into_iter().find_map(find);
    let (found, expected) = match reads {
        Reads::Before(words) => {
            (in_either(&|text| before(text, words)), format!("a number before `{words}`"))
        }
        Reads::After(words) => (in_either(&|text| after(text, words)), format!("a number after `{words}`")),
        Reads::SecondOfTwo => (in_either(&second_of_two), "a line of two numbers".into()),
        Reads::PerfBytes => {
            (in_either(&perf_bytes), "a number before `GB/sec`, `MB/sec`, `KB/sec` or `bytes/sec`".into())
        }
        Reads::Iperf3Received => return iperf3_received(captured),
    };
    found.filter(|figure| is_sound(*figure)).ok_or_else(|| {
        format!(
            "its output has no figure: {expected}, above zero, was expected; it ends with `{}`",
            captured.last_line()
        )
    })
}

fn is_sound(figure: f64) -> bool {
    figure.is_finite() && figure > 0.0
}

/// The number in front of `words`, in the last line that has both.
fn before(text: &str, words: &str) -> Option<f64> {
    text.lines().rev().find_map(|line| line.split_once(words)?.0.split_whitespace().next_back()?.parse().ok())
}

/// The number behind `words`, in the last line that has both.
fn after(text: &str, words: &str) -> Option<f64> {
    text.lines().rev().find_map(|line| line.split_once(words)?.1.split_whitespace().next()?.parse().ok())
}

fn second_of_two(text: &str) -> Option<f64> {
    text.lines().rev().find_map(|line| {
        let numbers: Option<Vec<f64>> = line.split_whitespace().map(|word| word.parse().ok()).collect();
        <[f64; 2]>::try_from(numbers?).ok().map(|[_, second]| second)
    })
}

fn perf_bytes(text: &str) -> Option<f64> {
    const UNITS: [(&str, u32); 4] = [("GB/sec", 30), ("MB/sec", 20), ("KB/sec", 10), ("bytes/sec", 0)];
    UNITS.into_iter().find_map(|(unit, shift)| Some(before(text, unit)? * f64::from(1 << shift)))
}

fn iperf3_received(captured: &Captured) -> Result<f64, String> {
    const EXPECTED: &str = "`end.sum_received.bits_per_second` in JSON was expected";
    let report: Value = serde_json::from_str(&captured.stdout).map_err(|error| {
        format!("its output is not JSON ({error}): {EXPECTED}; it ends with `{}`", captured.last_line())
    })?;
    if let Some(why) = report.get("error").and_then(Value::as_str) {
        return Err(format!("it reports an error: {why}"));
    }
    report
        .pointer("/end/sum_received/bits_per_second")
        .and_then(Value::as_f64)
        .filter(|figure| is_sound(*figure))
        .ok_or_else(|| format!("its JSON has no figure: {EXPECTED}, above zero"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn out(text: &str) -> Captured {
        Captured { stdout: text.into(), ..Captured::default() }
    }

    fn err(text: &str) -> Captured {
        Captured { stderr: text.into(), ..Captured::default() }
    }

    const SCHED_PIPE: &str = "# Running 'sched/pipe' benchmark:
# Executed 100000 pipe operations between two processes

     Total time: 0.498 [sec]

       4.984490 usecs/op
         200622 ops/sec
";
    const MESSAGING: &str = "# Running 'sched/messaging' benchmark:
# 20 sender and receiver processes per group
# 10 groups == 400 processes run

     Total time: 1.518 [sec]
";
    const SYSCALL: &str = "# Running 'syscall/basic' benchmark:
# Executed 1000000 getppid() calls
     Total time: 0.167 [sec]

       0.167264 usecs/op
        5978572 ops/sec
";
    const MEMCPY: &str = "# Running 'mem/memcpy' benchmark:
# function 'default' (Default memcpy() provided by glibc)
# Copying 1GB bytes ...

       6.230258 GB/sec
";
    const EPOLL: &str = "# Running 'epoll/wait' benchmark:
Run summary [PID 3265]: 1 threads monitoring on 64 file-descriptors for 1 secs.

[thread  0] fdmap: 0x55ff4ffbf3d0 ... 0x55ff4ffbf4cc [ 527317 ops/sec ]

Averaged 527317 operations/sec (+- 0.00%), total secs = 1
";
    const FUTEX_WAKE: &str = "# Running 'futex/wake' benchmark:
Run summary [PID 3289]: blocking on 1 threads (at [private] futex 0x55cae11c2b58), waking up 1 at a time.

[Run 1]: Wokeup 1 of 1 threads in 0.0050 ms
[Run 2]: Wokeup 1 of 1 threads in 0.0990 ms
[Run 3]: Wokeup 1 of 1 threads in 0.0830 ms
Wokeup 1 of 1 threads in 0.0783 ms (+-10.57%)
";
    const HACKBENCH: &str =
        "Running in process mode with 1 groups using 40 file descriptors each (== 40 tasks)
Each sender will pass 1000 messages of 100 bytes
Time: 0.875
";
    const IPERF3: &str = r#"{
	"start":	{ "version":	"iperf 3.12", "tcp_mss_default":	32768, "sndbuf_actual":	16384 },
	"end":	{
		"sum_sent":	{
			"start":	0, "end":	1.000267, "seconds":	1.000267, "bytes":	3000238080,
			"bits_per_second":	23995497842.076164, "retransmits":	16, "sender":	true
		},
		"sum_received":	{
			"start":	0, "end":	1.000295, "seconds":	1.000295, "bytes":	3000238080,
			"bits_per_second":	23994826166.28095, "sender":	true
		},
		"sender_tcp_congestion":	"bbr"
	}
}
"#;
    const IPERF3_REFUSED: &str = r#"{
	"start":	{ "connected":	[], "version":	"iperf 3.12" },
	"intervals":	[],
	"end":	{
	},
	"error":	"unable to connect to server: Connection refused"
}
"#;

    #[test]
    fn figures_of_perf_are_found() {
        assert_eq!(figure(Reads::Before("usecs/op"), &out(SCHED_PIPE)), Ok(4.984_49));
        assert_eq!(figure(Reads::Before("usecs/op"), &out(SYSCALL)), Ok(0.167_264));
        assert_eq!(figure(Reads::After("Total time:"), &out(MESSAGING)), Ok(1.518));
        assert_eq!(figure(Reads::Before("operations/sec"), &out(EPOLL)), Ok(527_317.0));
        assert_eq!(figure(Reads::Before("ms (+-"), &out(FUTEX_WAKE)), Ok(0.0783), "the mean, not a run");
    }

    #[test]
    fn perf_counts_memory_in_powers_of_1024() {
        let gib = f64::from(1 << 30);
        assert_eq!(figure(Reads::PerfBytes, &out(MEMCPY)), Ok(6.230_258 * gib));
        let small = out("# Copying 1MB bytes ...\n\n     512.000000 MB/sec\n");
        assert_eq!(figure(Reads::PerfBytes, &small), Ok(gib / 2.0));
    }

    /// Line for line as its programs of version 3.0-a9 print them; the numbers are not theirs, as its licence restricts what
    /// may be published of changed versions, and those of distributions are changed.
    #[test]
    fn figures_of_lmbench_are_found_on_standard_error() {
        let micros = Reads::Before("microseconds");
        for (line, value) in [
            ("Simple syscall: 0.1250 microseconds\n", 0.125),
            ("Simple read: 0.2500 microseconds\n", 0.25),
            ("Simple write: 0.3750 microseconds\n", 0.375),
            ("Simple stat: 0.5000 microseconds\n", 0.5),
            ("Simple open/close: 1.2500 microseconds\n", 1.25),
            ("Process fork+exit: 123.7500 microseconds\n", 123.75),
            ("Pipe latency: 4.2500 microseconds\n", 4.25),
            ("AF_UNIX sock stream latency: 7.5000 microseconds\n", 7.5),
            ("Semaphore latency: 1.5000 microseconds\n", 1.5),
        ] {
            assert_eq!(figure(micros, &err(line)), Ok(value), "{line}");
        }
        let rate = Reads::Before("MB/sec");
        assert_eq!(figure(rate, &err("Pipe bandwidth: 3210.50 MB/sec\n")), Ok(3210.5));
        assert_eq!(figure(rate, &err("AF_UNIX sock stream bandwidth: 3456.75 MB/sec\n")), Ok(3456.75));
        // Size and rate: 64 MiB are 67.11 of its MB, which are 10^6 bytes.
        assert_eq!(figure(Reads::SecondOfTwo, &err("67.11 9876.50\n")), Ok(9876.5));
        let why = figure(Reads::SecondOfTwo, &err("67.11\nusage: bw_mem 1 2 3\n")).unwrap_err();
        assert!(why.contains("a line of two numbers"), "{why}");
    }

    #[test]
    fn the_time_of_hackbench_is_found() {
        assert_eq!(figure(Reads::After("Time:"), &out(HACKBENCH)), Ok(0.875));
    }

    #[test]
    fn iperf3_is_read_at_the_receiver() {
        assert_eq!(figure(Reads::Iperf3Received, &out(IPERF3)), Ok(23_994_826_166.280_95));
    }

    #[test]
    fn an_output_without_a_figure_is_an_error_that_says_what_was_expected() {
        let why = figure(Reads::Before("usecs/op"), &out(MESSAGING)).unwrap_err();
        assert!(
            why.contains("a number before `usecs/op`") && why.contains("`Total time: 1.518 [sec]`"),
            "{why}"
        );
        let cut = &SCHED_PIPE[..SCHED_PIPE.find("4.98").unwrap()];
        assert!(figure(Reads::Before("usecs/op"), &out(cut)).is_err());
        let why = figure(Reads::After("Time:"), &out("Time: soon\n")).unwrap_err();
        assert!(why.contains("a number after `Time:`"), "{why}");
        let why = figure(Reads::PerfBytes, &out("Unknown function: defalt\n")).unwrap_err();
        assert!(why.contains("`GB/sec`") && why.contains("defalt"), "{why}");
        assert!(figure(Reads::Before("microseconds"), &err("Pipe latency: 0.0000 microseconds\n")).is_err());
        assert!(figure(Reads::Before("MB/sec"), &Captured::default()).unwrap_err().contains("``"));
    }

    #[test]
    fn broken_json_of_iperf3_is_an_error_that_says_what_was_expected() {
        let refused = figure(Reads::Iperf3Received, &out(IPERF3_REFUSED)).unwrap_err();
        assert!(refused.contains("Connection refused"), "{refused}");
        let cut = figure(Reads::Iperf3Received, &out(&IPERF3[..IPERF3.len() / 2])).unwrap_err();
        assert!(cut.contains("end.sum_received.bits_per_second"), "{cut}");
        let empty = figure(Reads::Iperf3Received, &out(r#"{ "end": {} }"#)).unwrap_err();
        assert!(empty.contains("end.sum_received.bits_per_second"), "{empty}");
    }
}
