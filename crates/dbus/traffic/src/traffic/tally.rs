//! Counting: by key, by size, over time.

use std::hash::Hash;

use super::facts::{Count, MOST_ROWS, SizeClass, Timeline};
use super::work::{Load, Work};
use crate::symbols::Sym;
use causeway_dbus_wire::wire::{Kind, MESSAGE_BYTES_MAX};
use rustc_hash::FxHashMap;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    pub messages: u64,
    pub bytes: u64,
    /// Of the largest message.
    pub peak_bytes: u64,
}

impl Sum {
    pub fn add(&mut self, bytes: u64) {
        self.messages += 1;
        self.bytes += bytes;
        self.peak_bytes = self.peak_bytes.max(bytes);
    }
}

#[derive(Debug)]
pub(super) struct Tally<K>(pub FxHashMap<K, Sum>);

impl<K> Default for Tally<K> {
    fn default() -> Tally<K> {
        Tally(FxHashMap::default())
    }
}

impl<K: Eq + Hash> Tally<K> {
    pub fn add(&mut self, key: K, bytes: u64) {
        self.0.entry(key).or_default().add(bytes);
    }
}

impl Tally<Sym> {
    pub fn messages(&self, key: &Sym) -> u64 {
        self.0.get(key).map_or(0, |sum| sum.messages)
    }

    /// Rows by name; keys of the same name are added up.
    pub fn rows(&self, name: impl Fn(Sym) -> String) -> Vec<Count> {
        let mut named: FxHashMap<String, Sum> = FxHashMap::default();
        for (key, sum) in &self.0 {
            let total = named.entry(name(*key)).or_default();
            total.messages += sum.messages;
            total.bytes += sum.bytes;
        }
        let rows =
            named.into_iter().map(|(name, Sum { messages, bytes, .. })| Count { name, messages, bytes });
        greatest(rows, |row| row.messages, |row| row.name.clone())
    }
}

/// The rows with the greatest values, in an order that depends on nothing else.
pub(super) fn greatest<R, T: Ord>(
    rows: impl IntoIterator<Item = R>,
    value: impl Fn(&R) -> u64,
    tie: impl Fn(&R) -> T,
) -> Vec<R> {
    let mut rows: Vec<R> = rows.into_iter().collect();
    rows.sort_by(|a, b| value(b).cmp(&value(a)).then_with(|| tie(a).cmp(&tie(b))));
    rows.truncate(MOST_ROWS);
    rows
}

/// Ends of the classes of size: the powers of ten and their geometric means, as in the document of 2011 that first counted
/// a desktop's messages by size.
const SIZE_ENDS: [u64; 15] = [
    10,
    31,
    100,
    316,
    1_000,
    3_162,
    10_000,
    31_622,
    100_000,
    316_227,
    1_000_000,
    3_162_277,
    10_000_000,
    31_622_776,
    MESSAGE_BYTES_MAX as u64,
];

#[derive(Debug, Default)]
pub(super) struct Sizes([Sum; SIZE_ENDS.len()]);

impl Sizes {
    pub fn add(&mut self, bytes: u64) {
        let class = SIZE_ENDS.partition_point(|end| *end < bytes);
        self.0[class.min(SIZE_ENDS.len() - 1)].add(bytes);
    }

    /// From the first class with messages to the last.
    pub fn rows(&self) -> Vec<SizeClass> {
        let used = |sum: &Sum| sum.messages > 0;
        let Some(first) = self.0.iter().position(used) else { return Vec::new() };
        let last = self.0.iter().rposition(used).unwrap_or(first);
        (first..=last)
            .map(|class| SizeClass {
                from_bytes: if class == 0 { 1 } else { SIZE_ENDS[class - 1] + 1 },
                to_bytes: SIZE_ENDS[class],
                messages: self.0[class].messages,
                bytes: self.0[class].bytes,
            })
            .collect()
    }
}

const MOST_BUCKETS: usize = 600;
const FIRST_BUCKET_NS: u64 = 1_000_000;

/// Counts over time in buckets that grow with the capture.
#[derive(Debug)]
pub(super) struct Buckets(Timeline);

impl Default for Buckets {
    fn default() -> Buckets {
        Buckets(Timeline { bucket_ns: FIRST_BUCKET_NS, counts: Vec::new() })
    }
}

impl Buckets {
    pub fn add(&mut self, kind: Kind, since_start_ns: u64) {
        let column = match kind {
            Kind::MethodCall => 0,
            Kind::MethodReturn => 1,
            Kind::Error => 2,
            Kind::Signal => 3,
            Kind::Other(_) => return,
        };
        while since_start_ns / self.0.bucket_ns >= MOST_BUCKETS as u64 {
            self.halve();
        }
        let at = usize::try_from(since_start_ns / self.0.bucket_ns).unwrap_or(MOST_BUCKETS);
        if self.0.counts.len() <= at {
            self.0.counts.resize(at + 1, [0; 4]);
        }
        self.0.counts[at][column] += 1;
    }

    pub fn finish(self) -> Timeline {
        self.0
    }

    fn halve(&mut self) {
        let pair = |pair: &[[u64; 4]]| std::array::from_fn(|column| pair.iter().map(|row| row[column]).sum());
        self.0.counts = self.0.counts.chunks(2).map(pair).collect();
        self.0.bucket_ns *= 2;
    }
}

/// Messages by what the broker does for them, by class of size, and of broadcasts by the number of recipients.
#[derive(Debug, Default)]
pub(super) struct Loads(FxHashMap<(Work, u32, u64), Sum>);

impl Loads {
    /// A message with so many bytes behind its header, for so many recipients.
    pub fn add(&mut self, work: Work, body_bytes: u64, recipients: u64) {
        // Twice the size, the next class.
        let class = u64::BITS - body_bytes.leading_zeros();
        self.0.entry((work, class, recipients)).or_default().add(body_bytes);
    }

    pub fn finish(self) -> Vec<Load> {
        let row = |((work, _, recipients), sum): ((Work, u32, u64), Sum)| Load {
            work,
            body_bytes: sum.bytes / sum.messages.max(1),
            recipients,
            messages: sum.messages,
        };
        let mut rows: Vec<Load> = self.0.into_iter().map(row).collect();
        rows.sort_by_key(|row| (row.work, row.recipients, row.body_bytes));
        rows
    }
}
