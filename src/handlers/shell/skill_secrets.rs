//! The secrets of a skill for one of its commands: loaded, registered with the redactor, and mounted.

use std::sync::Arc;

use super::ShellDeps;
use punie_home::{
    HomeError, MountPlace, MountedSecretFile, MountedSecrets, SecretMount, SecretStore, Skill,
};
use punie_tool::{ErrorCode, ResultMeta, ToolError};

/// Mounts the secrets that the skill declares for one command. Returns them with warnings; `None` if it declares
/// none.
pub(super) async fn mount_secrets(
    deps: &ShellDeps,
    skill: &Skill,
) -> Result<(Option<Arc<MountedSecrets>>, Vec<String>), ToolError> {
    if skill.secrets.is_empty() {
        return Ok((None, Vec::new()));
    }
    let deps = deps.clone();
    let skill = skill.clone();
    let mounting = tokio::task::spawn_blocking(move || prepare_mount(&deps, &skill)).await;
    let (mounted, warnings) =
        mounting.map_err(|panicked| ToolError::internal(panicked.to_string()))??;
    Ok((Some(Arc::new(mounted)), warnings))
}

fn prepare_mount(
    deps: &ShellDeps,
    skill: &Skill,
) -> Result<(MountedSecrets, Vec<String>), ToolError> {
    let unusable = |error: HomeError| {
        tracing::error!(%error, skill = skill.id, "the secrets of a skill cannot be given to its command");
        let text = "The owner's secrets cannot be used just now, so nothing was run. The owner sees why with \
                    `punie-runner secrets list`.";
        ToolError::new(ErrorCode::Io, text)
    };
    let secrets = SecretStore::in_home(&deps.home);
    let mut variables = Vec::new();
    let mut files = Vec::new();
    let mut warnings = Vec::new();
    for SecretMount { provider, place } in &skill.secrets {
        let found = secrets.get(provider).map_err(unusable)?;
        let value = found.ok_or_else(|| missing_secret_error(provider))?;
        // Registered before a command can print it.
        if !deps.redactor.add_secret(&value) {
            warnings.push(format!(
                "The secret for {provider} is too short to be masked in output."
            ));
        }
        let (path, variable) = match place {
            MountPlace::Variable(name) => {
                variables.push((name.clone(), value));
                continue;
            }
            MountPlace::FileOf(variable) => (variable.into(), Some(variable.clone())),
            MountPlace::File(path) => (path.clone(), None),
        };
        files.push(MountedSecretFile {
            path,
            variable,
            value,
        });
    }
    secrets.record_use(skill.secrets.iter().map(|mount| mount.provider.as_str()));
    warnings.sort_unstable();
    warnings.dedup();
    let mounted = MountedSecrets::write(&deps.home, variables, files);
    Ok((mounted.map_err(unusable)?, warnings))
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
