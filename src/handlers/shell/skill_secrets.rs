//! The secrets of a skill for one of its commands: loaded, registered with the redactor, and mounted. Not here:
//! storing secrets, the mounted files, and the command.

use std::sync::Arc;

use super::ShellDeps;
use crate::home::{
    Home, HomeError, MountPlace, MountedSecretFile, MountedSecrets, SecretMount, SecretStore, Skill,
};
use crate::redact::Redactor;
use crate::tool::{ErrorCode, ResultMeta, ToolError};

/// The reason why a skill's secrets are unavailable.
enum SkillSecretError {
    Missing(String),
    Home(HomeError),
}

/// Mounts the secrets that the skill declares for one command. Returns them with warnings; `None` if it declares
/// none.
pub(super) async fn mount_secrets(
    deps: &ShellDeps,
    skill: &Skill,
) -> Result<(Option<Arc<MountedSecrets>>, Vec<String>), ToolError> {
    if skill.secrets.is_empty() {
        return Ok((None, Vec::new()));
    }
    let (home, redactor, declared) = (
        deps.home.clone(),
        deps.redactor.clone(),
        skill.secrets.clone(),
    );
    let laying_out =
        tokio::task::spawn_blocking(move || prepare_mount(&home, &redactor, declared)).await;
    match laying_out.map_err(|panicked| ToolError::internal_error(panicked.to_string()))? {
        Ok((mounted, warnings)) => Ok((Some(Arc::new(mounted)), warnings)),
        Err(SkillSecretError::Missing(provider)) => Err(missing_secret_error(&provider)),
        Err(SkillSecretError::Home(error)) => {
            tracing::error!(%error, skill = skill.id, "the secrets of a skill cannot be given to its command");
            let text = "The owner's secrets cannot be used just now, so nothing was run. The owner sees why with \
                        `punie-runner secrets list`.";
            Err(ToolError::new(ErrorCode::Io, text))
        }
    }
}

fn prepare_mount(
    home: &Home,
    redactor: &Redactor,
    declared: Vec<SecretMount>,
) -> Result<(MountedSecrets, Vec<String>), SkillSecretError> {
    let secrets = SecretStore::in_home(home);
    let (mut variables, mut files, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
    for SecretMount { provider, place } in declared {
        let found = secrets
            .get_secret(&provider)
            .map_err(SkillSecretError::Home)?;
        let value = found.ok_or_else(|| SkillSecretError::Missing(provider.clone()))?;
        // Registered before a command can print it.
        if !redactor.add_secret(&value) {
            warnings.push(format!(
                "The secret for {provider} is too short to be masked in output."
            ));
        }
        match place {
            MountPlace::Variable(name) => variables.push((name, value)),
            MountPlace::FileOf(variable) => {
                files.push(MountedSecretFile {
                    path: variable.clone().into(),
                    variable: Some(variable),
                    value,
                });
            }
            MountPlace::File(path) => files.push(MountedSecretFile {
                path,
                variable: None,
                value,
            }),
        }
    }
    warnings.sort_unstable();
    warnings.dedup();
    let mounted = MountedSecrets::write_mounted_secrets(home, variables, files)
        .map_err(SkillSecretError::Home)?;
    Ok((mounted, warnings))
}

fn missing_secret_error(provider: &str) -> ToolError {
    let hint = format!(
        "Nothing was run. The owner can store it on this machine: punie-runner secrets set {provider}. A command that \
         needs no secret can be run with Bash."
    );
    let meta = ResultMeta {
        warnings: vec![hint],
        ..ResultMeta::default()
    };
    ToolError::new(
        ErrorCode::PolicyDenied,
        format!("Missing secret for {provider}."),
    )
    .with_meta(meta)
}
