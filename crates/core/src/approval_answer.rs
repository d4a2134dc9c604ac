//! The answers to an approval question, with ACP's option names, as the wire, the device's own list and the audit
//! write them.

use serde::{Serialize, Serializer};

/// The answer to an approval question. An unclear text counts as [`ApprovalOption::RejectOnce`].
///
/// The names are those of ACP's permission options: <https://agentclientprotocol.com/protocol/tool-calls>.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalOption {
    /// Yes, to this call.
    AllowOnce,
    /// Yes, to this tool for the rest of the conversation.
    AllowAlways,
    /// No, to this call.
    RejectOnce,
    /// No, to this tool for the rest of the conversation.
    RejectAlways,
}

impl ApprovalOption {
    /// All options, in the order in which they are offered.
    pub const ALL: [Self; 4] = [
        Self::AllowOnce,
        Self::AllowAlways,
        Self::RejectOnce,
        Self::RejectAlways,
    ];

    /// The option for a yes or a no, to one call or for the rest of the conversation.
    pub fn new(is_allowed: bool, is_always: bool) -> Self {
        match (is_allowed, is_always) {
            (true, false) => Self::AllowOnce,
            (true, true) => Self::AllowAlways,
            (false, false) => Self::RejectOnce,
            (false, true) => Self::RejectAlways,
        }
    }

    /// Parses an answer; an unclear one rejects this call.
    pub fn from_name(text: &str) -> Self {
        Self::ALL
            .into_iter()
            .find(|option| option.as_str() == text)
            .unwrap_or(Self::RejectOnce)
    }

    /// The option's name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AllowOnce => "allow_once",
            Self::AllowAlways => "allow_always",
            Self::RejectOnce => "reject_once",
            Self::RejectAlways => "reject_always",
        }
    }

    /// The option's label for people.
    pub fn display_label(self) -> &'static str {
        match self {
            Self::AllowOnce => "Allow",
            Self::AllowAlways => "Allow this tool for the rest of the conversation",
            Self::RejectOnce => "Refuse",
            Self::RejectAlways => "Refuse this tool for the rest of the conversation",
        }
    }

    /// Returns whether the option allows the call.
    pub fn is_allowed(self) -> bool {
        matches!(self, Self::AllowOnce | Self::AllowAlways)
    }

    /// Returns whether the answer holds for the rest of the conversation.
    pub fn is_always(self) -> bool {
        matches!(self, Self::AllowAlways | Self::RejectAlways)
    }
}

/// The place of an answer to an approval question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerPlace {
    /// A terminal that asked the person at this device.
    Terminal,
    /// The command `punie-runner approvals` on this device.
    Command,
    /// An editor that follows the conversation.
    Editor,
    /// The caller's side, through the backend.
    Caller,
}

impl AnswerPlace {
    /// All places.
    pub const ALL: [Self; 4] = [Self::Terminal, Self::Command, Self::Editor, Self::Caller];

    /// The place's name in files and in `--json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Terminal => "terminal",
            Self::Command => "command",
            Self::Editor => "editor",
            Self::Caller => "caller",
        }
    }

    /// Describes for the owner who answered, and where.
    pub fn describe_answerer(self) -> &'static str {
        match self {
            Self::Terminal => "by you at the terminal",
            Self::Command => "by you with a command",
            Self::Editor => "in the editor",
            Self::Caller => "by the caller's side",
        }
    }
}

/// The reason why a call that needs approval did not get it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalDenial {
    /// A person denied it there.
    Answered(AnswerPlace),
    /// Nobody answered in time.
    NobodyAnswered,
    /// Nobody could be asked.
    NobodyToAsk,
    /// The caller's side allowed it, and was shown only a part of it.
    SeenInPart,
}

impl ApprovalDenial {
    /// Parses the name of a reason.
    pub fn from_name(name: &str) -> Option<Self> {
        let others = [Self::NobodyAnswered, Self::NobodyToAsk, Self::SeenInPart];
        let mut all = AnswerPlace::ALL
            .map(Self::Answered)
            .into_iter()
            .chain(others);
        all.find(|denial| denial.as_str() == name)
    }

    /// The reason's name in the journal and in `--json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Answered(place) => place.as_str(),
            Self::NobodyAnswered => "nobody_answered",
            Self::NobodyToAsk => "nobody_to_ask",
            Self::SeenInPart => "seen_in_part",
        }
    }

    /// Describes the outcome of the call for the owner, in few words.
    pub fn describe_outcome(self) -> &'static str {
        match self {
            Self::Answered(AnswerPlace::Terminal | AnswerPlace::Command) => "denied by you",
            Self::Answered(AnswerPlace::Editor) => "denied in the editor",
            Self::Answered(AnswerPlace::Caller) => "denied by the caller",
            Self::NobodyAnswered => "nobody answered",
            Self::NobodyToAsk => "nobody to ask",
            Self::SeenInPart => "not read whole",
        }
    }
}

impl Serialize for ApprovalDenial {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// The side that answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnsweredBy {
    /// The caller's side, through the backend.
    Caller,
    /// The person at this device.
    Device,
}

impl AnsweredBy {
    /// Parses the side's name on the wire.
    pub fn from_side_name(text: &str) -> Self {
        if text == Self::Device.as_str() {
            Self::Device
        } else {
            Self::Caller
        }
    }

    /// The side's name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Caller => "caller",
            Self::Device => "device",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_is_known_by_its_name() {
        for name in [
            "terminal",
            "command",
            "editor",
            "caller",
            "nobody_answered",
            "nobody_to_ask",
            "seen_in_part",
        ] {
            let denial = ApprovalDenial::from_name(name).expect("a reason");
            assert_eq!(denial.as_str(), name);
        }
        assert_eq!(ApprovalDenial::from_name("policy.ask"), None);
    }

    #[test]
    fn only_a_clear_yes_is_one() {
        for option in ApprovalOption::ALL {
            assert_eq!(ApprovalOption::from_name(option.as_str()), option);
            assert_eq!(
                ApprovalOption::new(option.is_allowed(), option.is_always()),
                option
            );
        }
        for unclear in ["", "ALLOW_ONCE", "allow_once ", "maybe"] {
            assert_eq!(
                ApprovalOption::from_name(unclear),
                ApprovalOption::RejectOnce,
                "{unclear:?}"
            );
        }
    }
}
