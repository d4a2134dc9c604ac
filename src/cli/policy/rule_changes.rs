//! `policy allow`, `policy deny`, `policy revoke`: grants, and rules added to policy.toml.

use std::time::Duration;

use serde::Serialize;

use super::rule_listing::describe_target;
use super::{AllowArgs, PolicyContext, TargetArgs};
use crate::cli::console;
use crate::cli::exit::{CommandError, Exit};
use crate::policy::{AddedPolicyRule, GrantTarget, PolicyDecision, PolicyGrant};

/// The lifetime of a grant for one request.
const ONCE_GRANT_LIFETIME: Duration = Duration::from_hours(24);

/// An added rule, as `--json` shows it.
#[derive(Serialize)]
struct AddedRule<'a> {
    rule: &'a str,
    decision: PolicyDecision,
    file: &'a str,
    /// The stricter rule that still applies.
    still: Option<String>,
}

/// A grant that was given or revoked.
#[derive(Serialize)]
struct GrantChange<'a> {
    grant: &'a PolicyGrant,
    revoked: bool,
}

/// Adds a rule or a grant that allows something.
pub(super) fn allow_target(
    desk: &PolicyContext<'_>,
    args: &AllowArgs,
    as_json: bool,
) -> anyhow::Result<Exit> {
    if !args.once && args.lasts.is_none() {
        return add_policy_rule(desk, &args.what, PolicyDecision::Allow, as_json);
    }
    let standing = desk.active_rules()?;
    let target = grant_target(desk, &args.what)?;
    let grant = standing.add_grant(target, args.once, args.lasts.unwrap_or(ONCE_GRANT_LIFETIME))?;
    if as_json {
        console::print_json(&GrantChange {
            grant: &grant,
            revoked: false,
        });
    } else {
        let how = if args.once {
            "For the next request that needs it"
        } else {
            "For that time"
        };
        console::print_line(&format!(
            "{how}: {}. (grant {})",
            console::cell_text(&describe_target(&grant.target), usize::MAX),
            grant.id
        ));
    }
    Ok(Exit::Done)
}

/// Returns the single target of a grant.
fn grant_target(desk: &PolicyContext<'_>, what: &TargetArgs) -> anyhow::Result<GrantTarget> {
    let rules = desk.active_rules()?.current_rules().rules;
    match (what.words.as_slice(), &what.tool, &what.path) {
        ([name], None, None) if rules.find_rule(name).is_some() => {
            Ok(GrantTarget::Rule(name.clone()))
        }
        ([_, ..], None, None) => Ok(GrantTarget::Command(what.words.clone())),
        ([], Some(tool), None) => {
            desk.tool_host.registry.find_tool(tool).map_err(|error| {
                CommandError::with_exit(Exit::Usage, error.model_text().to_owned())
            })?;
            Ok(GrantTarget::Tool(tool.clone()))
        }
        ([], None, Some(path)) => Ok(GrantTarget::Path(path.trim_end_matches('/').to_owned())),
        _ => Err(CommandError::with_exit(
            Exit::Usage,
            "a grant is for one thing: a rule, a command, --tool or --path",
        )),
    }
}

/// Adds a rule that denies something.
pub(super) fn deny_target(
    desk: &PolicyContext<'_>,
    what: &TargetArgs,
    as_json: bool,
) -> anyhow::Result<Exit> {
    add_policy_rule(desk, what, PolicyDecision::Deny, as_json)
}

fn add_policy_rule(
    desk: &PolicyContext<'_>,
    what: &TargetArgs,
    decision: PolicyDecision,
    as_json: bool,
) -> anyhow::Result<Exit> {
    let standing = desk.active_rules()?;
    if let [name] = what.words.as_slice()
        && standing.current_rules().rules.find_rule(name).is_some()
    {
        let text = format!(
            "{name:?} is a rule: change it in {}, or allow it for a while with --once or --for",
            desk.file
        );
        return Err(CommandError::with_exit(Exit::Usage, text));
    }
    let rule = AddedPolicyRule {
        name: what.name.clone(),
        reason: what.reason.clone(),
        tools: Vec::from_iter(what.tool.clone()),
        paths: Vec::from_iter(what.path.clone()),
        command: what.words.clone(),
    };
    let name = standing
        .append_rule(&rule, decision)?
        .map_err(|broken| CommandError::with_exit(Exit::Config, broken.to_string()))?;
    let still = match what.words.as_slice() {
        words @ [_, ..] if decision == PolicyDecision::Allow => {
            let verdict = desk.evaluate_command(words)?;
            (verdict.decision > PolicyDecision::Allow).then(|| verdict.explain_cause())
        }
        _ => None,
    };
    if as_json {
        console::print_json(&AddedRule {
            rule: &name,
            decision,
            file: &desk.file,
            still,
        });
        return Ok(Exit::Done);
    }
    console::print_line(&format!(
        "The rule {name} was added to {}; it holds from the next call on.",
        desk.file
    ));
    if let Some(still) = still {
        console::print_line(&format!(
            "It is not enough, for the strictest rule wins: {}.",
            console::cell_text(&still, usize::MAX)
        ));
    }
    Ok(Exit::Done)
}

/// Revokes a grant.
pub(super) fn revoke_by_id(
    desk: &PolicyContext<'_>,
    id: &str,
    as_json: bool,
) -> anyhow::Result<Exit> {
    let standing = desk.active_rules()?;
    let grants = standing.grants_for(None);
    let found: Vec<&PolicyGrant> = grants
        .iter()
        .filter(|grant| grant.id.ends_with(id))
        .collect();
    let [grant] = found.as_slice() else {
        let why = if found.is_empty() {
            "no such grant is in force"
        } else {
            "several grants end so: give more of the id"
        };
        return Err(CommandError::with_exit(Exit::Failed, why));
    };
    standing.revoke_grant(&grant.id);
    if as_json {
        console::print_json(&GrantChange {
            grant,
            revoked: true,
        });
    } else {
        console::print_line(&format!(
            "Taken back: {}.",
            console::cell_text(&describe_target(&grant.target), usize::MAX)
        ));
    }
    Ok(Exit::Done)
}
