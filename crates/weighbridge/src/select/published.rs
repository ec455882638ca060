//! Names that another tool has for its rows, as words of a selection: `latency_barrier` is what akbench calls it.

use weighbridge_harness::plan::{Changes, Suite};
use weighbridge_record::CaseId;

/// The suite that repeats akbench.
const AKBENCH: &str = "akbench";

/// A name, and the ids of what it is here: whole, or where they begin if that ends with a slash.
type Name = (&'static str, &'static [&'static str]);

const NAMES: &[Name] = &[
    ("latency_atomic", &["pingpong/atomic/0/free/layout=one-line/peers=thread"]),
    ("latency_atomic_rel_acq", &["pingpong/atomic/0/free/layout=one-line/order=acqrel/peers=thread"]),
    ("latency_barrier", &["pingpong/barrier/"]),
    ("latency_condition_variable", &["pingpong/condvar/"]),
    ("latency_semaphore", &["pingpong/sem-posix/"]),
    ("latency_statfs", &["solo/statfs/"]),
    ("latency_fstatfs", &["solo/fstatfs/"]),
    ("latency_getpid", &["solo/getpid/"]),
    ("latency_all", &["pingpong/", "solo/statfs/", "solo/fstatfs/", "solo/getpid/"]),
    ("bandwidth_memcpy", &["solo/memcpy/"]),
    ("bandwidth_memcpy_mt", &["parallel/memcpy/"]),
    ("bandwidth_tcp", &["stream/tcp/"]),
    ("bandwidth_uds", &["stream/unix-stream/"]),
    ("bandwidth_pipe", &["stream/pipe/"]),
    ("bandwidth_fifo", &["stream/fifo/"]),
    ("bandwidth_mq", &["stream/mq-posix/"]),
    ("bandwidth_mmap", &["stream/buffers-barrier/1048576/free/backing=file/working-set=268435456"]),
    ("bandwidth_shm", &["stream/buffers-barrier/1048576/free/backing=shm/working-set=268435456"]),
    ("bandwidth_all", &["solo/memcpy/", "parallel/memcpy/", "stream/"]),
];

/// Rows of another tool.
#[derive(Clone, Copy)]
pub struct Rows {
    /// The suite that has them.
    pub suite: &'static Suite,
    starts: &'static [&'static str],
}

impl Rows {
    /// What a word names, if another tool has such a name.
    pub fn find(word: &str) -> Option<Rows> {
        let (_, starts) = NAMES.iter().find(|(name, _)| *name == word)?;
        Some(Rows { suite: Suite::find(AKBENCH)?, starts })
    }

    /// Their cases.
    pub fn cases(&self, changes: &Changes) -> Vec<CaseId> {
        let mut ids = self.suite.cases(changes);
        ids.retain(|id| self.has(&id.to_string()));
        ids
    }

    fn has(&self, id: &str) -> bool {
        self.starts.iter().any(|start| id == *start || start.ends_with('/') && id.starts_with(start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_its_rows_and_every_row_of_the_suite_a_name_of_its_own() {
        crate::register();
        let of = |name: &str| Rows::find(name).unwrap().cases(&Changes::default()).len();
        for (name, _) in NAMES {
            let expected = match *name {
                "latency_all" => 8,
                "bandwidth_all" => 12,
                "bandwidth_memcpy_mt" => 4,
                _ => 1,
            };
            assert_eq!(of(name), expected, "{name}");
        }
        assert!(Rows::find("latency_nothing").is_none());
    }
}
