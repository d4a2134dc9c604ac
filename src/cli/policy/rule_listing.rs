//! `policy show`: shows the rules and the grants in force.

use serde::Serialize;

use super::PolicyContext;
use crate::cli::exit::Exit;
use crate::cli::table::Column;
use crate::cli::wiring::SettingsInForce;
use crate::cli::{console, display_time};
use punie_engine::runner::Clock;
use punie_policy::{GrantTarget, PolicyDecision, PolicyGrant, PolicyRule};

/// The output with `--json`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PolicyListing<'a> {
    file: &'a str,
    default: PolicyDecision,
    /// `ask` of the configuration.
    ask: &'a [String],
    /// True if this is what a running runner goes by.
    running: bool,
    /// The reason why config.toml, as it is now, is not in force in the running runner.
    config_error: Option<&'a str>,
    rules: &'a [PolicyRule],
    grants: &'a [PolicyGrant],
}

/// Describes the calls to which a rule applies.
fn describe_subject(rule: &PolicyRule) -> String {
    let command = rule
        .command
        .iter()
        .map(|words| words.join("|"))
        .collect::<Vec<_>>()
        .join(" ");
    let paths: Vec<&str> = rule.paths.iter().map(|glob| glob.text.as_str()).collect();
    let hosts: Vec<&str> = rule.hosts.iter().map(|host| host.text.as_str()).collect();
    let folders = rule
        .folders
        .iter()
        .map(|folder| folder.display().to_string());
    let folders: Vec<String> = folders.collect();
    let about = [
        ("command", command),
        ("paths", paths.join(", ")),
        ("hosts", hosts.join(", ")),
        ("sessions in", folders.join(", ")),
        ("tools", rule.tools.join(", ")),
    ];
    let said = about.iter().filter(|(_, text)| !text.is_empty());
    said.map(|(key, text)| format!("{key}: {text}"))
        .collect::<Vec<_>>()
        .join("; ")
}

/// Prints the rules and grants.
pub(super) fn show_policy(desk: &PolicyContext<'_>, as_json: bool) -> anyhow::Result<Exit> {
    let standing = desk.active_rules()?;
    let rules = standing.current_rules().rules;
    let grants = standing.grants_for(None);
    let in_force = desk.in_force.as_ref();
    let ask = in_force.map_or(desk.config.policy.ask.as_slice(), |settings| {
        settings.ask.as_slice()
    });
    if as_json {
        console::print_json(&PolicyListing {
            file: &desk.file,
            default: rules.default,
            ask,
            running: in_force.is_some(),
            config_error: in_force.and_then(|settings| settings.config.error.as_deref()),
            rules: &rules.rules,
            grants: &grants,
        });
        return Ok(Exit::Done);
    }
    print_state(in_force);
    console::print_line(&format!("Rules     {} in {}", rules.rules.len(), desk.file));
    let default = describe_default(rules.default.as_str(), ask);
    console::print_line(&format!("Default   {default}"));
    if !ask.is_empty() {
        console::print_line(&format!(
            "Asked     {} (policy.ask of the configuration)",
            ask.join(", ")
        ));
    }
    if !rules.rules.is_empty() {
        let rows: Vec<Vec<String>> = rules
            .rules
            .iter()
            .map(|rule| {
                let why = rule
                    .reason
                    .as_ref()
                    .map_or_else(String::new, |reason| format!("  ({reason})"));
                let about =
                    console::cell_text(&format!("{}{why}", describe_subject(rule)), usize::MAX);
                vec![rule.decision.as_str().to_owned(), rule.name.clone(), about]
            })
            .collect();
        console::print_line("");
        let columns = [
            Column::outcome("DECISION"),
            Column::text("RULE"),
            Column::flexible("ABOUT"),
        ];
        console::print_table(&columns, &rows);
    }
    print_grants(&grants);
    Ok(Exit::Done)
}

/// Describes the decision on calls that no rule names. `ask`: `policy.ask` of the configuration.
pub(in crate::cli) fn describe_default(default: &str, ask: &[String]) -> String {
    let words = ask.iter().map(|word| match word.as_str() {
        "reads" | "writes" | "executes" => word.clone(),
        tool => format!("is {tool}"),
    });
    match default {
        "allow" if ask.is_empty() => "anything else is allowed".to_owned(),
        "allow" => {
            let words: Vec<String> = words.collect();
            format!(
                "anything else: asked if it {}, else allowed",
                words.join(" or ")
            )
        }
        "ask" => "anything else is asked about".to_owned(),
        _ => "anything else is denied".to_owned(),
    }
}

/// Prints the grants, if there are any.
fn print_grants(grants: &[PolicyGrant]) {
    if grants.is_empty() {
        return;
    }
    let now = Clock::system().now_ms();
    let rows: Vec<Vec<String>> = grants
        .iter()
        .map(|grant| {
            let left = display_time::format_coarse(grant.until_ms.saturating_sub(now));
            let how = if grant.once {
                format!("once, within {left}")
            } else {
                format!("for {left}")
            };
            vec![
                grant.id.clone(),
                how,
                console::cell_text(&describe_target(&grant.target), usize::MAX),
            ]
        })
        .collect();
    console::print_line("");
    let columns = [
        Column::id("GRANT"),
        Column::text("HOLDS"),
        Column::flexible("FOR"),
    ];
    console::print_table(&columns, &rows);
}

/// Prints whether a running runner goes by this, and what of config.toml is not in force.
fn print_state(in_force: Option<&SettingsInForce>) {
    let Some(in_force) = in_force else {
        return console::print_line("In force  at the next start; no runner is running");
    };
    console::print_line(&format!(
        "In force  in the running runner (pid {})",
        in_force.pid
    ));
    if let Some(error) = &in_force.config.error {
        let error = console::cell_text(error, 300);
        console::print_line(&format!(
            "Attention config.toml changed, not in force: {error}"
        ));
    }
}

/// Describes the target of a grant.
pub(super) fn describe_target(target: &GrantTarget) -> String {
    match target {
        GrantTarget::Rule(name) => format!("what the rule {name} is against"),
        GrantTarget::Command(words) => format!("the command {}", words.join(" ")),
        GrantTarget::Tool(name) => format!("the tool {name}, but for what a rule names"),
        GrantTarget::Path(path) => format!("the file or folder {path}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_names_what_is_asked_about() {
        let ask = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        for (default, asked, text) in [
            ("allow", ask(&[]), "anything else is allowed"),
            (
                "allow",
                ask(&["writes", "executes"]),
                "anything else: asked if it writes or executes, else allowed",
            ),
            (
                "allow",
                ask(&["Bash"]),
                "anything else: asked if it is Bash, else allowed",
            ),
            ("deny", ask(&["writes"]), "anything else is denied"),
        ] {
            assert_eq!(describe_default(default, &asked), text);
        }
    }
}
