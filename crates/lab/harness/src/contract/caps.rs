//! What a pattern and a judge of numbers must know about a target, as a set of flags.

/// What a mechanism can do, and what must be known to judge its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps(u32);

impl Caps {
    /// Carries bytes (a signal does not).
    pub const PAYLOAD: Caps = Caps(1);
    /// Both ends send and receive.
    pub const DUPLEX: Caps = Caps(1 << 1);
    /// Sending nothing sends nothing: the smallest message is one byte.
    pub const NEVER_EMPTY: Caps = Caps(1 << 9);
    /// Keeps no message boundaries, so it cannot carry an empty message.
    pub const BYTE_STREAM: Caps = Caps(1 << 2).and(Caps::NEVER_EMPTY);
    /// May lose messages: a stream counts what arrives.
    pub const LOSSY: Caps = Caps(1 << 3);
    /// The receiver reads the sender's bytes where they lie.
    pub const ZERO_COPY: Caps = Caps(1 << 4);
    /// Nothing is exchanged: the harness measures itself.
    pub const HARNESS: Caps = Caps(1 << 5);
    /// Time is advanced by the mechanism itself, so that results are the same on every machine.
    pub const VIRTUAL_TIME: Caps = Caps(1 << 6);
    /// Each message is mapped anew, so page faults belong to it.
    pub const MAPS: Caps = Caps(1 << 7);
    /// Its roles give up the CPU by themselves, which the kernel counts as if they had been preempted.
    pub const YIELDS: Caps = Caps(1 << 8);
    /// Its roles share an address space: they are threads of one process, whatever the case says of its peers.
    pub const ONE_PROCESS: Caps = Caps(1 << 16);
    /// A payload is copied once on its way, and not twice as through a buffer of the kernel.
    pub const ONE_COPY: Caps = Caps(1 << 24);
    /// Nothing at all.
    pub const NONE: Caps = Caps(0);

    /// Both sets together.
    pub const fn and(self, other: Caps) -> Caps {
        Caps(self.0 | other.0)
    }

    /// Are all of `other` in this set?
    pub const fn has(self, other: Caps) -> bool {
        self.0 & other.0 == other.0
    }
}
