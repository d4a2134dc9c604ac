//! What hunks make of one file's text, in whatever encoding it is. Not here: where they belong (placing), and which
//! files there are (plan).

use super::lines::{FileLines, MARK};
use super::placing::{self, Place, Placed, Trouble};
use super::{Hunk, weave};
use crate::acp::files::{Encoding, LoadedFile, Splice};
use crate::output::Uncut;
use crate::tool::{ErrorCode, ToolError};

/// A change of a file's content.
#[derive(Debug, Default)]
pub(crate) struct Edit {
    /// The file as UTF-8, where it is something else.
    pub decoded: Option<Vec<u8>>,
    /// The places that change in it.
    pub splices: Vec<Splice>,
    /// All bytes that the file gets, where it is not UTF-8.
    pub encoded: Option<Vec<u8>>,
}

/// The change that hunks make of a loaded file, with what is to be said of it.
pub(super) fn edit(
    shown: &str,
    loaded: &LoadedFile,
    hunks: &[Hunk],
    uncut: &Uncut,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<(Edit, Vec<String>), ToolError> {
    // The whole file tells more than its beginning.
    let encoding = match loaded.encoding {
        Encoding::Utf8 => Encoding::of(&loaded.bytes, true),
        told => told,
    };
    let decoded = match encoding {
        Encoding::Utf8 | Encoding::Utf8Bom => None,
        other => Some(decoded(shown, &loaded.bytes, other)?),
    };
    let text = decoded.as_deref().unwrap_or(&loaded.bytes);
    let (splices, placed) = applied(text, hunks, uncut, is_cancelled).map_err(|trouble| {
        let text = match trouble.code {
            ErrorCode::Cancelled => trouble.text,
            _ => format!("{shown}: {}", trouble.text),
        };
        ToolError::new(trouble.code, text)
    })?;
    let mut edit = Edit { decoded, splices, encoded: None };
    if let Some(text) = &edit.decoded
        && !edit.splices.is_empty()
    {
        edit.encoded = Some(encoded(shown, &woven(text, &edit.splices), encoding)?);
    }
    Ok((edit, notes(&placed)))
}

/// What hunks make of a text.
pub(crate) fn applied(
    text: &[u8],
    hunks: &[Hunk],
    uncut: &Uncut,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<(Vec<Splice>, Placed), Trouble> {
    // Who writes the mark means it: such a patch may take it away.
    let with_mark = hunks.iter().flat_map(|hunk| &hunk.lines).any(|line| line.text.starts_with(MARK));
    let mut file = FileLines::of(text, with_mark);
    let placed = placing::place(&mut file, hunks, uncut, is_cancelled)?;
    Ok((weave::splices(&file, hunks, &placed), placed))
}

/// A text with its splices.
pub(crate) fn woven(text: &[u8], splices: &[Splice]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    for splice in splices {
        out.extend_from_slice(&text[at..splice.range.start]);
        out.extend_from_slice(&splice.with);
        at = splice.range.end;
    }
    out.extend_from_slice(&text[at..]);
    out
}

/// What is to be said of the hunks' places.
fn notes(placed: &Placed) -> Vec<String> {
    let mut notes = placed.notes.clone();
    let all = placed.places.len();
    let there = |place: &Place| matches!(place, Place::Applied(_) | Place::Idle);
    let are_all_there = placed.places.iter().all(there);
    for (number, place) in (1..).zip(&placed.places) {
        match place {
            Place::At { tier, .. } => {
                notes.extend(tier.note().map(|note| {
                    let note = note.replace("new_string", "what comes");
                    if all == 1 { format!("It was {note}.") } else { format!("Hunk {number} was {note}.") }
                }));
            }
            Place::Applied(line) if !are_all_there => {
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

/// The text of a file that is not UTF-8, if it can be written back byte for byte.
fn decoded(shown: &str, bytes: &[u8], encoding: Encoding) -> Result<Vec<u8>, ToolError> {
    let body = bytes.get(encoding.mark().len()..).unwrap_or_default();
    let (text, lossy) = encoding.decode(body);
    if lossy > 0 || encoding.encode(&text).map_or(true, |back| *back != *body) {
        let text = format!(
            "{shown} is {}, and not all of its bytes are text in it; patching would change others than those of the \
             patch. Use Bash, for example `sed -i`.",
            encoding.as_str()
        );
        return Err(ToolError::new(ErrorCode::NotText, text));
    }
    Ok(text.into_owned().into_bytes())
}

fn encoded(shown: &str, text: &[u8], encoding: Encoding) -> Result<Vec<u8>, ToolError> {
    let mut bytes = encoding.mark().to_vec();
    let text = String::from_utf8_lossy(text);
    let body = encoding.encode(&text).map_err(|lacking| {
        let text =
            format!("{shown}: {lacking}, so what the patch adds cannot be written. Use other characters.");
        ToolError::invalid_args(text)
    })?;
    bytes.extend_from_slice(&body);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::Action;
    use super::super::parse::parse;
    use super::*;

    /// What a patch of one file makes of a text.
    fn patched(text: &str, patch: &str) -> Result<(String, Vec<String>), String> {
        let patch = parse(patch).map_err(|error| error.to_string())?;
        let Action::Update { hunks, .. } = &patch.sections[0].action else { panic!("{patch:?}") };
        let (splices, placed) =
            applied(text.as_bytes(), hunks, &Uncut::default(), &|| false).map_err(|trouble| trouble.text)?;
        let new = String::from_utf8(woven(text.as_bytes(), &splices)).expect("text");
        Ok((new, notes(&placed)))
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
            ("a\r\nb\r\nc\r\n", "@@\n a\n-b\n+B\n+C\n c", "a\r\nB\r\nC\r\nc\r\n", Some("line endings")),
            ("a  \nb\nc\n", "@@\n a\n-b\n+B\n c", "a  \nB\nc\n", Some("blanks at line ends")),
            ("say “a”\nb\n", "@@\n say \"a\"\n-b\n+B", "say “a”\nB\n", Some("typographic")),
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
    fn the_end_of_a_file_stays_as_it_was_unless_the_patch_changes_just_that() {
        for (text, hunks, expect) in [
            ("a\nb", "@@\n a\n-b\n+B", "a\nB"),
            ("a\nb", "@@\n b\n+c", "a\nb\nc"),
            ("a\r\nb", "@@\n b\n+c", "a\r\nb\r\nc"),
            ("a\nb", "@@\n+c", "a\nb\nc"),
            ("a\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n+b\n\\ No newline at end of file", "a\nb"),
            ("a\nb", "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b", "a\nb\n"),
            (
                "a\nb",
                "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file",
                "a\nc",
            ),
            // Wrong marks in the middle of a file are no reason to join lines.
            ("a\nb\nc\n", "@@ -1,2 +1,2 @@\n a\n-b\n+B\n\\ No newline at end of file", "a\nB\nc\n"),
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
        makes("\u{FEFF}a\nb\n", "@@ -1,2 +1,2 @@\n-\u{FEFF}a\n+a\n b", "a\nb\n");
        makes("a\nb\n", "@@ -1,2 +1,2 @@\n-a\n+\u{FEFF}a\n b", "\u{FEFF}a\nb\n");
    }

    #[test]
    fn anchors_narrow_and_are_never_needed() {
        let text = "fn a() {\n  x();\n}\nfn b() {\n  x();\n}\nfn c() {\n  y();\n}\n";
        makes(text, "@@ fn b() {\n-  x();\n+  z();", &text.replacen("x();\n}\nfn c", "z();\n}\nfn c", 1));
        makes(text, "@@ fn b\n-  x();\n+  z();", &text.replacen("x();\n}\nfn c", "z();\n}\nfn c", 1));
        makes(
            text,
            "@@ fn b() {\n fn b() {\n-  x();\n+  z();",
            &text.replacen("x();\n}\nfn c", "z();\n}\nfn c", 1),
        );
        assert!(fails(text, "@@\n-  x();\n+  z();").contains("fits at 2 places: lines 2, 5"));
        let notes = makes(text, "@@ fn d()\n-  y();\n+  z();", &text.replace('y', "z"));
        assert!(notes[0].contains("`@@ fn d()` is not in the file"), "{notes:?}");
        assert!(fails(text, "@@ fn d()\n-  x();\n+  z();").contains("fn d()"));
        makes(text, "@@ fn b() {\n+  first();", &text.replace("fn b() {\n", "fn b() {\n  first();\n"));
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
        for (line, expect) in [(1, "y\na\nx\nb\nx\n"), (3, "x\na\ny\nb\nx\n"), (9, "x\na\nx\nb\ny\n")] {
            let hunk = format!("@@ -{line} +{line} @@\n-x\n+y");
            makes(text, &hunk, expect);
        }
        assert!(fails(text, "@@ -2 +2 @@\n-x\n+y").contains("fits at 3 places"), "as near to 1 as to 3");
        // The first hunk is unique only because the second must come behind it.
        makes("x\nb\nx\n", "@@\n-x\n+y\n@@\n-b\n+B", "y\nB\nx\n");
        // Two hunks may share a line of context.
        makes("a\nm\nb\n", "@@\n-a\n+A\n m\n@@\n m\n-b\n+B", "A\nm\nB\n");
        assert!(fails("a\nb\n", "@@\n-a\n+A\n@@\n-a\n+B").contains("Hunk 2"));
        // What comes before a line stands before what takes its place, in whatever order the patch says it.
        makes("x\nb\n", "@@\n-b\n+B\n@@\n x\n+z", "x\nz\nB\n");
        makes("a\nb", "@@ -2 +2 @@\n-b\n\\ No newline at end of file\n+b\n@@\n+c", "a\nb\nc");
    }

    #[test]
    fn the_end_of_a_file_can_be_asked_for() {
        makes("x\na\nx\n", "@@\n-x\n+y\n*** End of File", "x\na\ny\n");
    }

    #[test]
    fn what_was_applied_before_is_not_applied_again() {
        let (before, after) = ("one\ntwo\nthree\nfour\n", "one\ntwo\nnew line\nthree\nfour\n");
        let hunk = "@@\n two\n+new line\n three";
        makes(before, hunk, after);
        assert_eq!(makes(after, hunk, after), Vec::<String>::new());
        // A mixture is applied and said.
        let notes = makes(after, &format!("{hunk}\n@@\n-four\n+FOUR"), "one\ntwo\nnew line\nthree\nFOUR\n");
        assert!(notes[0].contains("Hunk 1 was there already, at line 2"), "{notes:?}");
        // Context on one side only: still not twice.
        for hunk in ["@@\n+first line\n one", "@@\n four\n+last line\n*** End of File", "@@\n+last line"] {
            let once = patched(before, &format!("*** Update File: f\n{hunk}")).expect("applied").0;
            makes(&once, hunk, &once);
        }
        let diff = "--- a/f\n+++ b/f\n@@ -2,3 +2,4 @@\n two\n three\n four\n+last line\n";
        let once = patched(before, diff).expect("applied").0;
        assert_eq!(patched(&once, diff).expect("applied").0, once);
        // Lines that repeat are no sign of it.
        makes("x\nx\nx\nx\n", "@@ -2,3 +2,4 @@\n x\n x\n x\n+x", "x\nx\nx\nx\nx\n");
    }

    #[test]
    fn a_miss_shows_what_is_nearest_and_names_the_hunk() {
        let text = fails("fn a() {\n    let x = 1;\n}\n", "@@\n fn a() {\n-    let y = 1;\n+    let z = 1;");
        assert!(text.starts_with("Hunk 1 (line 2 of the patch)"), "{text}");
        assert!(text.contains("First difference, line 2") && text.contains("\"x = 1;\""), "{text}");
    }
}
