//! The system's own `rm`, `rmdir` and `unlink`, for all that the shim does not do.
#![expect(
    clippy::disallowed_methods,
    reason = "the shim runs the program whose place it took"
)]

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{ShimEnv, format_os_error, write_error_message};

/// The next program of the shim's name on the PATH.
pub(super) struct SystemProgram {
    pub name: &'static str,
    path: Option<PathBuf>,
}

impl SystemProgram {
    /// Searches the PATH for the first program of this name that is not this one.
    pub fn find_on_path(
        name: &'static str,
        search_path: Option<&OsStr>,
        env: Option<&ShimEnv>,
    ) -> Self {
        let own = std::env::current_exe().ok();
        let is_another = |program: &Path| {
            program.is_file()
                && fs::canonicalize(program)
                    .ok()
                    .is_none_or(|real| Some(real) != own)
        };
        let folders = std::env::split_paths(search_path.unwrap_or(OsStr::new("/usr/bin:/bin")));
        let path = folders
            .filter(|folder| env.is_none_or(|env| *folder != env.programs))
            .map(|folder| folder.join(name))
            .find(|program| is_another(program));
        Self { name, path }
    }

    /// A command that starts the program.
    fn build_command(&self) -> io::Result<Command> {
        let missing = || io::Error::other("there is no other program of this name on the PATH");
        let mut command = Command::new(self.path.as_ref().ok_or_else(missing)?);
        command.arg0(self.name);
        Ok(command)
    }

    /// Runs the program to its end and returns its exit code.
    pub fn run_program<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> u8 {
        match self
            .build_command()
            .and_then(|mut command| command.args(args).status())
        {
            Ok(status) => status
                .code()
                .and_then(|code| u8::try_from(code).ok())
                .unwrap_or(1),
            Err(cause) => self.report_failure(&cause),
        }
    }

    /// Becomes the program; returns an exit code only if that fails.
    pub fn replace_process(&self, args: &[OsString]) -> u8 {
        let cause = self
            .build_command()
            .map_or_else(|cause| cause, |mut command| command.args(args).exec());
        self.report_failure(&cause)
    }

    fn report_failure(&self, cause: &io::Error) -> u8 {
        write_error_message(
            self.name,
            &format!(
                "the system's program cannot be run: {}",
                format_os_error(cause)
            ),
        );
        127
    }
}
