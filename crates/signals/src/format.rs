//! The text of a collection.

use std::fmt::Write;

use super::low_signal::filter_low_signal;
use super::{SourceReport, Tier};

/// Writes the sections of all sources as Markdown: a heading of the first level for each tier that has sections, and one of
/// the second for each section. Hosts that were seldom visited are left out, and a section of which nothing is left. Nothing
/// gives an empty text.
pub fn format_report(reports: &[SourceReport]) -> String {
    let mut text = String::new();
    for (tier, title) in [
        (Tier::Work, "Work"),
        (Tier::Interest, "Interests"),
        (Tier::Background, "Background"),
    ] {
        let sections = reports.iter().flat_map(|report| &report.sections);
        let mut is_first = true;
        for section in sections.filter(|section| section.tier == tier) {
            let markdown = filter_low_signal(section.markdown.trim());
            if markdown.is_empty() {
                continue;
            }
            if !text.is_empty() {
                text.push('\n');
            }
            if std::mem::take(&mut is_first) {
                let _ = write!(text, "# {title}\n\n");
            }
            let _ = writeln!(text, "## {}\n\n{markdown}", section.title);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Section;

    #[test]
    fn sections_are_ordered_by_their_tier() {
        let section = |title: &str, tier| Section {
            title: title.to_owned(),
            tier,
            markdown: format!("text of {title}\n\n"),
        };
        let reports = [
            SourceReport::read(
                "one",
                vec![section("Apps", Tier::Background), section("A", Tier::Work)],
            ),
            SourceReport::absent("two"),
            SourceReport::read("three", vec![section("B", Tier::Work)]),
        ];
        assert_eq!(
            format_report(&reports),
            "# Work\n\n## A\n\ntext of A\n\n## B\n\ntext of B\n\n# Background\n\n## Apps\n\ntext of Apps\n"
        );
        assert_eq!(format_report(&reports[1..2]), "");
        let seldom = Section {
            title: "Browser Data (x)".to_owned(),
            tier: Tier::Work,
            markdown: "### Most Active (Last 7 Days)\n\n- a.example (1)".to_owned(),
        };
        assert_eq!(format_report(&[SourceReport::read("x", vec![seldom])]), "");
    }
}
