//! Parses unified diffs, plain or as git writes them.

use super::diff_names::{self, DEV_NULL};
use super::hunk_text::read_hunk;
use super::parse_error::{PatchParseError, is_wrapping_line, quote_line};
use super::{Hunk, LineKind, Patch, PatchFileSection, SectionAction};

const GIT_HEAD: &str = "diff --git ";

/// Returns whether a line belongs to a file's head, which shows the patch's own line endings.
pub(super) fn is_diff_head(line: &str) -> bool {
    line.starts_with(GIT_HEAD) || line.starts_with("--- ")
}

/// Returns whether a file's part begins here.
pub(super) fn begins_file_part(lines: &[&str], at: usize) -> bool {
    starts_with_any(lines[at], &[GIT_HEAD, "diff --cc ", "diff --combined "])
        || (lines[at].starts_with("--- ")
            && lines
                .get(at + 1)
                .is_some_and(|next| next.starts_with("+++ ")))
}

fn starts_with_any(line: &str, marks: &[&str]) -> bool {
    marks.iter().any(|mark| line.starts_with(mark))
}

/// Returns whether a line ends the lines of a hunk.
fn ends_unified_hunk(lines: &[&str], at: usize) -> bool {
    let line = lines[at];
    if line.starts_with("--- ") {
        // A removed line that begins with two dashes looks the same; the next lines decide.
        let names = lines
            .get(at + 1)
            .and_then(|next| next.strip_prefix("+++ "))
            .and_then(|new| {
                Some((
                    diff_names::unquote_name(&line[4..])?,
                    diff_names::unquote_name(new)?,
                ))
            });
        return lines.get(at + 2).is_some_and(|line| line.starts_with("@@"))
            && names.is_some_and(|(old, new)| {
                let (olds, news) = diff_names::possible_paths(&old, &new);
                old == DEV_NULL || new == DEV_NULL || olds.iter().any(|old| news.contains(old))
            });
    }
    starts_with_any(
        line,
        &["@@", "diff ", "Index: ", "```", "Binary files ", "Only in "],
    ) || is_mail_signature(lines, at)
}

/// Returns whether a patch made for mail ends here: two dashes, then git's version.
fn is_mail_signature(lines: &[&str], at: usize) -> bool {
    let is_version =
        |line: &&str| line.is_empty() || line.starts_with(|c: char| c.is_ascii_digit());
    matches!(lines[at], "-- " | "--") && lines.get(at + 1).is_none_or(is_version)
}

/// Parses a whole diff.
pub(super) fn parse_unified(lines: &[&str]) -> Result<Patch, PatchParseError> {
    let mut sections = Vec::new();
    let mut at = find_file_part(lines, 0);
    while at < lines.len() {
        let (section, end) = read_file_section(lines, at)?;
        sections.push(section);
        at = skip_to_next_file(lines, end)?;
    }
    Ok(Patch {
        sections,
        notes: Vec::new(),
    })
}

/// Finds the next line at which a file's part begins.
fn find_file_part(lines: &[&str], from: usize) -> usize {
    (from..lines.len())
        .find(|at| begins_file_part(lines, *at))
        .unwrap_or(lines.len())
}

/// Skips the lines that diff programs and mail put between two files.
fn skip_to_next_file(lines: &[&str], from: usize) -> Result<usize, PatchParseError> {
    let end = find_file_part(lines, from);
    let mut is_mail = false;
    for at in from..end {
        let line = lines[at];
        if line.starts_with("```") {
            // The fence around the diff ends here; another may begin.
            break;
        }
        is_mail |= is_mail_signature(lines, at);
        let between = ["diff ", "Index: ", "=====", "Only in ", "*** End"];
        if line.starts_with("Binary files ") || line == "GIT binary patch" {
            return Err(binary_file_error(at));
        }
        if !is_mail && !is_wrapping_line(line) && !starts_with_any(line, &between) {
            let why = format!(
                "{} belongs neither to a hunk nor to a file's head. In a hunk each line begins with a blank, - or +; a \
                 file begins with `--- a/PATH` and `+++ b/PATH`.",
                quote_line(line)
            );
            return Err(PatchParseError::bad_line(at, why));
        }
    }
    Ok(end)
}

fn binary_file_error(at: usize) -> PatchParseError {
    let why =
        "a binary file. ApplyPatch changes text only; use Bash with `git apply` for this one.";
    PatchParseError::unsupported_line(at, why)
}

/// The head of a file's part.
#[derive(Default)]
struct DiffFileHead {
    /// The names on the old side and on the new one.
    names: Option<(String, String)>,
    is_new: bool,
    is_deleted: bool,
    rename_from: Option<String>,
    rename_to: Option<String>,
    executable: Option<bool>,
}

/// Parses one file's part.
fn read_file_section(
    lines: &[&str],
    from: usize,
) -> Result<(PatchFileSection, usize), PatchParseError> {
    let (head, mut at) = read_file_head(lines, from)?;
    let mut hunks = Vec::new();
    while lines.get(at).is_some_and(|line| line.starts_with("@@")) {
        let (hunk, end) = read_hunk(lines, at, &|at| ends_unified_hunk(lines, at))?;
        hunks.push(hunk);
        at = end;
    }
    let Some((old, new)) = head.names else {
        return Err(PatchParseError::bad_line(
            from,
            "a file's head without a name that can be read.",
        ));
    };
    let (olds, mut news) = diff_names::possible_paths(&old, &new);
    let executable = head.executable;
    let (names, action) = if let Some(old) = head.rename_from {
        if head.rename_to.is_none() {
            return Err(PatchParseError::bad_line(
                from,
                "`rename from` without `rename to`.",
            ));
        }
        (
            vec![old],
            SectionAction::Update {
                hunks,
                move_to: head.rename_to,
                executable,
            },
        )
    } else if head.is_new || old == DEV_NULL {
        (
            news,
            SectionAction::Add {
                content: join_new_file(&hunks)?,
                executable,
            },
        )
    } else if head.is_deleted || new == DEV_NULL {
        (olds, SectionAction::Delete { hunks: Some(hunks) })
    } else {
        if hunks.is_empty() && executable.is_none() {
            return Err(PatchParseError::bad_line(
                from,
                "a file is named, but no hunk and no other change follows.",
            ));
        }
        let others: Vec<String> = olds
            .into_iter()
            .filter(|name| !news.contains(name))
            .collect();
        news.extend(others);
        (
            news,
            SectionAction::Update {
                hunks,
                move_to: None,
                executable,
            },
        )
    };
    Ok((
        PatchFileSection {
            line: from + 1,
            names,
            action,
        },
        at,
    ))
}

/// Parses all lines before the first hunk.
fn read_file_head(lines: &[&str], from: usize) -> Result<(DiffFileHead, usize), PatchParseError> {
    let mut head = DiffFileHead::default();
    let mut at = from;
    if lines[at].starts_with("diff --c") {
        return Err(PatchParseError::merge_diff(at));
    }
    if let Some(names) = lines[at].strip_prefix(GIT_HEAD) {
        head.names = diff_names::split_git_names(names);
        at += 1;
        while at < lines.len()
            && !begins_file_part(lines, at)
            && read_git_head_line(lines, at, &mut head)?
        {
            at += 1;
        }
    }
    // After git's own head the names belong to this file, not to a next one.
    if at < lines.len() && lines[at].starts_with("--- ") && begins_file_part(lines, at) {
        head.names = Some((
            read_quoted_name(lines, at, 4)?,
            read_quoted_name(lines, at + 1, 4)?,
        ));
        at += 2;
    }
    Ok((head, at))
}

/// Parses a file's name in a line, from this byte on.
fn read_quoted_name(lines: &[&str], at: usize, from: usize) -> Result<String, PatchParseError> {
    diff_names::unquote_name(&lines[at][from..]).ok_or_else(|| {
        PatchParseError::bad_line(
            at,
            "the file's name is not UTF-8, or its quotes do not end.",
        )
    })
}

/// Parses a file's mode: the executable bit of a regular file.
fn read_file_mode(at: usize, mode: &str) -> Result<Option<bool>, PatchParseError> {
    let other = match mode {
        "100644" | "100755" | "100664" => return Ok(Some(mode == "100755")),
        "120000" => "a symbolic link",
        "160000" => "a submodule",
        _ => return Ok(None),
    };
    let why = format!("{other}. ApplyPatch changes regular files only; use Bash.");
    Err(PatchParseError::unsupported_line(at, why))
}

/// Parses a line of git's own head; returns false if it is none.
fn read_git_head_line(
    lines: &[&str],
    at: usize,
    head: &mut DiffFileHead,
) -> Result<bool, PatchParseError> {
    const MARKS: [&str; 11] = [
        "new file mode ",
        "deleted file mode ",
        "new mode ",
        "old mode ",
        "rename from ",
        "rename to ",
        "copy from ",
        "copy to ",
        "index ",
        "similarity index ",
        "dissimilarity index ",
    ];
    let line = lines[at].trim_end_matches('\r');
    if line.starts_with("Binary files ") || line == "GIT binary patch" {
        return Err(binary_file_error(at));
    }
    let Some(mark) = MARKS.into_iter().find(|mark| line.starts_with(mark)) else {
        return Ok(false);
    };
    let rest = &line[mark.len()..];
    match mark.trim_end() {
        "new file mode" => {
            head.is_new = true;
            // A new file is not executable unless the diff says so.
            head.executable = read_file_mode(at, rest)?.filter(|executable| *executable);
        }
        "deleted file mode" => {
            head.is_deleted = true;
            read_file_mode(at, rest)?;
        }
        "new mode" => head.executable = read_file_mode(at, rest)?,
        "rename from" => head.rename_from = Some(read_quoted_name(lines, at, mark.len())?),
        "rename to" if head.rename_from.is_none() => {
            return Err(PatchParseError::bad_line(
                at,
                "`rename to` without `rename from` before it.",
            ));
        }
        "rename to" => head.rename_to = Some(read_quoted_name(lines, at, mark.len())?),
        "copy from" | "copy to" => {
            let why = "a copy. Make the diff without `-C`, so that it has the new file's text.";
            return Err(PatchParseError::unsupported_line(at, why));
        }
        // The mode follows the hashes in an index line.
        _ => {
            read_file_mode(at, rest.rsplit(' ').next().unwrap_or_default())?;
        }
    }
    Ok(true)
}

/// Joins the lines of a new file.
fn join_new_file(hunks: &[Hunk]) -> Result<String, PatchParseError> {
    for hunk in hunks {
        if hunk.lines.iter().any(|line| line.kind != LineKind::Added) {
            let why = "the hunk of a new file has lines other than +. For a file that exists leave out `new file mode` \
                       and give `--- a/PATH`.";
            return Err(PatchParseError::bad_line(hunk.line - 1, why));
        }
    }
    Ok(hunks
        .iter()
        .flat_map(|hunk| &hunk.lines)
        .map(|line| line.text.as_str())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse_patch;
    use super::*;

    fn only(text: &str) -> PatchFileSection {
        let mut patch = parse_patch(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(patch.sections.len(), 1, "{patch:?}");
        patch.sections.remove(0)
    }

    #[test]
    fn every_kind_of_change_that_git_writes_is_read() {
        let text = "diff --git a/m.rs b/m.rs\nindex 1..2 100644\n--- a/m.rs\n+++ b/m.rs\n@@ -1,2 +1,2 @@\n x\n-y\n+z\n\
            diff --git a/new b/new\nnew file mode 100755\nindex 0..1\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+a\n\\ No newline at end of file\n\
            diff --git a/old b/old\ndeleted file mode 100644\nindex 1..0\n--- a/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n\
            diff --git a/from b/to\nsimilarity index 100%\nrename from from\nrename to to\n\
            diff --git a/run b/run\nold mode 100644\nnew mode 100755\n\
            diff --git a/empty b/empty\nnew file mode 100644\nindex 0..0\n\
            -- \n2.43.0\n\n";
        let patch = parse_patch(text).expect("a diff");
        let [modified, new, old, renamed, mode, empty] = patch.sections.as_slice() else {
            panic!("{patch:?}")
        };
        assert!(
            matches!(&modified.action, SectionAction::Update { hunks, .. } if hunks[0].lines.len() == 3)
        );
        assert_eq!(
            new.action,
            SectionAction::Add {
                content: "a".to_owned(),
                executable: Some(true)
            }
        );
        assert!(
            matches!(&old.action, SectionAction::Delete { hunks: Some(hunks) } if hunks.len() == 1)
        );
        assert!(
            matches!(&renamed.action, SectionAction::Update { move_to: Some(to), hunks, .. } if to == "to" && hunks.is_empty())
        );
        assert!(matches!(
            &mode.action,
            SectionAction::Update {
                executable: Some(true),
                ..
            }
        ));
        assert_eq!((empty.names[0].as_str(), empty.line), ("empty", 31));
    }

    #[test]
    fn wrong_counts_are_put_right_by_counting() {
        for head in [
            "@@ -1,9 +1,9 @@",
            "@@ -1 +1 @@",
            "@@ -1,2 +1,3 @@",
            "@@",
            "@@ ... @@",
            "@@ -1,4 +1,4 @@",
        ] {
            let text = format!(
                "--- a/f\n+++ b/f\n{head}\n x\n-y\n+z\n+w\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-p\n+q\n"
            );
            let patch = parse_patch(&text).unwrap_or_else(|error| panic!("{head}: {error}"));
            let lines: Vec<usize> = patch
                .sections
                .iter()
                .map(|section| match &section.action {
                    SectionAction::Update { hunks, .. } => {
                        hunks.iter().map(|hunk| hunk.lines.len()).sum()
                    }
                    other => panic!("{other:?}"),
                })
                .collect();
            assert_eq!(lines, [4, 2], "{head}");
        }
    }

    #[test]
    fn lines_that_look_like_heads_are_lines_where_the_counts_say_so() {
        let section = only(
            "--- a/f.sql\n+++ b/f.sql\n@@ -1,3 +1,3 @@\n x\n--- old comment\n+++ new one\n y\n",
        );
        let SectionAction::Update { hunks, .. } = &section.action else {
            panic!("{section:?}")
        };
        let texts: Vec<&str> = hunks[0]
            .lines
            .iter()
            .map(|line| line.text.trim_end())
            .collect();
        assert_eq!(texts, ["x", "-- old comment", "++ new one", "y"]);
    }

    #[test]
    fn what_is_not_done_is_refused_and_says_what_to_do() {
        for (text, words) in [
            (
                "diff --git a/x b/x\nindex 1..2 100644\nBinary files a/x and b/x differ\n",
                "binary",
            ),
            (
                "diff --git a/x b/x\nindex 1..2\nGIT binary patch\nliteral 3\n",
                "binary",
            ),
            (
                "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+x\n",
                "symbolic link",
            ),
            (
                "diff --git a/s b/s\nindex 1..2 160000\n--- a/s\n+++ b/s\n@@ -1 +1 @@\n-x\n+y\n",
                "submodule",
            ),
            (
                "diff --git a/x b/y\nsimilarity index 100%\ncopy from x\ncopy to y\n",
                "copy",
            ),
            (
                "diff --cc x\nindex 1,2..3\n--- a/x\n+++ b/x\n@@@ -1 -1 +1 @@@\n",
                "merge",
            ),
        ] {
            match parse_patch(text) {
                Err(PatchParseError::Unsupported { why, .. }) => {
                    assert!(why.contains(words), "{text}: {why}");
                }
                other => panic!("{text}: {other:?}"),
            }
        }
        for (text, line) in [
            ("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\nand so on\n", 6),
            ("--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n-a\n+b\nfn x() {}\n", 6),
            ("--- a/f\n+++ b/f\n", 1),
            (
                "diff --git a/f b/f\nnew file mode 100644\n--- /dev/null\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n",
                5,
            ),
            ("--- \"a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n", 1),
        ] {
            match parse_patch(text) {
                Err(PatchParseError::Line { line: at, .. }) => assert_eq!(at, line, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
