//! This program under the names `rm`, `rmdir` and `unlink`, which commands find first on their PATH. What lies in a
//! workspace goes to the trash; everything else is left to the system's program.

mod file_quoting;
mod removal;
mod removal_plan;
mod rm_request;
mod rmdir;
mod shim_env;
mod system_program;
mod trash_writer;

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rm_request::RmRequest;
use system_program::SystemProgram;
use trash_writer::TrashWriter;

pub use shim_env::{ShimEnv, VARIABLE};

/// The program names that a command finds as shims.
pub const NAMES: &[&str] = &["rm", "rmdir", "unlink"];

/// The shim that this process was started as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActiveShim(&'static str);

impl ActiveShim {
    /// Finds the shim by the name under which this process was started.
    pub fn from_program_name(program: &OsStr) -> Option<Self> {
        let name = Path::new(program).file_name()?;
        NAMES.iter().copied().find(|known| name == *known).map(Self)
    }

    /// Runs the shim and returns its exit code. `env_text` is the value of [`VARIABLE`], `search_path` the PATH.
    pub fn run(
        self,
        args: &[OsString],
        env_text: Option<&OsStr>,
        search_path: Option<&OsStr>,
    ) -> u8 {
        let env = env_text
            .and_then(OsStr::to_str)
            .and_then(ShimEnv::parse_variable);
        let system = SystemProgram::find_on_path(self.0, search_path, env.as_ref());
        // A shim that no command of ours started is the system's program.
        let Some(env) = env else {
            return system.replace_process(args);
        };
        match (self.0, args) {
            ("rm", _) => match RmRequest::parse_rm_args(args) {
                Some(request) => removal::remove_files(&env, &request, system),
                None => run_untracked(&env, args, &system),
            },
            ("rmdir", _) => rmdir::remove_empty_folders(&env, args, &system),
            (_, [path]) if !path.as_bytes().starts_with(b"-") => {
                let request = RmRequest {
                    operands: vec![path.clone()],
                    ..RmRequest::default()
                };
                removal::remove_files(&env, &request, system)
            }
            _ => system.replace_process(args),
        }
    }
}

/// Runs the system's program for options that the shim does not handle, after noting that nothing of it is kept.
fn run_untracked(env: &ShimEnv, args: &[OsString], system: &SystemProgram) -> u8 {
    let is_option = |arg: &&OsString| arg.as_bytes().starts_with(b"-");
    if args
        .iter()
        .any(|arg| !is_option(&arg) && Path::new(arg).symlink_metadata().is_ok())
    {
        let options = args.iter().take_while(|arg| *arg != "--").filter(is_option);
        let options: Vec<_> = options.map(|option| option.to_string_lossy()).collect();
        let options = options.join(" ");
        TrashWriter::new(env, system.name)
            .announce_untracked(&format!("{} {options}", system.name));
        let text =
            format!("the trash does not handle {options}; what this removes is gone for good");
        write_error_message(system.name, &text);
    }
    system.replace_process(args)
}

/// Writes a message to stderr. If stderr is closed, no reader is left.
fn write_error_message(program: &str, text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{program}: {text}");
}

/// Formats an error without the number that the standard library adds.
fn format_os_error(cause: &std::io::Error) -> String {
    let text = cause.to_string();
    text.split_once(" (os error")
        .map_or_else(|| text.clone(), |(words, _)| words.to_owned())
}

/// Resolves the links on the way to a path, but not the path itself. Returns `None` for `/`, `.` and `..`.
#[expect(
    clippy::disallowed_methods,
    reason = "the path is compared with the workspaces"
)]
fn resolve_parent_links(path: &Path) -> Option<PathBuf> {
    let operand = without_trailing_slashes(path).as_os_str().as_bytes();
    let name_start = operand
        .iter()
        .rposition(|byte| *byte == b'/')
        .map_or(0, |at| at + 1);
    let (parent, name) = operand.split_at(name_start);
    if matches!(name, b"" | b"." | b"..") {
        return None;
    }
    let parent = if parent.is_empty() {
        Path::new(".")
    } else {
        Path::new(OsStr::from_bytes(parent))
    };
    Some(
        std::fs::canonicalize(parent)
            .ok()?
            .join(OsStr::from_bytes(name)),
    )
}

/// Returns the path as typed, without the slashes at its end.
fn without_trailing_slashes(path: &Path) -> &Path {
    let bytes = path.as_os_str().as_bytes();
    let end = bytes
        .iter()
        .rposition(|byte| *byte != b'/')
        .map_or(bytes.len().min(1), |at| at + 1);
    Path::new(OsStr::from_bytes(&bytes[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_part_of_an_operand_is_not_resolved_and_dots_name_nothing() {
        let dir = tempfile::tempdir().expect("a folder");
        let top = dir.path().canonicalize().expect("there");
        std::os::unix::fs::symlink("/", top.join("link")).expect("linked");
        for name in ["link", "link/", "link//", "missing"] {
            let resolved = resolve_parent_links(&dir.path().join(name)).expect(name);
            assert_eq!(resolved, top.join(name.trim_end_matches('/')), "{name}");
        }
        for path in ["/", "//", ".", "..", "a/.", "a/..", "./", ""] {
            assert_eq!(resolve_parent_links(Path::new(path)), None, "{path}");
        }
    }
}
