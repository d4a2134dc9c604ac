//! The files of an update on this machine: the program, the one before it, manual pages and completions.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use flate2::read::GzDecoder;
use semver::Version;

use crate::cli::installation;
use punie_core::durable::{Readers, replace_file, sync_parent_folder, temp_name};

/// The most bytes of an unpacked archive.
const MAX_UNPACKED_BYTES: u64 = 1 << 30;

/// The parts of a release's archive that an update takes.
#[derive(Debug, Default)]
pub(super) struct UnpackedArchive {
    pub program: Vec<u8>,
    /// Manual pages and completions, by their path in the archive.
    pub documents: Vec<(PathBuf, Vec<u8>)>,
}

/// Unpacks an archive whose files lie in this folder.
///
/// # Errors
/// It cannot be read, or has no program.
pub(super) fn unpack_archive(archive: &[u8], folder: &str) -> anyhow::Result<UnpackedArchive> {
    let unpacked = read_entries(archive, folder)
        .context("the archive cannot be unpacked. Nothing was changed here")?;
    anyhow::ensure!(
        !unpacked.program.is_empty(),
        "the archive has no file {folder}/{}",
        program_name()
    );
    Ok(unpacked)
}

fn program_name() -> String {
    format!("punie-runner{}", std::env::consts::EXE_SUFFIX)
}

fn read_entries(archive: &[u8], folder: &str) -> io::Result<UnpackedArchive> {
    let mut unpacked = UnpackedArchive::default();
    let plain = GzDecoder::new(archive).take(MAX_UNPACKED_BYTES);
    let program_name = program_name();
    for entry in tar::Archive::new(plain).entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let Ok(path) = path.strip_prefix(folder) else {
            continue;
        };
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let is_program = path == Path::new(&program_name);
        if is_program || path.starts_with("man") || path.starts_with("completions") {
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes)?;
            if is_program {
                unpacked.program = bytes;
            } else {
                unpacked.documents.push((path.to_owned(), bytes));
            }
        }
    }
    Ok(unpacked)
}

/// A program that lies beside the one that it will replace. It is removed when dropped.
#[derive(Debug)]
pub(super) struct NewProgram(PathBuf);

impl NewProgram {
    /// Writes it, with the permissions of the present one.
    pub fn write_beside(program: &Path, bytes: &[u8]) -> anyhow::Result<Self> {
        let new = Self(program.with_file_name(temp_name("punie-runner".as_ref())?));
        let written = fs::File::create_new(&new.0).and_then(|mut file| {
            file.write_all(bytes)?;
            file.set_permissions(fs::metadata(program)?.permissions())?;
            file.sync_all()
        });
        written.with_context(|| format!("cannot write beside {}", program.display()))?;
        Ok(new)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Starts it once, before it replaces one that works.
    pub fn check_version(&self, expected: &Version) -> anyhow::Result<()> {
        let version = ask_version(&self.0)?;
        anyhow::ensure!(
            version == *expected,
            "the new program is not version {expected}: it says {version}. Nothing was changed here"
        );
        Ok(())
    }
}

impl Drop for NewProgram {
    fn drop(&mut self) {
        // It has its final name by now, or is of no use.
        let _ = fs::remove_file(&self.0);
    }
}

pub(super) fn ask_version(program: &Path) -> anyhow::Result<Version> {
    let said = run_program(Command::new(program).arg("--version"))
        .with_context(|| format!("{} does not run on this machine", program.display()))?;
    let version = said
        .trim()
        .strip_prefix("punie-runner ")
        .unwrap_or_default();
    Version::parse(version).with_context(|| format!("{} says: {said}", program.display()))
}

/// Asks a program whether it can open the databases of a home.
pub(super) fn ask_about_home(program: &Path, home: &Path) -> anyhow::Result<()> {
    let mut command = Command::new(program);
    command
        .arg("--home")
        .arg(home)
        .args(["update", "--check-home"]);
    run_program(&mut command).map(drop)
}

fn run_program(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        anyhow::bail!("{} ({})", said.trim(), output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Gives `new` the name of the program, which becomes the previous one. At all times there is a program of that name,
/// except on Windows, where the file of a running program cannot be replaced: there it is renamed first.
pub(super) fn replace_program(new: &Path, program: &Path) -> anyhow::Result<()> {
    let previous = installation::previous_program(program);
    let kept = program.with_file_name(temp_name("punie-runner".as_ref())?);
    let replaced = if cfg!(windows) {
        fs::rename(program, &kept).and_then(|()| {
            fs::rename(new, program).inspect_err(|_| drop(fs::rename(&kept, program)))
        })
    } else {
        // A file system without hard links gets a copy.
        fs::hard_link(program, &kept)
            .or_else(|_| fs::copy(program, &kept).map(drop))
            .and_then(|()| fs::rename(new, program))
    };
    let replaced = replaced
        .inspect_err(|_| drop(fs::remove_file(&kept)))
        .and_then(|()| fs::rename(&kept, &previous))
        .and_then(|()| sync_parent_folder(program));
    replaced.with_context(|| format!("cannot replace {}", program.display()))
}

/// Replaces the manual pages and completions that install.sh put below the program's prefix, if they are there.
pub(super) fn replace_documents(
    program: &Path,
    documents: &[(PathBuf, Vec<u8>)],
) -> anyhow::Result<()> {
    let Some(share) = installation::find_documents(program) else {
        return Ok(());
    };
    for (path, bytes) in documents {
        let Some(target) = document_place(path) else {
            continue;
        };
        let target = share.join(target);
        let replaced = target
            .parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| replace_file(&target, bytes, Readers::AsBefore));
        replaced.with_context(|| format!("cannot write {}", target.display()))?;
    }
    Ok(())
}

/// Returns the place of a document below `share`, as install.sh has it.
fn document_place(path: &Path) -> Option<PathBuf> {
    let name: OsString = path.file_name()?.to_owned();
    if path.starts_with("man") {
        return Some(Path::new("man/man1").join(name));
    }
    let folder = match name.to_str()? {
        "punie-runner" => "bash-completion/completions",
        "punie-runner.fish" => "fish/vendor_completions.d",
        "_punie-runner" => "zsh/site-functions",
        _ => return None,
    };
    Some(Path::new(folder).join(name))
}

/// Checks that the folder of the program can be written, before anything is downloaded.
pub(super) fn check_folder(program: &Path) -> anyhow::Result<()> {
    let probe = program.with_file_name(temp_name("punie-runner".as_ref())?);
    fs::File::create_new(&probe)
        .and_then(|_| fs::remove_file(&probe))
        .with_context(|| format!("the folder of {} cannot be written", program.display()))
}
