//! User signals as the configuration and the environment have them. Not here: reading them (handlers::user).

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use super::masked_values::open_redactor;
use crate::config::{Config, ProcessEnvironment, SignalSwitch};
use crate::handlers::user::{SignalDeps, SignalReader, SwitchedOnCategories};
use crate::home::{Home, IdentityMapStore, SignalConsents};
use crate::redact::Redactor;
use crate::signals::{Category, SignalPlaces, System};

/// Returns the switch of a category.
pub fn signal_switch(config: &Config, category: Category) -> SignalSwitch {
    let switch = config.signals.find_switch(category.name());
    switch.unwrap_or(SignalSwitch::Off)
}

/// Returns the categories that agents can read with the owner's consent.
pub fn switched_on_categories(config: &Config) -> Vec<Category> {
    let is_on = |category: &Category| signal_switch(config, *category) == SignalSwitch::On;
    Category::ALL.into_iter().filter(is_on).collect()
}

/// Builds what the tool for user signals needs.
pub fn signal_deps(
    config: &Config,
    home: &Home,
    environment: &ProcessEnvironment,
    redactor: &Redactor,
) -> SignalDeps {
    let switched_on = SwitchedOnCategories::default();
    switched_on.replace(switched_on_categories(config));
    let reader = signal_reader(config, home, environment, redactor);
    reader.remove_leftovers();
    SignalDeps {
        reader,
        consents: SignalConsents::in_home(home),
        switched_on,
    }
}

/// Returns the reader of user signals for a command.
pub fn open_signal_reader(
    config: &Config,
    home: &Home,
    environment: &ProcessEnvironment,
) -> anyhow::Result<SignalReader> {
    let redactor = open_redactor(home, environment)?;
    Ok(signal_reader(config, home, environment, &redactor))
}

fn signal_reader(
    config: &Config,
    home: &Home,
    environment: &ProcessEnvironment,
    redactor: &Redactor,
) -> SignalReader {
    SignalReader {
        places: signal_places(config, home, environment),
        people: Arc::new(IdentityMapStore::in_home(home)),
        redactor: redactor.clone(),
    }
}

fn signal_places(config: &Config, home: &Home, environment: &ProcessEnvironment) -> SignalPlaces {
    let system = if cfg!(target_os = "macos") {
        System::MacOs
    } else if cfg!(windows) {
        System::Windows
    } else {
        System::Linux
    };
    // The base directory specification passes over relative paths.
    let folder = |name: &str| {
        let path = environment.get(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    // Without a folder of the user, as some services start, one in which nothing is found. An empty path would be the
    // current folder.
    let user_home = environment
        .user_dir()
        .map_or_else(|| home.signals_dir(), PathBuf::from);
    let usual = SignalPlaces::below(system, user_home, home.signals_dir(), SystemTime::now());
    let data_dirs = match environment
        .get("XDG_DATA_DIRS")
        .filter(|dirs| !dirs.is_empty())
    {
        Some(dirs) => dirs,
        None => OsStr::new("/usr/local/share:/usr/share"),
    };
    let data_dirs = std::env::split_paths(data_dirs).filter(|dir| dir.is_absolute());
    let application_folders = match system {
        System::MacOs => vec![PathBuf::from("/Applications")],
        System::Windows => folder("ProgramData")
            .map(|data| data.join("Microsoft/Windows/Start Menu/Programs"))
            .into_iter()
            .collect(),
        System::Linux => Vec::new(),
    };
    SignalPlaces {
        config_home: folder("XDG_CONFIG_HOME").unwrap_or(usual.config_home),
        data_home: folder("XDG_DATA_HOME").unwrap_or(usual.data_home),
        data_dirs: data_dirs.collect(),
        local_app_data: folder("LOCALAPPDATA").or(usual.local_app_data),
        roaming_app_data: folder("APPDATA").or(usual.roaming_app_data),
        history_file: folder("HISTFILE"),
        application_folders,
        process_folder: (system == System::Linux).then(|| PathBuf::from("/proc")),
        project_folders: config.signals.project_folders.clone(),
        allows_documents: config.signals.documents,
        ..usual
    }
}
