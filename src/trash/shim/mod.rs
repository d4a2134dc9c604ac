//! This program under the names `rm`, `rmdir` and `unlink`, which commands find first on their PATH: what lies in a
//! workspace goes to the trash, everything else goes as those programs would remove it. Options, messages and exit
//! codes are GNU's. Not here: how a command comes to this PATH (commands).

mod bin;
mod options;
mod plan;
mod quoting;
mod removal;
mod rmdir;
mod terms;
mod walk;

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;

use options::Parsed;
use quoting::quoted;

pub use terms::{Terms, VARIABLE};

/// The names.
pub const NAMES: &[&str] = &["rm", "rmdir", "unlink"];

/// One of the names, as this process was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shim(&'static str);

/// What a shim is given by its command.
#[derive(Debug, Clone, Copy)]
pub struct Given<'a> {
    /// What stands in [`VARIABLE`].
    pub terms: Option<&'a OsStr>,
    /// The PATH.
    pub path: Option<&'a OsStr>,
}

impl Shim {
    /// Whether this is the name of a shim.
    pub fn named(program: &OsStr) -> Option<Self> {
        let name = Path::new(program).file_name()?;
        NAMES.iter().copied().find(|known| name == *known).map(Self)
    }

    /// Does what was typed and gives the exit code.
    pub fn run(self, args: &[OsString], given: Given<'_>) -> u8 {
        let terms = given.terms.and_then(OsStr::to_str).and_then(Terms::parse);
        // Started by somebody else, it is nobody's shim.
        let Some(terms) = terms else { return self.hand_on(args, given.path, None) };
        let parsed = match self.0 {
            "rm" => options::rm(args),
            "rmdir" => options::rmdir(args),
            _ => options::unlink(args),
        };
        match parsed {
            Parsed::Rm(asked) => removal::remove(&terms, &asked),
            Parsed::Rmdir(asked) => rmdir::remove(&terms, &asked),
            Parsed::Unlink(path) => removal::unlink(&terms, &path),
            Parsed::About => self.hand_on(args, given.path, Some(&terms.programs)),
            Parsed::Refused(text) => {
                complain(self.0, &text);
                1
            }
            Parsed::Wrong(text) => {
                complain(self.0, &text);
                complain_plainly(&format!("Try '{} --help' for more information.", self.0));
                1
            }
        }
    }

    /// Becomes the program of this name that comes next on the PATH.
    #[expect(clippy::disallowed_methods, reason = "the shim becomes the program whose place it took")]
    fn hand_on(self, args: &[OsString], path: Option<&OsStr>, ours: Option<&Path>) -> u8 {
        let own = std::env::current_exe().ok();
        let path = path.unwrap_or(OsStr::new("/usr/bin:/bin"));
        let folders = std::env::split_paths(path).filter(|folder| Some(folder.as_path()) != ours);
        let is_another = |program: &Path| {
            program.is_file()
                && std::fs::canonicalize(program).ok().is_none_or(|real| Some(&real) != own.as_ref())
        };
        let Some(program) = folders.map(|folder| folder.join(self.0)).find(|program| is_another(program))
        else {
            complain(self.0, "there is no other program of this name on the PATH");
            return 127;
        };
        let cause = std::process::Command::new(&program).arg0(self.0).args(args).exec();
        complain(self.0, &format!("{} cannot be started: {cause}", quoted(program.as_os_str())));
        126
    }
}

/// Says something on stderr. Nobody is left to hear that it is closed.
fn complain(who: &str, text: &str) {
    complain_plainly(&format!("{who}: {text}"));
}

fn complain_plainly(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Says something on stdout; whether it was heard.
fn say(text: &str) -> bool {
    writeln!(std::io::stdout().lock(), "{text}").is_ok()
}

/// The system's words without the number behind them.
fn in_words(cause: &std::io::Error) -> String {
    let text = cause.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}
