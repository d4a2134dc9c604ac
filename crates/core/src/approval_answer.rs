//! The answers to an approval question, with ACP's option names, as the wire, the device's own list and the audit
//! write them.

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
    pub fn from_option_name(text: &str) -> Self {
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
    fn only_a_clear_yes_is_one() {
        for option in ApprovalOption::ALL {
            assert_eq!(ApprovalOption::from_option_name(option.as_str()), option);
            assert_eq!(
                ApprovalOption::new(option.is_allowed(), option.is_always()),
                option
            );
        }
        for unclear in ["", "ALLOW_ONCE", "allow_once ", "maybe"] {
            assert_eq!(
                ApprovalOption::from_option_name(unclear),
                ApprovalOption::RejectOnce,
                "{unclear:?}"
            );
        }
    }
}
