//! The session of one client: its name and its folders, and the question to its person whether it may work in one of them.
//! Not here: the owner's decision (the device).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rmcp::RoleServer;
use rmcp::service::Peer;
use tokio::sync::Mutex;

use super::approval_form::{FolderAnswer, folder_answer, folder_form};
use super::client_abilities::{client_name, has_forms, named_roots};
use super::device_link::{DeviceLink, FolderDecision, LinkError};
use punie_core::request_session::RequestSession;

/// The session of a client.
pub(super) struct ClientSession {
    /// The folders of a client that names none; `None` if folders of this machine say nothing about the device.
    folders: Option<Vec<PathBuf>>,
    /// The session, until the client says that its folders have changed.
    session: Mutex<Option<RequestSession>>,
    /// The folders that the person at the client has declined.
    declined: Mutex<BTreeSet<PathBuf>>,
}

impl ClientSession {
    /// Creates the session of a client that works in these folders unless it names others; `None` if folders of this machine
    /// say nothing about the device.
    pub fn new(folders: Option<Vec<PathBuf>>) -> Self {
        Self {
            folders,
            session: Mutex::default(),
            declined: Mutex::default(),
        }
    }

    /// Asks the client again for its folders, before the next call.
    pub async fn forget_folders(&self) {
        *self.session.lock().await = None;
    }

    /// Returns the session of this client, which is asked for its folders when it has not named them yet. The owner is asked
    /// about those that no rule names.
    pub async fn find_session(
        &self,
        link: &dyn DeviceLink,
        client: &Peer<RoleServer>,
    ) -> Result<Option<RequestSession>, LinkError> {
        let Some(folders) = &self.folders else {
            return Ok(None);
        };
        // Calls beside each other wait here, so that each folder is one question.
        let mut known = self.session.lock().await;
        if let Some(session) = &*known {
            return Ok(Some(session.clone()));
        }
        let roots = named_roots(client).await?;
        let named = if roots.is_empty() { folders } else { &roots };
        let session = RequestSession {
            client: client_name(client),
            folders: named.iter().map(|folder| real_folder(folder)).collect(),
        };
        session.check_limits().map_err(|why| {
            LinkError(format!("the folders of this session cannot be used: {why}"))
        })?;
        if !has_forms(client) {
            // The device asks the person there, or refuses.
            return Ok(Some(known.insert(session).clone()));
        }
        let mut is_settled = true;
        for folder in &session.folders {
            let decision = link.judge_folder(folder).await?;
            is_settled &= decision == FolderDecision::Allowed;
            if decision == FolderDecision::Open {
                self.ask_about_folder(link, &session.client, folder, client)
                    .await?;
            }
        }
        if is_settled {
            *known = Some(session.clone());
        }
        Ok(Some(session))
    }

    /// Asks the person at the client about a folder, unless that person has declined it in this session.
    async fn ask_about_folder(
        &self,
        link: &dyn DeviceLink,
        name: &str,
        folder: &Path,
        client: &Peer<RoleServer>,
    ) -> Result<(), LinkError> {
        let mut declined = self.declined.lock().await;
        if !declined.contains(folder) {
            if show_folder_form(link, name, folder, client).await? {
                return Ok(());
            }
            declined.insert(folder.to_owned());
        }
        Err(link.declined_folder(folder))
    }
}

/// Asks the person at the client about a folder that no rule of the owner names. Returns false if the answer is no for this
/// session; every other one is a rule.
async fn show_folder_form(
    link: &dyn DeviceLink,
    name: &str,
    folder: &Path,
    client: &Peer<RoleServer>,
) -> Result<bool, LinkError> {
    let Some(form) = folder_form(name, folder) else {
        return Ok(true);
    };
    let answer = client.create_elicitation(form).await;
    let answer = answer.inspect_err(|error| {
        tracing::warn!(%error, "the client did not show the question about a folder");
    });
    match answer.as_ref().map_or(FolderAnswer::None, folder_answer) {
        FolderAnswer::Rule(is_allowed) => {
            link.answer_folder(folder, is_allowed).await?;
            Ok(true)
        }
        FolderAnswer::Declined => Ok(false),
        // The device asks the person there, or refuses.
        FolderAnswer::None => Ok(true),
    }
}

/// Returns a folder as the device knows it, without links.
fn real_folder(folder: &Path) -> PathBuf {
    folder.canonicalize().unwrap_or_else(|_| folder.to_owned())
}
