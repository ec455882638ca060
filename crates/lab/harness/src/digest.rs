//! Whether a file is still the one that it was.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// 64 bits of FNV-1a over a file, as hexadecimal digits: tells builds apart that nobody made alike on purpose.
pub fn of_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let (mut hash, mut bytes) = (0xcbf2_9ce4_8422_2325_u64, vec![0; 1 << 16]);
    loop {
        let len = file.read(&mut bytes)?;
        if len == 0 {
            return Ok(format!("{hash:016x}"));
        }
        for byte in &bytes[..len] {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test vectors of `draft-eastlake-fnv`, appendix C.
    #[test]
    fn the_digest_is_fnv_1a() {
        let folder = causeway_testkit::temp_dir("digest");
        let path = folder.path().join("file");
        for (text, expected) in
            [("", "cbf29ce484222325"), ("a", "af63dc4c8601ec8c"), ("foobar", "85944171f73967e8")]
        {
            std::fs::write(&path, text).unwrap();
            assert_eq!(of_file(&path).unwrap(), expected, "{text}");
        }
    }
}
