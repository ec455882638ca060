//! Writes a pcap of link type 231 with times in nanoseconds, which dbus-monitor's readers, Wireshark and Bustle open.

use std::io::{self, Write};

use super::LINK_TYPE;
use causeway_dbus_wire::wire::MESSAGE_BYTES_MAX;

/// Writes packets one after the other.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
}

impl<W: Write> Writer<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn new(mut out: W) -> io::Result<Writer<W>> {
        const VERSION_2_4: u32 = 4 << 16 | 2;
        for number in [0xA1B2_3C4D, VERSION_2_4, 0, 0, MESSAGE_BYTES_MAX as u32, LINK_TYPE] {
            out.write_all(&number.to_le_bytes())?;
        }
        Ok(Writer { out })
    }

    /// Writes a message, or the beginning of one that had `original_bytes`.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&mut self, time_ns: u64, bytes: &[u8], original_bytes: usize) -> io::Result<()> {
        let original = original_bytes.max(bytes.len());
        for number in [time_ns / 1_000_000_000, time_ns % 1_000_000_000, bytes.len() as u64, original as u64]
        {
            self.out.write_all(&u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes())?;
        }
        self.out.write_all(bytes)
    }

    /// Writes what is buffered, so that another program can read it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Writes what is still buffered and returns the file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}
