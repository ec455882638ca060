//! The authentication that precedes messages on a socket: lines in, lines out, both sides. No socket.
//!
//! Source: D-Bus Specification, section "Authentication Protocol". Only EXTERNAL is offered: the kernel says who the client is.

/// Longest line; a legitimate peer sends shorter ones.
pub const LINE_BYTES_MAX: usize = 16 << 10;

/// A client that is rejected as often as this has run out of ways to authenticate.
const FAILURES_MAX: u32 = 6;

const ENDLESS: &str = "a line of the authentication does not end";

/// The first line of `input` without its end, and the bytes that it takes; `None` if it is not complete. Fails, in a
/// sentence, if it is too long, however much of it has come.
pub fn line(input: &[u8]) -> Result<Option<(&[u8], usize)>, &'static str> {
    match input.windows(2).take(LINE_BYTES_MAX).position(|two| two == b"\r\n") {
        Some(end) => Ok(Some((&input[..end], end + 2))),
        None if input.len() > LINE_BYTES_MAX => Err(ENDLESS),
        None => Ok(None),
    }
}

/// The client's side of one authentication: as a user whom the kernel confirms, with descriptors where the server passes them.
#[derive(Debug)]
pub struct Client {
    is_accepted: bool,
}

/// What a client does after an answer of the server.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// To send this, and wait for the answer.
    Send(&'static [u8]),
    /// To send this. Messages follow at once.
    Begin(&'static [u8]),
    /// The server does not accept this user.
    Rejected,
}

impl Client {
    /// A client of this user, and the bytes that it sends first.
    pub fn new(uid: u32) -> (Client, Vec<u8>) {
        let digits: String = uid.to_string().bytes().map(|digit| format!("{digit:02x}")).collect();
        (Client { is_accepted: false }, format!("\0AUTH EXTERNAL {digits}\r\n").into_bytes())
    }

    /// Takes a line of the server.
    pub fn answer(&mut self, line: &[u8]) -> Next {
        if self.is_accepted {
            // A server that does not pass descriptors says so, and goes on.
            return Next::Begin(b"BEGIN\r\n");
        }
        if !line.starts_with(b"OK") {
            return Next::Rejected;
        }
        self.is_accepted = true;
        // Without descriptors, a monitor is not shown messages that carry some.
        Next::Send(b"NEGOTIATE_UNIX_FD\r\n")
    }
}

/// What a client has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More lines must come.
    Unfinished,
    /// It said BEGIN: messages follow.
    Begun,
    /// It is not accepted, for this reason, and should be disconnected.
    Failed(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The zero byte has not come.
    Silent,
    WaitingForAuth,
    WaitingForData,
    WaitingForBegin,
}

/// The server's side of one authentication.
#[derive(Debug)]
pub struct Server {
    state: State,
    /// The client's user; `None` if it was authenticated in another way.
    uid: Option<u32>,
    passes_descriptors: bool,
    failures: u32,
}

impl Server {
    /// A server that has received nothing yet, for a client that is this user by the kernel; with `None` it accepts every
    /// client.
    pub fn new(uid: Option<u32>) -> Server {
        Server { state: State::Silent, uid, passes_descriptors: false, failures: 0 }
    }

    /// Has the client asked for descriptors to be passed?
    pub fn passes_descriptors(&self) -> bool {
        self.passes_descriptors
    }

    /// Takes the complete lines from the start of `input`, up to BEGIN, and writes the answers.
    pub fn advance(&mut self, input: &mut Vec<u8>, guid: &str, output: &mut Vec<u8>) -> Progress {
        let mut at = 0;
        if self.state == State::Silent {
            match input.first() {
                None => return Progress::Unfinished,
                Some(0) => (self.state, at) = (State::WaitingForAuth, 1),
                Some(_) => return Progress::Failed("the first byte is not zero"),
            }
        }
        let progress = loop {
            let (line, bytes) = match line(&input[at..]) {
                Ok(Some(found)) => found,
                Ok(None) => break Progress::Unfinished,
                Err(why) => break Progress::Failed(why),
            };
            let Some(line) = std::str::from_utf8(line).ok().filter(|line| line.is_ascii()) else {
                break Progress::Failed("a line of the authentication is not ASCII");
            };
            at += bytes;
            match self.line(line, guid, output) {
                Progress::Unfinished => {}
                done => break done,
            }
        };
        input.drain(..at);
        progress
    }

    fn line(&mut self, line: &str, guid: &str, output: &mut Vec<u8>) -> Progress {
        let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
        let mut say = |answer: &str| {
            output.extend(answer.as_bytes());
            output.extend(b"\r\n");
        };
        match (self.state, command) {
            (State::WaitingForAuth, "AUTH") => {
                let (mechanism, initial) = rest.split_once(' ').unwrap_or((rest, ""));
                match (mechanism, initial) {
                    _ if self.uid.is_none() => {}
                    ("EXTERNAL", "") => {
                        self.state = State::WaitingForData;
                        say("DATA");
                        return Progress::Unfinished;
                    }
                    ("EXTERNAL", identity) if self.is_own(identity) => {}
                    _ => return self.reject(&mut say),
                }
                self.state = State::WaitingForBegin;
                say(&format!("OK {guid}"));
            }
            // Without an identity the client is who it is.
            (State::WaitingForData, "DATA") if rest.is_empty() || self.is_own(rest) => {
                self.state = State::WaitingForBegin;
                say(&format!("OK {guid}"));
            }
            (State::WaitingForData, "DATA" | "CANCEL" | "ERROR")
            | (State::WaitingForAuth, "ERROR" | "CANCEL")
            | (State::WaitingForBegin, "CANCEL" | "ERROR") => return self.reject(&mut say),
            (State::WaitingForBegin, "NEGOTIATE_UNIX_FD") => {
                self.passes_descriptors = true;
                say("AGREE_UNIX_FD");
            }
            (State::WaitingForBegin, "BEGIN") => return Progress::Begun,
            (_, "BEGIN") => return Progress::Failed("it begins before it is authenticated"),
            _ => say("ERROR \"not understood here\""),
        }
        Progress::Unfinished
    }

    fn reject(&mut self, say: &mut dyn FnMut(&str)) -> Progress {
        self.state = State::WaitingForAuth;
        self.passes_descriptors = false;
        self.failures += 1;
        if self.failures >= FAILURES_MAX {
            return Progress::Failed("no way to authenticate is accepted");
        }
        say("REJECTED EXTERNAL");
        Progress::Unfinished
    }

    /// Is this the number of the client's user, in hexadecimal digits of its decimal ones?
    fn is_own(&self, identity: &str) -> bool {
        let own = self.uid.map(|uid| uid.to_string()).unwrap_or_default();
        identity.len() == 2 * own.len()
            && own
                .bytes()
                .enumerate()
                .all(|(at, byte)| u8::from_str_radix(&identity[2 * at..2 * at + 2], 16) == Ok(byte))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a user 1000 is answered, and what stays of the input.
    fn say(pieces: &[&[u8]]) -> (Progress, String, Vec<u8>, bool) {
        let (mut server, mut input, mut output) = (Server::new(Some(1000)), Vec::new(), Vec::new());
        let mut progress = Progress::Unfinished;
        for piece in pieces {
            input.extend_from_slice(piece);
            if progress == Progress::Unfinished {
                progress = server.advance(&mut input, "123", &mut output);
            }
        }
        (progress, String::from_utf8(output).unwrap(), input, server.passes_descriptors())
    }

    #[test]
    fn external_is_accepted_with_and_without_initial_response() {
        let whole: &[u8] = b"\0AUTH EXTERNAL 31303030\r\nNEGOTIATE_UNIX_FD\r\nBEGIN\r\nl\x01";
        let expected = (Progress::Begun, "OK 123\r\nAGREE_UNIX_FD\r\n".into(), b"l\x01".to_vec(), true);
        assert_eq!(say(&[whole]), expected);
        // Byte by byte it is the same.
        let bytes: Vec<&[u8]> = whole.chunks(1).collect();
        assert_eq!(say(&bytes), expected);
        for answer in ["DATA\r\n", "DATA 31303030\r\n"] {
            let text = format!("\0AUTH EXTERNAL\r\n{answer}BEGIN\r\n");
            assert_eq!(
                say(&[text.as_bytes()]),
                (Progress::Begun, "DATA\r\nOK 123\r\n".into(), vec![], false)
            );
        }
    }

    #[test]
    fn everything_else_is_refused() {
        let rejected = "REJECTED EXTERNAL\r\n";
        for line in [
            "AUTH",
            "AUTH ANONYMOUS",
            "AUTH ANONYMOUS 61",
            "AUTH DBUS_COOKIE_SHA1 31",
            "AUTH EXTERNAL 30",
            "AUTH EXTERNAL 3130303",
            "AUTH EXTERNAL 3130303x",
            "AUTH EXTERNAL 313030300",
            "CANCEL",
            "ERROR",
            "AUTH EXTERNAL\r\nDATA 30",
        ] {
            let (progress, answer, ..) = say(&[format!("\0{line}\r\n").as_bytes()]);
            assert_eq!(
                (progress, answer.trim_start_matches("DATA\r\n")),
                (Progress::Unfinished, rejected),
                "{line}"
            );
        }
        assert_eq!(say(&[b"\0NEGOTIATE_UNIX_FD\r\n"]).1, "ERROR \"not understood here\"\r\n");
        for failing in [&b"AUTH\r\n"[..], b"\0BEGIN\r\n", b"\0\xff\r\n", &[0; LINE_BYTES_MAX + 2]] {
            assert!(matches!(say(&[failing]).0, Progress::Failed(_)), "{failing:?}");
        }
        let often = format!("\0{}", "AUTH ANONYMOUS\r\n".repeat(6));
        assert_eq!(say(&[often.as_bytes()]).1, rejected.repeat(5));
    }

    #[test]
    fn line_that_is_too_long_fails_also_when_all_of_it_has_come() {
        let line = format!("\0AUTH {}\r\n", "x".repeat(LINE_BYTES_MAX));
        assert!(matches!(say(&[line.as_bytes()]).0, Progress::Failed(_)));
    }

    #[test]
    fn a_server_accepts_the_client_of_its_user_and_rejects_others() {
        for (uid, accepted) in [(Some(1000), true), (None, true), (Some(1001), false)] {
            let (mut server, mut output) = (Server::new(uid), Vec::new());
            let (mut client, mut input) = Client::new(1000);
            let outcome = loop {
                let progress = server.advance(&mut input, "123", &mut output);
                if progress != Progress::Unfinished {
                    break progress == Progress::Begun && server.passes_descriptors();
                }
                let (answer, bytes) = line(&output).unwrap().unwrap();
                match client.answer(answer) {
                    Next::Send(more) | Next::Begin(more) => input.extend(more),
                    Next::Rejected => break false,
                }
                output.drain(..bytes);
            };
            assert_eq!(outcome, accepted, "{uid:?}");
        }
    }
}
