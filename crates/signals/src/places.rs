//! The folders in which sources look.

use std::path::PathBuf;
use std::time::SystemTime;

/// An operating system, for the layout of its folders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum System {
    /// Linux and the like.
    Linux,
    /// macOS.
    MacOs,
    /// Windows.
    Windows,
}

/// The owner's folders, and the moment of the collection.
#[derive(Debug, Clone)]
pub struct SignalPlaces {
    /// The system whose layout is looked for.
    pub system: System,
    /// The user's folder.
    pub user_home: PathBuf,
    /// `XDG_CONFIG_HOME`, or `.config` below the user's folder.
    pub config_home: PathBuf,
    /// `XDG_DATA_HOME`, or `.local/share` below the user's folder.
    pub data_home: PathBuf,
    /// The folders of `XDG_DATA_DIRS`.
    pub data_dirs: Vec<PathBuf>,
    /// `LOCALAPPDATA` of Windows.
    pub local_app_data: Option<PathBuf>,
    /// `APPDATA` of Windows.
    pub roaming_app_data: Option<PathBuf>,
    /// `HISTFILE`, if it is set.
    pub history_file: Option<PathBuf>,
    /// An existing folder for private copies, which nobody else reads.
    pub scratch: PathBuf,
    /// The moment of the collection.
    pub now: SystemTime,
}
