//! The confinement level, as results, heartbeats and settings name it.

use std::fmt;

/// An escape that the self-test tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EscapeAttempt {
    /// Creating a file outside.
    Write,
    /// Appending to an existing file outside, such as a shell's start-up file.
    Append,
    /// Reading a hidden file.
    Read,
    /// Creating a hard link to a hidden file.
    Link,
    /// A TCP connection to a listener outside.
    Tcp,
    /// A UDP packet to a socket outside.
    Udp,
    /// Opening the runner's memory, which requires the same right as tracing it.
    Trace,
    /// Signalling the runner.
    Signal,
    /// Writing a protected path of a workspace.
    Protected,
    /// Reaching the sockets of daemons.
    Daemon,
    /// Reading what lies in the home and is on no list.
    ReadHome,
    /// Changing the mode of a file outside.
    Metadata,
}

impl EscapeAttempt {
    /// All escapes, in the order in which they are tried.
    pub const ALL: [Self; 12] = [
        Self::Write,
        Self::Append,
        Self::Read,
        Self::Link,
        Self::Tcp,
        Self::Udp,
        Self::Trace,
        Self::Signal,
        Self::Protected,
        Self::Daemon,
        Self::ReadHome,
        Self::Metadata,
    ];

    /// Returns whether it concerns files outside, or the runner's memory, which holds its keys. If one of these is
    /// open, nothing is confined.
    fn is_file_escape(self) -> bool {
        matches!(
            self,
            Self::Write | Self::Append | Self::Read | Self::Link | Self::Trace
        )
    }

    /// Returns its name in a level.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Write => "write_outside",
            Self::Append => "append_outside",
            Self::Read => "read_hidden",
            Self::Link => "link_hidden",
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Trace => "trace_runner",
            Self::Signal => "signal_runner",
            Self::Protected => "write_protected",
            Self::Daemon => "reach_daemons",
            Self::ReadHome => "read_home",
            Self::Metadata => "change_metadata",
        }
    }

    /// Describes for the owner the access that commands have where it succeeds.
    pub fn describe_risk(self) -> &'static str {
        match self {
            Self::Write => "commands can create files outside of the workspaces",
            Self::Append => "commands can change files outside of the workspaces",
            Self::Read => "commands can read hidden files, such as keys",
            Self::Link => "commands can link hidden files, such as keys, into a workspace",
            Self::Tcp => "commands can open TCP connections",
            Self::Udp => "commands can send UDP packets",
            Self::Trace => "commands can read the runner's memory, which holds its keys",
            Self::Signal => "commands can send signals to the runner and to your other processes",
            Self::Protected => {
                "commands can write workspace files that run programs later, such as .git/hooks; you are told afterwards"
            }
            Self::Daemon => {
                "commands can connect to services that act for you, such as Docker, D-Bus and the SSH agent"
            }
            Self::ReadHome => {
                "commands can read the files of your home that are on no list of hidden files"
            }
            Self::Metadata => {
                "commands can change the permissions and times of your files outside of the workspaces"
            }
        }
    }

    /// Returns whether commands need a view of the files of their own, and so user namespaces, to be kept from it.
    pub fn needs_namespaces(self) -> bool {
        matches!(
            self,
            Self::Protected | Self::Daemon | Self::ReadHome | Self::Metadata
        )
    }
}

/// The confinement level that the self-test measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfinementLevel {
    /// Every escape was blocked.
    Full,
    /// These escapes succeeded; others did not.
    Partial(Vec<EscapeAttempt>),
    /// Nothing is confined.
    None,
}

impl ConfinementLevel {
    /// Derives the level from the escapes that succeeded.
    pub fn from_escapes(open: Vec<EscapeAttempt>) -> Self {
        match open.len() {
            0 => Self::Full,
            some if some < EscapeAttempt::ALL.len() => Self::Partial(open),
            _ => Self::None,
        }
    }

    /// Returns whether the protected paths of the workspaces are read-only for commands.
    pub fn protects_paths(&self) -> bool {
        match self {
            Self::Full => true,
            Self::Partial(open) => !open.contains(&EscapeAttempt::Protected),
            Self::None => false,
        }
    }

    /// Returns whether the level satisfies the requirement.
    pub fn meets_requirement(&self, required: RequiredLevel) -> bool {
        match required {
            RequiredLevel::Full => *self == Self::Full,
            RequiredLevel::Partial => match self {
                Self::Full => true,
                Self::Partial(open) => !open.iter().any(|escape| escape.is_file_escape()),
                Self::None => false,
            },
            RequiredLevel::None => true,
        }
    }

    /// Returns the strictest setting that this level satisfies.
    pub fn strictest_requirement(&self) -> RequiredLevel {
        match self {
            Self::Full => RequiredLevel::Full,
            Self::Partial(_) if self.meets_requirement(RequiredLevel::Partial) => {
                RequiredLevel::Partial
            }
            Self::Partial(_) | Self::None => RequiredLevel::None,
        }
    }
}

impl fmt::Display for ConfinementLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("full"),
            Self::None => f.write_str("none"),
            Self::Partial(open) => {
                let names: Vec<&str> = open.iter().map(|escape| escape.as_str()).collect();
                write!(f, "partial:[{}]", names.join(","))
            }
        }
    }
}

/// The least level at which commands run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequiredLevel {
    /// Every escape is blocked.
    Full,
    /// Escapes to files and the runner's memory are blocked; others may succeed.
    Partial,
    /// Any level.
    None,
}

impl RequiredLevel {
    /// Returns the setting's text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Partial => "partial",
            Self::None => "none",
        }
    }
}

/// The network access of commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkAccess {
    /// None.
    None,
    /// Each other only: a loopback of their own, where it can be created without privileges.
    Loopback,
    /// Each other, and through the runner's proxy the hosts that rules or a person allow.
    Ask,
    /// Unrestricted.
    Full,
}

impl NetworkAccess {
    /// Returns the setting's text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Loopback => "loopback",
            Self::Ask => "ask",
            Self::Full => "full",
        }
    }

    /// Returns whether commands need a network namespace of their own, with nothing but a loopback.
    pub fn needs_own_loopback(self) -> bool {
        matches!(self, Self::Loopback | Self::Ask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_names_what_got_through() {
        assert_eq!(
            ConfinementLevel::from_escapes(Vec::new()).to_string(),
            "full"
        );
        assert_eq!(
            ConfinementLevel::from_escapes(vec![EscapeAttempt::Tcp, EscapeAttempt::Signal])
                .to_string(),
            "partial:[tcp,signal_runner]"
        );
        assert_eq!(
            ConfinementLevel::from_escapes(EscapeAttempt::ALL.to_vec()).to_string(),
            "none"
        );
    }

    #[test]
    fn a_level_meets_what_asks_for_no_more() {
        let partial =
            ConfinementLevel::from_escapes(vec![EscapeAttempt::Signal, EscapeAttempt::Protected]);
        assert!(
            !partial.protects_paths()
                && ConfinementLevel::Full.protects_paths()
                && !ConfinementLevel::None.protects_paths()
        );
        assert!(
            !partial.meets_requirement(RequiredLevel::Full)
                && partial.meets_requirement(RequiredLevel::Partial)
        );
        for open in [
            EscapeAttempt::Write,
            EscapeAttempt::Append,
            EscapeAttempt::Read,
            EscapeAttempt::Link,
            EscapeAttempt::Trace,
        ] {
            let without_a_wall = ConfinementLevel::from_escapes(vec![open, EscapeAttempt::Signal]);
            assert!(
                !without_a_wall.meets_requirement(RequiredLevel::Partial),
                "{without_a_wall}"
            );
            assert_eq!(without_a_wall.strictest_requirement(), RequiredLevel::None);
        }
        assert!(
            !ConfinementLevel::None.meets_requirement(RequiredLevel::Partial)
                && ConfinementLevel::None.meets_requirement(RequiredLevel::None)
        );
        assert!(ConfinementLevel::Full.meets_requirement(RequiredLevel::Full));
    }
}
