//! Bookmarks of one browser, and the section that shows them.

use std::collections::HashSet;
use std::fmt::Write as _;

use super::page_address::counted_host;
use super::page_title::is_noise_title;
use crate::plain_text::clean_title;

const MAX_BOOKMARKS: usize = 200;
const MAX_FOLDERS: usize = 15;
const MAX_IN_FOLDER: usize = 10;
const MAX_LOOSE: usize = 20;

/// The bookmarks of one browser, over all its profiles, in the order in which they were found.
#[derive(Debug, Default)]
pub(super) struct Bookmarks {
    /// Folders by name. The nameless one has the bookmarks that are in no folder of the owner's.
    folders: Vec<(String, Vec<String>)>,
    known: HashSet<(String, String)>,
}

impl Bookmarks {
    /// Returns whether more are taken in.
    pub fn has_room(&self) -> bool {
        self.known.len() < MAX_BOOKMARKS
    }

    /// Adds a bookmark, with the name of the nearest folder that has one.
    pub fn add(&mut self, folder: &str, title: &str, address: &str) {
        if !self.has_room() {
            return;
        }
        let Some(host) = counted_host(address) else {
            return;
        };
        let title = clean_title(title);
        let line = if is_noise_title(&title) {
            host.clone()
        } else {
            format!("{title} ({host})")
        };
        let folder = clean_title(folder);
        if !self.known.insert((folder.clone(), line.clone())) {
            return;
        }
        match self.folders.iter_mut().find(|(name, _)| *name == folder) {
            Some((_, lines)) => lines.push(line),
            None => self.folders.push((folder, vec![line])),
        }
    }

    /// Returns the section's text, or `None` without a bookmark.
    pub fn to_markdown(&self) -> Option<String> {
        let (loose, named): (Vec<_>, Vec<_>) =
            self.folders.iter().partition(|(name, _)| name.is_empty());
        let mut text = String::new();
        for (name, lines) in named.into_iter().take(MAX_FOLDERS) {
            write_lines(&mut text, name, lines, MAX_IN_FOLDER);
        }
        for (_, lines) in loose {
            write_lines(&mut text, "In no folder", lines, MAX_LOOSE);
        }
        (!text.is_empty()).then(|| text.trim_end().to_owned())
    }
}

fn write_lines(text: &mut String, heading: &str, lines: &[String], max: usize) {
    let _ = writeln!(text, "### {heading}\n");
    for line in lines.iter().take(max) {
        let _ = writeln!(text, "- {line}");
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bookmarks_stand_by_folder_and_within_bounds() {
        let mut bookmarks = Bookmarks::default();
        for number in 0..30 {
            bookmarks.add(
                "Rust",
                &format!("Page {number}"),
                "https://www.rust-lang.org/x?token=1",
            );
            bookmarks.add("", &format!("Loose {number}"), "https://a.example/");
        }
        bookmarks.add("Rust", "Secret", "https://login.example/");
        let text = bookmarks.to_markdown().expect("there are bookmarks");
        assert!(
            text.starts_with("### Rust\n\n- Page 0 (rust-lang.org)\n"),
            "{text}"
        );
        assert_eq!(text.matches("- Page").count(), 10);
        assert_eq!(text.matches("- Loose").count(), 20);
        assert!(
            !text.contains("Secret") && !text.contains("token"),
            "{text}"
        );
    }

    #[test]
    fn a_bookmark_without_a_title_is_its_host() {
        let mut bookmarks = Bookmarks::default();
        bookmarks.add("", "https://a.example/x", "https://a.example/x");
        bookmarks.add("", "", "https://a.example/y");
        assert_eq!(
            bookmarks.to_markdown().as_deref(),
            Some("### In no folder\n\n- a.example")
        );
    }
}
