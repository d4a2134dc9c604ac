//! `policy`: shows the owner's rules and grants, tests calls against them, and adds rules. Not here: their meaning
//! (policy) and enforcement (acp::permission).

mod change;
mod show;

use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Serialize;
use tokio::runtime::Runtime;

use super::context::{Context, runtime};
use super::exit::{Exit, Stop};
use super::{print, wiring};
use crate::acp::permission::StandingRules;
use crate::config::{Config, WorkspaceRule};
use crate::policy::command_line::quote_word;
use crate::policy::{Decision, Verdict};

#[derive(Debug, Args)]
pub struct PolicyArgs {
    #[command(subcommand)]
    word: Option<Word>,
}

#[derive(Debug, Subcommand)]
enum Word {
    /// The rules and the grants in force (the default)
    Show,
    /// What the rules say to a call, and why; nothing runs and no grant is used up
    Test(TestArgs),
    /// Allow something: for once or a while with --once or --for, else by a rule in policy.toml
    Allow(AllowArgs),
    /// Deny something by a rule in policy.toml
    Deny(DenyArgs),
    /// Take a grant back
    Revoke(RevokeArgs),
}

#[derive(Debug, Args)]
struct TestArgs {
    /// The tool
    #[arg(required_unless_present = "command")]
    tool: Option<String>,
    /// Its arguments, as JSON
    #[arg(default_value = "{}")]
    args: String,
    /// Instead of both: a command, as Bash would get it
    #[arg(last = true)]
    command: Vec<String>,
}

#[derive(Debug, Args)]
struct AllowArgs {
    #[command(flatten)]
    what: What,
    /// For the next request that needs it, within a day
    #[arg(long)]
    once: bool,
    /// For so long: 30s, 15m, 1h, 2d
    #[arg(long = "for", value_name = "TIME", value_parser = span)]
    lasts: Option<Duration>,
}

#[derive(Debug, Args)]
struct DenyArgs {
    #[command(flatten)]
    what: What,
}

#[derive(Debug, Args)]
struct RevokeArgs {
    /// The grant's id, or the end of it
    id: String,
}

/// What is allowed or denied.
#[derive(Debug, Args)]
struct What {
    /// The beginning of a command, word by word; with --once and --for, also a rule by its name
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "RULE-OR-WORDS")]
    words: Vec<String>,
    /// A tool by its name, or an effect (reads, writes, executes)
    #[arg(long)]
    tool: Option<String>,
    /// A file or folder, from its workspace; in a rule, a pattern
    #[arg(long)]
    path: Option<String>,
    /// The name of the new rule
    #[arg(long)]
    name: Option<String>,
    /// Why; shown to whoever is refused or asked
    #[arg(long)]
    reason: Option<String>,
}

/// The output of `test --json`.
#[derive(Serialize)]
struct Tested<'a> {
    tool: &'a str,
    #[serde(flatten)]
    verdict: &'a Verdict,
}

/// Shows, tests or changes the policy.
pub fn policy(args: &PolicyArgs, context: &Context) -> anyhow::Result<Exit> {
    let config = context.config(WorkspaceRule::OrCurrentDir)?;
    let runtime = runtime()?;
    let _inside = runtime.enter();
    let desk = Desk::open(&config, context, &runtime)?;
    match &args.word {
        None | Some(Word::Show) => show::show(&desk, context.json()),
        Some(Word::Test(args)) => test(&desk, args, context.json()),
        Some(Word::Allow(args)) => change::allow(&desk, args, context.json()),
        Some(Word::Deny(args)) => change::deny(&desk, &args.what, context.json()),
        Some(Word::Revoke(args)) => change::revoke(&desk, &args.id, context.json()),
    }
}

/// The rules of this home, with the tools they apply to.
struct Desk<'a> {
    machine: wiring::Machine,
    config: &'a Config,
    runtime: &'a Runtime,
    file: String,
}

impl<'a> Desk<'a> {
    fn open(config: &'a Config, context: &Context, runtime: &'a Runtime) -> anyhow::Result<Self> {
        let home = Context::home(config)?;
        let machine = wiring::machine_alone(config, &home, context.environment())?;
        Ok(Self { machine, config, runtime, file: home.policy_file().display().to_string() })
    }

    fn standing(&self) -> anyhow::Result<&StandingRules> {
        self.machine.gate.standing().ok_or_else(|| Stop::with(Exit::Failed, "this gate goes by no rules"))
    }

    fn verdict(&self, tool: &str, args: &str) -> anyhow::Result<Verdict> {
        let refused = |error: crate::tool::ToolError| Stop::with(Exit::Usage, error.text().to_owned());
        let entry = self.machine.registry.find(tool).map_err(refused)?;
        let ready = entry.decode(args).map_err(refused)?;
        let verdict = self.runtime.block_on(self.machine.gate.verdict(entry.spec(), ready.decoded(args)));
        verdict.map_err(refused)
    }

    /// Returns the verdict on a command line.
    fn on_command(&self, words: &[String]) -> anyhow::Result<Verdict> {
        let line = match words {
            [line] => line.clone(),
            words => words.iter().map(|word| quote_word(word)).collect::<Vec<_>>().join(" "),
        };
        self.verdict("Bash", &serde_json::json!({ "command": line }).to_string())
    }
}

fn test(desk: &Desk<'_>, args: &TestArgs, as_json: bool) -> anyhow::Result<Exit> {
    let (tool, verdict) = match &args.tool {
        Some(tool) if args.command.is_empty() => (tool.as_str(), desk.verdict(tool, &args.args)?),
        Some(_) => {
            return Err(Stop::with(Exit::Usage, "give a tool with its arguments, or a command after --"));
        }
        None => ("Bash", desk.on_command(&args.command)?),
    };
    if as_json {
        print::json(&Tested { tool, verdict: &verdict });
    } else {
        print::line(&format!("{}: {}", verdict.decision.as_str(), print::cell(&verdict.cause(), usize::MAX)));
        if let Some(change) = &verdict.change {
            print::line(&format!("To let it run: {}", print::cell(change, usize::MAX)));
        }
    }
    Ok(if verdict.decision == Decision::Allow { Exit::Done } else { Exit::Failed })
}

/// Parses a number with a unit.
fn span(text: &str) -> Result<Duration, String> {
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
    let seconds = number.checked_mul(seconds).filter(|seconds| (1..=LONGEST).contains(seconds));
    seconds.map(Duration::from_secs).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_a_number_with_its_unit() {
        for (text, seconds) in [("30s", 30), ("15m", 900), ("1h", 3_600), ("2d", 172_800)] {
            assert_eq!(span(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "h", "1", "0s", "-1h", "1w", "31d", "99999999999999999999d", "1é"] {
            assert!(span(text).is_err(), "{text}");
        }
    }
}
