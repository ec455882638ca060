//! How much one holder may take of what all share.

/// A budget for all holders together, and a limit for each. A holder may have at most half of what is left, its own part counted as left: so one that takes all
/// it can leaves something, and the next one that does leaves half of that. The rule is that of a switch with a common buffer (Choudhury and Hahne, "Dynamic queue
/// length thresholds for shared-memory packet switches", 1998, with α = 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// What one holder may have at most.
    pub limit: u64,
    /// What all may have together.
    pub budget: u64,
}

impl Share {
    /// What a holder of `own` may have now, while all together hold `held`, its own included.
    pub fn most(self, own: u64, held: u64) -> u64 {
        let left = self.budget.saturating_sub(held);
        self.limit.min(left.saturating_add(own) / 2)
    }

    /// May it take `more`?
    pub fn allows(self, own: u64, held: u64, more: u64) -> bool {
        more == 0 || own.saturating_add(more) <= self.most(own, held)
    }

    /// The same for a message, of any size for a holder of nothing as long as anything is left: no limit delays a message for ever.
    pub fn allows_message(self, own: u64, held: u64, more: u64) -> bool {
        own == 0 && held < self.budget || self.allows(own, held, more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARE: Share = Share { limit: 100, budget: 400 };

    /// What each of several holders gets, one after the other, by ones.
    fn filled(share: Share, holders: usize) -> Vec<u64> {
        let mut all = 0;
        let fill = |_| {
            let mut own = 0;
            while share.allows(own, all, 1) {
                (own, all) = (own + 1, all + 1);
            }
            own
        };
        (0..holders).map(fill).collect()
    }

    #[test]
    fn each_greedy_holder_leaves_something_to_the_next() {
        assert_eq!(filled(SHARE, 6), [100, 100, 100, 50, 25, 12]);
        assert_eq!(filled(Share { limit: u64::MAX, budget: 400 }, 3), [200, 100, 50]);
    }

    #[test]
    fn a_holder_of_nothing_gets_one_message_while_anything_is_left() {
        assert!(SHARE.allows_message(0, 399, 1_000) && !SHARE.allows_message(0, 400, 1));
        assert!(!SHARE.allows_message(1, 399, 1_000) && !SHARE.allows(0, 399, 1_000));
        // Who takes nothing more is never refused, whatever others hold meanwhile.
        assert!(SHARE.allows(90, u64::MAX, 0) && SHARE.allows_message(0, u64::MAX, 0));
        assert!(!SHARE.allows(u64::MAX, u64::MAX, u64::MAX));
    }
}
