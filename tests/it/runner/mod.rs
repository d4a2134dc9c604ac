//! The delivery promises, tested with the program as a process, a backend over real sockets, and faults between them.
//! Every request gets exactly one result, and a call with effects runs at most once.

mod after_edit;
mod approvals;
mod asking;
mod backends;
mod caller_rights;
#[cfg(target_os = "linux")]
mod canary;
mod cancelling;
mod catalog;
mod crashes;
mod exits;
mod expiry;
mod fallen;
mod faults;
mod holding;
mod host_questions;
#[cfg(target_os = "linux")]
mod keep_awake;
mod lanes;
mod mounts;
#[cfg(target_os = "linux")]
mod notifications;
mod once;
mod outages;
mod owner_stops;
mod pages;
mod progress;
mod schedule;
mod secrets;
mod shells;
mod sizes;
mod stopping;
mod storms;
mod survivors;
mod tasks;
#[cfg(target_os = "linux")]
mod undoing;
mod waiting;
mod watched;
