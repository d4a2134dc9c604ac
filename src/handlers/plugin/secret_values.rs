//! Values of variables and headers that name secrets of the owner: `${secret:NAME}`.

use std::collections::BTreeMap;

use super::PluginDeps;
use punie_home::SecretStore;
use punie_text::redact::Secret;
use punie_tool::{ErrorCode, ToolError};

const OPENING: &str = "${secret:";

/// Puts the secrets into these values. They are masked in all output from then on, and so are values whose names look like
/// those of secrets.
pub(super) async fn resolve_values(
    values: &BTreeMap<String, String>,
    deps: &PluginDeps,
) -> Result<Vec<(String, String)>, ToolError> {
    if values.is_empty() {
        return Ok(Vec::new());
    }
    let values = values.clone();
    let deps = deps.clone();
    let resolving = tokio::task::spawn_blocking(move || {
        let secrets = SecretStore::in_home(&deps.home);
        let resolve = |(name, value): (String, String)| {
            let resolved = insert_secrets(&value, |wanted| {
                let found = secrets.get(wanted).map_err(|error| {
                    tracing::error!(%error, "the secrets of an MCP server cannot be read");
                    let text = "The owner's secrets cannot be used just now. The owner sees why with `punie-runner \
                                secrets list`.";
                    ToolError::new(ErrorCode::Io, text)
                })?;
                let found = found.ok_or_else(|| missing_secret_error(wanted))?;
                deps.redactor.add_secret(&found);
                secrets.record_use([wanted].into_iter());
                Ok(found.expose().clone())
            })?;
            if names_secret(&name) {
                deps.redactor.add_secret(&Secret::new(resolved.clone()));
            }
            Ok((name, resolved))
        };
        values.into_iter().map(resolve).collect()
    });
    let resolved = resolving.await;
    resolved.map_err(|panicked| ToolError::internal(panicked.to_string()))?
}

/// Returns whether the value of a variable or header of this name is probably a secret.
pub fn names_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let words = [
        "KEY",
        "TOKEN",
        "SECRET",
        "PASSWORD",
        "AUTHORIZATION",
        "COOKIE",
    ];
    words.iter().any(|word| name.contains(word))
}

/// Returns the names of the secrets in a value.
pub fn list_secret_names(value: &str) -> Vec<&str> {
    let parts = value.split(OPENING).skip(1);
    let names = parts.filter_map(|part| part.split_once('}'));
    names.map(|(name, _)| name).collect()
}

/// Writes the reference to a secret.
pub fn secret_reference(name: &str) -> String {
    format!("{OPENING}{name}}}")
}

fn insert_secrets(
    value: &str,
    mut find: impl FnMut(&str) -> Result<String, ToolError>,
) -> Result<String, ToolError> {
    let mut text = String::new();
    let mut rest = value;
    while let Some((before, after)) = rest.split_once(OPENING)
        && let Some((name, after)) = after.split_once('}')
    {
        text.push_str(before);
        text.push_str(&find(name)?);
        rest = after;
    }
    text.push_str(rest);
    Ok(text)
}

fn missing_secret_error(name: &str) -> ToolError {
    ToolError::new(
        ErrorCode::PolicyDenied,
        format!(
            "Its settings name the secret {name:?}, which is not stored. The owner can store it on this machine: \
             punie-runner secrets set {name}."
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_take_the_places_of_their_names() {
        let find = |name: &str| Ok(format!("<{name}>"));
        for (value, resolved) in [
            ("Bearer ${secret:a}", "Bearer <a>"),
            ("${secret:a}${secret:b.c}", "<a><b.c>"),
            ("$HOME ${x} ${secret:open", "$HOME ${x} ${secret:open"),
        ] {
            assert_eq!(insert_secrets(value, find).expect(value), resolved);
        }
        assert_eq!(list_secret_names("x ${secret:a} ${secret:b}"), ["a", "b"]);
        assert!(names_secret("GITHUB_TOKEN") && names_secret("x-api-key") && !names_secret("PATH"));
    }
}
