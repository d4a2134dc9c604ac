//! From rules, grants and a call to one verdict: the strictest of what fits any part of the call. Not here: how a rule
//! fits a part.

use super::command_line::quote_word;
use super::rule::{Fit, Part, Rule};
use super::verdict::About;
use super::{By, Call, Decision, Grant, Rules, Target, Verdict};

/// The decision on one part.
enum Said {
    /// These are against it.
    Against(Vec<Verdict>),
    /// It is allowed, by this.
    For(By, String),
    /// Nothing.
    Nothing,
}

/// Judges a call. `asked_about` says whether the configuration wants a person to be asked about such calls; `grants` are
/// those in force.
pub fn judge(rules: &Rules, asked_about: bool, call: &Call, grants: &[Grant]) -> Verdict {
    let mut bench = Bench { rules, call, grants, used: Vec::new(), granted: None };
    let parts = parts(call);
    let mut against = Vec::new();
    let mut uncovered = Vec::new();
    let mut covered = None;
    let mut whole = None;
    for part in &parts {
        match bench.hear(*part) {
            Said::Against(verdicts) => against.extend(verdicts),
            Said::For(by, words) if matches!(part, Part::Whole) => whole = Some((by, words)),
            Said::For(by, words) => covered = covered.or(Some((by, words))),
            Said::Nothing if matches!(part, Part::Whole) && parts.len() > 1 => {}
            Said::Nothing if matches!(part, Part::Command(simple, _) if simple.is_transparent) => {}
            Said::Nothing => uncovered.push(*part),
        }
    }
    // A rule against one part says nothing for the others: what nothing names is left to the fallback all the same.
    if against.is_empty() && whole.is_none() && covered.is_none() && uncovered.is_empty() {
        uncovered.push(Part::Whole);
    }
    if whole.is_none() && !uncovered.is_empty() {
        let verdict = bench.fallback(asked_about, &uncovered);
        if verdict.decision != Decision::Allow {
            against.push(verdict);
        } else if against.is_empty() && bench.used.is_empty() {
            return verdict;
        }
    }
    if let Some(verdict) = strictest(against) {
        return Verdict { grants: bench.used, ..verdict };
    }
    // What rests on a grant says so, whatever else is for it.
    if let Some(words) = bench.granted {
        return Verdict::allowed(By::Grant, words, bench.used);
    }
    let (by, words) = whole.or(covered).unwrap_or((By::Nothing, String::new()));
    Verdict::allowed(by, words, bench.used)
}

/// The strictest, the first of several, with what all of them are about.
fn strictest(verdicts: Vec<Verdict>) -> Option<Verdict> {
    let mut about: Vec<About> = verdicts.iter().flat_map(|verdict| verdict.about.clone()).collect();
    about.sort();
    about.dedup();
    let first =
        verdicts.into_iter().reduce(|first, next| if next.decision > first.decision { next } else { first });
    first.map(|verdict| Verdict { about, ..verdict })
}

/// Returns the parts that rules are matched against.
fn parts(call: &Call) -> Vec<Part<'_>> {
    let mut parts = vec![Part::Whole];
    parts.extend(call.places.iter().map(Part::Place));
    if let Some(script) = &call.script {
        let named = script.commands.iter().filter(|simple| !simple.words.is_empty());
        parts.extend(named.map(|simple| Part::Command(simple, script.sets_variables)));
        parts.extend(script.unanalysed.iter().map(|why| Part::Hidden(why)));
    }
    parts
}

struct Bench<'a> {
    rules: &'a Rules,
    call: &'a Call,
    grants: &'a [Grant],
    used: Vec<String>,
    /// The words of the first part that needs a grant.
    granted: Option<String>,
}

impl Bench<'_> {
    fn hear(&mut self, part: Part<'_>) -> Said {
        if let Some(grant) = self.grants.iter().find(|grant| grant.covers(part)) {
            self.use_up(&grant.id, part);
            return Said::For(By::Grant, self.words(part));
        }
        let tool_grant =
            self.grants.iter().find(|grant| grant.target == Target::Tool(self.call.tool.clone()));
        let mut against = Vec::new();
        let mut lifted = false;
        let about: Vec<&Rule> = self.rules.about(&self.call.tool, self.call.effect).collect();
        let allowing = about.iter().find(|rule| rule.decision == Decision::Allow && rule.allows(part));
        let is_named = about.iter().any(|rule| rule.decision == Decision::Allow && rule.names(part));
        for rule in about.iter().filter(|rule| rule.decision != Decision::Allow) {
            let fit = rule.fit(part, &self.call.tool);
            if fit == Fit::No || (fit == Fit::Maybe && is_named) {
                continue;
            }
            let granted = self.grants.iter().find(|grant| grant.target == Target::Rule(rule.name.clone()));
            let granted = granted.or(tool_grant.filter(|_| fit == Fit::Maybe));
            if let Some(grant) = granted {
                // One for a rule speaks of what the rule names, not of what only may be meant.
                lifted |= fit != Fit::Maybe || matches!(grant.target, Target::Tool(_));
                self.use_up(&grant.id, part);
                continue;
            }
            against.push(self.against(rule, fit, part));
        }
        if !against.is_empty() {
            return Said::Against(against);
        }
        if lifted {
            return Said::For(By::Grant, self.words(part));
        }
        if let Some(rule) = allowing {
            return Said::For(By::Rule(rule.name.clone()), self.words(part));
        }
        Said::Nothing
    }

    fn use_up(&mut self, id: &str, part: Part<'_>) {
        if self.granted.is_none() {
            self.granted = Some(self.words(part));
        }
        if !self.used.iter().any(|known| known == id) {
            self.used.push(id.to_owned());
        }
    }

    fn against(&self, rule: &Rule, fit: Fit, part: Part<'_>) -> Verdict {
        // What a rule only may be meant for is not named by a grant for the rule.
        let grant = match fit {
            Fit::Yes(_) => quote_word(&rule.name),
            _ => format!("--tool {}", quote_word(&self.call.tool)),
        };
        let change = Some(format!("punie-runner policy allow --once {grant}"));
        let whole = self.words(part);
        let (decision, by, matched, reason) = match fit {
            Fit::Yes(words) => (rule.decision, By::Rule(rule.name.clone()), words, rule.reason.clone()),
            _ => (Decision::Ask, By::Perhaps(rule.name.clone()), whole.clone(), Some(why_unclear(part))),
        };
        let inside = Some(whole).filter(|whole| *whole != matched && matches!(part, Part::Command(..)));
        let about = match &by {
            By::Perhaps(name) => About { by: format!("perhaps {name}"), part: self.in_full(part) },
            // A yes to what a rule names is one for all that it names.
            _ => About { by: format!("rule {}", rule.name), part: String::new() },
        };
        Verdict { decision, by, matched, inside, reason, change, grants: Vec::new(), about: vec![about] }
    }

    /// The words of a part, for people.
    fn words(&self, part: Part<'_>) -> String {
        match part {
            Part::Whole => self.call.tool.clone(),
            Part::Place(place) => place.shown.clone(),
            Part::Command(simple, _) => simple.shown(),
            Part::Hidden(_) => "the command line".to_owned(),
        }
    }

    /// All of a part, so that no two parts are the same where they do not do the same.
    fn in_full(&self, part: Part<'_>) -> String {
        match part {
            Part::Whole => self.call.tool.clone(),
            Part::Place(place) => format!("{} {}", place.shown, place.absolute.join(" ")),
            Part::Command(simple, _) => simple.in_full(),
            Part::Hidden(why) => why.to_owned(),
        }
    }

    /// Decides about these parts, at least one, that nothing names.
    fn fallback(&mut self, asked_about: bool, parts: &[Part<'_>]) -> Verdict {
        let part = parts.first().copied().unwrap_or(Part::Whole);
        let asked = if asked_about { Decision::Ask } else { Decision::Allow };
        let default = if self.call.only_ends { Decision::Allow } else { self.rules.default };
        let decision = default.max(asked);
        if decision == Decision::Allow {
            return Verdict::allowed(By::Nothing, String::new(), Vec::new());
        }
        if let Some(grant) =
            self.grants.iter().find(|grant| grant.target == Target::Tool(self.call.tool.clone()))
        {
            self.use_up(&grant.id, part);
            return Verdict::allowed(By::Grant, self.words(part), Vec::new());
        }
        let by = if default >= asked { By::Default } else { By::Ask };
        let about = match by {
            By::Default => {
                let each = parts.iter().map(|part| self.in_full(*part));
                each.map(|part| About { by: "default".to_owned(), part }).collect()
            }
            // That list is about tools, whatever they are given.
            _ => vec![About { by: "policy.ask".to_owned(), part: String::new() }],
        };
        let change = format!("punie-runner policy allow --once {}", self.smallest(part));
        Verdict {
            decision,
            by,
            matched: self.words(part),
            inside: None,
            reason: self.does_not_hold(part),
            change: Some(change),
            grants: Vec::new(),
            about,
        }
    }

    /// Explains why a rule that allows this part by its words does not.
    fn does_not_hold(&self, part: Part<'_>) -> Option<String> {
        let Part::Command(simple, true) = part else { return None };
        let mut about = self.rules.about(&self.call.tool, self.call.effect);
        let bare = Part::Command(simple, false);
        let rule = about.find(|rule| rule.decision == Decision::Allow && rule.names(bare))?;
        Some(format!(
            "the owner's rule {:?} allows it only where no variables are set, and the line or the call sets some",
            rule.name
        ))
    }

    /// The smallest thing that could be granted for this part.
    fn smallest(&self, part: Part<'_>) -> String {
        match part {
            Part::Command(simple, false) if simple.words.iter().all(|word| word.is_literal) => {
                let words: Vec<String> = simple.words.iter().map(|word| quote_word(&word.text)).collect();
                format!("-- {}", words.join(" "))
            }
            Part::Place(place) if place.known => {
                let path = place.relative.first().filter(|path| !path.is_empty()).or(place.absolute.first());
                format!("--path {}", quote_word(path.map_or(place.shown.as_str(), String::as_str)))
            }
            _ => format!("--tool {}", quote_word(&self.call.tool)),
        }
    }
}

/// Explains why it is unknown whether a rule is meant for a part.
fn why_unclear(part: Part<'_>) -> String {
    match part {
        Part::Hidden(why) => why.to_owned(),
        Part::Command(simple, _) => {
            let is_known = simple.words.iter().all(|word| word.is_literal);
            let why = match simple.opaque {
                Some(why) => why,
                None if is_known && simple.is_open_ended => "more of its words come when it runs",
                None if is_known && simple.possible_from.is_some() => "it may start another command",
                None => "its words are known only when it runs",
            };
            why.to_owned()
        }
        Part::Place(place) if place.is_folder => "the rule is about something in that folder".to_owned(),
        _ => "its path is known only when it runs".to_owned(),
    }
}
