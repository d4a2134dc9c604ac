//! Packages that agents install: skills, themes, canvases and plugins, each with a receipt. A package is checked in a
//! staging folder and put in place with renames that a crash cannot leave half done.

mod canvas_package;
mod open_records;
mod package_conflicts;
mod package_content;
mod package_kind;
mod package_records;
mod package_store;
mod package_version;
mod plugin_package;
mod skill_package;
mod theme_package;

pub use canvas_package::CanvasPackage;
pub use package_conflicts::PackageError;
pub use package_kind::{PackageKind, check_package_id};
pub use package_records::{PackageReceipt, RemovedPackage};
pub use package_store::{InstallResult, InstalledPackage, ListedPackage, NewPackage, PackageStore};
pub use plugin_package::{PluginPackage, describe_plugin_package};
pub use skill_package::{SkillPackage, list_skill_secrets};
pub use theme_package::ThemePackage;
