//! `policy`: shows the owner's rules and grants, tests calls against them, and adds rules. Not here: their meaning
//! (policy) and enforcement (host::permission).

mod rule_changes;
mod rule_listing;

pub(super) use rule_listing::describe_default;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Serialize;
use tokio::runtime::Runtime;

use super::console;
use super::context::{CliContext, command_runtime};
use super::exit::{CommandError, Exit};
use super::tool_arguments::join_command_line;
use super::wiring::{self, SettingsInForce};
use crate::config::{Config, WorkspaceRule};
use punie_home::{Home, RunnerLock};
use punie_host::active_rules::ActiveRules;
use punie_policy::{PolicyDecision, PolicyVerdict};

#[derive(Debug, Args)]
pub struct PolicyArgs {
    #[command(subcommand)]
    word: Option<PolicyCommand>,
}

#[derive(Debug, Subcommand)]
enum PolicyCommand {
    /// Show the rules and the grants in force (the default)
    Show,
    /// Show what the rules say to a call, and why; nothing runs and no grant is used up
    Test(TestArgs),
    /// Allow a command, tool, path, host or folder: for once or a while with --once or --for, else by a rule in policy.toml
    Allow(AllowArgs),
    /// Deny a command, tool, path, host or folder by a rule in policy.toml
    Deny(DenyArgs),
    /// Withdraw a grant, or remove a rule from policy.toml
    Revoke(RevokeArgs),
}

#[derive(Debug, Args)]
struct TestArgs {
    /// The tool's name
    #[arg(required_unless_present = "command")]
    tool: Option<String>,
    /// The tool's arguments, as JSON
    #[arg(default_value = "{}")]
    args: String,
    /// In place of both: a command for Bash
    #[arg(last = true)]
    command: Vec<String>,
}

#[derive(Debug, Args)]
struct AllowArgs {
    /// The beginning of a command, word by word; with --once or --for also the name of a rule. Options of this command
    /// stand before it
    #[arg(trailing_var_arg = true, value_name = "RULE-OR-WORDS")]
    words: Vec<String>,
    #[command(flatten)]
    options: TargetOptions,
    /// For the next request that needs it, within a day
    #[arg(long)]
    once: bool,
    /// For this long: 30s, 15m, 1h, 2d
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time_span)]
    lasts: Option<Duration>,
}

#[derive(Debug, Args)]
struct DenyArgs {
    /// The beginning of a command, word by word. Options of this command stand before it
    #[arg(trailing_var_arg = true, value_name = "WORDS")]
    words: Vec<String>,
    #[command(flatten)]
    options: TargetOptions,
}

#[derive(Debug, Args)]
struct RevokeArgs {
    /// The rule's name; or the grant's id, or its end (4 characters or more)
    id: String,
}

/// The tool, path, host or folder that is allowed or denied, and the new rule's name and reason.
#[derive(Debug, Args)]
struct TargetOptions {
    /// A tool by its name, or an effect (reads, writes, executes)
    #[arg(long)]
    tool: Option<String>,
    /// A file or folder, from its workspace; in a rule a pattern, such as 'docs/**'
    #[arg(long)]
    path: Option<String>,
    /// A host that commands reach through the proxy: a name, '*.NAME', an address or a network such as 10.0.0.0/8
    #[arg(long)]
    host: Option<String>,
    /// A folder, with all below it, in which clients' sessions may work beside the workspaces; or the folder of a
    /// repository (.git), which git may use
    #[arg(long)]
    folder: Option<PathBuf>,
    /// A name for the new rule
    #[arg(long)]
    name: Option<String>,
    /// A reason, shown with the denial or the question
    #[arg(long)]
    reason: Option<String>,
}

impl TargetOptions {
    fn is_empty(&self) -> bool {
        self.tool.is_none() && !self.has_others()
    }

    /// Returns whether something else than a tool is named.
    fn has_others(&self) -> bool {
        self.path.is_some() || self.host.is_some() || self.folder.is_some()
    }
}

/// The output of `test --json`.
#[derive(Serialize)]
struct PolicyTestResult<'a> {
    tool: &'a str,
    #[serde(flatten)]
    verdict: &'a PolicyVerdict,
}

/// Shows, tests or changes the policy.
pub fn run_policy(args: &PolicyArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let (config, home) = context.config_beside_runner(WorkspaceRule::OrCurrentDir)?;
    let runtime = command_runtime()?;
    let _inside = runtime.enter();
    let desk = PolicyContext::open(&config, &home, context, &runtime)?;
    match &args.word {
        None | Some(PolicyCommand::Show) => rule_listing::show_policy(&desk, context.is_json()),
        Some(PolicyCommand::Test(args)) => test_call(&desk, args, context.is_json()),
        Some(PolicyCommand::Allow(args)) => {
            rule_changes::allow_target(&desk, args, context.is_json())
        }
        Some(PolicyCommand::Deny(args)) => {
            rule_changes::deny_target(&desk, args, context.is_json())
        }
        Some(PolicyCommand::Revoke(args)) => {
            rule_changes::revoke_by_id(&desk, &args.id, context.is_json())
        }
    }
}

/// The rules of this home, with the tools they apply to.
struct PolicyContext<'a> {
    tool_host: wiring::ToolHost,
    config: &'a Config,
    runtime: &'a Runtime,
    file: String,
    /// The settings that the running runner published, if one runs.
    in_force: Option<SettingsInForce>,
}

impl<'a> PolicyContext<'a> {
    fn open(
        config: &'a Config,
        home: &Home,
        context: &CliContext,
        runtime: &'a Runtime,
    ) -> anyhow::Result<Self> {
        let machine = wiring::assemble_lone_host(config, home, context.environment())?;
        let holder = RunnerLock::find_holder(home)?;
        Ok(Self {
            tool_host: machine,
            config,
            runtime,
            file: home.policy_file().display().to_string(),
            in_force: holder.and_then(|holder| SettingsInForce::read_for(holder, home)),
        })
    }

    fn active_rules(&self) -> anyhow::Result<&ActiveRules> {
        self.tool_host
            .gate
            .policy_rules()
            .ok_or_else(|| CommandError::with_exit(Exit::Failed, "this gate goes by no rules"))
    }

    fn evaluate_call(&self, tool: &str, args: &str) -> anyhow::Result<PolicyVerdict> {
        let refused = |error: punie_tool::ToolError| {
            CommandError::with_exit(Exit::Usage, error.model_text().to_owned())
        };
        let entry = self.tool_host.registry.find(tool).map_err(refused)?;
        let ready = entry.decode_call(args).map_err(refused)?;
        let verdict = self.runtime.block_on(
            self.tool_host
                .gate
                .policy_verdict(entry.tool_spec(), ready.as_gate_input(args)),
        );
        verdict.map_err(refused)
    }

    /// Returns the verdict on a command line.
    fn evaluate_command(&self, words: &[String]) -> anyhow::Result<PolicyVerdict> {
        let line = join_command_line(words);
        self.evaluate_call("Bash", &serde_json::json!({ "command": line }).to_string())
    }
}

fn test_call(desk: &PolicyContext<'_>, args: &TestArgs, as_json: bool) -> anyhow::Result<Exit> {
    let (tool, verdict) = match &args.tool {
        Some(tool) if args.command.is_empty() => {
            (tool.as_str(), desk.evaluate_call(tool, &args.args)?)
        }
        Some(_) => {
            return Err(CommandError::with_exit(
                Exit::Usage,
                "give a tool with its arguments, or a command after --",
            ));
        }
        None => ("Bash", desk.evaluate_command(&args.command)?),
    };
    if as_json {
        console::print_json(&PolicyTestResult {
            tool,
            verdict: &verdict,
        });
    } else {
        console::print_line(&format!(
            "{}: {}",
            verdict.decision.as_str(),
            console::cell_text(&verdict.explain_cause(), usize::MAX)
        ));
        if let Some(change) = &verdict.change {
            console::print_line(&format!(
                "To let it run: {}",
                console::cell_text(change, usize::MAX)
            ));
        }
    }
    Ok(if verdict.decision == PolicyDecision::Allow {
        Exit::Done
    } else {
        Exit::Failed
    })
}

/// Parses a number with a unit.
fn parse_time_span(text: &str) -> Result<Duration, String> {
    const LONGEST: u64 = 30 * 24 * 3_600;
    let wrong = || format!("{text:?} is no time: write 30s, 15m, 1h or 2d, 30 days at most");
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    let seconds = number
        .checked_mul(seconds)
        .filter(|seconds| (1..=LONGEST).contains(seconds));
    seconds.map(Duration::from_secs).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_a_number_with_its_unit() {
        for (text, seconds) in [("30s", 30), ("15m", 900), ("1h", 3_600), ("2d", 172_800)] {
            assert_eq!(
                parse_time_span(text),
                Ok(Duration::from_secs(seconds)),
                "{text}"
            );
        }
        for text in [
            "",
            "h",
            "1",
            "0s",
            "-1h",
            "1w",
            "31d",
            "99999999999999999999d",
            "1é",
        ] {
            assert!(parse_time_span(text).is_err(), "{text}");
        }
    }
}
