//! Which bus a command is about.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::failure::Failure;

/// The options that name a bus.
#[derive(Args)]
pub struct Which {
    /// The native socket of the bus; by default the one that CAUSEWAY_BUS names
    #[arg(long, global = true, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// The D-Bus socket of the bus, such as unix:path=/run/user/1000/bus; by default the one that DBUS_SESSION_BUS_ADDRESS names, or $XDG_RUNTIME_DIR/bus
    #[arg(long, global = true, value_name = "ADDRESS")]
    pub address: Option<String>,
}

/// A bus, by one of its sockets.
#[derive(Debug, PartialEq, Eq)]
pub enum Bus {
    /// Its native socket.
    Native(PathBuf),
    /// The addresses of its D-Bus sockets.
    Gateway(String),
}

impl Which {
    /// The bus that the options name, or the environment.
    ///
    /// # Errors
    /// Both options are there, or nothing names a bus.
    pub fn bus(&self) -> Result<Bus, Failure> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        match (&self.socket, &self.address) {
            (Some(_), Some(_)) => Err(Failure::Usage(
                "--socket and --address name one bus each; leave one of them out".into(),
            )),
            (Some(path), None) => Ok(Bus::Native(path.clone())),
            (None, Some(address)) => Ok(Bus::Gateway(address.clone())),
            (None, None) => match variable("CAUSEWAY_BUS") {
                Some(path) => Ok(Bus::Native(path.into())),
                None => weighbridge_dbus_client::session().map(Bus::Gateway).map_err(|_| {
                    Failure::Usage(
                        "say which bus: --socket PATH or --address ADDRESS; neither CAUSEWAY_BUS nor DBUS_SESSION_BUS_ADDRESS names one, and $XDG_RUNTIME_DIR/bus is not there"
                            .into(),
                    )
                }),
            },
        }
    }
}

/// Why a native socket cannot be joined, with what to do about it.
pub fn not_joined(path: &Path, error: causeway_bus::Error) -> Failure {
    let number = match &error {
        causeway_bus::Error::Os(error) => error.raw_os_error(),
        _ => None,
    };
    const ENOENT: i32 = 2;
    const EPROTOTYPE: i32 = 91;
    const ECONNREFUSED: i32 = 111;
    match number {
        Some(EPROTOTYPE) => Failure::Usage(format!(
            "{0} is no native socket; if a D-Bus is served there, write --address unix:path={0}",
            path.display()
        )),
        Some(ENOENT | ECONNREFUSED) => Failure::Usage(format!(
            "no bus is served at {}: {error}; `causeway bus start` starts one",
            path.display()
        )),
        _ => Failure::Names(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_counts_more_than_the_environment_and_two_are_refused() {
        let which = |socket: Option<&str>, address: Option<&str>| Which {
            socket: socket.map(PathBuf::from),
            address: address.map(str::to_owned),
        };
        assert!(matches!(which(Some("/a"), None).bus(), Ok(Bus::Native(path)) if path == Path::new("/a")));
        assert!(
            matches!(which(None, Some("unix:path=/b")).bus(), Ok(Bus::Gateway(address)) if address == "unix:path=/b")
        );
        assert!(
            matches!(which(Some("/a"), Some("b")).bus(), Err(Failure::Usage(why)) if why.contains("leave one"))
        );
    }
}
