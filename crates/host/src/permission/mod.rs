//! The permission gate of tool calls. Calls inside the workspace are allowed, and `workspace` proves that they are
//! inside, unless the owner's rules say otherwise. Calls that the rules ask about wait for a person. Calls are refused
//! without free descriptors, or if they start programs with less confinement than the owner requires. Not here: the
//! meaning of the rules (policy), and who asks: the engine, if this gate says so or the call's connected editor wants it
//! (`executor::call_preparation`). The running device's gate reloads the configuration first (`cli::wiring::live_gate`).

mod access;
mod approval_binding;
mod approval_subject;
mod caller_rights;
mod folder_question;
mod gate_policy;
mod read_only;
mod session_folders;

use approval_subject::{approval_topic, question_reason};

pub use caller_rights::{CallerLimits, CallerRights};
pub use folder_question::SessionGate;
pub use gate_policy::GatePolicy;
use gate_policy::JudgedCall;
pub use read_only::only_reads;
pub use session_folders::{FolderVerdict, SessionFolders};

use std::sync::Arc;

use parking_lot::RwLock;
use sha2::{Digest, Sha256};

use super::active_rules::ActiveRules;
use super::blocking::run_blocking;
use super::local::confinement::Confinement;
use super::local::descriptor_limit;
use punie_core::ids::to_hex;
use punie_policy::{PolicyCall, PolicyDecision, PolicyVerdict, judge_call};
use punie_sandbox::NetworkAccess;
use punie_tool::{
    ApprovalSubject, CallGate, CallLane, DeclaredAccess, DecodedCall, ErrorCode, GateDecision,
    GateFuture, NETWORK_RULE, OWNER_RULE, RecheckFuture, ResultMeta, ToolContext, ToolEffect,
    ToolError, ToolSpec,
};

/// The gate that allows a call if there are free descriptors and the owner's rules allow it. Asks a person first if the
/// owner wants that. The paths of a call are checked when they are resolved.
#[derive(Clone, Default)]
pub struct PermissionGate {
    ask: Arc<RwLock<Vec<AskCondition>>>,
    confinement: Confinement,
    policy: Option<Arc<GatePolicy>>,
}

/// The calls that a person is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AskCondition {
    /// All calls with this effect.
    Effect(ToolEffect),
    /// All calls of this tool.
    Tool(String),
}

impl PermissionGate {
    /// Creates a gate that asks about these calls.
    pub fn with_asked_calls(ask: Vec<AskCondition>) -> Self {
        let gate = Self::default();
        gate.set_asked_calls(ask);
        gate
    }

    /// Replaces the calls that a person is asked about.
    pub fn set_asked_calls(&self, ask: Vec<AskCondition>) {
        *self.ask.write() = ask;
    }

    /// Also refuses calls that would run programs with less confinement than the owner requires.
    #[must_use]
    pub fn with_confinement(self, confinement: Confinement) -> Self {
        Self {
            confinement,
            ..self
        }
    }

    /// Also applies the owner's rules.
    #[must_use]
    pub fn with_policy(self, policy: GatePolicy) -> Self {
        Self {
            policy: Some(Arc::new(policy)),
            ..self
        }
    }

    /// Checks whether the programs of a call may start with the available confinement.
    async fn check_confinement(
        &self,
        tool: &ToolSpec,
        call: DecodedCall<'_>,
    ) -> Result<(), ToolError> {
        let starts = call.effect == ToolEffect::Executes || call.access.starts_programs;
        if !starts || !tool.runs_here() || tool.lane == CallLane::Control {
            return Ok(());
        }
        // The desktop's programs are not confined.
        if call.access.file_or_program.is_some() {
            self.confinement.check_app_allowed()?;
        }
        self.confinement.check_required_level().await
    }

    /// Returns the reason for which a call wants the runner's own network, unless commands have it anyway.
    fn wanted_network<'a>(&self, access: &'a DeclaredAccess) -> Option<&'a str> {
        let has_it = self.confinement.effective_network() == NetworkAccess::Full;
        access.whole_network.as_deref().filter(|_| !has_it)
    }

    /// Has a person asked about a call that wants the runner's own network, whatever the rules say about its command.
    fn check_whole_network(
        &self,
        tool: &ToolSpec,
        call: DecodedCall<'_>,
        permission: GateDecision,
    ) -> Result<GateDecision, ToolError> {
        let Some(reason) = self.wanted_network(call.access) else {
            return Ok(permission);
        };
        if reason.trim().is_empty() {
            let text = "`network` needs `network_reason`, which the owner reads. Nothing was run.";
            return Err(ToolError::invalid_args(text));
        }
        if let Some(denial) = self.confinement.whole_network_denial() {
            let text = format!("{} was not run: {denial}.", tool.name);
            return Err(ToolError::new(ErrorCode::PolicyDenied, text));
        }
        let subject = match permission {
            GateDecision::Allowed => ApprovalSubject::default(),
            GateDecision::NeedsApproval(subject) => subject,
        };
        let why = format!("it wants the whole network of this machine, because: {reason}");
        let subject = bind_to_arguments(subject, NETWORK_RULE, why, tool, call);
        Ok(GateDecision::NeedsApproval(subject))
    }

    /// Adds the call's own question to the owner. What was allowed before that was allowed by the tool's name.
    fn add_owner_question(
        tool: &ToolSpec,
        call: DecodedCall<'_>,
        permission: GateDecision,
    ) -> GateDecision {
        match (permission, &call.access.owner_question) {
            (GateDecision::NeedsApproval(subject), Some(why)) => {
                let subject = bind_to_arguments(subject, OWNER_RULE, why.clone(), tool, call);
                GateDecision::NeedsApproval(subject)
            }
            (permission, _) => permission,
        }
    }

    fn must_ask(&self, tool: &ToolSpec, effect: ToolEffect) -> bool {
        self.ask.read().iter().any(|about| match about {
            AskCondition::Effect(asked) => *asked == effect && !tool.only_ends,
            AskCondition::Tool(name) => *name == tool.name,
        })
    }

    /// Returns the owner's rules, if this gate applies any.
    pub fn policy_rules(&self) -> Option<&ActiveRules> {
        self.policy.as_ref().map(|policy| &*policy.active_rules)
    }

    /// Returns the policy's verdict on a call, without using up grants or running the call.
    pub async fn policy_verdict(
        &self,
        tool: &ToolSpec,
        call: DecodedCall<'_>,
    ) -> Result<PolicyVerdict, ToolError> {
        let effect = call.effect;
        let access = call.access.clone();
        let asks = self.must_ask(tool, effect);
        let Some(policy) = self.policy.clone() else {
            return Ok(default_verdict(asks));
        };
        let tool = tool.clone();
        run_blocking(move || {
            let judged = JudgedCall {
                tool: &tool,
                effect,
                access: &access,
                workspace: &policy.workspace,
            };
            policy
                .judge_call(&judged, asks, None)
                .map(|(verdict, _)| verdict)
        })
        .await?
    }

    /// Decides by the rules and the configuration's list.
    async fn check_rules(
        &self,
        cx: &ToolContext,
        tool: &ToolSpec,
        decoded: DecodedCall<'_>,
    ) -> Result<GateDecision, ToolError> {
        let DecodedCall {
            effect,
            access,
            args,
        } = decoded;
        let asks = self.must_ask(tool, effect)
            || self.wanted_network(access).is_some()
            || access.owner_question.is_some();
        let Some(policy) = self
            .policy
            .as_ref()
            .filter(|policy| asks || policy.active_rules.may_have_any())
        else {
            return Ok(if asks {
                GateDecision::NeedsApproval(ApprovalSubject::default())
            } else {
                GateDecision::Allowed
            });
        };
        let search_path = policy.terminals.search_path().await;
        let policy = Arc::clone(policy);
        let tool = tool.clone();
        let access = access.clone();
        let args = args.to_owned();
        let request = cx.request.clone();
        let session = cx.session.clone();
        run_blocking(move || {
            let workspace = policy.workspace.for_session(session.as_ref())?;
            let judged = JudgedCall {
                tool: &tool,
                effect,
                access: &access,
                workspace: &workspace,
            };
            let (verdict, call) = policy.judge_call(&judged, asks, Some(&request))?;
            match verdict.decision {
                PolicyDecision::Allow => Ok(GateDecision::Allowed),
                PolicyDecision::Deny => Err(denied_error(&tool, &verdict)),
                PolicyDecision::Ask => {
                    let folder = access::command_folder(&workspace, &access);
                    let bound = approval_binding::bind_call(&call, folder.as_deref(), &search_path);
                    let unfound = approval_binding::unresolvable_program(&call, folder.as_deref());
                    let not_bound = approval_binding::describe_unbound(&call, folder.as_deref());
                    // A file that the person could not be shown cannot have been allowed for later calls.
                    let topic = match &unfound {
                        Some(_) => Some(format!("request {request}")),
                        None => approval_topic(&verdict, &call, &tool, effect, &args),
                    };
                    Ok(GateDecision::NeedsApproval(ApprovalSubject {
                        why: [question_reason(&verdict), unfound, not_bound]
                            .into_iter()
                            .flatten()
                            .reduce(|one, two| format!("{one}; {two}")),
                        topic,
                        rule: verdict.rule_name().map(str::to_owned),
                        bound,
                        folder,
                        allowable_command: policy.allowable_command(asks, &call),
                    }))
                }
            }
        })
        .await?
    }
}

/// Limits an approval to exactly these arguments, for a question that a rule of the owner's about other calls must not
/// answer.
fn bind_to_arguments(
    subject: ApprovalSubject,
    rule: &str,
    why: String,
    tool: &ToolSpec,
    call: DecodedCall<'_>,
) -> ApprovalSubject {
    let args = tool.canonical_args(call.args).unwrap_or_default();
    let digest = to_hex(&Sha256::digest(args.to_string()));
    ApprovalSubject {
        why: Some(match subject.why {
            Some(other) => format!("{why}; {other}"),
            None => why,
        }),
        topic: Some(format!("{rule} {digest}")),
        rule: Some(rule.to_owned()),
        allowable_command: None,
        ..subject
    }
}

fn default_verdict(asks: bool) -> PolicyVerdict {
    let call = PolicyCall::default();
    judge_call(&punie_policy::PolicyRules::default(), asks, &call, &[])
}

fn denied_error(tool: &ToolSpec, verdict: &PolicyVerdict) -> ToolError {
    let text = format!(
        "{} was not run: {}. {}",
        tool.name,
        verdict.explain_cause(),
        verdict.suggest_remedy()
    );
    let meta = ResultMeta {
        rule: verdict.rule_name().map(str::to_owned),
        ..ResultMeta::default()
    };
    ToolError::new(ErrorCode::PolicyDenied, text.trim_end()).with_meta(meta)
}

impl CallGate for PermissionGate {
    fn permit_call<'a>(
        &'a self,
        cx: &'a ToolContext,
        tool: &'a ToolSpec,
        call: DecodedCall<'a>,
    ) -> GateFuture<'a> {
        // A call that ends other calls frees descriptors.
        let room = tool.lane == CallLane::Control || descriptor_limit::has_free_descriptors();
        Box::pin(async move {
            if !room {
                return Err(descriptor_limit::no_descriptors_error());
            }
            let permission = self.check_rules(cx, tool, call).await?;
            let permission = self.check_whole_network(tool, call, permission)?;
            let permission = Self::add_owner_question(tool, call, permission);
            self.check_confinement(tool, call).await?;
            Ok(permission)
        })
    }

    fn recheck_approved<'a>(
        &'a self,
        cx: &'a ToolContext,
        tool: &'a ToolSpec,
        access: &'a DeclaredAccess,
        asked: &'a ApprovalSubject,
    ) -> RecheckFuture<'a> {
        Box::pin(async move {
            let Some(policy) = self.policy.clone().filter(|_| !asked.bound.is_empty()) else {
                return Ok(());
            };
            let search_path = policy.terminals.search_path().await;
            let tool = tool.clone();
            let access = access.clone();
            let before = asked.bound.clone();
            let session = cx.session.clone();
            run_blocking(move || {
                let workspace = policy.workspace.for_session(session.as_ref())?;
                let call = access::describe_for_policy(&workspace, &tool, tool.effect, &access)?;
                let folder = access::command_folder(&workspace, &access);
                approval_binding::check_binding(
                    &tool,
                    &before,
                    &approval_binding::bind_call(&call, folder.as_deref(), &search_path),
                )
            })
            .await?
        })
    }
}
