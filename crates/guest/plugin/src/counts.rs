//! Executions of translated blocks inside the windows, by call stack, and the file that holds them.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::io::{self, Write};

use crate::stacks::{Node, Stacks};

/// Hashes numbers that nobody chooses, at the cost of a multiplication each.
#[derive(Default)]
pub struct NumberHasher(u64);

/// Makes [`NumberHasher`]s.
pub type FastHash = BuildHasherDefault<NumberHasher>;

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        // 2⁶⁴ divided by the golden ratio (Fibonacci hashing, Knuth); the rotation brings the well mixed bits to both ends.
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }
}

/// A translated block: it begins at an address, and is executed as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// Of its first instruction.
    pub address: u64,
    /// Number of its instructions.
    pub instructions: u32,
}

/// Addresses of the kernel are those with the highest bit.
pub fn is_kernel(address: u64) -> bool {
    address >> 63 == 1
}

/// What a guest executed.
#[derive(Debug, Default)]
pub struct Counts {
    stacks: Stacks,
    blocks: Vec<Block>,
    known: HashMap<Block, u32, FastHash>,
    /// Of the window that is open.
    executions: HashMap<(Node, u32), u64, FastHash>,
    /// Of those that have ended, in the order of nodes.
    windows: Vec<Vec<(Node, u32, u64)>>,
    is_open: bool,
}

impl Counts {
    /// The number of a block; one that is translated again keeps it.
    pub fn number(&mut self, block: Block) -> u32 {
        let next = self.blocks.len() as u32;
        let number = *self.known.entry(block).or_insert(next);
        if number == next {
            self.blocks.push(block);
        }
        number
    }

    /// A window begins.
    pub fn begin(&mut self) {
        self.is_open = true;
    }

    /// The window ends, if one is open.
    pub fn end(&mut self) {
        if std::mem::take(&mut self.is_open) {
            let executed = self.executions.drain().map(|((node, block), count)| (node, block, count));
            let mut window: Vec<_> = executed.collect();
            window.sort_unstable();
            self.windows.push(window);
        }
    }

    /// The block with this number is executed.
    pub fn execute(&mut self, number: u32) {
        if !is_kernel(self.blocks[number as usize].address) {
            self.stacks.enter_user_mode();
        }
        if self.is_open {
            *self.executions.entry((self.stacks.current(), number)).or_default() += 1;
        }
    }

    /// A call of the kernel; see [`Stacks::call`].
    pub fn call(&mut self, site: u64, at: u64) {
        self.stacks.call(site, at);
    }

    /// A return in the kernel; see [`Stacks::ret`].
    pub fn ret(&mut self, at: u64) {
        self.stacks.ret(at);
    }

    /// Writes everything as lines of text, addresses in hexadecimal digits:
    ///
    /// ```text
    /// weighbridge-counts 1
    /// node NUMBER PARENT ADDRESS-OF-THE-CALL
    /// window
    /// block NODE ADDRESS INSTRUCTIONS EXECUTIONS
    /// end
    /// ```
    ///
    /// Nodes are those that have blocks, and those above them; each stands behind its parent. A line `window` precedes the blocks of each
    /// window that has ended.
    ///
    /// # Errors
    /// That of the file.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        writeln!(to, "weighbridge-counts 1")?;
        let mut is_needed = vec![false; self.stacks.nodes().len() + 1];
        self.windows.iter().flatten().for_each(|(node, ..)| is_needed[node.0 as usize] = true);
        for (index, (parent, _)) in self.stacks.nodes().iter().enumerate().rev() {
            is_needed[parent.0 as usize] |= is_needed[index + 1];
        }
        for (index, (parent, site)) in self.stacks.nodes().iter().enumerate() {
            if is_needed[index + 1] {
                writeln!(to, "node {} {} {site:x}", index + 1, parent.0)?;
            }
        }
        for window in &self.windows {
            writeln!(to, "window")?;
            for (node, number, executions) in window {
                let Block { address, instructions } = self.blocks[*number as usize];
                writeln!(to, "block {} {address:x} {instructions} {executions}", node.0)?;
            }
        }
        writeln!(to, "end")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: Block = Block { address: 0x5555_0000, instructions: 7 };
    const ENTRY: Block = Block { address: 0xffff_ffff_8100_0000, instructions: 3 };
    const INNER: Block = Block { address: 0xffff_ffff_8100_1000, instructions: 5 };

    #[test]
    fn blocks_are_counted_inside_windows_by_the_stack_that_executes_them() {
        let mut counts = Counts::default();
        let [user, entry, inner] = [USER, ENTRY, INNER].map(|block| counts.number(block));
        assert_eq!(counts.number(USER), user, "translated again");
        let operation = |counts: &mut Counts| {
            counts.execute(user);
            counts.execute(entry);
            counts.call(ENTRY.address + 8, 0xffff_c900_0000_7ff0);
            counts.execute(inner);
            counts.execute(inner);
            counts.ret(0xffff_c900_0000_7ff0);
        };
        operation(&mut counts);
        counts.begin();
        operation(&mut counts);
        operation(&mut counts);
        counts.end();
        operation(&mut counts);
        counts.end();
        counts.begin();
        counts.end();
        let mut text = Vec::new();
        counts.write(&mut text).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "weighbridge-counts 1\nnode 1 0 ffffffff81000008\nwindow\nblock 0 55550000 7 2\nblock 0 ffffffff81000000 3 2\n\
             block 1 ffffffff81001000 5 4\nwindow\nend\n"
        );
    }

    #[test]
    fn user_mode_ends_every_stack() {
        let mut counts = Counts::default();
        let [user, inner] = [USER, INNER].map(|block| counts.number(block));
        counts.begin();
        counts.call(1, 0xffff_c900_0000_7ff0);
        // A system call that does not return: the thread is ended, another one runs.
        counts.execute(user);
        counts.execute(inner);
        counts.end();
        let mut text = Vec::new();
        counts.write(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("block 0 ffffffff81001000 5 1\n") && !text.contains("node"), "{text}");
    }
}
