//! The guest's console: its last lines, and what they say about its end.

use std::collections::VecDeque;

const KEPT: usize = 400;
/// A line that is longer is cut, so that a guest that writes no newline fills no memory.
const LONGEST: usize = 1000;

/// What a kernel writes when it panics.
const PANIC: &str = "Kernel panic - not syncing:";

#[derive(Debug, Default)]
pub struct Console {
    lines: VecDeque<String>,
    current: Vec<u8>,
}

impl Console {
    pub fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                b'\n' => self.end_line(),
                _ if self.current.len() < LONGEST => self.current.push(*byte),
                _ => {}
            }
        }
    }

    fn end_line(&mut self) {
        let line = printable(&String::from_utf8_lossy(&std::mem::take(&mut self.current)));
        if line.is_empty() {
            return;
        }
        if self.lines.len() == KEPT {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    /// The last `count` lines, the newest last.
    pub fn last(&self, count: usize) -> Vec<String> {
        let current = printable(&String::from_utf8_lossy(&self.current));
        let all: Vec<&String> = self.lines.iter().chain((!current.is_empty()).then_some(&current)).collect();
        all[all.len().saturating_sub(count)..].iter().map(|line| (*line).clone()).collect()
    }

    /// The last `count` lines up to the one in which the kernel panicked, or of all where it did not: what follows a panic is
    /// registers and a call trace, and what is before it says why.
    pub fn telling(&self, count: usize) -> Vec<String> {
        let mut lines = self.last(usize::MAX);
        if let Some(panic) = lines.iter().position(|line| line.contains(PANIC)) {
            lines.truncate(panic + 1);
        }
        lines.split_off(lines.len().saturating_sub(count))
    }

    /// What the lines say about the end of the guest, as the end of a sentence; nothing where they say nothing of it.
    pub fn cause(&self) -> Option<String> {
        let lines = self.last(KEPT);
        let found = |mark: &str| lines.iter().find_map(|line| Some(line.split_once(mark)?.1.trim()));
        // A kernel that has nothing left to kill says so before it panics.
        let (what, why) = match (found(PANIC), found("Out of memory")) {
            (Some(why), Some(_)) => ("it ran out of memory and panicked", why),
            (Some(why), None) => ("the kernel panicked", why),
            (None, _) => match (found("Out of memory:"), found("Initramfs unpacking failed:")) {
                (Some(why), _) => ("it ran out of memory", why),
                (None, why) => ("the kernel could not unpack the initramfs", why?),
            },
        };
        Some(format!("{what}: {why}"))
    }
}

/// Without control characters and the sequences by which firmware clears a screen.
pub fn printable(text: &str) -> String {
    let mut shown = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\x1b' => {
                // A sequence ends with a letter.
                characters.by_ref().find(|character| character.is_ascii_alphabetic());
            }
            '\t' => shown.push(' '),
            character if !character.is_control() => shown.push(character),
            _ => {}
        }
    }
    shown.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn console(text: &str) -> Console {
        let mut console = Console::default();
        console.push(text.as_bytes());
        console
    }

    #[test]
    fn the_last_lines_are_kept_without_what_clears_a_screen() {
        let found = console("\x1b[2J\x1b[1;1Hone\r\n\r\ntwo\r\nthree").last(2);
        assert_eq!(found, ["two", "three"]);
        assert_eq!(console("\x1b[2Jone").last(5), ["one"]);
        let mut endless = Console::default();
        (0..3000).for_each(|i| endless.push(format!("line {i}\n").as_bytes()));
        endless.push(&[b'x'; 100_000]);
        assert!(endless.last(usize::MAX).len() <= KEPT + 1);
        assert_eq!(endless.last(1)[0].len(), LONGEST);
    }

    #[test]
    fn panics_and_an_end_of_memory_are_told_apart() {
        let panic = "[    1.2] Kernel panic - not syncing: Attempted to kill init! exitcode=0x0000000b\n";
        assert_eq!(
            console(panic).cause().unwrap(),
            "the kernel panicked: Attempted to kill init! exitcode=0x0000000b"
        );
        let memory = "[    2.0] Out of memory: Killed process 45 (weighbridge)\n";
        assert_eq!(console(memory).cause().unwrap(), "it ran out of memory: Killed process 45 (weighbridge)");
        let both = format!("{memory}[ 2.1] Kernel panic - not syncing: System is deadlocked on memory\n");
        assert!(console(&both).cause().unwrap().starts_with("it ran out of memory and panicked"));
        assert_eq!(console("[    0.0] Linux version 6.1\n").cause(), None);
        let traced = format!("cannot load\n{panic}RIP: 0\nRAX: 1\n");
        assert_eq!(console(&traced).telling(2), ["cannot load", panic.trim()]);
        assert_eq!(console("a\nb\n").telling(1), ["b"]);
    }
}
