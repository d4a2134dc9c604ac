//! The tools with which the owner works: git's settings, dotfiles, runtimes, package managers. Only names are reported: no
//! content of a file, and not the owner's name and address.

use std::path::{Path, PathBuf};

use super::git_config::parse_git_config;
use crate::file_access::{exists, is_absent, list_folder, read_bounded};
use crate::plain_text::clean_title;
use crate::report_text::show_path;
use crate::{Budget, Person, Section, SignalPlaces, SourceReport, System, Tier};

pub(super) const NAME: &str = "dev environment";
const MAX_GIT_CONFIG_BYTES: u64 = 1 << 20;
const MAX_ALIASES: usize = 30;

/// Files and folders below the user's folder.
const DOTFILES: [&str; 21] = [
    ".bashrc",
    ".bash_profile",
    ".profile",
    ".zshrc",
    ".zprofile",
    ".zshenv",
    ".config/fish/config.fish",
    ".vimrc",
    ".config/nvim",
    ".tmux.conf",
    ".npmrc",
    ".yarnrc",
    ".editorconfig",
    ".prettierrc",
    ".eslintrc",
    ".wezterm.lua",
    ".config/alacritty",
    ".config/kitty",
    ".hyper.js",
    ".config/starship.toml",
    ".emacs.d",
];
/// Managers of runtimes, each with its folder below the user's folder.
const RUNTIMES: [(&str, &str); 11] = [
    ("nvm", ".nvm"),
    ("pyenv", ".pyenv"),
    ("rustup", ".rustup"),
    ("sdkman", ".sdkman"),
    ("rbenv", ".rbenv"),
    ("goenv", ".goenv"),
    ("volta", ".volta"),
    ("cargo", ".cargo"),
    ("deno", ".deno"),
    ("bun", ".bun"),
    ("mise", ".local/share/mise"),
];

/// Reads which tools for development the owner has set up.
pub(super) fn read_environment(places: &SignalPlaces, budget: &Budget) -> SourceReport {
    let mut git = GitSettings::default();
    let files = [
        places.config_home.join("git/config"),
        places.user_home.join(".gitconfig"),
    ];
    let mut problems = Vec::new();
    for file in files {
        if !budget.take_entry() {
            break;
        }
        match read_bounded(&file, MAX_GIT_CONFIG_BYTES) {
            Ok(bytes) => git.add_file(&bytes),
            Err(error) if is_absent(&error) => {}
            Err(error) => {
                let shown = show_path(&file, &places.user_home);
                problems.push(format!("{shown}: {error}"));
            }
        }
    }
    let home = &places.user_home;
    let is_there = |path: &Path| budget.take_entry() && exists(path);
    let dotfiles = DOTFILES.iter().filter(|name| is_there(&home.join(name)));
    let dotfiles: Vec<String> = dotfiles.map(|name| format!("~/{name}")).collect();
    let runtimes = RUNTIMES
        .iter()
        .filter(|(_, path)| is_there(&home.join(path)));
    let runtimes: Vec<String> = runtimes.map(|(name, _)| (*name).to_owned()).collect();
    let managers = package_managers(places);
    let managers = managers.into_iter().filter(|(_, path)| is_there(path));
    let mut managers: Vec<String> = managers.map(|(name, _)| name.to_owned()).collect();
    managers.dedup();
    let mut lines = git.to_lines();
    let lists = [
        ("Dotfiles", dotfiles),
        ("Runtimes", runtimes),
        ("Package managers", managers),
    ];
    for (title, names) in lists {
        if !names.is_empty() {
            lines.push(format!("{title}: {}", names.join(", ")));
        }
    }
    if has_linux_subsystem(places, budget) {
        lines.push("Windows Subsystem for Linux: yes".to_owned());
    }
    if lines.is_empty() && git.person().is_none() && problems.is_empty() {
        return SourceReport::absent(NAME);
    }
    let section = (!lines.is_empty()).then(|| Section {
        title: "Development Environment".to_owned(),
        tier: Tier::Interest,
        markdown: lines.join("\n\n"),
    });
    let mut report = SourceReport::read(NAME, section.into_iter().collect());
    report.people = git.person().into_iter().collect();
    report.problems = problems;
    report
}

#[derive(Default)]
struct GitSettings {
    name: String,
    mail: String,
    default_branch: String,
    aliases: Vec<String>,
}

impl GitSettings {
    fn add_file(&mut self, bytes: &[u8]) {
        for entry in parse_git_config(bytes) {
            match (entry.section.as_str(), entry.key.as_str()) {
                ("user", "name") => self.name = entry.value,
                ("user", "email") => self.mail = entry.value,
                ("init", "defaultbranch") => self.default_branch = entry.value,
                ("alias", _) if !self.aliases.contains(&entry.key) => self.aliases.push(entry.key),
                _ => {}
            }
        }
    }

    fn person(&self) -> Option<Person> {
        (!self.name.is_empty() || !self.mail.is_empty()).then(|| Person {
            name: self.name.clone(),
            identifiers: Some(self.mail.clone())
                .filter(|mail| !mail.is_empty())
                .into_iter()
                .collect(),
        })
    }

    fn to_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.default_branch.is_empty() {
            let branch = clean_title(&self.default_branch);
            lines.push(format!("Default branch of git: {branch}"));
        }
        if !self.aliases.is_empty() {
            let shown = self.aliases.iter().take(MAX_ALIASES);
            let shown: Vec<String> = shown.map(|alias| clean_title(alias)).collect();
            lines.push(format!("Aliases of git: {}", shown.join(", ")));
        }
        lines
    }
}

/// Returns package managers with a path that shows that they are there.
fn package_managers(places: &SignalPlaces) -> Vec<(&'static str, PathBuf)> {
    let home = &places.user_home;
    let mut managers = vec![
        ("nix", home.join(".nix-profile")),
        ("pnpm", places.data_home.join("pnpm")),
        ("conda", home.join(".conda")),
    ];
    match places.system {
        System::Linux => {
            let programs = ["apt", "dnf", "pacman", "zypper", "apk", "flatpak", "snap"];
            managers.extend(programs.map(|name| (name, Path::new("/usr/bin").join(name))));
            managers.push(("homebrew", "/home/linuxbrew/.linuxbrew".into()));
        }
        System::MacOs => {
            managers.push(("homebrew", "/opt/homebrew/bin/brew".into()));
            managers.push(("homebrew", "/usr/local/bin/brew".into()));
            managers.push(("pnpm", home.join("Library/pnpm")));
        }
        System::Windows => {
            managers.push(("scoop", home.join("scoop")));
            managers.push(("chocolatey", "C:\\ProgramData\\chocolatey".into()));
            let local = places.local_app_data.iter();
            managers.extend(local.flat_map(|local| {
                let winget = local.join("Microsoft/WindowsApps/winget.exe");
                [("winget", winget), ("pnpm", local.join("pnpm"))]
            }));
        }
    }
    managers.sort();
    managers
}

fn has_linux_subsystem(places: &SignalPlaces, budget: &Budget) -> bool {
    let Some(local) = places.local_app_data.as_ref() else {
        return false;
    };
    let packages = list_folder(&local.join("Packages"), budget).unwrap_or_default();
    packages.iter().any(|entry| {
        entry
            .name
            .to_string_lossy()
            .starts_with("CanonicalGroupLimited")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SourceState;
    use crate::test_places::{TestPlaces, budget, text};

    #[test]
    fn the_owners_name_and_address_are_not_in_the_text() {
        let test = TestPlaces::new(System::Windows);
        let config = "[user]\n\tname = Ann Bonny\n\temail = ann@b.example\n[init]\n\tdefaultBranch = trunk\n\
            [alias]\n\tco = checkout\n\tmine = log --author=ann@b.example\n";
        test.write(".gitconfig", config);
        test.write(".config/git/config", "[alias]\n\tst = status\n");
        let report = read_environment(&test.places, &budget());
        assert_eq!(
            text(&report),
            "## Development Environment\nDefault branch of git: trunk\n\nAliases of git: st, co, mine\n"
        );
        let person = Person {
            name: "Ann Bonny".to_owned(),
            identifiers: vec!["ann@b.example".to_owned()],
        };
        assert_eq!(report.people, [person]);
        let written = serde_json::to_string(&report).expect("JSON");
        assert!(
            !written.contains("Ann") && !written.contains("ann@"),
            "{written}"
        );
    }

    #[test]
    fn what_is_set_up_is_named() {
        let test = TestPlaces::new(System::Windows);
        let report = read_environment(&test.places, &budget());
        assert_eq!(report.state, SourceState::Absent);
        for path in [
            ".bashrc",
            ".config/nvim/init.lua",
            ".rustup/x",
            ".local/share/mise/x",
            "scoop/x",
            "AppData/Local/pnpm/x",
            ".local/share/pnpm/x",
            "AppData/Local/Packages/CanonicalGroupLimited.Ubuntu_1/x",
        ] {
            test.write(path, "private");
        }
        let report = read_environment(&test.places, &budget());
        assert_eq!(
            text(&report),
            "## Development Environment\n\
             Dotfiles: ~/.bashrc, ~/.config/nvim\n\n\
             Runtimes: rustup, mise\n\n\
             Package managers: pnpm, scoop\n\n\
             Windows Subsystem for Linux: yes\n"
        );
    }
}
