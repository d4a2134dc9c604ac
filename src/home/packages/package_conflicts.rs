//! The reasons why a package is refused, with the choices.

use std::path::Path;

use super::package_content::find_changes;
use super::package_kind::PackageKind;
use super::package_records::PackageReceipt;
use super::package_version::compare_versions;
use crate::command_hint::command_to_type;
use crate::error::HomeError;

/// The most changes that an error names.
const NAMED_CHANGES: usize = 5;

/// The reason why a package cannot be installed, removed or restored.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// The package itself is wrong.
    #[error("{0}")]
    Invalid(String),
    /// Something else is there; the text names the choices.
    #[error("{0}")]
    Conflict(String),
    /// There is no such package.
    #[error("{0}")]
    Missing(String),
    /// The home cannot be used.
    #[error(transparent)]
    Home(#[from] HomeError),
}

/// Refuses an update that is not one of the same package, unchanged since, to the same or a newer version.
pub(super) fn check_update(
    new: &PackageReceipt,
    present: &PackageReceipt,
    path: &Path,
) -> Result<(), PackageError> {
    let word = present.kind.as_str();
    let id = &present.id;
    let choices = format!(
        "Nothing was changed. Choose another id; or uninstall it first (UninstallPackage), which keeps it for `{}`; `{}` lists \
         what is installed",
        command_to_type(&format!("packages restore {word} {id}")),
        list_command()
    );
    let conflict = |why: String| Err(PackageError::Conflict(format!("{why}. {choices}")));
    if new.package != present.package {
        return conflict(format!(
            "the {word} {id:?} belongs to the package {:?}, not to {:?}",
            present.package, new.package
        ));
    }
    let changes = find_changes(path, &present.files).map_err(HomeError::unreadable(path))?;
    if !changes.is_empty() {
        let named: Vec<&str> = changes
            .iter()
            .take(NAMED_CHANGES)
            .map(String::as_str)
            .collect();
        let more = if changes.len() > NAMED_CHANGES {
            " and more"
        } else {
            ""
        };
        return conflict(format!(
            "the {word} {id:?} was changed since it was installed ({}{more})",
            named.join(", ")
        ));
    }
    match (&new.version, &present.version) {
        (Some(new), Some(present)) if compare_versions(new, present).is_lt() => conflict(format!(
            "the {word} {id:?} is installed in version {present}, which is newer than {new}"
        )),
        _ => Ok(()),
    }
}

pub(super) fn foreign_item_error(kind: PackageKind, id: &str, path: &Path) -> PackageError {
    PackageError::Conflict(format!(
        "there is a {} {id:?} already, which no package installed: {}. Nothing was changed. Choose another id, or have the \
         owner move it away; `{}` lists what packages installed",
        kind.as_str(),
        path.display(),
        list_command()
    ))
}

pub(super) fn list_command() -> String {
    command_to_type("packages")
}
