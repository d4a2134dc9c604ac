//! The facts beside a result's text.

use serde::{Deserialize, Serialize};

use punie_core::approval_answer::ApprovalDenial;
use punie_core::host_traffic::HostTraffic;
use punie_text::output::TextBudget;
use punie_text::output::number_format::group_digits;
use punie_text::output::text_budget::clip_to_budget;

/// The `meta` object of a result payload. An absent field means unknown or false; no field is ever null.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own on the wire"
)]
pub struct ResultMeta {
    /// The duration of the call in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The stable code of the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// True if the same call may succeed later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// A command's exit code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended a command, such as `SIGKILL`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// The reason why the system killed a command: `oom` (out of memory). Absent if the runner stopped it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub killed: Option<String>,
    /// The command was stopped at its time limit.
    #[serde(skip_serializing_if = "is_false")]
    pub timed_out: bool,
    /// The text is incomplete.
    #[serde(skip_serializing_if = "is_false")]
    pub truncated: bool,
    /// The number of bytes that the text omits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub omitted_bytes: Option<u64>,
    /// The handle under which ReadOutput finds the whole text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    /// `editor` if a connected editor provided the text, wrote the file or ran the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// SHA-256 of the file after the call, in hex.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The files that changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileChange>,
    /// The sandbox in which the command ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confinement: Option<String>,
    /// The traffic of a command with other hosts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<HostTraffic>,
    /// The number of this execution, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The call was interrupted and may have had its effect.
    #[serde(skip_serializing_if = "is_false")]
    pub may_have_run: bool,
    /// The result was determined after a crash.
    #[serde(skip_serializing_if = "is_false")]
    pub recovered: bool,
    /// Another process held the lease at the end of the call.
    #[serde(skip_serializing_if = "is_false")]
    pub lease_lost: bool,
    /// A process still held the output open at the time of the answer.
    #[serde(skip_serializing_if = "is_false")]
    pub output_incomplete: bool,
    /// The number of masked secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redactions: Option<u64>,
    /// The number of bytes that were not valid text and appear as U+FFFD.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lossy_chars: Option<u64>,
    /// The number of control characters in a file's text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_chars: Option<u64>,
    /// The failure's text is already within its budget and has its own marker, so sealing does not clip it again. Not
    /// part of the JSON: for a reply, its body says the same.
    #[serde(skip)]
    pub text_is_fitted: bool,
    /// The rule that refused the call, as the owner wrote it or may write it. For the audit log, not part of the JSON.
    #[serde(skip)]
    pub rule: Option<String>,
    /// The reason why the call did not get the approval that it needed. For the history, not part of the JSON.
    #[serde(skip)]
    pub denial: Option<ApprovalDenial>,
    /// Remarks that are not errors.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl ResultMeta {
    /// Limits the facts, so that they leave space for the text in the payload.
    pub(super) fn limit_lists(&mut self) {
        const WARNINGS: usize = 20;
        const WARNING_CHARS: u64 = 1_000;
        const ALL_WARNINGS_CHARS: usize = 4_000;
        const FILES: usize = 500;
        let files = self.files.len();
        if files > FILES {
            self.files.truncate(FILES);
            self.warnings.push(format!(
                "{} more changed files are not listed",
                group_digits((files - FILES) as u64)
            ));
        }
        let clip = TextBudget::from_requested(Some(WARNING_CHARS));
        let mut kept: Vec<String> = Vec::new();
        let mut chars = 0;
        let mut left_out = 0;
        for warning in std::mem::take(&mut self.warnings) {
            let warning = clip_to_budget(&warning, clip, None).text;
            if kept.contains(&warning) {
                continue;
            }
            chars += warning.chars().count();
            if kept.len() == WARNINGS || chars > ALL_WARNINGS_CHARS {
                left_out += 1;
            } else {
                kept.push(warning);
            }
        }
        if left_out > 0 {
            kept.push(format!(
                "{} more warnings are left out",
                group_digits(left_out)
            ));
        }
        self.warnings = kept;
    }
}

/// A file that a call changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// The path as the answer shows it.
    pub path: String,
    /// SHA-256 before the change, in hex; absent for a new file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// SHA-256 after the change, in hex; absent for a removed file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde's skip_serializing_if passes a reference"
)]
fn is_false(flag: &bool) -> bool {
    !flag
}
