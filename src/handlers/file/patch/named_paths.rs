//! The files that a patch may name, for its access: every reading of every line that could be a name, so that whatever
//! the patch tool makes of it is among them. Not here: what the patch does (parse, plan).

use std::collections::HashSet;

/// Beginnings of lines that name one file. A line of a file's text that looks so too counts as one: better one too many.
const HEADS: &[&str] = &[
    "*** Add File:",
    "*** Update File:",
    "*** Delete File:",
    "*** Move to:",
    "+++ ",
    "--- ",
    "rename from ",
    "rename to ",
    "copy from ",
    "copy to ",
];
/// The beginning of a line that names two, parted by a blank that names may have, too.
const GIT: &str = "diff --git ";
/// The most blanks of such a line at which both names are looked for.
const BLANKS: usize = 32;

/// What a patch names.
#[derive(Debug, Default)]
pub(in crate::handlers::file) struct NamedPaths {
    /// The paths, each by all its readings.
    pub paths: Vec<String>,
    /// There may be others: nothing is named, or something is written in a way that is not read here.
    pub unclear: bool,
    known: HashSet<String>,
}

impl NamedPaths {
    /// Reads a patch of either format.
    pub fn of(patch: &str) -> Self {
        let mut named = Self::default();
        for line in patch.split('\n') {
            // The patch tool leaves out blanks before the first line.
            let line = line.trim_start().trim_end_matches('\r');
            if let Some(both) = line.strip_prefix(GIT) {
                named.take_two(both);
            } else if let Some(head) = HEADS.iter().find(|head| line.starts_with(**head)) {
                named.take(&line[head.len()..]);
            }
        }
        named.unclear |= named.paths.is_empty();
        named
    }

    /// The names behind `diff --git`, wherever one may end.
    fn take_two(&mut self, both: &str) {
        let blanks: Vec<usize> = both.match_indices(' ').map(|(at, _)| at).take(BLANKS + 1).collect();
        if both.contains('"') || blanks.is_empty() || blanks.len() > BLANKS {
            self.unclear = true;
            return;
        }
        for at in blanks {
            self.take(&both[..at]);
            self.take(&both[at + 1..]);
        }
    }

    fn take(&mut self, written: &str) {
        if written.trim_start().starts_with('"') {
            self.unclear = true;
            return;
        }
        // A time may follow behind a tab; a tab may also be part of the name.
        let untimed = written.split('\t').next().unwrap_or_default();
        for name in [untimed.trim_end(), untimed.trim(), written.trim()] {
            self.add(name);
            if let Some(bare) = name.get(1..).and_then(|rest| rest.strip_prefix('/')) {
                self.add(bare);
            }
        }
    }

    fn add(&mut self, name: &str) {
        if !name.is_empty() && name != "/dev/null" && self.known.insert(name.to_owned()) {
            self.paths.push(name.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::NamedPaths;

    #[test]
    fn every_file_of_a_patch_is_named_in_both_spellings() {
        let unified = "--- a/x.rs\t2024\n+++ b/y.rs\n@@ -1 +1 @@\n-a\n+b\n--- /dev/null\n+++ new\n";
        let named = NamedPaths::of(unified);
        for path in ["a/x.rs", "x.rs", "b/y.rs", "y.rs", "new"] {
            assert!(named.paths.iter().any(|known| known == path), "{path}: {named:?}");
        }
        let codex =
            "*** Begin Patch\n*** Update File: a/b.rs\n*** Move to: c.rs\r\n@@\n-x\n+y\n*** End Patch";
        let named = NamedPaths::of(codex);
        for path in ["a/b.rs", "c.rs"] {
            assert!(named.paths.iter().any(|known| known == path), "{path}: {named:?}");
        }
        assert!(!named.unclear);
        for text in ["--- \"a/\\303\\244\"\n", "hello", "diff --git \"a/x\" \"b/x\"\nnew mode 100755\n"] {
            assert!(NamedPaths::of(text).unclear, "{text}");
        }
        let many = format!("diff --git {}", "x ".repeat(100));
        assert!(NamedPaths::of(&many).unclear && NamedPaths::of(&many).paths.is_empty());
    }

    #[test]
    fn a_name_is_seen_however_it_is_written() {
        for patch in [
            "*** Add File:keys/a\n+x\n",
            "*** Delete File:keys/a",
            "*** Update File: x\n*** Move to:keys/a\n",
            "  *** Update File:\tkeys/a \n@@\n",
            "--- i/keys/a\n+++ w/keys/a\n",
            "--- c/keys/a\n+++ o/keys/a\n",
            "\n --- keys/a\t2024\n",
            "diff --git a/keys/a b/keys/a\nold mode 100644\nnew mode 100755\n",
            "diff --git a/x y b/keys/a\n",
            "rename from x\nrename to keys/a\r\n",
        ] {
            let named = NamedPaths::of(patch);
            assert!(named.paths.iter().any(|path| path == "keys/a"), "{patch}: {named:?}");
        }
    }
}
