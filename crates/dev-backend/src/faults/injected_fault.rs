//! The ways in which a call can fail on purpose.

/// A way in which a call fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InjectedFault {
    /// The connection is closed before the function runs.
    Unheard,
    /// The function runs and commits, and the connection is closed instead of answering.
    Drop,
    /// The function does not run; the answer has this status.
    Status {
        /// The HTTP status.
        status: u16,
        /// The `code` of the body.
        code: String,
        /// The value of the `Retry-After` header.
        retry_after: Option<String>,
    },
    /// The function does not run; the answer redirects to this address.
    Redirect(String),
    /// The function does not run; the answer is a login page with status 200.
    Html,
    /// The function runs; the connection is closed after this many bytes of its answer.
    Cut(usize),
    /// The function runs; its answer is complete HTTP with half of the JSON.
    Half,
    /// The function runs; its answer arrives at this many bytes a second.
    Slow(usize),
    /// The function runs; this many bytes of white space precede its answer.
    Oversize(usize),
    /// The function runs; the `Date` of its answer is off by this many seconds.
    Date(i64),
    /// The events of the page are in reverse order.
    Reorder,
    /// Each event of the page is duplicated.
    Duplicate,
    /// The cursor of the page is the initial one.
    Rewind,
    /// The requests of the page have these arguments instead of their own.
    Args(String),
}

#[derive(Debug)]
pub(super) struct PlannedFault {
    /// `module:function`, a route such as `/version`, or `*` for all.
    pub target: String,
    /// The number of remaining times; unlimited if absent.
    pub remaining: Option<u32>,
    pub fault: InjectedFault,
}
