//! The secrets of a skill for one of its commands: loaded, registered with the redactor, and mounted. Not here:
//! storing secrets, the mounted files, and the command.

use std::sync::Arc;

use super::ShellDeps;
use crate::home::{Home, HomeError, MountPlace, Mounted, MountedFile, SecretMount, Secrets, Skill};
use crate::redact::Redactor;
use crate::tool::{ErrorCode, Meta, ToolError};

/// The reason why a skill's secrets are unavailable.
enum Trouble {
    Missing(String),
    Home(HomeError),
}

/// Mounts the secrets that the skill declares for one command. Returns them with warnings; `None` if it declares
/// none.
pub(super) async fn mount(
    deps: &ShellDeps,
    skill: &Skill,
) -> Result<(Option<Arc<Mounted>>, Vec<String>), ToolError> {
    if skill.secrets.is_empty() {
        return Ok((None, Vec::new()));
    }
    let (home, redactor, declared) = (deps.home.clone(), deps.redactor.clone(), skill.secrets.clone());
    let laying_out = tokio::task::spawn_blocking(move || lay_out(&home, &redactor, declared)).await;
    match laying_out.map_err(|panicked| ToolError::internal(panicked.to_string()))? {
        Ok((mounted, warnings)) => Ok((Some(Arc::new(mounted)), warnings)),
        Err(Trouble::Missing(provider)) => Err(missing(&provider)),
        Err(Trouble::Home(error)) => {
            tracing::error!(%error, skill = skill.id, "the secrets of a skill cannot be given to its command");
            let text = "The owner's secrets cannot be used just now, so nothing was run. The owner sees why with \
                        `punie-runner secrets list`.";
            Err(ToolError::new(ErrorCode::Io, text))
        }
    }
}

fn lay_out(
    home: &Home,
    redactor: &Redactor,
    declared: Vec<SecretMount>,
) -> Result<(Mounted, Vec<String>), Trouble> {
    let secrets = Secrets::of(home);
    let (mut variables, mut files, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
    for SecretMount { provider, place } in declared {
        let found = secrets.get(&provider).map_err(Trouble::Home)?;
        let value = found.ok_or_else(|| Trouble::Missing(provider.clone()))?;
        // Registered before a command can print it.
        if !redactor.add(&value) {
            warnings.push(format!("The secret for {provider} is too short to be masked in output."));
        }
        match place {
            MountPlace::Variable(name) => variables.push((name, value)),
            MountPlace::FileOf(variable) => {
                files.push(MountedFile { path: variable.clone().into(), variable: Some(variable), value });
            }
            MountPlace::File(path) => files.push(MountedFile { path, variable: None, value }),
        }
    }
    warnings.sort_unstable();
    warnings.dedup();
    let mounted = Mounted::lay_out(home, variables, files).map_err(Trouble::Home)?;
    Ok((mounted, warnings))
}

fn missing(provider: &str) -> ToolError {
    let hint = format!(
        "Nothing was run. The owner can store it on this machine: punie-runner secrets set {provider}. A command that \
         needs no secret can be run with Bash."
    );
    let meta = Meta { warnings: vec![hint], ..Meta::default() };
    ToolError::new(ErrorCode::PolicyDenied, format!("Missing secret for {provider}.")).with_meta(meta)
}
