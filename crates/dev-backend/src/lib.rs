//! The embedded backend: the contract's functions over SQLite, with Convex's HTTP functions API and sync protocol. It
//! listens on loopback only. It shares no code with the client in `backend`, only the protocol.
//!
//! Read first: [`DevBackend`], the server; [`DevBackendOptions`], what it is started with; [`FaultInjector`], how it
//! misbehaves. The program uses this crate. It uses `punie-core` alone.
//!
//! - `server`: start and stop; `connections`: their limits; `http`: calls; `sync`: sockets, with subscriptions.
//! - `functions`: the table of functions and the handling of calls; `args`: shapes and limits.
//! - `events`, `devices`, `catalog`, `permissions`: the functions; `operator`, `pairing`: those that need the admin
//!   key.
//! - `faults`: injected faults for testing an agent; off by default.
//! - `store`: the database; `snapshots`: reads of its past; `commits`: changes for subscriptions; `wakeups`: calls that
//!   wait for a device's inbox.

mod args;
mod auth;
mod backend_state;
mod catalog;
mod commit_clock;
mod commit_transaction;
mod commits;
mod connections;
mod credentials;
mod device_signature;
mod devices;
mod events;
mod failure;
mod faults;
mod function_traits;
mod functions;
mod housekeeping;
mod http;
mod http_refusal;
mod operator;
mod pairing;
mod permissions;
mod server;
mod snapshots;
mod sql_calls;
mod store;
mod sync;
#[cfg(test)]
mod testing;
mod wakeups;

pub use commit_clock::BackendClock;
pub use connections::MAX_CONNECTIONS;
pub use faults::{BadFault, FaultInjector, InjectedFault};
pub use operator::CallerPermission;
pub use pairing::PairingTerms;
pub use server::{DevBackend, DevBackendError, DevBackendOptions};
pub use store::{StoreError, check_database_version};
