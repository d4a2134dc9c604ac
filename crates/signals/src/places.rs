//! The folders in which sources look.

use std::env::{self, consts};
use std::ffi::OsString;
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

impl System {
    /// Returns the system of this program.
    pub fn current() -> Self {
        match consts::OS {
            "windows" => Self::Windows,
            "macos" => Self::MacOs,
            _ => Self::Linux,
        }
    }
}

/// The owner's folders, what the owner allows beyond the categories, and the moment of the collection.
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
    /// Folders of commands, as in `PATH`; none where a command need not be a file.
    pub command_folders: Vec<PathBuf>,
    /// Folders with programs of all users: `/Applications` of macOS, the common start menu of Windows.
    pub application_folders: Vec<PathBuf>,
    /// `/proc` of Linux, for the programs that run.
    pub process_folder: Option<PathBuf>,
    /// Folders in which the owner's configuration says to look for projects, besides the usual ones.
    pub project_folders: Vec<PathBuf>,
    /// Whether the owner allows the names of the folders in Documents to be read. macOS asks the user about that folder.
    pub allows_documents: bool,
    /// An existing folder for private copies, which nobody else reads.
    pub scratch: PathBuf,
    /// The moment of the collection.
    pub now: SystemTime,
}

impl SignalPlaces {
    /// The usual places of a user where no variable says otherwise.
    pub fn below(system: System, user_home: PathBuf, scratch: PathBuf, now: SystemTime) -> Self {
        let app_data =
            |name| (system == System::Windows).then(|| user_home.join("AppData").join(name));
        Self {
            system,
            config_home: user_home.join(".config"),
            data_home: user_home.join(".local/share"),
            data_dirs: Vec::new(),
            local_app_data: app_data("Local"),
            roaming_app_data: app_data("Roaming"),
            history_file: None,
            command_folders: Vec::new(),
            application_folders: Vec::new(),
            process_folder: None,
            project_folders: Vec::new(),
            allows_documents: false,
            user_home,
            scratch,
            now,
        }
    }
    /// The places of this system's user, with what these variables of the environment say. Relative paths are passed over,
    /// as the XDG base directory specification wants it.
    pub fn of_user(
        user_home: PathBuf,
        variable: impl Fn(&str) -> Option<OsString>,
        scratch: PathBuf,
        now: SystemTime,
    ) -> Self {
        let folder = |name: &str| {
            let path = variable(name).map(PathBuf::from);
            path.filter(|path| path.is_absolute())
        };
        let system = System::current();
        let usual = Self::below(system, user_home, scratch, now);
        let mut places = Self {
            history_file: folder("HISTFILE"),
            ..usual
        };
        if system != System::Windows {
            let path = variable("PATH").unwrap_or_default();
            let own = ["bin", ".local/bin", ".cargo/bin", "go/bin"];
            let own = own.map(|folder| places.user_home.join(folder));
            let folders = env::split_paths(&path).filter(|folder| folder.is_absolute());
            places.command_folders = folders.chain(own).collect();
        }
        match system {
            System::Linux => {
                places.config_home = folder("XDG_CONFIG_HOME").unwrap_or(places.config_home);
                places.data_home = folder("XDG_DATA_HOME").unwrap_or(places.data_home);
                let dirs = variable("XDG_DATA_DIRS").filter(|dirs| !dirs.is_empty());
                let dirs = dirs.unwrap_or_else(|| "/usr/local/share:/usr/share".into());
                let dirs = env::split_paths(&dirs).filter(|dir| dir.is_absolute());
                places.data_dirs = dirs.collect();
                places.process_folder = Some("/proc".into());
            }
            System::MacOs => places.application_folders = vec!["/Applications".into()],
            System::Windows => {
                places.local_app_data = folder("LOCALAPPDATA").or(places.local_app_data);
                places.roaming_app_data = folder("APPDATA").or(places.roaming_app_data);
                let menu = |data: PathBuf| data.join("Microsoft/Windows/Start Menu/Programs");
                places.application_folders = folder("ProgramData").map(menu).into_iter().collect();
            }
        }
        places
    }
}
