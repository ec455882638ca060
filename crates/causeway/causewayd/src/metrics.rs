//! Metrics for those who look after the bus, in the text format of OpenMetrics 1.0: at a socket, or in a file.
//!
//! A thread of its own answers and writes. It asks the loop for a [`Snapshot`], which that makes in slices of its
//! turns; all else (text, files of the kernel, slow readers) keeps nobody waiting.

mod text;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use causeway_os::lock::lock;
use causeway_os::process;
use rustix::event::{EventfdFlags, eventfd};

use crate::listen::{ACCEPT_PAUSE, Listener, new_guid};
use crate::log::log;
use crate::report::{BusNumber, Line};
use text::Identities;

/// How often a file is written.
const EVERY: Duration = Duration::from_secs(5);
/// How long a reader of the socket has for all: one after the other is served.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest request.
const REQUEST_BYTES: usize = 8192;
/// As much of an answer is written at once: the kernel waits anew for each buffer of a longer write, and so for ever
/// for one who takes a little.
const PIECE_BYTES: usize = 16 << 10;

/// Where metrics are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// At a socket with this path, by HTTP.
    Socket(PathBuf),
    /// In this file, which is replaced every five seconds.
    File(PathBuf),
}

impl Endpoint {
    /// `unix:PATH` is a socket, all else a file.
    pub fn of(text: &str) -> Endpoint {
        match text.strip_prefix("unix:") {
            Some(path) => Endpoint::Socket(path.into()),
            None => Endpoint::File(text.into()),
        }
    }
}

/// The bus at one moment.
#[derive(Debug)]
pub struct Snapshot {
    pub lines: Vec<Line>,
    /// Numbers of the bus as a whole.
    pub bus: Vec<BusNumber>,
    /// Connections that the bus has ended, by the reason.
    pub evictions: BTreeMap<&'static str, u64>,
    /// Entries of the order log that somebody may still have to read, and how many it holds.
    pub fill: Option<(u64, u64)>,
}

/// The loop's end of it. Dropped, it removes what was made.
#[derive(Debug)]
pub struct Metrics {
    exchange: Arc<Exchange>,
    endpoint: Endpoint,
    listener: Option<Listener>,
}

/// What loop and thread share.
#[derive(Debug)]
struct Exchange {
    /// Readable when a snapshot is wanted.
    wanted: OwnedFd,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    snapshot: Option<Snapshot>,
    has_ended: bool,
    /// Is the file gone that the thread has written?
    is_removed: bool,
}

impl Exchange {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// A snapshot as of now; nothing if the loop makes none in time.
    fn ask(&self) -> Option<Snapshot> {
        self.lock().snapshot = None;
        rustix::io::write(&self.wanted, &1u64.to_ne_bytes()).ok()?;
        let is_missing = |state: &mut State| state.snapshot.is_none() && !state.has_ended;
        let waited = self.changed.wait_timeout_while(self.lock(), PATIENCE, is_missing);
        waited.unwrap_or_else(PoisonError::into_inner).0.snapshot.take()
    }
}

impl Metrics {
    /// Serves metrics from now on.
    ///
    /// # Errors
    /// In a sentence: the socket cannot be made, the file's folder is not there, or the kernel has no thread or
    /// descriptor left.
    pub fn serve(endpoint: Endpoint) -> Result<Metrics, String> {
        let (Endpoint::Socket(path) | Endpoint::File(path)) = &endpoint;
        let failed =
            |error: &dyn std::fmt::Display| format!("cannot serve metrics at {}: {error}", path.display());
        let wanted =
            eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|error| failed(&error))?;
        let exchange = Arc::new(Exchange { wanted, state: Mutex::default(), changed: Condvar::new() });
        let shared = Arc::clone(&exchange);
        let (work, listener): (Box<dyn FnOnce() + Send>, _) = match &endpoint {
            Endpoint::Socket(path) => {
                // Nobody is asked who he is, and one reader keeps the next waiting.
                let listener = Listener::for_owner(path).map_err(|why| failed(&why))?;
                let copy = listener.as_fd().try_clone_to_owned().map_err(|error| failed(&error))?;
                (Box::new(move || answer_all(&shared, &UnixListener::from(copy))), Some(listener))
            }
            Endpoint::File(path) => {
                let path = std::path::absolute(path).map_err(|error| failed(&error))?;
                // What cannot be written is said now, and not to the log in five seconds.
                write_file(&path, text::EMPTY).map_err(|error| failed(&error))?;
                (Box::new(move || write_all(&shared, &path)), None)
            }
        };
        let thread = thread::Builder::new().name("metrics".into());
        process::without_signals(|| thread.spawn(work)).map_err(|error| failed(&error))?;
        Ok(Metrics { exchange, endpoint, listener })
    }

    /// Is a snapshot wanted since this was last asked?
    pub fn is_wanted(&self) -> bool {
        rustix::io::read(&self.exchange.wanted, &mut [0; 8]).is_ok()
    }

    /// Hands a snapshot over.
    pub fn give(&self, snapshot: Snapshot) {
        self.exchange.lock().snapshot = Some(snapshot);
        self.exchange.changed.notify_all();
    }
}

impl AsFd for Metrics {
    /// Readable when a snapshot is wanted.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.exchange.wanted.as_fd()
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        self.exchange.lock().has_ended = true;
        self.exchange.changed.notify_all();
        match (&self.endpoint, &self.listener) {
            (_, Some(listener)) => drop(rustix::net::shutdown(listener, rustix::net::Shutdown::Both)),
            (Endpoint::File(path), _) => {
                // Its file system may not answer.
                let is_there = |state: &mut State| !state.is_removed;
                let waited =
                    self.exchange.changed.wait_timeout_while(self.exchange.lock(), PATIENCE, is_there);
                if !waited.unwrap_or_else(PoisonError::into_inner).0.is_removed {
                    log(&format!("the metrics in {} may stay: it cannot be written now", path.display()));
                }
            }
            _ => {}
        }
    }
}

/// Writes the file until the bus ends, and removes it then: numbers of a bus that has ended would be taken for those of
/// one that runs.
///
/// Nothing is locked meanwhile, because writing may take as long as the file system does not answer.
fn write_all(exchange: &Exchange, path: &Path) {
    let (mut identities, mut has_failed, mut has_ended) = (Identities::default(), false, false);
    while !has_ended {
        if let Some(snapshot) = exchange.ask() {
            let written = write_file(path, &text::render(&snapshot, &mut identities));
            if let Err(error) = &written
                && !has_failed
            {
                log(&format!("cannot write metrics into {}: {error}", path.display()));
            }
            has_failed = written.is_err();
        }
        let is_running = |state: &mut State| !state.has_ended;
        let waited = exchange.changed.wait_timeout_while(exchange.lock(), EVERY, is_running);
        has_ended = waited.unwrap_or_else(PoisonError::into_inner).0.has_ended;
    }
    let _ = fs::remove_file(path);
    exchange.lock().is_removed = true;
    exchange.changed.notify_all();
}

/// Replaces a file: who reads it sees the old or the new one. The new one is made here, also in a folder into which
/// others write: it has a name that nobody knows before, and leads nowhere.
fn write_file(path: &Path, text: &str) -> std::io::Result<()> {
    let mut next = path.as_os_str().to_owned();
    next.push(format!(".{}", new_guid()));
    let mut file = File::create_new(&next)?;
    let replaced = file.write_all(text.as_bytes()).and_then(|()| fs::rename(&next, path));
    replaced.inspect_err(|_| drop(fs::remove_file(&next)))
}

/// Answers one reader after the other, until the bus ends.
fn answer_all(exchange: &Exchange, listener: &UnixListener) {
    let mut identities = Identities::default();
    loop {
        let ready = process::poll(&[listener.as_fd()], None);
        if exchange.lock().has_ended {
            return;
        }
        match listener.accept() {
            // One that goes away or waits too long has its own loss.
            Ok((stream, _)) => drop(answer(exchange, stream, &mut identities)),
            Err(error) if ready.is_ok() && error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => thread::sleep(ACCEPT_PAUSE),
        }
    }
}

/// Reads a request: until it is whole, is as long as one may be, or no more comes. Nothing if no time is left before:
/// one that sends a byte now and then has no more of it than others.
fn read_request(
    left: impl Fn() -> Option<Duration>,
    mut read_within: impl FnMut(Duration, &mut [u8]) -> std::io::Result<usize>,
) -> std::io::Result<Option<Vec<u8>>> {
    let (mut request, mut buffer) = (Vec::new(), [0; 1024]);
    let is_whole = |request: &[u8]| request.windows(4).any(|end| end == b"\r\n\r\n");
    while !is_whole(&request) && request.len() < REQUEST_BYTES {
        let Some(left) = left() else { return Ok(None) };
        match read_within(left, &mut buffer)? {
            0 => break,
            count => request.extend_from_slice(&buffer[..count]),
        }
    }
    Ok(Some(request))
}

/// Is it the path of metrics, or none?
fn is_for_metrics(request: &[u8]) -> bool {
    let target = request.split(|byte| byte.is_ascii_whitespace()).nth(1).unwrap_or_default();
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    matches!(path, b"/" | b"/metrics")
}

fn answer(exchange: &Exchange, mut stream: UnixStream, identities: &mut Identities) -> std::io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let left = || deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
    let request = read_request(left, |left, buffer| {
        stream.set_read_timeout(Some(left))?;
        stream.read(buffer)
    })?;
    let Some(request) = request else { return Ok(()) };
    let (status, text) = if !request.starts_with(b"GET ") {
        ("405 Method Not Allowed", "only GET is answered\n".to_owned())
    } else if !is_for_metrics(&request) {
        ("404 Not Found", "metrics are at /metrics\n".to_owned())
    } else if let Some(snapshot) = exchange.ask() {
        ("200 OK", text::render(&snapshot, identities))
    } else {
        ("503 Service Unavailable", "the bus does not answer\n".to_owned())
    };
    let (kind, bytes) = (if status.starts_with('2') { text::CONTENT_TYPE } else { "text/plain" }, text.len());
    let head = format!(
        "HTTP/1.0 {status}\r\nContent-Type: {kind}\r\nContent-Length: {bytes}\r\nConnection: close\r\n\r\n"
    );
    let answer = [head.as_bytes(), text.as_bytes()].concat();
    let mut rest = &answer[..];
    while let Some(left) = left().filter(|_| !rest.is_empty()) {
        stream.set_write_timeout(Some(left))?;
        rest = &rest[stream.write(&rest[..rest.len().min(PIECE_BYTES)])?..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    const WAIT: Duration = Duration::from_secs(60);
    /// Between two steps of a reader that is slow: far shorter than any wait of the thread that answers.
    const PAUSE: Duration = Duration::from_millis(1);
    /// Makes an answer of so many bytes, which no socket holds.
    static LONG: LazyLock<String> = LazyLock::new(|| "x".repeat(16 << 20));

    /// The kernel counts in ticks, and what comes in the last of them still comes in time.
    const TICK: Duration = Duration::from_millis(4);

    #[test]
    fn one_whose_next_byte_always_comes_just_in_time_is_left_at_the_deadline() {
        let passed = Cell::new(Duration::ZERO);
        let left = || PATIENCE.checked_sub(passed.get()).filter(|left| !left.is_zero());
        let mut waits = Vec::new();
        let request = read_request(left, |wait, buffer| {
            waits.push(wait);
            passed.set(passed.get() + (wait / 2).max(TICK));
            buffer[0] = b'x';
            Ok(1)
        });
        assert!(request.unwrap().is_none(), "it is answered after {:?}", passed.get());
        assert!(passed.get() < PATIENCE + TICK, "it was waited for until {:?}", passed.get());
        assert!(waits.is_sorted_by(|earlier, later| earlier > later), "waits that get no shorter: {waits:?}");
    }

    #[test]
    fn a_request_is_read_until_its_end_or_the_end_of_all_or_the_most_that_one_may_have() {
        let long = vec![b'x'; 2 * REQUEST_BYTES];
        let cases: [(&[&[u8]], usize); 3] = [
            (&[b"GET / HTTP/1.0\r", b"\n\r", b"\n", b"of another"], 18),
            (&[b"GET / HTTP/1.0\r\n"], 16),
            (&[&long], REQUEST_BYTES),
        ];
        for (pieces, bytes) in cases {
            let mut pieces = pieces.iter().copied();
            let mut piece: &[u8] = &[];
            let request = read_request(
                || Some(PATIENCE),
                |_, buffer| {
                    piece = if piece.is_empty() { pieces.next().unwrap_or_default() } else { piece };
                    piece.read(buffer)
                },
            );
            assert_eq!(request.unwrap().unwrap().len(), bytes);
        }
    }

    fn connect(path: &Path) -> UnixStream {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(WAIT)).unwrap();
        stream
    }

    fn ask(path: &Path) -> UnixStream {
        let mut stream = connect(path);
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        stream
    }

    /// How many bytes of an answer come to a reader that takes some, does something else, and takes more.
    fn taken(stream: &mut UnixStream) -> usize {
        let mut buffer = [0; 4096];
        let mut bytes = 0;
        loop {
            match stream.read(&mut buffer).expect("the answer neither goes on nor ends") {
                0 => return bytes,
                count => bytes += count,
            }
            thread::sleep(PAUSE);
        }
    }

    /// Ends the thread of a test, also of one that fails.
    struct OnDrop<'a>(&'a AtomicBool);

    impl Drop for OnDrop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// What the next in the queue gets, while those before it are in no hurry.
    fn first_line_for_the_next(path: &Path, slow: Receiver<()>) {
        slow.recv().unwrap();
        let mut next = ask(path);
        let mut start = [0; 15];
        next.read_exact(&mut start).expect("the next reader is kept waiting");
        assert_eq!(start, *b"HTTP/1.0 200 OK");
    }

    /// However many small steps they make, all of them together have their time, and then the next has its own.
    #[test]
    fn readers_that_send_or_take_little_at_a_time_or_nothing_are_left_after_their_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics");
        let metrics = Metrics::serve(Endpoint::Socket(path.clone())).unwrap();
        let (is_over, path) = (AtomicBool::new(false), &path);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    process::poll(&[metrics.as_fd()], Some(PAUSE * 100)).unwrap();
                    if metrics.is_wanted() {
                        let evictions = BTreeMap::from([(LONG.as_str(), 1)]);
                        metrics.give(Snapshot { lines: vec![], bus: vec![], evictions, fill: None });
                    }
                }
            });
            let _over = OnDrop(&is_over);
            // The request comes byte by byte: all of it would take many times the time that all have.
            let (begins, has_begun) = channel();
            let sending = scope.spawn(move || {
                let mut stream = connect(path);
                begins.send(()).unwrap();
                let is_taken = |_: &usize| {
                    thread::sleep(PAUSE * 5);
                    stream.write_all(b"x").is_ok()
                };
                (0..REQUEST_BYTES).take_while(is_taken).count()
            });
            first_line_for_the_next(path, has_begun);
            let bytes = sending.join().unwrap();
            assert!(bytes < REQUEST_BYTES, "it was waited for until its request was long enough");
            // The answer is taken bit by bit.
            let (begins, has_begun) = channel();
            let taking = scope.spawn(move || {
                let mut stream = ask(path);
                begins.send(()).unwrap();
                taken(&mut stream)
            });
            first_line_for_the_next(path, has_begun);
            let bytes = taking.join().unwrap();
            assert!((1..LONG.len()).contains(&bytes), "it was given {bytes} bytes of {}", LONG.len());
            // It is not taken.
            let silent = ask(path);
            let (begins, has_begun) = channel();
            begins.send(()).unwrap();
            first_line_for_the_next(path, has_begun);
            drop(silent);
        });
    }
}
