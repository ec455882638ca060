//! The contents of a chunk, of which nothing is believed before its checksum is.

use std::borrow::Cow;
use std::io::Read;

use mcap::records::{ChunkHeader, Record, op};

use crate::records::RECORD_BYTES_MAX;

/// A chunk that was read.
pub struct Chunk<'a> {
    pub header: ChunkHeader,
    /// Its records.
    pub contents: Cow<'a, [u8]>,
}

impl Chunk<'_> {
    /// Takes the contents out of a record.
    pub fn open(body: &[u8]) -> Result<Chunk<'_>, String> {
        let Ok(Record::Chunk { header, data: Cow::Borrowed(data) }) = mcap::parse_record(op::CHUNK, body)
        else {
            return Err("its fields are invalid".into());
        };
        let contents = match header.compression.as_str() {
            "" => Cow::Borrowed(data),
            "lz4" => Cow::Owned(decompressed(data, header.uncompressed_size)?),
            other => {
                return Err(format!(
                    "it is compressed with `{other}`, and causeway-record reads lz4; `mcap decompress FILE -o COPY` makes a copy that it reads"
                ));
            }
        };
        if contents.len() as u64 != header.uncompressed_size {
            return Err(format!(
                "uncompressed_size is {}, and its contents have {}",
                header.uncompressed_size,
                contents.len()
            ));
        }
        let checksum = crc32fast::hash(&contents);
        if header.uncompressed_crc != 0 && header.uncompressed_crc != checksum {
            return Err(format!(
                "uncompressed_crc is {:08x}, and its contents have {checksum:08x}",
                header.uncompressed_crc
            ));
        }
        Ok(Chunk { header, contents })
    }
}

/// All frames of `data`, up to one byte more than expected.
fn decompressed(mut data: &[u8], bytes: u64) -> Result<Vec<u8>, String> {
    if bytes > RECORD_BYTES_MAX {
        return Err(format!("uncompressed_size is {bytes}, above the limit of {RECORD_BYTES_MAX}"));
    }
    let invalid = |error: std::io::Error| format!("its compressed contents are invalid: {error}");
    let mut contents = Vec::new();
    while !data.is_empty() && contents.len() as u64 <= bytes {
        let mut decoder = lz4::Decoder::new(data).map_err(invalid)?;
        let left = bytes + 1 - contents.len() as u64;
        (&mut decoder).take(left).read_to_end(&mut contents).map_err(invalid)?;
        let (rest, is_whole) = decoder.finish();
        if is_whole.is_err() && contents.len() as u64 <= bytes {
            return Err("its compressed contents end early".into());
        }
        data = rest;
    }
    Ok(contents)
}
