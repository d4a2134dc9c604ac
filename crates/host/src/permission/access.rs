//! Describes a call for the policy by its declared access: files, folders and commands.

use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use crate::local::argument_limit::check_argument_lengths;
use crate::{RawPath, Workspace, WorkspacePath};
use punie_policy::command_line::{CommandLine, CommandWord, read_command_line, read_program};
use punie_policy::{PolicyCall, TouchedPath};
use punie_tool::{
    CommandAccess, CommandFolder, DeclaredAccess, DefaultLocation, RequestedCommand, ToolEffect,
    ToolError, ToolSpec,
};

/// Keys that stop a program and are no input for a shell.
const STOPPING_KEYS: &[&str] = &["ctrl-c", "ctrl-d", "ctrl-z"];
/// Redirection targets that are not files.
const NO_FILES: &[&str] = &[
    "/dev/null",
    "/dev/stdin",
    "/dev/stdout",
    "/dev/stderr",
    "/dev/tty",
];

/// Describes a call for the policy.
///
/// # Errors
/// The command line is too long to be run; it is then not parsed either.
pub(super) fn describe_for_policy(
    workspace: &Workspace,
    tool: &ToolSpec,
    effect: ToolEffect,
    access: &DeclaredAccess,
) -> Result<PolicyCall, ToolError> {
    let script = access
        .command
        .as_ref()
        .map(parse_commands)
        .transpose()?
        .flatten();
    let mut places = accessed_places(workspace, access);
    if let Some(script) = &script {
        places.extend(redirection_targets(
            workspace,
            script,
            command_folder(workspace, access).as_deref(),
        ));
    }
    Ok(PolicyCall {
        tool: tool.name.to_string(),
        effect,
        only_ends: tool.only_ends,
        places,
        script,
    })
}

/// Returns the files that the redirections of a command line open.
fn redirection_targets(
    workspace: &Workspace,
    script: &CommandLine,
    folder: Option<&Path>,
) -> Vec<TouchedPath> {
    let redirects = script
        .commands
        .iter()
        .flat_map(|simple| &simple.redirections);
    // The text of a word that is not literal is incomplete.
    let is_none = |word: &&CommandWord| word.is_literal && NO_FILES.contains(&word.text.as_str());
    let targets = redirects
        .map(|redirect| &redirect.target)
        .filter(|word| !is_none(word));
    let place_of = |word: &CommandWord| {
        let whole = Path::new(&word.text).is_absolute();
        match folder
            .filter(|_| whole || !script.changes_folder)
            .or(whole.then_some(Path::new("/")))
        {
            Some(folder) if word.is_literal => {
                resolve_opened_file(workspace, &folder.join(&word.text))
            }
            _ => TouchedPath {
                shown: word.raw.clone(),
                ..TouchedPath::default()
            },
        }
    };
    targets.map(place_of).collect()
}

/// Returns the folder in which a call's commands run; `None` if it is unknown.
pub(super) fn command_folder(workspace: &Workspace, access: &DeclaredAccess) -> Option<PathBuf> {
    match access.command.as_ref().map(|command| &command.folder) {
        Some(CommandFolder::Named(given)) => workspace
            .resolve_inside(&RawPath::from(given.as_str()))
            .ok()
            .map(|found| found.absolute_path().to_owned()),
        Some(CommandFolder::Unknown(_)) => None,
        Some(CommandFolder::FirstWorkspace) | None => Some(workspace.first_root().to_owned()),
    }
}

fn accessed_places(workspace: &Workspace, access: &DeclaredAccess) -> Vec<TouchedPath> {
    let mut places: Vec<TouchedPath> = access
        .all_paths()
        .map(|path| describe_place(workspace, Path::new(path)))
        .collect();
    places.extend(access.unnamed.map(|shown| TouchedPath {
        shown: shown.to_owned(),
        ..TouchedPath::default()
    }));
    if let Some(name) = &access.file_or_program {
        // A bare name may be a file of the workspace. If there is no such file, it names a program.
        let folder =
            command_folder(workspace, access).unwrap_or_else(|| workspace.first_root().to_owned());
        let path = if name.starts_with('~') {
            PathBuf::from(name)
        } else {
            folder.join(name)
        };
        let is_file = name.contains('/') || path.exists();
        places.extend(is_file.then(|| resolve_opened_file(workspace, &path)));
    }
    if places.is_empty() {
        match &access.default_location {
            DefaultLocation::Nowhere => {}
            DefaultLocation::FirstWorkspace => {
                places.push(describe_place(workspace, workspace.first_root()));
            }
            DefaultLocation::AllWorkspaces(Some(base)) if workspace.root_paths().count() == 1 => {
                places.push(describe_place(workspace, Path::new(base)));
            }
            DefaultLocation::AllWorkspaces(_) => {
                places.extend(
                    workspace
                        .root_paths()
                        .map(|root| describe_place(workspace, root)),
                );
            }
        }
    }
    places
}

/// Resolves a file that a command opens through all symlinks, because commands are not confined to the workspace.
fn resolve_opened_file(workspace: &Workspace, path: &Path) -> TouchedPath {
    let mut place = describe_place(workspace, path);
    match resolve_symlinks(path) {
        Some(real) => {
            let below = workspace.paths_in_rules(&real);
            let below = below.into_iter().map(with_forward_slashes).collect();
            put_first(below, &mut place.relative);
            put_first(vec![with_forward_slashes(&real)], &mut place.absolute);
        }
        None => place.known = false,
    }
    place
}

fn put_first(mut spellings: Vec<String>, all: &mut Vec<String>) {
    all.retain(|known| !spellings.contains(known));
    spellings.append(all);
    *all = spellings;
}

/// Resolves a path through all symlinks; `None` if that fails. The part that does not exist has no symlinks.
fn resolve_symlinks(path: &Path) -> Option<PathBuf> {
    if !path.is_absolute() {
        return None;
    }
    let mut at = path.to_owned();
    let mut missing = PathBuf::new();
    loop {
        match fs::canonicalize(&at) {
            Ok(real) if missing.as_os_str().is_empty() => return Some(real),
            Ok(real) => return Some(real.join(missing)),
            Err(error)
                if error.kind() == ErrorKind::NotFound && fs::symlink_metadata(&at).is_err() =>
            {
                let Some(Component::Normal(name)) = at.components().next_back() else {
                    return None;
                };
                let behind = if missing.as_os_str().is_empty() {
                    PathBuf::from(name)
                } else {
                    Path::new(name).join(&missing)
                };
                missing = behind;
                if !at.pop() {
                    return None;
                }
            }
            Err(_) => return None,
        }
    }
}

/// Describes a path by all its spellings.
fn describe_place(workspace: &Workspace, path: &Path) -> TouchedPath {
    let text = path.to_string_lossy();
    let found = workspace.resolve_inside(&RawPath::from(text.as_ref())).ok();
    let asked = normalize_dots(&workspace.first_root().join(path));
    let real = found.as_ref().map(WorkspacePath::absolute_path);
    // The real path first: by it alone a rule allows.
    let asked = Some(asked.as_path()).filter(|asked| real != Some(asked));
    let mut relative = Vec::new();
    let mut absolute = Vec::new();
    for path in real.into_iter().chain(asked) {
        relative.extend(
            workspace
                .paths_in_rules(path)
                .into_iter()
                .map(with_forward_slashes),
        );
        absolute.push(with_forward_slashes(path));
    }
    TouchedPath {
        shown: text.clone().into_owned(),
        relative,
        absolute,
        known: true,
        is_folder: found.is_some_and(|found| {
            found
                .file_metadata()
                .is_ok_and(|metadata| metadata.is_dir())
        }),
    }
}

/// Removes `.` and `..` from a path, by its text alone.
fn normalize_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

fn with_forward_slashes(path: &Path) -> String {
    let text = path.to_string_lossy();
    if cfg!(windows) {
        text.replace('\\', "/")
    } else {
        text.into_owned()
    }
}

/// Parses the commands that a call runs. A line that is too long to be passed to a program is an error.
fn parse_commands(command: &CommandAccess) -> Result<Option<CommandLine>, ToolError> {
    let mut script = match &command.text {
        RequestedCommand::Line(line) => {
            check_argument_lengths([line.as_str()])?;
            read_command_line(line)
        }
        RequestedCommand::Program(name, words) => {
            check_argument_lengths(
                std::iter::once(name.as_str()).chain(words.iter().map(String::as_str)),
            )?;
            read_program(name, words)
        }
        RequestedCommand::Typed(text, keys) => return Ok(parse_typed_input(text, keys)),
    };
    // Variables of a call may change its commands, as those of a command line may.
    command
        .env
        .iter()
        .for_each(|(name, value)| script.add_variable(name, value));
    Ok(Some(script))
}

/// Parses typed text, which may be a command or part of one. The program that reads it is unknown.
fn parse_typed_input(text: &str, keys: &[String]) -> Option<CommandLine> {
    if text.is_empty() && keys.iter().all(|key| STOPPING_KEYS.contains(&key.as_str())) {
        return None;
    }
    let mut script = match check_argument_lengths([text]) {
        Ok(()) => read_command_line(text),
        // A shell reads longer input than an argument may be; such text is not parsed.
        Err(_) => CommandLine::default(),
    };
    script
        .unanalysed
        .push("what is typed goes to a program that already runs".to_owned());
    Some(script)
}
