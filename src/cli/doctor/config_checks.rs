//! Checks of what the owner wrote: the configuration, rules, workspaces, skills, agents and plugins.
#![expect(clippy::unnecessary_wraps, reason = "all checks have one type")]

use std::path::Path;

use super::doctor_facts::DoctorFacts;
use super::finding::{CheckResult, Finding, join_first};
use crate::cli::status::{attention, protection, status_facts};
use crate::cli::wiring;
use crate::config::{ConfigError, McpServer, McpTarget};
use punie_handlers::plugin::list_secret_names;
use punie_home::{
    CopyTexts, Home, HomeProblem, ProblemEffect, SecretStore, load_agents, load_plugins,
    load_skills,
};
use punie_host::{LinkedRepository, find_workspace_fault};
use punie_text::output::number_format::format_count;

/// Returns the id of the check to which an error of the configuration belongs.
pub(super) fn check_of_fault(fault: &ConfigError) -> &'static str {
    match fault {
        ConfigError::Workspace { .. } | ConfigError::NoWorkspace { .. } => "workspaces",
        _ => "config",
    }
}

/// Describes an error of the configuration.
pub(super) fn describe_fault(fault: &ConfigError) -> Finding {
    let finding = Finding::problem(fault.to_string());
    match fault {
        ConfigError::Workspace { origin, .. } => finding.with_mend(format!(
            "Create that folder, or correct its name ({origin})"
        )),
        ConfigError::File { path, .. } | ConfigError::Unreadable { path, .. } => {
            finding.with_mend(format!(
                "Correct {}; docs/configuration.md lists all keys",
                path.display()
            ))
        }
        _ => finding.with_mend("Correct the value that the text names"),
    }
}

pub(super) fn check_config(facts: &DoctorFacts) -> CheckResult {
    Ok(match &facts.config_fault {
        Some(fault) if check_of_fault(fault) == "config" => describe_fault(fault),
        _ => {
            let file = &facts.config.file;
            let state = if file.exists() {
                ""
            } else {
                " does not exist, so the defaults hold"
            };
            Finding::ok(format!("{}{state}", file.display()))
        }
    })
}

pub(super) fn check_variables(facts: &DoctorFacts) -> CheckResult {
    let warnings = &facts.config.warnings;
    if warnings.is_empty() {
        return Ok(Finding::ok("All variables of punie-runner are known"));
    }
    Ok(Finding::note(join_first(warnings)).with_mend("Correct the name, or unset the variable"))
}

pub(super) fn check_config_in_force(facts: &DoctorFacts) -> CheckResult {
    let Some(in_force) = &facts.in_force else {
        return Ok(Finding::ok("No running runner has settings of its own"));
    };
    Ok(match attention::describe_config(in_force) {
        Some(item) => Finding::from_attention(item)
            .with_mend("Correct config.toml, or stop the runner and start it again"),
        None => Finding::ok("The running runner uses what config.toml says"),
    })
}

pub(super) fn check_policy(facts: &DoctorFacts, home: &Home) -> CheckResult {
    let policy = protection::read_policy(home, facts.in_force.as_ref());
    Ok(match policy.broken {
        Some(broken) => Finding::problem(format!(
            "{broken}. Until you correct that, only calls that read are run"
        ))
        .with_mend(format!("Correct {}", home.policy_file().display())),
        None => Finding::ok(format!(
            "{}; calls that match none: {}",
            format_count(policy.rules as u64, "rule"),
            policy.default
        )),
    })
}

pub(super) fn check_workspaces(facts: &DoctorFacts) -> CheckResult {
    if let Some(fault) = &facts.config_fault
        && check_of_fault(fault) == "workspaces"
    {
        return Ok(describe_fault(fault));
    }
    let workspaces = status_facts::list_workspaces(&facts.config, facts.in_force.as_ref());
    if workspaces.is_empty() {
        return Ok(
            Finding::note("No workspace is set; the runner needs a folder to work in")
                .with_command("init --workspace DIR"),
        );
    }
    let faults: Vec<String> = workspaces
        .iter()
        .filter_map(|workspace| describe_unusable(Path::new(workspace)))
        .collect();
    Ok(if faults.is_empty() {
        Finding::ok(format!("Workspaces: {}", join_first(&workspaces)))
    } else {
        Finding::problem(join_first(&faults)).with_mend(
            "Create the folder, give your user the right to write there, or name another",
        )
    })
}

pub(super) fn check_repositories(facts: &DoctorFacts, home: &Home) -> CheckResult {
    let workspaces = status_facts::list_workspaces(&facts.config, facts.in_force.as_ref());
    let environment = &facts.environment;
    let hidden = wiring::undecided_repositories(&facts.config, home, environment, &workspaces);
    let texts: Vec<String> = hidden
        .iter()
        .map(LinkedRepository::describe_place)
        .collect();
    Ok(match hidden.first() {
        Some(first) => Finding::note(join_first(&texts)).with_command(&first.allow_arguments()),
        None => Finding::ok("Git reaches the repository of each workspace that is one"),
    })
}

/// Describes why a workspace cannot be used, if it cannot.
fn describe_unusable(workspace: &Path) -> Option<String> {
    let shown = workspace.display();
    if let Some(why) = find_workspace_fault(workspace) {
        return Some(format!("The workspace {shown} cannot be used: it {why}"));
    }
    #[cfg(unix)]
    {
        use rustix::fs::{Access, access};
        let all = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
        if let Err(error) = access(workspace, all) {
            return Some(format!("The workspace {shown} cannot be written: {error}"));
        }
    }
    None
}

pub(super) fn check_skills(_: &DoctorFacts, home: &Home) -> CheckResult {
    let (skills, problems) = load_skills(home, CopyTexts::No);
    Ok(describe_documents("skill", skills.len(), &problems))
}

pub(super) fn check_agents(_: &DoctorFacts, home: &Home) -> CheckResult {
    let (agents, problems) = load_agents(home, CopyTexts::No);
    Ok(describe_documents("agent", agents.len(), &problems))
}

pub(super) fn check_plugins(_: &DoctorFacts, home: &Home) -> CheckResult {
    let (plugins, problems) = load_plugins(home);
    Ok(describe_documents("plugin", plugins.len(), &problems))
}

pub(super) fn check_mcp_servers(facts: &DoctorFacts, home: &Home) -> CheckResult {
    let servers = facts.config.mcp_servers.iter();
    let servers: Vec<&McpServer> = servers.filter(|server| server.enabled).collect();
    let store = SecretStore::in_home(home);
    let mut missing = Vec::new();
    for server in &servers {
        let values = match &server.target {
            McpTarget::Program { env, .. } => env,
            McpTarget::Address { headers, .. } => headers,
        };
        for secret in values.values().flat_map(|value| list_secret_names(value)) {
            if !matches!(store.get(secret), Ok(Some(_))) {
                missing.push(format!(
                    "The MCP server {} needs the secret {secret}",
                    server.name
                ));
            }
        }
    }
    if missing.is_empty() {
        let count = format_count(servers.len() as u64, "MCP server");
        return Ok(Finding::ok(format!("{count} in config.toml")));
    }
    Ok(Finding::problem(join_first(&missing)).with_command("secrets set NAME"))
}

fn describe_documents(kind: &str, loaded: usize, problems: &[HomeProblem]) -> Finding {
    if problems.is_empty() {
        return Finding::ok(format!(
            "{} without a fault",
            format_count(loaded as u64, kind)
        ));
    }
    let texts: Vec<String> = problems
        .iter()
        .map(|problem| format!("{problem} ({})", problem.effect.as_heading()))
        .collect();
    let is_minor = |problem: &HomeProblem| problem.effect == ProblemEffect::Warning;
    let finding = if problems.iter().all(is_minor) {
        Finding::note(join_first(&texts))
    } else {
        Finding::problem(join_first(&texts))
    };
    finding.with_command(&format!("{kind}s"))
}
