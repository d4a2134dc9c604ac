//! What was typed behind `rm`, `rmdir` and `unlink`, read as GNU's programs read it: combined and abbreviated options,
//! options behind operands, `--`. Not here: what is done.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use super::quoting::quoted;

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    Rm(Rm),
    Rmdir(Rmdir),
    Unlink(OsString),
    /// Help, or the version: the other program's to tell.
    About,
    /// It makes no sense, for this reason; help would help.
    Wrong(String),
    /// It makes no sense, for this reason.
    Refused(String),
}

/// When `rm` asks.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    /// About what is write-protected, where somebody sits there.
    #[default]
    Protected,
    Never,
    Once,
    Always,
}

/// What becomes of `/` and of other devices' roots.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum PreserveRoot {
    #[default]
    Yes,
    No,
    All,
}

/// `rm`.
#[derive(Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option")]
pub(super) struct Rm {
    pub recursive: bool,
    /// What is missing is no error.
    pub missing_is_fine: bool,
    pub empty_folders: bool,
    pub verbose: bool,
    pub one_file_system: bool,
    pub preserve_root: PreserveRoot,
    pub ask: Ask,
    pub operands: Vec<OsString>,
}

/// `rmdir`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Rmdir {
    pub parents: bool,
    pub full_is_fine: bool,
    pub verbose: bool,
    pub operands: Vec<OsString>,
}

const RM: &[(&str, bool)] = &[
    ("force", false),
    ("interactive", true),
    ("one-file-system", false),
    ("no-preserve-root", false),
    ("preserve-root", true),
    ("recursive", false),
    ("dir", false),
    ("verbose", false),
    ("help", false),
    ("version", false),
];

const RMDIR: &[(&str, bool)] = &[
    ("ignore-fail-on-non-empty", false),
    ("path", false),
    ("parents", false),
    ("verbose", false),
    ("help", false),
    ("version", false),
];

const UNLINK: &[(&str, bool)] = &[("help", false), ("version", false)];

/// One word that was typed.
enum Word<'a> {
    Short(char),
    Long { name: &'static str, typed: &'a [u8], value: Option<&'a [u8]> },
    Operand(&'a OsStr),
}

/// Reads the words in order; the first fault ends it.
fn words<'a>(
    args: &'a [OsString],
    long: &'static [(&'static str, bool)],
    short: &str,
) -> Result<Vec<Word<'a>>, String> {
    let mut words = Vec::new();
    let mut only_operands = false;
    for arg in args {
        let bytes = arg.as_bytes();
        if only_operands || bytes.len() < 2 || bytes[0] != b'-' {
            words.push(Word::Operand(arg));
        } else if bytes == b"--" {
            only_operands = true;
        } else if let Some(typed) = bytes.strip_prefix(b"--") {
            words.push(long_option(typed, long)?);
        } else {
            for letter in String::from_utf8_lossy(&bytes[1..]).chars() {
                if !short.contains(letter) {
                    return Err(format!("invalid option -- '{letter}'"));
                }
                words.push(Word::Short(letter));
            }
        }
    }
    Ok(words)
}

fn long_option<'a>(typed: &'a [u8], long: &'static [(&'static str, bool)]) -> Result<Word<'a>, String> {
    let (name, value) = match typed.iter().position(|b| *b == b'=') {
        Some(at) => (&typed[..at], Some(&typed[at + 1..])),
        None => (typed, None),
    };
    let shown = String::from_utf8_lossy(name).into_owned();
    let alike: Vec<&(&str, bool)> =
        long.iter().filter(|(known, _)| known.as_bytes().starts_with(name)).collect();
    let exactly = long.iter().find(|(known, _)| known.as_bytes() == name);
    let (known, takes_value) = match (exactly, alike.as_slice()) {
        (Some(known), _) => known,
        (None, [only]) => only,
        (None, []) => return Err(format!("unrecognized option '--{shown}'")),
        (None, several) => {
            let names: Vec<String> = several.iter().map(|(name, _)| format!("'--{name}'")).collect();
            return Err(format!("option '--{shown}' is ambiguous; possibilities: {}", names.join(" ")));
        }
    };
    if value.is_some() && !takes_value {
        return Err(format!("option '--{known}' doesn't allow an argument"));
    }
    Ok(Word::Long { name: known, typed: name, value })
}

/// Reads what stands behind `rm`.
pub(super) fn rm(args: &[OsString]) -> Parsed {
    let words = match words(args, RM, "dfiIrRv") {
        Ok(words) => words,
        Err(fault) => return Parsed::Wrong(with_hyphens(fault, args)),
    };
    let mut asked = Rm::default();
    for word in words {
        match word {
            Word::Operand(path) => asked.operands.push(path.to_owned()),
            Word::Short(letter) => asked.take(letter),
            Word::Long { name, typed, value } => match name {
                "help" | "version" => return Parsed::About,
                "no-preserve-root" if typed.len() < name.len() => {
                    return Parsed::Refused(
                        "you may not abbreviate the --no-preserve-root option".to_owned(),
                    );
                }
                _ => {
                    if let Err(fault) = asked.take_long(name, value) {
                        return fault;
                    }
                }
            },
        }
    }
    if asked.operands.is_empty() && !asked.missing_is_fine {
        return Parsed::Wrong("missing operand".to_owned());
    }
    Parsed::Rm(asked)
}

/// Of a fault in what could be meant as a file's name, how to name that file.
fn with_hyphens(fault: String, args: &[OsString]) -> String {
    let is_there =
        |arg: &&OsString| arg.as_bytes().starts_with(b"-") && Path::new(arg).symlink_metadata().is_ok();
    match args.iter().find(is_there) {
        Some(arg) => {
            let shown = quoted(arg);
            format!("{fault}\nTry 'rm ./{}' to remove the file {shown}.", arg.display())
        }
        None => fault,
    }
}

impl Rm {
    fn take(&mut self, letter: char) {
        match letter {
            'd' => self.empty_folders = true,
            'f' => (self.ask, self.missing_is_fine) = (Ask::Never, true),
            'i' => (self.ask, self.missing_is_fine) = (Ask::Always, false),
            'I' => (self.ask, self.missing_is_fine) = (Ask::Once, false),
            'v' => self.verbose = true,
            _ => self.recursive = true,
        }
    }

    fn take_long(&mut self, name: &str, value: Option<&[u8]>) -> Result<(), Parsed> {
        match name {
            "force" => self.take('f'),
            "recursive" => self.take('r'),
            "dir" => self.take('d'),
            "verbose" => self.take('v'),
            "one-file-system" => self.one_file_system = true,
            "no-preserve-root" => self.preserve_root = PreserveRoot::No,
            "preserve-root" => {
                self.preserve_root = match value {
                    None => PreserveRoot::Yes,
                    Some(b"all") => PreserveRoot::All,
                    Some(other) => {
                        let shown = quoted(OsStr::from_bytes(other));
                        return Err(Parsed::Refused(format!(
                            "unrecognized --preserve-root argument: {shown}"
                        )));
                    }
                }
            }
            _ => match value.unwrap_or(b"always") {
                b"never" | b"no" | b"none" => self.ask = Ask::Never,
                b"once" => self.take('I'),
                b"always" | b"yes" => self.take('i'),
                other => {
                    let shown = quoted(OsStr::from_bytes(other));
                    return Err(Parsed::Wrong(format!(
                        "invalid argument {shown} for '--interactive'\nValid arguments are:\n  - 'never', 'no', 'none'\n  \
                         - 'once'\n  - 'always', 'yes'"
                    )));
                }
            },
        }
        Ok(())
    }
}

/// Reads what stands behind `rmdir`.
pub(super) fn rmdir(args: &[OsString]) -> Parsed {
    let words = match words(args, RMDIR, "pv") {
        Ok(words) => words,
        Err(fault) => return Parsed::Wrong(fault),
    };
    let mut asked = Rmdir::default();
    for word in words {
        match word {
            Word::Operand(path) => asked.operands.push(path.to_owned()),
            Word::Short('p') | Word::Long { name: "parents" | "path", .. } => asked.parents = true,
            Word::Short(_) | Word::Long { name: "verbose", .. } => asked.verbose = true,
            Word::Long { name: "help" | "version", .. } => return Parsed::About,
            Word::Long { .. } => asked.full_is_fine = true,
        }
    }
    if asked.operands.is_empty() {
        return Parsed::Wrong("missing operand".to_owned());
    }
    Parsed::Rmdir(asked)
}

/// Reads what stands behind `unlink`.
pub(super) fn unlink(args: &[OsString]) -> Parsed {
    let words = match words(args, UNLINK, "") {
        Ok(words) => words,
        Err(fault) => return Parsed::Wrong(fault),
    };
    let mut operands = Vec::new();
    for word in words {
        match word {
            Word::Operand(path) => operands.push(path.to_owned()),
            _ => return Parsed::About,
        }
    }
    match operands.as_slice() {
        [] => Parsed::Wrong("missing operand".to_owned()),
        [only] => Parsed::Unlink(OsString::from_vec(only.as_bytes().to_vec())),
        [_, second, ..] => Parsed::Wrong(format!("extra operand {}", quoted(second))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> Parsed {
        rm(&args.iter().map(OsString::from).collect::<Vec<_>>())
    }

    fn asked(args: &[&str]) -> Rm {
        match parsed(args) {
            Parsed::Rm(asked) => asked,
            other => panic!("{args:?}: {other:?}"),
        }
    }

    #[test]
    fn options_are_combined_abbreviated_and_behind_operands() {
        let all = asked(&["-rfv", "a", "--one", "-d", "--", "-b"]);
        assert!(
            all.recursive && all.missing_is_fine && all.verbose && all.one_file_system && all.empty_folders
        );
        assert_eq!((all.ask, all.operands), (Ask::Never, vec!["a".into(), "-b".into()]));
        assert_eq!(asked(&["-"]).operands, [OsString::from("-")], "a hyphen alone is a name");
        assert!(asked(&["--rec", "a"]).recursive && asked(&["-R", "a"]).recursive);
    }

    #[test]
    fn the_last_word_about_asking_holds_and_no_letter_within_a_long_option_counts() {
        assert_eq!(asked(&["-f", "-i", "a"]).ask, Ask::Always);
        assert_eq!(asked(&["-i", "-f", "a"]).ask, Ask::Never);
        assert_eq!(asked(&["-I", "a"]).ask, Ask::Once);
        assert_eq!(asked(&["--interactive=once", "a"]).ask, Ask::Once);
        assert!(!asked(&["--one-file-system", "a"]).missing_is_fine);
        assert_eq!(asked(&["--preserve-root=all", "a"]).preserve_root, PreserveRoot::All);
    }

    #[test]
    fn faults_are_named_as_gnu_names_them() {
        for (args, fault) in [
            (&[][..], "missing operand"),
            (&["-x"], "invalid option -- 'x'"),
            (&["--forse"], "unrecognized option '--forse'"),
            (&["--ver"], "option '--ver' is ambiguous; possibilities: '--verbose' '--version'"),
            (&["--force=1"], "option '--force' doesn't allow an argument"),
        ] {
            assert_eq!(parsed(args), Parsed::Wrong(fault.to_owned()));
        }
        assert_eq!(
            parsed(&["--no-pres", "a"]),
            Parsed::Refused("you may not abbreviate the --no-preserve-root option".to_owned())
        );
        assert_eq!(
            parsed(&["-f"]),
            Parsed::Rm(Rm { missing_is_fine: true, ask: Ask::Never, ..Rm::default() })
        );
        assert_eq!(parsed(&["--help"]), Parsed::About);
    }
}
