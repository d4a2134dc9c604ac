//! `recently-used.xbel` of Linux: the documents that programs opened. Only programs are counted; no name of a document is
//! taken over.

use std::collections::HashMap;
use std::time::SystemTime;

use jiff::Timestamp;
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

use crate::Budget;

/// Counts the documents that each program opened since a moment.
///
/// # Errors
/// A text for people: the XML is damaged. What comes before the damage is counted.
pub(super) fn count_documents(
    bytes: &[u8],
    since: SystemTime,
    budget: &Budget,
    counts: &mut HashMap<String, u64>,
) -> Result<(), String> {
    let text = String::from_utf8_lossy(bytes);
    let mut reader = Reader::from_str(&text);
    loop {
        let event = reader.read_event();
        match event.map_err(|error| format!("its XML is damaged: {error}"))? {
            Event::Start(start) | Event::Empty(start) => {
                if !budget.take_entry() {
                    return Ok(());
                }
                if start.local_name().as_ref() == "application"
                    && let Some(name) = attribute(&start, "name")
                    && is_after(&start, since)
                {
                    *counts.entry(name).or_default() += 1;
                }
            }
            Event::Eof => return Ok(()),
            _ => {}
        }
    }
}

/// Returns whether a program used a document after a moment. Old files have seconds instead of a date.
fn is_after(start: &BytesStart<'_>, since: SystemTime) -> bool {
    let date = attribute(start, "modified").and_then(|date| date.parse::<Timestamp>().ok());
    let seconds = || attribute(start, "timestamp")?.parse().ok();
    let used = date.or_else(|| Timestamp::from_second(seconds()?).ok());
    used.is_some_and(|used| SystemTime::from(used) >= since)
}

fn attribute(start: &BytesStart<'_>, name: &str) -> Option<String> {
    let mut attributes = start.attributes().flatten();
    let found = attributes.find(|attribute| attribute.key.local_name().as_ref() == name)?;
    let value = found.normalized_value(XmlVersion::Implicit1_0).ok()?;
    Some(value.into_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::test_places::budget;

    // As GLib 2.74 writes it.
    const DOCUMENTS: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<xbel version="1.0" xmlns:bookmark="http://www.freedesktop.org/standards/desktop-bookmarks" xmlns:mime="http://www.freedesktop.org/standards/shared-mime-info">
  <bookmark href="file:///home/ann/secret%20plan.odt" added="2026-09-20T10:00:00.000000Z" modified="2026-09-20T10:00:00.000000Z" visited="2026-09-20T10:00:00.000000Z">
    <info><metadata owner="http://freedesktop.org">
      <mime:mime-type type="text/plain"/>
      <bookmark:applications>
        <bookmark:application name="LibreOffice &amp; Co" exec="&apos;soffice %u&apos;" modified="2026-09-20T10:00:00.123456Z" count="3"/>
        <bookmark:application name="Old Viewer" exec="&apos;viewer %u&apos;" modified="2026-01-01T10:00:00Z" count="1"/>
        <bookmark:application name="Old Format" timestamp="1789900000" count="1"/>
        <bookmark:application name="No Date" count="1"/>
      </bookmark:applications>
    </metadata></info>
  </bookmark>
  <bookmark href="file:///home/ann/b.odt"><info><metadata owner="http://freedesktop.org"><bookmark:applications>
    <bookmark:application name="LibreOffice &amp; Co" modified="2026-09-19T10:00:00Z"/>
  </bookmark:applications></metadata></info></bookmark>
</xbel>"#;

    fn count(text: &str) -> (HashMap<String, u64>, Result<(), String>) {
        let since = SystemTime::UNIX_EPOCH + Duration::from_secs(1_789_395_200);
        let mut counts = HashMap::new();
        let result = count_documents(text.as_bytes(), since, &budget(), &mut counts);
        (counts, result)
    }

    #[test]
    fn recent_documents_are_counted_by_program() {
        let (counts, result) = count(DOCUMENTS);
        assert_eq!(result, Ok(()));
        let expected = [("LibreOffice & Co", 2), ("Old Format", 1)];
        let expected = expected.map(|(name, count)| (name.to_owned(), count));
        assert_eq!(counts, HashMap::from(expected));
    }

    #[test]
    fn what_comes_before_damage_is_counted() {
        let (counts, result) =
            count(&DOCUMENTS[..DOCUMENTS.rfind("count=\"3\"").expect("it") + 30]);
        assert_eq!(counts.len(), 1);
        assert!(
            result
                .expect_err("damage")
                .starts_with("its XML is damaged")
        );
        assert!(count("<!DOCTYPE x [<!ENTITY a \"b\">]><x>&a;").0.is_empty());
    }
}
