//! The question to the owner whether commands may run where the system cannot confine them in full.

use std::io::IsTerminal;

use super::context::{CliContext, command_runtime};
use super::{console, init, wiring};
use crate::config::{Config, ValueOrigin};
use punie_home::{ConfigLock, Home};
use punie_sandbox::{ConfinementLevel, EscapeAttempt, RequiredLevel};

const NEEDS_NAMESPACES: &str =
    "  - user namespaces. On Ubuntu 23.10 and later: an AppArmor profile for punie-runner \
that allows `userns`, or sysctl kernel.apparmor_restrict_unprivileged_userns=0. On Debian: sysctl \
kernel.unprivileged_userns_clone=1. Containers usually cannot have them.
";
const NEEDS_KERNEL: &str = "  - Linux 6.12 or later, with Landlock.
";

/// Asks the owner once whether commands may run at the partial level that the self-test proved, and writes the answer
/// into the configuration file as `require`. Without a terminal, prints the line to add.
pub(super) fn ask_about_level(
    context: &CliContext,
    config: &Config,
    home: &Home,
) -> anyhow::Result<()> {
    let is_decided = config.value_origin("sandbox.require") != Some(&ValueOrigin::Default);
    if is_decided || !config.sandbox.confine {
        return Ok(());
    }
    let confinement = wiring::build_confinement(config, home, context.environment());
    let level = command_runtime()?.block_on(confinement.level());
    let ConfinementLevel::Partial(open) = &level else {
        return Ok(());
    };
    if level.meets_requirement(config.sandbox.require)
        || !level.meets_requirement(RequiredLevel::Partial)
    {
        return Ok(());
    }
    let file = config.file.display();
    console::print_stderr(&describe_level(&level, open));
    if context.is_json() || !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        console::print_stderr(&format!(
            "Commands are refused. To let them run all the same, add under [sandbox] in {file}:\n  require = \"partial\"\n"
        ));
        return Ok(());
    }
    let question = "Let commands run all the same? Without it they are refused. [y/N] ";
    let Some(answer) = console::ask_line(question)? else {
        return Ok(());
    };
    let required = match answer.as_str() {
        "y" | "Y" | "yes" => RequiredLevel::Partial,
        _ => RequiredLevel::Full,
    };
    let key = ["sandbox", "require"];
    let lock = ConfigLock::acquire(home)?;
    init::store_key(&lock, &config.file, key, required.as_str())?;
    console::print_stderr(&format!(
        "Wrote require = \"{}\" under [sandbox] in {file}; change it there.\n",
        required.as_str()
    ));
    Ok(())
}

/// Describes the access that commands have at this level, and the remedies.
fn describe_level(level: &ConfinementLevel, open: &[EscapeAttempt]) -> String {
    let mut text = format!(
        "This system cannot confine commands in full: the level is {level}. Commands write no files outside of the \
         workspaces and read no hidden ones. But:\n"
    );
    for escape in open {
        text.extend(["  - ", escape.describe_risk(), "\n"]);
    }
    text += "The full level needs:\n";
    if open.iter().any(|escape| escape.needs_namespaces()) {
        text += NEEDS_NAMESPACES;
    }
    if open.iter().any(|escape| !escape.needs_namespaces()) {
        text += NEEDS_KERNEL;
    }
    text
}
