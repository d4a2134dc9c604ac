//! The workspaces that the tools may use: named folders, or the current directory where a person started the command.
//! Not here: keeping the tools inside.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use super::config_setting::ConfigSetting;
use super::error::ConfigError;
use super::global_flags::GlobalFlags;
use super::sources::{self, ProcessEnvironment, ValueOrigin};
use punie_core::runner_home::{check_outside_homes, is_runner_home};
use punie_sandbox::follow_links;

/// The behaviour of a command if no workspace was named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkspaceRule {
    /// Fails: a service must not work in the folder where it happened to be started.
    Named,
    /// Uses the current directory: on a terminal, or for a one-time command.
    OrCurrentDir,
    /// Runs without a workspace.
    NotNeeded,
}

/// Resolves the workspaces in order, without duplicates or links. None may overlap the home, and no link in a folder
/// that commands write (another workspace, or `writes`) may lead to one.
///
/// One that is missing, as on an unplugged disk, stays in the list. If all are, a command that needs one, or whose flag
/// names them, fails: it could do nothing, and a mistyped path is told to the person who typed it.
pub(super) fn resolve_workspaces(
    flags: &GlobalFlags,
    environment: &ProcessEnvironment,
    from_file: (&[PathBuf], &ValueOrigin, &Path),
    (home, writes): (&Path, &[PathBuf]),
    rule: WorkspaceRule,
) -> Result<(Vec<PathBuf>, ConfigSetting), ConfigError> {
    let named = NamedWorkspaces::choose_source(flags, environment, from_file, home, rule)?;
    let NamedWorkspaces {
        paths,
        base,
        origin,
    } = named;
    let refused = |why| ConfigError::Workspace {
        origin: origin.clone(),
        why,
    };
    let mut workspaces = Vec::new();
    let mut resolved = Vec::new();
    let mut missing = Vec::new();
    for path in paths {
        if path.as_os_str().is_empty() {
            return Err(refused("a workspace's path is empty".to_owned()));
        }
        let full = environment.expand_path(&path, base);
        let full = full.ok_or_else(|| ConfigError::NoCurrentDir {
            origin: origin.clone(),
            path: path.clone(),
        })?;
        let real = sources::canonical_folder(&full).unwrap_or_else(|cause| {
            missing.push(format!("{} cannot be used: {cause}", full.display()));
            follow_links(&full)
        });
        check_outside_homes(&real, &sources::canonicalize_existing(home))
            .map_err(|why| refused(format!("the workspace {} {why}", real.display())))?;
        resolved.push((full, real.clone()));
        if !workspaces.contains(&real) {
            workspaces.push(real);
        }
    }
    let is_needed = rule != WorkspaceRule::NotNeeded || matches!(origin, ValueOrigin::Flag(_));
    if is_needed && !missing.is_empty() && missing.len() == resolved.len() {
        return Err(refused(format!(
            "the workspace {}. Make the folder, plug in its disk, or name another",
            missing.join(", the workspace ")
        )));
    }
    let writes = writes
        .iter()
        .map(|path| sources::canonicalize_existing(path));
    let written: Vec<PathBuf> = workspaces.iter().cloned().chain(writes).collect();
    if let Some(why) = resolved
        .iter()
        .find_map(|(full, real)| untrusted_link_error(full, real, &written))
    {
        return Err(refused(why));
    }
    let setting = ConfigSetting {
        key: "workspaces.paths",
        value: super::value::ConfigValue::to_toml(&workspaces).unwrap_or_default(),
        origin,
    };
    Ok((workspaces, setting))
}

/// The workspaces as they are named, the folder of relative ones, and the place of the names.
struct NamedWorkspaces<'a> {
    paths: Vec<PathBuf>,
    base: Option<&'a Path>,
    origin: ValueOrigin,
}

impl<'a> NamedWorkspaces<'a> {
    /// Takes the names of the flags, else of the environment, else of the file, else as the rule says.
    fn choose_source(
        flags: &GlobalFlags,
        environment: &'a ProcessEnvironment,
        (paths, file_origin, file): (&[PathBuf], &ValueOrigin, &'a Path),
        home: &Path,
        rule: WorkspaceRule,
    ) -> Result<Self, ConfigError> {
        let base = environment.current_dir();
        let named = |paths, base, origin| {
            Ok(Self {
                paths,
                base,
                origin,
            })
        };
        if !flags.workspaces.is_empty() {
            let origin = ValueOrigin::Flag("--workspace");
            return named(flags.workspaces.clone(), base, origin);
        }
        if let Some(list) = environment.get("PUNIE_WORKSPACE") {
            let origin = ValueOrigin::Variable("PUNIE_WORKSPACE");
            return named(split_list(list), base, origin);
        }
        if !paths.is_empty() {
            return named(paths.to_vec(), file.parent(), file_origin.clone());
        }
        match (rule, base) {
            (WorkspaceRule::OrCurrentDir, Some(current)) => {
                let paths = if is_own_folder(environment, current, home) {
                    find_project_folders(current, home)?
                } else {
                    vec![current.to_owned()]
                };
                named(paths, None, ValueOrigin::CurrentDir)
            }
            (WorkspaceRule::NotNeeded, _) => named(Vec::new(), None, ValueOrigin::Default),
            _ => Err(ConfigError::NoWorkspace {
                file: file.to_owned(),
            }),
        }
    }
}

/// Returns whether this is the user's own folder, or the one in which the runner's home lies.
fn is_own_folder(environment: &ProcessEnvironment, current: &Path, home: &Path) -> bool {
    let current = sources::canonicalize_existing(current);
    let is_current = |folder: &Path| sources::canonicalize_existing(folder) == current;
    environment.user_dir().is_some_and(is_current) || home.parent().is_some_and(is_current)
}

/// Finds the folders to work in below the user's own folder, whose hidden files hold keys and settings.
fn find_project_folders(current: &Path, home: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    let home = sources::canonicalize_existing(home);
    let mut found = sources::visible_folders(current);
    found.retain(|folder| {
        !home.starts_with(sources::canonicalize_existing(folder)) && !is_runner_home(folder)
    });
    if found.is_empty() {
        return Err(ConfigError::Value {
            origin: ValueOrigin::CurrentDir,
            why: format!(
                "{} holds keys and settings, and has no other folder to work in. Make one, and go there: mkdir project \
                 && cd project",
                current.display()
            ),
        });
    }
    Ok(found)
}

fn split_list(list: &OsStr) -> Vec<PathBuf> {
    std::env::split_paths(list)
        .filter(|path| !path.as_os_str().is_empty())
        .collect()
}

/// Explains why a workspace is refused if a link in a folder that commands write leads to it: a command may have
/// created that link.
fn untrusted_link_error(full: &Path, real: &Path, written: &[PathBuf]) -> Option<String> {
    let within = |above: &Path| {
        let place = sources::canonicalize_existing(above);
        written
            .iter()
            .any(|other| other != real && place.starts_with(other))
            .then_some(place)
    };
    let (above, place) = full
        .ancestors()
        .skip(1)
        .find_map(|above| Some((above, within(above)?)))?;
    let rest = full.strip_prefix(above).ok()?;
    // A path that leaves the folder by `..` is not below it.
    let goes_out = rest.components().any(|part| part == Component::ParentDir);
    let is_led = !goes_out && place.join(rest) != real;
    is_led.then(|| {
        format!(
            "the workspace {} is reached by a link in what commands write, where one of them may have put it. Name \
             what it leads to, {}, if that is what you mean",
            full.display(),
            real.display()
        )
    })
}
