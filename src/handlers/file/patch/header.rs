//! The head of a hunk, as diffs write it and as models do. Not here: its lines (hunk).

use super::Stated;

/// What the text between `@@` and the hunk's first line says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub stated: Option<Stated>,
    pub anchor: Option<String>,
}

/// Reads a line that begins with `@@`; none for the head of a merge's diff, which has more.
pub(super) fn read(line: &str) -> Option<Head> {
    let rest = line.strip_prefix("@@")?;
    if rest.starts_with('@') {
        return None;
    }
    let rest = rest.trim();
    if let Some(stated) = stated(rest) {
        return Some(Head { stated: Some(stated), anchor: None });
    }
    let anchor = rest.strip_suffix("@@").unwrap_or(rest).trim();
    // `@@ ... @@` and `@@ -?,? +?,? @@` stand for figures that the writer did not know.
    let says_nothing = anchor.chars().all(|c| matches!(c, '.' | '…' | '?' | ',' | '-' | '+' | ' '));
    Some(Head { stated: None, anchor: (!says_nothing).then(|| anchor.to_owned()) })
}

/// `-10,2 +10,3` with or without what follows.
fn stated(text: &str) -> Option<Stated> {
    let mut words = text.split_whitespace();
    let (start, count) = range(words.next()?.strip_prefix('-')?)?;
    let (_, new_count) = range(words.next()?.strip_prefix('+')?)?;
    Some(Stated { start, count, new_count })
}

fn range(text: &str) -> Option<(usize, usize)> {
    let text = text.trim_end_matches("@@");
    match text.split_once(',') {
        Some((start, count)) => Some((start.parse().ok()?, count.parse().ok()?)),
        None => Some((text.parse().ok()?, 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_begin_a_hunk_is_understood() {
        let stated = |start, count, new_count| Some(Stated { start, count, new_count });
        for (line, expect, anchor) in [
            ("@@ -10,2 +11,3 @@ fn a()", stated(10, 2, 3), None),
            ("@@ -1 +1,0 @@", stated(1, 1, 0), None),
            ("@@ -1,4 +1,4", stated(1, 4, 4), None),
            ("@@", None, None),
            ("@@ ... @@", None, None),
            ("@@ fn a() {", None, Some("fn a() {")),
            ("@@ class A @@", None, Some("class A")),
            ("@@ -x +y", None, Some("-x +y")),
        ] {
            let head = Head { stated: expect, anchor: anchor.map(str::to_owned) };
            assert_eq!(read(line), Some(head), "{line}");
        }
        assert_eq!(read("@@@ -1 -1 +1 @@@"), None);
        assert_eq!(read("@@ -99999999999999999999 +1 @@").expect("a head").stated, None);
    }
}
