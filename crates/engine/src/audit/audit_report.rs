//! The result of a verification of the audit.

use serde::Serialize;

use super::row::ChainLink;

/// The result of a verification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditReport {
    /// No fault was found.
    pub sound: bool,
    /// The number of rows.
    pub rows: u64,
    /// The number of the first row.
    pub first_seq: Option<u64>,
    /// The chain's last link.
    pub last: ChainLink,
    /// The bytes after the last row that belong to no row: a crash leaves them, and the next row cuts them off.
    pub torn_bytes: u64,
    /// The head that is stored beside the rows.
    pub head: Option<ChainLink>,
    /// The head's signature.
    pub head_signed: HeadSignature,
    /// The first fault, from the beginning.
    pub fault: Option<AuditFault>,
}

/// The state of the stored head's signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HeadSignature {
    /// There is no head.
    NoHead,
    /// By this device's key.
    ByThisDevice,
    /// Not signed, or signed with another key.
    No,
    /// The key to check it with is unknown.
    Unchecked,
}

/// A fault and its position.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditFault {
    /// The kind of fault.
    pub flaw: AuditFlaw,
    /// The row's number.
    pub seq: Option<u64>,
    /// The line of the file, from 1.
    pub line: u64,
    /// A sentence for people.
    pub text: String,
}

/// The ways in which a row or the head can be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditFlaw {
    /// The row was changed after it was written.
    Edited,
    /// The row should be there.
    Missing,
    /// The row is in another position than it was written to.
    OutOfOrder,
    /// The row was inserted later.
    Inserted,
    /// The line is not a row.
    Unreadable,
    /// The head was not signed by this device.
    ForgedHead,
    /// There is no head though a runner wrote rows, or there was none when one started.
    MissingHead,
    /// The checkpoint in place of removed rows was not signed by this device.
    ForgedCheckpoint,
}
