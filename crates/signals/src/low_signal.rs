//! The filter for hosts that were visited too seldom to tell anything. It reads the lines that the browsers' sources write:
//! `- HOST (VISITS)` below the headings of hosts, `#### HOST` and `- TITLE (VISITS)` below that of details.

use std::collections::HashSet;

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

/// The headings of hosts, and that of their titles.
const HOST_HEADINGS: [&str; 2] = [
    "### Most Active (Last 7 Days)",
    "### Long-term Interests (All-time, excluding recent)",
];
const DETAILS_HEADING: &str = "### Content Details";

/// Leaves out the hosts of a browser below the threshold, their titles, and the seldom visited titles of the others. Text
/// below other headings stays.
pub(crate) fn filter_low_signal(markdown: &str) -> String {
    let parts = split_before(markdown, "### ");
    let has_hosts = |part: &&str| HOST_HEADINGS.contains(&first_line(part));
    let counts = parts.iter().copied().filter(has_hosts);
    let counts = counts.flat_map(str::lines).filter_map(counted_line);
    let min_visits = min_visits(counts.map(|(_, visits)| visits));
    let keeps_host = |host: &str, visits: u64| visits >= min_visits || CHAT_HOSTS.contains(&host);
    let counts = parts.iter().copied().filter(has_hosts);
    let counts = counts.flat_map(str::lines).filter_map(counted_line);
    let kept_hosts: HashSet<&str> = counts
        .filter(|(host, visits)| keeps_host(host, *visits))
        .map(|(host, _)| host)
        .collect();
    let kept: Vec<String> = parts
        .into_iter()
        .filter_map(|part| match first_line(part) {
            heading if HOST_HEADINGS.contains(&heading) => keep_lines(part, keeps_host),
            DETAILS_HEADING => {
                let blocks = split_before(part, "#### ").into_iter();
                let blocks = blocks.filter_map(|block| {
                    let host = first_line(block).strip_prefix("#### ")?;
                    let keeps_title =
                        |_: &str, visits| visits >= MIN_TITLE_VISITS || CHAT_HOSTS.contains(&host);
                    let is_kept = kept_hosts.contains(host);
                    is_kept.then(|| keep_lines(block, keeps_title)).flatten()
                });
                let blocks: Vec<String> = blocks.collect();
                (!blocks.is_empty())
                    .then(|| format!("{DETAILS_HEADING}\n\n{}", blocks.join("\n\n")))
            }
            _ => Some(part.trim_end().to_owned()),
        })
        .collect();
    kept.join("\n\n")
}

/// Returns the threshold: a twentieth of the mean of the five most visited hosts, and [`MIN_VISITS`] at least.
fn min_visits(visits: impl Iterator<Item = u64>) -> u64 {
    let mut visits: Vec<u64> = visits.collect();
    visits.sort_unstable_by(|one, other| other.cmp(one));
    visits.truncate(TOP_HOSTS);
    let divisor = 20 * visits.len().max(1) as u64;
    let sum = visits
        .iter()
        .fold(0_u64, |sum, visits| sum.saturating_add(*visits));
    let rounded = sum.saturating_add(divisor / 2) / divisor;
    rounded.max(MIN_VISITS)
}

/// Splits a text before each line that begins with a mark.
fn split_before<'a>(text: &'a str, mark: &str) -> Vec<&'a str> {
    let mut starts: Vec<usize> = text
        .match_indices(mark)
        .map(|(at, _)| at)
        .filter(|&at| at == 0 || text[..at].ends_with('\n'))
        .collect();
    if starts.first() != Some(&0) {
        starts.insert(0, 0);
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    let parts = starts
        .iter()
        .zip(ends)
        .map(|(&start, end)| &text[start..end]);
    parts.filter(|part| !part.trim().is_empty()).collect()
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// Reads `- NAME (COUNT)`.
fn counted_line(line: &str) -> Option<(&str, u64)> {
    let (name, count) = line.strip_prefix("- ")?.rsplit_once(" (")?;
    Some((name, count.strip_suffix(')')?.parse().ok()?))
}

/// Returns a heading with the lines below it that are kept, if there are any.
fn keep_lines(part: &str, keeps: impl Fn(&str, u64) -> bool) -> Option<String> {
    let lines = part.lines().filter(|line| {
        let counted = counted_line(line);
        counted.is_some_and(|(name, count)| keeps(name, count))
    });
    let lines: Vec<&str> = lines.collect();
    (!lines.is_empty()).then(|| format!("{}\n\n{}", first_line(part), lines.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: &str = "### Topics\n\n- once (1)\n\n\
        ### Most Active (Last 7 Days)\n\n- a.example (150)\n- b.example (150)\n- c.example (150)\n- d.example (7)\n\
        - e.example (6)\n- claude.ai (1)\n- notclaude.ai (1)\n\n\
        ### Long-term Interests (All-time, excluding recent)\n\n- f.example (100)\n- g.example (100)\n- h.example (2)\n\n\
        ### Content Details\n\n#### a.example\n\n- Often (3)\n- Twice (b) (2)\n\n#### b.example\n\n- Once (1)\n\n\
        #### e.example\n\n- Often (6)\n\n#### claude.ai\n\n- A question (1)";

    #[test]
    fn hosts_below_the_threshold_are_left_out_unless_they_are_chats() {
        // The mean of the first five is 130, and 6.5 is rounded up.
        let expected = "### Topics\n\n- once (1)\n\n\
            ### Most Active (Last 7 Days)\n\n- a.example (150)\n- b.example (150)\n- c.example (150)\n- d.example (7)\n\
            - claude.ai (1)\n\n\
            ### Long-term Interests (All-time, excluding recent)\n\n- f.example (100)\n- g.example (100)\n\n\
            ### Content Details\n\n#### a.example\n\n- Often (3)\n\n#### claude.ai\n\n- A question (1)";
        assert_eq!(filter_low_signal(DATA), expected);
        assert_eq!(filter_low_signal(expected), expected);
    }

    #[test]
    fn an_empty_heading_is_left_out_and_other_text_stays() {
        let few = "### Most Active (Last 7 Days)\n\n- a.example (4)\n- b.example (5)\n";
        let kept = "### Most Active (Last 7 Days)\n\n- b.example (5)";
        assert_eq!(filter_low_signal(few), kept);
        let none = "before\n\n### Most Active (Last 7 Days)\n\n- a.example (4)\n\n### Content Details\n\n#### a.example\n\n- x (9)\n";
        assert_eq!(filter_low_signal(none), "before");
        assert_eq!(filter_low_signal(""), "");
        let extreme = [u64::MAX, u64::MAX, 5];
        assert!(min_visits(extreme.into_iter()) > 5);
    }
}
