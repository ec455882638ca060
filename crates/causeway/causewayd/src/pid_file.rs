//! The file with the number of the bus's process.

use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::log::log;

/// The longest number of a process, a line end, and one byte more.
const BYTES_MAX: u64 = 13;

/// A file with the number of this process, removed when dropped.
#[derive(Debug)]
pub struct PidFile(PathBuf);

impl PidFile {
    /// Makes it. One whose process is gone, as a bus leaves it that was killed or may not remove it, is taken over, where
    /// dbus-daemon asks its administrator to remove the file.
    ///
    /// # Errors
    /// In a sentence: another process has it, it is something else, or it cannot be written.
    pub fn write(path: PathBuf) -> Result<PidFile, String> {
        let cannot = |error: std::io::Error| format!("cannot write {}: {error}", path.display());
        let mut file = match File::options().read(true).write(true).create_new(true).open(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => left(&path)?,
            made => made.map_err(cannot)?,
        };
        writeln!(file, "{}", std::process::id()).map_err(cannot)?;
        Ok(PidFile(path))
    }
}

/// The file that a process has left, empty. Of several that find it one gets it: the others read its number, or wait for none.
fn left(path: &Path) -> Result<File, String> {
    let refused = |why: String| format!("the PID file {} exists, {why}", path.display());
    let remove = |why: &str| refused(format!("{why}; remove it if no bus runs"));
    if !std::fs::metadata(path).is_ok_and(|found| found.is_file()) {
        return Err(remove("and is no regular file"));
    }
    let mut file =
        File::options().read(true).write(true).open(path).map_err(|error| remove(&error.to_string()))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(remove("and another bus takes it at this moment")),
        Err(TryLockError::Error(error)) => return Err(remove(&error.to_string())),
    }
    let mut text = String::new();
    let read = (&file).take(BYTES_MAX).read_to_string(&mut text);
    let pid = read.ok().and_then(|_| text.trim().parse().ok()).filter(|pid| *pid > 0).and_then(Pid::from_raw);
    let Some(pid) = pid else { return Err(remove("and has no number of a process")) };
    // In a container the numbers begin anew, and the one before may have had this one.
    let is_gone = pid == rustix::process::getpid() || test_kill_process(pid) == Err(Errno::SRCH);
    if !is_gone {
        return Err(remove(&format!("and process {pid} runs")));
    }
    log(&format!("{} was left by process {pid}, which is gone; taking it over", path.display()));
    let emptied = file.set_len(0).and_then(|()| file.rewind());
    emptied.map_err(|error| remove(&error.to_string()))?;
    Ok(file)
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            let path = self.0.display();
            log(&format!("cannot remove {path}: {error}; the next bus takes it over, if it may write it"));
        }
    }
}
