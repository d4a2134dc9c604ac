//! The browsers, and the folders in which each keeps its profiles.

use std::path::PathBuf;

use crate::{SignalPlaces, System};

/// A browser of the Chromium family.
#[derive(Debug)]
pub(super) struct ChromiumBrowser {
    /// Its name in sections.
    pub name: &'static str,
    /// Below the folder of configurations on Linux.
    pub linux: &'static [&'static str],
    /// Below the user's folder on Linux: in Flatpak's and Snap's folders.
    pub linux_boxed: &'static [&'static str],
    /// Below `~/Library/Application Support`.
    pub mac: &'static [&'static str],
    /// Below `LOCALAPPDATA`.
    pub windows_local: &'static [&'static str],
    /// Below `APPDATA`, which follows the user to other computers.
    pub windows_roaming: &'static [&'static str],
}

const NONE: ChromiumBrowser = ChromiumBrowser {
    name: "",
    linux: &[],
    linux_boxed: &[],
    mac: &[],
    windows_local: &[],
    windows_roaming: &[],
};

pub(super) const CHROME: ChromiumBrowser = ChromiumBrowser {
    name: "Chrome",
    linux: &[
        "google-chrome",
        "google-chrome-beta",
        "google-chrome-unstable",
    ],
    linux_boxed: &[".var/app/com.google.Chrome/config/google-chrome"],
    mac: &[
        "Google/Chrome",
        "Google/Chrome Beta",
        "Google/Chrome Canary",
    ],
    windows_local: &[
        "Google/Chrome/User Data",
        "Google/Chrome Beta/User Data",
        "Google/Chrome SxS/User Data",
    ],
    ..NONE
};

pub(super) const CHROMIUM: ChromiumBrowser = ChromiumBrowser {
    name: "Chromium",
    linux: &["chromium"],
    linux_boxed: &[
        ".var/app/org.chromium.Chromium/config/chromium",
        "snap/chromium/common/chromium",
    ],
    mac: &["Chromium"],
    windows_local: &["Chromium/User Data"],
    ..NONE
};

pub(super) const EDGE: ChromiumBrowser = ChromiumBrowser {
    name: "Edge",
    linux: &[
        "microsoft-edge",
        "microsoft-edge-beta",
        "microsoft-edge-dev",
    ],
    linux_boxed: &[".var/app/com.microsoft.Edge/config/microsoft-edge"],
    mac: &[
        "Microsoft Edge",
        "Microsoft Edge Beta",
        "Microsoft Edge Dev",
    ],
    windows_local: &[
        "Microsoft/Edge/User Data",
        "Microsoft/Edge Beta/User Data",
        "Microsoft/Edge Dev/User Data",
    ],
    ..NONE
};

pub(super) const BRAVE: ChromiumBrowser = ChromiumBrowser {
    name: "Brave",
    linux: &[
        "BraveSoftware/Brave-Browser",
        "BraveSoftware/Brave-Browser-Beta",
    ],
    linux_boxed: &[
        ".var/app/com.brave.Browser/config/BraveSoftware/Brave-Browser",
        "snap/brave/current/.config/BraveSoftware/Brave-Browser",
    ],
    mac: &[
        "BraveSoftware/Brave-Browser",
        "BraveSoftware/Brave-Browser-Beta",
    ],
    windows_local: &[
        "BraveSoftware/Brave-Browser/User Data",
        "BraveSoftware/Brave-Browser-Beta/User Data",
    ],
    ..NONE
};

pub(super) const ARC: ChromiumBrowser = ChromiumBrowser {
    name: "Arc",
    mac: &["Arc/User Data"],
    windows_local: &[
        "Packages/TheBrowserCompany.Arc_ttt1ap7aakyb4/LocalCache/Local/Arc/User Data",
        "Arc/User Data",
    ],
    ..NONE
};

/// Opera keeps its profile where others keep the folders of profiles.
pub(super) const OPERA: ChromiumBrowser = ChromiumBrowser {
    name: "Opera",
    linux: &["opera", "opera-beta"],
    linux_boxed: &[
        ".var/app/com.opera.Opera/config/opera",
        "snap/opera/current/.config/opera",
    ],
    mac: &["com.operasoftware.Opera", "com.operasoftware.OperaGX"],
    windows_roaming: &[
        "Opera Software/Opera Stable",
        "Opera Software/Opera GX Stable",
    ],
    ..NONE
};

pub(super) const VIVALDI: ChromiumBrowser = ChromiumBrowser {
    name: "Vivaldi",
    linux: &["vivaldi", "vivaldi-snapshot"],
    linux_boxed: &[
        ".var/app/com.vivaldi.Vivaldi/config/vivaldi",
        "snap/vivaldi/current/.config/vivaldi",
    ],
    mac: &["Vivaldi"],
    windows_local: &["Vivaldi/User Data"],
    ..NONE
};

impl ChromiumBrowser {
    /// Returns the folders that can hold this browser's profiles.
    pub fn roots(&self, places: &SignalPlaces) -> Vec<PathBuf> {
        let home = Some(&places.user_home);
        match places.system {
            System::Linux => {
                let mut roots = join_all(Some(&places.config_home), self.linux);
                roots.extend(join_all(home, self.linux_boxed));
                roots
            }
            System::MacOs => {
                let support = places.user_home.join("Library/Application Support");
                join_all(Some(&support), self.mac)
            }
            System::Windows => {
                let mut roots = join_all(places.local_app_data.as_ref(), self.windows_local);
                roots.extend(join_all(
                    places.roaming_app_data.as_ref(),
                    self.windows_roaming,
                ));
                roots
            }
        }
    }
}

/// Returns the folders that can hold Firefox's `profiles.ini`.
pub(super) fn firefox_roots(places: &SignalPlaces) -> Vec<PathBuf> {
    match places.system {
        System::Linux => {
            // Since version 147, a new profile is below the folder of configurations.
            let mut roots = join_all(Some(&places.config_home), &["mozilla/firefox"]);
            let others = [
                ".mozilla/firefox",
                ".var/app/org.mozilla.firefox/.mozilla/firefox",
                ".var/app/org.mozilla.firefox/config/mozilla/firefox",
                "snap/firefox/common/.mozilla/firefox",
            ];
            roots.extend(join_all(Some(&places.user_home), &others));
            roots
        }
        System::MacOs => join_all(
            Some(&places.user_home),
            &["Library/Application Support/Firefox"],
        ),
        System::Windows => join_all(places.roaming_app_data.as_ref(), &["Mozilla/Firefox"]),
    }
}

fn join_all(base: Option<&PathBuf>, paths: &[&str]) -> Vec<PathBuf> {
    let below = |base: &PathBuf| paths.iter().map(|path| base.join(path)).collect();
    base.map(below).unwrap_or_default()
}
