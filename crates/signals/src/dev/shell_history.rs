//! The history of shells: the programs that are used, and the folders in which the owner works. Commands themselves are
//! never reported.

use std::collections::{HashMap, HashSet};
use std::path::{Component, Path, PathBuf};

use super::command_words::{base_command, program_name, split_commands};
use super::history_files::{HistoryFormat, is_extended_zsh, parse_history};
use super::history_secrets::{has_obvious_secret, has_token};
use crate::file_access::{exists, is_absent, read_tail};
use crate::report_text::{join_counts, show_path, top_counts};
use crate::{Budget, Section, SignalPlaces, SourceReport, System, Tier};

pub(super) const NAME: &str = "shell history";
/// The end of a history that is read.
const MAX_HISTORY_BYTES: u64 = 1 << 20;
/// A longer command is a pasted text.
const MAX_COMMAND_BYTES: usize = 16 << 10;
const MAX_COMMANDS: usize = 15;
const MAX_FOLDERS: usize = 10;
/// A word that was typed seldom can be a mistake: a password in place of a command. A word that is no command can be a line
/// of a text that a command was given. Known tools are reported at once.
const MIN_UNKNOWN_COUNT: u64 = 3;
/// The programs that say nothing about their user.
const COMMON_PROGRAMS: [&str; 18] = [
    "alias", "cat", "cd", "clear", "cls", "cp", "echo", "exit", "export", "history", "ll", "ls",
    "man", "mkdir", "mv", "pushd", "pwd", "rm",
];
const TOOLS: [&str; 51] = [
    "aws",
    "az",
    "bun",
    "bundle",
    "bunx",
    "cargo",
    "cmake",
    "code",
    "composer",
    "cursor",
    "dart",
    "deno",
    "docker",
    "docker-compose",
    "dotnet",
    "emacs",
    "flutter",
    "gcloud",
    "gem",
    "git",
    "go",
    "gradle",
    "java",
    "javac",
    "kubectl",
    "make",
    "mvn",
    "nano",
    "node",
    "npm",
    "npx",
    "nvim",
    "php",
    "pip",
    "pip3",
    "pnpm",
    "podman",
    "python",
    "python3",
    "ruby",
    "rustc",
    "sbt",
    "scala",
    "swift",
    "terraform",
    "uv",
    "vim",
    "xcodebuild",
    "yarn",
    "zed",
    "zig",
];

pub(super) fn read_shell_history(places: &SignalPlaces, budget: &Budget) -> SourceReport {
    let mut usage = ShellUsage::default();
    let mut problems = Vec::new();
    let mut is_read = false;
    for (path, format) in history_files(places) {
        let shown = show_path(&path, &places.user_home);
        match read_tail(&path, MAX_HISTORY_BYTES) {
            Ok(tail) => {
                is_read = true;
                if tail.is_cut {
                    let limit = MAX_HISTORY_BYTES >> 20;
                    problems.push(format!("{shown}: only the last {limit} MB was read"));
                }
                let is_zsh = format == HistoryFormat::Bash && is_extended_zsh(&tail.bytes);
                let format = if is_zsh { HistoryFormat::Zsh } else { format };
                for command in parse_history(format, &tail.bytes) {
                    if !budget.take_entry() {
                        break;
                    }
                    usage.add_command(&command, format, places);
                }
            }
            Err(error) if is_absent(&error) => {}
            Err(error) => problems.push(format!("{shown}: {error}")),
        }
    }
    let mut report = match (is_read, problems.is_empty()) {
        (true, _) => SourceReport::read(NAME, usage.to_section(places).into_iter().collect()),
        (false, true) => SourceReport::absent(NAME),
        (false, false) => return SourceReport::failed(NAME, problems.join("; ")),
    };
    report.problems = problems;
    report
}

/// Returns the history files that shells use by default, and the one that the owner set.
fn history_files(places: &SignalPlaces) -> Vec<(PathBuf, HistoryFormat)> {
    let home = &places.user_home;
    let mut files = vec![
        (home.join(".bash_history"), HistoryFormat::Bash),
        (home.join(".zsh_history"), HistoryFormat::Zsh),
        // The names that zsh's own setup and its manual use.
        (home.join(".histfile"), HistoryFormat::Zsh),
        (home.join(".zhistory"), HistoryFormat::Zsh),
        (
            places.data_home.join("fish/fish_history"),
            HistoryFormat::Fish,
        ),
    ];
    let power_shell = "PSReadLine/ConsoleHost_history.txt";
    let folder = match (places.system, &places.roaming_app_data) {
        (System::Windows, Some(roaming)) => roaming.join("Microsoft/Windows/PowerShell"),
        _ => places.data_home.join("powershell"),
    };
    files.push((folder.join(power_shell), HistoryFormat::PowerShell));
    if let Some(path) = &places.history_file
        && files.iter().all(|(known, _)| known != path)
    {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_zsh = ["zsh", "zhistory", "histfile"]
            .iter()
            .any(|part| name.contains(part));
        let format = match (is_zsh, name.contains("fish")) {
            (true, _) => HistoryFormat::Zsh,
            (_, true) => HistoryFormat::Fish,
            _ => HistoryFormat::Bash,
        };
        files.push((path.clone(), format));
    }
    files
}

#[derive(Default)]
struct ShellUsage {
    programs: HashMap<String, u64>,
    folders: HashMap<PathBuf, u64>,
}

impl ShellUsage {
    fn add_command(&mut self, line: &str, format: HistoryFormat, places: &SignalPlaces) {
        if line.len() > MAX_COMMAND_BYTES || has_obvious_secret(line) {
            return;
        }
        for command in split_commands(line, format != HistoryFormat::PowerShell) {
            let words = base_command(&command);
            let Some(program) = words.first().and_then(|word| program_name(word)) else {
                continue;
            };
            let program = match format {
                HistoryFormat::PowerShell => program.to_ascii_lowercase(),
                _ => program.to_owned(),
            };
            if matches!(program.as_str(), "cd" | "pushd" | "set-location")
                && let Some(folder) = changed_folder(&words[1..], places)
            {
                *self.folders.entry(folder).or_default() += 1;
            }
            *self.programs.entry(program).or_default() += 1;
        }
    }

    fn to_section(&self, places: &SignalPlaces) -> Option<Section> {
        let is_tool = |program: &str| TOOLS.binary_search(&program).is_ok();
        let mut parts = Vec::new();
        let programs = self.programs.iter().filter(|(program, count)| {
            let is_meant =
                is_tool(program) || (**count >= MIN_UNKNOWN_COUNT && is_command(program, places));
            is_meant && !COMMON_PROGRAMS.contains(&program.as_str()) && !has_token(program)
        });
        let programs = programs.map(|(program, count)| (program.clone(), *count));
        let programs = top_counts(programs, MAX_COMMANDS);
        if !programs.is_empty() {
            parts.push(format!("Most used commands: {}", join_counts(&programs)));
        }
        let folders = self
            .folders
            .iter()
            .map(|(folder, count)| (show_path(folder, &places.user_home), *count));
        let folders = top_counts(folders, MAX_FOLDERS);
        if !folders.is_empty() {
            parts.push(format!("Most visited folders: {}", join_counts(&folders)));
        }
        let used: HashSet<&str> = self.programs.keys().map(String::as_str).collect();
        let tools: Vec<&str> = TOOLS
            .into_iter()
            .filter(|tool| used.contains(tool))
            .collect();
        if !tools.is_empty() {
            parts.push(format!("Tools: {}", tools.join(", ")));
        }
        (!parts.is_empty()).then(|| Section {
            title: "Shell History".to_owned(),
            tier: Tier::Work,
            markdown: parts.join("\n\n"),
        })
    }
}

/// Returns whether a word is a command of this machine, as far as that can be known.
fn is_command(word: &str, places: &SignalPlaces) -> bool {
    let mut folders = places.command_folders.iter();
    places.command_folders.is_empty() || folders.any(|folder| exists(&folder.join(word)))
}

/// Returns the folder of a `cd` if it is absolute. It is unknown from where a relative one starts.
fn changed_folder(arguments: &[String], places: &SignalPlaces) -> Option<PathBuf> {
    let target = arguments.iter().find(|word| !word.starts_with('-'))?;
    let home_forms = ["~", "$HOME", "${HOME}", "$env:USERPROFILE"];
    let below_home = home_forms.iter().find_map(|form| {
        let rest = target.strip_prefix(form)?;
        (rest.is_empty() || rest.starts_with(['/', '\\']))
            .then(|| rest.trim_start_matches(['/', '\\']))
    });
    let has_drive = |text: &str| matches!(text.as_bytes(), [drive, b':', b'\\' | b'/', _, ..] if drive.is_ascii_alphabetic());
    let is_plain = |text: &str| {
        !text.contains(|character: char| "$*?%`\"<>|".contains(character) || character.is_control())
    };
    let path = match below_home {
        // The folder of the user says nothing.
        Some("") => return None,
        Some(below) if is_plain(below) => places.user_home.join(below),
        None if is_plain(target) && (target.starts_with('/') || has_drive(target)) => {
            PathBuf::from(target)
        }
        _ => return None,
    };
    // Without the separator at the end, and without "." between.
    let path: PathBuf = path.components().collect();
    let leaves = |part: Component<'_>| matches!(part, Component::ParentDir);
    let is_root = path.parent().is_none_or(|parent| parent == Path::new(""));
    let is_kept = !is_root && path != places.user_home && !path.components().any(leaves);
    (is_kept && !has_token(&path.to_string_lossy())).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SourceState;
    use crate::test_places::{TestPlaces, budget, text};

    #[test]
    fn histories_of_all_shells_are_counted() {
        let mut test = TestPlaces::new(System::Linux);
        let home = test.places.user_home.clone();
        test.write(
            ".bash_history",
            "git pull\n#1700000000\ncargo test\ntimeout 5 make\n",
        );
        test.write(
            ".zsh_history",
            ": 1700000000:0;cd ~/code/app\\\n && git status\n",
        );
        let fish = "- cmd: cd $HOME/code/app/\\n git log\n  when: 1\n";
        test.write(".local/share/fish/fish_history", fish);
        let power_shell = ".local/share/powershell/PSReadLine/ConsoleHost_history.txt";
        test.write(power_shell, "Git pull\r\nSet-Location /srv/www\r\n");
        test.places.history_file = Some(test.write("own/history", ": 1700000000:0;nvim x\n"));
        let report = read_shell_history(&test.places, &budget());
        assert_eq!(report.state, SourceState::Read);
        assert_eq!(report.problems, Vec::<String>::new());
        assert_eq!(
            text(&report),
            "## Shell History\n\
             Most used commands: git (4), cargo (1), make (1), nvim (1)\n\n\
             Most visited folders: ~/code/app (2), /srv/www (1)\n\n\
             Tools: cargo, git, make, nvim\n"
        );
        assert!(!text(&report).contains(&home.display().to_string()));
    }

    /// The files were written by bash 5.2 (with `HISTTIMEFORMAT`, `cmdhist` and `lithist`), zsh 5.9 (`EXTENDED_HISTORY`) and
    /// fish 3.6 at a terminal, for the same commands.
    #[test]
    fn files_that_real_shells_wrote_are_counted() {
        let test = TestPlaces::new(System::Linux);
        let bash = include_bytes!("../../tests/fixtures/shell_histories/bash_history");
        test.write(".bash_history", bash);
        let zsh = include_bytes!("../../tests/fixtures/shell_histories/zsh_history");
        test.write(".zsh_history", zsh);
        let fish = include_bytes!("../../tests/fixtures/shell_histories/fish_history");
        test.write(".local/share/fish/fish_history", fish);
        let report = read_shell_history(&test.places, &budget());
        assert_eq!(
            text(&report),
            "## Shell History\n\
             Most used commands: git (6), make (2)\n\n\
             Most visited folders: /srv/ann/日本ä (3)\n\n\
             Tools: git, make\n"
        );
    }

    #[test]
    fn only_absolute_folders_are_reported() {
        let test = TestPlaces::new(System::Linux);
        let history = "cd app\ncd ./app\ncd ..\ncd -\ncd ~\ncd /\ncd $X/y\ncd *\ncd ~/../other\ncd\ncd -- '/srv/a b'\n\
            pushd /srv/../etc\ncd \"${HOME}/x\"\ncd ~other/x\n";
        test.write(".bash_history", history);
        let report = read_shell_history(&test.places, &budget());
        assert_eq!(
            text(&report),
            "## Shell History\nMost visited folders: /srv/a b (1), ~/x (1)\n"
        );
    }

    #[test]
    fn a_word_that_was_typed_once_is_not_reported() {
        let test = TestPlaces::new(System::Linux);
        test.write(
            ".bash_history",
            "hunter2\nhtop\nhtop\nhtop\nmypassword=abc git x\ngo build\n",
        );
        let report = read_shell_history(&test.places, &budget());
        let expected = "## Shell History\nMost used commands: htop (3), go (1)\n\nTools: go\n";
        assert_eq!(text(&report), expected);
    }

    #[test]
    fn words_that_are_no_commands_are_not_reported() {
        let mut test = TestPlaces::new(System::Linux);
        test.write("bin/deploy-site", "");
        test.places.command_folders = vec![test.places.user_home.join("bin")];
        test.write(
            ".bash_history",
            "deploy-site\nEOF\nhunter2\n".repeat(3) + "git x\n",
        );
        let report = read_shell_history(&test.places, &budget());
        let expected = "Most used commands: deploy-site (3), git (1)\n\nTools: git";
        assert_eq!(report.sections[0].markdown, expected);
    }

    #[test]
    fn only_the_end_of_a_long_history_is_read() {
        let test = TestPlaces::new(System::Linux);
        let long = format!(
            "docker ps\n{}git pull\n",
            format!("ls {}\n", "x".repeat(500)).repeat(3_000)
        );
        test.write(".bash_history", long);
        let report = read_shell_history(&test.places, &budget());
        assert_eq!(
            report.problems,
            ["~/.bash_history: only the last 1 MB was read"]
        );
        assert_eq!(
            text(&report),
            "## Shell History\nMost used commands: git (1)\n\nTools: git\n"
        );
    }

    #[test]
    fn a_history_that_cannot_be_read_is_a_failure_and_none_is_absent() {
        let test = TestPlaces::new(System::Linux);
        let report = read_shell_history(&test.places, &budget());
        assert_eq!(report.state, SourceState::Absent);
        test.make_folder(".bash_history");
        let report = read_shell_history(&test.places, &budget());
        let reason = "~/.bash_history: it is no regular file".to_owned();
        assert_eq!(report.state, SourceState::Failed(reason));
        test.write(".zsh_history", [b'\xff', b'\x83', 0, b'\n'].repeat(100));
        let report = read_shell_history(&test.places, &budget());
        assert_eq!(
            (report.state, report.sections),
            (SourceState::Read, Vec::new())
        );
        assert_eq!(report.problems.len(), 1);
    }

    #[test]
    fn the_tools_are_sorted() {
        assert!(TOOLS.is_sorted());
    }
}
