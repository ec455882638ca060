//! `weighbridge dbus`: what a D-Bus does, who gets what, and which match rules are to blame.

mod analyse;
mod capture;
mod costs;
mod exam;
mod lint;
mod ping_pong;
mod read;
mod replay;
mod sections;
mod traffic;
mod watch;

use crate::dbus_args::{Command, Dbus};
use crate::{Exit, Failure};

pub fn dbus(args: &Dbus) -> Result<Exit, Failure> {
    match &args.command {
        Command::Capture(args) => capture::capture(args),
        Command::Analyse(args) => analyse::analyse(args),
        Command::Lint(args) => lint::lint(args),
        Command::Exam(args) => exam::exam(args),
        Command::Replay(args) => replay::replay(args),
        Command::PingPong(args) => ping_pong::ping_pong(args),
    }
}
