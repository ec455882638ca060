//! What can be typed.

use std::path::PathBuf;
use std::time::Duration;

use causeway_waiting::duration;
use clap::{Args, Parser, Subcommand};

use crate::lists::{GroupPlace, Names};

const AFTER_HELP: &str = "\
Nothing crosses that is not in a list: --export on the host that has it, --import on the one that wants it. \
What never crosses: file descriptors, payloads in shared memory, and one order of the messages of several hosts.

Example, a ticker on one host and its readers on another:
  causeway-bridge --realm home --group /run/prices --export prices --router tcp/router:7447
  causeway-bridge --realm home --group /run/prices --import prices --router tcp/router:7447

Exit code: 0 ended by SIGINT or SIGTERM, 2 a mistake in what was typed, 3 it failed. A router, a group or a bus that is not there is \
waited for, and said.";

/// Carry groups, names, calls and signals of Causeway to other machines, over Zenoh.
#[derive(Debug, Parser)]
#[command(
    name = "causeway-bridge", version, about, after_help = AFTER_HELP,
    args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, disable_help_subcommand = true
)]
pub struct Arguments {
    /// What to do instead
    #[command(subcommand)]
    pub command: Option<Command>,
    /// How to bridge
    #[command(flatten)]
    pub bridge: BridgeArguments,
}

/// Other things than bridging.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Say for each route what was sent, acknowledged, lost and sent again, what waits, and what went wrong last
    Stat(StatArguments),
    /// Show a ticker and a call that cross between two hosts on this machine: network namespaces where that is allowed, else folders
    Demo(DemoArguments),
    /// Make certificates: an authority for the realm, and for each host a folder that --tls takes
    Tls(TlsArguments),
    /// Print the manual page
    Man,
    /// Route between bridges, where there is no zenohd: for tries and tests
    Router(RouterArguments),
}

/// How to bridge.
#[derive(Clone, Debug, Args)]
pub struct BridgeArguments {
    /// Bridges with the same realm hear each other
    #[arg(long, value_name = "NAME", required = true)]
    pub realm: Option<String>,
    /// The name of this host in the realm; that of the machine by default
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// The socket of a group, and the topics that may cross, all by default, as in /run/prices:1,5-9; may be given again
    #[arg(long = "group", value_name = "PATH[:TOPICS]", value_parser = GroupPlace::parse)]
    pub groups: Vec<GroupPlace>,
    /// The native socket of a bus
    #[arg(long, value_name = "PATH")]
    pub bus: Option<PathBuf>,
    /// Groups and names of the bus that may go out, with commas between them; com.example.* stands for all that begin so
    #[arg(long = "export", value_name = "NAMES", value_parser = Names::parse)]
    pub exports: Vec<Names>,
    /// Groups and names of the bus that may come in
    #[arg(long = "import", value_name = "NAMES", value_parser = Names::parse)]
    pub imports: Vec<Names>,
    /// A router of Zenoh, such as tcp/10.0.0.1:7447 or tls/router:7447; several are alternatives. Without one, bridges of this machine
    /// find each other on loopback
    #[arg(long = "router", value_name = "ENDPOINT")]
    pub routers: Vec<String>,
    /// Where to listen without a router, such as tcp/10.0.0.1:7448; loopback by default
    #[arg(long, value_name = "ENDPOINT", conflicts_with = "routers")]
    pub listen: Vec<String>,
    /// A folder with ca.pem, cert.pem and key.pem, for endpoints that begin with tls/
    #[arg(long, value_name = "FOLDER")]
    pub tls: Option<PathBuf>,
    /// An end that gives no sign of life for this time is gone, and so are its names
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    pub lease: Duration,
    /// How long local publishers wait for what no other end has acknowledged, in all
    #[arg(long, value_name = "TIME", default_value = "250ms", value_parser = time)]
    pub patience: Duration,
    /// Send each message by itself: for programs of Zenoh that subscribe to busy groups. Otherwise small messages of one topic that are
    /// there at once go in one, which only bridges take apart
    #[arg(long)]
    pub no_packs: bool,
    /// How long a call may take
    #[arg(long, value_name = "TIME", default_value = "25s", value_parser = time)]
    pub call_timeout: Duration,
    /// Publish what was lost on the way into the groups, too, with this topic: {"host":"a","lost":3}
    #[arg(long, value_name = "TOPIC")]
    pub loss_topic: Option<u32>,
    /// Where this program notes what was passed, and answers `stat`
    #[arg(long, value_name = "FOLDER")]
    pub state: Option<PathBuf>,
    /// Write metrics in the text format of OpenMetrics into a file, which is replaced every five seconds
    #[arg(long, value_name = "FILE")]
    pub metrics: Option<PathBuf>,
}

/// Which bridge is asked, and in which form it answers.
#[derive(Debug, Args)]
pub struct StatArguments {
    /// The folder that the bridge was given with --state
    #[arg(long, value_name = "FOLDER")]
    pub state: Option<PathBuf>,
    /// As JSON, a line for each bridge
    #[arg(long, conflicts_with = "metrics")]
    pub json: bool,
    /// In the text format of OpenMetrics
    #[arg(long)]
    pub metrics: bool,
}

/// How hosts are made.
#[derive(Debug, Args)]
pub struct DemoArguments {
    /// Two folders, also where network namespaces are allowed
    #[arg(long)]
    pub folders: bool,
}

/// Which certificates are made.
#[derive(Debug, Args)]
pub struct TlsArguments {
    /// Where; an authority that is there is used
    pub folder: PathBuf,
    /// The hosts, whose names become those of the certificates, the router among them
    #[arg(required = true)]
    pub hosts: Vec<String>,
    /// Further names and addresses under which others connect to these hosts
    #[arg(long = "address", value_name = "NAME")]
    pub addresses: Vec<String>,
}

/// Where a router listens.
#[derive(Debug, Args)]
pub struct RouterArguments {
    /// Where to listen
    #[arg(long, value_name = "ENDPOINT", default_value = "tcp/127.0.0.1:7447")]
    pub listen: Vec<String>,
    /// A configuration file of Zenoh, with access rules for example
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// A folder with ca.pem, cert.pem and key.pem, for endpoints that begin with tls/
    #[arg(long, value_name = "FOLDER")]
    pub tls: Option<PathBuf>,
    /// Other routers to connect to
    #[arg(long, value_name = "ENDPOINT")]
    pub connect: Vec<String>,
}

fn time(text: &str) -> Result<Duration, String> {
    duration::parse(text, None)
}
