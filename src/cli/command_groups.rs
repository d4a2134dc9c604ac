//! The command line as clap parses it, with the commands of `--help` in groups.

use std::fmt::Write as _;

use clap::{Command, CommandFactory};

use super::Cli;

/// The headings of `--help`, each with its commands.
pub const COMMAND_GROUPS: &[(&str, &[&str])] = &[
    ("Start", &["demo", "dev", "init", "pair", "run", "service"]),
    (
        "See what happens",
        &["status", "doctor", "history", "logs", "audit"],
    ),
    (
        "Decide what may run",
        &[
            "approvals",
            "questions",
            "policy",
            "pause",
            "resume",
            "stop",
        ],
    ),
    ("Take back", &["undo", "diff", "trash", "ack"]),
    ("Ask for tools", &["send", "cancel", "call", "tools"]),
    (
        "Skills and secrets",
        &[
            "skills", "agents", "plugins", "packages", "bridges", "secrets", "people", "signals",
        ],
    ),
    (
        "Editors, backends, keys",
        &["acp", "mcp", "backend", "operator", "keygen"],
    ),
    (
        "More",
        &[
            "config",
            "metrics",
            "completions",
            "update",
            "uninstall",
            "help",
        ],
    ),
];

/// Returns the command line with its grouped help.
pub fn grouped_command() -> Command {
    // `help` shows nested commands too: it need not be one of each.
    let command = Cli::command().mut_subcommands(|below| below.disable_help_subcommand(true));
    let groups = render_groups(&command);
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}\
         Options (all but --once work with every command):\n{{options}}{{after-help}}"
    ))
}

fn render_groups(command: &Command) -> String {
    let mut text = String::new();
    for (heading, names) in COMMAND_GROUPS {
        let _ = writeln!(text, "{heading}:");
        for name in *names {
            let about = match command.find_subcommand(name).map(Command::get_about) {
                Some(about) => about.map(ToString::to_string).unwrap_or_default(),
                None if *name == "help" => "Show this text, or the help of a command".to_owned(),
                // Its part was left out of this build.
                None => continue,
            };
            let _ = writeln!(text, "  {name:<13}{about}");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group_and_its_line_fits() {
        let command = grouped_command();
        command.clone().debug_assert();
        let shown = command.get_subcommands().filter(|one| !one.is_hide_set());
        let names = shown.map(Command::get_name);
        let mut names: Vec<&str> = names.chain(["help"]).collect();
        let mut grouped: Vec<&str> = COMMAND_GROUPS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        names.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, names, "COMMAND_GROUPS has other commands");
        for line in render_groups(&command).lines() {
            assert!(line.chars().count() <= 80, "too long: {line}");
        }
    }
}
