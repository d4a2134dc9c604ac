//! The permission gate of tool calls. Calls inside the workspace are allowed, and `acp::workspace` proves that they are
//! inside, unless the owner's rules say otherwise. Calls that the rules ask about wait for a person. Calls are refused
//! without free descriptors, or if they start programs with less confinement than the owner requires. Not here: the
//! meaning of the rules (policy).

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

/// The gate that allows a call if there are free descriptors and the owner's rules allow it. Asks a person first if the
/// owner wants that. The paths of a call are checked when they are resolved.
#[derive(Clone, Default)]
pub struct InsideWorkspace {
    ask: Vec<AskAbout>,
    confinement: Confinement,
    policy: Option<Arc<Policy>>,
}

/// The owner's rules, with the context to check a call against them.
pub struct Policy {
    /// The rules in force.
    pub standing: StandingRules,
    /// The workspace folders.
    pub workspace: Workspace,
    /// The terminals in which commands run.
    pub terminals: LocalTerminals,
}

/// The calls that a person is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AskAbout {
    /// All calls with this effect.
    Effect(Effect),
    /// All calls of this tool.
    Tool(String),
}

impl InsideWorkspace {
    /// Creates a gate that asks about these calls.
    pub fn asking(ask: Vec<AskAbout>) -> Self {
        Self { ask, ..Self::default() }
    }

    /// Also refuses calls that would run programs with less confinement than the owner requires.
    #[must_use]
    pub fn confined(self, confinement: Confinement) -> Self {
        Self { confinement, ..self }
    }

    /// Also applies the owner's rules.
    #[must_use]
    pub fn ruled(self, policy: Policy) -> Self {
        Self { policy: Some(Arc::new(policy)), ..self }
    }

    /// Checks whether the programs of a call may start with the available confinement.
    async fn confines(&self, tool: &ToolSpec, call: Decoded<'_>) -> Result<(), ToolError> {
        let starts = call.effect == Effect::Executes || call.access.starts_programs;
        if !starts || tool.origin != DEVICE || tool.lane == Lane::Control {
            return Ok(());
        }
        // The desktop's programs are not confined.
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

    /// Returns the owner's rules, if this gate applies any.
    pub fn standing(&self) -> Option<&StandingRules> {
        self.policy.as_ref().map(|policy| &policy.standing)
    }

    /// Returns the policy's verdict on a call, without using up grants or running the call.
    pub async fn verdict(&self, tool: &ToolSpec, call: Decoded<'_>) -> Result<Verdict, ToolError> {
        let (effect, access) = (call.effect, call.access.clone());
        let asks = self.asks(tool, effect);
        let Some(policy) = self.policy.clone() else { return Ok(plain(asks)) };
        let tool = tool.clone();
        aside(move || policy.judged(&tool, effect, &access, asks, None).map(|(verdict, _)| verdict)).await?
    }

    /// Decides by the rules and the configuration's list.
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
                    // A file that the person could not be shown cannot have been allowed for later calls.
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
    /// Returns the verdict on a call, and the call as it was judged. A verdict for a request uses up its grants.
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
            // A call that does not run uses up no grant.
            let Some(request) = request.filter(|_| with.decision < Decision::Deny) else {
                return Ok((with, call));
            };
            match with.grants.iter().find(|id| !self.standing.use_up(&grants, id, request)) {
                None => {
                    reach_of("grant.used", request.as_str());
                    return Ok((with, call));
                }
                // Another request used the grant first.
                Some(lost) => grants.retain(|grant| grant.id != *lost),
            }
        }
    }
}

/// Returns the verdict with the fewest grants that lead to it, so that a call uses no grant that it does not need.
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

/// Runs file access outside the event loop.
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

/// Identifies the subject of an approval for the rest of the conversation: exactly the reasons against the call. `None`
/// if only the configuration's list asks, which is about the tool.
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
    // A part of a command line that no rule names is identified by the whole arguments: folder, variables and texts.
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
        // A call that ends other calls frees descriptors.
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
