//! The gate of sessions: a session works in its folders once the owner allows it, and is asked about once for each
//! folder. The person at this device is asked, never the caller's side: the caller names the folders.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, WeakShared};
use parking_lot::Mutex;

use super::{FolderVerdict, SessionFolders};
use crate::ReachableFolders;
use crate::blocking::run_blocking;
use crate::local::confinement::Confinement;
use punie_core::request_session::RequestSession;
use punie_home::{OpenQuestion, PeopleAsker, command_to_type};
use punie_policy::command_line::quote_word;
use punie_text::output::hidden_characters::escape_to_one_line;
use punie_tool::{ErrorCode, ResultMeta, ToolContext, ToolError};

type SharedAnswer = WeakShared<BoxFuture<'static, QuestionEnd>>;

/// The end of a question about a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QuestionEnd {
    /// A person answered; the answer is a rule now, unless that failed.
    Answered(bool),
    NobodyToAsk,
    Unanswered,
}

/// Lets sessions work in their folders.
pub struct SessionGate {
    folders: SessionFolders,
    reachable: ReachableFolders,
    confinement: Confinement,
    people: PeopleAsker,
    patience: Duration,
    /// The questions that wait: several calls in one folder are one question.
    open: Mutex<HashMap<PathBuf, SharedAnswer>>,
}

impl SessionGate {
    /// Creates the gate. The folders of sessions that it lets through are added to the reachable ones.
    pub fn new(
        folders: SessionFolders,
        reachable: ReachableFolders,
        confinement: Confinement,
        people: PeopleAsker,
        patience: Duration,
    ) -> Self {
        Self {
            folders,
            reachable,
            confinement,
            people,
            patience,
            open: Mutex::default(),
        }
    }

    /// Returns once the session of a call may work in its folders. A call without a session is in the workspaces. Its git
    /// gets the repositories that the owner allows.
    ///
    /// # Errors
    /// `outside_workspace` for a folder in which none can work; `policy_denied` where a rule or a person says no, or
    /// nobody says yes.
    pub async fn permit_session(&self, cx: &ToolContext, tool: &str) -> Result<(), ToolError> {
        let Some(session) = &cx.session else {
            return self.open_repositories(None).await;
        };
        for folder in &session.folders {
            let verdict = match self.judge_folder(folder).await? {
                FolderVerdict::Unknown => {
                    self.ask_once(cx, session, folder, tool).await?;
                    // Another rule may be stricter than the answer.
                    self.judge_folder(folder).await?
                }
                verdict => verdict,
            };
            if verdict != FolderVerdict::Allowed {
                return Err(refusal(tool, folder, &verdict));
            }
        }
        let reachable = self.reachable.clone();
        let folders = session.folders.clone();
        run_blocking(move || reachable.add_folders(&folders)).await?;
        self.open_repositories(Some(session.folders.clone())).await
    }

    async fn open_repositories(&self, of_session: Option<Vec<PathBuf>>) -> Result<(), ToolError> {
        let folders = self.folders.clone();
        let confinement = self.confinement.clone();
        run_blocking(move || {
            confinement.open_repositories(None, folders.allowed_repositories(None));
            if let Some(of_session) = of_session.as_deref() {
                let allowed = folders.allowed_repositories(Some(of_session));
                confinement.open_repositories(Some(of_session), allowed);
            }
        })
        .await
    }

    async fn judge_folder(&self, folder: &Path) -> Result<FolderVerdict, ToolError> {
        let folders = self.folders.clone();
        let folder = folder.to_owned();
        run_blocking(move || folders.judge_folder(&folder)).await
    }

    /// Waits for the open question about a folder, or asks it.
    async fn ask_once(
        &self,
        cx: &ToolContext,
        session: &RequestSession,
        folder: &Path,
        tool: &str,
    ) -> Result<(), ToolError> {
        let question = {
            let mut open = self.open.lock();
            open.retain(|_, answer| answer.upgrade().is_some());
            open.get(folder)
                .and_then(WeakShared::upgrade)
                .unwrap_or_else(|| {
                    let question = self.build_question(cx, session, folder, tool);
                    let asking = ask_and_record(
                        self.people.clone(),
                        self.folders.clone(),
                        question,
                        folder.to_owned(),
                    );
                    let answer = asking.boxed().shared();
                    if let Some(waiting) = answer.downgrade() {
                        open.insert(folder.to_owned(), waiting);
                    }
                    answer
                })
        };
        let why = match question.await {
            QuestionEnd::Answered(_) => return Ok(()),
            QuestionEnd::NobodyToAsk => "nobody is asked about it at this device now".to_owned(),
            QuestionEnd::Unanswered => {
                format!("nobody answered within {} s", self.patience.as_secs())
            }
        };
        let shown = folder.display().to_string();
        let allow = command_to_type(&format!("policy allow --folder {}", quote_word(&shown)));
        let text = format!(
            "{tool} was not run: {shown} lies outside of the owner's workspaces, and {why}. The owner allows sessions \
             there by `{allow}`."
        );
        Err(ToolError::new(ErrorCode::PolicyDenied, text))
    }

    fn build_question(
        &self,
        cx: &ToolContext,
        session: &RequestSession,
        folder: &Path,
        tool: &str,
    ) -> OpenQuestion {
        let folder = escape_to_one_line(&folder.display().to_string());
        // The client names itself, and may take any name.
        let client = escape_to_one_line(&session.client);
        let caller = cx.caller.as_deref().map(escape_to_one_line);
        let caller = caller.map_or_else(String::new, |name| format!("\ncaller: {name}"));
        let title = format!("{client} wants to work in {folder}");
        let arguments = format!("folder: {folder}\nclient: {client}{caller}");
        OpenQuestion {
            why: Some("it lies outside of your workspaces".to_owned()),
            session_folder: Some(folder),
            ..OpenQuestion::new(&cx.request, tool, title, arguments, self.patience)
        }
    }
}

/// Asks the person at this device, and makes a rule of the answer.
async fn ask_and_record(
    people: PeopleAsker,
    folders: SessionFolders,
    question: OpenQuestion,
    folder: PathBuf,
) -> QuestionEnd {
    let is_allowed = match people.ask_at_device(question).await {
        Ok(Some(reply)) => reply.option.is_allowed(),
        Ok(None) => return QuestionEnd::Unanswered,
        Err(_nobody) => return QuestionEnd::NobodyToAsk,
    };
    let recorded = run_blocking(move || folders.record_answer(&folder, is_allowed)).await;
    if let Ok(Err(why)) = recorded {
        tracing::warn!(
            why,
            "the answer about a session's folder is not in policy.toml"
        );
    }
    QuestionEnd::Answered(is_allowed)
}

fn refusal(tool: &str, folder: &Path, verdict: &FolderVerdict) -> ToolError {
    let shown = folder.display();
    match verdict {
        FolderVerdict::Denied(rule) => {
            let revoke = command_to_type(&format!("policy revoke {rule}"));
            let text = format!(
                "{tool} was not run: the owner lets no session work in {shown} (the rule {rule} in policy.toml). The \
                 owner takes that back by `{revoke}`."
            );
            let meta = ResultMeta {
                rule: Some(rule.clone()),
                ..ResultMeta::default()
            };
            ToolError::new(ErrorCode::PolicyDenied, text).with_meta(meta)
        }
        FolderVerdict::Unusable(why) => {
            let text = format!("{tool} was not run: the session's folder {shown} {why}.");
            ToolError::new(ErrorCode::OutsideWorkspace, text)
        }
        FolderVerdict::Allowed | FolderVerdict::Unknown => {
            let text = format!(
                "{tool} was not run: the owner's answer about {shown} could not be added to policy.toml. The owner \
                 sees why in the log."
            );
            ToolError::new(ErrorCode::PolicyDenied, text)
        }
    }
}
