//! Bridges in `bridges/<name>/`: small programs that the owner deploys, and that the runner keeps running. Here: what
//! is known of them, and changing them so that a crash leaves the old or the new one.

mod bridge_bundle;
mod bridge_change;
mod bridge_folders;
mod bridge_record;
mod bridge_store;
mod package_lock;

pub use bridge_change::StagedBridge;
pub use bridge_folders::BridgeFolders;
pub use bridge_record::{
    BridgeRecord, BridgeRun, BridgesState, WantedState, check_bridge_name, check_pin,
    check_variable_name,
};
pub use bridge_store::{BridgeLock, BridgeStore};

use super::error::HomeError;

/// The reason why a bridge cannot be deployed or changed.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    /// The bundle or an argument cannot be used; a sentence without its end.
    #[error("{0}")]
    Unusable(String),
    /// The home's files cannot be used.
    #[error(transparent)]
    Home(#[from] HomeError),
}
