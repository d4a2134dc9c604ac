//! Turns placed hunks into splices of a file's text, so that every byte that no hunk names is unchanged. New text is
//! adapted to its place as in Edit.

use std::path::Path;
use std::sync::Arc;

use super::hunk_candidates::PatchedLines;
use super::hunk_placement::{HunkPlace, PlacedHunks, place_hunks};
use super::placement_error::HunkPlacementError;
use super::{Hunk, HunkLine, LineKind};
use crate::file::block_search::LineTable;
use crate::file::edit_sequence::apply_splices;
use crate::file::format_check::describe_broken_format;
use crate::file::match_tier::MatchTier;
use crate::file::placeholder::refuse_placeholder;
use crate::file::reindent::{IndentShift, LineEnding, QuotePlace, fit_replacement};
use crate::file::text_transcoding::TranscodedText;
use punie_host::files::{ByteSplice, FileEncoding, LoadedFile};
use punie_text::output::SecretBoundaries;
use punie_tool::{ErrorCode, ToolError};

/// A change of a file's content.
#[derive(Debug, Default)]
pub(crate) struct ContentEdit {
    /// The file's text before, as UTF-8.
    pub text: Arc<Vec<u8>>,
    /// The changed places of the text.
    pub splices: Vec<ByteSplice>,
    /// The same places in the file's bytes.
    pub stored: Vec<ByteSplice>,
}

/// Applies hunks to a loaded file; returns the change, with notes for the answer.
pub(super) fn edit_content(
    shown: &str,
    loaded: &LoadedFile,
    hunks: &[Hunk],
    uncut: &SecretBoundaries,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<(ContentEdit, Vec<String>), ToolError> {
    for hunk in hunks {
        let text_of = |kind: LineKind| -> String {
            let lines = hunk.lines.iter().filter(|line| line.kind == kind);
            lines.map(|line| line.text.as_str()).collect()
        };
        let removed = text_of(LineKind::Removed);
        let added = text_of(LineKind::Added);
        refuse_placeholder("the patch", &removed, &added)?;
    }
    let mut loaded = loaded.clone();
    if loaded.encoding == FileEncoding::Utf8 {
        // The whole file allows better detection than its beginning.
        loaded.encoding = FileEncoding::detect(&loaded.bytes, true);
    }
    let transcoded = TranscodedText::decode_loaded(&loaded);
    let text = Arc::clone(transcoded.utf8());
    let applied = apply_hunks(&text, hunks, uncut, is_cancelled).or_else(|error| {
        match without_blank_ends(hunks) {
            Some(bare) => apply_hunks(&text, &bare, uncut, is_cancelled).map_err(|_| error),
            None => Err(error),
        }
    });
    let (splices, placed) = applied.map_err(|error| {
        let text = match error.code {
            ErrorCode::Cancelled => error.text,
            _ => format!("{shown}: {}", error.text),
        };
        ToolError::new(error.code, text)
    })?;
    let mut notes = describe_places(&placed, memchr::memchr(b'\r', &text).is_some());
    let new = apply_splices(&text, &splices);
    notes.extend(describe_broken_format(Path::new(shown), &text, || &new));
    let stored = transcoded.to_stored_splices(shown, splices.clone())?;
    Ok((
        ContentEdit {
            text,
            splices,
            stored,
        },
        notes,
    ))
}

/// Returns the hunks without the blank lines of context at their ends, which the end of a file often has not. `None` if
/// none has any.
fn without_blank_ends(hunks: &[Hunk]) -> Option<Vec<Hunk>> {
    let mut bare = hunks.to_vec();
    for hunk in &mut bare {
        while hunk.lines.len() > 1
            && let Some(last) = hunk.lines.last()
            && last.kind == LineKind::Context
            && last.text.trim().is_empty()
        {
            hunk.lines.pop();
        }
    }
    (bare != hunks).then_some(bare)
}

/// Applies hunks to a text.
pub(crate) fn apply_hunks(
    text: &[u8],
    hunks: &[Hunk],
    uncut: &SecretBoundaries,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<(Vec<ByteSplice>, PlacedHunks), HunkPlacementError> {
    let mut file = PatchedLines::split_for_hunks(text, hunks);
    let placed = place_hunks(&mut file, hunks, uncut, is_cancelled)?;
    Ok((splice_hunks(&file.table, hunks, &placed), placed))
}

/// Describes the places for the answer.
fn describe_places(placed: &PlacedHunks, has_returns: bool) -> Vec<String> {
    let mut notes = placed.notes.clone();
    let is_there = |place: &HunkPlace| matches!(place, HunkPlace::Applied(_) | HunkPlace::NoChange);
    let are_all_there = placed.places.iter().all(is_there);
    for (number, place) in (1..).zip(&placed.places) {
        match place {
            HunkPlace::At { tier, .. } => {
                let hunk = if placed.places.len() == 1 {
                    "It".to_owned()
                } else {
                    format!("Hunk {number}")
                };
                let note = tier
                    .describe(has_returns)
                    .map(|note| note.replace("new_string", "what comes"));
                notes.extend(note.map(|note| format!("{hunk} was {note}.")));
            }
            HunkPlace::Applied(line) if !are_all_there => {
                notes.push(format!(
                    "Hunk {number} was there already, at line {}; the others were applied.",
                    line + 1
                ));
            }
            _ => {}
        }
    }
    notes
}

/// The conversion of a hunk's lines to the file's.
struct HunkFit {
    tier: MatchTier,
    indent: IndentShift,
    /// The lines are inserted as the patch has them.
    is_literal: bool,
    /// The text must end in a line feed if the hunk reaches its end.
    ends_closed: bool,
}

/// Builds the splices of placed hunks, in order and without overlap.
fn splice_hunks(file: &LineTable<'_>, hunks: &[Hunk], placed: &PlacedHunks) -> Vec<ByteSplice> {
    let ends_with_return = |line: &HunkLine| line.text.trim_end_matches('\n').ends_with('\r');
    let writes_returns = hunks
        .iter()
        .flat_map(|hunk| &hunk.lines)
        .any(ends_with_return);
    let mut all: Vec<ByteSplice> = Vec::new();
    for (hunk, place) in hunks.iter().zip(&placed.places) {
        let old = hunk.old_lines();
        let (start, tier) = match place {
            HunkPlace::At { start, tier } => (*start, *tier),
            HunkPlace::Before(line) => (
                *line,
                if writes_returns {
                    MatchTier::Exact
                } else {
                    MatchTier::LineEndings
                },
            ),
            HunkPlace::Applied(_) | HunkPlace::NoChange => continue,
        };
        let is_at_end = start + old.len() == file.len();
        let indent = if tier >= MatchTier::Indentation {
            file.indent_shift_at(start, &old, tier)
        } else {
            None
        };
        let fit = HunkFit {
            tier: tier.max(MatchTier::LineEndings),
            indent: indent.unwrap_or(IndentShift::Same),
            is_literal: tier == MatchTier::Exact && (is_at_end || !hunk.adds_open_line()),
            ends_closed: ends_with_newline(file, hunk),
        };
        let mut line = start;
        for run in hunk
            .lines
            .chunk_by(|a, b| (a.kind == LineKind::Context) == (b.kind == LineKind::Context))
        {
            let removed = run
                .iter()
                .filter(|line| line.kind != LineKind::Added)
                .count();
            if run[0].kind != LineKind::Context {
                all.push(splice_run(file, line..line + removed, run, &fit));
            }
            line += removed;
        }
    }
    join_splices(file.text, all)
}

/// Returns whether the file must end in a line feed: as before, unless the patch changes just that.
fn ends_with_newline(file: &LineTable<'_>, hunk: &Hunk) -> bool {
    let is_closed = |lines: &[&[u8]]| lines.last().is_none_or(|line| line.ends_with(b"\n"));
    let old = is_closed(&hunk.old_lines());
    let new = is_closed(&hunk.new_lines());
    if old == new {
        file.len() == 0 || file.ends_in_newline(file.len() - 1)
    } else {
        new
    }
}

/// Builds the splice of a run of changed lines: an edit whose old text is these lines of the file.
fn splice_run(
    file: &LineTable<'_>,
    lines: std::ops::Range<usize>,
    run: &[HunkLine],
    fit: &HunkFit,
) -> ByteSplice {
    let text_of = |kind: LineKind| -> String {
        run.iter()
            .filter(|line| line.kind == kind)
            .map(|line| line.text.as_str())
            .collect()
    };
    let range = file.start_of(lines.start)..file.start_of(lines.end);
    let is_at_end = lines.end == file.len();
    let place = QuotePlace {
        range,
        indent: fit.indent.clone(),
        ending: LineEnding::first_of_file(file.text),
    };
    let old = text_of(LineKind::Removed);
    let new = text_of(LineKind::Added);
    let mut with = Vec::new();
    if is_at_end
        && lines.is_empty()
        && !new.is_empty()
        && lines.end > 0
        && !file.ends_in_newline(lines.end - 1)
    {
        let ending = LineEnding::nearest_to_range(file.text, &place.range).unwrap_or(place.ending);
        with.extend_from_slice(ending.bytes());
    }
    if fit.is_literal {
        with.extend_from_slice(new.as_bytes());
    } else {
        let old = close_text(old, file.text[..place.range.end].ends_with(b"\n"));
        let new = close_text(new, !is_at_end || fit.ends_closed);
        with.extend(fit_replacement(file.text, &old, &new, fit.tier, &place));
    }
    ByteSplice {
        range: place.range,
        with,
    }
}

/// Adds or removes the line ending of a text's last line.
fn close_text(mut text: String, is_closed: bool) -> String {
    if text.is_empty() {
        return text;
    }
    let body = text.strip_suffix('\n').unwrap_or(&text);
    text.truncate(body.strip_suffix('\r').unwrap_or(body).len());
    if is_closed {
        text.push('\n');
    }
    text
}

/// Joins adjacent splices. Text inserted before a line precedes that line's replacement; otherwise
/// the patch's order applies.
fn join_splices(text: &[u8], mut all: Vec<ByteSplice>) -> Vec<ByteSplice> {
    all.sort_by_key(|splice| (splice.range.start, splice.range.end));
    let mut splices: Vec<ByteSplice> = Vec::new();
    for splice in all {
        match splices.last_mut() {
            Some(last) if last.range.end == splice.range.start && splice.range.is_empty() => {
                // The first of them has ended the last line already.
                let is_at_open_end = splice.range.start == text.len() && !text.ends_with(b"\n");
                let is_closed = is_at_open_end && last.with.ends_with(b"\n");
                let endings = [b"\r\n".as_slice(), b"\n"];
                let doubled = endings
                    .into_iter()
                    .find(|ending| is_closed && splice.with.starts_with(ending));
                last.with
                    .extend_from_slice(&splice.with[doubled.map_or(0, <[u8]>::len)..]);
            }
            _ => splices.push(splice),
        }
    }
    splices.retain(|splice| text[splice.range.clone()] != *splice.with);
    splices
}

#[cfg(test)]
mod tests {
    use super::super::SectionAction;
    use super::super::parse::parse_patch;
    use super::*;

    /// Applies a patch of one file to a text.
    fn patched(text: &str, patch: &str) -> Result<(String, Vec<String>), String> {
        let patch = parse_patch(patch).map_err(|error| error.to_string())?;
        let SectionAction::Update { hunks, .. } = &patch.sections[0].action else {
            panic!("{patch:?}")
        };
        let (splices, placed) = apply_hunks(
            text.as_bytes(),
            hunks,
            &SecretBoundaries::default(),
            &|| false,
        )
        .map_err(|error| error.text)?;
        let new = String::from_utf8(apply_splices(text.as_bytes(), &splices)).expect("text");
        Ok((new, describe_places(&placed, text.contains('\r'))))
    }

    fn makes(text: &str, hunks: &str, expect: &str) -> Vec<String> {
        let (new, notes) = patched(text, &format!("*** Update File: f\n{hunks}"))
            .unwrap_or_else(|error| panic!("{text:?} {hunks:?}: {error}"));
        assert_eq!(new, expect, "{text:?} {hunks:?} {notes:?}");
        notes
    }

    fn fails(text: &str, hunks: &str) -> String {
        match patched(text, &format!("*** Update File: f\n{hunks}")) {
            Ok((new, notes)) => panic!("{text:?} {hunks:?} gave {new:?} {notes:?}"),
            Err(error) => error,
        }
    }

    #[test]
    fn each_tier_is_used_and_said() {
        for (text, hunks, expect, note) in [
            ("a\nb\nc\n", "@@\n a\n-b\n+B\n c", "a\nB\nc\n", None),
            (
                "a\r\nb\r\nc\r\n",
                "@@\n a\n-b\n+B\n+C\n c",
                "a\r\nB\r\nC\r\nc\r\n",
                Some("line endings"),
            ),
            (
                "a  \nb\nc\n",
                "@@\n a\n-b\n+B\n c",
                "a  \nB\nc\n",
                Some("blanks at line ends"),
            ),
            (
                "say “a”\nb\n",
                "@@\n say \"a\"\n-b\n+B",
                "say “a”\nB\n",
                Some("typographic"),
            ),
            (
                "  if a {\n    b\n  }\n",
                "@@\n if a {\n-  b\n+  c\n+  d\n }",
                "  if a {\n    c\n    d\n  }\n",
                Some("indent"),
            ),
        ] {
            let notes = makes(text, hunks, expect);
            assert_eq!(notes.is_empty(), note.is_none(), "{notes:?}");
            assert!(note.is_none_or(|note| notes[0].contains(note)), "{notes:?}");
        }
    }

    #[test]
    fn a_changed_line_keeps_what_the_patch_leaves_of_it_as_the_file_has_it() {
        for (text, hunks, expect) in [
            (
                "say “a” – no\nb\n",
                "@@\n-say \"a\" - no\n+say \"a\" - yes\n b",
                "say “a” – yes\nb\n",
            ),
            (
                "one  \ntwo  \n",
                "@@\n-one\n-two\n+one\n+twelve",
                "one  \ntwelve  \n",
            ),
            ("a\r\nb\nc\r\n", "@@\n-a\n-b\n+A\n+B\n c", "A\r\nB\nc\r\n"),
        ] {
            makes(text, hunks, expect);
        }
    }

    #[test]
    fn the_end_of_a_file_stays_as_it_was_unless_the_patch_changes_just_that() {
        for (text, hunks, expect) in [
            ("a\nb", "@@\n a\n-b\n+B", "a\nB"),
            ("a\nb", "@@\n b\n+c", "a\nb\nc"),
            ("a\r\nb", "@@\n b\n+c", "a\r\nb\r\nc"),
            ("a\nb", "@@\n+c", "a\nb\nc"),
            (
                "a\nb\n",
                "@@ -1,2 +1,2 @@\n a\n-b\n+b\n\\ No newline at end of file",
                "a\nb",
            ),
            (
                "a\nb",
                "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b",
                "a\nb\n",
            ),
            (
                "a\nb",
                "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file",
                "a\nc",
            ),
            // Wrong newline markers in the middle of a file must not join lines.
            (
                "a\nb\nc\n",
                "@@ -1,2 +1,2 @@\n a\n-b\n+B\n\\ No newline at end of file",
                "a\nB\nc\n",
            ),
            ("", "@@\n+a", "a\n"),
            ("", "@@ -0,0 +1 @@\n+a\n\\ No newline at end of file", "a"),
        ] {
            makes(text, hunks, expect);
        }
    }

    #[test]
    fn a_mark_at_the_beginning_stays_unless_the_patch_writes_it() {
        makes("\u{FEFF}a\nb\n", "@@\n-a\n+A\n b", "\u{FEFF}A\nb\n");
        makes("\u{FEFF}a\nb\n", "@@\n+new\n a", "\u{FEFF}new\na\nb\n");
        makes(
            "\u{FEFF}a\nb\n",
            "@@ -1,2 +1,2 @@\n-\u{FEFF}a\n+a\n b",
            "a\nb\n",
        );
        makes(
            "a\nb\n",
            "@@ -1,2 +1,2 @@\n-a\n+\u{FEFF}a\n b",
            "\u{FEFF}a\nb\n",
        );
    }

    #[test]
    fn anchors_narrow_and_are_never_needed() {
        let text = "fn a() {\n  x();\n}\nfn b() {\n  x();\n}\nfn c() {\n  y();\n}\n";
        makes(
            text,
            "@@ fn b() {\n-  x();\n+  z();",
            &text.replacen("x();\n}\nfn c", "z();\n}\nfn c", 1),
        );
        makes(
            text,
            "@@ fn b\n-  x();\n+  z();",
            &text.replacen("x();\n}\nfn c", "z();\n}\nfn c", 1),
        );
        makes(
            text,
            "@@ fn b() {\n fn b() {\n-  x();\n+  z();",
            &text.replacen("x();\n}\nfn c", "z();\n}\nfn c", 1),
        );
        assert!(fails(text, "@@\n-  x();\n+  z();").contains("fits at 2 places: lines 2, 5"));
        let notes = makes(text, "@@ fn d()\n-  y();\n+  z();", &text.replace('y', "z"));
        assert!(
            notes[0].contains("`@@ fn d()` is not in the file"),
            "{notes:?}"
        );
        assert!(fails(text, "@@ fn d()\n-  x();\n+  z();").contains("fn d()"));
        makes(
            text,
            "@@ fn b() {\n+  first();",
            &text.replace("fn b() {\n", "fn b() {\n  first();\n"),
        );
        // An outer anchor and an inner one.
        let nested = "class A\n def run\n  x\nclass B\n def run\n  x\n";
        makes(
            nested,
            "@@ class B\n@@  def run\n-  x\n+  y",
            "class A\n def run\n  x\nclass B\n def run\n  y\n",
        );
    }

    #[test]
    fn order_and_stated_lines_decide_between_equal_places() {
        let text = "x\na\nx\nb\nx\n";
        makes(text, "@@\n-a\n+A\n@@\n-x\n+y\n b", "x\nA\ny\nb\nx\n");
        makes("x\na\nx\nb\n", "@@\n-b\n+B\n@@\n-a\n+A", "x\nA\nx\nB\n");
        for (line, expect) in [
            (1, "y\na\nx\nb\nx\n"),
            (3, "x\na\ny\nb\nx\n"),
            (9, "x\na\nx\nb\ny\n"),
        ] {
            let hunk = format!("@@ -{line} +{line} @@\n-x\n+y");
            makes(text, &hunk, expect);
        }
        assert!(
            fails(text, "@@ -2 +2 @@\n-x\n+y").contains("fits at 3 places"),
            "as near to 1 as to 3"
        );
        // The first hunk is unique only because the second must come behind it.
        makes("x\nb\nx\n", "@@\n-x\n+y\n@@\n-b\n+B", "y\nB\nx\n");
        // Two hunks may share a line of context.
        makes("a\nm\nb\n", "@@\n-a\n+A\n m\n@@\n m\n-b\n+B", "A\nm\nB\n");
        assert!(fails("a\nb\n", "@@\n-a\n+A\n@@\n-a\n+B").contains("Hunk 2"));
        // Text before a line precedes that line's replacement, in any order of the patch.
        makes("x\nb\n", "@@\n-b\n+B\n@@\n x\n+z", "x\nz\nB\n");
        makes(
            "a\nb",
            "@@ -2 +2 @@\n-b\n\\ No newline at end of file\n+b\n@@\n+c",
            "a\nb\nc",
        );
    }

    #[test]
    fn the_end_of_a_file_can_be_asked_for() {
        makes("x\na\nx\n", "@@\n-x\n+y\n*** End of File", "x\na\ny\n");
    }

    #[test]
    fn what_was_applied_before_is_not_applied_again() {
        let before = "one\ntwo\nthree\nfour\n";
        let after = "one\ntwo\nnew line\nthree\nfour\n";
        let hunk = "@@\n two\n+new line\n three";
        makes(before, hunk, after);
        assert_eq!(makes(after, hunk, after), Vec::<String>::new());
        // A mixture is applied and reported.
        let notes = makes(
            after,
            &format!("{hunk}\n@@\n-four\n+FOUR"),
            "one\ntwo\nnew line\nthree\nFOUR\n",
        );
        assert!(
            notes[0].contains("Hunk 1 was there already, at line 2"),
            "{notes:?}"
        );
        // Context on one side only: still applied once.
        for hunk in [
            "@@\n+first line\n one",
            "@@\n four\n+last line\n*** End of File",
            "@@\n+last line",
        ] {
            let once = patched(before, &format!("*** Update File: f\n{hunk}"))
                .expect("applied")
                .0;
            makes(&once, hunk, &once);
        }
        let diff = "--- a/f\n+++ b/f\n@@ -2,3 +2,4 @@\n two\n three\n four\n+last line\n";
        let once = patched(before, diff).expect("applied").0;
        assert_eq!(patched(&once, diff).expect("applied").0, once);
        // Repeated lines are no sign of an applied hunk.
        makes(
            "x\nx\nx\nx\n",
            "@@ -2,3 +2,4 @@\n x\n x\n x\n+x",
            "x\nx\nx\nx\nx\n",
        );
    }

    #[test]
    fn a_miss_shows_what_is_nearest_and_names_the_hunk() {
        let text = fails(
            "fn a() {\n    let x = 1;\n}\n",
            "@@\n fn a() {\n-    let y = 1;\n+    let z = 1;",
        );
        assert!(text.starts_with("Hunk 1 (line 2 of the patch)"), "{text}");
        assert!(
            text.contains("First difference, line 2") && text.contains("\"x = 1;\""),
            "{text}"
        );
    }
}
