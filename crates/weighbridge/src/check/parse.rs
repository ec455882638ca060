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

/// Finds the figure, which is above zero, or says what was expected and what was there. Tools differ in where they write it, so both outputs
/// are looked at.
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

    const IPERF3: &str = r#"{
    "start": { "version": "iperf 3.12", "tcp_mss_default": 32768, "sndbuf_actual": 16384 },
    "end": {
        "sum_sent": { "seconds": 1.000267, "bytes": 3000238080, "bits_per_second": 23995497842.076164 },
        "sum_received": { "seconds": 1.000295, "bytes": 3000238080, "bits_per_second": 23994826166.28095 },
        "sender_tcp_congestion": "bbr"
    }
}"#;

    /// Line for line as the programs print them. The numbers of lmbench, version 3.0-a9, are not its own: its license restricts what may be
    /// published of changed versions, and those of distributions are changed.
    #[test]
    fn the_figure_of_every_tool_is_found_whichever_output_has_it() {
        let gib = f64::from(1 << 30);
        let pipe = "     Total time: 0.498 [sec]\n\n       4.984490 usecs/op\n         200622 ops/sec\n";
        let epoll = "Run summary [PID 3265]: 1 threads monitoring on 64 file-descriptors for 1 secs.\n\n\
                     [thread  0] fdmap: 0x55ff4ffbf3d0 ... 0x55ff4ffbf4cc [ 527317 ops/sec ]\n\n\
                     Averaged 527317 operations/sec (+- 0.00%), total secs = 1\n";
        // The mean, and not a run.
        let futex =
            "[Run 1]: Wokeup 1 of 1 threads in 0.0050 ms\nWokeup 1 of 1 threads in 0.0783 ms (+-10.57%)\n";
        let hackbench = "Each sender will pass 1000 messages of 100 bytes\nTime: 0.875\n";
        for (reads, text, value) in [
            (Reads::Before("usecs/op"), pipe, 4.984_49),
            (Reads::After("Total time:"), pipe, 0.498),
            (Reads::Before("operations/sec"), epoll, 527_317.0),
            (Reads::Before("ms (+-"), futex, 0.0783),
            (Reads::PerfBytes, "# Copying 1GB bytes ...\n\n       6.230258 GB/sec\n", 6.230_258 * gib),
            (Reads::PerfBytes, "# Copying 1MB bytes ...\n\n     512.000000 MB/sec\n", gib / 2.0),
            (Reads::After("Time:"), hackbench, 0.875),
            (Reads::Before("microseconds"), "AF_UNIX sock stream latency: 7.5000 microseconds\n", 7.5),
            (Reads::Before("MB/sec"), "Pipe bandwidth: 3210.50 MB/sec\n", 3210.5),
            // Size and rate: 64 MiB are 67.11 of its MB, which are 10^6 bytes.
            (Reads::SecondOfTwo, "67.11 9876.50\n", 9876.5),
            (Reads::Iperf3Received, IPERF3, 23_994_826_166.280_95),
        ] {
            let stdout = Captured { stdout: text.into(), ..Captured::default() };
            assert_eq!(figure(reads, &stdout), Ok(value), "{reads:?}: {text}");
            if reads != Reads::Iperf3Received {
                let stderr = Captured { stderr: text.into(), ..Captured::default() };
                assert_eq!(figure(reads, &stderr), Ok(value), "{reads:?}: {text}");
            }
        }
    }

    #[test]
    fn an_output_without_a_figure_is_an_error_that_says_what_was_expected() {
        let refused = r#"{ "end": {}, "error": "unable to connect to server: Connection refused" }"#;
        for (reads, text, parts) in [
            (
                Reads::Before("usecs/op"),
                "Time: 1.5 [sec]\n",
                ["a number before `usecs/op`", "`Time: 1.5 [sec]`"],
            ),
            (Reads::Before("usecs/op"), "0.498 [sec]\n\n       4.9", ["a number before", "`4.9`"]),
            (Reads::Before("microseconds"), "Pipe latency: 0.0000 microseconds\n", ["above zero", "0.0000"]),
            (Reads::Before("MB/sec"), "", ["a number before `MB/sec`", "``"]),
            (Reads::After("Time:"), "Time: soon\n", ["a number after `Time:`", "soon"]),
            (Reads::SecondOfTwo, "67.11\nusage: bw_mem 1 2 3\n", ["a line of two numbers", "usage"]),
            (Reads::PerfBytes, "Unknown function: defalt\n", ["`GB/sec`", "defalt"]),
            (Reads::Iperf3Received, refused, ["it reports an error", "Connection refused"]),
            (Reads::Iperf3Received, &IPERF3[..200], ["not JSON", "end.sum_received.bits_per_second"]),
            (
                Reads::Iperf3Received,
                r#"{ "end": {} }"#,
                ["has no figure", "end.sum_received.bits_per_second"],
            ),
        ] {
            let why = figure(reads, &Captured { stdout: text.into(), ..Captured::default() }).unwrap_err();
            assert!(parts.iter().all(|part| why.contains(part)), "{text}: {why}");
        }
    }
}
