//! The refusal of a text that is no patch, and the lines that may be wrapped around one. Not here: reading a patch
//! (parse).

/// The reason why a text is no patch that can be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatchParseError {
    /// It has the marks of neither format.
    #[error("{EXAMPLES}")]
    Neither,
    /// A line does not belong where it stands.
    #[error("Line {line} of the patch: {why}")]
    Line {
        /// From 1.
        line: usize,
        /// The fault, and what to do.
        why: String,
    },
    /// It asks for something that is not done.
    #[error("Line {line} of the patch: {why}")]
    Unsupported {
        /// From 1.
        line: usize,
        /// The thing, and what to do instead.
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
    pub(super) fn bad_line_error(index: usize, why: impl Into<String>) -> Self {
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

    pub(super) fn merge_diff_error(index: usize) -> Self {
        Self::unsupported_line(
            index,
            "this is the diff of a merge. Give the diff against one parent.",
        )
    }
}

/// Quotes a line for a refusal.
pub(super) fn quote_line(line: &str) -> String {
    format!("{:?}", line.chars().take(80).collect::<String>())
}

/// Tells whether a line can only be put around a patch: a fence, or the end of a here document.
pub(super) fn is_wrapping_line(line: &str) -> bool {
    let line = line.trim();
    line.is_empty()
        || line.starts_with("```")
        || line.starts_with("~~~")
        || matches!(line, "EOF" | "'EOF'" | "PATCH" | "END" | ")" | "\"" | "'")
}
