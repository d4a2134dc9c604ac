//! `policy allow`, `policy deny`, `policy revoke`: grants, and rules added to policy.toml.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;

use serde::Serialize;
use serde_json::json;

use super::rule_listing::describe_target;
use super::{AllowArgs, DenyArgs, PolicyContext, TargetOptions};
use crate::cli::exit::{CommandError, Exit};
use crate::cli::{console, request_ids};
use punie_home::command_to_type;
use punie_policy::command_line::quote_word;
use punie_policy::{
    AddedPolicyRule, GrantTarget, PolicyDecision, PolicyGrant, PolicyRules, PolicyVerdict,
};

/// The lifetime of a grant for one request.
const ONCE_GRANT_LIFETIME: Duration = Duration::from_hours(24);

/// An added rule, as `--json` shows it.
#[derive(Serialize)]
struct AddedRule<'a> {
    rule: &'a str,
    decision: PolicyDecision,
    file: &'a str,
    /// A call that the rule is about.
    example: Option<&'a str>,
    /// The decision on that call now.
    effect: Option<PolicyDecision>,
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
        return add_policy_rule(
            desk,
            &args.words,
            &args.options,
            PolicyDecision::Allow,
            as_json,
        );
    }
    if args.options.host.is_some() || args.options.folder.is_some() {
        let text = "--host and --folder add a rule, and take neither --once nor --for";
        return Err(CommandError::with_exit(Exit::Usage, text));
    }
    check_words(&args.words)?;
    let standing = desk.active_rules()?;
    let target = grant_target(desk, &args.words, &args.options)?;
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
fn grant_target(
    desk: &PolicyContext<'_>,
    words: &[String],
    what: &TargetOptions,
) -> anyhow::Result<GrantTarget> {
    let rules = desk.active_rules()?.current_rules().rules;
    match (words, &what.tool, &what.path) {
        ([name], None, None) if rules.find(name).is_some() => Ok(GrantTarget::Rule(name.clone())),
        ([_, ..], None, None) => {
            suggest_near_rule(desk, &rules, words)?;
            Ok(GrantTarget::Command(words.to_vec()))
        }
        ([], Some(tool), None) => {
            desk.tool_host.registry.find(tool).map_err(|error| {
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
    args: &DenyArgs,
    as_json: bool,
) -> anyhow::Result<Exit> {
    add_policy_rule(
        desk,
        &args.words,
        &args.options,
        PolicyDecision::Deny,
        as_json,
    )
}

/// Refuses words that the owner did not mean as the beginning of a command.
fn check_words(words: &[String]) -> anyhow::Result<()> {
    const OWN_OPTIONS: [&str; 6] = ["--tool", "--path", "--name", "--reason", "--once", "--for"];
    let usage = |text: String| Err(CommandError::with_exit(Exit::Usage, text));
    let is_own = |word: &&String| {
        let name = word.split('=').next().unwrap_or_default();
        OWN_OPTIONS.contains(&name)
    };
    if let Some(option) = words.iter().find(is_own) {
        return usage(format!(
            "{option} stands behind the command, where it would be a word of it. Put it before the command"
        ));
    }
    if let [line] = words
        && line.contains(char::is_whitespace)
    {
        return usage(format!(
            "{line:?} is one word here. Give the command word by word, without quotes: {line}"
        ));
    }
    Ok(())
}

/// Refuses a single word that is nearly the name of a rule: a typo would otherwise become a rule about a command that
/// does not exist.
fn suggest_near_rule(
    desk: &PolicyContext<'_>,
    rules: &PolicyRules,
    words: &[String],
) -> anyhow::Result<()> {
    let [word] = words else {
        return Ok(());
    };
    if desk.tool_host.registry.find(word).is_ok() {
        let text = format!("{word} is a tool: write --tool {word}");
        return Err(CommandError::with_exit(Exit::Usage, text));
    }
    let near = rules
        .rules
        .iter()
        .find(|rule| is_near_name(word, &rule.name));
    near.map_or(Ok(()), |rule| {
        let text = format!(
            "no rule is called {word}; did you mean {}? A rule about a command {word} can be written in policy.toml",
            rule.name
        );
        Err(CommandError::with_exit(Exit::Usage, text))
    })
}

/// Returns whether a word is a part of a rule's name at its dashes (not one part alone, which may be a command), or
/// differs from the name by two letters at most, or from an end of the name at a dash by one.
fn is_near_name(word: &str, name: &str) -> bool {
    let has_dash = word.contains('-');
    let is_part = format!("-{name}-").contains(&format!("-{word}-"));
    let is_typo =
        |name: &str, most: usize| word.len() > 3 && strsim::damerau_levenshtein(word, name) <= most;
    let mut ends = name.match_indices('-').map(|(at, _)| &name[at + 1..]);
    has_dash && (is_part || ends.any(|end| is_typo(end, 1))) || is_typo(name, 2)
}

/// Refuses a name that is neither an effect nor a tool, before a rule holds it.
fn check_tool_name(desk: &PolicyContext<'_>, tool: &str) -> anyhow::Result<()> {
    if matches!(tool, "reads" | "writes" | "executes") || tool.starts_with("guest:") {
        return Ok(());
    }
    desk.tool_host.registry.find(tool).map_err(|error| {
        let text = error.model_text().replacen("There", "there", 1);
        CommandError::with_exit(Exit::Usage, format!("nothing was added: {text}"))
    })?;
    Ok(())
}

fn add_policy_rule(
    desk: &PolicyContext<'_>,
    words: &[String],
    what: &TargetOptions,
    decision: PolicyDecision,
    as_json: bool,
) -> anyhow::Result<Exit> {
    check_words(words)?;
    let standing = desk.active_rules()?;
    let current = standing.current_rules();
    if words.is_empty() && what.is_empty() {
        let text = format!(
            "name what to {0}: a command (`policy {0} npm publish`), --tool, --path, --host or \
             --folder",
            decision.as_str()
        );
        return Err(CommandError::with_exit(Exit::Usage, text));
    }
    if let [name] = words
        && current.rules.find(name).is_some()
    {
        let text = format!(
            "{name:?} is a rule: change it in {}, or allow it for a while with --once or --for",
            desk.file
        );
        return Err(CommandError::with_exit(Exit::Usage, text));
    }
    suggest_near_rule(desk, &current.rules, words)?;
    if let Some(tool) = &what.tool {
        check_tool_name(desk, tool)?;
    }
    let folders = what.folder.iter().map(|folder| real_folder(folder));
    let folders = folders.collect::<Result<_, _>>()?;
    let rule = AddedPolicyRule {
        name: what.name.clone(),
        reason: what.reason.clone(),
        tools: Vec::from_iter(what.tool.clone()),
        paths: Vec::from_iter(what.path.clone()),
        command: words.to_vec(),
        hosts: Vec::from_iter(what.host.clone()),
        folders,
    };
    let name = standing.append(&rule, decision)?.map_err(|broken| {
        // In a file that was sound before, only the new rule can be wrong.
        let is_usage = current.broken.is_none();
        if is_usage {
            CommandError::with_exit(Exit::Usage, format!("nothing was added: {}", broken.text))
        } else {
            CommandError::with_exit(Exit::Config, broken.to_string())
        }
    })?;
    let example = evaluate_example(desk, words, what)?;
    let against = example
        .as_ref()
        .filter(|(_, verdict)| verdict.decision != decision);
    let still = against
        .map(|(_, verdict)| verdict.explain_cause())
        .or_else(|| explain_denied_folder(&current.rules, &rule.folders))
        .filter(|_| decision == PolicyDecision::Allow);
    if as_json {
        console::print_json(&AddedRule {
            rule: &name,
            decision,
            file: &desk.file,
            example: example.as_ref().map(|(line, _)| line.as_str()),
            effect: example.as_ref().map(|(_, verdict)| verdict.decision),
            still,
        });
        return Ok(Exit::Done);
    }
    console::print_line(&format!(
        "The rule {name} was added to {}; it holds from the next call on.",
        desk.file
    ));
    if let Some((line, verdict)) = &example {
        console::print_line(&format!(
            "  {} -> {}",
            console::cell_text(line, usize::MAX),
            verdict.decision.as_str()
        ));
    }
    if let Some(still) = still {
        console::print_line(&format!(
            "It is not enough, for the strictest rule wins: {}.",
            console::cell_text(&still, usize::MAX)
        ));
    }
    Ok(Exit::Done)
}

/// Tells which rule denies one of these folders, or a folder around it.
fn explain_denied_folder(rules: &PolicyRules, folders: &[String]) -> Option<String> {
    let mut found = folders
        .iter()
        .filter_map(|folder| rules.judge_folder(Path::new(folder)));
    let denying = found.find(|rule| rule.decision == PolicyDecision::Deny)?;
    let revoke = command_to_type(&format!("policy revoke {}", denying.name));
    Some(format!(
        "the rule {} denies it, which `{revoke}` takes back",
        denying.name
    ))
}

/// Returns the whole path of a folder, as rules name it.
fn real_folder(folder: &Path) -> anyhow::Result<String> {
    let real = folder.canonicalize();
    let real = real.with_context(|| format!("the folder {} cannot be used", folder.display()))?;
    let text = real.into_os_string().into_string();
    text.map_err(|path| anyhow::anyhow!("the folder {} is not UTF-8", path.display()))
}

/// Evaluates a call that the new rule is about: the command itself, or the first example of the tool. A rule about paths
/// has none.
fn evaluate_example(
    desk: &PolicyContext<'_>,
    words: &[String],
    what: &TargetOptions,
) -> anyhow::Result<Option<(String, PolicyVerdict)>> {
    if !words.is_empty() {
        let quoted: Vec<String> = words.iter().map(|word| quote_word(word)).collect();
        let verdict = desk.evaluate_command(words)?;
        return Ok(Some((quoted.join(" "), verdict)));
    }
    let tool = what.tool.as_deref().filter(|_| !what.has_others());
    let Some(entry) = tool.and_then(|tool| desk.tool_host.registry.find(tool).ok()) else {
        return Ok(None);
    };
    let spec = entry.tool_spec();
    let Some(args) = spec.examples.first() else {
        return Ok(None);
    };
    let verdict = desk.evaluate_call(&spec.name, args)?;
    Ok(Some((format!("{} {args}", spec.name), verdict)))
}

/// Revokes a grant, or removes a rule.
pub(super) fn revoke_by_id(
    desk: &PolicyContext<'_>,
    id: &str,
    as_json: bool,
) -> anyhow::Result<Exit> {
    let standing = desk.active_rules()?;
    let grants = standing.grants_for(None);
    if standing.current_rules().rules.find(id).is_some() {
        let removed = standing.remove(id)?;
        removed.map_err(|broken| CommandError::with_exit(Exit::Config, broken.to_string()))?;
        if as_json {
            console::print_json(&json!({ "rule": id, "revoked": true }));
        } else {
            console::print_line(&format!("The rule {id} was removed from {}.", desk.file));
        }
        return Ok(Exit::Done);
    }
    let found = request_ids::find_among(&grants, id, |grant| grant.id.as_str())?;
    let grant = found.ok_or_else(|| {
        let text = "there is no such grant or rule; `punie-runner policy` lists them";
        CommandError::with_exit(Exit::Failed, text)
    })?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_in_a_rule_s_name_is_seen() {
        for near in ["rm-rf", "rm-fr", "deny-rm-fr", "deny-rm"] {
            assert!(is_near_name(near, "deny-rm-rf"), "{near}");
        }
        for other in ["rm", "ls", "git-lfs", "cargo"] {
            assert!(!is_near_name(other, "deny-rm-rf"), "{other}");
        }
    }
}
