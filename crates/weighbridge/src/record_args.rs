//! What was typed after `weighbridge record`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What stands below the commands.
pub const AFTER_HELP: &str = "\
The program `weighbridge-fleet` does it, beside this one or on PATH: libraries of object stores are in it and not here. It also has the reports \
over all machines: weighbridge-fleet --help.

Examples:
  weighbridge record push s3://bucket/fleet spool/
  weighbridge record parquet weighbridge-20260102-030405.jsonl";

#[derive(Debug, Args)]
pub struct Record {
    #[command(subcommand)]
    pub command: Command,
}

/// What happens to records.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Put records into a store that many machines share; safe to repeat. Exit code: 0 done, 2 never works, 75 the store is away
    Push {
        /// A folder, file://, s3://, gs:// or az://; credentials come from the environment
        url: OsString,
        /// Records, or folders with records
        #[arg(required = true, value_name = "RECORD")]
        records: Vec<PathBuf>,
        /// For how long a request that fails is made again
        #[arg(long, value_name = "SECONDS")]
        patience: Option<u64>,
    },
    /// Write the table of a record's cases as a Parquet file
    Parquet {
        /// The record
        record: PathBuf,
        /// The file [default: the name of the record with .parquet]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
}

impl Command {
    /// The same for the program that does it.
    pub fn words(&self) -> Vec<OsString> {
        let option = |name: &str, value: Option<OsString>| {
            value.into_iter().flat_map(|value| [name.into(), value]).collect::<Vec<OsString>>()
        };
        match self {
            Command::Push { url, records, patience } => {
                let patience = option("--patience", patience.map(|seconds| seconds.to_string().into()));
                let records = records.iter().map(|path| path.clone().into_os_string());
                ["push".into()].into_iter().chain(patience).chain(["--".into(), url.clone()]).chain(records).collect()
            }
            Command::Parquet { record, out } => {
                let out = option("--out", out.clone().map(PathBuf::into_os_string));
                ["parquet".into()].into_iter().chain(out).chain(["--".into(), record.clone().into()]).collect()
            }
        }
    }
}
