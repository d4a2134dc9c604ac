//! What lies in the owner's usual folders: the kinds of files in Downloads and on the desktop, and the folders of Documents.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::file_access::{EntryKind, is_absent, list_folder, read_bounded};
use crate::plain_text::clean_title;
use crate::report_text::{join_counts, top_counts};
use crate::{Budget, SignalPlaces, System};

const MAX_EXTENSIONS: usize = 5;
const MAX_FOLDERS: usize = 20;
/// The kinds of files that are told. What else follows a dot can be a part of a name.
const KINDS: &[&str] = &[
    "7z", "aac", "apk", "appimage", "avi", "bin", "bz2", "c", "cpp", "css", "csv", "deb", "dmg",
    "doc", "docx", "epub", "exe", "flac", "gif", "go", "gz", "h", "heic", "html", "ics", "ipynb",
    "iso", "jar", "java", "jpeg", "jpg", "js", "json", "log", "m4a", "md", "mkv", "mov", "mp3",
    "mp4", "msi", "odp", "ods", "odt", "ogg", "pdf", "pem", "pkg", "png", "ppt", "pptx", "psd",
    "py", "rar", "rpm", "rs", "rtf", "sh", "sql", "sqlite", "svg", "tar", "tgz", "tiff", "toml",
    "ts", "txt", "vcf", "wav", "webm", "webp", "xls", "xlsx", "xml", "xz", "yaml", "yml", "zip",
    "zst",
];
const MAX_USER_FOLDERS_BYTES: u64 = 64 << 10;

/// Returns a line for each folder that is there. Documents is not touched unless the owner allows it.
pub(super) fn describe_folders(
    places: &SignalPlaces,
    budget: &Budget,
    problems: &mut Vec<String>,
) -> Vec<String> {
    let mut lines = Vec::new();
    let mut add = |name: &str, described: io::Result<String>| match described {
        Ok(text) if !text.is_empty() => lines.push(format!("{name}: {text}")),
        Err(error) if !is_absent(&error) => problems.push(format!("{name}: {error}")),
        _ => {}
    };
    for (name, variable) in [
        ("Downloads", "XDG_DOWNLOAD_DIR"),
        ("Desktop", "XDG_DESKTOP_DIR"),
    ] {
        let folder = user_folder(places, name, variable);
        add(
            &format!("Files in {name}"),
            count_extensions(&folder, budget),
        );
    }
    if places.allows_documents {
        let folder = user_folder(places, "Documents", "XDG_DOCUMENTS_DIR");
        add("Folders in Documents", list_names(&folder, budget));
    }
    lines
}

/// Returns one of the user's folders. On Linux its name can be in the user's language. The user's folder itself, which
/// stands for a folder that is not wanted, is none of them.
fn user_folder(places: &SignalPlaces, name: &str, variable: &str) -> PathBuf {
    let usual = places.user_home.join(name);
    if places.system != System::Linux {
        return usual;
    }
    let file = places.config_home.join("user-dirs.dirs");
    let bytes = read_bounded(&file, MAX_USER_FOLDERS_BYTES).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let value = text.lines().find_map(|line| {
        let value = line.trim().strip_prefix(variable)?.strip_prefix('=')?;
        value.strip_prefix('"')?.strip_suffix('"')
    });
    match value {
        Some(value) if value.starts_with('/') => value.into(),
        Some(value) => match value.strip_prefix("$HOME/") {
            Some(below) if !below.is_empty() => places.user_home.join(below),
            _ => usual,
        },
        None => usual,
    }
}

fn count_extensions(folder: &Path, budget: &Budget) -> io::Result<String> {
    let mut counts = HashMap::new();
    for entry in list_folder(folder, budget)? {
        let extension = entry
            .path
            .extension()
            .and_then(|extension| extension.to_str());
        let Some(extension) = extension.filter(|_| entry.kind == EntryKind::File) else {
            continue;
        };
        let extension = extension.to_ascii_lowercase();
        if KINDS.contains(&extension.as_str()) {
            *counts.entry(extension).or_default() += 1;
        }
    }
    Ok(join_counts(&top_counts(counts, MAX_EXTENSIONS)))
}

fn list_names(folder: &Path, budget: &Budget) -> io::Result<String> {
    let entries = list_folder(folder, budget)?.into_iter();
    let folders = entries.filter(|entry| entry.kind == EntryKind::Folder);
    let names = folders.map(|entry| entry.name.to_string_lossy().into_owned());
    let names = names.filter(|name| !name.starts_with('.'));
    let names = names.map(|name| clean_title(&name)).take(MAX_FOLDERS);
    Ok(names.collect::<Vec<_>>().join(", "))
}
