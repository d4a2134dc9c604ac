//! The reasons for which the proxy makes no connection, in words for a model and a person.

use std::net::IpAddr;

use super::address_check::GuardedAddress;
use punie_policy::HostName;

/// The reason why a connection was not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectionFailure {
    /// The owner's rules, or the lack of an answer, forbid it. The text says what to do.
    Refused(String),
    /// The host could not be reached.
    Unreachable(String),
}

impl ConnectionFailure {
    /// Returns the reason.
    pub fn text(&self) -> &str {
        match self {
            Self::Refused(text) | Self::Unreachable(text) => text,
        }
    }

    /// The owner's rules deny it.
    pub(super) fn by_rule(target: &str, cause: &str) -> Self {
        Self::Refused(format!("{target} was refused: {cause}. Do without it."))
    }

    /// It is not among the hosts that were declared.
    pub(super) fn undeclared(target: &str) -> Self {
        Self::Refused(format!(
            "{target} was refused: it is not among the hosts that this program was given."
        ))
    }

    /// No person can be asked.
    /// `pattern`: the host of a rule that would allow it; none where a rule of the owner's asks.
    pub(super) fn nobody_to_ask(target: &str, cause: &str, pattern: Option<&str>) -> Self {
        let rule = pattern.map_or_else(String::new, |pattern| {
            format!("can allow it by `punie-runner policy allow --host {pattern}`, or ")
        });
        Self::Refused(format!(
            "{target} was refused: {cause}, and nobody can be asked now. The owner {rule}can answer in `punie-runner \
             approvals --watch`. Do without it, or try again then."
        ))
    }

    /// Too many questions of the call wait already.
    pub(super) fn too_many(target: &str) -> Self {
        Self::Refused(format!(
            "{target} was refused: the owner is being asked about too many other hosts of this call. Reach fewer at a time."
        ))
    }

    /// The conversation has its share of the proxy's connections.
    pub(super) fn beyond_share(target: &str, open: usize) -> Self {
        Self::Refused(if open == 0 {
            format!(
                "{target} was refused: other conversations use all connections of the proxy. Try again later."
            )
        } else {
            format!(
                "{target} was refused: this conversation has {open} connections open, and no more than that are left for \
                 all others. End programs that keep connections, or open fewer at a time."
            )
        })
    }

    /// The person said no.
    pub(super) fn by_person(target: &str) -> Self {
        Self::Refused(format!(
            "{target} was refused by the person at this device. Do without it, or say why it is needed and run the \
             command again."
        ))
    }

    /// Nobody answered in time.
    pub(super) fn unanswered(target: &str, seconds: u64) -> Self {
        Self::Refused(format!(
            "{target} was refused: the owner was asked, and nobody answered within {seconds} s. Run the command again \
             when somebody is there."
        ))
    }

    /// It leads to an address that needs a rule of its own.
    pub(super) fn guarded(
        target: &str,
        host: &HostName,
        address: IpAddr,
        kind: GuardedAddress,
    ) -> Self {
        let leads = match host {
            HostName::Address(_) => format!("it is {kind}"),
            HostName::Name(_) => format!("it leads to {address}, {kind}"),
        };
        Self::Refused(format!(
            "{target} was refused: {leads}, which commands reach only by a rule that names the address. The owner can \
             allow it: `punie-runner policy allow --host {}`.",
            HostName::Address(address)
        ))
    }
}
