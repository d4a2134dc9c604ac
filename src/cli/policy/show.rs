//! `policy show`: shows the rules and the grants in force.

use serde::Serialize;

use super::Desk;
use crate::cli::exit::Exit;
use crate::cli::{moments, print};
use crate::policy::{Decision, Grant, Rule, Target};
use crate::runner::Clock;

/// The output with `--json`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    file: &'a str,
    default: Decision,
    /// `ask` of the configuration.
    ask: &'a [String],
    rules: Vec<ShownRule<'a>>,
    grants: &'a [Grant],
}

#[derive(Serialize)]
struct ShownRule<'a> {
    name: &'a str,
    decision: Decision,
    reason: Option<&'a str>,
    tools: &'a [String],
    paths: Vec<&'a str>,
    command: &'a [Vec<String>],
    line: usize,
}

impl<'a> ShownRule<'a> {
    fn of(rule: &'a Rule) -> Self {
        Self {
            name: &rule.name,
            decision: rule.decision,
            reason: rule.reason.as_deref(),
            tools: &rule.tools,
            paths: rule.paths.iter().map(|glob| glob.text.as_str()).collect(),
            command: &rule.command,
            line: rule.line,
        }
    }

    /// Describes the calls to which the rule applies.
    fn subject(&self) -> String {
        let command = self.command.iter().map(|words| words.join("|")).collect::<Vec<_>>().join(" ");
        let about =
            [("command", command), ("paths", self.paths.join(", ")), ("tools", self.tools.join(", "))];
        let said = about.iter().filter(|(_, text)| !text.is_empty());
        said.map(|(key, text)| format!("{key}: {text}")).collect::<Vec<_>>().join("; ")
    }
}

/// Prints the rules and grants.
pub(super) fn show(desk: &Desk<'_>, as_json: bool) -> anyhow::Result<Exit> {
    let standing = desk.standing()?;
    let rules = standing.now().rules;
    let grants = standing.grants_for(None);
    let ask = desk.config.policy.ask.as_slice();
    let shown: Vec<ShownRule<'_>> = rules.rules.iter().map(ShownRule::of).collect();
    if as_json {
        print::json(&Shown { file: &desk.file, default: rules.default, ask, rules: shown, grants: &grants });
        return Ok(Exit::Done);
    }
    print::line(&format!("Rules     {} in {}", shown.len(), desk.file));
    print::line(&format!("Default   {} what no rule names", rules.default.as_str()));
    if !ask.is_empty() {
        print::line(&format!("Asked     {} (policy.ask of the configuration)", ask.join(", ")));
    }
    if !shown.is_empty() {
        let rows: Vec<Vec<String>> = shown
            .iter()
            .map(|rule| {
                let why = rule.reason.map_or_else(String::new, |reason| format!("  ({reason})"));
                let about = print::cell(&format!("{}{why}", rule.subject()), usize::MAX);
                vec![rule.decision.as_str().to_owned(), rule.name.to_owned(), about]
            })
            .collect();
        print::line("");
        print::table(&["", "RULE", "ABOUT"], &rows);
    }
    if !grants.is_empty() {
        let now = Clock::system().now_ms();
        let rows: Vec<Vec<String>> = grants
            .iter()
            .map(|grant| {
                let left = moments::coarse(grant.until_ms.saturating_sub(now));
                let how = if grant.once { format!("once, within {left}") } else { format!("for {left}") };
                vec![grant.id.clone(), how, print::cell(&in_words(&grant.target), usize::MAX)]
            })
            .collect();
        print::line("");
        print::table(&["GRANT", "HOLDS", "FOR"], &rows);
    }
    Ok(Exit::Done)
}

/// Describes the target of a grant.
pub(super) fn in_words(target: &Target) -> String {
    match target {
        Target::Rule(name) => format!("what the rule {name} is against"),
        Target::Command(words) => format!("the command {}", words.join(" ")),
        Target::Tool(name) => format!("the tool {name}, but for what a rule names"),
        Target::Path(path) => format!("the file or folder {path}"),
    }
}
