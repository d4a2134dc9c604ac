//! What a person's yes is bound to: the folder, and the programs and scripts that a command line leads to. Arguments
//! are the request's own and cannot change; what they lead to can. Not here: the asking.
#![expect(clippy::disallowed_methods, reason = "programs are looked up as a shell would, and only read")]

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::policy::Call;
use crate::policy::shell::{Script, Simple};
use crate::tool::{ErrorCode, ToolError, ToolSpec};

/// A larger file is known by its size and time only.
const LARGEST: u64 = 256 << 20;
/// Programs that run a file which they are given.
const RUN_FILES: &[&str] = &[
    "bash", "sh", "dash", "zsh", "ksh", "fish", "source", ".", "python", "python3", "node", "perl", "ruby",
    "php", "make", "deno", "bun", "lua",
];

/// The most folders of a line in which its programs are looked for.
const MOST_FOLDERS: usize = 16;

/// Each thing with its digest.
type Bound = Vec<(String, String)>;

/// What a call leads to at this moment.
pub(super) fn of(call: &Call, folder: Option<&Path>, search_path: &str) -> Bound {
    let mut bound = Bound::new();
    for place in &call.places {
        // A link that is swapped leads elsewhere.
        note(&mut bound, format!("the path {}", place.shown), place.absolute.join("\n"));
    }
    let Some(script) = &call.script else { return bound };
    if let Some(folder) = folder {
        note(&mut bound, format!("the folder {}", folder.display()), identity(folder));
    }
    let moved = moved_to(script, folder);
    for simple in &script.commands {
        for folder in folder.map_or(vec![None], |folder| {
            std::iter::once(folder).chain(moved.iter().map(PathBuf::as_path)).map(Some).collect()
        }) {
            for path in files_of(simple, folder, search_path) {
                let digest = digest(&path);
                note(&mut bound, format!("the file {}", path.display()), digest);
            }
        }
    }
    bound
}

/// The folders that a line goes to, each from where it began and from those before it.
fn moved_to(script: &Script, folder: Option<&Path>) -> Vec<PathBuf> {
    let Some(folder) = folder.filter(|_| script.moves) else { return Vec::new() };
    let mut known = vec![folder.to_owned()];
    for simple in &script.commands {
        let Some((name, words)) = simple.words.split_first() else { continue };
        if !matches!(name.text.as_str(), "cd" | "pushd") {
            continue;
        }
        let given = words.iter().find(|word| word.literal && !word.text.starts_with('-'));
        for from in given.map(|_| known.clone()).into_iter().flatten() {
            let to = given.map_or_else(PathBuf::new, |word| from.join(&word.text));
            if known.len() < MOST_FOLDERS && to.is_dir() && !known.contains(&to) {
                known.push(to);
            }
        }
    }
    known.split_off(1)
}

/// Which programs of a line that moves are found nowhere: nobody can be shown what they are.
pub(super) fn unfound(call: &Call, folder: Option<&Path>) -> Option<String> {
    let script = call.script.as_ref().filter(|script| script.moves)?;
    let mut known = moved_to(script, folder);
    known.extend(folder.map(Path::to_owned));
    let mut named =
        script.commands.iter().filter_map(|simple| simple.words.first()).filter(|name| name.literal);
    let relative = |text: &str| text.contains('/') && !text.starts_with('/');
    let missing = named
        .find(|name| relative(&name.text) && !known.iter().any(|folder| folder.join(&name.text).is_file()))?;
    Some(format!("which file `{}` is cannot be told before the line runs", missing.text))
}

/// Refuses what is not what was asked about.
pub(super) fn compare(tool: &ToolSpec, before: &Bound, now: &Bound) -> Result<(), ToolError> {
    let Some((what, _)) =
        before.iter().find(|one| !now.contains(one)).or_else(|| now.iter().find(|one| !before.contains(one)))
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

fn note(bound: &mut Bound, what: String, digest: String) {
    if !bound.iter().any(|(known, _)| *known == what) {
        bound.push((what, digest));
    }
}

/// The program of a command, and the script that it is given.
fn files_of(simple: &Simple, folder: Option<&Path>, search_path: &str) -> Vec<PathBuf> {
    let Some((name, words)) = simple.words.split_first().filter(|(name, _)| name.literal) else {
        return Vec::new();
    };
    let mut found = Vec::from_iter(program(&name.text, folder, search_path));
    let base = Path::new(&name.text).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if RUN_FILES.contains(&base) {
        let named = words.iter().filter(|word| word.literal && !word.text.starts_with('-'));
        let paths = named.filter_map(|word| Some(folder?.join(&word.text)));
        found
            .extend(paths.filter(|path| fs::metadata(path).is_ok_and(|metadata| metadata.is_file())).take(2));
    }
    found
}

/// Where a shell finds a program.
fn program(name: &str, folder: Option<&Path>, search_path: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(folder.unwrap_or(Path::new("/")).join(name));
    }
    let folders = std::env::split_paths(search_path).filter(|place| place.is_absolute());
    folders
        .map(|place| place.join(name))
        .find(|path| fs::metadata(path).is_ok_and(|metadata| metadata.is_file()))
}

/// What a file is, by its content and by where its name leads.
fn digest(path: &Path) -> String {
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let content = hash(&real).unwrap_or_else(|error| error.kind().to_string());
    format!("{} {content}", real.display())
}

fn hash(path: &Path) -> std::io::Result<String> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() || metadata.len() > LARGEST {
        return Ok(format!("{} {:?}", metadata.len(), metadata.modified().ok()));
    }
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 256 << 10];
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        hasher.update(&buffer[..count]);
    }
    Ok(STANDARD.encode(hasher.finalize()))
}

/// Which folder it is, whatever its name.
fn identity(folder: &Path) -> String {
    match fs::metadata(folder) {
        #[cfg(unix)]
        Ok(metadata) => {
            use std::os::unix::fs::MetadataExt;
            format!("{} {}", metadata.dev(), metadata.ino())
        }
        #[cfg(not(unix))]
        Ok(_) => fs::canonicalize(folder).unwrap_or_default().display().to_string(),
        Err(error) => error.kind().to_string(),
    }
}
