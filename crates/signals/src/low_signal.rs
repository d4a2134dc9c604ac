//! The filter for hosts that were visited too seldom to tell anything.

/// The visits that a host needs at least.
const MIN_VISITS: u64 = 5;
/// The visits that a title of a kept host needs at least.
const MIN_TITLE_VISITS: u64 = 3;
/// The hosts of the first places, whose mean sets the threshold.
const TOP_HOSTS: usize = 5;
/// Chats with a model: the titles of their pages name subjects, also those that were opened once.
const CHAT_HOSTS: [&str; 10] = [
    "chatgpt.com",
    "chat.openai.com",
    "claude.ai",
    "gemini.google.com",
    "chat.deepseek.com",
    "poe.com",
    "perplexity.ai",
    "copilot.microsoft.com",
    "grok.com",
    "chat.mistral.ai",
];

/// The threshold of one browser: a twentieth of the mean of its five most visited hosts, and five visits at least.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LowSignalFilter {
    min_visits: u64,
}

impl LowSignalFilter {
    /// Calculates the threshold from the visits of all hosts of a browser.
    pub fn from_visits(visits: impl IntoIterator<Item = u64>) -> Self {
        let mut visits: Vec<u64> = visits.into_iter().collect();
        visits.sort_unstable_by(|one, other| other.cmp(one));
        visits.truncate(TOP_HOSTS);
        let count = visits.len().max(1) as u64;
        let sum = visits
            .iter()
            .fold(0_u64, |sum, visits| sum.saturating_add(*visits));
        let divisor = 20 * count;
        let twentieth = sum.saturating_add(divisor / 2) / divisor;
        Self {
            min_visits: twentieth.max(MIN_VISITS),
        }
    }

    /// Returns whether a host is reported.
    pub fn keeps_host(&self, host: &str, visits: u64) -> bool {
        visits >= self.min_visits || CHAT_HOSTS.contains(&host)
    }

    /// Returns whether a title of a host that is kept is reported.
    pub fn keeps_title(host: &str, visits: u64) -> bool {
        visits >= MIN_TITLE_VISITS || CHAT_HOSTS.contains(&host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_below_the_threshold_is_left_out_unless_it_is_a_chat() {
        let filter = LowSignalFilter::from_visits([1, 150, 150, 150, 100, 1, 100]);
        // The mean of the first five is 130, and 6.5 is rounded up.
        assert!(filter.keeps_host("a.example", 7) && !filter.keeps_host("a.example", 6));
        assert!(filter.keeps_host("claude.ai", 1) && !filter.keeps_host("notclaude.ai", 1));
        assert!(LowSignalFilter::keeps_title("a.example", 3));
        assert!(!LowSignalFilter::keeps_title("a.example", 2));
        assert!(LowSignalFilter::keeps_title("poe.com", 1));
        let few = LowSignalFilter::from_visits([]);
        assert!(few.keeps_host("a.example", 5) && !few.keeps_host("a.example", 4));
        let extreme = LowSignalFilter::from_visits([u64::MAX, u64::MAX]);
        assert!(!extreme.keeps_host("a.example", 5));
    }
}
