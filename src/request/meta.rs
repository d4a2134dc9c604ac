//! The facts that go beside a result's text. Not here: the text.

use serde::{Deserialize, Serialize};

/// `meta` of a result payload. Absent means unknown or not so; nothing is ever null.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own on the wire")]
pub struct Meta {
    /// How long the call took, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The error's stable code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Whether the same call may succeed later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// A command's exit code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended a command, as `SIGKILL`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// What had the system kill a command that nobody here stopped: `oom`, want of memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub killed: Option<String>,
    /// The command was stopped at its time limit.
    #[serde(skip_serializing_if = "is_false")]
    pub timed_out: bool,
    /// The text is not all there was.
    #[serde(skip_serializing_if = "is_false")]
    pub truncated: bool,
    /// How many bytes the text leaves out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub omitted_bytes: Option<u64>,
    /// Where ReadOutput finds the whole text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    /// `editor` where a connected editor gave the text, wrote the file or ran the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// SHA-256 of the file as it is now, in hex.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The files that changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileChange>,
    /// The confinement in force while it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confinement: Option<String>,
    /// Which execution this was, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The call was cut off and may have had its effect.
    #[serde(skip_serializing_if = "is_false")]
    pub may_have_run: bool,
    /// The result was established after a crash.
    #[serde(skip_serializing_if = "is_false")]
    pub recovered: bool,
    /// Another process held the lease when this was done.
    #[serde(skip_serializing_if = "is_false")]
    pub lease_lost: bool,
    /// Something still held the output open when the answer was given.
    #[serde(skip_serializing_if = "is_false")]
    pub output_incomplete: bool,
    /// How many secret values were masked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redactions: Option<u64>,
    /// How many bytes were not valid text and are shown as U+FFFD.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lossy_chars: Option<u64>,
    /// How many control characters a file's text holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_chars: Option<u64>,
    /// A failure's text is already within the budget of its call, with its own marker for what is left out; sealing
    /// does not clip it again. Not for the wire: a reply says the same by its body.
    #[serde(skip)]
    pub text_is_fitted: bool,
    /// The rule that refused the call, as the owner wrote or may set it. For the audit, not for the wire.
    #[serde(skip)]
    pub rule: Option<String>,
    /// Things worth knowing that are not errors.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// One file that a call changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// The path as the answer shows it.
    pub path: String,
    /// SHA-256 before, in hex; absent for a new file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// SHA-256 after, in hex; absent for a removed file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's skip_serializing_if passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}
