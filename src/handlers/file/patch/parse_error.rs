//! The error for a text that is not a valid patch, and the lines that may be wrapped around one.

/// The reason for which a text cannot be applied as a patch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatchParseError {
    /// It has the marks of neither format.
    #[error("{EXAMPLES}")]
    Neither,
    /// A line is not allowed at its position.
    #[error("Line {line} of the patch: {why}")]
    Line {
        /// From 1.
        line: usize,
        /// The fault, with the remedy.
        why: String,
    },
    /// It requests an unsupported change.
    #[error("Line {line} of the patch: {why}")]
    Unsupported {
        /// From 1.
        line: usize,
        /// The unsupported change, with an alternative.
        why: String,
    },
}

pub(super) const EXAMPLES: &str =
    "This is neither of the two formats that ApplyPatch takes. Either:
*** Begin Patch
*** Update File: src/a.rs
@@ fn name()
 a line that stays
-a line that goes
+a line that comes
*** End Patch
or a unified diff:
--- a/src/a.rs
+++ b/src/a.rs
@@ -10,2 +10,2 @@
 a line that stays
-a line that goes
+a line that comes";

impl PatchParseError {
    pub(super) fn bad_line(index: usize, why: impl Into<String>) -> Self {
        Self::Line {
            line: index + 1,
            why: why.into(),
        }
    }

    pub(super) fn unsupported_line(index: usize, why: impl Into<String>) -> Self {
        Self::Unsupported {
            line: index + 1,
            why: why.into(),
        }
    }

    pub(super) fn merge_diff(index: usize) -> Self {
        Self::unsupported_line(
            index,
            "this is the diff of a merge. Give the diff against one parent.",
        )
    }
}

pub(super) fn quote_line(line: &str) -> String {
    format!("{:?}", line.chars().take(80).collect::<String>())
}

/// Returns whether a line can only be wrapping: a fence, or the end of a here-document.
pub(super) fn is_wrapping_line(line: &str) -> bool {
    let line = line.trim();
    line.is_empty()
        || line.starts_with("```")
        || line.starts_with("~~~")
        || matches!(line, "EOF" | "'EOF'" | "PATCH" | "END" | ")" | "\"" | "'")
}
