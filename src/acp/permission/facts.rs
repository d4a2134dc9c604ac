//! What a call touches, as far as its arguments tell: files, folders, commands. Not here: what the policy says to it.

use std::path::{Component, Path, PathBuf};

use serde_json::{Map, Value};

use super::patches;
use crate::acp::{RawPath, Workspace};
use crate::policy::shell::{self, Script};
use crate::policy::{Call, Place};
use crate::tool::{DEVICE, Effect, ToolSpec};

/// Keys whose value is a path, or a list of paths.
const PATH_KEYS: &[&str] = &["file_path", "path", "paths", "database_path"];
/// Keys that stop a program and say nothing to a shell.
const STOPPING_KEYS: &[&str] = &["ctrl-c", "ctrl-d", "ctrl-z"];
/// Files of redirections that are none.
const NO_FILES: &[&str] = &["/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty"];

/// The call as the policy sees it.
pub(super) fn of(workspace: &Workspace, tool: &ToolSpec, effect: Effect, args: &str) -> Call {
    let effect = match effect {
        Effect::Reads => "reads",
        Effect::Writes => "writes",
        Effect::Executes => "executes",
        Effect::AsksUser => "asks",
    };
    let mut call = Call { tool: tool.name.to_string(), effect, only_ends: tool.only_ends, ..Call::default() };
    let Some(Value::Object(args)) = tool.canonical(args).filter(|_| tool.origin == DEVICE) else {
        return call;
    };
    call.places = places(workspace, tool, &args);
    call.script = script(tool, &args);
    let folder = folder_of(workspace, tool, &args);
    if let Some(script) = &call.script {
        let redirects = script.commands.iter().flat_map(|simple| &simple.redirects);
        let targets =
            redirects.map(|redirect| &redirect.target).filter(|word| !NO_FILES.contains(&word.text.as_str()));
        let found = targets.map(|word| {
            let whole = Path::new(&word.text).is_absolute();
            match folder.as_deref().filter(|_| whole || !script.moves).or(whole.then_some(Path::new("/"))) {
                Some(folder) if word.literal => place(workspace, &folder.join(&word.text)),
                _ => Place { shown: word.raw.clone(), ..Place::default() },
            }
        });
        call.places.extend(found);
    }
    call
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
    if let Some(patch) = args.get("patch").and_then(Value::as_str) {
        return match patches::named_in(patch) {
            Some(paths) => paths.iter().map(|path| place(workspace, Path::new(path))).collect(),
            None => vec![Place { shown: "the files of the patch".to_owned(), ..Place::default() }],
        };
    }
    let values = PATH_KEYS.iter().filter_map(|key| args.get(*key));
    let texts = values.flat_map(|value| match value {
        Value::Array(many) => many.iter().filter_map(Value::as_str).collect(),
        one => Vec::from_iter(one.as_str()),
    });
    let mut places: Vec<Place> = texts.map(|text| place(workspace, Path::new(text))).collect();
    // These look at the whole workspace where nothing is named.
    let looks_around = matches!(tool.domain, "search" | "git") || tool.name == "list_files";
    if places.is_empty() && looks_around {
        places.push(place(workspace, workspace.first()));
    }
    places
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

/// The commands that a call runs.
fn script(tool: &ToolSpec, args: &Map<String, Value>) -> Option<Script> {
    let text = |key: &str| args.get(key).and_then(Value::as_str);
    let list = |key: &str| -> Option<Vec<String>> {
        let words = args.get(key)?.as_array()?;
        Some(words.iter().map(|word| word.as_str().unwrap_or_default().to_owned()).collect())
    };
    match tool.name.as_ref() {
        "Bash" | "SkillBash" => Some(with_variables(shell::read(text("command")?), args)),
        "run_command" => Some(match list("args") {
            Some(words) => Script::of_program(text("command")?, &words),
            None => shell::read(text("command")?),
        }),
        "OpenApp" => Some(Script::of_program(text("app")?, &list("args").unwrap_or_default())),
        "WriteShell" => typed(text("text"), &list("keys").unwrap_or_default()),
        _ => None,
    }
}

/// Variables of a call may change what its commands are, as those of a command line may.
fn with_variables(mut script: Script, args: &Map<String, Value>) -> Script {
    let Some(variables) = args.get("env").and_then(Value::as_object) else { return script };
    script.assigns |= !variables.is_empty();
    let mut values = variables.values().filter_map(Value::as_str);
    if values.any(|value| value.contains("$(") || value.contains('`')) {
        script.hidden.push("a variable holds text that looks like a substitution".to_owned());
    }
    script
}

/// What is typed may be a command, or the half of one: nobody can tell what the program makes of it.
fn typed(text: Option<&str>, keys: &[String]) -> Option<Script> {
    if text.is_none_or(str::is_empty) && keys.iter().all(|key| STOPPING_KEYS.contains(&key.as_str())) {
        return None;
    }
    let mut script = shell::read(text.unwrap_or_default());
    script.hidden.push("what is typed goes to a program that already runs".to_owned());
    Some(script)
}
