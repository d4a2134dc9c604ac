//! The secrets that a skill's head asks for: `secretMounts`, by environment variable or by file. Not here: giving them.

use std::collections::BTreeMap;

use serde::Deserialize;

/// What a head says under `secretMounts`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SecretMounts {
    env: BTreeMap<String, Mount>,
    files: BTreeMap<String, Mount>,
}

/// One secret: the name of its provider, alone or among other fields.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Mount {
    Name(String),
    Fields { provider: String },
}

impl SecretMounts {
    /// The providers, those of variables first.
    pub(super) fn providers(self) -> Vec<String> {
        let all = self.env.into_values().chain(self.files.into_values());
        all.map(|mount| match mount {
            Mount::Name(provider) | Mount::Fields { provider } => provider,
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::frontmatter;
    use super::*;

    #[derive(Debug, Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Head {
        secret_mounts: SecretMounts,
    }

    #[test]
    fn providers_are_named_alone_or_among_fields() {
        let text = "---\nsecretMounts:\n  env:\n    API_KEY: openai\n    OTHER:\n      provider: github\n      label: Work\n  \
                    files:\n    ~/.config/x/token: x_token\n---\nbody";
        let (head, _) = frontmatter::parse::<Head>(text).expect("a head");
        assert_eq!(head.secret_mounts.providers(), ["openai", "github", "x_token"]);
    }

    #[test]
    fn mounts_that_cannot_be_read_are_an_error_and_never_none() {
        for mounts in ["[a]", "{env: [a]}", "{env: {A: {name: x}}}", "{files: {f: 3}}"] {
            let text = format!("---\nsecretMounts: {mounts}\n---\n");
            assert!(frontmatter::parse::<Head>(&text).is_err(), "{mounts}");
        }
    }
}
