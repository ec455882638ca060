//! How many descriptors a case needs, and what to do where that is more than usual.

use causeway_os::limits;
use rustix::process::{Resource, Rlimit, setrlimit};

use weighbridge_harness::contract::Unsupported;

/// May this process, and those that it starts from now on, have `needed` descriptors? Raises the limit as far as it is
/// needed and allowed. `what` needs them: "2000 streams".
pub fn fit(needed: usize, what: &str) -> Result<(), Unsupported> {
    match raise(needed as u64) {
        Ok(()) => Ok(()),
        Err(most) => Err(Unsupported(format!(
            "{what} need {needed} descriptors, and the hard limit RLIMIT_NOFILE is {most}; raise it with \
             ulimit -Hn {needed} as root, or with `* hard nofile {needed}` in /etc/security/limits.conf"
        ))),
    }
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
        assert_eq!(fit(1, "one stream"), Ok(()));
        // Above what fs.nr_open can be set to; root may not have them either.
        let Err(Unsupported(why)) = fit(1 << 40, "very many streams") else { panic!("they fit") };
        assert!(why.contains(&format!("RLIMIT_NOFILE is {hard}")) && why.contains("ulimit -Hn"), "{why}");
        assert_eq!(limits::nofile().1, hard);
    }
}
