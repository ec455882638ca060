//! What the bus says of its members to those who look after it.

use causeway_os::socket::Credentials;

use super::Bus;
use crate::limit::Reached;
use crate::log;
use crate::member::MemberId;

/// Well-known names of one connection that a line of the log has.
const MOST_NAMES: usize = 4;

/// A call that asks what connections hold and have done.
#[derive(Clone, Copy, Debug)]
pub struct StatisticsCall {
    pub caller: MemberId,
    pub serial: u32,
    pub about: About,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    One(MemberId),
    /// So many at most, those that hold most first.
    Most(usize),
}

/// Why the bus ends a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// What it is counted under: the name of a limit, or another one of few.
    pub reason: &'static str,
    /// In words.
    pub why: String,
}

impl Eviction {
    /// It does what no client may.
    pub fn protocol(why: &str) -> Eviction {
        Eviction { reason: "protocol", why: why.to_owned() }
    }
}

impl From<Reached> for Eviction {
    fn from(limit: Reached) -> Eviction {
        Eviction { reason: limit.name, why: limit.to_string() }
    }
}

impl Bus {
    /// A member by its names, user, process and program, for the log.
    pub(crate) fn described(&self, id: MemberId) -> String {
        let unique = id.label();
        let Some(member) = self.members.get(&id) else { return unique };
        let Credentials { pid, uid, .. } = member.identity.credentials;
        let names: Vec<&str> = self.names.of(id).iter().take(MOST_NAMES).map(|name| &**name).collect();
        let names = if names.is_empty() { String::new() } else { format!("{}; ", names.join(", ")) };
        // It is read for a line that is said alone.
        let program = if log::has_room() { program(pid) } else { None };
        let program = program.map_or_else(String::new, |program| format!(" {program}"));
        format!("{unique} ({names}user {uid}, process {pid}{program})")
    }
}

/// The name of the program of a process, as the kernel keeps it.
pub fn program(pid: u32) -> Option<String> {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end_matches('\n').replace(char::is_control, "?"))
}
