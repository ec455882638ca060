//! What a broker had to do for the messages of a capture, in classes that cost alike.

use rustc_hash::FxHashMap;

use super::facts::{Load, Work};
use super::tally::Sum;

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
