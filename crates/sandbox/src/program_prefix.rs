//! The parts of the home that one program there needs: the folders of its installation with programs and libraries.

use std::path::{Path, PathBuf};

/// The most links that lead from a name to its program.
const MAX_LINKS: usize = 16;

/// The folders of version managers: what stands for a program there finds the right version beside it.
const VERSION_MANAGERS: &[&str] = &[".volta", ".asdf", ".nodenv", ".local/share/mise"];

/// Returns the paths in the home that a program needs, among them the links that lead to it. None for a program of the
/// system's, or for one that is not there.
pub fn find_program_prefix(program: &str, search_path: &[PathBuf], home: &Path) -> Vec<PathBuf> {
    let mut named = search_path.iter().map(|folder| folder.join(program));
    let Some(mut file) = named.find(|file| file.is_file()) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for _ in 0..MAX_LINKS {
        found.push(file.clone());
        let Some(folder) = file.parent().and_then(|folder| folder.canonicalize().ok()) else {
            break;
        };
        let mut managers = VERSION_MANAGERS.iter();
        if let Some(manager) = managers.find(|name| folder.starts_with(home.join(name))) {
            found.extend(manager_parts(home, manager));
        }
        let real = folder.join(file.file_name().unwrap_or_default());
        let Ok(target) = real.read_link() else {
            found.extend(installation_folders(&real, home));
            break;
        };
        // Its folder is resolved, since it may lead through `..`.
        let target = folder.join(target);
        let around = target
            .parent()
            .and_then(|folder| folder.canonicalize().ok());
        let (Some(around), Some(name)) = (around, target.file_name()) else {
            break;
        };
        file = around.join(name);
    }
    // A link outside may lead there, as those that fnm makes for each shell.
    let leads_home = |path: &PathBuf| path.canonicalize().is_ok_and(|real| real.starts_with(home));
    found.retain(|path| path != home && (path.starts_with(home) || leads_home(path)));
    found.sort();
    found.dedup();
    found
}

/// Returns what commands see of a version manager.
#[cfg(target_os = "linux")]
fn manager_parts(home: &Path, manager: &str) -> impl IntoIterator<Item = PathBuf> {
    super::shown_parts::ShownParts::of_toolchain(home, manager)
}

#[cfg(not(target_os = "linux"))]
fn manager_parts(home: &Path, manager: &str) -> impl IntoIterator<Item = PathBuf> {
    [home.join(manager)]
}

/// Returns the folders of an installation around one of its programs: `bin` and `lib`, or the whole of a package of npm.
fn installation_folders(file: &Path, home: &Path) -> Vec<PathBuf> {
    let mut above = file.ancestors().skip(1);
    let package = file.ancestors().find(|path| {
        path.parent()
            .is_some_and(|folder| folder.ends_with("node_modules"))
    });
    let folder = above.next();
    let prefix = above.next();
    match (package, folder, prefix) {
        (Some(package), ..) => vec![package.to_owned()],
        (None, Some(folder), Some(prefix)) if folder.ends_with("bin") && prefix != home => {
            vec![folder.to_owned(), prefix.join("lib")]
        }
        _ => Vec::new(),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    struct Layout {
        home: tempfile::TempDir,
    }

    impl Layout {
        fn new() -> Self {
            Self {
                home: tempfile::tempdir().expect("a folder"),
            }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.home.path().canonicalize().expect("real").join(name)
        }

        fn write(&self, name: &str) -> PathBuf {
            let path = self.path(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(&path, "x").expect("written");
            path
        }

        fn link(&self, name: &str, target: &str) {
            let path = self.path(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            symlink(target, path).expect("linked");
        }

        fn found(&self, program: &str, folder: &str) -> Vec<String> {
            let home = self.path("");
            let found = find_program_prefix(program, &[self.path(folder)], &home);
            let below = |path: &PathBuf| path.strip_prefix(&home).expect("in it").to_owned();
            found
                .iter()
                .map(|path| below(path).display().to_string())
                .collect()
        }
    }

    #[test]
    fn of_an_installation_only_programs_and_libraries_are_needed() {
        let layout = Layout::new();
        layout.write(".nvm/versions/node/v22/bin/node");
        layout.write(".nvm/versions/node/v22/etc/npmrc");
        layout.write(".nvm/versions/node/v22/lib/node_modules/npm/bin/npm-cli.js");
        layout.link(
            ".nvm/versions/node/v22/bin/npm",
            "../lib/node_modules/npm/bin/npm-cli.js",
        );
        layout.link(".local/bin/node", "../../.nvm/versions/node/v22/bin/node");
        let bin = ".nvm/versions/node/v22/bin";
        let of_node = [
            ".nvm/versions/node/v22/bin",
            ".nvm/versions/node/v22/bin/node",
            ".nvm/versions/node/v22/lib",
        ];
        assert_eq!(layout.found("node", bin), of_node);
        assert_eq!(
            layout.found("npm", bin),
            [
                ".nvm/versions/node/v22/bin/npm",
                ".nvm/versions/node/v22/lib/node_modules/npm",
                ".nvm/versions/node/v22/lib/node_modules/npm/bin/npm-cli.js",
            ]
        );
        // The link alone, and not the other programs beside it.
        let linked = layout.found("node", ".local/bin");
        assert!(
            linked.contains(&".local/bin/node".to_owned())
                && !linked.contains(&".local/bin".to_owned()),
            "{linked:?}"
        );
        assert_eq!(layout.found("none", bin), [""; 0]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_stands_for_a_version_needs_the_versions_of_its_manager() {
        let layout = Layout::new();
        layout.write(".volta/bin/volta-shim");
        layout.write(".volta/tools/image/node/22/bin/node");
        layout.write(".volta/token");
        layout.link(".volta/bin/node", "volta-shim");
        assert_eq!(
            layout.found("node", ".volta/bin"),
            [
                ".volta/bin",
                ".volta/bin/node",
                ".volta/bin/volta-shim",
                ".volta/lib",
                ".volta/tools/image/node/22/bin",
            ]
        );
        layout.write("bin/node");
        assert_eq!(
            layout.found("node", "bin"),
            ["bin/node"],
            "not the whole home"
        );
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_service_with_its_own_folders_sees_of_the_home_what_its_program_needs() {
        use crate::sandbox_rules::SandboxRules;
        use crate::view_contents::ViewContents;
        let layout = Layout::new();
        let home = layout.path("user");
        for file in [
            "user/.nvm/versions/node/v22/bin/node",
            "user/.nvm/versions/node/v22/lib/libnode.so",
            "user/.nvm/versions/node/v22/etc/npmrc",
            "user/.rustup/settings.toml",
            "user/.local/bin/tool",
            "user/bin/tool",
            "user/work/notes",
            "user/.gitconfig",
            "code/bridge.js",
            "data/note",
            "temp/tmp/x",
            "home/x",
        ] {
            layout.write(file);
        }
        let bin = home.join(".nvm/versions/node/v22/bin");
        let reads = find_program_prefix("node", &[home.join("bin"), bin], &home);
        let rules = SandboxRules {
            user_home: Some(home.clone()),
            search_path: vec![home.join("bin"), home.join(".local/bin")],
            workspaces: vec![home.join("work")],
            ..SandboxRules::minimal(layout.path("punie"), layout.path("temp"))
        };
        let reads = reads.into_iter().chain([layout.path("code")]).collect();
        let rules = rules.with_own_folders(reads, layout.path("data"), layout.path("home"));
        let contents = ViewContents::collect(&rules, &rules.temp, None, &layout.path("view"));
        let entries = contents.expect("collected").entries;
        let seen: Vec<_> = entries
            .iter()
            .filter_map(|entry| entry.path.strip_prefix(&home).ok())
            .collect();
        let prefix = Path::new(".nvm/versions/node/v22");
        assert_eq!(seen, [prefix.join("bin"), prefix.join("lib")]);
    }

    #[test]
    fn a_program_of_the_system_needs_nothing_of_the_home() {
        let layout = Layout::new();
        let search = [PathBuf::from("/bin"), PathBuf::from("/usr/bin")];
        assert!(find_program_prefix("sh", &search, &layout.path("")).is_empty());
    }
}
