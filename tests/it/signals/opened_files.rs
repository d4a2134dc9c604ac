//! The files that signals open, as the kernel reports them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};

use notify::event::AccessKind;
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

use super::{make_chrome_history, start_signals, write_below};
use crate::harness::stage::RunnerFixture;

/// The files of each category on Linux, where messages and notes have none.
const FILES: [(&str, &[&str]); 3] = cases! {
    (
        "browsing_bookmarks",
        &[
            ".config/google-chrome/Default/History",
            ".config/google-chrome/Default/Bookmarks",
            ".mozilla/firefox/profiles.ini",
            ".mozilla/firefox/a.default/places.sqlite",
        ],
    ),
    ("dev_environment", &[".bash_history", ".zsh_history", ".gitconfig"]),
    (
        "apps_system",
        &[
            ".local/share/applications/editor.desktop",
            ".local/share/recently-used.xbel",
        ],
    ),
};

/// Records which paths are opened below a folder.
struct OpenLog {
    _watcher: RecommendedWatcher,
    events: Receiver<Event>,
    folder: PathBuf,
}

impl OpenLog {
    fn watch(folder: &Path) -> Self {
        let (sender, events) = channel();
        let send = move |event: notify::Result<Event>| {
            let _ = sender.send(event.expect("an event"));
        };
        let mut watcher = notify::recommended_watcher(send).expect("a watcher");
        watcher
            .watch(folder, RecursiveMode::Recursive)
            .expect("watched");
        let log = Self {
            _watcher: watcher,
            events,
            folder: folder.to_owned(),
        };
        // Setting up the watches opens folders too: discard those events.
        log.list_opened();
        log
    }

    /// Returns the paths that were opened since the last call.
    fn list_opened(&self) -> BTreeSet<PathBuf> {
        let end = self.folder.join("end-of-log");
        std::fs::write(&end, "").expect("written");
        std::fs::remove_file(&end).expect("removed");
        let mut opened = BTreeSet::new();
        loop {
            let event = self.events.recv().expect("the watcher runs");
            if matches!(event.kind, EventKind::Remove(_)) && event.paths.contains(&end) {
                return opened;
            }
            if matches!(event.kind, EventKind::Access(AccessKind::Open(_))) {
                opened.extend(event.paths.into_iter().filter(|path| *path != end));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_a_category_that_is_off_is_opened() {
    let user = tempfile::tempdir().expect("a folder");
    for path in FILES.iter().flat_map(|(_, files)| *files) {
        write_below(
            user.path(),
            path,
            "[Profile0]\nIsRelative=1\nPath=a.default\n",
        );
    }
    std::fs::remove_file(user.path().join(FILES[0].1[0])).expect("removed");
    make_chrome_history(user.path(), "The book", 30);
    std::fs::create_dir(user.path().join("Downloads")).expect("a folder");
    let log = OpenLog::watch(user.path());
    for (on, _) in FILES {
        let switches = FILES.map(|(category, _)| {
            let switch = if category == on { "preview" } else { "off" };
            format!("{category} = \"{switch}\"\n")
        });
        let setup =
            RunnerFixture::with_unpaired_device(&format!("[signals]\n{}", switches.concat())).await;
        log.list_opened();
        let ended = start_signals(&setup, user.path(), &["preview"]).end().await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let opened = log.list_opened();
        for (category, files) in FILES {
            for file in files {
                let is_opened = opened.contains(&user.path().join(file));
                assert_eq!(is_opened, category == on, "{on}: {file} in {opened:?}");
            }
        }
        let downloads = opened.contains(&user.path().join("Downloads"));
        assert_eq!(downloads, on == "apps_system", "{on}: {opened:?}");
    }
}
