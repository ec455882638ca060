//! The engine that goes through a body, for checks and for visitors: in linear time, and in slices where it is long.
//!
//! A signature is compiled once to a flat list of operations, and containers that are open stand on a stack. The end of a struct is not an operation,
//! structs that begin together are one, and an array of numbers is a single step. The signature of a variant is compiled when it is met, which
//! costs as much as its bytes, and its operations are given up with its end.

mod ops;

use super::cursor::{Cursor, Endian};
use super::{ARRAY_BYTES_MAX, Fault, Header, Leaf, names};
use ops::{Op, basic, compile};

/// Bytes of text, or of booleans, that cost as much as an operation.
const STEP_BYTES: usize = 16;
/// More operations than this are not kept for the next body.
const KEPT_OPS: usize = 512;

/// An array or variant that is open.
#[derive(Clone, Copy, Debug)]
struct Frame {
    /// Where the bytes of an array end; how many operations there were before those of a variant.
    end: u32,
    /// The first operation of an element; the one behind the variant.
    op: u32,
}

/// What is so long that it is checked in parts.
#[derive(Clone, Copy, Debug)]
struct Long {
    is: Kind,
    start: usize,
    end: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Path,
    Bools,
}

/// Checks bodies one after another, each in as many slices as its caller likes.
///
/// ```
/// use causeway_dbus_wire::wire::{Body, Builder, Checker, Header};
///
/// let message = Builder::signal("/", "a.B", "C").body(Body::default().text(&"x".repeat(10_000))).build(1)?;
/// let header = Header::parse(&message)?;
/// let mut checker = Checker::default();
/// checker.begin(&header);
/// while !checker.advance(&message[header.header_bytes..], 100)? {
///     // Somebody else's turn.
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Checker {
    /// Those of the whole signature, then those of open variants.
    ops: Vec<Op>,
    /// What the first operations were compiled from, and how many they are.
    signature: String,
    compiled: usize,
    frames: Vec<Frame>,
    long: Option<Long>,
    op: usize,
    at: usize,
    endian: Option<Endian>,
    body_bytes: usize,
    /// Arrays are passed by their length, and texts unread.
    skips: bool,
}

impl Checker {
    /// Begins with the body of this message, whatever was before.
    pub fn begin(&mut self, header: &Header<'_>) {
        self.reset(header.signature, 0, 0, header.endian);
        self.body_bytes = header.body_bytes;
    }

    /// Goes on with the body of the message with which it began, for so many steps: true at its end. A step is an operation or 16 bytes of text.
    /// Fails if the body is cut or breaks the specification, or bytes are left over.
    pub fn advance(&mut self, body: &[u8], steps: usize) -> Result<bool, Fault> {
        self.visit(body, steps, &mut |_, _| {})
    }

    /// As [`Checker::advance`], and shows each leaf with the number of containers around it; a text only if it fits into the steps.
    pub(super) fn visit<'a>(
        &mut self,
        body: &'a [u8],
        steps: usize,
        visit: &mut impl FnMut(Leaf<'a>, u32),
    ) -> Result<bool, Fault> {
        if !self.run(body, steps, visit)? {
            return Ok(false);
        }
        if self.at == body.len() && body.len() == self.body_bytes {
            Ok(true)
        } else if body.len() < self.body_bytes {
            Err(Fault::Cut)
        } else {
            Err(Fault::Invalid("the body is longer than its types"))
        }
    }

    /// Reads one value at the cursor, of a valid type that is inside `depth` containers.
    pub(super) fn check_value(cursor: &mut Cursor<'_>, types: &str, depth: u32) -> Result<(), Fault> {
        let mut checker = Checker::default();
        checker.reset(types, cursor.at, depth, cursor.endian);
        checker.run(cursor.bytes(), usize::MAX, &mut |_, _| {})?;
        cursor.at = checker.at;
        Ok(())
    }

    /// Passes one value, of a valid type, without looking into its arrays and texts; false if that takes more steps than these.
    pub(super) fn skip_value(cursor: &mut Cursor<'_>, types: &str, steps: usize) -> Result<bool, Fault> {
        let mut checker = Checker { skips: true, ..Checker::default() };
        checker.reset(types, cursor.at, 0, cursor.endian);
        let is_done = checker.run(cursor.bytes(), steps, &mut |_, _| {})?;
        cursor.at = checker.at;
        Ok(is_done)
    }

    fn reset(&mut self, types: &str, at: usize, depth: u32, endian: Endian) {
        self.ops.truncate(self.compiled);
        if self.ops.is_empty() || self.signature != types {
            self.ops.clear();
            types.clone_into(&mut self.signature);
            let mut rest = types.as_bytes();
            while !rest.is_empty() {
                rest = compile(&mut self.ops, rest, depth);
            }
            self.ops.push(Op::End);
            self.compiled = self.ops.len();
        }
        self.ops.shrink_to(KEPT_OPS);
        self.frames.clear();
        self.long = None;
        (self.op, self.at, self.endian) = (0, at, Some(endian));
    }

    /// True at the end of the types, false if the steps are used up.
    fn run<'a>(
        &mut self,
        body: &'a [u8],
        steps: usize,
        visit: &mut impl FnMut(Leaf<'a>, u32),
    ) -> Result<bool, Fault> {
        let mut cursor = Cursor::new(body, self.at, self.endian.expect("it has begun"));
        let mut left = steps;
        while left > 0 {
            if let Some(long) = self.long {
                self.go_on(long, &mut cursor, &mut left)?;
                continue;
            }
            left -= 1;
            let mut op = self.ops[self.op];
            self.op += 1;
            // One directly inside another one ends with it.
            while let Op::Variant { depth } = op {
                let inner = cursor.signature()?;
                left = left.saturating_sub(inner.len());
                op = self.enter(inner, depth.into())?;
                visit(Leaf::Signature(inner), u32::from(depth) + 1);
            }
            match op {
                Op::Fixed { code, bytes, depth } => {
                    cursor.align(bytes.into())?;
                    let taken = cursor.take(bytes.into())?;
                    check_bools(code, taken, cursor.endian)?;
                    visit(Leaf::Fixed(code, taken), depth.into());
                }
                Op::FixedArray { code, bytes, depth } => {
                    let length = array_bytes(&mut cursor, bytes.into())?;
                    if length & usize::from(bytes - 1) != 0 {
                        return Err(Fault::Invalid("an array ends inside an element"));
                    }
                    if code == b'b' && !self.skips && !self.fits(Kind::Bools, length, &cursor, &mut left)? {
                        continue;
                    }
                    let taken = cursor.take(length)?;
                    if !self.skips {
                        check_bools(code, taken, cursor.endian)?;
                    }
                    visit(Leaf::Fixed(code, taken), depth.into());
                }
                Op::Text { depth } => {
                    let length = cursor.u32()? as usize;
                    if self.skips {
                        cursor.take(length.saturating_add(1))?;
                    } else if self.fits(Kind::Text, length, &cursor, &mut left)? {
                        visit(Leaf::Text(cursor.text_of(length)?), depth.into());
                    }
                }
                Op::Path { depth } => {
                    let length = cursor.u32()? as usize;
                    if self.skips {
                        cursor.take(length.saturating_add(1))?;
                    } else if self.fits(Kind::Path, length, &cursor, &mut left)? {
                        let path = cursor.text_of(length)?;
                        if !names::is_path(path) {
                            return Err(NOT_A_PATH);
                        }
                        visit(Leaf::Path(path), depth.into());
                    }
                }
                Op::Signature { depth } => {
                    let text = cursor.signature()?;
                    left = left.saturating_sub(text.len());
                    visit(Leaf::Signature(text), depth.into());
                }
                Op::Struct => cursor.align(8)?,
                Op::Array { alignment, behind } => {
                    let bytes = array_bytes(&mut cursor, alignment.into())?;
                    if self.skips {
                        cursor.take(bytes)?;
                    }
                    if self.skips || bytes == 0 {
                        self.op = behind as usize;
                    } else {
                        self.frames.push(Frame { end: (cursor.at + bytes) as u32, op: self.op as u32 });
                    }
                }
                Op::Next => {
                    let array = self.frames.last().expect("an element is in an array");
                    let end = array.end as usize;
                    if cursor.at < end {
                        self.op = array.op as usize;
                    } else if cursor.at == end {
                        self.frames.pop();
                    } else {
                        return Err(Fault::Invalid("an array ends inside an element"));
                    }
                }
                Op::TooDeep => return Err(Fault::Invalid("more than 64 containers are inside each other")),
                Op::End => match self.frames.pop() {
                    Some(variant) => {
                        self.ops.truncate(variant.end as usize);
                        self.op = variant.op as usize;
                    }
                    None => {
                        self.at = cursor.at;
                        return Ok(true);
                    }
                },
                Op::Variant { .. } => unreachable!("it was entered"),
            }
        }
        self.at = cursor.at;
        Ok(false)
    }

    /// Enters a variant with a value of this type. Returns the first operation of the value; those that follow are the next.
    fn enter(&mut self, inner: &str, depth: u32) -> Result<Op, Fault> {
        const NOT_ONE: Fault = Fault::Invalid("a variant has not exactly one type");
        let code = *inner.as_bytes().first().ok_or(NOT_ONE)?;
        if inner.len() == 1 {
            return Ok(basic(code, depth + 1));
        }
        let before = self.ops.len();
        if !compile(&mut self.ops, inner.as_bytes(), depth + 1).is_empty() {
            return Err(NOT_ONE);
        }
        self.ops.push(Op::End);
        self.frames.push(Frame { end: before as u32, op: self.op as u32 });
        self.op = before + 1;
        Ok(self.ops[before])
    }

    /// Is what begins at the cursor short enough for what is left of the steps? Otherwise it is checked in parts.
    #[inline]
    fn fits(&mut self, is: Kind, bytes: usize, cursor: &Cursor<'_>, left: &mut usize) -> Result<bool, Fault> {
        if bytes <= left.saturating_mul(STEP_BYTES) {
            *left -= bytes / STEP_BYTES;
            return Ok(true);
        }
        let terminator = usize::from(is != Kind::Bools);
        if cursor.bytes().len() - cursor.at < bytes + terminator {
            return Err(Fault::Cut);
        }
        self.long = Some(Long { is, start: cursor.at, end: cursor.at + bytes });
        Ok(false)
    }

    /// Checks as much of something long as the steps allow.
    fn go_on(&mut self, long: Long, cursor: &mut Cursor<'_>, left: &mut usize) -> Result<(), Fault> {
        let (all, rest) = (cursor.bytes(), long.end - cursor.at);
        let count = rest.min(left.saturating_mul(STEP_BYTES));
        let part = &all[cursor.at..cursor.at + count];
        *left = left.saturating_sub(count / STEP_BYTES + 1);
        let checked = match long.is {
            Kind::Bools => {
                check_bools(b'b', part, cursor.endian)?;
                count
            }
            Kind::Path => {
                let before = all[long.start..cursor.at].last().copied();
                let ends_well = count < rest || !part.ends_with(b"/");
                if !ends_well || !names::continues_path(before, part) {
                    return Err(NOT_A_PATH);
                }
                count
            }
            Kind::Text => {
                let valid = match std::str::from_utf8(part) {
                    Ok(_) => count,
                    // A character that is cut is looked at with the next part.
                    Err(error) if error.error_len().is_none() && count < rest => error.valid_up_to(),
                    Err(_) => return Err(Fault::Invalid("a string is not UTF-8")),
                };
                if part[..valid].contains(&0) {
                    return Err(Fault::Invalid("a string contains a zero byte"));
                }
                valid
            }
        };
        cursor.at += checked;
        if cursor.at == long.end {
            self.long = None;
            if long.is != Kind::Bools {
                cursor.terminator()?;
            }
        }
        Ok(())
    }
}

const NOT_A_PATH: Fault = Fault::Invalid("an argument is not an object path");

/// Reads the number of bytes of an array, and goes to its first element.
fn array_bytes(cursor: &mut Cursor<'_>, alignment: usize) -> Result<usize, Fault> {
    let bytes = cursor.u32()? as usize;
    if bytes > ARRAY_BYTES_MAX {
        return Err(Fault::Invalid("an array is larger than 64 MiB"));
    }
    cursor.align(alignment)?;
    Ok(bytes)
}

fn check_bools(code: u8, values: &[u8], endian: Endian) -> Result<(), Fault> {
    // In either byte order.
    let most = endian.bytes(1);
    let (words, _) = values.as_chunks::<4>();
    if code != b'b' || words.iter().all(|word| *word == most || *word == [0; 4]) {
        Ok(())
    } else {
        Err(Fault::Invalid("a boolean is neither 0 nor 1"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Body, Builder, Marshal};
    use super::*;

    /// Steps until a message of this body has been checked in slices, or its fault.
    fn slices(body: Body, steps: usize) -> Result<usize, Fault> {
        let message = Builder::signal("/", "a.B", "C").body(body).build(1).unwrap();
        let header = Header::parse(&message).unwrap();
        let mut checker = Checker::default();
        checker.begin(&header);
        for count in 1.. {
            if checker.advance(&message[header.header_bytes..], steps)? {
                return Ok(count);
            }
        }
        unreachable!()
    }

    fn marshalled(types: &str, write: impl FnOnce(&mut Marshal)) -> Body {
        let mut out = Marshal::default();
        write(&mut out);
        out.into_body(types)
    }

    /// Bodies that are much work for their bytes, each of about so many bytes.
    fn hard(bytes: usize) -> Vec<Body> {
        let struct_type = format!("a{}y{}", "(".repeat(32), ")".repeat(32));
        let structs = marshalled(&struct_type, |out| {
            out.array(8, |out| {
                for _ in 0..bytes / 8 {
                    out.align(8);
                    out.byte(7);
                }
            });
        });
        let texts = marshalled("aas", |out| {
            out.array(4, |out| (0..bytes / 12).for_each(|_| out.texts(["abc"])));
        });
        let variants = marshalled("av", |out| {
            out.array(1, |out| {
                for _ in 0..bytes / (3 * 30 + 3) {
                    (0..30).for_each(|_| out.signature("v"));
                    out.signature("y");
                    out.byte(1);
                }
            });
        });
        // The signature of each variant is as long as can be, and its value is empty.
        let long_type = format!("a({})", "y".repeat(252));
        let types = marshalled("av", |out| {
            out.array(1, |out| {
                for _ in 0..bytes / 272 {
                    out.signature(&long_type);
                    out.array(8, |_| {});
                }
            });
        });
        let path = marshalled("o", |out| out.text(&"/a".repeat(bytes / 2)));
        let text = marshalled("s", |out| out.text(&"\u{1f600}".repeat(bytes / 4)));
        let bools = marshalled("ab", |out| {
            out.array(4, |out| (0..bytes / 4).for_each(|n| out.u32(n as u32 % 2)));
        });
        vec![structs, texts, variants, types, path, text, bools]
    }

    #[test]
    fn the_steps_of_a_body_are_in_proportion_to_its_bytes() {
        let bytes = 1 << 20;
        for (index, body) in hard(bytes).into_iter().enumerate() {
            let count = slices(body, 1024).unwrap();
            assert!(
                (bytes / STEP_BYTES / 1024..=bytes / 1024).contains(&count),
                "body {index}: {count} slices"
            );
        }
    }

    #[test]
    fn slices_of_any_length_say_the_same() {
        for body in hard(20_000) {
            for steps in [1, 2, 3, 17, usize::MAX] {
                assert!(slices(body.clone(), steps).is_ok());
            }
        }
        let broken = [
            marshalled("o", |out| out.text(&format!("/a//{}", "b".repeat(200)))),
            marshalled("o", |out| out.text(&format!("{}/", "/a".repeat(100)))),
            marshalled("o", |out| out.text(&"a/".repeat(100))),
            marshalled("s", |out| out.text(&format!("{}\0", "a".repeat(200)))),
            marshalled("ab", |out| out.array(4, |out| (0..100).for_each(|n| out.u32(n / 99 * 2)))),
            marshalled("ay", |out| out.u32(9)),
            marshalled("au", |out| {
                out.u32(6);
                out.u64(0);
            }),
            marshalled("y", |out| out.u64(0)),
        ];
        for body in broken {
            let whole = slices(body.clone(), usize::MAX).unwrap_err();
            for steps in [1, 2, 3, 17] {
                assert_eq!(slices(body.clone(), steps), Err(whole));
            }
        }
    }

    #[test]
    fn an_array_of_more_than_64_mib_is_refused_before_its_elements_are_looked_at() {
        for types in ["ay", "as"] {
            let array = |bytes: usize| slices(marshalled(types, |out| out.u32(bytes as u32)), 1000);
            assert_eq!(array(ARRAY_BYTES_MAX).unwrap_err(), Fault::Cut, "{types}");
            let error = Fault::Invalid("an array is larger than 64 MiB");
            assert_eq!(array(ARRAY_BYTES_MAX + 1), Err(error), "{types}");
        }
    }

    #[test]
    fn one_more_than_64_containers_are_too_many() {
        let nested = |count: usize| {
            marshalled("v", |out| {
                (1..count).for_each(|_| out.signature("v"));
                out.signature("y");
                out.byte(0);
            })
        };
        assert!(slices(nested(64), 100).is_ok());
        assert!(slices(nested(65), 100).is_err());
        // A value of this type inside so many variants. An array of numbers is one step, and does not count.
        let inside = |count: usize, types: &str| {
            marshalled("v", |out| {
                (1..count).for_each(|_| out.signature("v"));
                out.signature(types);
                match types {
                    "(y)" => {
                        out.align(8);
                        out.byte(0);
                    }
                    "as" => out.array(4, |out| out.text("")),
                    "a(y)" => out.array(8, |out| out.byte(0)),
                    _ => out.array(4, |out| out.u32(0)),
                }
            })
        };
        for (types, most) in [("au", 64), ("(y)", 63), ("as", 63), ("aay", 63), ("a(y)", 62)] {
            let checked = |count| slices(inside(count, types), 1000).map(drop);
            assert_eq!(checked(most), Ok(()), "{types}");
            let error = Fault::Invalid("more than 64 containers are inside each other");
            assert_eq!(checked(most + 1), Err(error), "{types}");
        }
    }
}
