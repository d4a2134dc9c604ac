//! Programs and builtins that start another command given in their words. Not here: shells and interpreters, whose
//! words hold text that is read anew.

use super::reader::is_name;
use super::{Simple, Word};

/// How the options of a wrapper are told from the command behind them.
pub(super) struct Wrapper {
    name: &'static str,
    /// Options that stand alone, one letter each.
    flags: &'static str,
    /// Options whose value follows, in the same word or the next.
    valued: &'static str,
    /// Long options that stand alone; others must have their value after an equals sign.
    long: &'static [&'static str],
    /// Words between the options and the command.
    skips: usize,
    /// Whether it changes nothing but how the command is started.
    transparent: bool,
}

const fn plain(name: &'static str, flags: &'static str, valued: &'static str) -> Wrapper {
    Wrapper { name, flags, valued, long: &[], skips: 0, transparent: true }
}

const WRAPPERS: &[Wrapper] = &[
    plain("builtin", "", ""),
    plain("command", "p", ""),
    plain("exec", "cl", "a"),
    plain("nohup", "", ""),
    Wrapper { long: &["portability", "verbose", "append"], ..plain("time", "apv", "fo") },
    plain("nice", "0123456789", "n"),
    Wrapper { long: &["ignore"], ..plain("ionice", "t", "cn") },
    plain("stdbuf", "", "ioe"),
    Wrapper { long: &["ctty", "fork", "wait"], ..plain("setsid", "cfw", "") },
    Wrapper {
        long: &["foreground", "preserve-status", "verbose"],
        skips: 1,
        ..plain("timeout", "fpv", "ks")
    },
    Wrapper {
        long: &["ignore-environment", "null", "debug", "block-signal", "ignore-signal", "default-signal"],
        ..plain("env", "i0v", "uCPa")
    },
    Wrapper {
        long: &["null", "no-run-if-empty", "verbose", "exit", "open-tty", "interactive", "show-limits"],
        ..plain("xargs", "0rtpxoe", "dEILlnPsa")
    },
    Wrapper {
        transparent: false,
        long: &["non-interactive", "preserve-env", "set-home", "background", "reset-timestamp"],
        ..plain("sudo", "EHnPSbkBN", "ugphCrtTDRU")
    },
    Wrapper { transparent: false, ..plain("doas", "nL", "uC") },
    Wrapper { transparent: false, skips: 1, ..plain("chroot", "", "") },
    Wrapper { transparent: false, ..plain("busybox", "", "") },
    Wrapper { transparent: false, ..plain("toybox", "", "") },
    Wrapper { transparent: false, ..plain("strace", "fFqrtTvxyCkcniDdVZz", "eosSpuaEbIOPX") },
    Wrapper { transparent: false, ..plain("ltrace", "fCcirStT", "eosupaAnlxFD") },
    Wrapper { transparent: false, ..plain("chronic", "ev", "") },
    Wrapper { transparent: false, ..plain("caffeinate", "disum", "tw") },
    Wrapper { transparent: false, ..plain("arch", "", "de") },
];

/// What comes of a command that may start another.
pub(super) enum Started {
    /// It starts none in its words.
    None,
    /// It starts this.
    Command(Simple),
    /// It starts something, and which cannot be told.
    Unknown(&'static str),
}

/// The wrapper of this name.
pub(super) fn wrapper(name: &str) -> Option<&'static Wrapper> {
    WRAPPERS.iter().find(|wrapper| wrapper.name == name)
}

impl Wrapper {
    pub fn is_transparent(&self) -> bool {
        self.transparent
    }

    /// The command behind it; whether variables are set for it.
    pub fn started(&self, simple: &Simple) -> (Started, bool) {
        let words = &simple.words[1..];
        if self.name == "command"
            && words.first().is_some_and(|word| word.text.starts_with("-v") || word.text.starts_with("-V"))
        {
            return (Started::None, false);
        }
        let Some(mut at) = self.options(words) else {
            return (Started::Unknown("its options are not known here"), false);
        };
        let mut assigns = false;
        if matches!(self.name, "env" | "sudo" | "doas") {
            assigns = at > 0;
            while let Some(word) = words.get(at).filter(|word| word.text.contains('=')) {
                assigns = true;
                if !word.literal && !word.text.split('=').next().is_some_and(is_name) {
                    return (Started::Unknown("what it sets is not written out"), true);
                }
                at += 1;
            }
        }
        at += self.skips;
        let rest = words.get(at..).unwrap_or_default();
        if rest.is_empty() {
            return (Started::None, assigns);
        }
        let open_end = simple.open_end || self.name == "xargs";
        let mut inner = Simple { words: rest.to_vec(), open_end, ..Simple::default() };
        let replaces = |word: &Word| word.text.starts_with("-I") || word.text.starts_with("--replace");
        if self.name == "xargs" && words[..at].iter().any(replaces) {
            // Any of them may hold the text that is replaced.
            inner.words.iter_mut().for_each(|word| word.literal = false);
        }
        (Started::Command(inner), assigns)
    }

    /// How many words are options; none where that cannot be told.
    fn options(&self, words: &[Word]) -> Option<usize> {
        let mut at = 0;
        while let Some(word) = words.get(at) {
            if !word.literal {
                // It may be an option too; as the command it is one that cannot be told.
                return Some(at);
            }
            let text = word.text.as_str();
            if text == "--" {
                return Some(at + 1);
            }
            if let Some(long) = text.strip_prefix("--") {
                let known = long.contains('=') && !long.starts_with("split-string");
                if !known && !self.long.contains(&long) {
                    return None;
                }
                at += 1;
                continue;
            }
            let Some(letters) = text.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
                return Some(at);
            };
            at += self.short(letters)?;
        }
        Some(at)
    }

    /// How many words a bundle of short options takes.
    fn short(&self, letters: &str) -> Option<usize> {
        for (n, letter) in letters.char_indices() {
            if self.valued.contains(letter) {
                let has_value = n + letter.len_utf8() < letters.len();
                return Some(if has_value { 1 } else { 2 });
            }
            if !self.flags.contains(letter) {
                return None;
            }
        }
        Some(1)
    }
}

/// The commands that `find` starts for what it finds.
pub(super) fn started_by_find(simple: &Simple) -> Vec<Simple> {
    let is_action = |word: &Word| matches!(word.text.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir");
    let mut found = Vec::new();
    let mut words = simple.words.as_slice();
    while let Some(begin) = words.iter().position(is_action) {
        let rest = &words[begin + 1..];
        let end = rest.iter().position(|word| word.text == ";" || word.text == "+").unwrap_or(rest.len());
        let mut words_of_it = rest[..end].to_vec();
        words_of_it.iter_mut().filter(|word| word.text.contains("{}")).for_each(|word| word.literal = false);
        found.push(Simple { words: words_of_it, ..Simple::default() });
        words = &rest[end..];
    }
    found
}
