//! Unified diffs, plain or as git writes them. Not here: the names' quoting and prefixes (names), the lines of a hunk
//! (hunk).

use super::names::{self, NOWHERE};
use super::parse::ParseError;
use super::{Action, Hunk, Kind, Line, Patch, Section, header, hunk};

const GIT: &str = "diff --git ";

/// Whether a line is one of a file's heads, by which the patch's own line endings are told.
pub(super) fn is_mark(line: &str) -> bool {
    line.starts_with(GIT) || line.starts_with("--- ")
}

/// Whether a file's part begins here.
pub(super) fn begins(lines: &[&str], at: usize) -> bool {
    lines[at].starts_with(GIT)
        || lines[at].starts_with("diff --cc ")
        || lines[at].starts_with("diff --combined ")
        || (lines[at].starts_with("--- ") && lines.get(at + 1).is_some_and(|next| next.starts_with("+++ ")))
}

/// Whether a line ends the lines of a hunk.
fn ends_hunk(lines: &[&str], at: usize) -> bool {
    let line = lines[at];
    if line.starts_with("--- ") {
        // A removed line that begins with two dashes looks the same; what follows tells.
        let names = lines
            .get(at + 1)
            .and_then(|next| next.strip_prefix("+++ "))
            .and_then(|new| Some((names::unquoted(&line[4..])?, names::unquoted(new)?)));
        return lines.get(at + 2).is_some_and(|line| line.starts_with("@@"))
            && names.is_some_and(|(old, new)| {
                let (olds, news) = names::readings(&old, &new);
                old == NOWHERE || new == NOWHERE || olds.iter().any(|old| news.contains(old))
            });
    }
    line.starts_with("@@")
        || line.starts_with("diff ")
        || line.starts_with("Index: ")
        || line.starts_with("```")
        || line.starts_with("Binary files ")
        || line.starts_with("Only in ")
        || is_signature(lines, at)
}

/// The end of a patch that was made for mail: two dashes, then git's version.
fn is_signature(lines: &[&str], at: usize) -> bool {
    matches!(lines[at], "-- " | "--")
        && lines
            .get(at + 1)
            .is_none_or(|next| next.is_empty() || next.starts_with(|c: char| c.is_ascii_digit()))
}

/// Reads the whole diff.
pub(super) fn parse(lines: &[&str]) -> Result<Patch, ParseError> {
    let mut sections = Vec::new();
    let mut at = (0..lines.len()).find(|at| begins(lines, *at)).unwrap_or(lines.len());
    while at < lines.len() {
        let (section, end) = section(lines, at)?;
        sections.push(section);
        at = next(lines, end)?;
    }
    Ok(Patch { sections, notes: Vec::new() })
}

/// Where the next file's part begins. Between two there may be what diff programs and mail put there.
fn next(lines: &[&str], mut at: usize) -> Result<usize, ParseError> {
    let mut is_mail = false;
    while at < lines.len() && !begins(lines, at) {
        let line = lines[at];
        if line.starts_with("```") {
            // The fence around the diff ends; another may begin.
            return Ok((at..lines.len()).find(|at| begins(lines, *at)).unwrap_or(lines.len()));
        }
        is_mail |= is_signature(lines, at);
        let belongs = is_mail
            || super::parse::is_wrapping(line)
            || ["diff ", "Index: ", "=====", "Only in ", "*** End"].iter().any(|mark| line.starts_with(mark));
        if line.starts_with("Binary files ") || line == "GIT binary patch" {
            return Err(binary(at));
        }
        if !belongs {
            let why = format!(
                "{:?} belongs neither to a hunk nor to a file's head. In a hunk each line begins with a blank, - or +; \
                 a file begins with `--- a/PATH` and `+++ b/PATH`.",
                line.chars().take(80).collect::<String>()
            );
            return Err(ParseError::at(at, why));
        }
        at += 1;
    }
    Ok(at)
}

fn binary(at: usize) -> ParseError {
    ParseError::unsupported(
        at,
        "a binary file. ApplyPatch changes text only; use Bash with `git apply` for this one.",
    )
}

/// What a file's head says.
#[derive(Default)]
struct Heads {
    old: Option<String>,
    new: Option<String>,
    is_new: bool,
    is_gone: bool,
    renamed: Option<(String, String)>,
    executable: Option<bool>,
}

/// One file's part.
fn section(lines: &[&str], from: usize) -> Result<(Section, usize), ParseError> {
    let (heads, mut at) = heads(lines, from)?;
    let mut hunks = Vec::new();
    while let Some(line) = lines.get(at).filter(|line| line.starts_with("@@")) {
        let Some(head) = header::read(line) else {
            return Err(ParseError::unsupported(
                at,
                "this is the diff of a merge. Give the diff against one parent.",
            ));
        };
        let (found, end) = hunk::read(lines, at + 1, head.stated, |at| ends_hunk(lines, at))?;
        if found.is_empty() {
            return Err(ParseError::at(at, "a hunk without lines."));
        }
        hunks.push(Hunk {
            line: at + 1,
            anchors: head.anchor.into_iter().collect(),
            stated: head.stated,
            at_end: false,
            lines: found,
        });
        at = end;
        while lines.get(at).is_some_and(|line| line.trim().is_empty()) {
            at += 1;
        }
    }
    let (Some(old), Some(new)) = (heads.old, heads.new) else {
        return Err(ParseError::at(from, "a file's head without a name that can be read."));
    };
    let (olds, news) = names::readings(&old, &new);
    let executable = heads.executable;
    let (names, action) = if let Some((old, new)) = heads.renamed {
        if new.is_empty() {
            return Err(ParseError::at(from, "`rename from` without `rename to`."));
        }
        (vec![old], Action::Update { hunks, move_to: Some(new), executable })
    } else if heads.is_new || old == NOWHERE {
        (news, Action::Add { content: content(&hunks)?, executable })
    } else if heads.is_gone || new == NOWHERE {
        (olds, Action::Delete { hunks: Some(hunks) })
    } else {
        if hunks.is_empty() && executable.is_none() {
            return Err(ParseError::at(from, "a file is named, but no hunk and no other change follows."));
        }
        let mut names = news;
        names.extend(olds.into_iter().filter(|name| !names.contains(name)).collect::<Vec<_>>());
        (names, Action::Update { hunks, move_to: None, executable })
    };
    Ok((Section { line: from + 1, names, action }, at))
}

/// All lines before the first hunk.
fn heads(lines: &[&str], from: usize) -> Result<(Heads, usize), ParseError> {
    let mut heads = Heads::default();
    let mut at = from;
    if lines[at].starts_with("diff --c") {
        return Err(ParseError::unsupported(
            at,
            "this is the diff of a merge. Give the diff against one parent.",
        ));
    }
    if let Some(names) = lines[at].strip_prefix(GIT) {
        if let Some((old, new)) = names::of_git_head(names) {
            (heads.old, heads.new) = (Some(old), Some(new));
        }
        at += 1;
        while at < lines.len() && !begins(lines, at) && git_line(lines, at, &mut heads)? {
            at += 1;
        }
    }
    // Behind git's own head the names are those of this file, not of a next one.
    if at < lines.len() && lines[at].starts_with("--- ") && begins(lines, at) {
        for (at, name) in [(at, &mut heads.old), (at + 1, &mut heads.new)] {
            let Some(text) = names::unquoted(&lines[at][4..]) else {
                return Err(ParseError::at(at, "the file's name is not UTF-8, or its quotes do not end."));
            };
            *name = Some(text);
        }
        at += 2;
    }
    Ok((heads, at))
}

/// A line of git's own head; false where it is none.
fn git_line(lines: &[&str], at: usize, heads: &mut Heads) -> Result<bool, ParseError> {
    let line = lines[at].trim_end_matches('\r');
    let mode = |text: &str| match text {
        "100644" | "100755" | "100664" => Ok(Some(text == "100755")),
        "120000" => Err(ParseError::unsupported(
            at,
            "a symbolic link. ApplyPatch changes regular files only; use Bash.",
        )),
        "160000" => {
            Err(ParseError::unsupported(at, "a submodule. ApplyPatch changes regular files only; use Bash."))
        }
        _ => Ok(None),
    };
    let name = |text: &str| {
        names::unquoted(text)
            .ok_or_else(|| ParseError::at(at, "the file's name is not UTF-8, or its quotes do not end."))
    };
    if let Some(text) = line.strip_prefix("new file mode ") {
        heads.is_new = true;
        // A new file is plain unless it says that it is not.
        heads.executable = mode(text)?.filter(|executable| *executable);
    } else if let Some(text) = line.strip_prefix("deleted file mode ") {
        heads.is_gone = true;
        mode(text)?;
    } else if let Some(text) = line.strip_prefix("new mode ") {
        heads.executable = mode(text)?;
    } else if let Some(text) = line.strip_prefix("old mode ") {
        mode(text)?;
    } else if let Some(text) = line.strip_prefix("rename from ") {
        heads.renamed = Some((name(text)?, String::new()));
    } else if let Some(text) = line.strip_prefix("rename to ") {
        let to = name(text)?;
        match &mut heads.renamed {
            Some((_, new)) => *new = to,
            None => return Err(ParseError::at(at, "`rename to` without `rename from` before it.")),
        }
    } else if line.starts_with("copy from ") || line.starts_with("copy to ") {
        return Err(ParseError::unsupported(
            at,
            "a copy. Make the diff without `-C`, so that it has the new file's text.",
        ));
    } else if line.starts_with("Binary files ") || line == "GIT binary patch" {
        return Err(binary(at));
    } else if let Some(text) = line.strip_prefix("index ") {
        if text.ends_with(" 120000") {
            mode("120000")?;
        } else if text.ends_with(" 160000") {
            mode("160000")?;
        }
    } else {
        return Ok(["similarity index ", "dissimilarity index "].iter().any(|mark| line.starts_with(mark)));
    }
    Ok(true)
}

/// The text of a new file.
fn content(hunks: &[Hunk]) -> Result<String, ParseError> {
    let mut text = String::new();
    for hunk in hunks {
        for line in &hunk.lines {
            let Line { kind: Kind::Added, text: added, newline } = line else {
                let why = "the hunk of a new file has lines other than +. For a file that exists leave out `new file \
                           mode` and give `--- a/PATH`.";
                return Err(ParseError::at(hunk.line - 1, why));
            };
            text.push_str(added);
            if *newline {
                text.push('\n');
            }
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse;
    use super::*;

    fn only(text: &str) -> Section {
        let mut patch = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
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
        let patch = parse(text).expect("a diff");
        let [modified, new, old, renamed, mode, empty] = patch.sections.as_slice() else {
            panic!("{patch:?}")
        };
        assert!(matches!(&modified.action, Action::Update { hunks, .. } if hunks[0].lines.len() == 3));
        assert_eq!(new.action, Action::Add { content: "a".to_owned(), executable: Some(true) });
        assert!(matches!(&old.action, Action::Delete { hunks: Some(hunks) } if hunks.len() == 1));
        assert!(
            matches!(&renamed.action, Action::Update { move_to: Some(to), hunks, .. } if to == "to" && hunks.is_empty())
        );
        assert!(matches!(&mode.action, Action::Update { executable: Some(true), .. }));
        assert_eq!((empty.names[0].as_str(), empty.line), ("empty", 31));
    }

    #[test]
    fn wrong_counts_are_put_right_by_counting() {
        for head in
            ["@@ -1,9 +1,9 @@", "@@ -1 +1 @@", "@@ -1,2 +1,3 @@", "@@", "@@ ... @@", "@@ -1,4 +1,4 @@"]
        {
            let text =
                format!("--- a/f\n+++ b/f\n{head}\n x\n-y\n+z\n+w\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-p\n+q\n");
            let patch = parse(&text).unwrap_or_else(|error| panic!("{head}: {error}"));
            let lines: Vec<usize> = patch
                .sections
                .iter()
                .map(|section| match &section.action {
                    Action::Update { hunks, .. } => hunks.iter().map(|hunk| hunk.lines.len()).sum(),
                    other => panic!("{other:?}"),
                })
                .collect();
            assert_eq!(lines, [4, 2], "{head}");
        }
    }

    #[test]
    fn lines_that_look_like_heads_are_lines_where_the_counts_say_so() {
        let section =
            only("--- a/f.sql\n+++ b/f.sql\n@@ -1,3 +1,3 @@\n x\n--- old comment\n+++ new one\n y\n");
        let Action::Update { hunks, .. } = &section.action else { panic!("{section:?}") };
        let texts: Vec<&str> = hunks[0].lines.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(texts, ["x", "-- old comment", "++ new one", "y"]);
    }

    #[test]
    fn what_is_not_done_is_refused_and_says_what_to_do() {
        for (text, words) in [
            ("diff --git a/x b/x\nindex 1..2 100644\nBinary files a/x and b/x differ\n", "binary"),
            ("diff --git a/x b/x\nindex 1..2\nGIT binary patch\nliteral 3\n", "binary"),
            (
                "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+x\n",
                "symbolic link",
            ),
            ("diff --git a/s b/s\nindex 1..2 160000\n--- a/s\n+++ b/s\n@@ -1 +1 @@\n-x\n+y\n", "submodule"),
            ("diff --git a/x b/y\nsimilarity index 100%\ncopy from x\ncopy to y\n", "copy"),
            ("diff --cc x\nindex 1,2..3\n--- a/x\n+++ b/x\n@@@ -1 -1 +1 @@@\n", "merge"),
        ] {
            match parse(text) {
                Err(ParseError::Unsupported { why, .. }) => assert!(why.contains(words), "{text}: {why}"),
                other => panic!("{text}: {other:?}"),
            }
        }
        for (text, line) in [
            ("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\nand so on\n", 6),
            ("--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n-a\n+b\nfn x() {}\n", 6),
            ("--- a/f\n+++ b/f\n", 1),
            ("diff --git a/f b/f\nnew file mode 100644\n--- /dev/null\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n", 5),
            ("--- \"a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n", 1),
        ] {
            match parse(text) {
                Err(ParseError::Line { line: at, .. }) => assert_eq!(at, line, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
