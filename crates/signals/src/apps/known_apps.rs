//! Programs that keep a folder of their own: it changes when they are used.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::SystemTime;

use crate::file_access::modified_time;
use crate::{SignalPlaces, System};

/// A program: its name, the names under which it can be installed, and those that its folder can have.
struct KnownApp {
    name: &'static str,
    installed_as: &'static [&'static str],
    folders: &'static [&'static str],
}

const fn app(
    name: &'static str,
    installed_as: &'static [&'static str],
    folders: &'static [&'static str],
) -> KnownApp {
    KnownApp {
        name,
        installed_as,
        folders,
    }
}

const KNOWN_APPS: [KnownApp; 14] = [
    app("Slack", &["slack"], &["Slack"]),
    app("Discord", &["discord"], &["discord"]),
    app(
        "Microsoft Teams",
        &["microsoft teams", "microsoft teams classic", "teams"],
        &["Microsoft/Teams", "teams-for-linux"],
    ),
    app(
        "Zoom",
        &["zoom", "zoom.us", "zoom workplace"],
        &["zoom.us", "Zoom", "zoom"],
    ),
    app(
        "Telegram",
        &["telegram", "telegram desktop"],
        &["Telegram Desktop", "TelegramDesktop"],
    ),
    app(
        "Visual Studio Code",
        &["visual studio code", "code - oss", "vscodium"],
        &["Code", "VSCodium", "Code - OSS"],
    ),
    app("Cursor", &["cursor"], &["Cursor"]),
    app(
        "Docker Desktop",
        &["docker", "docker desktop"],
        &["Docker Desktop", "Docker"],
    ),
    app("Postman", &["postman"], &["Postman"]),
    app("Spotify", &["spotify"], &["Spotify", "spotify"]),
    app("Arc", &["arc"], &["Arc"]),
    app("Notion", &["notion"], &["Notion"]),
    app("Figma", &["figma"], &["Figma"]),
    app("Obsidian", &["obsidian"], &["obsidian"]),
];

/// Returns the installed programs whose folder changed since a moment.
pub(super) fn find_recent_apps(
    places: &SignalPlaces,
    installed: &BTreeSet<String>,
    since: SystemTime,
) -> Vec<&'static str> {
    let bases: Vec<PathBuf> = match places.system {
        System::Linux => vec![places.config_home.clone()],
        System::MacOs => vec![places.user_home.join("Library/Application Support")],
        System::Windows => {
            let folders = [&places.roaming_app_data, &places.local_app_data];
            folders.into_iter().flatten().cloned().collect()
        }
    };
    let is_recent = |folder: &&'static str| {
        let times = bases
            .iter()
            .filter_map(|base| modified_time(&base.join(folder)));
        times.max().is_some_and(|time| time >= since)
    };
    let apps = KNOWN_APPS.iter().filter(|app| {
        let is_installed = installed
            .iter()
            .any(|name| app.installed_as.contains(&name.to_lowercase().as_str()));
        is_installed && app.folders.iter().any(is_recent)
    });
    apps.map(|app| app.name).collect()
}
