//! The body of a message, walked without building values: for match rules, for replies of the driver, to take out secrets.

use super::cursor::{Cursor, Endian};
use super::{Fault, Header, MAX_ARRAY_BYTES, MAX_DEPTH, names, signature};

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

/// The arguments of a message from left to right; after a fault there are no more.
#[derive(Clone, Debug)]
pub struct Args<'a> {
    cursor: Cursor<'a>,
    signature: &'a str,
}

impl<'a> Args<'a> {
    /// The arguments in `body`, which may be cut.
    pub fn new(header: &Header<'a>, body: &'a [u8]) -> Args<'a> {
        let body = &body[..body.len().min(header.body_bytes)];
        Args { cursor: Cursor::new(body, 0, header.endian), signature: header.signature }
    }

    /// The arguments of a whole message; none of bytes that are not one.
    pub fn of(message: &'a [u8]) -> Args<'a> {
        match Header::parse(message) {
            Ok(header) => Args::new(&header, message.get(header.header_bytes..).unwrap_or_default()),
            Err(_) => Args { cursor: Cursor::new(&[], 0, Endian::NATIVE), signature: "" },
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
        let (mut arg, endian) = (Arg::Other(types), self.cursor.endian);
        let mut visit = |leaf: Leaf<'a>, depth| match (leaf, depth) {
            (Leaf::Text(text), 0) => arg = Arg::Text(text),
            (Leaf::Path(path), 0) => arg = Arg::Path(path),
            (Leaf::Fixed(b'u', &[a, b, c, d]), 0) => arg = Arg::U32(endian.u32([a, b, c, d])),
            _ => {}
        };
        value(&mut self.cursor, types, 0, &mut visit)?;
        Ok(arg)
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
    let mut cursor = Cursor::new(body, 0, header.endian);
    for types in signature::types(header.signature) {
        value(&mut cursor, types, 0, visit)?;
    }
    if cursor.at == body.len() && body.len() == header.body_bytes {
        Ok(())
    } else if body.len() < header.body_bytes {
        Err(Fault::Cut)
    } else {
        Err(Fault::Invalid("the body is longer than its types"))
    }
}

/// Reads one value of the single complete type `types`, which is valid.
pub(super) fn value<'a>(
    cursor: &mut Cursor<'a>,
    types: &str,
    depth: u32,
    visit: &mut Visit<'a, '_>,
) -> Result<(), Fault> {
    let code = types.as_bytes()[0];
    if depth > MAX_DEPTH {
        return Err(Fault::Invalid("more than 64 containers are inside each other"));
    }
    match code {
        b's' => visit(Leaf::Text(cursor.text()?), depth),
        b'o' => {
            let path = cursor.text()?;
            if !names::is_path(path) {
                return Err(Fault::Invalid("an argument is not an object path"));
            }
            visit(Leaf::Path(path), depth);
        }
        b'g' => visit(Leaf::Signature(cursor.signature()?), depth),
        b'v' => {
            let inner = cursor.signature()?;
            if signature::split(inner).is_none_or(|(_, rest)| !rest.is_empty()) {
                return Err(Fault::Invalid("a variant has not exactly one type"));
            }
            visit(Leaf::Signature(inner), depth + 1);
            value(cursor, inner, depth + 1, visit)?;
        }
        b'a' => array(cursor, &types[1..], depth, visit)?,
        b'(' | b'{' => {
            cursor.align(8)?;
            // Depth was checked with the whole signature.
            for field in signature::types(&types[1..types.len() - 1]) {
                value(cursor, field, depth + 1, visit)?;
            }
        }
        _ => {
            let bytes = signature::fixed_bytes(code).expect("the signature was checked");
            cursor.align(bytes)?;
            fixed(cursor, code, bytes, depth, visit)?;
        }
    }
    Ok(())
}

fn array<'a>(
    cursor: &mut Cursor<'a>,
    element: &str,
    depth: u32,
    visit: &mut Visit<'a, '_>,
) -> Result<(), Fault> {
    let bytes = cursor.u32()? as usize;
    if bytes > MAX_ARRAY_BYTES {
        return Err(Fault::Invalid("an array is larger than 64 MiB"));
    }
    let code = element.as_bytes()[0];
    cursor.align(signature::alignment(code))?;
    if let Some(each) = signature::fixed_bytes(code) {
        return if bytes.is_multiple_of(each) {
            fixed(cursor, code, bytes, depth + 1, visit)
        } else {
            Err(Fault::Invalid("an array ends inside an element"))
        };
    }
    let end = cursor.at + bytes;
    while cursor.at < end {
        value(cursor, element, depth + 1, visit)?;
    }
    if cursor.at == end { Ok(()) } else { Err(Fault::Invalid("an array ends inside an element")) }
}

fn fixed<'a>(
    cursor: &mut Cursor<'a>,
    code: u8,
    bytes: usize,
    depth: u32,
    visit: &mut Visit<'a, '_>,
) -> Result<(), Fault> {
    let taken = cursor.take(bytes)?;
    let is_true_or_false = |four: &[u8]| {
        let [a, b, c, d] = *four else { return false };
        cursor.endian.u32([a, b, c, d]) <= 1
    };
    if code == b'b' && !taken.chunks(4).all(is_true_or_false) {
        return Err(Fault::Invalid("a boolean is neither 0 nor 1"));
    }
    visit(Leaf::Fixed(code, taken), depth);
    Ok(())
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
