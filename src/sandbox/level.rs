//! How far commands are confined, in the words that results, heartbeats and settings have for it. Not here: how it is
//! found out (self_test).

use std::fmt;

/// One of the ways out that the self-test tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Escape {
    /// Making a file outside.
    Write,
    /// Adding to a file outside that is there, as a shell's start-up file is.
    Append,
    /// Reading in a folder that is hidden.
    Read,
    /// Giving a hidden file a second name inside.
    Link,
    /// A TCP connection to a listener outside.
    Tcp,
    /// A UDP packet to a socket outside.
    Udp,
    /// Taking hold of the runner's memory, which asks for the same right as tracing it.
    Trace,
    /// Signalling the runner.
    Signal,
    /// Writing what is protected in a workspace.
    Protected,
    /// Coming to where sockets of daemons are.
    Door,
}

impl Escape {
    /// All of them, in the order in which they are tried.
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

    /// Whether it is about files outside, or the runner's memory, which is as good as a file of its keys. With one of
    /// them open nothing is kept in.
    fn is_of_files(self) -> bool {
        matches!(self, Self::Write | Self::Append | Self::Read | Self::Link | Self::Trace)
    }

    /// Its name in a level.
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

/// How far commands are confined, as the self-test has seen it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Level {
    /// Every escape was refused.
    Full,
    /// These got through; others did not.
    Partial(Vec<Escape>),
    /// Nothing is kept in.
    None,
}

impl Level {
    /// From what got through.
    pub fn of(open: Vec<Escape>) -> Self {
        match open.len() {
            0 => Self::Full,
            some if some < Escape::ALL.len() => Self::Partial(open),
            _ => Self::None,
        }
    }

    /// Whether commands find the protected paths of the workspaces read-only.
    pub fn keeps_protected(&self) -> bool {
        match self {
            Self::Full => true,
            Self::Partial(open) => !open.contains(&Escape::Protected),
            Self::None => false,
        }
    }

    /// Whether commands have a view of the files of their own, in which either can be kept from them.
    pub fn has_views(&self) -> bool {
        self.keeps_protected() || matches!(self, Self::Partial(open) if !open.contains(&Escape::Door))
    }

    /// Whether it is at least what is required.
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

    /// The setting that this level would satisfy.
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
    /// Every escape refused.
    Full,
    /// Those of files and of the runner's memory; others may get through.
    Partial,
    /// Whatever there is.
    None,
}

impl Require {
    /// As the setting has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Partial => "partial",
            Self::None => "none",
        }
    }
}

/// What commands may reach by network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// Nothing.
    None,
    /// Each other: a loopback of their own, where it can be made without privilege.
    Loopback,
    /// Everything.
    Full,
}

impl Network {
    /// As the setting has it.
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
