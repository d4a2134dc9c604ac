//! The secrets that a skill's head requests under `secretMounts`, by environment variable or by file. Not here: passing
//! them to commands (mounted_secrets).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use punie_core::variable_name::is_variable_name;
use serde::Deserialize;

/// One secret for a skill's commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretMount {
    /// The name of the secret in the owner's store.
    pub provider: String,
    /// The variable or file through which commands get it.
    pub place: MountPlace,
}

/// The variable or file through which commands get a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MountPlace {
    /// The value of this variable.
    Variable(String),
    /// A file, with its path in this variable.
    FileOf(String),
    /// A file at this path below the folder of the command's secrets.
    File(PathBuf),
}

/// The entries under `secretMounts` in a head.
#[derive(Debug, Default, Deserialize)]
#[serde(try_from = "Written")]
pub(super) struct SecretMounts(Vec<SecretMount>);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Written {
    env: BTreeMap<String, SecretMountEntry>,
    files: BTreeMap<String, SecretMountEntry>,
}

/// One secret: the name of its provider, alone or among other fields.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum SecretMountEntry {
    Name(String),
    Fields { provider: String },
}

impl SecretMountEntry {
    fn into_provider(self) -> String {
        match self {
            Self::Name(provider) | Self::Fields { provider } => provider,
        }
    }
}

impl SecretMounts {
    /// Returns the mounts, variables first.
    pub(super) fn into_mounts(self) -> Vec<SecretMount> {
        self.0
    }
}

impl TryFrom<Written> for SecretMounts {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let mut list = Vec::new();
        for (name, mount) in written.env {
            if !is_variable_name(&name) {
                return Err(format!(
                    "secretMounts: {name:?} under env is not a variable's name"
                ));
            }
            list.push(SecretMount {
                provider: mount.into_provider(),
                place: MountPlace::Variable(name),
            });
        }
        let mut places = BTreeSet::new();
        for (name, mount) in written.files {
            let place = parse_file_mount(&name).ok_or_else(|| {
                format!("secretMounts: {name:?} under files is neither a variable's name nor a path of plain names")
            })?;
            if let MountPlace::File(path) = &place
                && !places.insert(path.clone())
            {
                return Err(format!(
                    "secretMounts: {} stands twice under files",
                    path.display()
                ));
            }
            list.push(SecretMount {
                provider: mount.into_provider(),
                place,
            });
        }
        let paths: Vec<&PathBuf> = places.iter().collect();
        if let Some(pair) = paths.windows(2).find(|pair| pair[1].starts_with(pair[0])) {
            return Err(format!(
                "secretMounts: {} would be a file and a folder",
                pair[0].display()
            ));
        }
        Ok(Self(list))
    }
}

/// Parses a variable's name, or a path relative to the folder of the command's secrets. An absolute path is made
/// relative too, so that no file of the owner is overwritten or removed.
fn parse_file_mount(name: &str) -> Option<MountPlace> {
    if is_variable_name(name) {
        return Some(MountPlace::FileOf(name.to_owned()));
    }
    let below = name
        .strip_prefix("~/")
        .unwrap_or(name)
        .trim_start_matches('/');
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if name.contains(['\0', '\\']) || !Path::new(below).components().all(plain) {
        return None;
    }
    let path: PathBuf = Path::new(below)
        .components()
        .filter(|part| *part != Component::CurDir)
        .collect();
    (path.components().count() > 0 && path.as_os_str().len() <= 200)
        .then_some(MountPlace::File(path))
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

    fn mounts(text: &str) -> Result<Vec<SecretMount>, String> {
        let text = format!("---\nsecretMounts: {text}\n---\n");
        let parsed =
            frontmatter::parse_frontmatter::<Head>(&text).map_err(|error| error.to_string())?;
        Ok(parsed.fields.secret_mounts.into_mounts())
    }

    #[test]
    fn providers_are_named_alone_or_among_fields() {
        let list = mounts(
            "{env: {API_KEY: openai, OTHER: {provider: github, label: Work}}, files: {~/.config/x/token: x_token, \
             CREDENTIALS: service}}",
        )
        .expect("mounts");
        let mount = |provider: &str, place| SecretMount {
            provider: provider.to_owned(),
            place,
        };
        assert_eq!(
            list,
            [
                mount("openai", MountPlace::Variable("API_KEY".to_owned())),
                mount("github", MountPlace::Variable("OTHER".to_owned())),
                mount("service", MountPlace::FileOf("CREDENTIALS".to_owned())),
                mount("x_token", MountPlace::File(".config/x/token".into())),
            ]
        );
    }

    #[test]
    fn mounts_that_cannot_be_read_are_an_error_and_never_none() {
        for text in [
            "[a]",
            "{env: [a]}",
            "{env: {A: {name: x}}}",
            "{files: {f: 3}}",
            "{env: {A-B: x}}",
            "{env: {'': x}}",
            "{files: {../x: y}}",
            "{files: {~/a/../../b: y}}",
            "{files: {/: y}}",
            "{files: {~/a.b: y, /a.b: z}}",
            "{files: {a.d/b: y, a.d: z}}",
        ] {
            assert!(mounts(text).is_err(), "{text}");
        }
    }
}
