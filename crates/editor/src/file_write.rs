//! A write that a connected editor makes. The whole text is sent, and the result is checked on disk. Once sent it
//! cannot be taken back. Not here: the checks before it (write_routing).

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::client_request::{EditorRequestError, await_with_timeout};
use super::file_reads::{
    EditorFile, EditorFileLookup, MAX_REQUESTED_BYTES, MissingFileHandling, look_up_file,
};
use super::tool_call_view::ShownCall;
use crate::protocol::WriteTextFileRequest;
use punie_core::failpoint::reach_of;
use punie_host::FileClient;
use punie_host::WorkspacePath;
use punie_host::files::{TextSource, WriteReport};
use punie_host::local::local_files::LocalFiles;
use punie_host::local::old_file::stale_write_error;
use punie_host::prepared_write::PreparedWrite;
use punie_tool::{CallIntent, ErrorCode, ResultMeta, ToolContext, ToolError};

/// The file on disk after the editor was asked to write it.
enum DiskContent {
    Missing,
    Bytes(Arc<Vec<u8>>),
    /// It cannot be read as a small file any more.
    Unknown,
}

/// A write that passed the checks.
pub(super) struct CheckedWrite {
    /// The same write on this machine, used only for its declaration.
    pub local_write: Box<dyn PreparedWrite>,
    pub path: WorkspacePath,
    /// The file as it was when it was checked.
    pub original: EditorFile,
    /// The new content of the file.
    pub new: Arc<Vec<u8>>,
    /// The editor must still have the text that was checked.
    pub exact: bool,
    pub create_folders: bool,
    /// Notes on changes that the content did not ask for.
    pub warnings: Vec<String>,
}

/// A write that is ready to be sent.
pub(super) struct EditorWrite {
    local: LocalFiles,
    /// The call's own context, until the write is sent.
    cx: ToolContext,
    call: Arc<ShownCall>,
    checked: CheckedWrite,
    /// The whole change, whatever its size. Nothing is staged, so it cannot be declared later.
    declared: Option<CallIntent>,
    runtime: Handle,
}

impl EditorWrite {
    /// Prepares a write to the editor that follows this call.
    pub fn new(
        local: &LocalFiles,
        cx: &ToolContext,
        call: Arc<ShownCall>,
        checked: CheckedWrite,
    ) -> Self {
        let declared = declare_write(&checked);
        Self {
            local: local.clone(),
            cx: cx.clone(),
            call,
            checked,
            declared,
            runtime: Handle::current(),
        }
    }

    /// Fails if the file changed since it was checked.
    async fn verify_unchanged(&self) -> Result<(), ToolError> {
        let shown = self.checked.path.display_text();
        let session = self.call.editor_session();
        match look_up_file(
            &self.local,
            &self.cx,
            session,
            &self.checked.path,
            MissingFileHandling::AskEditor,
        )
        .await?
        {
            EditorFileLookup::Available(now)
                if now.current_bytes() == self.checked.original.current_bytes() =>
            {
                Ok(())
            }
            EditorFileLookup::Available(_) | EditorFileLookup::Local(None) => {
                Err(stale_write_error(
                    &shown,
                    &format!(
                        "was changed by somebody else just now, in {} or on disk",
                        session.editor
                    ),
                ))
            }
            EditorFileLookup::Local(Some(why)) => Err(unsent_write_error(&shown, &why)),
            EditorFileLookup::Unknown(why) => Err(unsent_write_error(&shown, &format!("{why}."))),
        }
    }

    async fn send_text(&self) -> Result<(), EditorRequestError> {
        let session = self.call.editor_session();
        let text = self
            .checked
            .original
            .text_form
            .to_editor_text(&self.checked.new)
            .unwrap_or_default();
        let request =
            WriteTextFileRequest::new(session.id.clone(), self.checked.path.absolute_path(), text);
        await_with_timeout(session, session.client.write_text_file(request))
            .await
            .map(drop)
    }

    async fn read_back(&self) -> DiskContent {
        // The write cannot be taken back, so its result is read even if the call was cancelled meanwhile.
        let cx = ToolContext {
            cancel: CancellationToken::new(),
            ..self.cx.clone()
        };
        match self
            .local
            .load_file(&cx, self.checked.path.clone(), 2 * MAX_REQUESTED_BYTES)
            .await
        {
            Ok(loaded) => DiskContent::Bytes(loaded.bytes),
            Err(fault) if fault.stable_code() == ErrorCode::NotFound => DiskContent::Missing,
            Err(_) => DiskContent::Unknown,
        }
    }

    async fn send_and_verify(mut self) -> Result<WriteReport, ToolError> {
        if self.checked.exact {
            self.verify_unchanged().await?;
        }
        let shown = self.checked.path.display_text();
        // The call may have been cancelled while the editor was asked for its text.
        if self.cx.is_cancelled() {
            return Err(ToolError::call_cancelled(format!(
                "Writing {shown} was cancelled before anything was sent to {}.",
                self.call.editor_session().editor
            )));
        }
        reach_of("editor.send", &shown);
        let sent = self.send_text().await;
        reach_of("editor.sent", &shown);
        let now = self.read_back().await;
        let was = self.checked.original.disk.as_ref().map(|disk| &disk.bytes);
        let as_before = match (&now, was) {
            (DiskContent::Missing, None) => true,
            (DiskContent::Bytes(now), Some(was)) => now == was,
            _ => false,
        };
        let is_there = matches!(&now, DiskContent::Bytes(now) if *now == self.checked.new);
        let name = self.call.editor_session().editor.clone();
        if let Err(failure) = sent {
            // If the bytes are the same as before, they prove nothing.
            if !is_there || as_before {
                return Err(self.failed_write_error(&failure, &now, as_before));
            }
            self.checked.warnings.push(format!(
                "{}, but the file on disk is as it shall be.",
                failure.describe_cause(self.call.editor_session())
            ));
        }
        let (after, unsaved) = match now {
            _ if is_there => (Arc::clone(&self.checked.new), false),
            DiskContent::Bytes(now) if !as_before => {
                self.checked.warnings.push(format!(
                    "{name} changed the text when it saved it: what is on disk is not what was sent. Its SHA-256 is {}.",
                    content_sha256(&now)
                ));
                (now, false)
            }
            _ => {
                self.checked.warnings.push(format!(
                    "{name} took the text and has not saved it: the file on disk is as it was before."
                ));
                (Arc::clone(&self.checked.new), true)
            }
        };
        Ok(self.into_report(&after, unsaved))
    }

    fn into_report(self, after: &[u8], unsaved: bool) -> WriteReport {
        let before = self.checked.original.current_bytes();
        let words = |bytes: &[u8]| std::str::from_utf8(bytes).map(str::to_owned).ok();
        if let Some(after) = words(after) {
            self.call.show_diff(
                self.checked.path.absolute_path(),
                before.and_then(|before| words(before)).as_deref(),
                &after,
            );
        }
        WriteReport {
            created: before.is_none(),
            unchanged: false,
            before: before.map(|before| content_sha256(before)),
            after: content_sha256(after),
            size: after.len() as u64,
            warnings: self.checked.warnings,
            by: TextSource::Editor {
                name: self.call.editor_session().editor.clone(),
                unsaved,
            },
        }
    }

    /// Builds the error of a write that the editor did not confirm.
    fn failed_write_error(
        &self,
        failure: &EditorRequestError,
        now: &DiskContent,
        as_before: bool,
    ) -> ToolError {
        let shown = self.checked.path.display_text();
        let said = failure.describe_cause(self.call.editor_session());
        let state = match now {
            _ if as_before => "The file on disk is as it was before.".to_owned(),
            DiskContent::Bytes(now) => format!(
                "The file on disk has changed: its SHA-256 is {}.",
                content_sha256(now)
            ),
            DiskContent::Missing => "The file is not on disk any more.".to_owned(),
            DiskContent::Unknown => "The file on disk cannot be read.".to_owned(),
        };
        let (what, next) = if failure.has_unknown_outcome() {
            (
                "it is not known whether it was written",
                "The editor may have got the text all the same.",
            )
        } else {
            ("it was not written", "Nothing was written beside it.")
        };
        let meta = ResultMeta {
            may_have_run: failure.has_unknown_outcome() || !as_before,
            ..ResultMeta::default()
        };
        let text = format!("{shown}: {what}: {said}. {state} {next} Read the file, then decide.");
        ToolError::new(ErrorCode::Io, text).with_meta(meta)
    }
}

impl PreparedWrite for EditorWrite {
    fn next_intent(&self) -> Option<CallIntent> {
        self.declared.clone()
    }

    fn stage_content(&mut self) -> Result<(), ToolError> {
        // An editor may not create folders.
        if self.checked.create_folders
            && let Err(cause) = self.checked.path.open_parent_folder(true)
        {
            return Err(ToolError::from_io(self.checked.path.display_text(), &cause));
        }
        Ok(())
    }

    fn place_content(self: Box<Self>) -> Result<WriteReport, ToolError> {
        let runtime = self.runtime.clone();
        runtime.block_on(self.send_and_verify())
    }
}

/// Declares a write by the hashes of the file on disk, before and after.
fn declare_write(checked: &CheckedWrite) -> Option<CallIntent> {
    match (
        checked.local_write.next_intent(),
        checked.path.absolute_path().to_str(),
    ) {
        // A local write would hash the bytes while it stages them, and this write stages none.
        (Some(CallIntent::Beside { temp }), Some(path)) => Some(CallIntent::File {
            path: path.to_owned(),
            before: checked
                .original
                .disk
                .as_ref()
                .map(|disk| content_sha256(&disk.bytes)),
            after: Some(content_sha256(&checked.new)),
            executable: None,
            temp,
        }),
        (declared, _) => declared,
    }
}

fn unsent_write_error(shown: &str, why: &str) -> ToolError {
    ToolError::new(
        ErrorCode::Io,
        format!("{shown}: {why} Nothing was written. Ask again."),
    )
}

fn content_sha256(bytes: &[u8]) -> String {
    punie_core::ids::to_hex(&<sha2::Sha256 as sha2::Digest>::digest(bytes))
}
