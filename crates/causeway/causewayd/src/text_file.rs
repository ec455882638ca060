//! Files of text that others have written: none keeps the reader waiting, and none fills the memory.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Reads a regular file of so many bytes at most. A FIFO could wait for its writer for ever, and a device may have no end.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<String> {
    let invalid = |why| io::Error::new(io::ErrorKind::InvalidData, why);
    if !std::fs::metadata(path)?.is_file() {
        return Err(invalid("it is not a regular file".to_owned()));
    }
    let mut text = String::new();
    File::open(path)?.take(bytes_max + 1).read_to_string(&mut text)?;
    if text.len() as u64 > bytes_max {
        return Err(invalid(format!("it has more than {bytes_max} bytes")));
    }
    Ok(text)
}
