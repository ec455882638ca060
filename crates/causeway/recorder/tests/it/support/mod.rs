//! Recorders, and what is in their files: read with the library `mcap` itself, not with the code that is tested.

use std::io::PipeWriter;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use causeway::{Group, GroupOptions, TryPublishError};
use causeway_bus::AuthorityOptions;
use causeway_testkit::{Running, has_program};
pub use causeway_testkit::{TempDir, eventually, temp_dir};
use mcap::records::{Channel, Record};
use mcap::sans_io::linear_reader::{LinearReadEvent, LinearReader, LinearReaderOptions};
use serde_json::Value;

/// The program, with these arguments.
pub fn recorder(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_causeway-record"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A bus in this process, which ends with what is returned.
pub fn serve_bus(path: &Path) -> PipeWriter {
    let (end, stop) = std::io::pipe().unwrap();
    let (ready, is_ready) = std::sync::mpsc::channel();
    let path = path.to_owned();
    std::thread::spawn(move || {
        causewayd::serve_alone(&path, AuthorityOptions::default(), &end.into(), || ready.send(()).unwrap())
            .unwrap();
    });
    is_ready.recv().unwrap();
    stop
}

/// A recorder of a bus, which has begun.
pub fn record_bus(native: &Path, file: &str, options: &[&str]) -> Running {
    let running = Running::start(recorder(&[native.to_str().unwrap(), "-o", file]).args(options));
    eventually("no file", || std::fs::metadata(file).is_ok_and(|is| is.len() > 0));
    running
}

/// A group that is served in this process.
pub struct Served {
    pub folder: TempDir,
    pub group: Option<Group>,
}

impl Served {
    pub fn new(options: GroupOptions) -> Served {
        let folder = temp_dir("recorder");
        let group = Group::create("recorded", options).unwrap();
        group.serve_at(folder.path().join("group")).unwrap();
        Served { folder, group: Some(group) }
    }

    pub fn group(&self) -> &Group {
        self.group.as_ref().unwrap()
    }

    pub fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// Starts a recorder, and waits until it has joined.
    pub fn record(&self, file: &str, options: &[&str]) -> Running {
        let mut command = recorder(&[&self.path("group"), "-o", &self.path(file)]);
        let running = self.joined(Running::start(command.args(options)));
        eventually("the file has no beginning", || {
            std::fs::metadata(self.path(file)).is_ok_and(|is| is.len() > 0)
        });
        running
    }

    pub fn joined(&self, mut running: Running) -> Running {
        eventually("no recorder has joined", || {
            if let Ok(Some(status)) = running.0.try_wait() {
                panic!("the recorder has ended with {status}");
            }
            self.group().report().unwrap().subscribers.len() == 1
        });
        running
    }

    pub fn received(&self, messages: u64) {
        eventually("not everything is recorded", || {
            self.group().report().unwrap().subscribers[0].received >= messages
        });
    }
}

/// What a recorder has said at its end: exit code and text.
pub fn end(mut running: Running) -> (i32, String) {
    let (stderr, status) = (running.0.stderr.take(), running.wait());
    let said = stderr.map(|stderr| std::io::read_to_string(stderr).unwrap()).unwrap_or_default();
    (status.code().unwrap_or(-1), said)
}

/// What `verify --json` says, and its exit code; nothing but the sentence where it failed.
pub fn verified(files: &[&str]) -> (i32, Result<Value, String>) {
    let Output { status, stdout, stderr } = recorder(&["verify", "--json"]).args(files).output().unwrap();
    let counts = serde_json::from_slice(&stdout).map_err(|_| String::from_utf8(stderr).unwrap());
    (status.code().unwrap(), counts)
}

/// The program `mcap`, which others wrote: CAUSEWAY_MCAP, or that on the path.
const MCAP: &str = "CAUSEWAY_MCAP";

/// Whether the program `mcap` is there; prints the skip of the test if not.
pub fn has_mcap() -> bool {
    std::env::var_os(MCAP).is_some() || has_program("mcap")
}

/// A command of it.
pub fn mcap(arguments: &[&str]) -> Output {
    let program = std::env::var_os(MCAP).unwrap_or_else(|| "mcap".into());
    Command::new(program).args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// A message as it is in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    pub topic: String,
    pub encoding: String,
    pub sequence: u32,
    pub log_ns: u64,
    pub publish_ns: u64,
    pub data: Vec<u8>,
}

/// What is in a file: messages, entries of the frames channel, losses, and whether it is whole.
#[derive(Debug, Default)]
pub struct Contents {
    pub messages: Vec<Recorded>,
    /// Position, epoch and slot of each.
    pub frames: Vec<(u64, u32, u16)>,
    pub lost: u64,
    pub is_whole: bool,
    pub metadata: Vec<mcap::records::Metadata>,
}

pub fn contents(path: impl AsRef<Path>) -> Contents {
    let bytes = std::fs::read(path).unwrap();
    let options = LinearReaderOptions::default().with_prevalidate_chunk_crcs(true);
    let (mut reader, mut rest) = (LinearReader::new_with_options(options), &bytes[..]);
    let (mut found, mut channels) = (
        Contents { is_whole: true, ..Contents::default() },
        std::collections::HashMap::<u16, Channel>::new(),
    );
    let mut last_ns = 0;
    while let Some(event) = reader.next_event() {
        let (opcode, data) = match event {
            Ok(LinearReadEvent::ReadRequest(want)) => {
                let (piece, left) = rest.split_at(want.min(rest.len()));
                reader.insert(piece.len()).copy_from_slice(piece);
                reader.notify_read(piece.len());
                rest = left;
                continue;
            }
            Ok(LinearReadEvent::Record { opcode, data }) => (opcode, data),
            Err(mcap::McapError::UnexpectedEof) => {
                found.is_whole = false;
                break;
            }
            Err(error) => panic!("{error}"),
        };
        match mcap::parse_record(opcode, data).unwrap() {
            Record::Channel(channel) => {
                channels.insert(channel.id, channel);
            }
            Record::Metadata(metadata) => found.metadata.push(metadata),
            Record::Message { header, data } => {
                assert!(header.log_time >= last_ns, "log_time goes back: doctors complain");
                last_ns = header.log_time;
                let channel = &channels[&header.channel_id];
                match channel.topic.as_str() {
                    "/causeway/frames" => found.frames.extend(data.chunks_exact(16).map(|entry| {
                        let number = |at: usize, length: usize| {
                            entry[at..at + length]
                                .iter()
                                .rev()
                                .fold(0, |number, byte| number << 8 | u64::from(*byte))
                        };
                        (number(0, 8), number(8, 4) as u32, number(12, 2) as u16)
                    })),
                    "/causeway/loss" => {
                        let loss: Value = serde_json::from_slice(&data).unwrap();
                        found.lost += loss["messages"].as_u64().unwrap();
                    }
                    topic => found.messages.push(Recorded {
                        topic: topic.to_owned(),
                        encoding: channel.message_encoding.clone(),
                        sequence: header.sequence,
                        log_ns: header.log_time,
                        publish_ns: header.publish_time,
                        data: data.into_owned(),
                    }),
                }
            }
            _ => {}
        }
    }
    found
}

/// Publishes, and is not kept waiting: a recorder never is a reason to.
pub fn publish_now(publisher: &mut causeway::Publisher, payload: &[u8]) -> u64 {
    match publisher.try_publish(payload) {
        Ok(position) => position.0,
        Err(TryPublishError::Full) => panic!("a publisher waits for the recorder"),
        Err(error) => panic!("{error}"),
    }
}

/// The payload of message `number`, which does not compress.
pub fn payload(number: u64, bytes: usize) -> Vec<u8> {
    let mut random = causeway_testkit::Rng::with_seed(number);
    let mut payload = number.to_le_bytes().to_vec();
    payload.resize_with(bytes.max(8), || random.u8(..));
    payload
}

/// Which message it is; its bytes must be those.
pub fn number(message: &Recorded) -> u64 {
    let number = u64::from_le_bytes(message.data[..8].try_into().unwrap());
    assert!(message.data == payload(number, message.data.len()), "the bytes of message {number} are others");
    number
}

/// A group at a path, once it is served.
pub fn eventually_joined(path: &str) -> Group {
    causeway_testkit::eventually_some("nobody serves the group", || Group::join(path).ok())
}
