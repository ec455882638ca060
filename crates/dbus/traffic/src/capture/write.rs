//! Writes a pcap of link type 231 with times in nanoseconds, which dbus-monitor's readers, Wireshark and Bustle open.

use std::io::{self, Write};

use super::LINK_TYPE;
use causeway_dbus_wire::wire::MAX_MESSAGE_BYTES;

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
        let mut header = Vec::with_capacity(24);
        header.extend(0xA1B2_3C4D_u32.to_le_bytes());
        header.extend(2_u16.to_le_bytes());
        header.extend(4_u16.to_le_bytes());
        header.extend([0; 8]);
        header.extend((MAX_MESSAGE_BYTES as u32).to_le_bytes());
        header.extend(LINK_TYPE.to_le_bytes());
        out.write_all(&header)?;
        Ok(Writer { out })
    }

    /// Writes a message, or the beginning of one that had `original_bytes`.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&mut self, time_ns: u64, bytes: &[u8], original_bytes: usize) -> io::Result<()> {
        let number = |value: u64| u32::try_from(value).unwrap_or(u32::MAX).to_le_bytes();
        let mut header = [0; 16];
        header[..4].copy_from_slice(&number(time_ns / 1_000_000_000));
        header[4..8].copy_from_slice(&number(time_ns % 1_000_000_000));
        header[8..12].copy_from_slice(&number(bytes.len() as u64));
        header[12..].copy_from_slice(&number(original_bytes.max(bytes.len()) as u64));
        self.out.write_all(&header)?;
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
