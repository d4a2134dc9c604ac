//! The first items of an ordered list that is never held as a whole.

/// Keeps the smallest items up to a total weight. Its memory depends on that weight, not on the number of items
/// offered.
#[derive(Debug)]
pub(super) struct SmallestItems<T> {
    keep: usize,
    weigh: fn(&T) -> usize,
    weight: usize,
    items: Vec<T>,
    /// The index of the last needed item, once there are enough. Items after it are rejected at once.
    last: Option<usize>,
}

impl<T: Ord> SmallestItems<T> {
    /// Creates a list that keeps items with a total weight of `keep`.
    pub(super) fn new(keep: usize, weigh: fn(&T) -> usize) -> Self {
        Self {
            keep: keep.max(1),
            weigh,
            weight: 0,
            items: Vec::new(),
            last: None,
        }
    }

    /// Offers an item.
    pub(super) fn push(&mut self, item: T) {
        if self.last.is_some_and(|last| item > self.items[last]) {
            return;
        }
        self.weight += (self.weigh)(&item);
        self.items.push(item);
        let slack = if self.last.is_none() {
            0
        } else {
            self.keep / 4 + 64
        };
        if self.weight >= self.keep.saturating_add(slack) {
            self.drop_excess();
        }
    }

    /// Returns the last needed item, once there are enough.
    pub(super) fn last_needed(&self) -> Option<&T> {
        self.last.map(|last| &self.items[last])
    }

    /// Adds the items of another thread.
    pub(super) fn merge_from(&mut self, other: &mut Self) {
        for item in other.items.drain(..) {
            self.push(item);
        }
    }

    /// Returns the kept items in order.
    pub(super) fn into_sorted(mut self) -> Vec<T> {
        self.drop_excess();
        self.items
    }

    fn drop_excess(&mut self) {
        self.items.sort_unstable();
        let mut weight = 0;
        let mut kept = 0;
        while kept < self.items.len() && weight < self.keep {
            weight += (self.weigh)(&self.items[kept]);
            kept += 1;
        }
        self.items.truncate(kept);
        self.last = kept.checked_sub(1).filter(|_| weight >= self.keep);
        self.weight = weight;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_keeps_enough_weight(offered in proptest::collection::btree_set(0_usize..100_000, 0..3_000), keep in 1_usize..300, turn in any::<usize>()) {
            // Each number weighs its last digit, and the order of the offers starts in the middle.
            let weigh: fn(&usize) -> usize = |n| n % 10;
            let sorted: Vec<usize> = offered.into_iter().collect();
            let mut page = SmallestItems::new(keep, weigh);
            let middle = turn % sorted.len().max(1);
            for item in sorted[middle..].iter().chain(&sorted[..middle]) {
                page.push(*item);
            }
            let mut weight = 0;
            let needed = sorted.iter().take_while(|item| { let wanted = weight < keep; weight += weigh(item); wanted });
            prop_assert_eq!(page.into_sorted(), needed.copied().collect::<Vec<_>>());
        }

        #[test]
        fn it_keeps_the_first_of_the_sorted_list(mut offered in proptest::collection::vec(0_u32..10_000, 0..4_000), keep in 1_usize..300) {
            let mut page = SmallestItems::new(keep, |_| 1);
            for item in &offered {
                page.push(*item);
            }
            offered.sort_unstable();
            offered.truncate(keep);
            prop_assert_eq!(page.into_sorted(), offered);
        }
    }
}
