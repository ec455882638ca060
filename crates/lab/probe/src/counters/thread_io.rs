//! What a thread reads and writes, as the kernel counts it: bytes and calls of `read`, `write` and their relatives, whatever they are about.

use std::fs::File;
use std::os::unix::fs::FileExt;

use serde::{Deserialize, Serialize};

use super::number_after;

/// Bytes and calls since the thread began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadIo {
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
    /// Calls that read, or would have.
    pub read_calls: u64,
    /// Calls that write, or would have.
    pub write_calls: u64,
}

impl ThreadIo {
    /// What was counted between `earlier` and this reading.
    pub fn since(&self, earlier: &ThreadIo) -> ThreadIo {
        ThreadIo {
            read_bytes: self.read_bytes - earlier.read_bytes,
            written_bytes: self.written_bytes - earlier.written_bytes,
            read_calls: self.read_calls - earlier.read_calls,
            write_calls: self.write_calls - earlier.write_calls,
        }
    }

    /// Both together.
    pub fn plus(&self, more: &ThreadIo) -> ThreadIo {
        ThreadIo {
            read_bytes: self.read_bytes + more.read_bytes,
            written_bytes: self.written_bytes + more.written_bytes,
            read_calls: self.read_calls + more.read_calls,
            write_calls: self.write_calls + more.write_calls,
        }
    }
}

/// Reads the counters of the thread that opened it. A reading is one system call, without an allocation, and is not in its own counts.
#[derive(Debug)]
pub struct ThreadIoReader {
    file: File,
    /// What earlier readings have added to the counts.
    own: ThreadIo,
}

impl ThreadIoReader {
    /// Of the calling thread; nothing where the kernel does not count (`CONFIG_TASK_XACCT`).
    pub fn open() -> Option<ThreadIoReader> {
        let mut reader =
            ThreadIoReader { file: File::open("/proc/thread-self/io").ok()?, own: ThreadIo::default() };
        reader.read().map(|_| reader)
    }

    /// The counts, without what the readings before have added. Nothing where they cannot be read.
    pub fn read(&mut self) -> Option<ThreadIo> {
        let mut text = [0; 512];
        let len = self.file.read_at(&mut text, 0).ok()?;
        let number = |name: &[u8]| number_after(&text[..len], name);
        let counts = ThreadIo {
            read_bytes: number(b"rchar")?,
            written_bytes: number(b"wchar")?,
            read_calls: number(b"syscr")?,
            write_calls: number(b"syscw")?,
        };
        let found = counts.since(&self.own);
        self.own.read_bytes += len as u64;
        self.own.read_calls += 1;
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Read, Write};

    use causeway_testkit::{Cause, skipped};

    use super::*;

    #[test]
    fn what_a_thread_reads_and_writes_is_counted_to_the_byte_and_the_readings_are_not() {
        let Some(mut counters) = ThreadIoReader::open() else {
            return skipped(Cause::Kernel("CONFIG_TASK_IO_ACCOUNTING"), "");
        };
        let (mut read, mut write) = io::pipe().unwrap();
        let before = counters.read().unwrap();
        for _ in 0..5 {
            write.write_all(&[7; 1000]).unwrap();
            read.read_exact(&mut [0; 1000]).unwrap();
            let _ = counters.read();
        }
        let counted = counters.read().unwrap().since(&before);
        let expected = ThreadIo { read_bytes: 5000, written_bytes: 5000, read_calls: 5, write_calls: 5 };
        assert_eq!(counted, expected);
    }
}
