//! The folders and files of one bridge.

use std::path::{Path, PathBuf};

use super::bridge_record::check_bridge_name;
use super::{BridgeError, HomeError};
use crate::Home;
use crate::file_modes::{FolderAccess, ensure_dir};

/// The folders of one bridge, none of which is a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BridgeFolders {
    root: PathBuf,
    log: PathBuf,
}

impl BridgeFolders {
    /// Returns the folders of the bridge of this name.
    ///
    /// # Errors
    /// [`BridgeError`] for what is no name, and when one of them is a link.
    pub fn in_home(home: &Home, name: &str) -> Result<Self, BridgeError> {
        check_bridge_name(name).map_err(BridgeError::Unusable)?;
        let folders = Self {
            root: home.bridges_dir().join(name),
            log: home.logs_dir().join(format!("bridge-{name}.log")),
        };
        let all = [
            home.bridges_dir(),
            folders.root.clone(),
            folders.code_dir(),
            folders.data_dir(),
            folders.home_dir(),
        ];
        for folder in all {
            check_no_link(&folder)?;
        }
        Ok(folders)
    }

    /// Creates the folders that a bridge writes and sees as the user's home.
    ///
    /// # Errors
    /// [`HomeError`] when they cannot be created.
    pub fn create_own(&self) -> Result<(), HomeError> {
        for folder in [self.root.clone(), self.data_dir(), self.home_dir()] {
            ensure_dir(&folder, FolderAccess::OwnerOnly)?;
        }
        Ok(())
    }

    pub(super) fn root_dir(&self) -> &Path {
        &self.root
    }

    /// Returns the folder of its code, with its dependencies.
    pub fn code_dir(&self) -> PathBuf {
        self.root.join("code")
    }

    /// Returns the folder that it writes, and that stays when it is deployed again.
    pub fn data_dir(&self) -> PathBuf {
        self.root.join("data")
    }

    /// Returns the folder that it sees as the user's home.
    pub fn home_dir(&self) -> PathBuf {
        self.root.join("home")
    }

    /// Returns the file of its log.
    pub fn log_file(&self) -> &Path {
        &self.log
    }

    /// Returns the file of its log before the current one.
    pub fn earlier_log_file(&self) -> PathBuf {
        self.log.with_extension("log.1")
    }
}

fn check_no_link(folder: &Path) -> Result<(), BridgeError> {
    match folder.symlink_metadata() {
        Ok(meta) if !meta.is_dir() => Err(BridgeError::Home(HomeError::WrongKind {
            path: folder.to_owned(),
            wanted: "a folder",
        })),
        _ => Ok(()),
    }
}
