//! What the bus says of its members to those who look after it.

use causeway_os::socket::Credentials;

use super::Bus;
use crate::log;
use crate::member::MemberId;

/// Well-known names of one connection that a line of the log has.
const MOST_NAMES: usize = 4;

impl Bus {
    /// A member by its names, user, process and program, for the log.
    pub(crate) fn described(&self, id: MemberId) -> String {
        let unique = id.unique_name();
        let Some(member) = self.members.get(&id) else { return unique.to_string() };
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
