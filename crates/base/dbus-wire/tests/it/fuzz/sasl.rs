//! Fuzzing of the server's side of an authentication: the input is what a client sends.

use std::collections::BTreeSet;

use causeway_dbus_wire::sasl::{Client, Progress, Server, line};
use causeway_testkit::fuzz;

const WORDS: &[&str] = &[
    "\0",
    "\r\n",
    "AUTH EXTERNAL 31303030\r\n",
    "AUTH EXTERNAL\r\n",
    "AUTH ANONYMOUS",
    "DATA\r\n",
    "DATA 31303030\r\n",
    "NEGOTIATE_UNIX_FD\r\n",
    "BEGIN\r\n",
    "CANCEL\r\n",
    "ERROR",
];
/// Any of these lines, and no other, authenticates user 1000.
const ACCEPTED: [&[u8]; 4] = [b"AUTH EXTERNAL 31303030", b"DATA", b"DATA ", b"DATA 31303030"];

/// The result of the authentication of a server whose input arrives in pieces.
fn serve(uid: Option<u32>, input: &[u8], piece_bytes: usize) -> (Progress, String, Vec<u8>, bool) {
    let (mut server, mut output) = (Server::new(uid), Vec::new());
    let (mut arrived, mut rest) = (Vec::new(), input);
    loop {
        let (piece, later) = rest.split_at(piece_bytes.min(rest.len()));
        rest = later;
        arrived.extend(piece);
        let progress = server.advance(&mut arrived, "123", &mut output);
        if progress != Progress::Unfinished || rest.is_empty() {
            arrived.extend(rest);
            let output = String::from_utf8(output).unwrap();
            return (progress, output, arrived, server.passes_descriptors());
        }
    }
}

#[test]
fn authentication_depends_on_neither_pieces_nor_wrong_lines() {
    fuzz::run(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/sasl"), WORDS, |input| {
        for uid in [Some(1000), None] {
            let whole = serve(uid, input, usize::MAX);
            // Each piece of a line is looked through again.
            for piece_bytes in if input.len() < 1000 { [1, 3] } else { [999, 5000] } {
                assert!(serve(uid, input, piece_bytes) == whole, "{uid:?} in pieces of {piece_bytes} bytes");
            }
        }
        let (progress, output, rest, passes_descriptors) = serve(Some(1000), input, usize::MAX);
        assert!(input.ends_with(&rest), "the rest is no end of the input");
        let taken = &input[..input.len() - rest.len()];
        let lines = taken.strip_prefix(b"\0").unwrap_or(taken).split(|byte| *byte == b'\n');
        let lines: Vec<&[u8]> = lines.filter_map(|line| line.strip_suffix(b"\r")).collect();
        let answers: Vec<&str> = output.split_terminator("\r\n").collect();
        assert!(answers.len() <= lines.len() && output.len() <= 40 * lines.len(), "{output:?}");
        if progress == Progress::Begun {
            assert!(ACCEPTED.iter().any(|accepted| lines.contains(accepted)), "a stranger is let in");
            // As in the reference implementation, what follows the word does not matter.
            let command = lines.last().and_then(|line| line.split(u8::is_ascii_whitespace).next());
            assert_eq!(command, Some(&b"BEGIN"[..]));
        }
        assert!(!passes_descriptors || output.contains("AGREE_UNIX_FD"));
        // The same bytes as answers of a server.
        let mut client = Client::new(1000).0;
        let mut left = input;
        while let Ok(Some((line, bytes))) = line(left) {
            client.answer(line);
            left = &left[bytes..];
        }
        let kinds: BTreeSet<String> = answers.into_iter().map(String::from).collect();
        (format!("{progress:?}"), kinds)
    });
}
