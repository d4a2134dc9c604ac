//! Parses the patch format of Codex: `*** Begin Patch`, a section per file, hunks placed by their own lines.

use super::hunk_text::read_hunk;
use super::parse_error::{PatchParseError, is_wrapping_line, quote_line};
use super::{Patch, PatchFileSection, SectionAction};

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const UPDATE: &str = "*** Update File:";
const ADD: &str = "*** Add File:";
const DELETE: &str = "*** Delete File:";
const MOVE: &str = "*** Move to:";
const END_OF_FILE: &str = "*** End of File";

/// Returns whether only this format has such a line.
pub(super) fn is_codex_mark(line: &str) -> bool {
    [BEGIN, END, UPDATE, ADD, DELETE]
        .iter()
        .any(|mark| line.starts_with(mark))
}

/// Returns whether a line ends the lines of a hunk.
fn ends_codex_hunk(line: &str) -> bool {
    is_codex_mark(line)
        || line.starts_with("@@")
        || [MOVE, END_OF_FILE]
            .iter()
            .any(|mark| line.starts_with(mark))
}

/// Takes the blanks before an end mark that is the last line, if there is no other.
pub(super) fn unindent_end(lines: &mut [&str]) {
    if lines.iter().any(|line| line.starts_with(END)) {
        return;
    }
    let mut last = lines.iter_mut().rev();
    if let Some(line) = last.find(|line| !is_wrapping_line(line) && !line.trim().is_empty())
        && line.trim() == END
    {
        *line = END;
    }
}

/// Parses a whole patch.
pub(super) fn parse_codex(lines: &[&str]) -> Result<Patch, PatchParseError> {
    let mut patch = Patch {
        sections: Vec::new(),
        notes: Vec::new(),
    };
    // Wrapping lines around a patch without an end mark do not belong to its last hunk.
    let mut len = lines.len();
    while len > 0 && is_wrapping_line(lines[len - 1]) {
        len -= 1;
    }
    let lines = &lines[..len];
    let mut at = lines
        .iter()
        .position(|line| is_codex_mark(line))
        .unwrap_or(len);
    // A patch that was cut off may end in the middle of a line.
    let mut is_begun = false;
    let mut is_ended = false;
    while at < len {
        let line = lines[at].trim();
        is_begun |= line.starts_with(BEGIN);
        is_ended |= line.starts_with(END);
        if line.starts_with(BEGIN) || line.is_empty() {
            at += 1;
        } else if line.starts_with(END) {
            at = skip_after_end(lines, at, &mut patch.notes);
        } else if let Some(name) = name_after_mark(lines, at, ADD)? {
            let (content, end) = read_added_file(lines, at + 1)?;
            let action = SectionAction::Add {
                content,
                executable: None,
            };
            patch.sections.push(PatchFileSection {
                line: at + 1,
                names: vec![name],
                action,
            });
            at = end;
        } else if let Some(name) = name_after_mark(lines, at, DELETE)? {
            let action = SectionAction::Delete { hunks: None };
            patch.sections.push(PatchFileSection {
                line: at + 1,
                names: vec![name],
                action,
            });
            at += 1;
        } else if let Some(name) = name_after_mark(lines, at, UPDATE)? {
            let (action, end) = read_updated_file(lines, at)?;
            patch.sections.push(PatchFileSection {
                line: at + 1,
                names: vec![name],
                action,
            });
            at = end;
        } else {
            let why = format!(
                "{} stands outside of any file. Begin each file with `{UPDATE} PATH`, `{ADD} PATH` or `{DELETE} PATH`; \
                 after `{DELETE}` there are no lines.",
                quote_line(line)
            );
            return Err(PatchParseError::bad_line(at, why));
        }
    }
    if is_begun && !is_ended {
        let why =
            format!("the patch ends without `{END}`: it may have been cut off. Send it whole.");
        return Err(PatchParseError::bad_line(len - 1, why));
    }
    if patch.sections.is_empty() {
        let why = format!(
            "the patch names no file. Put `{UPDATE} PATH`, `{ADD} PATH` or `{DELETE} PATH` into it."
        );
        return Err(PatchParseError::bad_line(0, why));
    }
    Ok(patch)
}

/// Finds the next patch after the end of this one, or the end of the text; adds a note on ignored
/// lines.
fn skip_after_end(lines: &[&str], end: usize, notes: &mut Vec<String>) -> usize {
    let next = (end + 1..lines.len())
        .find(|at| lines[*at].starts_with(BEGIN))
        .unwrap_or(lines.len());
    let ignored = lines[end + 1..next]
        .iter()
        .filter(|line| !is_wrapping_line(line))
        .count();
    if ignored > 0 {
        let (s, are) = if ignored == 1 {
            ("", "is")
        } else {
            ("s", "are")
        };
        notes.push(format!(
            "{ignored} line{s} behind `{END}` {are} no part of the patch and had no effect."
        ));
    }
    next
}

/// The name after a mark, if the line has this mark.
fn name_after_mark(
    lines: &[&str],
    at: usize,
    mark: &str,
) -> Result<Option<String>, PatchParseError> {
    let Some(name) = lines[at].trim_start().strip_prefix(mark) else {
        return Ok(None);
    };
    match name.trim() {
        "" => Err(PatchParseError::bad_line(
            at,
            format!("`{mark}` names no file."),
        )),
        name => Ok(Some(name.to_owned())),
    }
}

/// The lines of a new file.
fn read_added_file(lines: &[&str], from: usize) -> Result<(String, usize), PatchParseError> {
    let mut end = (from..lines.len())
        .find(|at| ends_codex_hunk(lines[*at]))
        .unwrap_or(lines.len());
    let behind = end;
    while end > from && lines[end - 1].is_empty() {
        end -= 1;
    }
    let mut text = String::new();
    for (at, line) in lines.iter().enumerate().take(end).skip(from) {
        match line.strip_prefix('+') {
            Some(line) => text.push_str(line),
            None if line.trim().is_empty() => {}
            None => {
                let why = "a line of a new file begins with +. To change a file that exists use `*** Update File:`.";
                return Err(PatchParseError::bad_line(at, why));
            }
        }
        text.push('\n');
    }
    let behind = if lines
        .get(behind)
        .is_some_and(|line| line.starts_with(END_OF_FILE))
    {
        behind + 1
    } else {
        behind
    };
    Ok((text, behind))
}

/// The hunks of a file that is changed.
fn read_updated_file(
    lines: &[&str],
    head: usize,
) -> Result<(SectionAction, usize), PatchParseError> {
    let mut at = head + 1;
    let mut move_to = None;
    if at < lines.len()
        && let Some(name) = name_after_mark(lines, at, MOVE)?
    {
        move_to = Some(name);
        at += 1;
    }
    // Some writers put a diff's names below the section's own.
    if lines.get(at).is_some_and(|line| line.starts_with("--- "))
        && lines
            .get(at + 1)
            .is_some_and(|line| line.starts_with("+++ "))
        && lines.get(at + 2).is_some_and(|line| line.starts_with("@@"))
    {
        at += 2;
    }
    let mut hunks = Vec::new();
    let ends = |at: usize| ends_codex_hunk(lines[at]);
    while at < lines.len() && !is_codex_mark(lines[at]) {
        let next = (at..lines.len())
            .find(|at| !lines[*at].trim().is_empty())
            .unwrap_or(lines.len());
        if next > at && (next == lines.len() || ends(next)) {
            at = next;
            continue;
        }
        let (mut hunk, end) = read_hunk(lines, at, &ends)?;
        at = end;
        if lines
            .get(at)
            .is_some_and(|line| line.starts_with(END_OF_FILE))
        {
            hunk.at_end = true;
            at += 1;
        }
        if let Some(line) = lines.get(at).filter(|line| line.starts_with(MOVE)) {
            return Err(PatchParseError::bad_line(
                at,
                format!("{line:?} belongs directly below `{UPDATE}`."),
            ));
        }
        hunks.push(hunk);
    }
    if hunks.is_empty() && move_to.is_none() {
        return Err(PatchParseError::bad_line(
            head,
            "says that a file is changed, but no hunk follows.",
        ));
    }
    Ok((
        SectionAction::Update {
            hunks,
            move_to,
            executable: None,
        },
        at,
    ))
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse_patch;
    use super::super::{Hunk, LineKind};
    use super::*;

    fn one(text: &str) -> PatchFileSection {
        let mut patch = parse_patch(text).expect(text);
        assert_eq!(patch.sections.len(), 1, "{patch:?}");
        patch.sections.remove(0)
    }

    fn hunks(section: &PatchFileSection) -> &[Hunk] {
        match &section.action {
            SectionAction::Update { hunks, .. } => hunks,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_kind_of_section_is_read() {
        let patch = parse_patch(
            "*** Begin Patch\n*** Add File: new.txt\n+one\n+\n+two\n*** Delete File: old.txt\n*** Update File: a.rs\n\
             *** Move to: b.rs\n@@ impl A\n@@ fn x()\n keep\n-go\n+come\n*** End of File\n@@\n+last\n*** End Patch\n",
        )
        .expect("a patch");
        let [add, delete, update] = patch.sections.as_slice() else {
            panic!("{patch:?}")
        };
        assert_eq!(
            add.action,
            SectionAction::Add {
                content: "one\n\ntwo\n".to_owned(),
                executable: None
            }
        );
        assert_eq!((delete.names[0].as_str(), delete.line), ("old.txt", 6));
        let SectionAction::Update { hunks, move_to, .. } = &update.action else {
            panic!("{update:?}")
        };
        assert_eq!(move_to.as_deref(), Some("b.rs"));
        assert_eq!(hunks[0].anchors, ["impl A", "fn x()"]);
        assert!(hunks[0].at_end && hunks[0].lines.len() == 3 && hunks[1].lines.len() == 1);
    }

    #[test]
    fn what_models_put_around_and_leave_out_is_forgiven() {
        let bare = "*** Update File: a\n@@\n x\n-y\n+z\n";
        let expect = one(bare);
        for text in [
            format!("*** Begin Patch\n{bare}*** End Patch"),
            format!("```diff\n*** Begin Patch\n{bare}*** End Patch\n```\n"),
            format!("```\n{bare}```"),
            format!("apply_patch <<'EOF'\n*** Begin Patch\n{bare}*** End Patch\nEOF\n"),
            format!("  *** Begin Patch\n{bare}\n\n*** End Patch\n\n"),
            format!("*** Begin Patch\n  {bare}*** End Patch"),
            format!("*** Begin Patch\n{bare} *** End Patch\n"),
            format!("Here is the patch:\n{bare}"),
            bare.replace("@@\n", ""),
            bare.replace("@@\n", "--- a/a\n+++ b/a\n@@ ... @@\n"),
        ] {
            let got = one(&text);
            let lines = |section: &PatchFileSection| hunks(section)[0].lines.clone();
            assert_eq!(
                (&got.names, lines(&got)),
                (&expect.names, lines(&expect)),
                "{text}"
            );
        }
    }

    #[test]
    fn an_empty_line_inside_a_hunk_is_context_and_behind_it_spacing() {
        let section = one("*** Update File: a\n x\n\n-y\n\n*** End Patch");
        let kinds: Vec<(LineKind, &str)> = hunks(&section)[0]
            .lines
            .iter()
            .map(|line| (line.kind, line.text.trim_end_matches('\n')))
            .collect();
        assert_eq!(
            kinds,
            [
                (LineKind::Context, "x"),
                (LineKind::Context, ""),
                (LineKind::Removed, "y")
            ]
        );
    }

    #[test]
    fn the_heads_of_a_diff_are_taken_as_numbers_not_as_anchors() {
        let section = one("*** Update File: a\n@@ -3,2 +3,2 @@ fn x()\n x\n-y\n+z\n*** End Patch");
        let hunk = &hunks(&section)[0];
        assert_eq!(
            (hunk.stated.map(|stated| stated.start), hunk.anchors.len()),
            (Some(3), 0)
        );
    }

    #[test]
    fn what_does_not_belong_is_refused_by_its_line() {
        for (text, line) in [
            ("*** Begin Patch\n*** End Patch", 1),
            ("*** Begin Patch\n*** Update File: a\n*** End Patch", 2),
            ("*** Begin Patch\n*** Update File:\n x\n", 2),
            ("*** Begin Patch\n*** Update File: a\n@@\n-x\n+y(", 5),
            (
                "*** Begin Patch\n*** Update File: a\n@@ x\n*** End Patch",
                3,
            ),
            (
                "*** Begin Patch\n*** Update File: a\n@@\n-x\nfn y() {}\n*** End Patch",
                5,
            ),
            ("*** Begin Patch\n*** Add File: a\n+x\ny\n*** End Patch", 4),
            ("*** Begin Patch\n*** Delete File: a\n-x\n*** End Patch", 3),
            (
                "*** Begin Patch\n*** Update File: a\n-x\n*** Move to: b\n*** End Patch",
                4,
            ),
        ] {
            match parse_patch(text) {
                Err(PatchParseError::Line { line: at, .. }) => assert_eq!(at, line, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
        let patch = parse_patch("*** Begin Patch\n*** Delete File: a\n*** End Patch\nand then\n")
            .expect("a patch");
        assert!(
            patch.notes[0].starts_with("1 line behind"),
            "{:?}",
            patch.notes
        );
    }
}
