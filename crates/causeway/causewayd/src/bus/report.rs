//! What the bus says of its members to those who look after it.

use causeway_os::process::program;
use causeway_os::socket::Credentials;

use super::Bus;
use crate::log;
use crate::member::MemberId;

/// Well-known names of one connection that a line of the log has.
const NAMES_MAX: usize = 4;

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

impl Bus {
    /// A member by its names, user, process and program, for the log.
    pub(crate) fn described(&self, id: MemberId) -> String {
        let unique = id.label();
        let Some(member) = self.members.get(&id) else { return unique };
        let Credentials { pid, uid, .. } = member.identity.credentials;
        let names: Vec<&str> = self.names.of(id).iter().take(NAMES_MAX).map(|name| &**name).collect();
        let names = if names.is_empty() { String::new() } else { format!("{}; ", names.join(", ")) };
        // It is read for a line that is said alone.
        let program = if log::has_room() { program(pid) } else { None };
        let program = program.map_or_else(String::new, |program| format!(" {program}"));
        format!("{unique} ({names}user {uid}, process {pid}{program})")
    }
}
