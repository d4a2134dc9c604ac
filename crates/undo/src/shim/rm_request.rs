//! The arguments of `rm`, as far as the shim handles them: `-r -R -f -v -d --`, their long forms, and paths.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;

/// A call of `rm` that the shim carries out itself.
#[derive(Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option")]
pub(super) struct RmRequest {
    pub recursive: bool,
    pub force: bool,
    pub verbose: bool,
    pub empty_dirs: bool,
    pub operands: Vec<OsString>,
}

impl RmRequest {
    /// Reads the arguments. Returns `None` for anything that is left to the system's `rm`.
    pub fn parse_rm_args(args: &[OsString]) -> Option<Self> {
        let mut request = Self::default();
        let mut only_operands = false;
        for arg in args {
            match arg.as_bytes() {
                bytes if only_operands || bytes.len() < 2 || bytes[0] != b'-' => {
                    request.operands.push(arg.clone());
                }
                b"--" => only_operands = true,
                b"--recursive" => request.recursive = true,
                b"--force" => request.force = true,
                b"--verbose" => request.verbose = true,
                b"--dir" => request.empty_dirs = true,
                bytes => bytes[1..]
                    .iter()
                    .try_for_each(|letter| request.set_option(*letter))?,
            }
        }
        (!request.operands.is_empty()).then_some(request)
    }

    fn set_option(&mut self, letter: u8) -> Option<()> {
        match letter {
            b'r' | b'R' => self.recursive = true,
            b'f' => self.force = true,
            b'v' => self.verbose = true,
            b'd' => self.empty_dirs = true,
            _ => return None,
        }
        Some(())
    }

    /// The options, as the system's `rm` takes them.
    pub fn rm_options(&self) -> impl Iterator<Item = &'static str> {
        let all = [
            (self.recursive, "-r"),
            (self.force, "-f"),
            (self.verbose, "-v"),
            (self.empty_dirs, "-d"),
        ];
        all.into_iter()
            .filter_map(|(is_set, option)| is_set.then_some(option))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Option<RmRequest> {
        RmRequest::parse_rm_args(&args.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_combined_and_stand_behind_operands_too() {
        let request = parse(&["-rf", "a", "-", "--verbose", "-d", "--", "-b"]).expect("handled");
        assert!(request.recursive && request.force && request.verbose && request.empty_dirs);
        assert_eq!(request.operands, ["a", "-", "-b"]);
        assert!(parse(&["-R", "a"]).is_some_and(|request| request.recursive && !request.force));
    }

    #[test]
    fn whatever_else_is_typed_is_left_to_the_system() {
        for args in [
            &["-i", "a"][..],
            &["-rI", "a"],
            &["--one-file-system", "a"],
            &["--rec", "a"],
            &["--no-preserve-root", "/"],
            &["-x", "a"],
            &["--help"],
            &["-f"],
            &[],
        ] {
            assert_eq!(parse(args), None, "{args:?}");
        }
    }
}
