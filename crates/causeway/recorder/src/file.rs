//! The file that is written: whole chunks at a time, with space kept for its end.
//!
//! What stands between two calls of `flush` is written with one call, so that a kill leaves whole chunks and at most one part of
//! one behind them. Space on the disk is allocated before a chunk begins, and with it what the index at the end of
//! the file takes: a full disk ends a recording with a file that is complete. Where the file system cannot allocate, a
//! failed write is cut off, and only the index is missing.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// Space is allocated in steps: a call for each chunk of a slow recording would cost more than it is worth.
const STEP_BYTES: u64 = 1 << 20;

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    file: File,
    pending: Vec<u8>,
    written: u64,
    allocated: u64,
    can_allocate: bool,
    sync: bool,
    has_failed: bool,
}

/// Shared with the MCAP writer, which owns its output.
#[derive(Clone, Debug)]
pub struct Output(Rc<RefCell<Inner>>);

/// Opens a file that was not there, for this user alone.
fn open(path: &Path) -> io::Result<File> {
    let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match created {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let kind = std::fs::metadata(path)?.file_type();
            if kind.is_char_device() || kind.is_fifo() {
                return OpenOptions::new().write(true).open(path);
            }
            Err(io::Error::new(
                error.kind(),
                "it is there already, and no recording is replaced; choose another name",
            ))
        }
        decided => decided,
    }
}

impl Output {
    pub fn create(path: &Path, sync: bool) -> io::Result<Output> {
        Ok(Output(Rc::new(RefCell::new(Inner {
            path: path.to_owned(),
            file: open(path)?,
            pending: Vec::new(),
            written: 0,
            allocated: 0,
            can_allocate: true,
            sync,
            has_failed: false,
        }))))
    }

    pub fn path(&self) -> PathBuf {
        self.0.borrow().path.clone()
    }

    /// Bytes that are in the file.
    pub fn written(&self) -> u64 {
        self.0.borrow().written
    }

    /// Sees to it that so many bytes can be written behind what is written.
    ///
    /// # Errors
    /// The disk is full, or the file may not become so long. Nothing has changed then.
    pub fn ensure(&self, bytes: u64) -> io::Result<()> {
        self.0.borrow_mut().ensure(bytes)
    }

    /// Gives back what was allocated and not used.
    pub fn close(&self) -> io::Result<()> {
        let inner = &mut *self.0.borrow_mut();
        if inner.can_allocate && inner.allocated > inner.written {
            inner.file.set_len(inner.written)?;
        }
        if inner.sync { inner.file.sync_all() } else { Ok(()) }
    }
}

impl Inner {
    fn ensure(&mut self, bytes: u64) -> io::Result<()> {
        let end = self.written + bytes;
        if end <= self.allocated || !self.can_allocate {
            return Ok(());
        }
        // A write beyond it would end this process by a signal.
        if getrlimit(Resource::Fsize).current.is_some_and(|most| end > most) {
            return Err(Errno::FBIG.into());
        }
        let step = end.next_multiple_of(STEP_BYTES);
        for end in [step, end] {
            let more = (self.allocated, end - self.allocated);
            match fallocate(&self.file, FallocateFlags::KEEP_SIZE, more.0, more.1) {
                Ok(()) => {
                    self.allocated = end;
                    return Ok(());
                }
                Err(Errno::NOSPC | Errno::DQUOT | Errno::FBIG)
                    if end == step && step != self.written + bytes => {}
                Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG | Errno::IO)) => {
                    return Err(error.into());
                }
                Err(_) => {
                    self.can_allocate = false;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn commit(&mut self) -> io::Result<()> {
        if self.has_failed {
            return Err(io::Error::other("an earlier write has failed"));
        }
        let done = self.file.write_all(&self.pending).and_then(|()| {
            // What a device makes of it is not known here.
            if self.sync { self.file.sync_data().or_else(ignore_unsupported) } else { Ok(()) }
        });
        if done.is_err() {
            self.has_failed = true;
            let _ = self.file.set_len(self.written);
        } else {
            self.written += self.pending.len() as u64;
        }
        self.pending.clear();
        done
    }
}

fn ignore_unsupported(error: io::Error) -> io::Result<()> {
    if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) { Ok(()) } else { Err(error) }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().pending.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.borrow_mut().commit()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    #[test]
    fn a_file_is_for_its_user_alone_and_no_recording_is_replaced() {
        let folder = causeway_testkit::temp_dir("recorder");
        let path = folder.path().join("file");
        let mut output = Output::create(&path, true).unwrap();
        output.ensure(5000).unwrap();
        output.write_all(b"whole").unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0, "nothing is written before it is whole");
        output.flush().unwrap();
        output.close().unwrap();
        let is = std::fs::metadata(&path).unwrap();
        assert_eq!((is.permissions().mode() & 0o777, is.len(), output.written()), (0o600, 5, 5));
        assert!(is.blocks() * 512 < 5000 || is.blksize() > 5000, "{} blocks are kept", is.blocks());
        assert!(Output::create(&path, false).unwrap_err().to_string().contains("choose another name"));
        assert_eq!(std::fs::read(&path).unwrap(), b"whole");
    }
}
