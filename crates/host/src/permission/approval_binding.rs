//! Binds an approval to the folder, programs and scripts that a command line leads to. The arguments are part of the
//! request and cannot change, but the files can.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use punie_core::bounded_file::{FinalLink, open_regular_file};
use punie_core::content_hash::hash_content;
use punie_policy::PolicyCall;
use punie_policy::command_line::{
    CommandLine, CommandWord, SimpleCommand, changes_to_unknown_folder, runs_files,
};
use punie_tool::{ErrorCode, ToolError, ToolSpec};

/// Larger files are identified by size and modification time only.
const MAX_HASHED_BYTES: u64 = 256 << 20;
/// The most folders of a line in which its programs are searched.
const MAX_SEARCHED_FOLDERS: usize = 16;

/// Larger files that a line may only mean are identified so.
const MAX_HASHED_POSSIBLE_BYTES: u64 = 16 << 20;
/// The most files that a line may mean.
const MAX_POSSIBLE_FILES: usize = 64;

/// The most redirected files of one command.
const MAX_REDIRECTED_FILES: usize = 16;

/// Each file or folder with its digest.
type BoundDigests = Vec<(String, String)>;

/// Collects the files and folders that a call leads to at this moment.
pub(super) fn bind_call(
    call: &PolicyCall,
    folder: Option<&Path>,
    search_path: &str,
) -> BoundDigests {
    let mut bound = BoundDigests::new();
    for place in &call.places {
        // A replaced symlink leads elsewhere.
        record_digest(
            &mut bound,
            format!("the path {}", place.shown),
            place.absolute.join("\n"),
        );
    }
    let Some(script) = &call.script else {
        return bound;
    };
    if let Some(folder) = folder {
        record_digest(
            &mut bound,
            format!("the folder {}", folder.display()),
            folder_identity(folder),
        );
    }
    let moved = reachable_folders(script, folder);
    let folders: Vec<&Path> = folder
        .into_iter()
        .chain(moved.iter().map(PathBuf::as_path))
        .collect();
    let mut record = |path: &Path, max_bytes: u64| {
        let digest = fingerprint_file(path, max_bytes);
        record_digest(&mut bound, format!("the file {}", path.display()), digest);
    };
    let none = folders.is_empty().then_some(None);
    for folder in folders.iter().copied().map(Some).chain(none) {
        let search_paths = line_search_paths(script, folder);
        let search_paths: Vec<&str> = std::iter::once(search_path)
            .chain(search_paths.iter().map(String::as_str))
            .collect();
        for simple in &script.commands {
            for path in files_of_command(simple, folder, &search_paths) {
                record(&path, MAX_HASHED_BYTES);
            }
        }
    }
    for path in possible_files(script, &folders) {
        record(&path, MAX_HASHED_POSSIBLE_BYTES);
    }
    bound
}

/// Returns the files that a line may run although its words do not say so: those that it names anywhere.
fn possible_files(script: &CommandLine, folders: &[&Path]) -> Vec<PathBuf> {
    let texts = script.possible_files();
    let paths = texts
        .iter()
        .flat_map(|text| folders.iter().map(move |folder| folder.join(text)));
    let is_file = |path: &PathBuf| fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    paths.filter(is_file).take(MAX_POSSIBLE_FILES).collect()
}

/// Returns the folders of each PATH that a line sets, as far as its text names them, as a search path.
fn line_search_paths(script: &CommandLine, folder: Option<&Path>) -> Vec<String> {
    let Some(folder) = folder.and_then(Path::to_str) else {
        return Vec::new();
    };
    let named = |place: &str| {
        let place = place.replace("${PWD}", folder).replace("$PWD", folder);
        let is_unknown = place.contains(['$', '`', '~']) || place.contains(char::is_whitespace);
        (!is_unknown).then(|| Path::new(folder).join(place))
    };
    let searched = |written: &String| {
        let bare = written.replace(['"', '\''], "");
        let places: Vec<PathBuf> = bare.split(':').filter_map(named).collect();
        std::env::join_paths(places).ok()?.into_string().ok()
    };
    script.search_paths.iter().filter_map(searched).collect()
}

/// Returns the folders that a line changes to, each relative to the first folder and to those before it.
fn reachable_folders(script: &CommandLine, folder: Option<&Path>) -> Vec<PathBuf> {
    let Some(folder) = folder.filter(|_| script.changes_folder) else {
        return Vec::new();
    };
    let mut known = vec![folder.to_owned()];
    for simple in &script.commands {
        let Some((name, words)) = simple.words.split_first() else {
            continue;
        };
        if !matches!(name.text.as_str(), "cd" | "pushd") {
            continue;
        }
        let given = words
            .iter()
            .find(|word| word.is_literal && !word.text.starts_with('-'));
        for from in given.map(|_| known.clone()).into_iter().flatten() {
            let to = given.map_or_else(PathBuf::new, |word| from.join(&word.text));
            if known.len() < MAX_SEARCHED_FOLDERS && to.is_dir() && !known.contains(&to) {
                known.push(to);
            }
        }
    }
    known.split_off(1)
}

/// Returns the reason why a program or script of a line is known only when it runs, and so cannot be shown to the
/// person.
pub(super) fn unresolvable_program(call: &PolicyCall, folder: Option<&Path>) -> Option<String> {
    let script = call.script.as_ref()?;
    let mut known = reachable_folders(script, folder);
    known.extend(folder.map(Path::to_owned));
    let somewhere = script.commands.iter().any(changes_to_unknown_folder);
    let runs = |simple: &SimpleCommand| {
        let name = simple.words.first().map_or("", |name| &name.text);
        simple.opaque.is_some() || runs_files(name)
    };
    // A group with a redirection has no name, and any command in it may read the file.
    let runs_input = script.commands.iter().any(runs);
    let is_missing = |text: &str| {
        let is_found = || known.iter().any(|folder| folder.join(text).is_file());
        !text.starts_with('/') && (somewhere || (script.changes_folder && !is_found()))
    };
    for simple in &script.commands {
        let name = simple
            .words
            .first()
            .filter(|name| name.is_literal)
            .map_or("", |name| &name.text);
        if name.contains('/') && is_missing(name) {
            return Some(format!(
                "which file `{name}` is cannot be told before the line runs"
            ));
        }
        if script.sets_path && is_searched_in_path(name) {
            return Some(format!(
                "which program `{name}` is cannot be told before the line runs, for it sets PATH"
            ));
        }
        // The same name may be another script in another folder.
        let scripts = simple.script_files().words.into_iter();
        let scripts = scripts
            .filter(|_| somewhere)
            .find(|word| is_missing(&word.text));
        let given = simple
            .redirections
            .iter()
            .filter(|redirect| redirect.reads)
            .map(|redirect| &redirect.target);
        let is_unclear =
            |word: &&CommandWord| !word.is_literal || (somewhere && is_missing(&word.text));
        let reads = runs(simple) || (simple.words.is_empty() && runs_input);
        let given = given.filter(|_| reads).find(is_unclear);
        if let Some(word) = scripts.as_ref().or(given) {
            return Some(format!(
                "which file `{}` is cannot be told before the line runs",
                word.raw
            ));
        }
    }
    None
}

/// Returns a sentence about what a line runs that no yes can be bound to, for the question.
pub(super) fn describe_unbound(call: &PolicyCall, folder: Option<&Path>) -> Option<String> {
    let script = call.script.as_ref()?;
    let lies_here =
        |word: &CommandWord| folder.is_some_and(|folder| folder.join(&word.text).is_file());
    let is_installed = |simple: &&SimpleCommand| {
        let files = simple.python_module_files();
        !files.is_empty() && !files.iter().any(lies_here)
    };
    let read = script
        .commands
        .iter()
        .find(|simple| simple.runs_unknown_file());
    let read = read.map(|simple| {
        format!(
            "what `{}` runs is read only then, and your yes is bound only to the files that the line names",
            simple.short_text()
        )
    });
    let installed = script.commands.iter().find(is_installed).map(|simple| {
        format!(
            "the module of `{}` is not in this folder, and your yes is not bound to it",
            simple.short_text()
        )
    });
    let all = read.into_iter().chain(installed);
    all.reduce(|one, two| format!("{one}; {two}"))
}

/// Returns whether a shell searches PATH for a command of this name.
fn is_searched_in_path(name: &str) -> bool {
    const BUILTINS: &[&str] = &[
        ":", "alias", "builtin", "cd", "command", "declare", "echo", "eval", "exec", "exit",
        "export", "false", "local", "popd", "printf", "pushd", "pwd", "read", "readonly", "return",
        "set", "shift", "source", ".", "test", "[", "trap", "true", "typeset", "umask", "unset",
        "wait", "env",
    ];
    !name.is_empty() && !name.contains('/') && !BUILTINS.contains(&name)
}

/// Returns an error if something changed since the question was asked.
pub(super) fn check_binding(
    tool: &ToolSpec,
    before: &BoundDigests,
    now: &BoundDigests,
) -> Result<(), ToolError> {
    let Some((what, _)) = before
        .iter()
        .find(|one| !now.contains(one))
        .or_else(|| now.iter().find(|one| !before.contains(one)))
    else {
        return Ok(());
    };
    Err(ToolError::new(
        ErrorCode::PolicyDenied,
        format!(
            "{} was not run: {what} changed after a person had said yes to the call. Nothing was done. Ask again; the \
             person is then asked about what is there now.",
            tool.name
        ),
    ))
}

fn record_digest(bound: &mut BoundDigests, what: String, digest: String) {
    if !bound.iter().any(|(known, _)| *known == what) {
        bound.push((what, digest));
    }
}

/// Returns a command's program, its scripts, and the files that it reads by redirections.
fn files_of_command(
    simple: &SimpleCommand,
    folder: Option<&Path>,
    search_paths: &[&str],
) -> Vec<PathBuf> {
    let find = |name: &str| {
        let paths = search_paths.iter();
        paths
            .filter_map(|path| find_in_search_path(name, folder, path))
            .collect::<Vec<_>>()
    };
    let is_file = |path: &PathBuf| fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    // Without a folder only absolute paths can be resolved.
    let whole = |word: &CommandWord| {
        folder.or(Path::new(&word.text)
            .is_absolute()
            .then_some(Path::new("/")))
    };
    let path = |word: &CommandWord| Some(whole(word)?.join(&word.text));
    // A redirected file may be a script, which only the program decides.
    let read = simple
        .redirections
        .iter()
        .filter(|redirect| redirect.reads && redirect.target.is_literal);
    let mut found: Vec<PathBuf> = read
        .filter_map(|redirect| path(&redirect.target))
        .filter(is_file)
        .take(MAX_REDIRECTED_FILES)
        .collect();
    if let Some(name) = simple.words.first().filter(|name| name.is_literal) {
        found.extend(find(&name.text));
        let scripts = simple.script_files();
        let words = scripts.words.iter();
        let in_folder = words.clone().filter_map(path).filter(is_file);
        found.extend(in_folder.take(scripts.most));
        let searched = words.filter(|word| scripts.uses_search_path && !word.text.contains('/'));
        let in_path = searched.flat_map(|word| find(&word.text));
        found.extend(in_path.take(scripts.most));
    }
    found
}

/// Finds a program as a shell does.
fn find_in_search_path(name: &str, folder: Option<&Path>, search_path: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(folder.unwrap_or(Path::new("/")).join(name));
    }
    let folders = std::env::split_paths(search_path).filter(|place| place.is_absolute());
    folders
        .map(|place| place.join(name))
        .find(|path| fs::metadata(path).is_ok_and(|metadata| metadata.is_file()))
}

/// Identifies a file by its content and its resolved path.
fn fingerprint_file(path: &Path, max_bytes: u64) -> String {
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let content = hash(&real, max_bytes).unwrap_or_else(|error| error.kind().to_string());
    format!("{} {content}", real.display())
}

fn hash(path: &Path, max_bytes: u64) -> std::io::Result<String> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() || metadata.len() > max_bytes {
        return Ok(format!("{} {:?}", metadata.len(), metadata.modified().ok()));
    }
    // A command may put a pipe in its place now.
    let file = open_regular_file(path, FinalLink::Follow)?;
    Ok(STANDARD.encode(hash_content(file)?))
}

/// Identifies a folder independently of its name.
fn folder_identity(folder: &Path) -> String {
    match fs::metadata(folder) {
        #[cfg(unix)]
        Ok(metadata) => {
            use std::os::unix::fs::MetadataExt;
            format!("{} {}", metadata.dev(), metadata.ino())
        }
        #[cfg(not(unix))]
        Ok(_) => fs::canonicalize(folder)
            .unwrap_or_default()
            .display()
            .to_string(),
        Err(error) => error.kind().to_string(),
    }
}
