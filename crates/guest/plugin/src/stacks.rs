//! Call stacks of a kernel, from the addresses at which calls store and returns load.
//!
//! A plugin sees no registers, but it sees where a call stores its return address. That names the thread: each thread of the
//! kernel has a stack of its own in a region that is aligned to its size. A frame lives until its address, or a lower one, is used again by a
//! call, or a return loads from its address or a higher one. So a switch to another thread, code that drops frames without a return, and returns
//! that nobody called need no rules of their own: the next call or return says where the stack is.

use std::collections::HashMap;

use crate::counts::FastHash;

/// Stacks of the kernel on x86-64 have 16 KiB (`THREAD_SIZE`, `IRQ_STACK_SIZE`) and are aligned to that.
const REGION_BITS: u32 = 14;

/// A call stack, by the places of its calls: an index into a tree. The root is the empty one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node(pub u32);

impl Node {
    /// No call at all: user mode, and the kernel's entry from it.
    pub const ROOT: Node = Node(0);
}

/// A call that has not returned.
#[derive(Clone, Copy, Debug)]
struct Frame {
    /// Where its return address is stored.
    at: u64,
    /// The stack from which it was called.
    caller: Node,
    /// The stack inside of it.
    node: Node,
}

/// The stacks of all threads, and which of them runs.
#[derive(Debug)]
pub struct Stacks {
    regions: HashMap<u64, Vec<Frame>, FastHash>,
    /// Of each node but the root its parent, and the address of the call in it.
    nodes: Vec<(Node, u64)>,
    children: HashMap<(Node, u64), Node, FastHash>,
    current: Node,
}

impl Default for Stacks {
    fn default() -> Stacks {
        Stacks {
            regions: HashMap::default(),
            nodes: vec![(Node::ROOT, 0)],
            children: HashMap::default(),
            current: Node::ROOT,
        }
    }
}

impl Stacks {
    /// The call stack of what runs now.
    pub fn current(&self) -> Node {
        self.current
    }

    /// The program runs in user mode, where calls are not followed.
    pub fn enter_user_mode(&mut self) {
        self.current = Node::ROOT;
    }

    /// The call at `site` has stored its return address at `at`.
    pub fn call(&mut self, site: u64, at: u64) {
        let frames = self.regions.entry(at >> REGION_BITS).or_default();
        // Stacks grow down: what lies lower was dropped.
        while frames.last().is_some_and(|frame| frame.at <= at) {
            frames.pop();
        }
        // On an empty stack, which is that of an interrupt or of a fresh entry, the caller is what ran until now.
        let caller = frames.last().map_or(self.current, |frame| frame.node);
        let next = Node(self.nodes.len() as u32);
        let node = *self.children.entry((caller, site)).or_insert(next);
        if node == next {
            self.nodes.push((caller, site));
        }
        frames.push(Frame { at, caller, node });
        self.current = node;
    }

    /// A return has loaded its address from `at`.
    pub fn ret(&mut self, at: u64) {
        let frames = self.regions.entry(at >> REGION_BITS).or_default();
        let mut own = None;
        while let Some(frame) = frames.last().copied().filter(|frame| frame.at <= at) {
            own = (frame.at == at).then_some(frame.caller);
            frames.pop();
        }
        // One that no call belongs to: the end of an indirect jump, or the first of a thread that was not seen before.
        self.current = own.or(frames.last().map(|frame| frame.node)).unwrap_or(Node::ROOT);
    }

    /// Every node but the root, in the order of their numbers from 1: its parent, and the address of the call in it.
    pub fn nodes(&self) -> &[(Node, u64)] {
        &self.nodes[1..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: u64 = 0xffff_c900_0000_4000;
    const B: u64 = 0xffff_c900_0000_8000;

    /// The places of the calls of the current stack, the outermost first.
    fn sites(stacks: &Stacks) -> Vec<u64> {
        let mut sites = Vec::new();
        let mut node = stacks.current();
        while node != Node::ROOT {
            let (parent, site) = stacks.nodes[node.0 as usize];
            sites.insert(0, site);
            node = parent;
        }
        sites
    }

    #[test]
    fn calls_nest_and_returns_undo_them() {
        let mut stacks = Stacks::default();
        stacks.call(1, A + 0x800);
        stacks.call(2, A + 0x700);
        assert_eq!(sites(&stacks), [1, 2]);
        stacks.ret(A + 0x700);
        stacks.call(3, A + 0x700);
        assert_eq!(sites(&stacks), [1, 3]);
        stacks.ret(A + 0x700);
        stacks.ret(A + 0x800);
        assert_eq!(stacks.current(), Node::ROOT);
        let again = stacks.nodes().len();
        stacks.call(1, A + 0x800);
        stacks.call(2, A + 0x700);
        assert_eq!(stacks.nodes().len(), again, "a stack that was there before has its number");
    }

    #[test]
    fn a_switch_of_threads_changes_stacks_where_the_next_return_shows_it() {
        let mut stacks = Stacks::default();
        stacks.call(1, A + 0x800);
        stacks.call(2, A + 0x700);
        stacks.enter_user_mode();
        stacks.call(5, B + 0x800);
        stacks.call(6, B + 0x780);
        // B's inner function changes the stack pointer; what it returns to is A's.
        stacks.ret(A + 0x700);
        assert_eq!(sites(&stacks), [1]);
        stacks.ret(B + 0x780);
        assert_eq!(sites(&stacks), [5]);
    }

    #[test]
    fn an_interrupt_on_a_stack_of_its_own_continues_that_of_what_it_interrupts() {
        let mut stacks = Stacks::default();
        stacks.call(1, A + 0x800);
        stacks.call(2, B + 0xff0);
        stacks.call(3, B + 0xf00);
        assert_eq!(sites(&stacks), [1, 2, 3]);
        stacks.ret(B + 0xf00);
        stacks.ret(B + 0xff0);
        assert_eq!(sites(&stacks), [1]);
    }

    #[test]
    fn frames_that_were_dropped_without_a_return_are_forgotten() {
        let mut stacks = Stacks::default();
        stacks.call(1, A + 0x800);
        stacks.call(2, A + 0x700);
        stacks.call(3, A + 0x600);
        // The function at 2 went back to its caller by other means, which calls again.
        stacks.call(4, A + 0x700);
        assert_eq!(sites(&stacks), [1, 4]);
        stacks.call(5, A + 0x600);
        stacks.ret(A + 0x800);
        assert_eq!(stacks.current(), Node::ROOT);
        // A return that jumps: a call stored elsewhere, and the address was replaced.
        stacks.call(6, A + 0x800);
        stacks.ret(A + 0x7f8);
        assert_eq!(sites(&stacks), [6]);
    }
}
