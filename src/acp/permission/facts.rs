//! What a call touches, as far as its arguments tell: files, folders, commands. Not here: what the policy says to it.

#![expect(
    clippy::disallowed_methods,
    reason = "a redirection may lead out of the workspace; its path is only looked at"
)]

use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use serde_json::{Map, Value};

use super::patches::Named;
use crate::acp::local::arguments::check_pieces;
use crate::acp::{RawPath, Workspace};
use crate::policy::shell::{self, Script};
use crate::policy::{Call, Place};
use crate::tool::{DEVICE, Effect, ToolError, ToolSpec};

/// Keys whose value is a path, or a list of paths.
const PATH_KEYS: &[&str] = &["file_path", "path", "paths", "database_path"];
/// Keys that stop a program and say nothing to a shell.
const STOPPING_KEYS: &[&str] = &["ctrl-c", "ctrl-d", "ctrl-z"];
/// Files of redirections that are none.
const NO_FILES: &[&str] = &["/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty"];

/// The call as the policy sees it.
///
/// # Errors
/// A command line that is too long to be run is not read either.
pub(super) fn of(
    workspace: &Workspace,
    tool: &ToolSpec,
    effect: Effect,
    args: &str,
) -> Result<Call, ToolError> {
    let effect = match effect {
        Effect::Reads => "reads",
        Effect::Writes => "writes",
        Effect::Executes => "executes",
        Effect::AsksUser => "asks",
    };
    let mut call = Call { tool: tool.name.to_string(), effect, only_ends: tool.only_ends, ..Call::default() };
    let Some(Value::Object(args)) = tool.canonical(args).filter(|_| tool.origin == DEVICE) else {
        return Ok(call);
    };
    call.places = places(workspace, tool, &args);
    call.script = script(tool, &args)?;
    let folder = folder_of(workspace, tool, &args);
    if let Some(script) = &call.script {
        let redirects = script.commands.iter().flat_map(|simple| &simple.redirects);
        // Of a word that is not written out, its text is not all.
        let is_none = |word: &&shell::Word| word.literal && NO_FILES.contains(&word.text.as_str());
        let targets = redirects.map(|redirect| &redirect.target).filter(|word| !is_none(word));
        let found = targets.map(|word| {
            let whole = Path::new(&word.text).is_absolute();
            match folder.as_deref().filter(|_| whole || !script.moves).or(whole.then_some(Path::new("/"))) {
                Some(folder) if word.literal => target(workspace, &folder.join(&word.text)),
                _ => Place { shown: word.raw.clone(), ..Place::default() },
            }
        });
        call.places.extend(found);
    }
    Ok(call)
}

/// The folder in which a call's commands run; none where it cannot be told, or it runs none.
pub(super) fn folder(workspace: &Workspace, tool: &ToolSpec, args: &str) -> Option<PathBuf> {
    let args = tool.canonical(args)?;
    folder_of(workspace, tool, args.as_object()?)
}

fn folder_of(workspace: &Workspace, tool: &ToolSpec, args: &Map<String, Value>) -> Option<PathBuf> {
    let given = args.get("working_directory").or_else(|| args.get("cwd")).and_then(Value::as_str);
    match given {
        // A skill's own folder is not known here.
        _ if tool.name == "SkillBash" => None,
        Some(given) => workspace.resolve(&RawPath::from(given)).ok().map(|found| found.absolute().to_owned()),
        None => Some(workspace.first().to_owned()),
    }
}

fn places(workspace: &Workspace, tool: &ToolSpec, args: &Map<String, Value>) -> Vec<Place> {
    let text = |key: &str| args.get(key).and_then(Value::as_str);
    if let Some(patch) = text("patch") {
        let named = Named::of(patch);
        let mut places: Vec<Place> =
            named.paths.iter().map(|path| place(workspace, Path::new(path))).collect();
        if named.unclear {
            places.push(Place { shown: "the files of the patch".to_owned(), ..Place::default() });
        }
        return places;
    }
    if let Some(app) = text("app").map(str::trim).filter(|_| tool.name == "OpenApp") {
        // A bare name may be a file of the workspace, too; one that is none names a program.
        let folder = folder_of(workspace, tool, args).unwrap_or_else(|| workspace.first().to_owned());
        let path = if app.starts_with('~') { PathBuf::from(app) } else { folder.join(app) };
        let is_file = app.contains('/') || path.exists();
        return Vec::from_iter(is_file.then(|| target(workspace, &path)));
    }
    if let Some(base) = text("pattern").filter(|_| tool.name == "Glob").and_then(|pattern| {
        glob_base(pattern, text("path").unwrap_or_default(), workspace.roots().count() > 1)
    }) {
        return vec![place(workspace, Path::new(&base))];
    }
    let values = PATH_KEYS.iter().filter_map(|key| args.get(*key));
    let texts = values.flat_map(|value| match value {
        Value::Array(many) => many.iter().filter_map(Value::as_str).collect(),
        one => Vec::from_iter(one.as_str()),
    });
    let texts = texts.filter(|text| !text.is_empty());
    let mut places: Vec<Place> = texts.map(|text| place(workspace, Path::new(text))).collect();
    // These look at the whole workspace where nothing is named.
    if places.is_empty() && tool.domain == "search" {
        places.extend(workspace.roots().map(|root| place(workspace, root)));
    } else if places.is_empty() && (tool.domain == "git" || tool.name == "list_files") {
        places.push(place(workspace, workspace.first()));
    }
    places
}

/// The folder in which a pattern with folders of its own is looked for, where it has any: an absolute one stands for
/// itself, whatever folder is named beside it.
fn glob_base(pattern: &str, path: &str, several: bool) -> Option<String> {
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    let wild = pattern.find(['*', '?', '[', '{', '\\']).unwrap_or(pattern.len());
    let slash = pattern[..wild].rfind('/')?;
    let folder = if slash == 0 { "/" } else { &pattern[..slash] };
    let absolute = Path::new(folder).is_absolute();
    let anywhere = path.is_empty() && !absolute && several;
    if pattern.starts_with('!') || slash + 1 == pattern.len() || anywhere {
        return None;
    }
    let below = !absolute && !path.is_empty();
    Some(if below { format!("{}/{folder}", path.trim_end_matches('/')) } else { folder.to_owned() })
}

/// A file that a command opens, wherever links lead: nothing keeps it in the workspace.
fn target(workspace: &Workspace, path: &Path) -> Place {
    let mut place = place(workspace, path);
    match real(path) {
        Some(real) => {
            let below = workspace.roots().find_map(|root| real.strip_prefix(root).ok().map(slashed));
            for (spelling, all) in below
                .map(|below| (below, &mut place.relative))
                .into_iter()
                .chain([(slashed(&real), &mut place.absolute)])
            {
                all.retain(|known| *known != spelling);
                all.insert(0, spelling);
            }
        }
        None => place.known = false,
    }
    place
}

/// Where a path leads over all its links; none where that cannot be told. What does not exist yet has no links.
fn real(path: &Path) -> Option<PathBuf> {
    if !path.is_absolute() {
        return None;
    }
    let mut at = path.to_owned();
    let mut missing = PathBuf::new();
    loop {
        match fs::canonicalize(&at) {
            Ok(real) if missing.as_os_str().is_empty() => return Some(real),
            Ok(real) => return Some(real.join(missing)),
            Err(error) if error.kind() == ErrorKind::NotFound && fs::symlink_metadata(&at).is_err() => {
                let Some(Component::Normal(name)) = at.components().next_back() else { return None };
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

/// A path by all its spellings.
fn place(workspace: &Workspace, path: &Path) -> Place {
    let text = path.to_string_lossy();
    let found = workspace.resolve(&RawPath::from(text.as_ref())).ok();
    let asked = plainly(&workspace.first().join(path));
    let below = workspace.roots().find_map(|root| asked.strip_prefix(root).ok().map(slashed));
    let real = found.as_ref().map(|found| (slashed(found.relative()), slashed(found.absolute())));
    let (real_relative, real_absolute) = real.unzip();
    let spellings = |first: Option<String>, second: Option<String>| {
        let mut both: Vec<String> = first.into_iter().chain(second).collect();
        both.dedup();
        both
    };
    Place {
        shown: text.clone().into_owned(),
        relative: spellings(real_relative, below),
        absolute: spellings(real_absolute, Some(slashed(&asked))),
        known: true,
        is_folder: found.is_some_and(|found| found.metadata().is_ok_and(|metadata| metadata.is_dir())),
    }
}

/// A path without `.` and `..`, by its text alone.
fn plainly(path: &Path) -> PathBuf {
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

fn slashed(path: &Path) -> String {
    let text = path.to_string_lossy();
    if cfg!(windows) { text.replace('\\', "/") } else { text.into_owned() }
}

/// The commands that a call runs. What is too long for a program to be given is not even read.
fn script(tool: &ToolSpec, args: &Map<String, Value>) -> Result<Option<Script>, ToolError> {
    let text = |key: &str| args.get(key).and_then(Value::as_str);
    let list = |key: &str| -> Option<Vec<String>> {
        let words = args.get(key)?.as_array()?;
        Some(words.iter().map(|word| word.as_str().unwrap_or_default().to_owned()).collect())
    };
    let (name, words) = match tool.name.as_ref() {
        "Bash" | "SkillBash" => (text("command"), None),
        "run_command" => (text("command"), list("args")),
        "OpenApp" => (text("app").map(str::trim), Some(list("args").unwrap_or_default())),
        "WriteShell" => return Ok(typed(text("text"), &list("keys").unwrap_or_default())),
        _ => return Ok(None),
    };
    let Some(name) = name else { return Ok(None) };
    check_pieces(std::iter::once(name).chain(words.iter().flatten().map(String::as_str)))?;
    let script = match words {
        Some(words) => Script::of_program(name, &words),
        None => shell::read(name),
    };
    Ok(Some(with_variables(script, args)))
}

/// Variables of a call may change what its commands are, as those of a command line may.
fn with_variables(mut script: Script, args: &Map<String, Value>) -> Script {
    let Some(variables) = args.get("env").and_then(Value::as_object) else { return script };
    for (name, value) in variables {
        script.is_given(name, value.as_str().unwrap_or_default());
    }
    script
}

/// What is typed may be a command, or the half of one: nobody can tell what the program makes of it.
fn typed(text: Option<&str>, keys: &[String]) -> Option<Script> {
    if text.is_none_or(str::is_empty) && keys.iter().all(|key| STOPPING_KEYS.contains(&key.as_str())) {
        return None;
    }
    let text = text.unwrap_or_default();
    let mut script = match check_pieces([text]) {
        Ok(()) => shell::read(text),
        // A shell takes more on its input than a program in an argument; it is not read.
        Err(_) => Script::default(),
    };
    script.hidden.push("what is typed goes to a program that already runs".to_owned());
    Some(script)
}
