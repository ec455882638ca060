//! Fuzzing of messages: the input is the start of what a connection receives.

use causeway_dbus_wire::wire::{
    Args, Body, Builder, Checker, Fault, Header, KnownHeaders, Layout, Value, header_bytes, json,
    message_bytes, stamped, values, walk, whole_message,
};
use causeway_testkit::fuzz;

const SENDER: &str = ":1.7";
const WORDS: &[&str] = &[
    "\u{1}\u{1}o\0",
    "\u{2}\u{1}s\0",
    "\u{3}\u{1}s\0",
    "\u{4}\u{1}s\0",
    "\u{5}\u{1}u\0",
    "\u{6}\u{1}s\0",
    "\u{7}\u{1}s\0",
    "\u{8}\u{1}g\0",
    "\u{9}\u{1}u\0",
    "\u{1}v\0",
    "\u{4}a{sv}\0",
    "\u{4}(yv)\0",
    "\u{2}as\0",
    "\u{2}ay\0",
    "a",
    "(",
    ")",
    "{",
    "}",
    "/a/b",
    "a.B",
    ":1.3",
    "\0\0\0\0",
    "\0",
];

/// The header with everything that a copy of the message has, too.
fn fields<'a>(header: &Header<'a>) -> Header<'a> {
    Header { header_bytes: 0, ..*header }
}

/// A copy that is written from what was read.
fn rewritten(header: &Header<'_>, body: &[u8]) -> Vec<u8> {
    let body = Body::marshalled(header.endian, header.signature, body);
    let copy = Builder::like(header).unix_fds(header.unix_fds).body(body);
    let copy = if let Some(sender) = header.sender { copy.sender(sender) } else { copy };
    copy.build(header.serial).unwrap()
}

fn check_header(header: &Header<'_>, input: &[u8]) {
    let size = header.message_bytes();
    assert_eq!((message_bytes(input), header_bytes(input)), (Ok(size), Ok(header.header_bytes)));
    assert_eq!(whole_message(input), Ok(Some(size).filter(|size| *size <= input.len())));
    for cut in [header.header_bytes - 1, header.header_bytes / 2, 0] {
        assert_eq!(Header::parse(&input[..cut]), Err(Fault::Cut), "{cut} bytes");
    }
    let layout = Layout::of(header, input);
    assert!(layout.is_of(input, input));
    assert_eq!(layout.header(input), *header);
    let mut known = KnownHeaders::default();
    if let Some(index) = known.learn(header, input, SENDER) {
        assert_eq!(known.find(input), Some(index));
        assert_eq!(known.get(index).header(input), Header { sender: Some(SENDER), ..*header });
        if size <= input.len() {
            assert_eq!(known.get(index).stamp(input), stamped(input, header, SENDER));
        }
    }
}

fn check_message(header: &Header<'_>, message: &[u8]) -> Option<Fault> {
    let body = &message[header.header_bytes..];
    let copy = rewritten(header, body);
    let copied = Header::parse(&copy).unwrap();
    assert_eq!((fields(&copied), &copy[copied.header_bytes..]), (fields(header), body));
    let stamped = stamped(message, header, SENDER).unwrap();
    let header_of_stamped = Header::parse(&stamped).unwrap();
    assert_eq!(fields(&header_of_stamped), Header { sender: Some(SENDER), ..fields(header) });
    assert_eq!(&stamped[header_of_stamped.header_bytes..], body);

    let mut leaves = 0;
    let walked = walk(header, body, &mut |_, _| leaves += 1);
    let mut checker = Checker::default();
    checker.begin(header);
    let in_steps = loop {
        match checker.advance(body, 1) {
            Ok(false) => {}
            Ok(true) => break Ok(()),
            Err(fault) => break Err(fault),
        }
    };
    // Of two faults, either may be found first.
    assert_eq!(in_steps.is_ok(), walked.is_ok(), "{in_steps:?} in steps, {walked:?} at once");
    let read = values(header, body);
    assert_eq!(read.as_ref().err().copied(), walked.err());
    let args = Args::new(header, body).collect::<Result<Vec<_>, _>>();
    let text = json::message(header, message, &[]);
    assert!(text.len() <= 1000 + 64 * message.len(), "{} bytes of JSON", text.len());
    serde_json::from_str::<serde_json::Value>(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    if let Ok(values) = read {
        assert!(leaves <= body.len() + header.signature.len());
        assert_eq!(args.unwrap().len(), values.len());
        assert_eq!(values.iter().map(Value::signature).collect::<String>(), header.signature);
        values.iter().for_each(check_value);
    }
    walked.err()
}

/// A value is written as an argument and read as the same; what has too many containers around it then is refused.
fn check_value(value: &Value<'_>) {
    let Ok(body) = Body::of(value) else { return };
    let message = Builder::reply(1).body(body).build(1).unwrap();
    let header = Header::parse(&message).unwrap();
    let read = match values(&header, &message[header.header_bytes..]) {
        Ok(read) => read,
        Err(fault) => return assert!(fault.to_string().contains("deep"), "{fault}: {value:?}"),
    };
    // As text, because NaN equals nothing.
    assert_eq!(format!("{read:?}"), format!("{:?}", [Value::Variant(Box::new(value.clone()))]));
    let _ = value.to_string();
}

#[test]
fn message_has_one_meaning_for_all_its_readers() {
    fuzz::run(
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/message"),
        WORDS,
        |input| match Header::parse(input) {
            Ok(header) => {
                check_header(&header, input);
                let message = input.get(..header.message_bytes());
                let fault = message.map(|message| check_message(&header, message));
                let types = (header.signature.len().min(20), header.path.is_some(), header.sender.is_some());
                (Ok(header.kind.word()), fault, types)
            }
            Err(fault) => (Err(fault), None, (0, false, false)),
        },
    );
}
