//! The gate: what stays inside the workspace is allowed, and `acp::workspace` proves that it does, unless the owner's
//! rules say otherwise; what they ask about waits for a person. What the machine has no room for is refused before it
//! begins, and what runs programs where these are confined less than the owner requires. Not here: what the rules mean
//! (policy).

mod binding;
mod facts;
mod standing;

pub use standing::{Standing, StandingRules};

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::Workspace;
use super::local::confinement::Confinement;
use super::local::descriptors;
use super::local::terminals::LocalTerminals;
use crate::failpoint::reach_of;
use crate::ids::{RequestId, hex};
use crate::policy::{By, Call, Decision, Grant, Verdict, judge};
use crate::tool::{
    Access, Asked, DEVICE, Decoded, Effect, ErrorCode, Gate, Lane, Meta, Permission, Permit, Still, ToolCx,
    ToolError, ToolSpec,
};

/// Allows every call for which there is room, once a person has said yes where the owner wants that; the paths of each
/// are contained when they are resolved.
#[derive(Clone, Default)]
pub struct InsideWorkspace {
    ask: Vec<AskAbout>,
    confinement: Confinement,
    policy: Option<Arc<Policy>>,
}

/// The owner's rules, and what is needed to hold a call against them.
pub struct Policy {
    /// The rules in force.
    pub standing: StandingRules,
    /// The folders.
    pub workspace: Workspace,
    /// Where commands run.
    pub terminals: LocalTerminals,
}

/// Which calls a person is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AskAbout {
    /// All that have this effect.
    Effect(Effect),
    /// All of this tool.
    Tool(String),
}

impl InsideWorkspace {
    /// Asks about these.
    pub fn asking(ask: Vec<AskAbout>) -> Self {
        Self { ask, ..Self::default() }
    }

    /// The same, and refuses what would run programs with less confinement than the owner requires.
    #[must_use]
    pub fn confined(self, confinement: Confinement) -> Self {
        Self { confinement, ..self }
    }

    /// The same, by the owner's rules.
    #[must_use]
    pub fn ruled(self, policy: Policy) -> Self {
        Self { policy: Some(Arc::new(policy)), ..self }
    }

    /// Whether what the call would start may start with the confinement that there is.
    async fn confines(&self, tool: &ToolSpec, call: Decoded<'_>) -> Result<(), ToolError> {
        let starts = call.effect == Effect::Executes || call.access.starts_programs;
        if !starts || tool.origin != DEVICE || tool.lane == Lane::Control {
            return Ok(());
        }
        // What the desktop opens is not confined.
        if call.access.file_or_program.is_some() {
            self.confinement.permit_app()?;
        }
        self.confinement.permit().await
    }

    fn asks(&self, tool: &ToolSpec, effect: Effect) -> bool {
        self.ask.iter().any(|about| match about {
            AskAbout::Effect(asked) => *asked == effect && !tool.only_ends,
            AskAbout::Tool(name) => *name == tool.name,
        })
    }

    /// The owner's rules, where this gate goes by any.
    pub fn standing(&self) -> Option<&StandingRules> {
        self.policy.as_ref().map(|policy| &policy.standing)
    }

    /// What the policy says to a call, without anything being used up or run.
    pub async fn verdict(&self, tool: &ToolSpec, call: Decoded<'_>) -> Result<Verdict, ToolError> {
        let (effect, access) = (call.effect, call.access.clone());
        let asks = self.asks(tool, effect);
        let Some(policy) = self.policy.clone() else { return Ok(plain(asks)) };
        let tool = tool.clone();
        aside(move || policy.judged(&tool, effect, &access, asks, None).map(|(verdict, _)| verdict)).await?
    }

    /// What the rules and the list of the configuration say together.
    async fn by_rules(
        &self,
        cx: &ToolCx,
        tool: &ToolSpec,
        decoded: Decoded<'_>,
    ) -> Result<Permission, ToolError> {
        let Decoded { effect, access, args } = decoded;
        let asks = self.asks(tool, effect);
        let Some(policy) = self.policy.as_ref().filter(|policy| asks || policy.standing.say_something())
        else {
            return Ok(if asks { Permission::Ask(Asked::default()) } else { Permission::Given });
        };
        let search_path = policy.terminals.search_path().await;
        let (policy, tool, access, args) =
            (Arc::clone(policy), tool.clone(), access.clone(), args.to_owned());
        let request = cx.request.clone();
        aside(move || {
            let (verdict, call) = policy.judged(&tool, effect, &access, asks, Some(&request))?;
            match verdict.decision {
                Decision::Allow => Ok(Permission::Given),
                Decision::Deny => Err(denied(&tool, &verdict)),
                Decision::Ask => {
                    let folder = facts::folder(&policy.workspace, &access);
                    let bound = binding::of(&call, folder.as_deref(), &search_path);
                    let unfound = binding::unfound(&call, folder.as_deref());
                    // What nobody could be shown is nothing that they can have allowed for later.
                    let topic = match &unfound {
                        Some(_) => Some(format!("request {request}")),
                        None => topic(&verdict, &call, &tool, effect, &args),
                    };
                    Ok(Permission::Ask(Asked {
                        why: [why(&verdict), unfound]
                            .into_iter()
                            .flatten()
                            .reduce(|one, two| format!("{one}; {two}")),
                        topic,
                        rule: verdict.rule().map(str::to_owned),
                        bound,
                    }))
                }
            }
        })
        .await?
    }
}

impl Policy {
    /// The verdict on a call, with the call as it was judged. What a verdict for a request rests on is used up by it.
    fn judged(
        &self,
        tool: &ToolSpec,
        effect: Effect,
        access: &Access,
        asks: bool,
        request: Option<&RequestId>,
    ) -> Result<(Verdict, Call), ToolError> {
        let standing = self.standing.now();
        if let Some(broken) = &standing.broken
            && effect != Effect::Reads
            && !tool.only_ends
        {
            return Err(mend_first(tool, broken));
        }
        let call = facts::of(&self.workspace, tool, effect, access)?;
        let verdict = judge(&standing.rules, asks, &call, &[]);
        if verdict.decision == Decision::Allow {
            return Ok((verdict, call));
        }
        let mut grants = self.standing.grants_for(request);
        loop {
            let with = with_fewest(&mut grants, |grants| judge(&standing.rules, asks, &call, grants));
            // What does not run uses nothing up.
            let Some(request) = request.filter(|_| with.decision < Decision::Deny) else {
                return Ok((with, call));
            };
            match with.grants.iter().find(|id| !self.standing.use_up(&grants, id, request)) {
                None => {
                    reach_of("grant.used", request.as_str());
                    return Ok((with, call));
                }
                // Another request was quicker.
                Some(lost) => grants.retain(|grant| grant.id != *lost),
            }
        }
    }
}

/// The verdict by as few of the grants as lead to it: what a call does not need is not taken from another.
fn with_fewest(grants: &mut Vec<Grant>, judged: impl Fn(&[Grant]) -> Verdict) -> Verdict {
    let mut with = judged(grants);
    for id in with.grants.clone() {
        let fewer: Vec<Grant> = grants.iter().filter(|grant| grant.id != id).cloned().collect();
        let again = judged(&fewer);
        if again.decision == with.decision && again.about == with.about {
            (*grants, with) = (fewer, again);
        }
    }
    with
}

fn plain(asks: bool) -> Verdict {
    let call = Call::default();
    judge(&crate::policy::Rules::default(), asks, &call, &[])
}

/// Looks at files beside the loop.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ToolError> {
    tokio::task::spawn_blocking(work).await.map_err(|fallen| ToolError::internal(fallen.to_string()))
}

fn denied(tool: &ToolSpec, verdict: &Verdict) -> ToolError {
    let text = format!("{} was not run: {}. {}", tool.name, verdict.cause(), verdict.way_out());
    let meta = Meta { rule: verdict.rule().map(str::to_owned), ..Meta::default() };
    ToolError::new(ErrorCode::PolicyDenied, text.trim_end()).with_meta(meta)
}

fn mend_first(tool: &ToolSpec, broken: &str) -> ToolError {
    ToolError::new(
        ErrorCode::PolicyDenied,
        format!(
            "{} was not run: the owner's rules cannot be read ({broken}), and until they can, nothing that changes \
             anything begins. Ask the owner to mend the file; `punie-runner policy show` on the device says whether \
             it is good. Reading tools work by the rules as they were.",
            tool.name
        ),
    )
}

fn why(verdict: &Verdict) -> Option<String> {
    let others = verdict.about.len().saturating_sub(1);
    match (&verdict.by, others) {
        (By::Ask, 0) => None,
        (_, 0) => Some(verdict.cause()),
        _ => {
            let each = verdict.about.iter().map(|about| match about.part.as_str() {
                "" => about.by.clone(),
                part => format!("{}: {part}", about.by),
            });
            Some(format!(
                "{}; all that is asked about: {}",
                verdict.cause(),
                each.collect::<Vec<_>>().join(" | ")
            ))
        }
    }
}

/// What a yes for the rest of the conversation is about: all that stands against the call, nothing less and nothing
/// more. None where only the configuration's list asks, which is about the tool.
fn topic(verdict: &Verdict, call: &Call, tool: &ToolSpec, effect: Effect, args: &str) -> Option<String> {
    if verdict.about.iter().all(|about| about.by == "policy.ask") {
        return None;
    }
    let mut digest = Sha256::new();
    digest.update(format!("{effect:?}"));
    let mut add = |text: &str| {
        digest.update(text.len().to_le_bytes());
        digest.update(text);
    };
    for about in &verdict.about {
        add(&about.by);
        add(&about.part);
    }
    // What no rule names of a command line is known by the whole of it: the folder, variables, texts that it is given.
    if call.script.is_some() && verdict.about.iter().any(|about| !about.part.is_empty()) {
        let mut whole = tool.canonical(args).unwrap_or_default();
        if let Some(map) = whole.as_object_mut() {
            map.remove("description");
        }
        add(&whole.to_string());
    }
    Some(hex(&digest.finalize()))
}

impl Gate for InsideWorkspace {
    fn permit<'a>(&'a self, cx: &'a ToolCx, tool: &'a ToolSpec, call: Decoded<'a>) -> Permit<'a> {
        // What ends other calls makes room.
        let room = tool.lane == Lane::Control || descriptors::are_to_be_had();
        Box::pin(async move {
            if !room {
                return Err(descriptors::no_descriptors());
            }
            let permission = self.by_rules(cx, tool, call).await?;
            self.confines(tool, call).await?;
            Ok(permission)
        })
    }

    fn still<'a>(&'a self, tool: &'a ToolSpec, access: &'a Access, asked: &'a Asked) -> Still<'a> {
        Box::pin(async move {
            let Some(policy) = self.policy.clone().filter(|_| !asked.bound.is_empty()) else { return Ok(()) };
            let search_path = policy.terminals.search_path().await;
            let (tool, access, before) = (tool.clone(), access.clone(), asked.bound.clone());
            aside(move || {
                let call = facts::of(&policy.workspace, &tool, tool.effect, &access)?;
                let folder = facts::folder(&policy.workspace, &access);
                binding::compare(&tool, &before, &binding::of(&call, folder.as_deref(), &search_path))
            })
            .await?
        })
    }
}
