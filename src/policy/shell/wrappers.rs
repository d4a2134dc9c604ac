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
    /// Options whose value, if any, follows in the same word.
    attached: &'static str,
    /// Long options that stand alone.
    long: &'static [&'static str],
    /// Long options that have their value after an equals sign.
    long_valued: &'static [&'static str],
    /// Words between the options and the command.
    skips: usize,
    /// Whether it changes nothing but how the command is started.
    transparent: bool,
}

const fn plain(name: &'static str, flags: &'static str, valued: &'static str) -> Wrapper {
    Wrapper { name, flags, valued, attached: "", long: &[], long_valued: &[], skips: 0, transparent: true }
}

/// A program that is told another name of its own may do other things: options that give one are not known here.
const WRAPPERS: &[Wrapper] = &[
    plain("builtin", "", ""),
    plain("command", "p", ""),
    plain("exec", "cl", ""),
    plain("nohup", "", ""),
    Wrapper {
        long: &["portability", "verbose", "append"],
        long_valued: &["format", "output"],
        ..plain("time", "apv", "fo")
    },
    Wrapper { long_valued: &["adjustment"], ..plain("nice", "0123456789", "n") },
    Wrapper { long: &["ignore"], long_valued: &["class", "classdata"], ..plain("ionice", "t", "cn") },
    Wrapper { long_valued: &["input", "output", "error"], ..plain("stdbuf", "", "ioe") },
    Wrapper { long: &["ctty", "fork", "wait"], ..plain("setsid", "cfw", "") },
    Wrapper {
        long: &["foreground", "preserve-status", "verbose"],
        long_valued: &["kill-after", "signal"],
        skips: 1,
        ..plain("timeout", "fpv", "ks")
    },
    Wrapper {
        long: &["ignore-environment", "null", "debug", "block-signal", "ignore-signal", "default-signal"],
        long_valued: &["unset", "chdir", "block-signal", "ignore-signal", "default-signal"],
        ..plain("env", "i0v", "uCP")
    },
    Wrapper {
        long: &["null", "no-run-if-empty", "verbose", "exit", "open-tty", "interactive", "show-limits"],
        long_valued: &[
            "arg-file",
            "delimiter",
            "eof",
            "replace",
            "max-lines",
            "max-args",
            "max-procs",
            "max-chars",
            "process-slot-var",
        ],
        attached: "eil",
        ..plain("xargs", "0rtpxo", "dEILnPsa")
    },
    Wrapper {
        transparent: false,
        long: &["non-interactive", "preserve-env", "set-home", "background", "reset-timestamp"],
        long_valued: &["user", "group", "prompt", "host", "chdir", "other-user"],
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
            if self.name == "env" && words.get(at).is_some_and(|word| word.text == "-") {
                at += 1;
            }
            while let Some(word) = words.get(at).filter(|word| word.text.contains('=')) {
                assigns = true;
                let name = word.raw.split('=').next().unwrap_or_default();
                if word.splits || (!word.literal && !is_name(name)) {
                    return (Started::Unknown("what it sets is not written out"), true);
                }
                at += 1;
            }
        }
        at += self.skips;
        // One of these may be an option, or more than one word: then the command begins elsewhere.
        if words.iter().take(at).any(|word| word.splits)
            || words.get(at - self.skips..at).is_some_and(any_unclear)
        {
            return (Started::Unknown("some words before its command are not written out"), assigns);
        }
        if matches!(self.name, "strace" | "ltrace")
            && words.iter().take(at).any(|word| word.text.contains(['|', '!']))
        {
            return (Started::Unknown("its output may go to a command"), assigns);
        }
        let rest = words.get(at..).unwrap_or_default();
        if rest.is_empty() {
            return match self.name {
                _ if simple.open_end => (Started::Unknown("its command comes when it runs"), assigns),
                "chroot" => (Started::Unknown("without a command it is a shell"), assigns),
                _ => (Started::None, assigns),
            };
        }
        let open_end = simple.open_end || self.name == "xargs";
        let mut inner = Simple { words: rest.to_vec(), open_end, ..Simple::default() };
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
            let text = word.text.as_str();
            if !word.literal {
                // In a place for an option it may be one; `A="$x"` is none, and as a command it cannot be told either.
                return if text.starts_with('-') || text.is_empty() || word.splits { None } else { Some(at) };
            }
            if text == "--" {
                return Some(at + 1);
            }
            if let Some(long) = text.strip_prefix("--") {
                let known = match long.split_once('=') {
                    Some((name, _)) => self.long_valued.contains(&name),
                    None => self.long.contains(&long),
                };
                if !known {
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
            if self.attached.contains(letter) {
                return Some(1);
            }
            if !self.flags.contains(letter) {
                return None;
            }
        }
        Some(1)
    }
}

fn any_unclear(words: &[Word]) -> bool {
    words.iter().any(|word| !word.literal)
}

/// Whether this is, or may be, an option of `xargs` that names a text to be replaced; alone or in a bundle.
fn replaces(word: &Word) -> bool {
    let bundle = word.text.starts_with('-') && !word.text.starts_with("--") && word.text.contains(['I', 'i']);
    bundle || word.text.starts_with("--replace")
}

/// Whether words of `find` that are not written out may hold an action, or be one with what follows.
pub(super) fn find_is_unclear(simple: &Simple) -> bool {
    let words = &simple.words[1..];
    let both = |pair: &[Word]| pair.iter().all(|word| !word.literal);
    simple.open_end || words.iter().any(|word| word.splits) || words.windows(2).any(both)
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
