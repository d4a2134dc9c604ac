//! The commands that a person can type in an editor. There are few, because the work comes from the backend.

use punie_core::ids::ConversationId;

/// A command in a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PromptCommand {
    /// Opens a turn for the calls of this conversation, or of all conversations if none is named.
    Attach(Option<ConversationId>),
    /// Describes the state of the runner.
    Status,
    /// Revokes the permissions that were given for the session.
    Revoke,
    /// Lists the commands; the meaning of any other text.
    Help,
}

/// The name, help and argument hint of each command, for the editor's list of commands.
pub(super) const COMMANDS: &[(&str, &str, Option<&str>)] = &[
    (
        "attach",
        "Show the backend's tool calls here, ask here, and use this editor for them",
        Some("a conversation, or nothing for all"),
    ),
    (
        "status",
        "Whether the runner is connected, and what this editor serves",
        None,
    ),
    (
        "revoke",
        "Take back what was allowed for this session",
        None,
    ),
];

/// The answer to a prompt that is no command.
pub(super) const HELP: &str = "This agent runs tools for a remote agent; it does not chat. Say one of:\n\n\
    - `attach` (or `attach CONVERSATION`): the backend's tool calls are shown here until you stop the turn; you are \
    asked here, and files are read and written through this editor\n\
    - `status`: whether the runner is connected, and what this editor serves\n\
    - `revoke`: take back what was allowed for this session";

impl PromptCommand {
    /// Parses a prompt. Editors put a slash before the command.
    pub fn parse(text: &str) -> Self {
        let mut words = text.split_whitespace();
        let first = words.next().unwrap_or_default();
        let word = first
            .strip_prefix('/')
            .unwrap_or(first)
            .to_ascii_lowercase();
        match (word.as_str(), words.next(), words.next()) {
            ("attach", None, _) => Self::Attach(None),
            ("attach", Some(conversation), None) => {
                ConversationId::parse(conversation).map_or(Self::Help, |id| Self::Attach(Some(id)))
            }
            ("status", None, _) => Self::Status,
            ("revoke", None, _) => Self::Revoke,
            _ => Self::Help,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_words_are_understood_and_everything_else_gets_help() {
        assert_eq!(PromptCommand::parse("attach"), PromptCommand::Attach(None));
        assert_eq!(
            PromptCommand::parse("  /Attach \n"),
            PromptCommand::Attach(None)
        );
        let PromptCommand::Attach(Some(conversation)) = PromptCommand::parse("attach talk-1")
        else {
            panic!("a conversation")
        };
        assert_eq!(conversation.to_string(), "talk-1");
        assert_eq!(PromptCommand::parse("/status"), PromptCommand::Status);
        assert_eq!(PromptCommand::parse("revoke"), PromptCommand::Revoke);
        for other in ["", "attach two words", "fix the bug", "detach"] {
            assert_eq!(
                PromptCommand::parse(other),
                PromptCommand::Help,
                "{other:?}"
            );
        }
    }
}
