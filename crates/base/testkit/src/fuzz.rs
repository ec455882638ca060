//! Fuzzing with plain `cargo test` on stable Rust: committed inputs, then mutations of them.
//!
//! Written here because bolero, on stable Rust, repeats its corpus and draws random bytes but mutates nothing, and proptest has no corpus:
//! neither gets past the first line of an XML file or a D-Bus message.
//!
//! [`run`] starts the test program once more, so that a panic, an abort, a stack overflow, an endless loop and an allocation without bound all
//! end in the same report, with the input in a file. The result of a target stands for what the input made the code do: an input with a new
//! result is mutated, too.
#![allow(clippy::print_stdout, reason = "a target prints how much of it was run")]

use std::collections::HashSet;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};
use std::{env, str};

use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

use crate::watchdog::{self, WORKER};
use crate::{Rng, setting};

/// The variable with the seconds for which each target runs; without it a target gets one second, and the same inputs each time.
pub const SECONDS: &str = "CAUSEWAY_FUZZ_SECONDS";
/// The variable with the seed of the mutations.
pub const SEED: &str = "CAUSEWAY_SEED";
/// The variable with a file: the target takes this input alone, in the process of the test.
pub const INPUT: &str = "CAUSEWAY_FUZZ_INPUT";
/// The variable with a folder, where inputs that made the code do something new are left: candidates for a corpus.
pub const KEEP: &str = "CAUSEWAY_FUZZ_KEEP";

/// Without [`SECONDS`].
const INPUTS_MAX: u64 = 50_000;
/// How long one input may take.
const INPUT_LIMIT: Duration = Duration::from_secs(20);
/// How much memory a target may take beyond that of the test program.
const MEMORY_BYTES: u64 = 1 << 30;
const INPUT_BYTES_MAX: usize = 64 << 10;
/// Inputs that are mutated.
const POOL_MAX: usize = 4096;

const BYTES: &[u8] = b"\0\x01\x7f\x80\xff\n\r\t \"'\\/,:;.-=<>(){}[]&a0";
const NUMBERS: &[u64] =
    &[0, 1, 63, 64, 127, 128, 255, 256, 1 << 15, 1 << 16, (1 << 26) + 1, 1 << 27, 1 << 31, 1 << 32, 1 << 63];
const DIGITS: &[&str] = &[
    "0",
    "1",
    "-1",
    "255",
    "65536",
    "2147483648",
    "4294967296",
    "18446744073709551616",
    "0.5",
    "1e-320",
    "1e308",
    "1e999",
    "NaN",
];

/// Runs `target` with each file of the folder `corpus`, then with mutations of them, in which the words may appear that are given.
///
/// # Panics
/// An input makes `target` panic, end the process, take more than 20 s or more than 1 GiB. The message has the input and the command that
/// repeats it.
pub fn run<B: Hash>(corpus: impl AsRef<Path>, words: &[&str], mut target: impl FnMut(&[u8]) -> B) {
    let corpus = corpus.as_ref();
    if let Some(file) = env::var_os(INPUT) {
        let input = fs::read(&file).unwrap_or_else(|error| panic!("{INPUT}={}: {error}", file.display()));
        target(&input);
    } else if let Some(file) = env::var_os(WORKER) {
        work(corpus, words, target, Path::new(&file));
    } else {
        supervise(corpus);
    }
}

fn seconds() -> Option<u64> {
    let text = env::var(SECONDS).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{SECONDS}={text}: not a whole number of seconds")))
}

/// Starts the worker and reports how it ended.
#[track_caller]
fn supervise(corpus: &Path) {
    let name = corpus.file_name().expect("a corpus is a folder").display();
    let test = watchdog::current_test();
    let (package, test) =
        test.split_once(' ').expect("the test has the attribute #[test] of causeway-testkit");
    let time = Duration::from_secs(seconds().unwrap_or(1));
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos() as u64;
    let seed = setting(SEED, if seconds().is_some() { now } else { 1 });
    let input = tempfile::Builder::new().prefix(&format!("fuzz-{name}-")).tempfile().unwrap();
    let input_limit = watchdog::limit().min(INPUT_LIMIT);
    watchdog::extend_limit(time + 2 * input_limit);
    let worker = Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(WORKER, input.path())
        .env(SEED, seed.to_string())
        .env(watchdog::LIMIT, input_limit.as_secs().to_string())
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&worker.stdout) + String::from_utf8_lossy(&worker.stderr);
    if !worker.status.success() {
        let (_, input) = input.keep().unwrap();
        panic!(
            "fuzz target {name}: {} with seed {seed} after the input {input:?}; repeat it:\n\
             {INPUT}={input:?} cargo test -p {package} -- --exact {test}\n{output}",
            worker.status
        );
    }
    // A program that ran no test has not written it.
    let summary = output.lines().find_map(|line| line.find("fuzz target").map(|at| &line[at..]));
    println!("{}", summary.unwrap_or_else(|| panic!("{test} ran no target: {output}")));
}

fn work<B: Hash>(corpus: &Path, words: &[&str], mut target: impl FnMut(&[u8]) -> B, file: &Path) {
    let pages: u64 =
        fs::read_to_string("/proc/self/statm").unwrap().split(' ').next().unwrap().parse().unwrap();
    let memory = Some(pages * rustix::param::page_size() as u64 + MEMORY_BYTES);
    setrlimit(Resource::As, Rlimit { current: memory, maximum: memory }).unwrap();
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }).unwrap();
    let file = File::options().write(true).open(file).unwrap();
    let (start, mut inputs, mut slowest) = (Instant::now(), 0, Duration::ZERO);
    let mut results = HashSet::new();
    let mut is_new = |input: &[u8]| {
        file.write_all_at(input, 0).and_then(|()| file.set_len(input.len() as u64)).unwrap();
        watchdog::restart();
        let (begun, mut result) = (cpu_time(), DefaultHasher::new());
        target(input).hash(&mut result);
        slowest = slowest.max(cpu_time().saturating_sub(begun));
        inputs += 1;
        results.insert(result.finish())
    };
    let files = fs::read_dir(corpus).unwrap_or_else(|error| panic!("{}: {error}", corpus.display()));
    let mut files: Vec<_> = files.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let pool: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    assert!(!pool.is_empty(), "{} is empty", corpus.display());
    for input in &pool {
        is_new(input);
    }
    let mut mutator = Mutator { random: Rng::with_seed(setting(SEED, 1)), words, pool };
    let (time, most) =
        seconds().map_or((Duration::from_secs(1), INPUTS_MAX), |time| (Duration::from_secs(time), u64::MAX));
    let mut mutations = 0;
    while mutations < most && start.elapsed() < time {
        let input = mutator.next_input();
        if is_new(&input) && mutator.pool.len() < POOL_MAX {
            mutator.pool.push(input);
        }
        mutations += 1;
    }
    if let Some(folder) = env::var_os(KEEP) {
        for (number, input) in mutator.pool.iter().enumerate().skip(files.len()) {
            fs::write(
                Path::new(&folder).join(format!("{}-{number}", corpus.file_name().unwrap().display())),
                input,
            )
            .unwrap();
        }
    }
    println!(
        "fuzz target {}: {inputs} inputs in {:.1} s, {} results, the slowest took {:.1} ms of CPU time",
        corpus.file_name().unwrap().display(),
        start.elapsed().as_secs_f64(),
        results.len(),
        slowest.as_secs_f64() * 1e3
    );
}

/// Of this thread: other processes do not make an input slow.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

struct Mutator<'a> {
    random: Rng,
    words: &'a [&'a str],
    pool: Vec<Vec<u8>>,
}

impl Mutator<'_> {
    fn next_input(&mut self) -> Vec<u8> {
        // Short inputs are faster, and each of their bytes is more likely to matter.
        let [one, other] = [(); 2].map(|()| &self.pool[self.random.usize(..self.pool.len())]);
        let mut bytes = if one.len() < other.len() { one.clone() } else { other.clone() };
        for _ in 0..1 << self.random.u32(..5) {
            self.mutate(&mut bytes);
        }
        bytes.truncate(INPUT_BYTES_MAX);
        bytes
    }

    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        let range = self.range(bytes.len());
        let at = range.start;
        match self.random.u32(..11) {
            0 if at < bytes.len() => bytes[at] ^= 1 << self.random.u32(..8),
            1 if at < bytes.len() => bytes[at] = BYTES[self.random.usize(..BYTES.len())],
            2 => self.change_number(bytes, at),
            3 => self.change_digits(bytes, at),
            4 => drop(bytes.drain(range)),
            5 => bytes.truncate(at),
            6 => {
                let part = bytes[range].repeat(1 << self.random.u32(..7));
                bytes.splice(at..at, part.into_iter().take(INPUT_BYTES_MAX));
            }
            7 => {
                let from = self.random.usize(..=bytes.len());
                let part = bytes[range.start.min(from)..range.end.min(from)].to_vec();
                bytes.splice(from..from, part);
            }
            8 => {
                let other = self.random.usize(..self.pool.len());
                let part = self.range(self.pool[other].len());
                bytes.splice(range, self.pool[other][part].iter().copied());
            }
            _ if self.words.is_empty() => bytes.insert(at, self.random.u8(..)),
            way => {
                let word = self.words[self.random.usize(..self.words.len())];
                bytes.splice(if way == 9 { at..at } else { range }, word.bytes());
            }
        }
    }

    /// Of so many bytes; short ranges are as likely as long ones.
    fn range(&mut self, length: usize) -> Range<usize> {
        let start = self.random.usize(..=length);
        let most = (length - start).min(1 << self.random.u32(..16));
        start..start + self.random.usize(..=most)
    }

    /// Changes a number of 2, 4 or 8 bytes.
    fn change_number(&mut self, bytes: &mut [u8], at: usize) {
        let width = 2 << self.random.u32(..3);
        let length = bytes.len() as u64;
        let Some(place) = bytes.get_mut(at..at + width) else { return };
        let is_big = self.random.bool();
        if is_big {
            place.reverse();
        }
        let mut word = [0; 8];
        word[..width].copy_from_slice(place);
        let number = match self.random.u32(..3) {
            0 => NUMBERS[self.random.usize(..NUMBERS.len())].wrapping_sub(self.random.u64(..2)),
            1 => length.wrapping_add(self.random.u64(..17)).wrapping_sub(8),
            _ => u64::from_le_bytes(word).wrapping_add(self.random.u64(..33)).wrapping_sub(16),
        };
        place.copy_from_slice(&number.to_le_bytes()[..width]);
        if is_big {
            place.reverse();
        }
    }

    /// Changes the first number in digits behind a place.
    fn change_digits(&mut self, bytes: &mut Vec<u8>, at: usize) {
        let Some(start) = bytes[at..].iter().position(u8::is_ascii_digit).map(|start| at + start) else {
            return;
        };
        let end = bytes[start..]
            .iter()
            .position(|byte| !byte.is_ascii_digit())
            .map_or(bytes.len(), |end| start + end);
        bytes.splice(start..end, DIGITS[self.random.usize(..DIGITS.len())].bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{rerun, temp_dir};

    const CASE: &str = "TESTKIT_FUZZ_CASE";
    const CORPUS: &str = "TESTKIT_FUZZ_CORPUS";

    fn recurse(depth: u64) -> u64 {
        if depth == u64::MAX { 0 } else { 1 + std::hint::black_box(recurse(depth + 1)) }
    }

    /// Fails once a word of the dictionary has got in and a byte before it was removed.
    #[test]
    fn faulty_target() {
        let (Ok(case), Some(corpus)) = (env::var(CASE), env::var_os(CORPUS)) else { return };
        run(corpus, &["bo", "om"], |input| {
            // Its result leads the way.
            let has = |word: &str| input.windows(word.len()).any(|part| part == word.as_bytes());
            if has("<boom") {
                match case.as_str() {
                    "panic" => panic!("found"),
                    "loop" => loop {
                        std::thread::park();
                    },
                    "memory" => drop(std::hint::black_box(vec![1_u8; 2 << 30])),
                    "depth" => _ = recurse(0),
                    _ => {}
                }
            }
            (has("<"), has("<bo"))
        });
    }

    #[test]
    fn input_that_fails_is_kept_with_the_command_that_repeats_it() {
        let corpus = temp_dir("corpus");
        fs::write(corpus.path().join("a"), "a < b").unwrap();
        let program = |case: &str| {
            let mut program = rerun(module_path!(), "faulty_target");
            program
                .env(CASE, case)
                .env(CORPUS, corpus.path())
                .env(watchdog::LIMIT, "2")
                .env_remove(watchdog::RUN)
                // A loaded machine takes more than a second to find the word.
                .env(SECONDS, if case == "none" { "1" } else { "60" })
                .env(SEED, "1");
            program
        };
        let output = |command: &mut Command| {
            let output = command.output().unwrap();
            (
                output.status.success(),
                String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(),
            )
        };
        for (case, sign) in [
            ("panic", "found"),
            ("loop", "still runs after 2 s"),
            ("memory", "memory allocation"),
            ("depth", "stack"),
        ] {
            let (passes, text) = output(&mut program(case));
            assert!(!passes && text.contains(sign), "{case}: {text}");
            let input = text.split_once(&format!("{INPUT}=\"")).and_then(|(_, rest)| rest.split('"').next());
            let input = input.unwrap_or_else(|| panic!("{case}: no input: {text}"));
            let kept = fs::read(input).unwrap();
            assert!(kept.windows(5).any(|part| part == b"<boom"), "{case}: {kept:?}");
            if case == "panic" {
                assert!(!output(program(case).env(INPUT, input)).0, "the input passes the second time");
            }
            fs::remove_file(input).unwrap();
        }
        let (passes, text) = output(&mut program("none"));
        assert!(passes && text.contains("inputs in"), "{text}");
    }
}
