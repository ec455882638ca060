//! What a guest answers over its second serial port.
//!
//! Lines of text, and after the last of them the bytes that it announces:
//!
//! ```text
//! weighbridge-guest up
//! weighbridge-guest failed SENTENCE
//! weighbridge-guest record BYTES CHECKSUM
//! …
//! ```
//!
//! A port has no end and no checksum of its own, and a broken guest may write anything to it.

const MARK: &str = "weighbridge-guest ";
/// No record of a guest is larger; a guest that announces more is broken.
pub const LARGEST: usize = 256 << 20;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The measurement is done, and this is its record.
    Record(Vec<u8>),
    /// It could not be done; why, in a sentence.
    Failed(String),
}

/// The line by which a guest says that our program runs there.
pub fn up() -> String {
    format!("{MARK}up\n")
}

/// An answer in the form of the port.
pub fn write(answer: &Answer) -> Vec<u8> {
    match answer {
        Answer::Failed(why) => format!("{MARK}failed {}\n", why.replace(['\n', '\r'], "; ")).into_bytes(),
        Answer::Record(bytes) => {
            let mut text = format!("{MARK}record {} {:016x}\n", bytes.len(), checksum(bytes)).into_bytes();
            text.extend(bytes);
            text
        }
    }
}

/// Reads what came over the port, as it comes.
#[derive(Debug, Default)]
pub struct Reader {
    bytes: Vec<u8>,
    is_up: bool,
    /// Length and checksum of the record that is on its way.
    announced: Option<(usize, u64)>,
}

impl Reader {
    /// Takes more bytes. The answer, once it is complete.
    ///
    /// # Errors
    /// What came is none, as the end of a sentence. Everything after it is lost.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Option<Answer>, String> {
        self.bytes.extend(bytes);
        while self.announced.is_none() {
            let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') else {
                return match self.bytes.len() {
                    0..4096 => Ok(None),
                    _ => Err(nonsense(&self.bytes)),
                };
            };
            let line: Vec<u8> = self.bytes.drain(..=end).collect();
            let text = String::from_utf8_lossy(&line);
            let Some(said) = text.trim_end().strip_prefix(MARK) else { return Err(nonsense(&line)) };
            match said.split_once(' ') {
                None if said == "up" => self.is_up = true,
                Some(("failed", why)) => return Ok(Some(Answer::Failed(why.into()))),
                Some(("record", rest)) => {
                    self.announced = Some(announced(rest).ok_or_else(|| nonsense(&line))?)
                }
                _ => return Err(nonsense(&line)),
            }
        }
        let Some((length, sum)) = self.announced.filter(|(length, _)| self.bytes.len() >= *length) else {
            return Ok(None);
        };
        self.bytes.truncate(length);
        let record = std::mem::take(&mut self.bytes);
        if checksum(&record) == sum {
            Ok(Some(Answer::Record(record)))
        } else {
            Err("the record arrived damaged".into())
        }
    }

    /// Did our program say that it runs in the guest?
    pub fn is_up(&self) -> bool {
        self.is_up
    }
}

fn announced(rest: &str) -> Option<(usize, u64)> {
    let (length, sum) = rest.split_once(' ')?;
    let length = length.parse().ok().filter(|length| *length <= LARGEST)?;
    Some((length, u64::from_str_radix(sum, 16).ok()?))
}

fn nonsense(bytes: &[u8]) -> String {
    let shown: String =
        String::from_utf8_lossy(bytes).chars().take(60).flat_map(char::escape_default).collect();
    format!("the guest wrote `{shown}` to its second serial port, which is not an answer of this program")
}

/// FNV-1a of 64 bits (Fowler, Noll, Vo): enough to notice lost and damaged bytes.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    let add = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_the_same_however_it_is_cut() {
        let record = Answer::Record((0..2000_u32).map(|i| (i % 256) as u8).collect());
        for answer in [record, Answer::Failed("no such case".into()), Answer::Record(Vec::new())] {
            let mut sent = up().into_bytes();
            sent.extend(write(&answer));
            for size in [1, 7, 1000, 10_000] {
                let mut reader = Reader::default();
                let mut answers: Vec<Answer> =
                    sent.chunks(size).filter_map(|chunk| reader.push(chunk).unwrap()).collect();
                assert_eq!(answers.pop(), Some(answer.clone()), "in chunks of {size}");
                assert!(answers.is_empty() && reader.is_up());
            }
        }
    }

    #[test]
    fn nonsense_and_damage_are_told() {
        let told = |bytes: &[u8]| Reader::default().push(bytes).unwrap_err();
        assert!(told(b"login: \n").contains("`login: \\n`"), "{}", told(b"login: \n"));
        assert!(told(&[0xff; 5000]).contains("not an answer of this program"));
        assert!(told(b"weighbridge-guest record 99999999999999 0\n").contains("not an answer"));
        let mut damaged = write(&Answer::Record(b"hello".to_vec()));
        *damaged.last_mut().unwrap() ^= 1;
        assert_eq!(told(&damaged), "the record arrived damaged");
    }

    /// Published with the function: the checksum of "a".
    #[test]
    fn the_checksum_is_the_published_one() {
        assert_eq!(checksum(b"a"), 0xaf63_dc4c_8601_ec8c);
    }
}
