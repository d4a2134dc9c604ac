//! Visits of pages, summed up by host, and the section that shows them.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::page_address::counted_host;
use super::page_title::{is_noise_title, shown_title};
use crate::plain_text::clean_title;
use crate::report_text::top_counts;

const RECENT_HOSTS: usize = 30;
const LONG_TERM_HOSTS: usize = 20;
const TOPICS: usize = 40;
const RECENT_HOSTS_WITH_TITLES: usize = 15;
const LONG_TERM_HOSTS_WITH_TITLES: usize = 10;
const TITLES_PER_HOST: usize = 15;
/// The titles of one host that are summed up. Web applications give each page another one.
const MAX_SUMMED_TITLES: usize = 500;

/// The titles of a host as they were first met, and their visits, by the title in lower case.
type TitlesByKey = HashMap<String, (String, u64)>;

/// The visits in one browser, over all its profiles.
#[derive(Debug, Default)]
pub(super) struct VisitedPages {
    recent: HashMap<String, u64>,
    all_time: HashMap<String, u64>,
    titles: HashMap<String, TitlesByKey>,
    topics: HashMap<String, u64>,
}

impl VisitedPages {
    /// Adds a visit of the last seven days.
    pub fn add_recent_visit(&mut self, address: &str) {
        if let Some(host) = counted_host(address) {
            add(&mut self.recent, host, 1);
        }
    }

    /// Adds a page with all its visits. Pages come with the newest first: of two titles that differ in case, it stays.
    pub fn add(&mut self, address: &str, title: &str, visits: u64) {
        if visits == 0 {
            return;
        }
        let Some(host) = counted_host(address) else {
            return;
        };
        let title = shown_title(title, &host);
        if !is_noise_title(&title) {
            let titles = self.titles.entry(host.clone()).or_default();
            let key = title.to_lowercase();
            if titles.len() < MAX_SUMMED_TITLES || titles.contains_key(&key) {
                let entry = titles.entry(key).or_insert((title, 0));
                entry.1 = entry.1.saturating_add(visits);
            }
        }
        add(&mut self.all_time, host, visits);
    }

    /// Adds a subject that the browser found in the history, and its number of sessions.
    pub fn add_topic(&mut self, label: &str, sessions: u64) {
        // Chromium puts words that were searched for between quotation marks.
        let label = clean_title(label.trim_matches(['"', '\u{201c}', '\u{201d}']));
        if !label.is_empty() {
            add(&mut self.topics, label, sessions);
        }
    }

    /// Returns the section's text, or `None` without any visit. The filter for seldom visited hosts reads its form: the lines
    /// of hosts are `- host (visits)`, and the titles of a host follow its name under a heading of the fourth level.
    pub fn into_markdown(mut self) -> Option<String> {
        let recent = top_counts(self.recent, RECENT_HOSTS);
        for (host, _) in &recent {
            self.all_time.remove(host);
        }
        let long_term = top_counts(self.all_time, LONG_TERM_HOSTS);
        if recent.is_empty() && long_term.is_empty() {
            return None;
        }
        let mut text = String::new();
        write_counts(&mut text, "Topics", &top_counts(self.topics, TOPICS));
        write_counts(&mut text, "Most Active (Last 7 Days)", &recent);
        let long_term_title = "Long-term Interests (All-time, excluding recent)";
        write_counts(&mut text, long_term_title, &long_term);
        let with_titles = recent.iter().take(RECENT_HOSTS_WITH_TITLES);
        let with_titles = with_titles.chain(long_term.iter().take(LONG_TERM_HOSTS_WITH_TITLES));
        let hosts: Vec<&str> = with_titles.map(|(host, _)| host.as_str()).collect();
        write_titles(&mut text, self.titles, &hosts);
        Some(text.trim_end().to_owned())
    }
}

fn add(counts: &mut HashMap<String, u64>, key: String, count: u64) {
    let sum = counts.entry(key).or_default();
    *sum = sum.saturating_add(count);
}

fn write_counts(text: &mut String, heading: &str, counts: &[(String, u64)]) {
    if counts.is_empty() {
        return;
    }
    let _ = writeln!(text, "### {heading}\n");
    for (name, count) in counts {
        let _ = writeln!(text, "- {name} ({count})");
    }
    text.push('\n');
}

fn write_titles(text: &mut String, mut titles: HashMap<String, TitlesByKey>, hosts: &[&str]) {
    let mut heading = "### Content Details\n\n";
    for host in hosts {
        let titles = titles.remove(*host).unwrap_or_default();
        let titles = top_counts(titles.into_values(), TITLES_PER_HOST);
        if !titles.is_empty() {
            let _ = writeln!(text, "{heading}#### {host}\n");
            heading = "";
            for (title, visits) in titles {
                let _ = writeln!(text, "- {title} ({visits})");
            }
            text.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::low_signal::filter_low_signal;

    fn add_recent(pages: &mut VisitedPages, address: &str, visits: u64) {
        for _ in 0..visits {
            pages.add_recent_visit(address);
        }
    }

    #[test]
    fn hosts_are_summed_over_spellings_and_sorted() {
        let mut pages = VisitedPages::default();
        for (address, visits) in [
            ("https://www.a.example/1", 2),
            ("http://a.example:81/2", 3),
            ("https://b.example/", 6),
        ] {
            add_recent(&mut pages, address, visits);
            pages.add(address, "A page", visits * 10);
        }
        pages.add("https://c.example/", "Old", 7);
        let text = pages.into_markdown().expect("there are visits");
        let expected = "### Most Active (Last 7 Days)\n\n- b.example (6)\n- a.example (5)\n\n\
            ### Long-term Interests (All-time, excluding recent)\n\n- c.example (7)\n\n\
            ### Content Details\n\n#### b.example\n\n- A page (60)\n\n#### a.example\n\n- A page (50)\n\n\
            #### c.example\n\n- Old (7)";
        assert_eq!(text, expected);
    }

    #[test]
    fn lists_keep_to_their_bounds() {
        let mut pages = VisitedPages::default();
        for host in 0..100 {
            add_recent(
                &mut pages,
                &format!("https://recent{host:03}.example/"),
                100 - host,
            );
            for page in 0..40 {
                pages.add(
                    &format!("https://recent{host:03}.example/"),
                    &format!("Title {page}"),
                    3,
                );
                pages.add(
                    &format!("https://old{host:03}.example/"),
                    &format!("Title {page}"),
                    3,
                );
            }
            pages.add_topic(&format!("topic {host}"), 1);
        }
        let text = pages.into_markdown().expect("there are visits");
        let count = |needle: &str| text.lines().filter(|line| line.starts_with(needle)).count();
        assert_eq!(count("- recent"), 30);
        assert_eq!(count("- old"), 20);
        assert_eq!(count("- topic"), 40);
        assert_eq!(count("#### recent"), 15);
        assert_eq!(count("#### old"), 10);
        assert_eq!(count("- Title"), 25 * 15);
    }

    #[test]
    fn no_login_page_leaves_a_trace() {
        let mut pages = VisitedPages::default();
        for address in ["https://login.example.com/", "https://example.com/login"] {
            add_recent(&mut pages, address, 9);
            pages.add(address, "Sign in as anna", 9);
        }
        assert_eq!(pages.into_markdown(), None);
    }

    #[test]
    fn the_filter_for_seldom_visited_hosts_reads_the_text() {
        let mut pages = VisitedPages::default();
        for (host, title, visits) in [
            ("often", "Often", 9),
            ("often", "Once", 1),
            ("seldom", "Seldom", 4),
        ] {
            let address = format!("https://{host}.example/");
            add_recent(&mut pages, &address, visits);
            pages.add(&address, title, visits);
        }
        let text = filter_low_signal(&pages.into_markdown().expect("there are visits"));
        let expected = "### Most Active (Last 7 Days)\n\n- often.example (10)\n\n\
            ### Content Details\n\n#### often.example\n\n- Often (9)";
        assert_eq!(text, expected);
    }

    #[test]
    fn titles_that_differ_in_case_are_one() {
        let mut pages = VisitedPages::default();
        pages.add("https://a.example/1", "Rust Book", 2);
        pages.add("https://a.example/2", "rust book", 3);
        let text = pages.into_markdown().expect("there are visits");
        assert!(
            text.ends_with("#### a.example\n\n- Rust Book (5)"),
            "{text}"
        );
    }
}
