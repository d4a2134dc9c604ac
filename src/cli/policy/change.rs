//! `policy allow`, `policy deny`, `policy revoke`: grants, and rules added to policy.toml.

use std::time::Duration;

use serde::Serialize;

use super::show::in_words;
use super::{AllowArgs, Desk, What};
use crate::cli::exit::{Exit, Stop};
use crate::cli::print;
use crate::policy::{Decision, Grant, NewRule, Target};

/// The lifetime of a grant for one request.
const ONCE_WITHIN: Duration = Duration::from_hours(24);

/// An added rule, as `--json` shows it.
#[derive(Serialize)]
struct Added<'a> {
    rule: &'a str,
    decision: Decision,
    file: &'a str,
    /// The stricter rule that still applies.
    still: Option<String>,
}

/// A grant that was given or revoked.
#[derive(Serialize)]
struct Given<'a> {
    grant: &'a Grant,
    revoked: bool,
}

/// Adds a rule or a grant that allows something.
pub(super) fn allow(desk: &Desk<'_>, args: &AllowArgs, as_json: bool) -> anyhow::Result<Exit> {
    if !args.once && args.lasts.is_none() {
        return add(desk, &args.what, Decision::Allow, as_json);
    }
    let standing = desk.standing()?;
    let target = target(desk, &args.what)?;
    let grant = standing.grant(target, args.once, args.lasts.unwrap_or(ONCE_WITHIN))?;
    if as_json {
        print::json(&Given { grant: &grant, revoked: false });
    } else {
        let how = if args.once { "For the next request that needs it" } else { "For that time" };
        print::line(&format!(
            "{how}: {}. (grant {})",
            print::cell(&in_words(&grant.target), usize::MAX),
            grant.id
        ));
    }
    Ok(Exit::Done)
}

/// Returns the single target of a grant.
fn target(desk: &Desk<'_>, what: &What) -> anyhow::Result<Target> {
    let rules = desk.standing()?.now().rules;
    match (what.words.as_slice(), &what.tool, &what.path) {
        ([name], None, None) if rules.named(name).is_some() => Ok(Target::Rule(name.clone())),
        ([_, ..], None, None) => Ok(Target::Command(what.words.clone())),
        ([], Some(tool), None) => {
            desk.machine
                .registry
                .find(tool)
                .map_err(|error| Stop::with(Exit::Usage, error.text().to_owned()))?;
            Ok(Target::Tool(tool.clone()))
        }
        ([], None, Some(path)) => Ok(Target::Path(path.trim_end_matches('/').to_owned())),
        _ => Err(Stop::with(Exit::Usage, "a grant is for one thing: a rule, a command, --tool or --path")),
    }
}

/// Adds a rule that denies something.
pub(super) fn deny(desk: &Desk<'_>, what: &What, as_json: bool) -> anyhow::Result<Exit> {
    add(desk, what, Decision::Deny, as_json)
}

fn add(desk: &Desk<'_>, what: &What, decision: Decision, as_json: bool) -> anyhow::Result<Exit> {
    let standing = desk.standing()?;
    if let [name] = what.words.as_slice()
        && standing.now().rules.named(name).is_some()
    {
        let text = format!(
            "{name:?} is a rule: change it in {}, or allow it for a while with --once or --for",
            desk.file
        );
        return Err(Stop::with(Exit::Usage, text));
    }
    let rule = NewRule {
        name: what.name.clone(),
        reason: what.reason.clone(),
        tools: Vec::from_iter(what.tool.clone()),
        paths: Vec::from_iter(what.path.clone()),
        command: what.words.clone(),
    };
    let name =
        standing.add(&rule, decision)?.map_err(|broken| Stop::with(Exit::Config, broken.to_string()))?;
    let still = match what.words.as_slice() {
        words @ [_, ..] if decision == Decision::Allow => {
            let verdict = desk.on_command(words)?;
            (verdict.decision > Decision::Allow).then(|| verdict.cause())
        }
        _ => None,
    };
    if as_json {
        print::json(&Added { rule: &name, decision, file: &desk.file, still });
        return Ok(Exit::Done);
    }
    print::line(&format!("The rule {name} was added to {}; it holds from the next call on.", desk.file));
    if let Some(still) = still {
        print::line(&format!(
            "It is not enough, for the strictest rule wins: {}.",
            print::cell(&still, usize::MAX)
        ));
    }
    Ok(Exit::Done)
}

/// Revokes a grant.
pub(super) fn revoke(desk: &Desk<'_>, id: &str, as_json: bool) -> anyhow::Result<Exit> {
    let standing = desk.standing()?;
    let grants = standing.grants_for(None);
    let found: Vec<&Grant> = grants.iter().filter(|grant| grant.id.ends_with(id)).collect();
    let [grant] = found.as_slice() else {
        let why = if found.is_empty() {
            "no such grant is in force"
        } else {
            "several grants end so: give more of the id"
        };
        return Err(Stop::with(Exit::Failed, why));
    };
    standing.revoke(&grant.id);
    if as_json {
        print::json(&Given { grant, revoked: true });
    } else {
        print::line(&format!("Taken back: {}.", print::cell(&in_words(&grant.target), usize::MAX)));
    }
    Ok(Exit::Done)
}
