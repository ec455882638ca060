//! Starters: a file for each way to run a plan on many machines. Each is run by a test as it stands.

/// A starter.
#[derive(Clone, Copy, Debug)]
pub struct Example {
    /// What it is asked for by.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// The file.
    pub text: &'static str,
}

/// All of them.
pub const EXAMPLES: &[Example] = &[
    Example {
        name: "slurm",
        about: "an array job, a task for each node",
        text: include_str!("../starters/slurm.sh"),
    },
    Example {
        name: "kubernetes",
        about: "an Indexed Job with whole CPUs",
        text: include_str!("../starters/kubernetes.yaml"),
    },
    Example {
        name: "parallel",
        about: "GNU parallel over ssh",
        text: include_str!("../starters/parallel.sh"),
    },
    Example { name: "ansible", about: "a playbook", text: include_str!("../starters/ansible.yaml") },
];
