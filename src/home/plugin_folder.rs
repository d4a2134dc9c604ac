//! The folder of a plugin: what its manifest may name in it, and whether anything in it has changed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use sha2::{Digest, Sha256};

use super::layout::Home;
use punie_core::durable::{self, Readers};
use punie_core::ids::to_hex;

/// The most files of a plugin: all are looked at before each call.
const MAX_ENTRIES: usize = 20_000;

/// Resolves the folder of a plugin, which lies below that of the plugins.
pub(super) fn resolve_folder(plugins: &Path, folder: &Path) -> Result<PathBuf, String> {
    let real =
        |path: &Path| fs::canonicalize(path).map_err(|error| format!("cannot be read: {error}"));
    let folder = real(folder)?;
    let plugins = real(plugins)?;
    if folder.starts_with(&plugins) && folder != plugins {
        return Ok(folder);
    }
    Err(format!(
        "a link leads out of the plugins, to {}. Copy the folder instead",
        folder.display()
    ))
}

/// Resolves a program that a manifest names by a path.
pub(super) fn resolve_program(folder: &Path, program: &str) -> Result<String, String> {
    let real = fs::canonicalize(folder.join(program))
        .map_err(|_| format!("the program {program:?} is not there"))?;
    if !real.starts_with(folder) {
        return Err(format!(
            "the program {program:?} leads out of the plugin's folder. Name a program on the PATH, or move it into the \
             folder"
        ));
    }
    let text = real.to_str().map(str::to_owned);
    text.ok_or_else(|| format!("the name of {program:?} is not UTF-8"))
}

/// Returns a text that changes with every file in the folder, by their names, sizes and times. Blocks.
///
/// # Errors
/// The folder cannot be read, or has too many files.
pub fn plugin_fingerprint(folder: &Path) -> Result<String, String> {
    let mut hasher = Sha256::new();
    let mut left = MAX_ENTRIES;
    add_folder(folder, &mut left, &mut hasher)
        .map_err(|error| format!("the folder cannot be read: {error}"))?;
    if left == 0 {
        return Err(format!(
            "the folder has more than {MAX_ENTRIES} files. Bundle the plugin into fewer"
        ));
    }
    Ok(to_hex(&hasher.finalize()))
}

fn add_folder(folder: &Path, left: &mut usize, hasher: &mut Sha256) -> io::Result<()> {
    let entries: io::Result<Vec<_>> = fs::read_dir(folder)?.take(*left).collect();
    let mut paths: Vec<PathBuf> = entries?.into_iter().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        *left = left.saturating_sub(1);
        // It may have been removed meanwhile, which the next look sees.
        let Some(entry) = durable::allow_missing(path.symlink_metadata())? else {
            continue;
        };
        let changed = entry.modified()?.duration_since(UNIX_EPOCH);
        hasher.update(path.as_os_str().as_encoded_bytes());
        hasher.update(entry.len().to_le_bytes());
        hasher.update(changed.unwrap_or_default().as_nanos().to_le_bytes());
        if entry.is_dir() && *left > 0 {
            add_folder(&path, left, hasher)?;
        }
    }
    Ok(())
}

/// Returns what was stored about the tools of a plugin, if anything was. Blocks.
pub fn read_plugin_tools(home: &Home, id: &str) -> Option<String> {
    fs::read_to_string(tools_file(home, id)).ok()
}

/// Stores a text about the tools of a plugin. Blocks.
///
/// # Errors
/// The system's.
pub fn store_plugin_tools(home: &Home, id: &str, text: &str) -> io::Result<()> {
    durable::replace_file(&tools_file(home, id), text.as_bytes(), Readers::OwnerOnly)
}

fn tools_file(home: &Home, id: &str) -> PathBuf {
    home.plugin_tools_dir().join(format!("{id}.json"))
}
