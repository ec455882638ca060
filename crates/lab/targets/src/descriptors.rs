//! How many descriptors a case needs, and what to do where that is more than usual.

use causeway_os::limits;
use rustix::process::{Resource, Rlimit, setrlimit};

use weighbridge_harness::contract::Unsupported;

/// Of each role, in the coordinator: process, control socket, counters, and what a mechanism has.
const EACH_ROLE: usize = 8;
/// Of a process beside those of its case, and some to spare.
pub(crate) const OTHERS: usize = 64;

/// May this process, and those that it starts from now on, have the descriptors of so many roles, and `more`? Raises the limit as
/// far as it is needed and allowed. `what` needs them: "2000 streams".
pub(crate) fn fit(roles: usize, more: usize, what: &str) -> Result<(), Unsupported> {
    let needed = others(roles) + more;
    raise(needed as u64).map_err(|most| {
        Unsupported(format!(
            "{what} need {needed} descriptors, and the hard limit RLIMIT_NOFILE is {most}; raise it with \
             ulimit -Hn {needed} as root, or with `* hard nofile {needed}` in /etc/security/limits.conf"
        ))
    })
}

/// Descriptors beside those that are wanted, of so many roles.
pub(crate) const fn others(roles: usize) -> usize {
    roles * EACH_ROLE + OTHERS
}

/// The soft limit is raised to the hard one, and where that is too low and this process may, the hard one too. Otherwise
/// the hard limit.
fn raise(needed: u64) -> Result<(), u64> {
    let (soft, hard) = limits::nofile();
    if soft >= needed {
        return Ok(());
    }
    if hard >= needed {
        return limits::raise_nofile().map(|_| ()).map_err(|_| soft);
    }
    let limit = Rlimit { current: Some(needed), maximum: Some(needed) };
    setrlimit(Resource::Nofile, limit).map_err(|_| hard)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_descriptors_than_any_kernel_gives_are_refused_with_the_limit() {
        let (_, hard) = limits::nofile();
        assert_eq!(fit(1, 1, "one stream"), Ok(()));
        // Above what fs.nr_open can be set to; root may not have them either.
        let Err(Unsupported(why)) = fit(1, 1 << 40, "very many streams") else { panic!("they fit") };
        assert!(why.contains(&format!("RLIMIT_NOFILE is {hard}")) && why.contains("ulimit -Hn"), "{why}");
        assert_eq!(limits::nofile().1, hard);
    }
}
