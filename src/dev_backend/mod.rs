//! The embedded backend: the contract's functions over SQLite, spoken as Convex's HTTP functions API and its sync
//! protocol. It listens on loopback only. It shares no code with the client in `backend`, only the wire.
//!
//! - `server`: start and stop; `http`: calls; `sync`: sockets, with subscriptions.
//! - `functions`: the table of functions and how a call becomes a reply; `args`: shapes and bounds.
//! - `events`, `devices`, `catalog`, `permissions`: the functions; `operator`: those behind the admin key.
//! - `faults`: misbehaving on purpose, for whoever tests an agent; not there unless asked for.
//! - `store`: the database; `snapshots`: what is read of its past; `clock`: its time; `commits`: what changed; `wakeups`: who waits for a device's inbox.

mod args;
mod auth;
mod catalog;
mod clock;
mod commits;
mod devices;
mod events;
mod failure;
mod faults;
mod functions;
mod housekeeping;
mod http;
mod operator;
mod permissions;
mod secrets;
mod server;
mod signature;
mod snapshots;
mod store;
mod sync;
#[cfg(test)]
mod testing;
mod wakeups;

pub use clock::Clock;
pub use faults::{BadFault, Fault, Faults};
pub use server::{DevBackend, DevBackendError, DevBackendOptions};
pub use store::StoreError;
