//! Arguments that a user has written, one word for each basic value, in the manner of `busctl`.
//!
//! | type | words |
//! |---|---|
//! | number | `7`, `-7`, `0x1f`, `2.5` |
//! | boolean | `true` `yes` `on` `1`, `false` `no` `off` `0` |
//! | string, object path, signature | itself |
//! | array | the number of elements, then each element |
//! | dictionary | the number of entries, then a key and a value for each |
//! | struct | each field |
//! | variant | the type of its value, then the value |

use std::str::FromStr;

use super::{Body, DEPTH_MAX, Marshal, names, signature};

/// The arguments of a message, of these types and in the byte order of this machine. The error is a sentence: which
/// word is not a value of its type, or that there are too few or too many.
pub fn marshalled(types: &str, words: &[String]) -> Result<Body, String> {
    signature::check(types).map_err(|why| format!("{types:?} is not a signature: {why}"))?;
    let mut reader = Reader { words: words.iter(), out: Marshal::default() };
    for one in signature::types(types) {
        reader.value(one, 0)?;
    }
    match reader.words.len() {
        0 => Ok(reader.out.into_body(types)),
        1 => Err(format!("one word is left after the arguments of the types {types:?}")),
        left => Err(format!("{left} words are left after the arguments of the types {types:?}")),
    }
}

struct Reader<'a> {
    words: std::slice::Iter<'a, String>,
    out: Marshal,
}

impl<'a> Reader<'a> {
    fn word(&mut self, types: &str) -> Result<&'a str, String> {
        self.words.next().map(String::as_str).ok_or_else(|| format!("a value of type {types:?} is missing"))
    }

    /// A number, decimal or, where the type has no fraction, hexadecimal.
    fn number<T: FromStr + TryFrom<u64>>(&mut self, types: &str, what: &str) -> Result<T, String> {
        let word = self.word(types)?;
        let hexadecimal = word.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let number = match hexadecimal {
            Some(number) => T::try_from(number).ok(),
            None => word.parse().ok(),
        };
        number.ok_or_else(|| format!("{word:?} is not {what}, as type {types:?} asks for"))
    }

    fn checked(&mut self, types: &str, is_valid: fn(&str) -> bool, what: &str) -> Result<&'a str, String> {
        let word = self.word(types)?;
        if is_valid(word) { Ok(word) } else { Err(format!("{word:?} is not {what}")) }
    }

    fn value(&mut self, types: &str, depth: u32) -> Result<(), String> {
        if depth > DEPTH_MAX {
            return Err("more than 64 containers are inside each other".into());
        }
        match types.as_bytes()[0] {
            b'y' => self.number(types, "a whole number from 0 to 255").map(|number| self.out.byte(number))?,
            b'b' => match self.word(types)? {
                "true" | "yes" | "on" | "1" => self.out.u32(1),
                "false" | "no" | "off" | "0" => self.out.u32(0),
                word => return Err(format!("{word:?} is not a boolean; write true or false")),
            },
            b'n' => {
                let number: i16 = self.number(types, "a whole number of 16 bits")?;
                self.out.u16(number.cast_unsigned());
            }
            b'q' => self.number(types, "an unsigned number of 16 bits").map(|number| self.out.u16(number))?,
            b'i' => {
                let number: i32 = self.number(types, "a whole number of 32 bits")?;
                self.out.u32(number.cast_unsigned());
            }
            b'u' => self.number(types, "an unsigned number of 32 bits").map(|number| self.out.u32(number))?,
            b'x' => {
                let number: i64 = self.number(types, "a whole number of 64 bits")?;
                self.out.u64(number.cast_unsigned());
            }
            b't' => self.number(types, "an unsigned number of 64 bits").map(|number| self.out.u64(number))?,
            b'd' => {
                let word = self.word(types)?;
                let number: f64 = word.parse().map_err(|_| format!("{word:?} is not a number"))?;
                if number.is_infinite() && word.contains(|c: char| c.is_ascii_digit()) {
                    return Err(format!("{word:?} is too large for type \"d\"; write inf if that is meant"));
                }
                self.out.u64(number.to_bits());
            }
            b's' => self.out.text(self.words.next().ok_or("a value of type \"s\" is missing")?),
            b'o' => self.checked(types, names::is_path, "an object path").map(|path| self.out.text(path))?,
            b'g' => {
                let text = self.checked(types, |text| signature::check(text).is_ok(), "a signature")?;
                self.out.signature(text);
            }
            b'v' => self.variant(depth)?,
            b'a' => self.array(&types[1..], depth)?,
            b'(' | b'{' => {
                self.out.align(8);
                for field in signature::types(&types[1..types.len() - 1]) {
                    self.value(field, depth + 1)?;
                }
            }
            _ => return Err("a descriptor, type \"h\", cannot be written as a word".into()),
        }
        Ok(())
    }

    fn variant(&mut self, depth: u32) -> Result<(), String> {
        let types = self.word("v")?;
        let is_one = signature::check(types).is_ok()
            && signature::split(types).is_some_and(|(_, rest)| rest.is_empty());
        if !is_one {
            return Err(format!("{types:?} is not a type; a variant is written as its type and its value"));
        }
        self.out.signature(types);
        self.value(types, depth + 1)
    }

    fn array(&mut self, element: &str, depth: u32) -> Result<(), String> {
        let count: u64 = self.number("a", "a number of elements")?;
        // Each element takes a word at least.
        if count > self.words.len() as u64 {
            return Err(format!(
                "{count} elements of type {element:?} are announced, and too few words follow"
            ));
        }
        let mut result = Ok(());
        let mut out = std::mem::take(&mut self.out);
        out.array(signature::alignment(element.as_bytes()[0]), |out| {
            std::mem::swap(&mut self.out, out);
            result = (0..count).try_for_each(|_| self.value(element, depth + 1));
            std::mem::swap(&mut self.out, out);
        });
        self.out = out;
        result
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Builder, Header, values};
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
    }

    fn shown(types: &str, text: &str) -> String {
        let body = marshalled(types, &words(text)).unwrap_or_else(|why| panic!("{types} {text}: {why}"));
        let bytes = Builder::call("/", "M").body(body).build(1).unwrap();
        let header = Header::parse(&bytes).unwrap();
        let values = values(&header, &bytes[header.header_bytes..]).unwrap();
        values.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_is_written_is_read_and_shown_as_it_was_written() {
        for (types, text) in [
            ("ybnqiuxtd", "255 true -32768 65535 -7 7 -9 18446744073709551615 -2.5"),
            ("ay", "3 0 1 255"),
            ("a{uv}", "2 1 b false 2 ai 2 -1 3"),
            ("(y(xt))ay", "1 2 3 0"),
            ("a(yt)", "2 1 2 3 4"),
            ("aaai", "2 1 2 5 6 0"),
            ("av", "2 v y 1 at 1 9"),
            ("a{s(ii)}", "0"),
            ("", ""),
        ] {
            assert_eq!(shown(types, text), text, "{types}");
        }
        assert_eq!(shown("sog", "a /b i"), "\"a\" \"/b\" \"i\"");
        assert_eq!(shown("dd", "-inf 1e300"), format!("-inf {}", 1e300));
        assert_eq!(shown("ubb", "0x1f on no"), "31 true false");
        assert_eq!(shown("s", "\u{1b}[2J"), "\"\\u{1b}[2J\"");
    }

    #[test]
    fn what_is_not_a_value_is_said_in_a_sentence() {
        for (types, text, expected) in [
            ("y", "256", "not a whole number from 0 to 255"),
            ("u", "-1", "not an unsigned number of 32 bits"),
            ("q", "0x10000", "not an unsigned number of 16 bits"),
            ("b", "maybe", "not a boolean"),
            ("d", "x", "not a number"),
            ("d", "1e400", "too large for type \"d\""),
            ("d", "-1e400", "too large"),
            ("o", "a", "not an object path"),
            ("g", "(", "not a signature"),
            ("s", "", "missing"),
            ("s", "a b", "one word is left"),
            ("as", "3 a b", "too few words"),
            ("as", "-1", "not a number of elements"),
            ("as", "18446744073709551615", "too few words"),
            ("v", "ii 1 2", "not a type"),
            ("h", "0", "cannot be written"),
            ("a", "0", "not a signature"),
        ] {
            let why = marshalled(types, &words(text)).unwrap_err();
            assert!(why.contains(expected), "{types} {text}: {why}");
        }
        let deep = marshalled("v", &words(&"v ".repeat(100_000))).unwrap_err();
        assert!(deep.contains("64 containers"), "{deep}");
    }
}
