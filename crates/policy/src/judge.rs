//! From rules, grants and a call to one verdict: the strictest of what fits any part of the call.

use super::call::PolicyCall;
use super::command_line::quote_word;
use super::decision::PolicyDecision;
use super::grant::{GrantTarget, PolicyGrant};
use super::policy_file::PolicyRules;
use super::rule::{CallPart, PolicyRule, RuleFit};
use super::verdict::{PolicyObjection, PolicyVerdict, VerdictSource};

enum PartDecision {
    /// These are against it.
    Against(Vec<PolicyVerdict>),
    /// It is allowed, by this.
    For(VerdictSource, String),
    Nothing,
}

/// Judges a call. `asked_about` says whether the configuration wants a person to be asked about such calls; `grants` are
/// those in force.
pub fn judge_call(
    rules: &PolicyRules,
    asked_about: bool,
    call: &PolicyCall,
    grants: &[PolicyGrant],
) -> PolicyVerdict {
    let mut judge = CallJudge {
        rules,
        call,
        grants,
        used: Vec::new(),
        granted: None,
    };
    let parts = parts_of_call(call);
    let mut against = Vec::new();
    let mut uncovered = Vec::new();
    let mut covered = None;
    let mut whole = None;
    for part in &parts {
        match judge.judge_part(*part) {
            PartDecision::Against(verdicts) => against.extend(verdicts),
            PartDecision::For(by, words) if matches!(part, CallPart::Whole) => {
                whole = Some((by, words));
            }
            PartDecision::For(by, words) => covered = covered.or(Some((by, words))),
            PartDecision::Nothing if matches!(part, CallPart::Whole) && parts.len() > 1 => {}
            PartDecision::Nothing if matches!(part, CallPart::Value(_)) => {}
            PartDecision::Nothing if matches!(part, CallPart::Command(simple, _) if simple.is_transparent) =>
                {}
            PartDecision::Nothing => uncovered.push(*part),
        }
    }
    // A rule against one part says nothing for the others: what nothing names is left to the fallback all the same.
    if against.is_empty() && whole.is_none() && covered.is_none() && uncovered.is_empty() {
        uncovered.push(CallPart::Whole);
    }
    if whole.is_none() && !uncovered.is_empty() {
        let verdict = judge.fallback_verdict(asked_about, &uncovered);
        if verdict.decision != PolicyDecision::Allow {
            against.push(verdict);
        } else if against.is_empty() && judge.used.is_empty() {
            return verdict;
        }
    }
    if let Some(verdict) = strictest_verdict(against) {
        return PolicyVerdict {
            grants: judge.used,
            ..verdict
        };
    }
    // What rests on a grant says so, whatever else is for it.
    if let Some(words) = judge.granted {
        return PolicyVerdict::allow_because(VerdictSource::Grant, words, judge.used);
    }
    let (by, words) = whole
        .or(covered)
        .unwrap_or((VerdictSource::Nothing, String::new()));
    PolicyVerdict::allow_because(by, words, judge.used)
}

/// The strictest, the first of several, with what all of them are about.
fn strictest_verdict(verdicts: Vec<PolicyVerdict>) -> Option<PolicyVerdict> {
    let mut about: Vec<PolicyObjection> = verdicts
        .iter()
        .flat_map(|verdict| verdict.about.clone())
        .collect();
    about.sort();
    about.dedup();
    // `max_by_key` returns the last of several, so the order is reversed.
    let strictest = verdicts
        .into_iter()
        .rev()
        .max_by_key(|verdict| verdict.decision);
    strictest.map(|verdict| PolicyVerdict { about, ..verdict })
}

/// Returns the parts that rules are matched against.
fn parts_of_call(call: &PolicyCall) -> Vec<CallPart<'_>> {
    let mut parts = vec![CallPart::Whole];
    parts.extend(call.places.iter().map(CallPart::Place));
    if let Some(script) = &call.script {
        let named = script
            .commands
            .iter()
            .filter(|simple| !simple.words.is_empty());
        parts.extend(named.map(|simple| CallPart::Command(simple, script.sets_variables)));
        parts.extend(script.values.iter().map(|value| CallPart::Value(value)));
        parts.extend(script.unanalysed.iter().map(|why| CallPart::Hidden(why)));
    }
    parts
}

struct CallJudge<'a> {
    rules: &'a PolicyRules,
    call: &'a PolicyCall,
    grants: &'a [PolicyGrant],
    used: Vec<String>,
    /// The words of the first part that needs a grant.
    granted: Option<String>,
}

impl<'a> CallJudge<'a> {
    fn judge_part(&mut self, part: CallPart<'_>) -> PartDecision {
        if let Some(grant) = self.grants.iter().find(|grant| grant.covers_part(part)) {
            self.use_grant(&grant.id, part);
            return PartDecision::For(VerdictSource::Grant, self.part_text(part));
        }
        let rules = self.rules;
        let about: Vec<&PolicyRule> = rules.about(&self.call.tool, self.call.effect).collect();
        let (allowing, objecting): (Vec<&PolicyRule>, Vec<&PolicyRule>) = about
            .into_iter()
            .partition(|rule| rule.decision == PolicyDecision::Allow);
        let is_named = allowing.iter().any(|rule| rule.names_command(part));
        let mut against = Vec::new();
        let mut lifted = false;
        for rule in objecting {
            let fit = rule.fit_part(part, &self.call.tool);
            if fit == RuleFit::No || (fit == RuleFit::Maybe && is_named) {
                continue;
            }
            let for_rule = self.find_grant(&GrantTarget::Rule(rule.name.clone()));
            let for_tool = || self.tool_grant().filter(|_| fit == RuleFit::Maybe);
            if let Some(grant) = for_rule.or_else(for_tool) {
                // One for a rule speaks of what the rule names, not of what only may be meant.
                lifted |= fit != RuleFit::Maybe || matches!(grant.target, GrantTarget::Tool(_));
                self.use_grant(&grant.id, part);
                continue;
            }
            against.push(self.verdict_against(rule, fit, part));
        }
        if !against.is_empty() {
            return PartDecision::Against(against);
        }
        if lifted {
            return PartDecision::For(VerdictSource::Grant, self.part_text(part));
        }
        if let Some(rule) = allowing.iter().find(|rule| rule.allows_part(part)) {
            return PartDecision::For(VerdictSource::Rule(rule.name.clone()), self.part_text(part));
        }
        PartDecision::Nothing
    }

    fn tool_grant(&self) -> Option<&'a PolicyGrant> {
        self.find_grant(&GrantTarget::Tool(self.call.tool.clone()))
    }

    fn find_grant(&self, target: &GrantTarget) -> Option<&'a PolicyGrant> {
        self.grants.iter().find(|grant| grant.target == *target)
    }

    fn use_grant(&mut self, id: &str, part: CallPart<'_>) {
        if self.granted.is_none() {
            self.granted = Some(self.part_text(part));
        }
        if !self.used.iter().any(|known| known == id) {
            self.used.push(id.to_owned());
        }
    }

    fn verdict_against(
        &self,
        rule: &PolicyRule,
        fit: RuleFit,
        part: CallPart<'_>,
    ) -> PolicyVerdict {
        // What a rule only may be meant for is not named by a grant for the rule.
        let grant = match fit {
            RuleFit::Yes(_) => quote_word(&rule.name),
            _ => format!("--tool {}", quote_word(&self.call.tool)),
        };
        let change = Some(format!("punie-runner policy allow --once {grant}"));
        let whole = self.part_text(part);
        let (decision, by, matched, reason) = match fit {
            RuleFit::Yes(words) => (
                rule.decision,
                VerdictSource::Rule(rule.name.clone()),
                words,
                rule.reason.clone(),
            ),
            _ => (
                PolicyDecision::Ask,
                VerdictSource::Perhaps(rule.name.clone()),
                whole.clone(),
                Some(explain_unclear(part)),
            ),
        };
        let inside =
            Some(whole).filter(|whole| *whole != matched && matches!(part, CallPart::Command(..)));
        let about = match &by {
            VerdictSource::Perhaps(name) => PolicyObjection {
                by: format!("perhaps {name}"),
                part: self.full_part_text(part),
            },
            // A yes to what a rule names is one for all that it names.
            _ => PolicyObjection {
                by: format!("rule {}", rule.name),
                part: String::new(),
            },
        };
        PolicyVerdict {
            decision,
            by,
            matched,
            inside,
            reason,
            change,
            grants: Vec::new(),
            about: vec![about],
        }
    }

    /// The words of a part, for people.
    fn part_text(&self, part: CallPart<'_>) -> String {
        match part {
            CallPart::Whole => self.call.tool.clone(),
            CallPart::Place(place) => place.shown.clone(),
            CallPart::Command(simple, _) => simple.short_text(),
            CallPart::Value(_) => "the value of a variable".to_owned(),
            CallPart::Hidden(_) => "the command line".to_owned(),
        }
    }

    /// All of a part, so that no two parts are the same where they do not do the same.
    fn full_part_text(&self, part: CallPart<'_>) -> String {
        match part {
            CallPart::Whole => self.call.tool.clone(),
            CallPart::Place(place) => format!("{} {}", place.shown, place.absolute.join(" ")),
            CallPart::Command(simple, _) => simple.full_text(),
            CallPart::Value(text) => text.to_owned(),
            CallPart::Hidden(why) => why.to_owned(),
        }
    }

    /// Decides about these parts, at least one, that nothing names.
    fn fallback_verdict(&mut self, asked_about: bool, parts: &[CallPart<'_>]) -> PolicyVerdict {
        let part = parts.first().copied().unwrap_or(CallPart::Whole);
        let asked = if asked_about {
            PolicyDecision::Ask
        } else {
            PolicyDecision::Allow
        };
        let default = if self.call.only_ends {
            PolicyDecision::Allow
        } else {
            self.rules.default
        };
        let decision = default.max(asked);
        if decision == PolicyDecision::Allow {
            return PolicyVerdict::allow_because(VerdictSource::Nothing, String::new(), Vec::new());
        }
        if let Some(grant) = self.tool_grant() {
            self.use_grant(&grant.id, part);
            let words = self.part_text(part);
            return PolicyVerdict::allow_because(VerdictSource::Grant, words, Vec::new());
        }
        let (by, about) = if default >= asked {
            let objection = |part: &CallPart<'_>| PolicyObjection {
                by: "default".to_owned(),
                part: self.full_part_text(*part),
            };
            let about = parts.iter().map(objection).collect();
            (VerdictSource::Default, about)
        } else {
            // That list is about tools, whatever they are given.
            let objection = PolicyObjection {
                by: "policy.ask".to_owned(),
                part: String::new(),
            };
            (VerdictSource::Ask, vec![objection])
        };
        let change = format!(
            "punie-runner policy allow --once {}",
            self.smallest_grant(part)
        );
        PolicyVerdict {
            decision,
            by,
            matched: self.part_text(part),
            inside: None,
            reason: self.why_not_allowed(part),
            change: Some(change),
            grants: Vec::new(),
            about,
        }
    }

    /// Explains why a rule that allows this part by its words does not.
    fn why_not_allowed(&self, part: CallPart<'_>) -> Option<String> {
        let CallPart::Command(simple, sets_variables) = part else {
            return None;
        };
        let mut about = self.rules.about(&self.call.tool, self.call.effect);
        let rule = about
            .find(|rule| rule.decision == PolicyDecision::Allow && rule.begins_command(simple))?;
        let why = if sets_variables {
            "only where no variables are set, and the line or the call sets some"
        } else {
            "only without options that write files, run programs or change settings, and it has one, or may have"
        };
        Some(format!("the owner's rule {:?} allows it {why}", rule.name))
    }

    /// The smallest thing that could be granted for this part.
    fn smallest_grant(&self, part: CallPart<'_>) -> String {
        match part {
            CallPart::Command(simple, false) if simple.words.iter().all(|word| word.is_literal) => {
                let words: Vec<String> = simple
                    .words
                    .iter()
                    .map(|word| quote_word(&word.text))
                    .collect();
                format!("-- {}", words.join(" "))
            }
            CallPart::Place(place) if place.known => {
                let path = place
                    .relative
                    .first()
                    .filter(|path| !path.is_empty())
                    .or(place.absolute.first());
                format!(
                    "--path {}",
                    quote_word(path.map_or(place.shown.as_str(), String::as_str))
                )
            }
            _ => format!("--tool {}", quote_word(&self.call.tool)),
        }
    }
}

/// Explains why it is unknown whether a rule is meant for a part.
fn explain_unclear(part: CallPart<'_>) -> String {
    match part {
        CallPart::Hidden(why) => why.to_owned(),
        CallPart::Value(_) => "a variable holds its name".to_owned(),
        CallPart::Command(simple, _) => {
            let is_known = simple.words.iter().all(|word| word.is_literal);
            let why = match simple.opaque {
                Some(why) => why,
                None if simple.runs_command_file => "it runs commands from a file",
                None if is_known && simple.is_open_ended => "more of its words come when it runs",
                None if is_known && simple.possible_from.is_some() => {
                    "it may start another command"
                }
                None => "its words are known only when it runs",
            };
            why.to_owned()
        }
        CallPart::Place(place) if place.is_folder => {
            "the rule is about something in that folder".to_owned()
        }
        _ => "its path is known only when it runs".to_owned(),
    }
}
