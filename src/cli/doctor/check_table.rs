//! The list of all checks.

use super::doctor_facts::DoctorFacts;
use super::finding::{CheckResult, Finding};
use super::{
    backend_checks, config_checks, home_checks, program_checks, sandbox_checks, state_checks,
    token_checks,
};
use crate::cli::exit::describe_error;
use punie_home::Home;

/// Mends what is safe and obvious. Returns a line for each thing that it did, or could not do.
type FixFunction = fn(&Home) -> Vec<String>;

pub(super) struct DoctorCheck {
    /// Its stable name.
    pub id: &'static str,
    /// What it finds, for the documentation.
    pub finds: &'static str,
    run: RunCheck,
    /// What `--fix` does about it.
    pub fix: Option<FixFunction>,
}

enum RunCheck {
    OfMachine(fn(&DoctorFacts) -> CheckResult),
    /// Left out where there is no home.
    OfHome(fn(&DoctorFacts, &Home) -> CheckResult),
}

impl DoctorCheck {
    /// Runs the check. A check that fails is a problem. `None` if it needs a home and there is none.
    pub fn run(&self, facts: &DoctorFacts) -> Option<Finding> {
        let result = match &self.run {
            RunCheck::OfMachine(check) => check(facts),
            RunCheck::OfHome(check) => check(facts, facts.home.as_ref()?),
        };
        Some(result.unwrap_or_else(|error| {
            Finding::problem(format!(
                "This could not be checked: {}",
                describe_error(&error)
            ))
            .with_mend("Mend what the error names, then run `doctor` again")
        }))
    }
}

const fn machine(
    id: &'static str,
    finds: &'static str,
    check: fn(&DoctorFacts) -> CheckResult,
) -> DoctorCheck {
    DoctorCheck {
        id,
        finds,
        run: RunCheck::OfMachine(check),
        fix: None,
    }
}

const fn home(
    id: &'static str,
    finds: &'static str,
    check: fn(&DoctorFacts, &Home) -> CheckResult,
) -> DoctorCheck {
    DoctorCheck {
        id,
        finds,
        run: RunCheck::OfHome(check),
        fix: None,
    }
}

impl DoctorCheck {
    const fn with_fix(mut self, fix: FixFunction) -> Self {
        self.fix = Some(fix);
        self
    }
}

/// All checks, in the order in which they are shown.
pub(super) const CHECKS: &[DoctorCheck] = &[
    machine(
        "home",
        "There is no home yet, or a file is in its place",
        home_checks::check_home,
    ),
    home(
        "home-access",
        "A folder of the home belongs to another user, is a file, or cannot be written",
        home_checks::check_access,
    ),
    home(
        "home-modes",
        "Other users of the machine can read or change the home or its secrets",
        home_checks::check_modes,
    )
    .with_fix(home_checks::fix_modes),
    home(
        "home-folders",
        "Folders of the home are missing",
        home_checks::check_folders,
    )
    .with_fix(home_checks::fix_folders),
    home("disk", "The disk is nearly full", home_checks::check_disk),
    home(
        "identity",
        "The device's identity is damaged, incomplete, or of another machine",
        home_checks::check_identity,
    ),
    home(
        "secrets",
        "Your secrets or their key cannot be read",
        home_checks::check_secrets,
    ),
    home(
        "secret-mounts",
        "Secrets that an ended command was given as files are still there",
        home_checks::check_mounts,
    )
    .with_fix(home_checks::fix_mounts),
    home(
        "temporary-files",
        "Half-written files of a crash are in the home",
        home_checks::check_temporary_files,
    )
    .with_fix(home_checks::fix_temporary_files),
    home(
        "trash",
        "The trash is full, or switched off",
        home_checks::check_trash,
    ),
    home(
        "logs",
        "The log takes more room than it should",
        home_checks::check_logs,
    ),
    machine(
        "config",
        "`config.toml`, a flag or a variable is wrong, such as an unknown key",
        config_checks::check_config,
    ),
    machine(
        "variables",
        "A variable that begins with `PUNIE_` is not known",
        config_checks::check_variables,
    ),
    machine(
        "config-in-force",
        "The running runner does not use what `config.toml` says",
        config_checks::check_config_in_force,
    ),
    home(
        "policy",
        "`policy.toml` cannot be read",
        config_checks::check_policy,
    ),
    machine(
        "workspaces",
        "A workspace is missing, cannot be written, or contains the home; or there is none",
        config_checks::check_workspaces,
    ),
    home(
        "repositories",
        "A workspace is a linked worktree or a submodule, and git does not reach its repository",
        config_checks::check_repositories,
    ),
    home(
        "skills",
        "A skill cannot be loaded, or has flaws",
        config_checks::check_skills,
    ),
    home(
        "agents",
        "An agent cannot be loaded, or has flaws",
        config_checks::check_agents,
    ),
    home(
        "plugins",
        "A plugin cannot be loaded",
        config_checks::check_plugins,
    ),
    home(
        "mcp-servers",
        "An MCP server of `config.toml` needs a secret that is not stored",
        config_checks::check_mcp_servers,
    ),
    machine(
        "backend-address",
        "No backend is set",
        backend_checks::check_address,
    ),
    machine(
        "proxy",
        "The proxy to the backend cannot be used or reached",
        backend_checks::check_proxy,
    ),
    machine(
        "backend",
        "The backend does not answer, or something else answers in its place",
        backend_checks::check_backend,
    ),
    machine(
        "tls",
        "The backend's certificate is not trusted, or it does not speak TLS",
        backend_checks::check_tls,
    ),
    machine(
        "clock",
        "This machine's clock and the backend's are more than two minutes apart",
        backend_checks::check_clock,
    ),
    home(
        "paired",
        "The backend does not know this device, or refuses it",
        backend_checks::check_paired,
    ),
    home(
        "session",
        "There is no session with the backend, or its file cannot be used",
        backend_checks::check_session,
    ),
    home(
        "approving-tokens",
        "The token that agents have may approve calls, too",
        token_checks::check_approving_tokens,
    ),
    home(
        "confinement",
        "Commands are not confined in full, or are refused for that",
        sandbox_checks::check_confinement,
    ),
    home(
        "namespaces",
        "The system makes no user namespaces for commands",
        sandbox_checks::check_namespaces,
    ),
    home(
        "processes",
        "The number of processes of a command is not limited",
        sandbox_checks::check_processes,
    ),
    home(
        "network",
        "Commands have another network than configured, or all of it",
        sandbox_checks::check_network,
    ),
    machine(
        "program",
        "`punie-runner` is not on your PATH, is another one there, or is old",
        program_checks::check_program,
    ),
    machine(
        "command-path",
        "PATH is missing, or has folders that others can write",
        program_checks::check_command_path,
    ),
    machine("git", "There is no git", program_checks::check_git),
    machine(
        "shell",
        "There is no bash, or your login shell is missing",
        program_checks::check_shell,
    ),
    machine(
        "service",
        "The service is installed and does not run",
        program_checks::check_service,
    ),
    machine(
        "linger",
        "The service ends when you log out",
        program_checks::check_linger,
    ),
    home("runner", "No runner runs", state_checks::check_runner),
    home(
        "runner-version",
        "This program and the running runner are of different versions",
        state_checks::check_runner_version,
    ),
    home(
        "other-process",
        "Another process works with this device's identity",
        state_checks::check_other_process,
    ),
    home(
        "canary",
        "The runner's own attempt to read, to write or to run a command failed",
        state_checks::check_canary,
    ),
    home("paused", "You paused new calls", state_checks::check_paused),
    home(
        "safe-mode",
        "The runner crashed several times and starts no calls",
        state_checks::check_safe_mode,
    ),
    home(
        "stopped",
        "A conversation was stopped in an editor",
        state_checks::check_stopped,
    ),
    home(
        "approvals",
        "Calls wait for your approval",
        state_checks::check_approvals,
    ),
    home(
        "questions",
        "The agent asks you something",
        state_checks::check_questions,
    ),
    home(
        "protected-files",
        "A protected file was changed and put back",
        state_checks::check_protected_files,
    ),
    home(
        "journal",
        "The journal is damaged, or of another version",
        state_checks::check_journal,
    ),
    home(
        "journal-repair",
        "The journal was damaged once and was repaired, or was missing or empty",
        state_checks::check_journal_repair,
    ),
    home(
        "undelivered",
        "Answers wait for a backend, or were refused by it",
        state_checks::check_undelivered,
    ),
    home(
        "audit",
        "Rows of the audit log were changed or removed, or cannot be written",
        state_checks::check_audit,
    ),
];
