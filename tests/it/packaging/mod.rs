//! The parts of a release: the manual pages, the completions, and the scripts in packaging/. Not here: the packages
//! themselves, which need an optimised build.
#![cfg(target_os = "linux")]

#[expect(
    dead_code,
    reason = "an example, of which the tests call all but `main`"
)]
#[path = "../../../examples/package_documents.rs"]
mod package_documents;

mod glibc;
mod install;
mod release;
#[cfg(feature = "updates")]
mod update;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use punie_runner::cli::command_groups::grouped_command;

use package_documents::write_documents;

/// The path of a script in packaging/.
fn script_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("packaging")
        .join(name)
}

/// Runs a command. Returns its success, and its stdout and stderr.
fn run_command(command: &mut Command) -> (bool, String) {
    let output = command.output().expect("the program starts");
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&said).into_owned(),
    )
}

/// Runs a command that must succeed, and returns its output.
fn run_well(command: &mut Command) -> String {
    let (succeeded, said) = run_command(command);
    assert!(succeeded, "{command:?}: {said}");
    said
}

/// Collects the names of the manual pages of a command and of its subcommands.
fn page_names(name: &str, command: &clap::Command, found: &mut Vec<String>) {
    found.push(format!("{name}.1"));
    let shown = command.get_subcommands().filter(|one| !one.is_hide_set());
    for below in shown {
        page_names(&format!("{name}-{}", below.get_name()), below, found);
    }
}

#[test]
fn every_command_has_a_manual_page_and_every_shell_a_script() {
    let dir = tempfile::tempdir().expect("a folder");
    write_documents(dir.path(), "2026-12-31").expect("the documents");

    let mut names = Vec::new();
    page_names("punie-runner", &grouped_command(), &mut names);
    for name in &names {
        let page = fs::read_to_string(dir.path().join("man").join(name));
        let page = page.unwrap_or_else(|cause| panic!("{name}: {cause}"));
        let head = format!(
            "1 2026-12-31 \"punie-runner {}\"",
            env!("CARGO_PKG_VERSION")
        );
        for part in [&head, ".SH NAME\n", ".SH SYNOPSIS\n", ".SH DESCRIPTION\n"] {
            assert!(page.contains(part), "{name} has no {part}");
        }
    }
    let written = fs::read_dir(dir.path().join("man")).expect("the folder");
    assert_eq!(written.count(), names.len(), "a page without a command");

    let completions = dir.path().join("completions");
    for (file, part) in [
        ("punie-runner", "complete -"),
        ("punie-runner.elv", "edit:completion"),
        ("punie-runner.fish", "complete --"),
        ("_punie-runner.ps1", "Register-ArgumentCompleter"),
        ("_punie-runner", "#compdef punie-runner"),
    ] {
        let text = fs::read_to_string(completions.join(file)).expect("the script");
        assert_contains!(text, part; "{file}");
        assert!(
            text.contains("PUNIE_COMPLETE"),
            "{file} does not ask the program"
        );
    }
    run_well(
        Command::new("bash")
            .arg("-n")
            .arg(completions.join("punie-runner")),
    );
}

#[test]
fn a_tag_of_another_version_is_refused() {
    let version = env!("CARGO_PKG_VERSION");
    let ask = |tag: &str| run_command(Command::new(script_path("release/version.sh")).arg(tag));
    assert_eq!(ask(&format!("v{version}")), (true, format!("{version}\n")));
    let (accepted, said) = ask("v99.0.0");
    assert!(!accepted);
    assert_contains!(said, "v99.0.0", version);
}
