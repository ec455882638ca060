//! Recording: the thread that reads the log.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use causeway_os::process::{block_signals, read_signal};

use crate::args::{RecordArguments, SchemaArgument};
use crate::channels::{Kinds, Naming, Schema};
use crate::failure::{Failure, Outcome};
use crate::ring::{Batch, Ring, Step};
use crate::source::{Filled, Source};
use crate::write::{Plan, Stopped, Written, write};

/// A batch that is not full is passed on after this time.
const BATCH_TIME: Duration = Duration::from_millis(20);
/// What is in the log when a recording is told to end is recorded; a group that never falls silent ends it after this time.
const LAST_LOOK: Duration = Duration::from_secs(1);
const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;

/// What was read.
#[derive(Clone, Copy, Debug, Default)]
struct Read {
    messages: u64,
    lost: u64,
}

/// Records until it is told to end, or its source ends.
pub fn record(arguments: &RecordArguments) -> Result<Outcome, Failure> {
    // Blocked before there is a second thread, which inherits that.
    let signals = block_signals(&[SIGINT, SIGTERM])?;
    let Some(path) = &arguments.output else { return Err(Failure::Usage("--output is missing".into())) };
    check_place(path)?;
    let schemas = arguments.schema.iter().map(schema).collect::<Result<_, _>>()?;
    let mut source = Source::open(arguments.socket.as_deref(), arguments.oldest)?;
    let mut about = source.about();
    about.insert(
        "socket".into(),
        arguments.socket.as_ref().map_or_else(String::new, |at| at.display().to_string()),
    );
    let naming = Naming { kinds: source.kinds(), schemas, has_twins: arguments.json };
    check_naming(&naming)?;
    let plan = Plan {
        path: path.clone(),
        naming,
        compression: arguments.compression,
        sync: arguments.sync,
        split: arguments.split,
        offset_ns: source.offset_ns(),
        about,
    };
    let ring = Ring::new(usize::try_from(arguments.ring).unwrap_or(usize::MAX));
    // Its other end is closed when the writing thread ends, however it does.
    let (ended, end) = io::pipe()?;
    let ((read, failed), (written, stopped)) = std::thread::scope(|scope| {
        let (plan, ring) = (&plan, &ring);
        let writer = scope.spawn(move || {
            let _end = (end, EndOfWriter(ring));
            write(plan, ring)
        });
        eprintln!("recording into {}; interrupt to end", path.display());
        let read = read_all(&mut source, ring, [signals.as_fd(), ended.as_fd()]);
        ring.end_of_reader();
        (read, writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    conclude(read, failed, written, stopped)
}

/// However the writing thread ends, nobody waits for it any more.
struct EndOfWriter<'a>(&'a Ring);

impl Drop for EndOfWriter<'_> {
    fn drop(&mut self) {
        self.0.end_of_writer();
    }
}

/// A mistake in the path is told before anything is joined.
fn check_place(path: &Path) -> Result<(), Failure> {
    if std::fs::metadata(path).is_ok_and(|found| found.is_file() || found.is_dir()) {
        let why = "it is there already, and no recording is replaced; choose another name";
        return Err(Failure::Usage(format!("{}: {why}", path.display())));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder {
        Some(folder) if !folder.is_dir() => {
            Err(Failure::Usage(format!("{} is not a folder; make it first", folder.display())))
        }
        _ => Ok(()),
    }
}

fn schema(of: &SchemaArgument) -> Result<(u32, (Schema, &'static str)), Failure> {
    let data = std::fs::read(&of.file).map_err(|error| {
        Failure::Usage(format!("{} is not read as a schema: {error}; name a file that is", of.file.display()))
    })?;
    let schema = Schema { name: of.name.clone().into(), encoding: of.kind.schema, data: data.into() };
    Ok((of.topic, (schema, of.kind.message)))
}

/// Is what was asked for possible with such a source?
fn check_naming(naming: &Naming) -> Result<(), Failure> {
    let why = match naming.kinds {
        Kinds::Group if naming.has_twins => {
            "--json is for a bus: what payloads of a group mean only their schema says; use --schema"
        }
        Kinds::Bus if !naming.schemas.is_empty() => {
            "--schema is for topics of a group: messages of a bus say their types themselves; use --json"
        }
        _ => return Ok(()),
    };
    Err(Failure::Usage(why.into()))
}

/// Reads until the end, and says what was read and what failed.
fn read_all(source: &mut Source, ring: &Ring, others: [BorrowedFd<'_>; 2]) -> (Read, Option<Failure>) {
    let (mut read, mut batch) = (Read::default(), Batch::default());
    let mut begun = None;
    let mut last_look: Option<Instant> = None;
    loop {
        let before = batch.steps.len();
        let filled = match source.fill(&mut batch) {
            Ok(filled) => filled,
            Err(failure) => {
                read.add(&batch);
                let _ = ring.push(batch);
                return (read, Some(failure));
            }
        };
        let found = batch.steps.len() - before;
        if !batch.is_empty() {
            begun.get_or_insert_with(Instant::now);
        }
        let is_last = filled == Filled::Ended
            || last_look.is_some_and(|end| filled == Filled::Empty || Instant::now() >= end);
        let is_due = begun.is_some_and(|begun| begun.elapsed() >= BATCH_TIME);
        if !batch.is_empty() && (filled == Filled::Full || is_due || is_last) {
            begun = None;
            read.add(&batch);
            match ring.push(batch) {
                Some(empty) => batch = empty,
                // Why, the writing thread says.
                None => return (read, None),
            }
        }
        if is_last {
            return (read, None);
        }
        if filled == Filled::Full || last_look.is_some() {
            if last_look.is_none() && matches!(read_signal(others[0]), Ok(Some(_))) {
                last_look = Some(Instant::now() + LAST_LOOK);
            }
            continue;
        }
        let timeout = begun.map(|begun: Instant| BATCH_TIME.saturating_sub(begun.elapsed()));
        match source.wait(&others, found, timeout) {
            Ok([_, true]) => return (read, None),
            Ok([true, _]) => last_look = Some(Instant::now() + LAST_LOOK),
            Ok(_) => {}
            Err(failure) => return (read, Some(failure)),
        }
    }
}

impl Read {
    fn add(&mut self, batch: &Batch) {
        for step in &batch.steps {
            match step {
                Step::Message { .. } => self.messages += 1,
                Step::Lost { messages, .. } => self.lost += messages,
                Step::Clock { .. } => {}
            }
        }
    }
}

/// Says what is in the files, and what is not.
fn conclude(
    read: Read,
    failed: Option<Failure>,
    written: Written,
    stopped: Option<Stopped>,
) -> Result<Outcome, Failure> {
    let Written { messages, header_only, files } = written;
    let unwritten = read.messages - messages;
    if let Some(Stopped { path, error }) = stopped {
        let why = format!(
            "{error}: the recording has ended; {messages} messages are recorded and can be read, {unwritten} that came last are not; \
             record on into another file, where there is space"
        );
        return Err(Failure::on(&path, why));
    }
    let files = if files == 1 { String::new() } else { format!(" in {files} files") };
    let long = if header_only == 0 { String::new() } else { format!(", of {header_only} only the header") };
    eprintln!("causeway-record: {messages} messages recorded{files}{long}, {} lost", read.lost);
    failed.map_or(Ok(Outcome::of(read.lost > 0)), Err)
}
