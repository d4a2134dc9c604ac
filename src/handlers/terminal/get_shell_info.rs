//! get_shell_info: describes the shell and its environment.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::TerminalDeps;
use punie_host::terminals::{CommandLaunch, CreateTerminal, build_run_report, run_to_end};
use punie_tool::{DeclaredAccess, ErrorCode, Tool, ToolContext, ToolEffect, ToolError, ToolReply};

const INFO_TIMEOUT: Duration = Duration::from_secs(20);
/// Prints one labelled answer per line.
const INFO_SCRIPT: &str = "printf 'Shell: %s\\nVersion: %s\\nLogin shell: %s\\nWorking directory: %s\\nPATH: %s\\n' \
                         \"$BASH\" \"$BASH_VERSION ($MACHTYPE)\" \"${SHELL:-not set}\" \"$PWD\" \"$PATH\"";

/// Tell about the system: the shell of command lines, platform, PATH and folder, and what commands may do.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetShellInfo {}

impl Tool for GetShellInfo {
    const NAME: &'static str = "get_shell_info";
    const EFFECT: ToolEffect = ToolEffect::Reads;
    const EXAMPLES: &'static [&'static str] = &["{}", "{ }"];
    const LIMITS: &'static [&'static str] = &["20,000 ms"];
    type Deps = TerminalDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess::none()
    }

    async fn run(self, cx: &ToolContext, deps: &TerminalDeps) -> Result<ToolReply, ToolError> {
        let folder = deps.workspace.resolve_folder(None)?;
        let launch = CommandLaunch::Shell(INFO_SCRIPT.to_owned());
        let create = CreateTerminal {
            folders: cx.session_folders(),
            ..CreateTerminal::new(&cx.request, launch, folder)
        };
        let run = run_to_end(&deps.terminals, cx, create, INFO_TIMEOUT).await?;
        let concluded = build_run_report(&run, "The machine is very busy; ask again.");
        run.guard.release_guarded().await;
        let (answers, meta) = concluded?;
        if meta.exit_code != Some(0) {
            return Err(ToolError::new(
                ErrorCode::Io,
                format!("The shell could not be asked: {answers}"),
            ));
        }
        let platform = format!(
            "Platform: {} ({})",
            std::env::consts::OS,
            std::env::consts::ARCH
        );
        Ok(ToolReply::from_text(format!(
            "{platform}\n{answers}\n{}",
            (deps.command_rules)()
        )))
    }
}
