//! The session of one client: its name and its folders, and the question to its person whether it may work in one of
//! them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rmcp::RoleServer;
use rmcp::model::ElicitRequestParams;
use rmcp::service::Peer;
use tokio::sync::Mutex;

use super::approval_form::{FolderAnswer, folder_answer, folder_form, repository_form};
use super::client_abilities::{client_name, has_forms, named_roots};
use super::device_link::{DeviceLink, LinkError};
use punie_core::request_session::RequestSession;
use punie_host::LinkedRepository;
use punie_host::permission::FolderVerdict;

pub(super) struct ClientSession {
    /// The folders of a client that names none; `None` if folders of this machine say nothing about the device.
    folders: Option<Vec<PathBuf>>,
    /// The session, until the client says that its folders have changed.
    session: Mutex<Option<RequestSession>>,
    /// The folders that the person at the client has declined, and the repositories that the person was asked about.
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
            match link.judge_folder(folder).await? {
                FolderVerdict::Allowed => {}
                FolderVerdict::Unknown => {
                    is_settled = false;
                    self.ask_about_folder(link, &session.client, folder, client)
                        .await?;
                }
                // The device refuses the call, whatever is answered about the rest.
                FolderVerdict::Denied(_) | FolderVerdict::Unusable(_) => return Ok(Some(session)),
            }
        }
        for hidden in link.undecided_repositories(&session.folders).await? {
            self.ask_about_repository(link, &session.client, &hidden, client)
                .await?;
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
            match show_form(folder_form(name, folder), client).await {
                FolderAnswer::Rule(is_allowed) => {
                    return link.answer_folder(folder, is_allowed).await;
                }
                FolderAnswer::Declined => {
                    declined.insert(folder.to_owned());
                }
                // The device asks the person there, or refuses.
                FolderAnswer::None => return Ok(()),
            }
        }
        Err(link.declined_folder(folder))
    }

    /// Asks the person at the client once in this session about a repository. Without an answer the calls run, and git
    /// says that it does not reach it.
    async fn ask_about_repository(
        &self,
        link: &dyn DeviceLink,
        name: &str,
        hidden: &LinkedRepository,
        client: &Peer<RoleServer>,
    ) -> Result<(), LinkError> {
        if !self.declined.lock().await.insert(hidden.repository.clone()) {
            return Ok(());
        }
        match show_form(repository_form(name, &hidden.describe_place()), client).await {
            FolderAnswer::Rule(is_allowed) => {
                link.answer_folder(&hidden.repository, is_allowed).await
            }
            FolderAnswer::Declined | FolderAnswer::None => Ok(()),
        }
    }
}

/// Shows the person at the client a question about a folder that no rule of the owner names.
async fn show_form(form: Option<ElicitRequestParams>, client: &Peer<RoleServer>) -> FolderAnswer {
    let Some(form) = form else {
        return FolderAnswer::None;
    };
    let answer = client.create_elicitation(form).await;
    let answer = answer.inspect_err(|error| {
        tracing::warn!(%error, "the client did not show the question about a folder");
    });
    answer.as_ref().map_or(FolderAnswer::None, folder_answer)
}

/// Returns a folder as the device knows it, without links.
fn real_folder(folder: &Path) -> PathBuf {
    folder.canonicalize().unwrap_or_else(|_| folder.to_owned())
}
