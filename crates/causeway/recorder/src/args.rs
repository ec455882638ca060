//! What can be typed.

use std::path::PathBuf;
use std::time::Duration;

use causeway_waiting::duration;
use clap::{Args, Parser, Subcommand, ValueEnum};

const EXIT_CODES: &str = "Exit code: 0 nothing was lost, 1 messages were lost and are counted in the file, 2 a mistake in what was typed, \
3 it failed. SIGINT and SIGTERM end a recording as the end of its group does.";

/// Record a group or a bus of Causeway in MCAP files.
#[derive(Debug, Parser)]
#[command(
    name = "causeway-record", version, about, after_help = EXIT_CODES,
    args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, disable_help_subcommand = true
)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub record: RecordArguments,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check that every message is there or counted as lost, and every checksum, offset and count
    Verify(VerifyArguments),
    /// Publish or send what was recorded of a group or a bus, in the order in which it was
    Replay(ReplayArguments),
}

#[derive(Debug, Args)]
pub struct RecordArguments {
    /// The socket of a group, or the native socket of a bus; without one, that of the session's bus
    pub socket: Option<PathBuf>,
    /// The file to make, which only this user can read. One that exists is not replaced
    #[arg(short, long, value_name = "FILE", required = true)]
    pub output: Option<PathBuf>,
    /// Have each chunk on the disk before the next one begins (fdatasync)
    #[arg(long)]
    pub sync: bool,
    /// How chunks are compressed
    #[arg(long, value_enum, default_value_t = Compress::Lz4)]
    pub compression: Compress,
    /// Begin another file once one has so many bytes: FILE.mcap, FILE.1.mcap, FILE.2.mcap …
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1 << 20..))]
    pub split: Option<u64>,
    /// Memory for messages that wait for the disk, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20, value_parser = clap::value_parser!(u64).range(1 << 20..))]
    pub ring: u64,
    /// Begin with the oldest message that is still in the log of the group
    #[arg(long)]
    pub oldest: bool,
    /// What the payloads of a topic are: a schema, whose file says by its name of which kind it is
    ///
    /// .json is a JSON Schema, .binpb, .desc and .fds a FileDescriptorSet of protobuf, .bfbs one of FlatBuffers, .msg
    /// and .idl those of ROS 2 (encoding cdr). NAME is the type's; without it, it is the file's, up to the last point.
    /// Readers such as Foxglove need it; Causeway does not look into payloads.
    #[arg(long, value_name = "TOPIC=FILE[,NAME]", value_parser = schema)]
    pub schema: Vec<SchemaArgument>,
    /// Say what each message of a bus says in JSON, too, for readers that do not know D-Bus
    #[arg(long)]
    pub json: bool,
}

/// The schema of a topic, which is read once the recording begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaArgument {
    pub topic: u32,
    pub file: PathBuf,
    pub name: String,
    pub kind: SchemaKind,
}

/// How a schema, and what it describes, is encoded: in the words of MCAP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchemaKind {
    pub schema: &'static str,
    pub message: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Compress {
    Lz4,
    None,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Exit code: 0 nothing is missing, 1 messages are missing and it is known which, 2 a mistake in what was typed, \
3 a file cannot be read, or messages are missing that nothing accounts for."
)]
pub struct VerifyArguments {
    /// The files of one recording, in their order
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Print the counts as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ReplayArguments {
    /// The file
    pub file: PathBuf,
    /// Where to serve a new group, or a new bus for native members, with these messages
    pub socket: PathBuf,
    /// Publish or send into the group or the bus that another process serves there
    #[arg(long)]
    pub into: bool,
    /// How many times as fast as it was, such as 0.5 or 10; `max` waits for nothing but subscribers
    #[arg(long, default_value = "1", value_parser = speed)]
    pub speed: Speed,
    /// Publish nothing before so many subscribers, or members of the bus, have joined
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub wait_for_subscribers: u32,
    /// How long subscribers have to read the end of a new group, or members to leave a new bus, before it ends
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    pub linger: Duration,
}

/// How the gaps between messages are kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    Times(f64),
    NoGaps,
}

fn speed(text: &str) -> Result<Speed, String> {
    if text == "max" {
        return Ok(Speed::NoGaps);
    }
    let times = text.parse().ok().filter(|times: &f64| *times > 0.0 && times.is_finite());
    times.map(Speed::Times).ok_or_else(|| "write a number above 0, as in 0.5 or 10, or max".into())
}

fn time(text: &str) -> Result<Duration, String> {
    duration::parse(text, None)
}

fn schema(text: &str) -> Result<SchemaArgument, String> {
    let usage = || "write the number of a topic and a file, as in 3=prices.json".to_owned();
    let (topic, file) = text.split_once('=').ok_or_else(usage)?;
    let topic = topic.parse().map_err(|_| usage())?;
    let (file, name) = file.rsplit_once(',').map_or((file, None), |(file, name)| (file, Some(name)));
    let file = PathBuf::from(file);
    let extension = file.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let (schema, message) = match extension {
        "json" => ("jsonschema", "json"),
        "binpb" | "desc" | "fds" => ("protobuf", "protobuf"),
        "bfbs" => ("flatbuffer", "flatbuffer"),
        "msg" => ("ros2msg", "cdr"),
        "idl" => ("ros2idl", "cdr"),
        other => {
            return Err(format!(
                "a file that ends with `.{other}` is no schema; use one of .json, .binpb, .desc, .fds, .bfbs, .msg and .idl"
            ));
        }
    };
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let name = name.unwrap_or(stem).to_owned();
    Ok(SchemaArgument { topic, file, name, kind: SchemaKind { schema, message } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_named_by_its_file_or_after_it() {
        let of = |text: &str| schema(text).map(|of| (of.topic, of.name, of.kind.schema, of.kind.message));
        assert_eq!(
            of("3=a/com.example.Price.binpb"),
            Ok((3, "com.example.Price".into(), "protobuf", "protobuf"))
        );
        assert_eq!(
            of("0=pose.msg,geometry_msgs/msg/Pose"),
            Ok((0, "geometry_msgs/msg/Pose".into(), "ros2msg", "cdr"))
        );
        assert!(of("prices.json").is_err_and(|why| why.contains("3=prices.json")));
        assert!(of("x=prices.json").is_err_and(|why| why.contains("3=prices.json")));
        assert!(of("1=prices.txt").is_err_and(|why| why.contains(".binpb")));
    }
}
