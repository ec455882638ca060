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

#[cfg(test)]
mod tests {
    use super::super::{Body, Builder};
    use super::*;

    fn message(body: Body) -> Vec<u8> {
        Builder::signal("/", "a.B", "M").body(body).build(1).unwrap()
    }

    #[test]
    fn arguments_are_read_by_their_types() {
        let bytes = message(Body::default().text("x").object("/p").u32(7).blob(&[1, 2]).text("y"));
        let all: Vec<_> = Args::of(&bytes).map(Result::unwrap).collect();
        assert_eq!(all, [Arg::Text("x"), Arg::Path("/p"), Arg::U32(7), Arg::Other("ay"), Arg::Text("y")]);
        assert_eq!(Args::of(&bytes).texts().collect::<Vec<_>>(), ["x", "y"]);
        assert_eq!((Args::of(&bytes).first_text(), Args::of(&bytes).first_u32()), (Some("x"), None));
        let number = message(Body::default().u32(7));
        assert_eq!((Args::of(&number).first_text(), Args::of(&number).first_u32()), (None, Some(7)));
        assert_eq!(Args::of(&bytes[1..]).count(), 0);
    }

    #[test]
    fn after_a_fault_there_are_no_arguments() {
        let bytes =
            message(Body::marshalled(Endian::Little, "ous", &[1, 0, 0, 0, b'a', 0, 0, 0, 7, 0, 0, 0]));
        let read: Vec<_> = Args::of(&bytes).collect();
        assert_eq!(read, [Err(Fault::Invalid("an argument is not an object path"))]);
        let whole = message(Body::default().u32(7).text("abc"));
        let header = Header::parse(&whole).unwrap();
        let cut = Args::new(&header, &whole[header.header_bytes..whole.len() - 2]);
        assert_eq!(cut.collect::<Vec<_>>(), [Ok(Arg::U32(7)), Err(Fault::Cut)]);
    }

    /// The body of a message may be followed by the next message.
    #[test]
    fn rules_see_64_arguments_and_the_start_of_long_texts() {
        let long = "/a".repeat(TEXT_MAX);
        let mut bytes =
            message((0..70).fold(Body::default().text(&long).object(&long), |body, n| body.u32(n)));
        let header_bytes = Header::parse(&bytes).unwrap().header_bytes;
        bytes.extend([0xff; 8]);
        let header = Header::parse(&bytes).unwrap();
        let args: Vec<Arg<'_>> = Args::for_rules(&header, &bytes[header_bytes..]).collect();
        assert_eq!(args.len(), ARGS_MAX);
        assert_eq!(args[..3], [Arg::Text(&long[..TEXT_MAX]), Arg::Path(&long[..TEXT_MAX]), Arg::U32(0)]);
        assert_eq!(Args::of(&bytes).count(), 72);
        let exact = message(Body::default().text(&long[..TEXT_MAX]));
        let header = Header::parse(&exact).unwrap();
        let args: Vec<Arg<'_>> = Args::for_rules(&header, &exact[header.header_bytes..]).collect();
        assert_eq!(args, [Arg::Text(&long[..TEXT_MAX])]);
    }

    #[test]
    fn an_argument_of_very_many_parts_is_not_passed() {
        let parts = |count: usize| format!("({})", "y".repeat(count));
        let fields = [0; 250];
        let few = message(Body::marshalled(Endian::NATIVE, &parts(250), &fields));
        assert_eq!(Args::of(&few).map(Result::unwrap).count(), 1);
        // Each variant is a step of its own, and its type as many as it has letters.
        let mut deep = Vec::new();
        (0..6).for_each(|_| {
            deep.push(252);
            deep.extend(parts(250).as_bytes());
            deep.push(0);
            deep.resize(deep.len().next_multiple_of(8), 0);
            deep.extend([0; 250]);
        });
        let deep = message(Body::marshalled(Endian::NATIVE, "(vvvvvv)", &deep));
        let read: Vec<_> = Args::of(&deep).collect();
        assert_eq!(read, [Err(Fault::Invalid("an argument has too many parts to be passed"))]);
    }

    #[test]
    fn leaves_are_visited_with_the_containers_around_them() {
        let body =
            Body::in_order(Endian::Little).u32(7).blob(&[1, 2]).variant_text("v").texts(&["a"]).object("/p");
        let bytes = message(body);
        let header = Header::parse(&bytes).unwrap();
        let mut leaves = Vec::new();
        walk(&header, &bytes[header.header_bytes..], &mut |leaf, depth| leaves.push((leaf, depth))).unwrap();
        let expected = [
            (Leaf::Fixed(b'u', &[7, 0, 0, 0]), 0),
            (Leaf::Fixed(b'y', &[1, 2]), 1),
            (Leaf::Signature("s"), 1),
            (Leaf::Text("v"), 1),
            (Leaf::Text("a"), 1),
            (Leaf::Path("/p"), 0),
        ];
        assert_eq!(leaves, expected);
        assert_eq!((leaves[0].0.as_u32(Endian::Little), leaves[1].0.as_u32(Endian::Little)), (Some(7), None));
    }
}
