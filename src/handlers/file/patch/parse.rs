//! Parses a text as a [`Patch`]: detects its format and removes the wrapping around it.

use super::parse_error::PatchParseError;
use super::{Patch, codex, unified};

/// Parses a patch.
///
/// # Errors
/// [`PatchParseError`], with the line.
pub(crate) fn parse_patch(text: &str) -> Result<Patch, PatchParseError> {
    let mut lines: Vec<&str> = text.split('\n').collect();
    if lines
        .last()
        .is_some_and(|last| last.trim_end_matches('\r').is_empty())
    {
        lines.pop();
    }
    // Heads have no carriage return of their own. If they have one, the whole patch was written
    // with CRLF.
    let is_head = |line: &&&str| codex::is_codex_mark(line) || unified::is_diff_head(line);
    let notes = if lines
        .iter()
        .find(is_head)
        .is_some_and(|line| line.ends_with('\r'))
    {
        for line in &mut lines {
            *line = line.strip_suffix('\r').unwrap_or(line);
        }
        vec!["The patch itself has CRLF line endings; they were taken as plain ones.".to_owned()]
    } else {
        Vec::new()
    };
    if let Some(first) = lines.iter_mut().find(|line| !line.trim().is_empty()) {
        *first = first.trim_start();
    }
    codex::unindent_end(&mut lines);
    let mut patch = if lines.iter().any(|line| codex::is_codex_mark(line)) {
        codex::parse_codex(&lines)?
    } else if lines
        .iter()
        .enumerate()
        .any(|(at, _)| unified::begins_file_part(&lines, at))
    {
        unified::parse_unified(&lines)?
    } else if let Some(at) = lines.iter().position(|line| line.starts_with("@@")) {
        let why = "a hunk, but no file is named before it. Put `--- a/PATH` and `+++ b/PATH`, or `*** Update File: \
                   PATH`, before it.";
        return Err(PatchParseError::bad_line(at, why));
    } else {
        return Err(PatchParseError::Neither);
    };
    patch.notes.extend(notes);
    Ok(patch)
}

#[cfg(test)]
mod tests {
    use super::super::parse_error::EXAMPLES;
    use super::super::{LineKind, SectionAction};
    use super::*;

    #[test]
    fn what_is_no_patch_is_told_so_with_an_example_of_each() {
        let error = parse_patch("please change a to b").expect_err("no patch");
        let text = error.to_string();
        assert!(
            text.contains("*** Begin Patch") && text.contains("--- a/src/a.rs"),
            "{text}"
        );
        assert_eq!(parse_patch(""), Err(PatchParseError::Neither));
        assert!(matches!(
            parse_patch("@@ -1 +1 @@\n-a\n+b\n"),
            Err(PatchParseError::Line { line: 1, .. })
        ));
    }

    #[test]
    fn every_file_of_a_patch_is_named_however_it_is_written() {
        for patch in [
            "*** Add File:keys/a\n+x\n",
            "*** Delete File:keys/a",
            "*** Update File: x\n*** Move to:keys/a\n",
            "  *** Update File:\tkeys/a \n@@\n-x\n",
            "--- i/keys/a\n+++ w/keys/a\n@@\n-x\n",
            "--- c/keys/a\n+++ o/keys/a\n@@\n-x\n",
            "\n --- keys/a\t2024\n+++ keys/a\t2025\n@@\n-x\n",
            "--- \"a/keys/\\141\"\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n",
            "diff --git a/keys/a b/keys/a\nold mode 100644\nnew mode 100755\n",
            "diff --git a/x b/keys/a\nrename from x\nrename to keys/a\r\n",
            "--- a/y\n+++ b/y\n@@\n-x\n--- a/keys/a\n+++ b/keys/a\n@@\n-x\n",
        ] {
            let read = parse_patch(patch).unwrap_or_else(|error| panic!("{patch}: {error}"));
            assert!(
                read.named_paths().contains("keys/a"),
                "{patch}: {:?}",
                read.named_paths()
            );
        }
    }

    #[test]
    fn the_examples_in_the_refusal_are_patches() {
        let (first, second) = EXAMPLES.split_once("or a unified diff:\n").expect("two");
        for text in [first, second] {
            let patch = parse_patch(text).expect("an example works");
            let [section] = patch.sections.as_slice() else {
                panic!("{patch:?}")
            };
            assert_eq!(section.names[0], "src/a.rs");
            let SectionAction::Update { hunks, .. } = &section.action else {
                panic!("{section:?}")
            };
            let kinds: Vec<LineKind> = hunks[0].lines.iter().map(|line| line.kind).collect();
            assert_eq!(
                kinds,
                [LineKind::Context, LineKind::Removed, LineKind::Added]
            );
        }
    }

    #[test]
    fn a_patch_that_was_written_with_crlf_is_a_plain_one() {
        let plain = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n";
        let crlf = parse_patch(&plain.replace('\n', "\r\n")).expect("a patch");
        assert_eq!(crlf.sections, parse_patch(plain).expect("a patch").sections);
        assert_eq!(crlf.notes.len(), 1);
        // Only the contents have CRLF, so it belongs to the file.
        let of_file = parse_patch("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\r\n+b\r\n").expect("a patch");
        let SectionAction::Update { hunks, .. } = &of_file.sections[0].action else {
            panic!("{of_file:?}")
        };
        assert_eq!(hunks[0].lines[1].text, "b\r\n");
    }
}
