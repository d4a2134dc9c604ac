//! The pages of docs/ that are generated from the program: `UPDATE_DOCS=1 cargo test --test it generated_pages` writes
//! them. Not here: docs/tools.md (pages.rs), and the table of hostile inputs (hostile/table.rs).

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use clap::Command;
use punie_runner::cli::command_groups::{COMMAND_GROUPS, grouped_command};
use punie_runner::cli::doctor::describe_checks;
use punie_runner::config::KeyDescription;
use punie_runner::config::default_file::{KnownSettings, render_default_config};

const BEGIN: &str =
    "<!-- Generated: `UPDATE_DOCS=1 cargo test --test it generated_pages` writes what follows. -->";

/// Compares the page after the mark with the text, or writes the text there.
fn hold_page(name: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("docs")
        .join(name);
    let page = fs::read_to_string(&file).expect("the page");
    let (head, written) = page.split_once(BEGIN).expect("the mark");
    if std::env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1") {
        fs::write(&file, [head, BEGIN, text].concat()).expect("the page is written");
        return;
    }
    let differs = written
        .lines()
        .zip(text.lines())
        .find(|(old, new)| old != new);
    assert!(
        written == text,
        "docs/{name} differs from this program; `UPDATE_DOCS=1 cargo test --test it generated_pages` writes it: {differs:?}"
    );
}

/// Returns a command's help without the options that all commands have.
fn help_text(command: &Command) -> String {
    let command = command
        .clone()
        .mut_args(|arg| {
            let is_of_every_command = arg.is_global_set() || arg.get_id() == "help";
            arg.hide(is_of_every_command)
        })
        .term_width(100);
    let mut command = command.disable_help_flag(true);
    let help = command.render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    lines.join("\n").trim().to_owned()
}

/// Writes the help of a command and of the commands below it.
fn write_command(page: &mut String, path: &str, command: &Command) {
    writeln!(page, "\n### {path}\n\n```text\n{}\n```", help_text(command)).expect("a text");
    for below in command.get_subcommands() {
        write_command(page, &format!("{path} {}", below.get_name()), below);
    }
}

#[cfg(feature = "default")]
#[test]
fn the_page_of_commands_is_the_programs_help() {
    let mut command = grouped_command().term_width(100);
    command.build();
    let help = command.render_help().to_string();
    let options = help.split("Options (").nth(1).expect("the options");
    let options = options.split("First steps:").next().unwrap_or_default();
    let options: Vec<&str> = options.lines().map(str::trim_end).collect();
    let mut page = format!(
        "\n\n## Options\n\n```text\nOptions ({}\n```\n",
        options.join("\n").trim_end()
    );
    for (heading, names) in COMMAND_GROUPS {
        writeln!(page, "\n## {heading}").expect("a text");
        for name in names.iter().filter(|name| **name != "help") {
            let below = command.find_subcommand(name).expect("a command");
            write_command(&mut page, name, below);
        }
    }
    hold_page("commands.md", &page);
}

#[test]
fn the_page_of_troubleshooting_names_every_check_of_doctor() {
    let mut page = "\n\n| id | what it finds |\n|---|---|\n".to_owned();
    for (id, finds) in describe_checks() {
        writeln!(page, "| `{id}` | {finds} |").expect("a text");
    }
    hold_page("troubleshooting.md", &page);
}

#[cfg(feature = "default")]
#[test]
#[cfg(target_os = "linux")]
fn the_page_of_the_configuration_is_what_init_writes() {
    let has_default =
        |key: &str| KeyDescription::find_key(key).is_ok_and(|key| key.default.is_some());
    let file = render_default_config(&KnownSettings::default());
    let mut page = String::new();
    let mut table = "";
    let mut comments: Vec<&str> = Vec::new();
    for line in file.lines().skip_while(|line| !line.is_empty()) {
        if let Some(comment) = line.strip_prefix("# ") {
            comments.push(comment);
        } else if line.trim_start_matches('#').starts_with('[') {
            let line = line.trim_start_matches('#');
            let about = comments.join(" ");
            let head = "| key | default | meaning |\n|---|---|---|";
            write!(page, "\n\n## `{line}`\n\n{about}\n\n{head}").expect("a text");
            table = line.trim_matches(['[', ']']);
            comments.clear();
        } else if let Some((key, value)) = line.trim_start_matches('#').split_once(" = ") {
            let about = comments.join(" ").replace('|', "\\|");
            let default = if has_default(&format!("{table}.{key}")) {
                format!("`{value}`")
            } else {
                format!("not set; example: `{value}`")
            };
            write!(page, "\n| `{key}` | {default} | {about} |").expect("a text");
            comments.clear();
        }
    }
    page.push('\n');
    hold_page("configuration.md", &page);
}
