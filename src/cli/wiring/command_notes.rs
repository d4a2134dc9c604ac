//! What a model is told about commands and applications of this device.

use std::sync::Arc;

use crate::config::{Config, ProcessEnvironment};
use punie_handlers::terminal;
use punie_host::local::confinement::Confinement;
use punie_host::local::desktop_apps::has_display;

/// Returns what keeps applications from being opened, if anything does.
pub(super) fn find_apps_obstacle(
    confinement: &Confinement,
    environment: &ProcessEnvironment,
) -> Option<&'static str> {
    if confinement.check_app_allowed().is_err() {
        return Some("apps = false under [sandbox]");
    }
    let is_set = |name: &str| environment.get(name).is_some();
    (!has_display(is_set)).then_some("there is no display")
}

/// Describes for a model the limits of commands, and the trash for removed files.
pub(super) fn command_rules_text(
    config: &Config,
    confinement: Confinement,
) -> terminal::CommandRules {
    let removed = if config.trash.max_mb > 0 {
        " What rm removes goes to a trash."
    } else {
        ""
    };
    Arc::new(move || format!("{}{removed}", confinement.describe_rules()))
}
