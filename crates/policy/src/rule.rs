//! One rule, and what it says to a part of a call.

use std::path::PathBuf;

use globset::{GlobBuilder, GlobMatcher};

use super::call::TouchedPath;
use super::command_line::{CommandWord, FOLDS_CASE, SimpleCommand, may_exceed_words};
use super::decision::PolicyDecision;
use super::host::HostPattern;
use super::word_match::{
    begins_with_words, equals_ignoring_case, has_all_letters, has_option, program_name, split_word,
};
use punie_core::tool_effect::ToolEffect;

/// A rule of the owner's.
#[derive(Debug, Clone, serde::Serialize)]
pub struct PolicyRule {
    /// Its name, by which verdicts and grants call it.
    pub name: String,
    /// Its decision.
    pub decision: PolicyDecision,
    /// The reason, in the owner's words.
    pub reason: Option<String>,
    /// Tools by name, `guest:NAME`, or effects; empty: all.
    pub tools: Vec<String>,
    /// The files it is about.
    pub paths: Vec<PathGlob>,
    /// The beginning of the commands it is about, each word with its alternatives.
    pub command: Vec<Vec<String>>,
    /// The hosts it is about. A rule with hosts is about no calls.
    pub hosts: Vec<HostPattern>,
    /// The folders, absolute, in which a client's session may work with all that is below. A rule with folders is about no
    /// calls.
    pub folders: Vec<PathBuf>,
    /// Its line in the file, from 1; 0 where it has none.
    pub line: usize,
}

/// A pattern of paths.
#[derive(Debug, Clone, serde::Serialize)]
#[serde(transparent)]
pub struct PathGlob {
    /// As it was written.
    pub text: String,
    #[serde(skip)]
    matchers: Vec<GlobMatcher>,
}

/// The way in which a rule fits a part of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RuleFit {
    /// Not at all.
    No,
    /// It cannot be told before the part runs.
    Maybe,
    /// By these words of it.
    Yes(String),
}

/// The most places and pieces of a command that are looked at closely; where there are more, nothing is certain.
const MOST_PLACES: usize = 200;
const MOST_PIECES: usize = 10_000;
/// The signs behind which a command may begin in a text.
const COMMAND_SIGNS: [char; 13] = [
    ';', '|', '&', '(', ')', '{', '}', '!', '`', '=', ':', '"', '\'',
];

/// A part of a call that rules are held against.
#[derive(Debug, Clone, Copy)]
pub(super) enum CallPart<'a> {
    Whole,
    /// A file.
    Place(&'a TouchedPath),
    /// A command; whether variables are set around it.
    Command(&'a SimpleCommand, bool),
    /// The value of a variable that a command line sets.
    Value(&'a str),
    /// Something that cannot be told, and why.
    Hidden(&'a str),
}

impl PathGlob {
    /// Reads a pattern. What it fits it fits with everything below.
    ///
    /// # Errors
    /// The fault in it.
    pub fn new(text: &str) -> Result<Self, String> {
        let bare = text.trim_start_matches("./").trim_end_matches('/');
        if bare.is_empty() {
            return Err(format!(
                "the path {text:?} names nothing; `**` is everything in a workspace"
            ));
        }
        check_path_parts(text, bare)?;
        let folder = bare.strip_suffix("/**").unwrap_or(bare);
        let build = |pattern: &str| {
            GlobBuilder::new(pattern)
                .literal_separator(true)
                .case_insensitive(FOLDS_CASE)
                .build()
                .map(|glob| glob.compile_matcher())
                .map_err(|error| format!("the path {text:?} is no pattern: {}", error.kind()))
        };
        Ok(Self {
            text: text.to_owned(),
            matchers: vec![build(folder)?, build(&format!("{folder}/**"))?],
        })
    }

    fn is_absolute(&self) -> bool {
        self.text.starts_with('/') || self.text.chars().nth(1) == Some(':')
    }

    fn matches(&self, path: &str) -> bool {
        self.matchers.iter().any(|matcher| matcher.is_match(path))
    }

    /// Returns whether something in this folder may fit.
    fn may_match_below(&self, folder: &str) -> bool {
        let plain = self
            .text
            .trim_start_matches("./")
            .split('/')
            .take_while(|part| !part.contains(['*', '?', '[', '{']));
        let parts = folder.split('/').filter(|part| !part.is_empty());
        plain
            .filter(|part| !part.is_empty())
            .zip(parts)
            .all(|(a, b)| equals_ignoring_case(a, b))
    }
}

/// Refuses what no path can fit: these are held against it without `.`, `..` and empty parts, and nothing stands for a
/// home. `text` is the pattern as it was written, `bare` without what may stand around it.
fn check_path_parts(text: &str, bare: &str) -> Result<(), String> {
    const WILD: [char; 4] = ['*', '?', '[', '{'];
    let parts: Vec<&str> = bare.split('/').collect();
    let is_root = |at: usize| at == 0 && bare.starts_with('/');
    let is_odd = |(at, part): (usize, &&str)| {
        matches!(*part, "." | "..") || (part.is_empty() && !is_root(at))
    };
    if !parts.iter().enumerate().any(is_odd) && !bare.starts_with('~') {
        return Ok(());
    }
    let mut plain: Vec<&str> = Vec::new();
    let mut is_clear = !bare.starts_with('~');
    for part in parts {
        match part {
            "" | "." => {}
            ".." => is_clear &= plain.pop().is_some_and(|part| !part.contains(WILD)),
            part => plain.push(part),
        }
    }
    let whole = plain.join("/");
    Err(if is_clear && !whole.is_empty() {
        let root = if bare.starts_with('/') { "/" } else { "" };
        format!(
            "the path {text:?} fits nothing, for paths have no `.`, `..` and `//`; write {:?}",
            format!("{root}{whole}")
        )
    } else {
        format!(
            "the path {text:?} fits nothing; write it from a workspace folder, as \"a/b/**\", or what lies outside of \
             all by its whole path, as \"/home/me/x\""
        )
    })
}

impl PolicyRule {
    /// Returns whether it is about calls of this tool at all.
    pub(super) fn applies_to_tool(&self, tool: &str, effect: ToolEffect) -> bool {
        let named = |word: &String| {
            word == tool || word == effect.as_str() || word.strip_prefix("guest:") == Some(tool)
        };
        self.tools.is_empty() || self.tools.iter().any(named)
    }

    /// Returns how a rule that asks or denies fits: as widely as its words may be meant.
    pub(super) fn fit_part(&self, part: CallPart<'_>, tool: &str) -> RuleFit {
        match part {
            CallPart::Whole if self.command.is_empty() && self.paths.is_empty() => {
                RuleFit::Yes(tool.to_owned())
            }
            CallPart::Place(place) if !self.paths.is_empty() => self.fit_path(place),
            CallPart::Command(simple, _) if !self.command.is_empty() => {
                let fit = self.fit_command(&simple.words, simple.is_open_ended);
                let may = || {
                    simple.opaque.is_some()
                        || simple.runs_command_file
                        || self.may_be_started_by(simple)
                };
                if fit == RuleFit::No && may() {
                    RuleFit::Maybe
                } else {
                    fit
                }
            }
            // What a program does that is not read here may be anything.
            CallPart::Command(simple, _) if !self.paths.is_empty() && simple.opaque.is_some() => {
                RuleFit::Maybe
            }
            CallPart::Hidden(_) if !self.command.is_empty() || !self.paths.is_empty() => {
                RuleFit::Maybe
            }
            // Some programs run what a variable names.
            CallPart::Value(text) if !self.command.is_empty() && self.stands_in_text(text) => {
                RuleFit::Maybe
            }
            _ => RuleFit::No,
        }
    }

    /// Returns whether a rule that allows names this part: no more than its words say.
    pub(super) fn allows_part(&self, part: CallPart<'_>) -> bool {
        if self.command.is_empty() && self.paths.is_empty() {
            return true;
        }
        match part {
            CallPart::Place(place) => {
                let path = |glob: &PathGlob| {
                    if glob.is_absolute() {
                        place.absolute.first()
                    } else {
                        place.relative.first()
                    }
                    .cloned()
                };
                place.known
                    && self
                        .paths
                        .iter()
                        .any(|glob| path(glob).is_some_and(|path| glob.matches(&path)))
            }
            CallPart::Command(simple, assigns) => {
                !assigns
                    && self.begins_command(simple)
                    && !may_exceed_words(simple, self.command.len())
            }
            CallPart::Whole | CallPart::Value(_) | CallPart::Hidden(_) => false,
        }
    }

    /// Returns whether it names this command itself, and not only its tool.
    pub(super) fn names_command(&self, part: CallPart<'_>) -> bool {
        !self.command.is_empty() && self.allows_part(part)
    }

    /// Returns whether a command begins with exactly the rule's words.
    pub(super) fn begins_command(&self, simple: &SimpleCommand) -> bool {
        !self.command.is_empty() && begins_with_words(simple, &self.command)
    }

    fn fit_path(&self, place: &TouchedPath) -> RuleFit {
        let mut fit = RuleFit::No;
        for glob in &self.paths {
            let spellings = if glob.is_absolute() {
                &place.absolute
            } else {
                &place.relative
            };
            if let Some(path) = spellings.iter().find(|path| glob.matches(path)) {
                return RuleFit::Yes(format!("{path} (by {})", glob.text));
            }
            if !place.known
                || (place.is_folder && spellings.iter().any(|folder| glob.may_match_below(folder)))
            {
                fit = RuleFit::Maybe;
            }
        }
        fit
    }

    /// Returns whether a program that is not known here may start what the rule is about: it stands among the program's
    /// words, in a text, or glued to an option (`--to=CMD`, `-oCMD`, `+!CMD`).
    fn may_be_started_by(&self, simple: &SimpleCommand) -> bool {
        let Some(from) = simple.possible_from else {
            return false;
        };
        [false, true].into_iter().any(|unquotes| {
            let mut pieces = Vec::new();
            for (at, word) in simple.words.iter().enumerate().skip(1) {
                // What such a program makes of a part of a word is not known.
                if word.is_literal && (from == 1 || word.text.starts_with(['-', '+'])) {
                    pieces.extend(split_word(&word.text, self.program_names(), unquotes));
                } else if at >= from {
                    pieces.push(word.clone());
                    // Behind a subcommand most texts are prose: a command begins at a sign.
                    let begins = |text: &str| self.begins_text(text, unquotes);
                    if word.is_literal && word.text.split(COMMAND_SIGNS).any(begins) {
                        return true;
                    }
                }
                if pieces.len() > MOST_PIECES {
                    return true;
                }
            }
            self.stands_in(&pieces, simple.is_open_ended)
        })
    }

    fn program_names(&self) -> &[String] {
        self.command.first().map_or(&[], Vec::as_slice)
    }

    fn begins_text(&self, text: &str, unquotes: bool) -> bool {
        let pieces = split_word(text, self.program_names(), unquotes);
        self.fit_command(&pieces, false) != RuleFit::No
    }

    fn stands_in_text(&self, text: &str) -> bool {
        [false, true].into_iter().any(|unquotes| {
            let pieces = split_word(text, self.program_names(), unquotes);
            pieces.len() > MOST_PIECES || self.stands_in(&pieces, false)
        })
    }

    /// Returns whether what the rule is about stands anywhere among these words.
    fn stands_in(&self, pieces: &[CommandWord], open_end: bool) -> bool {
        let is_it = |at: &usize| pieces[*at].is_literal && self.is_program_word(&pieces[*at]);
        let mut places = (0..pieces.len()).filter(is_it).enumerate();
        places.any(|(n, at)| {
            n >= MOST_PLACES || self.fit_command(&pieces[at..], open_end) != RuleFit::No
        })
    }

    /// Returns whether a word names the rule's program.
    fn is_program_word(&self, word: &CommandWord) -> bool {
        self.command.first().is_some_and(|names| {
            names.iter().any(|wanted| {
                equals_ignoring_case(wanted, &word.text)
                    || (!wanted.contains('/')
                        && equals_ignoring_case(wanted, program_name(&word.text)))
            })
        })
    }

    /// Options may stand anywhere, and words behind an option may be its value.
    fn fit_command(&self, words: &[CommandWord], open_end: bool) -> RuleFit {
        let Some((first, rest)) = words.split_first() else {
            return RuleFit::No;
        };
        let elements = self.command.get(1..).unwrap_or_default();
        if !self.is_program_word(first) {
            return if first.is_literal {
                RuleFit::No
            } else {
                RuleFit::Maybe
            };
        }
        let (mut at, mut after_option, mut unsure) = (0, false, !first.is_literal);
        let mut matched = vec![first.text.as_str()];
        for element in elements {
            if element.iter().all(|word| word.starts_with('-')) {
                match rest
                    .iter()
                    .find(|word| element.iter().any(|option| has_option(&word.text, option)))
                {
                    Some(word) => matched.push(&word.text),
                    None if let Some(option) =
                        element.iter().find(|option| has_all_letters(rest, option)) =>
                    {
                        matched.push(option);
                    }
                    None if open_end || rest.iter().any(|word| !word.is_literal) => unsure = true,
                    None => return RuleFit::No,
                }
                continue;
            }
            loop {
                let Some(word) = rest.get(at) else {
                    return if open_end {
                        RuleFit::Maybe
                    } else {
                        RuleFit::No
                    };
                };
                at += 1;
                if !word.is_literal {
                    return RuleFit::Maybe;
                }
                if element.contains(&word.text) {
                    matched.push(&word.text);
                    break;
                }
                let is_option = word.text.starts_with('-');
                if !is_option && !after_option {
                    return RuleFit::No;
                }
                after_option = is_option && !word.text.contains('=');
            }
            after_option = false;
        }
        if unsure {
            RuleFit::Maybe
        } else {
            RuleFit::Yes(matched.join(" "))
        }
    }
}
