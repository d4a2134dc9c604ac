//! The values that are masked in everything that leaves this machine.

use crate::config::ProcessEnvironment;
use punie_home::{BackendTokens, DeviceIdentity, Home, HomeFailureKind, SecretStore};
use punie_host::local::shell_start_files::read_start_file_secrets;
use punie_text::redact::{Redactor, Secret};

/// Masks the secrets and the people that this home knows.
pub(super) fn open_redactor(
    home: &Home,
    environment: &ProcessEnvironment,
) -> anyhow::Result<Redactor> {
    let redactor = Redactor::new(load_known_secrets(home, environment)?);
    #[cfg(feature = "people")]
    redactor.set_identity_map(std::sync::Arc::new(punie_home::IdentityMapStore::in_home(
        home,
    )));
    #[cfg(not(feature = "people"))]
    redactor.set_identity_map(std::sync::Arc::new(LeftOutPeople(home.identity_map_file())));
    Ok(redactor)
}

/// Refuses every call of a home that may have contacts: this build has no aliases for them.
#[cfg(not(feature = "people"))]
struct LeftOutPeople(std::path::PathBuf);

#[cfg(not(feature = "people"))]
impl punie_text::redact::people::IdentityMapSource for LeftOutPeople {
    fn load_if_changed(
        &self,
    ) -> Option<Result<Option<punie_text::redact::people::PersonAliases>, String>> {
        let found = self.0.symlink_metadata();
        if found.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
            return Some(Ok(None));
        }
        Some(Err(format!(
            "Refused: this device may replace names of people in what it answers ({}), and {}. The owner uses a program \
             with that part, or moves the file away",
            self.0.display(),
            crate::config::optional_parts::left_out_text("people")
        )))
    }
}

/// Loads the values to mask: the runner's keys and tokens, the owner's secrets, and those in the shells' start files.
fn load_known_secrets(
    home: &Home,
    environment: &ProcessEnvironment,
) -> anyhow::Result<Vec<Secret<String>>> {
    let mut known: Vec<_> = DeviceIdentity::private_key_text(home)?
        .into_iter()
        .collect();
    match SecretStore::in_home(home).values() {
        Ok(values) => known.extend(values),
        Err(error) if error.failure_kind() == HomeFailureKind::Safety => {
            return Err(error.into());
        }
        // A secret that cannot be read cannot be given to a command either; only copies elsewhere go unmasked.
        Err(error) => {
            tracing::error!(%error, "the owner's secrets cannot be read; they are neither given nor masked");
        }
    }
    for tokens in BackendTokens::for_all(home)?
        .into_iter()
        .chain([BackendTokens::unassigned(home)])
    {
        known.extend(tokens.read_all()?);
    }
    let in_start_files = environment.user_dir().map(read_start_file_secrets);
    known.extend(in_start_files.into_iter().flatten().map(Secret::new));
    Ok(known)
}
