//! The confinement level, as results, heartbeats and settings name it. Not here: measuring it (self_test).

use std::fmt;

/// An escape that the self-test tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Escape {
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
    Door,
}

impl Escape {
    /// All escapes, in the order in which they are tried.
    pub const ALL: [Self; 10] = [
        Self::Write,
        Self::Append,
        Self::Read,
        Self::Link,
        Self::Tcp,
        Self::Udp,
        Self::Trace,
        Self::Signal,
        Self::Protected,
        Self::Door,
    ];

    /// Returns whether it concerns files outside, or the runner's memory, which holds its keys. If one of these is
    /// open, nothing is confined.
    fn is_of_files(self) -> bool {
        matches!(self, Self::Write | Self::Append | Self::Read | Self::Link | Self::Trace)
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
            Self::Door => "reach_daemons",
        }
    }
}

/// The confinement level that the self-test measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Level {
    /// Every escape was blocked.
    Full,
    /// These escapes succeeded; others did not.
    Partial(Vec<Escape>),
    /// Nothing is confined.
    None,
}

impl Level {
    /// Derives the level from the escapes that succeeded.
    pub fn of(open: Vec<Escape>) -> Self {
        match open.len() {
            0 => Self::Full,
            some if some < Escape::ALL.len() => Self::Partial(open),
            _ => Self::None,
        }
    }

    /// Returns whether the protected paths of the workspaces are read-only for commands.
    pub fn keeps_protected(&self) -> bool {
        match self {
            Self::Full => true,
            Self::Partial(open) => !open.contains(&Escape::Protected),
            Self::None => false,
        }
    }

    /// Returns whether commands have their own mount namespace, which protects paths or blocks sockets.
    pub fn has_views(&self) -> bool {
        self.keeps_protected() || matches!(self, Self::Partial(open) if !open.contains(&Escape::Door))
    }

    /// Returns whether the level satisfies the requirement.
    pub fn meets(&self, required: Require) -> bool {
        match required {
            Require::Full => *self == Self::Full,
            Require::Partial => match self {
                Self::Full => true,
                Self::Partial(open) => !open.iter().any(|escape| escape.is_of_files()),
                Self::None => false,
            },
            Require::None => true,
        }
    }

    /// Returns the strictest setting that this level satisfies.
    pub fn as_required(&self) -> Require {
        match self {
            Self::Full => Require::Full,
            Self::Partial(_) if self.meets(Require::Partial) => Require::Partial,
            Self::Partial(_) | Self::None => Require::None,
        }
    }
}

impl fmt::Display for Level {
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
pub enum Require {
    /// Every escape is blocked.
    Full,
    /// Escapes to files and the runner's memory are blocked; others may succeed.
    Partial,
    /// Any level.
    None,
}

impl Require {
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
pub enum Network {
    /// None.
    None,
    /// Each other only: a loopback of their own, where it can be created without privileges.
    Loopback,
    /// Unrestricted.
    Full,
}

impl Network {
    /// Returns the setting's text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Loopback => "loopback",
            Self::Full => "full",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_names_what_got_through() {
        assert_eq!(Level::of(Vec::new()).to_string(), "full");
        assert_eq!(Level::of(vec![Escape::Tcp, Escape::Signal]).to_string(), "partial:[tcp,signal_runner]");
        assert_eq!(Level::of(Escape::ALL.to_vec()).to_string(), "none");
    }

    #[test]
    fn a_level_meets_what_asks_for_no_more() {
        let partial = Level::of(vec![Escape::Signal, Escape::Protected]);
        assert!(
            !partial.keeps_protected() && Level::Full.keeps_protected() && !Level::None.keeps_protected()
        );
        assert!(!partial.meets(Require::Full) && partial.meets(Require::Partial));
        for open in [Escape::Write, Escape::Append, Escape::Read, Escape::Link, Escape::Trace] {
            let without_a_wall = Level::of(vec![open, Escape::Signal]);
            assert!(!without_a_wall.meets(Require::Partial), "{without_a_wall}");
            assert_eq!(without_a_wall.as_required(), Require::None);
        }
        assert!(!Level::None.meets(Require::Partial) && Level::None.meets(Require::None));
        assert!(Level::Full.meets(Require::Full));
    }
}
