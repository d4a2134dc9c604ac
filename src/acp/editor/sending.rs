//! A write that a connected editor makes. The whole text is sent, and the result is checked on disk. Once sent it
//! cannot be taken back. Not here: the checks before it (writes).

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::asking::{Trouble, within};
use super::files::{Found, Held, IfMissing, MOST, look};
use super::shown::ShownCall;
use super::writes::stale;
use crate::acp::files::{FileClient, Source, Written};
use crate::acp::prepared::PreparedWrite;
use crate::acp::protocol::WriteTextFileRequest;
use crate::acp::{LocalClient, WorkspacePath};
use crate::failpoint::reach_of;
use crate::tool::{ErrorCode, Intent, Meta, ToolCx, ToolError};

/// The file on disk after the editor was asked to write it.
enum Now {
    Missing,
    Bytes(Arc<Vec<u8>>),
    /// It cannot be read as a small file any more.
    Unknown,
}

/// A write that passed the checks.
pub(super) struct Checked {
    /// The same write on this machine, used only for its declaration.
    pub here: Box<dyn PreparedWrite>,
    pub path: WorkspacePath,
    /// The file as it was when it was checked.
    pub held: Held,
    /// The new content of the file.
    pub new: Arc<Vec<u8>>,
    /// The editor must still have the text that was checked.
    pub exact: bool,
    pub create_folders: bool,
    /// Notes on changes that the content did not ask for.
    pub warnings: Vec<String>,
}

/// A write that is ready to be sent.
pub(super) struct Sending {
    local: LocalClient,
    /// The call's own context, until the write is sent.
    cx: ToolCx,
    call: Arc<ShownCall>,
    checked: Checked,
    /// The whole change, whatever its size. Nothing is staged, so it cannot be declared later.
    declared: Option<Intent>,
    runtime: Handle,
}

impl Sending {
    /// Prepares a write to the editor that follows this call.
    pub fn new(local: &LocalClient, cx: &ToolCx, call: Arc<ShownCall>, checked: Checked) -> Self {
        let declared = declaration(&checked);
        Self { local: local.clone(), cx: cx.clone(), call, checked, declared, runtime: Handle::current() }
    }

    /// Fails if the file changed since it was checked.
    async fn look_again(&self) -> Result<(), ToolError> {
        let shown = self.checked.path.shown();
        let session = self.call.session();
        match look(&self.local, &self.cx, session, &self.checked.path, IfMissing::Ask).await? {
            Found::Held(now) if now.now() == self.checked.held.now() => Ok(()),
            Found::Held(_) | Found::Local(None) => Err(stale(
                &shown,
                &format!("was changed by somebody else just now, in {} or on disk", session.editor),
            )),
            Found::Local(Some(why)) => Err(unsent(&shown, &why)),
            Found::Unknown(why) => Err(unsent(&shown, &format!("{why}."))),
        }
    }

    async fn send(&self) -> Result<(), Trouble> {
        let session = self.call.session();
        let text = self.checked.held.spelling.for_editor(&self.checked.new).unwrap_or_default();
        let request = WriteTextFileRequest::new(session.id.clone(), self.checked.path.absolute(), text);
        within(session, session.client.write_text_file(request)).await.map(drop)
    }

    async fn on_disk(&self) -> Now {
        // The write cannot be taken back, so its result is read even if the call was cancelled meanwhile.
        let cx = ToolCx { cancel: CancellationToken::new(), ..self.cx.clone() };
        match self.local.load_file(&cx, self.checked.path.clone(), 2 * MOST).await {
            Ok(loaded) => Now::Bytes(loaded.bytes),
            Err(fault) if fault.code() == ErrorCode::NotFound => Now::Missing,
            Err(_) => Now::Unknown,
        }
    }

    async fn carry_out(mut self) -> Result<Written, ToolError> {
        if self.checked.exact {
            self.look_again().await?;
        }
        let shown = self.checked.path.shown();
        // The call may have been cancelled while the editor was asked for its text.
        if self.cx.is_cancelled() {
            return Err(ToolError::cancelled(format!(
                "Writing {shown} was cancelled before anything was sent to {}.",
                self.call.session().editor
            )));
        }
        reach_of("editor.send", &shown);
        let sent = self.send().await;
        reach_of("editor.sent", &shown);
        let now = self.on_disk().await;
        let was = self.checked.held.disk.as_ref().map(|disk| &disk.bytes);
        let as_before = match (&now, was) {
            (Now::Missing, None) => true,
            (Now::Bytes(now), Some(was)) => now == was,
            _ => false,
        };
        let is_there = matches!(&now, Now::Bytes(now) if *now == self.checked.new);
        let name = self.call.session().editor.clone();
        if let Err(trouble) = sent {
            // If the bytes are the same as before, they prove nothing.
            if !is_there || as_before {
                return Err(self.failed(&trouble, &now, as_before));
            }
            self.checked.warnings.push(format!(
                "{}, but the file on disk is as it shall be.",
                trouble.said(self.call.session())
            ));
        }
        let (after, unsaved) = match now {
            _ if is_there => (Arc::clone(&self.checked.new), false),
            Now::Bytes(now) if !as_before => {
                self.checked.warnings.push(format!(
                    "{name} changed the text when it saved it: what is on disk is not what was sent. Its SHA-256 is {}.",
                    sha256(&now)
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
        Ok(self.written(&after, unsaved))
    }

    fn written(self, after: &[u8], unsaved: bool) -> Written {
        let before = self.checked.held.now();
        let words = |bytes: &[u8]| std::str::from_utf8(bytes).map(str::to_owned).ok();
        if let Some(after) = words(after) {
            self.call.wrote(
                self.checked.path.absolute(),
                before.and_then(|before| words(before)).as_deref(),
                &after,
            );
        }
        Written {
            created: before.is_none(),
            unchanged: false,
            before: before.map(|before| sha256(before)),
            after: sha256(after),
            size: after.len() as u64,
            warnings: self.checked.warnings,
            by: Source::Editor { name: self.call.session().editor.clone(), unsaved },
        }
    }

    /// Builds the error of a write that the editor did not confirm.
    fn failed(&self, trouble: &Trouble, now: &Now, as_before: bool) -> ToolError {
        let (shown, said) = (self.checked.path.shown(), trouble.said(self.call.session()));
        let state = match now {
            _ if as_before => "The file on disk is as it was before.".to_owned(),
            Now::Bytes(now) => format!("The file on disk has changed: its SHA-256 is {}.", sha256(now)),
            Now::Missing => "The file is not on disk any more.".to_owned(),
            Now::Unknown => "The file on disk cannot be read.".to_owned(),
        };
        let (what, next) = if trouble.is_unclear() {
            ("it is not known whether it was written", "The editor may have got the text all the same.")
        } else {
            ("it was not written", "Nothing was written beside it.")
        };
        let meta = Meta { may_have_run: trouble.is_unclear() || !as_before, ..Meta::default() };
        let text = format!("{shown}: {what}: {said}. {state} {next} Read the file, then decide.");
        ToolError::new(ErrorCode::Io, text).with_meta(meta)
    }
}

impl PreparedWrite for Sending {
    fn intent(&self) -> Option<Intent> {
        self.declared.clone()
    }

    fn stage(&mut self) -> Result<(), ToolError> {
        // An editor may not create folders.
        if self.checked.create_folders
            && let Err(cause) = self.checked.path.open_parent(true)
        {
            return Err(ToolError::io(self.checked.path.shown(), &cause));
        }
        Ok(())
    }

    fn place(self: Box<Self>) -> Result<Written, ToolError> {
        let runtime = self.runtime.clone();
        runtime.block_on(self.carry_out())
    }
}

/// Declares a write by the hashes of the file on disk, before and after.
fn declaration(checked: &Checked) -> Option<Intent> {
    match (checked.here.intent(), checked.path.absolute().to_str()) {
        // A local write would hash the bytes while it stages them, and this write stages none.
        (Some(Intent::Beside { temp }), Some(path)) => Some(Intent::File {
            path: path.to_owned(),
            before: checked.held.disk.as_ref().map(|disk| sha256(&disk.bytes)),
            after: Some(sha256(&checked.new)),
            executable: None,
            temp,
        }),
        (declared, _) => declared,
    }
}

fn unsent(shown: &str, why: &str) -> ToolError {
    ToolError::new(ErrorCode::Io, format!("{shown}: {why} Nothing was written. Ask again."))
}

fn sha256(bytes: &[u8]) -> String {
    crate::ids::hex(&<sha2::Sha256 as sha2::Digest>::digest(bytes))
}
