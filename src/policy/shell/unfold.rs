//! From the commands of a text to those behind them: wrappers, shells, `find`, `eval`. Not here: how the text is read.

use super::builtins::sets_variables;
use super::folders::moves;
use super::found::Found;
use super::interpreters::{NOT_WRITTEN_OUT, Program, program};
use super::names::{known_name, word_sets_program};
use super::reader::Reader;
use super::wrappers::{Started, find_is_unclear, started_by_find, wrapper};
use super::{Script, Simple, perhaps};
use crate::policy::rule::FOLDS_CASE;

/// How many shells in shells are looked into.
const DEEPEST: u32 = 20;
/// How many commands may come of one text: those that start one more each are that many, too.
const MOST: usize = 100_000;
/// How many steps it is worth to begin a text inside the text.
const NESTED: usize = 2_000;

/// Everything that the commands found so far start.
pub(super) fn unfolded(mut found: Found) -> Script {
    let commands = std::mem::take(&mut found.script.commands);
    found.script.commands = walked(&mut found, commands.into_iter().map(|simple| (simple, 0)).collect());
    found.finish();
    found.script
}

/// These commands, each with those that it starts after it.
pub(super) fn walked(found: &mut Found, mut queue: Vec<(Simple, u32)>) -> Vec<Simple> {
    queue.reverse();
    let mut done: Vec<Simple> = Vec::new();
    while let Some((mut simple, depth)) = queue.pop() {
        if done.len() >= MOST || depth > DEEPEST {
            found.hide("the command line cannot be read: it is nested too deeply");
            break;
        }
        if let Err(why) = found.steps(simple.words.len()) {
            found.hide(&format!("the command line cannot be read: {why}"));
            break;
        }
        let started = one(found, &mut simple, depth);
        done.push(simple);
        queue.extend(started.into_iter().rev());
    }
    done
}

/// What one command starts.
fn one(found: &mut Found, simple: &mut Simple, depth: u32) -> Vec<(Simple, u32)> {
    let Some(first) = simple.words.first() else { return Vec::new() };
    if !first.literal {
        found.hide(&format!("which command `{}` is can be told only when it runs", simple.shown()));
        return Vec::new();
    }
    let name = known_name(&first.text, FOLDS_CASE);
    let is_elsewhere = first.text.contains(['/', '\\']);
    let (assigns, paths) = sets_variables(&name, simple);
    found.script.assigns |= assigns;
    found.script.paths |= paths;
    found.counting.builtin(&name, simple);
    found.script.moves |= moves(&name, simple);
    if name == "find" {
        if find_is_unclear(simple) {
            simple.opaque = Some(NOT_WRITTEN_OUT);
        }
        let started = started_by_find(simple);
        perhaps::note(found, &name, simple, depth);
        return started.into_iter().map(|inner| (inner, depth + 1)).collect();
    }
    if (is_elsewhere || !perhaps::is_quiet(&name)) && simple.words.iter().any(word_sets_program) {
        found.hide(&format!("`{}`: it sets a variable by which programs run others", simple.shown()));
    }
    if let Some(wrapper) = wrapper(&name) {
        simple.transparent = wrapper.is_transparent() && !is_elsewhere;
        let (started, assigns) = wrapper.started(simple);
        found.script.assigns |= assigns;
        return match started {
            Started::None => {
                // Alone it is a command like others.
                simple.transparent = false;
                Vec::new()
            }
            Started::Command(inner) => vec![(inner, depth + 1)],
            Started::Unknown(why) => {
                simple.transparent = false;
                found.hide(&format!("what `{}` starts cannot be told: {why}", simple.shown()));
                Vec::new()
            }
        };
    }
    match program(&name, simple) {
        Program::None => {
            perhaps::note(found, &name, simple, depth);
            Vec::new()
        }
        Program::Opaque(why) => {
            simple.opaque = Some(why);
            Vec::new()
        }
        Program::Hidden(why) => {
            found.hide(&format!("`{}`: {why}", simple.shown()));
            Vec::new()
        }
        Program::Script(text, more) => {
            let inner = nested(found, &text, depth);
            // Where no command is found in it, nothing else stands for what it does.
            let names_any = inner.iter().any(|(inner, _)| !inner.words.is_empty());
            simple.transparent = more.is_none() && !is_elsewhere && names_any;
            simple.opaque = more;
            inner
        }
    }
}

/// The commands of a text inside the text.
pub(super) fn nested(found: &mut Found, text: &str, depth: u32) -> Vec<(Simple, u32)> {
    let chars: Vec<char> = text.chars().collect();
    let outer = std::mem::take(&mut found.script.commands);
    found.read.insert(text.to_owned());
    let read = found.steps(NESTED).and_then(|()| Reader::new(&chars, 0, found).whole());
    if let Err(why) = read {
        found.hide(&format!("a command line in the command line cannot be read: {why}"));
    }
    let inner = std::mem::replace(&mut found.script.commands, outer);
    inner.into_iter().map(|simple| (simple, depth + 1)).collect()
}

/// A program's name without its folder.
pub(in crate::policy) fn base_name(text: &str) -> &str {
    text.rsplit(['/', '\\']).next().unwrap_or(text)
}
