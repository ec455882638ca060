//! Samples summed up: time by role and function, and stacks folded into lines.

use std::collections::{BTreeMap, BTreeSet};

use weighbridge_record::{CaseId, CountedBeside, Profile, ProfilePart, SymbolTime};

use crate::sampling::PERIOD_NS;

/// A sample with names: functions from the outermost to the innermost.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stack {
    pub role: String,
    pub user: Vec<String>,
    /// Functions of the kernel; empty for a sample in user mode.
    pub kernel: Vec<String>,
}

impl Stack {
    /// Names as in a folded stack, without the role. A function that calls itself stands once.
    fn frames(&self) -> Vec<String> {
        let kernel = self.kernel.iter().map(|name| format!("{}{}", clean(name), Profile::IN_KERNEL));
        let mut frames: Vec<String> = self.user.iter().map(|name| clean(name)).chain(kernel).collect();
        frames.dedup();
        frames
    }
}

/// A semicolon separates names in a folded stack; some names of generic functions have one.
fn clean(name: &str) -> String {
    name.replace(';', ",").replace('\n', " ")
}

/// The samples of all runs of a case.
#[derive(Clone, Debug, Default)]
pub struct Stacks {
    counts: BTreeMap<Stack, u64>,
    pub runs: u32,
    pub ops: u64,
    pub lost: u64,
    /// Times that sampling was stopped by the kernel.
    pub throttled: u64,
}

impl Stacks {
    pub fn add(&mut self, stack: Stack) {
        *self.counts.entry(stack).or_default() += 1;
    }

    pub fn samples(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Stacks as lines of other tools: names with `;` between them, and the samples.
    pub fn folded(&self) -> Vec<(String, u64)> {
        let line = |(stack, count): (&Stack, &u64)| {
            let frames = stack.frames();
            let names: Vec<&str> =
                std::iter::once(stack.role.as_str()).chain(frames.iter().map(String::as_str)).collect();
            (names.join(";"), *count)
        };
        summed(self.counts.iter().map(line))
    }

    /// The profile of `case`, in time per operation, and what the kernel counts of its auxiliary process.
    pub fn profile(
        &self,
        case: &CaseId,
        symbols_hidden: Option<&str>,
        beside: Option<CountedBeside>,
    ) -> Profile {
        let samples = self.samples();
        let ns = |count: u64| count as f64 * PERIOD_NS as f64 / self.ops.max(1) as f64;
        let taking_part = self.counts.iter().filter(|(stack, _)| Profile::takes_part(&stack.role));
        let least = taking_part.map(|(_, count)| *count).sum::<u64>() as f64 * Profile::LEAST_SHARE;
        let mut parts: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        let mut symbols: BTreeMap<(&str, String), (u64, u64)> = BTreeMap::new();
        for (stack, count) in &self.counts {
            let part = parts.entry(&stack.role).or_default();
            *(if stack.kernel.is_empty() { &mut part.0 } else { &mut part.1 }) += count;
            let frames = if Profile::takes_part(&stack.role) { stack.frames() } else { Vec::new() };
            if let Some(innermost) = frames.last() {
                symbols.entry((&stack.role, innermost.clone())).or_default().0 += count;
            }
            for frame in BTreeSet::from_iter(frames) {
                symbols.entry((&stack.role, frame)).or_default().1 += count;
            }
        }
        let mut symbols: Vec<SymbolTime> = symbols
            .into_iter()
            .filter(|(_, (_, total))| *total as f64 >= least)
            .map(|((role, frame), (own, total))| {
                let name = frame.strip_suffix(Profile::IN_KERNEL);
                SymbolTime {
                    role: role.into(),
                    in_kernel: name.is_some(),
                    symbol: name.unwrap_or(&frame).into(),
                    self_ns: ns(own),
                    total_ns: ns(total),
                }
            })
            .collect();
        symbols.sort_by(|a, b| b.self_ns.total_cmp(&a.self_ns).then(b.total_ns.total_cmp(&a.total_ns)));
        let part = |(role, (user, kernel)): (&str, (u64, u64))| ProfilePart {
            role: role.into(),
            user_ns: ns(user),
            kernel_ns: ns(kernel),
        };
        Profile {
            case: case.clone(),
            clock: "cpu-clock".into(),
            period_ns: PERIOD_NS as f64,
            runs: self.runs,
            ops: self.ops,
            samples,
            lost: self.lost,
            throttled: self.throttled,
            symbols_hidden: symbols_hidden.map(str::to_owned),
            parts: parts.into_iter().map(part).collect(),
            beside,
            symbols,
            folded: pruned(&summed(self.folded().into_iter().map(of_those_that_take_part)), least),
        }
    }
}

/// Lines of folded stacks, each once.
fn summed(lines: impl Iterator<Item = (String, u64)>) -> Vec<(String, u64)> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for (line, count) in lines {
        *sums.entry(line).or_default() += count;
    }
    sums.into_iter().collect()
}

/// Of others and of idle CPUs the time alone.
fn of_those_that_take_part((line, count): (String, u64)) -> (String, u64) {
    let role = line.split(';').next().unwrap_or_default();
    if Profile::takes_part(role) { (line, count) } else { (role.to_owned(), count) }
}

/// Folded stacks in which everything with fewer than `least` samples is counted for its caller.
fn pruned(folded: &[(String, u64)], least: f64) -> Vec<(String, u64)> {
    let prefixes = |line: &str| -> Vec<usize> {
        line.match_indices(';').map(|(at, _)| at).chain(std::iter::once(line.len())).collect()
    };
    let mut totals: BTreeMap<&str, u64> = BTreeMap::new();
    for (line, count) in folded {
        for end in prefixes(line) {
            *totals.entry(&line[..end]).or_default() += count;
        }
    }
    let mut kept: BTreeMap<&str, u64> = BTreeMap::new();
    for (line, count) in folded {
        let is_kept = |end: &usize| totals[&line[..*end]] as f64 >= least;
        // The role stands even if it has few samples.
        let ends = prefixes(line);
        let end = ends.iter().rev().find(|end| is_kept(end)).unwrap_or(&ends[0]);
        *kept.entry(&line[..*end]).or_default() += count;
    }
    kept.into_iter().map(|(line, count)| (line.to_owned(), count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(role: &str, user: &[&str], kernel: &[&str]) -> Stack {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Stack { role: role.into(), user: owned(user), kernel: owned(kernel) }
    }

    fn example() -> Stacks {
        let mut stacks = Stacks { runs: 2, ops: 1000, lost: 1, ..Stacks::default() };
        let read = ["main", "read"];
        for (count, stack) in [
            (600, stack("client", &read, &["vfs_read", "schedule", "schedule"])),
            (300, stack("client", &read, &["vfs_read"])),
            (97, stack("server", &["main", "copy<[u8; 4]>"], &[])),
            (3, stack("server", &["main"], &["vfs_read", "rare"])),
        ] {
            stacks.counts.insert(stack, count);
        }
        stacks
    }

    fn profile(stacks: &Stacks) -> Profile {
        stacks.profile(&CaseId::new("roundtrip", "pipe", 1, "same-cpu"), Some("hidden"), None)
    }

    #[test]
    fn time_is_samples_times_period_by_operations() {
        let profile = profile(&example());
        let each = PERIOD_NS as f64 / 1000.0;
        assert_eq!((profile.samples, profile.lost, profile.runs), (1000, 1, 2));
        let parts: Vec<_> =
            profile.parts.iter().map(|part| (&*part.role, part.user_ns, part.kernel_ns)).collect();
        assert_eq!(parts, [("client", 0.0, 900.0 * each), ("server", 97.0 * each, 3.0 * each)]);
        let symbol = |symbol: &str| {
            let of = profile.symbols.iter().find(|of| of.symbol == symbol && of.role == "client");
            of.map(|of| (of.in_kernel, of.self_ns, of.total_ns))
        };
        assert_eq!(profile.symbols[0].symbol, "schedule", "the longest is the first");
        assert_eq!(symbol("schedule"), Some((true, 600.0 * each, 600.0 * each)), "twice in a stack is once");
        assert_eq!(symbol("vfs_read"), Some((true, 300.0 * each, 900.0 * each)));
        assert!(!profile.symbols.iter().any(|of| of.symbol == "rare"), "it has less than half a percent");
    }

    #[test]
    fn folded_stacks_have_the_role_first_and_what_is_rare_is_counted_for_its_caller() {
        let folded = example().folded();
        assert!(folded.contains(&("client;main;read;vfs_read_[k];schedule_[k]".into(), 600)), "{folded:?}");
        assert!(folded.contains(&("server;main;copy<[u8, 4]>".into(), 97)), "{folded:?}");
        let profile = profile(&example());
        assert!(profile.folded.contains(&("server;main".into(), 3)), "{:?}", profile.folded);
        assert_eq!(profile.folded.iter().map(|(_, count)| count).sum::<u64>(), 1000);
        let all_rare = pruned(&[("a;b".into(), 1), ("c;d".into(), 1)], 10.0);
        assert_eq!(all_rare, [("a".to_owned(), 1), ("c".to_owned(), 1)], "a role is never left out");
    }

    #[test]
    fn others_and_idle_cpus_have_their_time_and_hide_no_function_of_the_roles() {
        for role in [Profile::OTHERS, Profile::IDLE] {
            let mut stacks = example();
            stacks.counts.insert(stack(role, &[], &["clear_page"]), 1_000_000);
            let profile = profile(&stacks);
            assert!(profile.parts.iter().any(|part| part.role == role && part.kernel_ns > 0.0));
            assert!(!profile.symbols.iter().any(|of| of.symbol == "clear_page"));
            assert!(profile.symbols.iter().any(|of| of.symbol == "copy<[u8, 4]>"), "{:?}", profile.symbols);
            assert!(profile.folded.contains(&(role.into(), 1_000_000)), "{:?}", profile.folded);
            let whole = (format!("{role};clear_page_[k]"), 1_000_000);
            assert!(stacks.folded().contains(&whole), "the file has all");
        }
    }

    #[test]
    fn no_sample_is_no_time() {
        let profile = profile(&Stacks::default());
        assert!(profile.parts.is_empty() && profile.symbols.is_empty() && profile.folded.is_empty());
        assert_eq!(profile.symbols_hidden.as_deref(), Some("hidden"));
    }
}
