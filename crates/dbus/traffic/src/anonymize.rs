//! Messages of the same shape without what they say: types, sizes and order stay, strings become hashes of their length,
//! numbers become zero.
//!
//! Equal strings stay equal within one [`Anonymizer`], so that names, match rules and repeated calls can still be analyzed.
//! The key of the hashes is used for one capture and thrown away. Kept as they are: the names of the driver
//! (`org.freedesktop.DBus` and what is below it), the members of its interfaces, answers of the driver up to 4, and
//! signatures.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use causeway_dbus_wire::driver::{DRIVER, DRIVER_PATH};
use causeway_dbus_wire::rule;
use causeway_dbus_wire::wire::{Body, Builder, Fault, Header, Kind, Leaf, names, walk};

/// Strings longer than this become filler; equality of long texts is nobody's business.
const MOST_HASHED_BYTES: usize = 255;
/// Greatest number in an answer of the driver that stays: the results of `RequestName` and `ReleaseName`.
const MOST_KEPT: u32 = 4;
/// How often a hash that is taken already is tried again; short elements have few hashes.
const TRIES: u64 = 64;

/// Rewrites messages.
#[derive(Debug, Default)]
pub struct Anonymizer {
    /// Each one has a random key of its own.
    hasher: RandomState,
    words: HashMap<String, String>,
    taken: HashSet<String>,
}

impl Anonymizer {
    /// An anonymizer with a key of its own.
    #[must_use]
    pub fn new() -> Anonymizer {
        Anonymizer::default()
    }

    /// A message of the same type, flags, serials and size, without strings of this one. Of a message whose body is cut,
    /// only the header is made.
    ///
    /// # Errors
    /// The bytes are no valid message; nothing of them should be written.
    pub fn message(&mut self, bytes: &[u8]) -> Result<Vec<u8>, Fault> {
        let header = Header::parse(bytes)?;
        let body = &bytes[header.header_bytes..];
        let is_whole = body.len() >= header.body_bytes;
        let body = if is_whole { self.body(&header, &body[..header.body_bytes])? } else { Vec::new() };
        let mut name = |text: Option<&str>| text.map(|text| self.text(text));
        let [path, interface, error_name] = [header.path, header.interface, header.error_name].map(&mut name);
        let [destination, sender] = [header.destination, header.sender].map(&mut name);
        let is_public = header.interface.is_some_and(is_public);
        let member = header.member.map(|member| if is_public { member.into() } else { self.word(member) });
        let renamed = Header {
            path: path.as_deref(),
            interface: interface.as_deref(),
            member: member.as_deref(),
            error_name: error_name.as_deref(),
            destination: destination.as_deref(),
            ..header
        };
        let body = Body::marshalled(header.endian, header.signature, &body);
        let mut out = Builder::like(&renamed).unix_fds(header.unix_fds).body(body);
        if let Some(sender) = &sender {
            out = out.sender(sender);
        }
        let too_long = |_| Fault::Invalid("the message is larger than 128 MiB");
        let mut made = out.build(header.serial).map_err(too_long)?;
        if !is_whole {
            let bytes = u32::try_from(header.body_bytes).unwrap_or(u32::MAX);
            made[4..8].copy_from_slice(&header.endian.bytes(bytes));
        }
        Ok(made)
    }

    /// The body with every leaf replaced in its place.
    fn body(&mut self, header: &Header<'_>, body: &[u8]) -> Result<Vec<u8>, Fault> {
        let is_rule = header.destination == Some(DRIVER)
            && matches!(header.member, Some("AddMatch" | "RemoveMatch"))
            && header.kind == Kind::MethodCall;
        let is_rules = header.signature == "a{sas}" && header.sender == Some(DRIVER);
        let is_answer = header.sender == Some(DRIVER) && header.kind == Kind::MethodReturn;
        let is_small = |leaf: &Leaf<'_>| leaf.as_u32(header.endian).is_some_and(|number| number <= MOST_KEPT);
        let mut made = body.to_vec();
        let start = body.as_ptr() as usize;
        walk(header, body, &mut |leaf, depth| {
            let (at, bytes) = match leaf {
                Leaf::Text(text) if is_rule && depth == 0 || is_rules && depth == 3 => {
                    (text.as_ptr(), self.rule(text).into_bytes())
                }
                Leaf::Text(text) | Leaf::Path(text) => (text.as_ptr(), self.text(text).into_bytes()),
                Leaf::Signature(_) => return,
                Leaf::Fixed(..) if is_answer && is_small(&leaf) => return,
                Leaf::Fixed(_, bytes) => (bytes.as_ptr(), vec![0; bytes.len()]),
            };
            // Every leaf borrows from the body, so the distance of the two is its place there.
            let at = at as usize - start;
            made[at..at + bytes.len()].copy_from_slice(&bytes);
        })?;
        Ok(made)
    }

    /// A string of the same length and the same kind: name, path, or neither.
    fn text(&mut self, text: &str) -> String {
        if is_public(text) || [DRIVER_PATH, "/", ""].contains(&text) {
            text.into()
        } else if names::is_path(text) {
            self.elements(text, '/')
        } else if text.len() > MOST_HASHED_BYTES {
            "x".repeat(text.len())
        } else if let Some(rest) = text.strip_prefix(':').filter(|_| names::is_unique(text)) {
            format!(":{}", self.elements(rest, '.'))
        } else if names::is_well_known(text) {
            self.elements(text, '.')
        } else {
            self.word(text)
        }
    }

    fn elements(&mut self, text: &str, separator: char) -> String {
        let words: Vec<String> = text.split(separator).map(|word| self.word(word)).collect();
        words.join(&separator.to_string())
    }

    /// A match rule with its keys, and other values of the same length.
    fn rule(&mut self, text: &str) -> String {
        let Ok(parts) = rule::parts(text) else { return "x".repeat(text.len()) };
        let (mut made, mut end) = (String::new(), 0);
        for part in parts {
            // Keys are those of the specification, or this is not a rule.
            let spelled = &text[part.at.clone()];
            let is_simple = spelled == part.value || spelled == format!("'{}'", part.value);
            if text.parse::<rule::MatchRule>().is_err() || !is_simple {
                return "x".repeat(text.len());
            }
            let value = match (part.key, &*part.value) {
                ("type" | "eavesdrop", value)
                | ("member", value @ ("NameOwnerChanged" | "NameAcquired" | "NameLost")) => value.to_owned(),
                (_, value) => self.text(value),
            };
            made.push_str(&text[end..part.at.start]);
            made.push_str(&spelled.replace(&part.value, &value));
            end = part.at.end;
        }
        made.push_str(&text[end..]);
        made
    }

    /// Letters of the same number of bytes, the same for the same word, another for another while there are enough.
    fn word(&mut self, word: &str) -> String {
        if word.is_empty() {
            return String::new();
        }
        if let Some(known) = self.words.get(word) {
            return known.clone();
        }
        let is_free = |made: &String| made != word && !self.taken.contains(made);
        let made = (0..TRIES - 1).map(|attempt| self.letters(word, attempt)).find(is_free);
        let made = made.unwrap_or_else(|| self.letters(word, TRIES - 1));
        self.taken.insert(made.clone());
        self.words.insert(word.into(), made.clone());
        made
    }

    fn letters(&self, word: &str, attempt: u64) -> String {
        let hash = |at: usize| self.hasher.hash_one((word, attempt, at));
        (0..word.len()).map(|at| char::from(b'a' + (hash(at) % 26) as u8)).collect()
    }
}

/// A name of the driver, or of an interface or error that the specification defines.
fn is_public(name: &str) -> bool {
    names::is_below_name(name, DRIVER)
}
