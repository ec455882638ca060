//! The folder for records of a plan: what earlier attempts have left there, and a place for the next one.
//!
//! A record is of one attempt and is never changed after it. Two processes that carry out the same part at the same time on one machine would
//! disturb each other and measure everything twice, so the second is sent away; a lock on a file of the folder says so, and the kernel releases
//! it however its holder ends.

use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use weighbridge_record::plan::Plan;
use weighbridge_record::{CaseId, End, Ending, Header, Line, Skipped, Writer, outcomes};

use crate::destination::Destination;
use crate::values::Page;
use crate::{Failure, identity, output, store};

/// The folder, locked for a part of a plan on this machine in this boot.
pub struct Spool {
    folder: PathBuf,
    /// Beginning of the names of records of this part, machine and boot.
    stem: String,
    /// Cases that have their figure, by this program, on this machine, in this boot.
    finished: BTreeSet<CaseId>,
    /// Attempts until now.
    attempts: u32,
    /// A record of a machine of this name that ran at the same time in another boot.
    clone_of_this: Option<PathBuf>,
    /// Until the end of the attempt.
    _lock: Lock,
}

impl Spool {
    /// Makes the folder where there is none, and reads what is in it. `header` is that of the next record.
    pub fn open(folder: &Path, plan: &Plan, header: &Header) -> Result<Spool, Failure> {
        let cannot = |what: &str, error: io::Error| {
            Failure::new(format!("{what} `{}` cannot be used: {error}", folder.display()))
        };
        std::fs::create_dir_all(folder).map_err(|error| cannot("the folder for records", error))?;
        let stem = stem(header);
        let lock = Lock::take(&folder.join(format!(".{stem}.lock")))
            .map_err(|error| cannot("the lock of the folder", error))?;
        let Some(lock) = lock else {
            return Err(Failure::new(format!(
                "this part of the plan is being measured on this machine already, into `{}`; it is enough to wait for that",
                folder.display()
            )));
        };
        let (finished, attempts, clone_of_this) = (BTreeSet::new(), 0, None);
        let mut spool = Spool { folder: folder.into(), stem, finished, attempts, clone_of_this, _lock: lock };
        let (entries, others) =
            store::entries(folder).map_err(|error| cannot("the folder for records", error))?;
        for other in others.iter().filter(|other| is_of(&other.path, &plan.plan_id)) {
            // What cannot be read was finished or not; to measure it again would be wrong in one of both.
            if other.why.starts_with("was written with schema") {
                return Err(Failure::mistake(format!("`{}` {}", other.path.display(), other.why)));
            }
            output::warn(&format!("`{}` {}; left out", other.path.display(), other.why));
        }
        for entry in
            entries.iter().filter(|entry| entry.header.provenance.plan_id.as_deref() == Some(&plan.plan_id))
        {
            spool.add(&entry.path, &entry.header, header)?;
        }
        Ok(spool)
    }

    fn add(&mut self, path: &Path, of: &Header, now: &Header) -> Result<(), Failure> {
        let machine = |header: &Header| header.identity.as_ref().map(|identity| identity.machine.clone());
        if machine(of) != machine(now) {
            return Ok(());
        }
        if of.machine.boot_id != now.machine.boot_id {
            let booted = now.identity.as_ref().and_then(|identity| identity.booted.as_deref());
            // A machine that has been booted since runs nothing in the boot before.
            if booted.is_some_and(|booted| of.started.as_str() > booted) {
                self.clone_of_this = Some(path.into());
            }
            return Ok(());
        }
        let part = |header: &Header| (header.provenance.shard, header.provenance.shards);
        self.attempts += u32::from(part(of) == part(now));
        // Another build may measure something else, and where boots cannot be told apart none is known to be this one.
        if of.tool != now.tool || now.machine.boot_id.is_none() {
            return Ok(());
        }
        let reading = weighbridge_record::read_file(path)
            .map_err(|error| Failure::new(format!("`{}` cannot be read: {error}", path.display())))?;
        for problem in reading.problems.iter().filter(|problem| !problem.is_cut()) {
            output::warn(&format!("`{}`, {problem}; left out", path.display()));
        }
        let measured = outcomes(&reading, &[]).into_iter().filter(|of| of.outcome == Ending::Measured);
        self.finished.extend(measured.map(|outcome| outcome.case));
        Ok(())
    }

    /// Cases that need not be measured again in this boot.
    pub fn finished(&self) -> &BTreeSet<CaseId> {
        &self.finished
    }

    /// A record of a machine that has the name of this one and is another.
    pub fn clone_of_this(&self) -> Option<&Path> {
        self.clone_of_this.as_deref()
    }

    /// The next record, and the number of its attempt.
    pub fn create(&self) -> Result<(Destination, u32), Failure> {
        let (record, writer, attempt) = self.next()?;
        Ok((Destination { record, writer, page: Some(Page::None), is_in_store: false }, attempt))
    }

    fn next(&self) -> Result<(PathBuf, Writer, u32), Failure> {
        for attempt in self.attempts.. {
            let path = self.folder.join(format!("{}-{attempt}.jsonl", self.stem));
            match Writer::create(&path) {
                Ok(writer) => return Ok((path, writer, attempt)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(Failure::new(format!("cannot create `{}`: {error}", path.display())));
                }
            }
        }
        unreachable!("numbers have no end")
    }

    /// Keeps a record of a machine on which nothing of the plan can be measured: without it, a fleet would not know why the machine is missing.
    pub fn refuse(&self, mut header: Header, skipped: &[Skipped]) -> Result<(), Failure> {
        let (path, mut writer, attempt) = self.next()?;
        header.provenance.attempt = Some(attempt);
        let lines: Vec<Line> = std::iter::once(Line::Header(Box::new(header)))
            .chain(skipped.iter().cloned().map(Line::Skipped))
            .collect();
        let reading = weighbridge_record::Reading { lines, problems: Vec::new() };
        let told = outcomes(&reading, &[]).into_iter().map(Line::Outcome);
        let all = reading.lines.iter().cloned().chain(told);
        all.chain([Line::End(End { complete: true, elapsed_s: 0.0 })])
            .try_for_each(|line| writer.write(&line))
            .map_err(|error| Failure::new(format!("cannot write to `{}`: {error}", path.display())))
    }
}

/// Names of records of one part of a plan, on one machine, in one boot: all begin so.
fn stem(header: &Header) -> String {
    const DIGITS: usize = 8;
    let of = &header.provenance;
    let part = of.shard.zip(of.shards).map(|(shard, shards)| format!("-{shard}of{shards}"));
    let machine = header.identity.as_ref().map_or("", |identity| &identity.machine);
    let boot = header.machine.boot_id.as_deref().unwrap_or("unknown");
    let boot = &boot[..boot.len().min(DIGITS)];
    let plan = of.plan_id.as_deref().unwrap_or_default();
    format!("{plan}{}-{}-{boot}", part.unwrap_or_default(), identity::in_file_name(machine))
}

/// Does a file have the name of a record of this plan?
fn is_of(path: &Path, plan_id: &str) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(plan_id))
}

/// A file that is locked while it is open. Its holder takes it away at its end; what is left by one that was killed locks nothing.
struct Lock {
    path: PathBuf,
    _file: File,
}

impl Lock {
    /// Nothing where another process has it.
    fn take(path: &Path) -> io::Result<Option<Lock>> {
        loop {
            let file = File::options().create(true).truncate(false).write(true).open(path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                    output::warn(&format!(
                        "`{}` cannot be locked ({error}); do not start this part of the plan twice at a time",
                        path.display()
                    ));
                }
                Err(TryLockError::Error(error)) => return Err(error),
            }
            // The one before may have taken it away meanwhile: then this is no longer the file of that name.
            let is_same = |there: std::fs::Metadata, here: std::fs::Metadata| {
                (there.dev(), there.ino()) == (here.dev(), here.ino())
            };
            if std::fs::metadata(path)
                .is_ok_and(|there| file.metadata().is_ok_and(|here| is_same(there, here)))
            {
                return Ok(Some(Lock { path: path.into(), _file: file }));
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // While it is still locked, so that nobody else holds it.
        let _ = std::fs::remove_file(&self.path);
    }
}
