//! The functions of the event store: requests out to a device, results back to the caller.

pub(super) mod append;
pub(super) mod cancel;
pub(super) mod claim;
pub(super) mod head;
pub(super) mod open;
pub(super) mod poll;
pub(super) mod progress;
pub(super) mod request;
pub(super) mod results;
