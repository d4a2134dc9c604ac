//! The text of a patch, file by file, as far as a person needs it to see what would change. A patch with anything else
//! in it (modes, copies, binary data, quoted names) is not parsed: then its text is shown. Not here: applying a patch,
//! which is the tool's (handlers::file).

use super::preview::Replacement;

/// A patch.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PatchText {
    /// What it changes.
    pub files: Vec<FileChange>,
}

/// What a patch does to one file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FileChange {
    pub path: String,
    pub moved_to: Option<String>,
    pub adds: bool,
    pub deletes: bool,
    pub hunks: Vec<Replacement>,
}

impl PatchText {
    /// Parses either format, Codex's or a unified diff.
    pub(super) fn parse(patch: &str) -> Option<Self> {
        let mut parsed = Self::default();
        let mut lines = patch.lines().peekable();
        let is_codex = patch.trim_start().starts_with("*** ");
        // How many old and new lines the hunk of a unified diff still has; none in Codex's format, which does not count.
        let mut left: Option<(usize, usize)> = None;
        while let Some(line) = lines.next() {
            if left.is_some_and(|(old, new)| old + new > 0) {
                let (old, new) = left.as_mut()?;
                match line.bytes().next() {
                    Some(b'-') => *old = old.checked_sub(1)?,
                    Some(b'+') => *new = new.checked_sub(1)?,
                    Some(b'\\') => {}
                    _ => (*old, *new) = (old.checked_sub(1)?, new.checked_sub(1)?),
                }
                parsed.add_line(line)?;
            } else if let Some(rest) = line.strip_prefix("*** ") {
                parsed.add_heading(rest)?;
                left = None;
            } else if let Some(old) = line.strip_prefix("--- ").filter(|_| !is_codex)
                && let Some(new) = lines.peek().and_then(|next| next.strip_prefix("+++ "))
            {
                parsed.files.push(unified(old, new)?);
                lines.next();
            } else if line.starts_with("@@") {
                let counts = counts(line);
                left = counts;
                let change = parsed.files.last_mut()?;
                change.hunks.push(Replacement { old: String::new(), new: String::new(), everywhere: false });
            } else if !(left.is_some() || parsed.files.is_empty()) {
                parsed.add_line(line)?;
            } else if !(line.trim().is_empty() || line.starts_with("diff ") || line.starts_with("index ")) {
                return None;
            }
        }
        let is_said = |change: &FileChange| change.deletes || !change.hunks.is_empty();
        (!parsed.files.is_empty() && parsed.files.iter().all(is_said)).then_some(parsed)
    }

    /// A heading of Codex's format.
    fn add_heading(&mut self, rest: &str) -> Option<()> {
        let change = |path: &str| FileChange { path: path.trim().to_owned(), ..FileChange::default() };
        if let Some(path) = rest.strip_prefix("Add File: ") {
            self.files.push(FileChange { adds: true, ..change(path) });
        } else if let Some(path) = rest.strip_prefix("Update File: ") {
            self.files.push(change(path));
        } else if let Some(path) = rest.strip_prefix("Delete File: ") {
            self.files.push(FileChange { deletes: true, ..change(path) });
        } else if let Some(path) = rest.strip_prefix("Move to: ") {
            self.files.last_mut()?.moved_to = Some(path.trim().to_owned());
        } else if !matches!(rest.trim(), "Begin Patch" | "End Patch" | "End of File") {
            return None;
        }
        Some(())
    }

    /// A line of a hunk, with its sign.
    fn add_line(&mut self, line: &str) -> Option<()> {
        let change = self.files.last_mut()?;
        if change.hunks.is_empty() {
            change.hunks.push(Replacement { old: String::new(), new: String::new(), everywhere: false });
        }
        let hunk = change.hunks.last_mut()?;
        let (sign, text) = line.split_at_checked(1).unwrap_or((" ", ""));
        let sides: &mut [&mut String] = match sign {
            "-" => &mut [&mut hunk.old],
            "+" => &mut [&mut hunk.new],
            " " => &mut [&mut hunk.old, &mut hunk.new],
            "\\" => return Some(()),
            _ => return None,
        };
        for side in sides {
            side.push_str(text);
            side.push('\n');
        }
        Some(())
    }
}

/// The file of a unified diff, by its two names.
fn unified(old: &str, new: &str) -> Option<FileChange> {
    let name = |written: &str, prefix: &str| {
        let name = written.split('\t').next().unwrap_or_default().trim_end();
        let plain = !name.is_empty() && !name.starts_with('"');
        plain.then(|| name.strip_prefix(prefix).unwrap_or(name).to_owned())
    };
    let (old, new) = (name(old, "a/")?, name(new, "b/")?);
    let none = "/dev/null";
    Some(FileChange {
        adds: old == none,
        deletes: new == none,
        moved_to: (old != none && new != none && old != new).then(|| new.clone()),
        path: if old == none { new } else { old },
        hunks: Vec::new(),
    })
}

/// How many lines of each side a hunk of a unified diff has.
fn counts(line: &str) -> Option<(usize, usize)> {
    let mut words = line.strip_prefix("@@ ")?.split(' ');
    let mut count = |sign: char| {
        let range = words.next()?.strip_prefix(sign)?;
        match range.split_once(',') {
            Some((_, count)) => count.parse().ok(),
            None => range.parse::<usize>().ok().map(|_| 1),
        }
    };
    Some((count('-')?, count('+')?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hunk(old: &str, new: &str) -> Replacement {
        Replacement { old: old.to_owned(), new: new.to_owned(), everywhere: false }
    }

    #[test]
    fn both_formats_are_parsed_file_by_file() {
        let codex = "*** Begin Patch\n*** Add File: a\n+one\n+two\n*** Update File: b\n*** Move to: c\n@@ fn x\n k\n-x\n\
                     +y\n*** Delete File: d\n*** End Patch\n";
        let parsed = PatchText::parse(codex).expect("it is plain").files;
        let [added, updated, deleted] = parsed.as_slice() else { panic!("{parsed:?}") };
        assert_eq!((added.adds, added.hunks.as_slice()), (true, &[hunk("", "one\ntwo\n")][..]));
        assert_eq!((updated.path.as_str(), updated.moved_to.as_deref()), ("b", Some("c")));
        assert_eq!(updated.hunks, [hunk("k\nx\n", "k\ny\n")]);
        assert!(deleted.deletes && deleted.path == "d");
        let unified = "diff --git a/x b/x\nindex 1..2\n--- a/x\t2024\n+++ b/x\n@@ -1,2 +1,2 @@ fn\n-- old\n k\n+new\n@@ -9 \
                       +9 @@\n-p\n+q\n--- /dev/null\n+++ b/y\n@@ -0,0 +1 @@\n+z\n";
        let parsed = PatchText::parse(unified).expect("it is plain").files;
        let [changed, added] = parsed.as_slice() else { panic!("{parsed:?}") };
        assert_eq!(changed.hunks, [hunk("- old\nk\n", "k\nnew\n"), hunk("p\n", "q\n")]);
        assert!(added.adds && added.path == "y" && added.hunks == [hunk("", "z\n")]);
    }

    #[test]
    fn a_patch_that_says_more_is_shown_as_it_is() {
        for patch in [
            "",
            "hello",
            "--- \"a/x\"\n+++ \"b/x\"\n@@ -1 +1 @@\n-a\n+b\n",
            "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n",
            "*** Begin Patch\n*** Rename File: a\n*** End Patch\n",
            "--- a/x\n+++ b/x\n@@ -1,2 +1 @@\n+b\n+c\n",
        ] {
            assert_eq!(PatchText::parse(patch), None, "{patch:?}");
        }
    }
}
