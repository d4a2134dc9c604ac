//! User signals as the configuration and the environment have them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use super::masked_values::open_redactor;
use crate::config::{Config, ProcessEnvironment, SignalSwitch};
use punie_handlers::user::{
    LiveSignalSettings, SignalDeps, SignalReader, SignalSettings, remove_signal_leftovers,
};
use punie_home::{Home, IdentityMapStore, SignalConsents};
use punie_signals::{Category, SignalPlaces};
use punie_text::redact::Redactor;

/// Returns the switch of a category.
pub fn signal_switch(config: &Config, category: Category) -> SignalSwitch {
    let switch = config.signals.find_switch(category.name());
    switch.unwrap_or(SignalSwitch::Off)
}

/// Returns what the owner has set about user signals.
pub fn signal_settings(
    config: &Config,
    home: &Home,
    environment: &ProcessEnvironment,
) -> SignalSettings {
    let is_on = |category: &Category| signal_switch(config, *category) == SignalSwitch::On;
    SignalSettings {
        switched_on: Category::ALL.into_iter().filter(is_on).collect(),
        places: signal_places(config, home, environment),
    }
}

/// Builds what the tool for user signals needs.
pub fn signal_deps(
    config: &Config,
    home: &Home,
    environment: &ProcessEnvironment,
    redactor: &Redactor,
) -> SignalDeps {
    let settings = signal_settings(config, home, environment);
    remove_signal_leftovers(&settings.places);
    SignalDeps {
        reader: signal_reader(home, redactor),
        consents: SignalConsents::in_home(home),
        settings: LiveSignalSettings::new(settings),
    }
}

/// Returns the reader of user signals for a command.
pub fn open_signal_reader(
    home: &Home,
    environment: &ProcessEnvironment,
) -> anyhow::Result<SignalReader> {
    let redactor = open_redactor(home, environment)?;
    Ok(signal_reader(home, &redactor))
}

fn signal_reader(home: &Home, redactor: &Redactor) -> SignalReader {
    SignalReader {
        people: Arc::new(IdentityMapStore::in_home(home)),
        redactor: redactor.clone(),
    }
}

fn signal_places(config: &Config, home: &Home, environment: &ProcessEnvironment) -> SignalPlaces {
    // Without a folder of the user, as some services start, one in which nothing is found. An empty path would be the
    // current folder.
    let user_home = environment.user_dir().map(PathBuf::from);
    let user_home = user_home.unwrap_or_else(|| home.signals_dir());
    let variable = |name: &str| environment.get(name).map(ToOwned::to_owned);
    let now = SystemTime::now();
    SignalPlaces {
        project_folders: config.signals.project_folders.clone(),
        allows_documents: config.signals.documents,
        ..SignalPlaces::of_user(user_home, variable, home.signals_dir(), now)
    }
}
