//! The decisions about conversations that persons made in editors: which are stopped, and which require approval
//! because an editor was attached to them. Each is a file, so it survives restarts and can be removed without a running
//! runner. Not here: refusing stopped calls (runner), and asking (editor).

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::error::HomeError;
use super::layout::Home;

use super::private_files::{ensure_private_file, remove_file_if_exists};
use punie_core::ids::{ConversationId, to_hex};

/// A conversation that a person has stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoppedConversation {
    /// Its id.
    pub conversation_id: String,
    /// The reason, such as `the person at Zed stopped the turn`.
    pub reason: String,
    /// The time of the stop, in milliseconds since 1970.
    pub since_ms: i64,
}

#[derive(Serialize, Deserialize)]
struct StopFile {
    conversation: ConversationId,
    reason: String,
}

/// The conversations that require approval because an editor was attached to them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct AskedConversations {
    /// An editor was attached to all conversations.
    pub all: bool,
    /// The conversations that an editor was attached to by name.
    pub conversations: Vec<String>,
}

/// The store of persons' decisions about conversations.
#[derive(Debug, Clone)]
pub struct SupervisionStore {
    folder: PathBuf,
}

impl SupervisionStore {
    /// Returns the decisions stored in this home.
    pub fn in_home(home: &Home) -> Self {
        Self {
            folder: home.supervision_dir(),
        }
    }

    /// Returns the file of a stop. It is named by a hash, because conversation ids may be too long for a file name and
    /// contain slashes.
    fn stop_file(&self, conversation: &ConversationId) -> PathBuf {
        self.decision_file("stopped", conversation)
    }

    fn decision_file(&self, kind: &str, conversation: &ConversationId) -> PathBuf {
        self.folder.join(format!(
            "{kind}-{}",
            to_hex(&Sha256::digest(conversation.key()))
        ))
    }

    /// Stops a conversation. One that is stopped already keeps its time and reason.
    ///
    /// # Errors
    /// [`HomeError`] when it cannot be written.
    ///
    /// # Panics
    /// Never: texts are always JSON.
    pub fn stop_conversation(
        &self,
        conversation: &ConversationId,
        reason: &str,
    ) -> Result<(), HomeError> {
        let path = self.stop_file(conversation);
        let stop = StopFile {
            conversation: conversation.clone(),
            reason: reason.to_owned(),
        };
        let text = serde_json::to_vec(&stop).expect("texts are JSON");
        ensure_private_file(&path, &text).map(drop)
    }

    /// Returns the reason why this conversation is stopped, if it is. An unreadable file counts as a stop.
    pub fn stop_reason(&self, conversation: &ConversationId) -> Option<String> {
        match fs::read(self.stop_file(conversation)) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            read => Some(
                read.ok()
                    .and_then(|text| serde_json::from_slice::<StopFile>(&text).ok())
                    .map_or_else(
                        || "a person stopped the conversation".to_owned(),
                        |stop| stop.reason,
                    ),
            ),
        }
    }

    /// Returns the file which says that calls of this conversation, or of all, require approval.
    fn asked_marker(&self, of: Option<&ConversationId>) -> PathBuf {
        match of {
            Some(conversation) => self.decision_file("asked", conversation),
            None => self.folder.join("asked-all"),
        }
    }

    /// Requires approval of the calls of this conversation, or of all, from now on.
    ///
    /// # Errors
    /// [`HomeError`] when it cannot be written.
    pub fn start_asking(&self, of: Option<&ConversationId>) -> Result<(), HomeError> {
        let path = self.asked_marker(of);
        let text = of.map(ConversationId::key).unwrap_or_default();
        ensure_private_file(&path, text.as_bytes()).map(drop)
    }

    /// Returns whether calls of this conversation require approval. A file that cannot be checked counts.
    pub fn requires_approval(&self, conversation: &ConversationId) -> bool {
        let missing = |path: PathBuf| {
            fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound)
        };
        !(missing(self.asked_marker(None)) && missing(self.asked_marker(Some(conversation))))
    }

    /// Requires no more approval of the calls of this conversation, or of any if none is named. Returns whether that
    /// changed anything.
    ///
    /// # Errors
    /// [`HomeError`] when a file cannot be removed.
    pub fn stop_asking(&self, of: Option<&ConversationId>) -> Result<bool, HomeError> {
        let Some(conversation) = of else {
            return self
                .decision_files("asked-")
                .try_fold(false, |changed, path| {
                    Ok(remove_file_if_exists(&path)? || changed)
                });
        };
        remove_file_if_exists(&self.asked_marker(Some(conversation)))
    }

    /// Returns the conversations that require approval.
    pub fn asked_conversations(&self) -> AskedConversations {
        let all = self.asked_marker(None);
        let (every, named): (Vec<_>, Vec<_>) =
            self.decision_files("asked-").partition(|path| *path == all);
        let mut conversations: Vec<_> = named
            .iter()
            .filter_map(|path| fs::read_to_string(path).ok())
            .collect();
        conversations.sort();
        AskedConversations {
            all: !every.is_empty(),
            conversations,
        }
    }

    /// Resumes a conversation. Returns whether it was stopped.
    ///
    /// # Errors
    /// [`HomeError`] when the file cannot be removed.
    pub fn remove_stop(&self, conversation: &ConversationId) -> Result<bool, HomeError> {
        remove_file_if_exists(&self.stop_file(conversation))
    }

    /// Resumes every conversation. Returns how many were stopped.
    ///
    /// # Errors
    /// [`HomeError`] when a file cannot be removed.
    pub fn remove_all_stops(&self) -> Result<usize, HomeError> {
        let mut resumed = 0;
        for path in self.decision_files("stopped-") {
            resumed += usize::from(remove_file_if_exists(&path)?);
        }
        Ok(resumed)
    }

    /// Returns the stopped conversations, oldest first.
    pub fn stopped_conversations(&self) -> Vec<StoppedConversation> {
        let read = |path: PathBuf| {
            let stop: StopFile = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
            let since = fs::metadata(&path).and_then(|file| file.modified()).ok();
            let since = since
                .and_then(|at| at.duration_since(UNIX_EPOCH).ok())
                .unwrap_or_default();
            Some(StoppedConversation {
                conversation_id: stop.conversation.to_string(),
                reason: stop.reason,
                since_ms: i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            })
        };
        let mut all: Vec<_> = self.decision_files("stopped-").filter_map(read).collect();
        all.sort_by(|a, b| (a.since_ms, &a.conversation_id).cmp(&(b.since_ms, &b.conversation_id)));
        all
    }

    fn decision_files(&self, prefix: &'static str) -> impl Iterator<Item = PathBuf> + use<> {
        let files = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        files
            .filter(move |file| {
                file.file_name()
                    .to_str()
                    .is_some_and(|name| name.starts_with(prefix))
            })
            .map(|file| file.path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_is_stopped_until_it_is_resumed_and_no_other_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let supervision = SupervisionStore {
            folder: folder.path().to_owned(),
        };
        let id = |text: &str| ConversationId::parse(text).expect("an id");
        let one = id("talk/1");
        let two = id("talk/2");
        let long = id(&"x".repeat(256));
        assert_eq!(supervision.stop_reason(&one), None);
        for conversation in [&one, &long] {
            supervision
                .stop_conversation(conversation, "the person at Zed stopped the turn")
                .expect("written");
        }
        supervision
            .stop_conversation(&one, "later")
            .expect("it is stopped already");
        assert_eq!(
            supervision.stop_reason(&one).as_deref(),
            Some("the person at Zed stopped the turn")
        );
        assert_eq!(supervision.stop_reason(&two), None);
        let listed: Vec<_> = supervision
            .stopped_conversations()
            .into_iter()
            .map(|stop| stop.conversation_id)
            .collect();
        assert!(
            listed.len() == 2 && listed.contains(&"talk/1".to_owned()),
            "{listed:?}"
        );
        assert!(supervision.remove_stop(&one).expect("removed"));
        assert!(!supervision.remove_stop(&one).expect("it goes on"));
        fs::write(supervision.stop_file(&two), "{").expect("written");
        assert!(
            supervision.stop_reason(&two).is_some(),
            "a file that cannot be read stops"
        );
        assert_eq!(supervision.remove_all_stops().expect("removed"), 2);
        assert_eq!(
            (
                supervision.stop_reason(&two),
                supervision.stopped_conversations()
            ),
            (None, Vec::new())
        );
    }

    #[test]
    fn what_is_asked_about_is_stored_by_name_or_for_all() {
        let folder = tempfile::tempdir().expect("a folder");
        let supervision = SupervisionStore {
            folder: folder.path().to_owned(),
        };
        let [one, two] =
            ["talk/1", "talk/2"].map(|text| ConversationId::parse(text).expect("an id"));
        assert_eq!(
            supervision.asked_conversations(),
            AskedConversations::default()
        );
        supervision.start_asking(Some(&one)).expect("written");
        assert!(supervision.requires_approval(&one) && !supervision.requires_approval(&two));
        supervision.start_asking(None).expect("written");
        assert!(supervision.requires_approval(&two));
        let conversations = vec!["talk/1".to_owned()];
        assert_eq!(
            supervision.asked_conversations(),
            AskedConversations {
                all: true,
                conversations
            }
        );
        assert!(supervision.stop_asking(Some(&one)).expect("removed"));
        assert!(
            !supervision
                .stop_asking(Some(&one))
                .expect("it is not asked about by name")
        );
        assert!(supervision.stop_asking(None).expect("removed"));
        assert!(!supervision.requires_approval(&one));
    }
}
