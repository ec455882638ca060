//! The body of a message, walked without building values: for match rules, for replies of the driver, to take out secrets.

use super::cursor::{Cursor, Endian};
use super::{Checker, Fault, Header, names, signature};

/// Arguments that a match rule can ask for.
const ARGS_MAX: usize = 64;
/// Bytes of a text that a match rule, which is shorter, can ask for.
const TEXT_MAX: usize = 64 << 10;
/// Steps that passing an argument takes, apart from its arrays and texts.
const SKIPPED_MAX: usize = 1024;

/// A value without parts, or an array of numbers, inside a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaf<'a> {
    /// `s`
    Text(&'a str),
    /// `o`
    Path(&'a str),
    /// `g`, or the signature of a variant.
    Signature(&'a str),
    /// A number or boolean, or all elements of an array of them: the letter of the type, and the bytes.
    Fixed(u8, &'a [u8]),
}

/// A top-level argument, as far as match rules look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arg<'a> {
    /// `s`
    Text(&'a str),
    /// `o`
    Path(&'a str),
    /// `u`
    U32(u32),
    /// Anything else, by its type.
    Other(&'a str),
}

/// The arguments of a message from left to right; after a fault there are no more. What is inside arrays is not looked at.
#[derive(Clone, Debug)]
pub struct Args<'a> {
    cursor: Cursor<'a>,
    signature: &'a str,
    most_text: usize,
}

impl<'a> Args<'a> {
    /// The arguments in `body`, which may be cut.
    pub fn new(header: &Header<'a>, body: &'a [u8]) -> Args<'a> {
        let body = &body[..body.len().min(header.body_bytes)];
        Args {
            cursor: Cursor::new(body, 0, header.endian),
            signature: header.signature,
            most_text: usize::MAX,
        }
    }

    /// As much of the arguments in a valid `body` as match rules ask for: the first 64, and of each text the first 64 KiB. This is little work
    /// whatever the body is.
    pub fn for_rules(header: &Header<'a>, body: &'a [u8]) -> impl Iterator<Item = Arg<'a>> {
        let args = Args { most_text: TEXT_MAX, ..Args::new(header, body) };
        args.map_while(Result::ok).take(ARGS_MAX)
    }

    /// The arguments of a whole message; none of bytes that are not one.
    pub fn of(message: &'a [u8]) -> Args<'a> {
        match Header::parse(message) {
            Ok(header) => Args::new(&header, message.get(header.header_bytes..).unwrap_or_default()),
            Err(_) => Args { cursor: Cursor::new(&[], 0, Endian::NATIVE), signature: "", most_text: 0 },
        }
    }

    /// The first argument, if it is a string.
    pub fn first_text(mut self) -> Option<&'a str> {
        match self.next() {
            Some(Ok(Arg::Text(text))) => Some(text),
            _ => None,
        }
    }

    /// The first argument, if it is an unsigned number of 32 bits.
    pub fn first_u32(mut self) -> Option<u32> {
        match self.next() {
            Some(Ok(Arg::U32(number))) => Some(number),
            _ => None,
        }
    }

    /// All arguments that are strings.
    pub fn texts(self) -> impl Iterator<Item = &'a str> {
        self.filter_map(|arg| if let Ok(Arg::Text(text)) = arg { Some(text) } else { None })
    }

    fn read(&mut self, types: &'a str) -> Result<Arg<'a>, Fault> {
        let cursor = &mut self.cursor;
        Ok(match types.as_bytes() {
            b"s" => Arg::Text(cursor.text_up_to(self.most_text)?),
            b"o" => {
                let path = cursor.text_up_to(self.most_text)?;
                if !names::is_path(path) && path.len() < self.most_text {
                    return Err(Fault::Invalid("an argument is not an object path"));
                }
                Arg::Path(path)
            }
            b"u" => Arg::U32(cursor.u32()?),
            _ if Checker::skip_value(cursor, types, SKIPPED_MAX)? => Arg::Other(types),
            _ => return Err(Fault::Invalid("an argument has too many parts to be passed")),
        })
    }
}

impl<'a> Iterator for Args<'a> {
    type Item = Result<Arg<'a>, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        let (first, rest) = signature::split(self.signature)?;
        let arg = self.read(first);
        self.signature = if arg.is_ok() { rest } else { "" };
        Some(arg)
    }
}

/// What is called with each leaf and the number of containers around it.
type Visit<'a, 'v> = dyn FnMut(Leaf<'a>, u32) + 'v;

/// Visits every leaf of a body with the number of containers around it, and checks the whole of it. Fails if the body
/// is cut or breaks the specification, or bytes are left over. What was visited before stands.
pub fn walk<'a>(header: &Header<'a>, body: &'a [u8], visit: &mut Visit<'a, '_>) -> Result<(), Fault> {
    let mut checker = Checker::default();
    checker.begin(header);
    checker.visit(body, usize::MAX, &mut |leaf, depth| visit(leaf, depth)).map(drop)
}

impl Leaf<'_> {
    /// The number, where this is a single `u`.
    pub fn as_u32(&self, endian: Endian) -> Option<u32> {
        match *self {
            Leaf::Fixed(b'u', &[a, b, c, d]) => Some(endian.u32([a, b, c, d])),
            _ => None,
        }
    }
}
