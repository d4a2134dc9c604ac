//! The decision on one connection: by the owner's rules, by a person's answer, and by the addresses that the host's
//! name leads to.
//!
//! A name is resolved only after it is allowed, because a query of a name can carry data away. The addresses are checked
//! once, and the connection goes to one that was checked.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, WeakShared};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::address_check::guarded_kind;
use super::call_network::{CallNetwork, NetworkCaller};
use super::host_question::{HostAsker, QuestionEnd};
use super::refusal::ConnectionFailure;
use crate::active_rules::ActiveRules;
use crate::blocking::run_blocking;
use punie_core::approval_answer::ApprovalOption;
use punie_core::ids::{ConversationId, RequestId};
use punie_policy::{HostName, HostPattern, HostVerdict, PolicyDecision, PolicyRule, PolicyRules};

/// The most names that are resolved at a time. The system's resolver blocks a thread for each.
const MAX_LOOKUPS: usize = 16;
/// The most questions of one call at a time, so that a command cannot bury a person in them.
const MAX_QUESTIONS: usize = 8;
/// The longest wait for the addresses of a name.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(10);
/// The most answers that are remembered.
const MAX_ANSWERS: usize = 10_000;

/// The host and port that a command wants to reach.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NetworkTarget {
    /// The host.
    pub host: HostName,
    /// The port.
    pub port: u16,
}

impl std::fmt::Display for NetworkTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// The calls for which an answer counts. The caller chooses the texts of both ids.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum AnswerScope {
    Call(RequestId),
    Conversation(ConversationId),
}

type AnswerKey = (AnswerScope, NetworkTarget);
/// Returns the addresses of a name. Blocks.
pub type ResolveName = Arc<dyn Fn(String, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync>;

type SharedQuestion = WeakShared<BoxFuture<'static, QuestionEnd>>;

/// Decides on connections of commands.
pub struct HostGate {
    rules: Option<Arc<ActiveRules>>,
    /// The hosts that were declared beforehand, in place of the owner's rules.
    declared: Option<Arc<PolicyRules>>,
    asker: Option<HostAsker>,
    resolve: ResolveName,
    lookups: Arc<Semaphore>,
    /// True for yes.
    answers: Mutex<HashMap<AnswerKey, bool>>,
    /// The questions that wait: several connections of a call to one host are one question.
    open: Mutex<HashMap<AnswerKey, SharedQuestion>>,
}

impl HostGate {
    /// Creates a gate with the owner's rules, if there are any, and a person to ask, if one can be asked.
    pub fn new(rules: Option<Arc<ActiveRules>>, asker: Option<HostAsker>) -> Self {
        Self {
            rules,
            declared: None,
            asker,
            resolve: Arc::new(|name, port| Ok((name, port).to_socket_addrs()?.collect())),
            lookups: Arc::new(Semaphore::new(MAX_LOOKUPS)),
            answers: Mutex::default(),
            open: Mutex::default(),
        }
    }

    /// Creates a gate that allows these hosts alone, and asks nobody.
    pub fn for_hosts(hosts: Vec<HostPattern>) -> Self {
        let allowed = PolicyRule {
            name: "declared hosts".to_owned(),
            decision: PolicyDecision::Allow,
            reason: None,
            tools: Vec::new(),
            paths: Vec::new(),
            command: Vec::new(),
            hosts,
            folders: Vec::new(),
            line: 0,
        };
        let declared = PolicyRules {
            default: PolicyDecision::Deny,
            rules: vec![allowed],
        };
        Self {
            declared: Some(Arc::new(declared)),
            ..Self::new(None, None)
        }
    }

    /// Resolves names in this way, and not by the system's resolver.
    #[must_use]
    pub fn with_resolver(self, resolve: ResolveName) -> Self {
        Self { resolve, ..self }
    }

    /// Returns the addresses to which a call may connect for this target.
    ///
    /// # Errors
    /// The reason why it may not, or why there are none.
    pub(super) async fn permit_target(
        &self,
        call: &CallNetwork,
        target: &NetworkTarget,
    ) -> Result<Vec<SocketAddr>, ConnectionFailure> {
        let shown = target.to_string();
        let rules = self.current_rules(&shown).await?;
        let tool = call.caller.tool.as_str();
        let verdict = rules.judge_host(tool, &target.host, target.port);
        if verdict.decision == PolicyDecision::Deny {
            if self.declared.is_some() {
                return Err(ConnectionFailure::undeclared(&shown));
            }
            let cause = verdict.explain_cause();
            return Err(ConnectionFailure::by_rule(&shown, &cause));
        }
        // These are known without a question to a name server.
        let known = match &target.host {
            HostName::Address(address) => Some(*address),
            host if host.is_localhost() => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            HostName::Name(_) => None,
        };
        if let Some(address) = known {
            check_address(&rules, tool, target, address)?;
        }
        if verdict.decision == PolicyDecision::Ask {
            self.ask_once(&call.caller, target, &verdict).await?;
        }
        let addresses = match known {
            Some(address) => vec![SocketAddr::new(address, target.port)],
            None => self.resolve_name(target).await?,
        };
        for address in &addresses {
            check_address(&rules, tool, target, address.ip())?;
        }
        Ok(addresses)
    }

    async fn current_rules(&self, target: &str) -> Result<Arc<PolicyRules>, ConnectionFailure> {
        if let Some(declared) = &self.declared {
            return Ok(Arc::clone(declared));
        }
        let Some(rules) = self.rules.clone() else {
            return Ok(Arc::default());
        };
        let unread = |why: String| {
            ConnectionFailure::by_rule(target, &format!("the owner's rules cannot be read ({why})"))
        };
        let current = run_blocking(move || rules.current_rules()).await;
        let current = current.map_err(|error| unread(error.to_string()))?;
        match current.broken {
            Some(broken) => Err(unread(broken)),
            None => Ok(current.rules),
        }
    }

    /// Asks about a target, unless it was answered before for this call or its conversation.
    async fn ask_once(
        &self,
        caller: &NetworkCaller,
        target: &NetworkTarget,
        verdict: &HostVerdict,
    ) -> Result<(), ConnectionFailure> {
        // A rule that allows does not lift one that asks.
        let (why, pattern) = if verdict.rule.is_some() {
            (verdict.explain_cause(), None)
        } else {
            let why = "no rule names this host".to_owned();
            // With the port: a yes to a web page opens no other service of that host.
            (why, Some(target.to_string()))
        };
        let key = |scope: AnswerScope| (scope, target.clone());
        let of_call = key(AnswerScope::Call(caller.request.clone()));
        let conversation = caller.conversation.clone();
        let of_conversation = conversation.map(|id| key(AnswerScope::Conversation(id)));
        let shown = target.to_string();
        let answered = {
            let answers = self.answers.lock();
            let mut keys = std::iter::once(&of_call).chain(&of_conversation);
            keys.find_map(|key| answers.get(key)).copied()
        };
        let is_allowed = match answered {
            Some(answer) => answer,
            None => match self
                .join_question(caller, target, (&why, pattern.as_deref()), &of_call)
                .await
            {
                QuestionEnd::Answered(option) => {
                    let of_conversation = of_conversation.filter(|_| option.is_always());
                    self.remember_answer(of_conversation.unwrap_or(of_call), option);
                    option.is_allowed()
                }
                QuestionEnd::TooMany => return Err(ConnectionFailure::too_many(&shown)),
                QuestionEnd::NobodyToAsk => {
                    let pattern = pattern.as_deref();
                    return Err(ConnectionFailure::nobody_to_ask(&shown, &why, pattern));
                }
                QuestionEnd::Unanswered(seconds) => {
                    self.remember_answer(of_call, ApprovalOption::RejectOnce);
                    return Err(ConnectionFailure::unanswered(&shown, seconds));
                }
            },
        };
        if is_allowed {
            Ok(())
        } else {
            Err(ConnectionFailure::by_person(&shown))
        }
    }

    fn remember_answer(&self, key: AnswerKey, option: ApprovalOption) {
        let mut answers = self.answers.lock();
        // A new call is asked about anew, so that old answers to single calls are of no use.
        if answers.len() >= MAX_ANSWERS {
            answers.clear();
        }
        answers.insert(key, option.is_allowed());
    }

    /// Waits for the open question of a call about a target, or asks it. It is withdrawn when no connection waits for it.
    async fn join_question(
        &self,
        caller: &NetworkCaller,
        target: &NetworkTarget,
        (why, pattern): (&str, Option<&str>),
        key: &AnswerKey,
    ) -> QuestionEnd {
        let Some(asker) = self.asker.clone() else {
            return QuestionEnd::NobodyToAsk;
        };
        let question = {
            let mut open = self.open.lock();
            open.retain(|_, question| question.upgrade().is_some());
            let waiting = open.get(key).and_then(WeakShared::upgrade);
            let of_call = open.keys().filter(|other| other.0 == key.0).count();
            if waiting.is_none() && of_call >= MAX_QUESTIONS {
                return QuestionEnd::TooMany;
            }
            waiting.unwrap_or_else(|| {
                let caller = caller.clone();
                let why = why.to_owned();
                let shown = target.to_string();
                let pattern = pattern.map(str::to_owned);
                let asking = async move { asker.ask(&caller, &shown, pattern, &why).await };
                let question = asking.boxed().shared();
                if let Some(waiting) = question.downgrade() {
                    open.insert(key.clone(), waiting);
                }
                question
            })
        };
        question.await
    }

    async fn resolve_name(
        &self,
        target: &NetworkTarget,
    ) -> Result<Vec<SocketAddr>, ConnectionFailure> {
        let failed = |cause: String| {
            ConnectionFailure::Unreachable(format!("{target} was not reached: {cause}."))
        };
        let resolve = Arc::clone(&self.resolve);
        let lookups = Arc::clone(&self.lookups);
        let name = target.host.to_string();
        let port = target.port;
        let looking = async move {
            let place = lookups.acquire_owned().await;
            // The place is taken until the resolver returns, also if nobody waits for it any more.
            run_blocking(move || {
                let found = resolve(name, port);
                drop(place);
                found
            })
            .await
        };
        let found = tokio::time::timeout(RESOLVE_TIMEOUT, looking)
            .await
            .map_err(|_| failed("its name was not resolved in time".to_owned()))?;
        let found = found.map_err(|error| failed(error.to_string()))?;
        let addresses: Vec<SocketAddr> = found
            .map_err(|cause| failed(format!("its name cannot be resolved ({cause})")))?
            .into_iter()
            .map(|address| SocketAddr::new(address.ip().to_canonical(), address.port()))
            .collect();
        if addresses.is_empty() {
            return Err(failed("its name has no address".to_owned()));
        }
        Ok(addresses)
    }
}

/// Rejects an address that a rule denies, or that is not public and that no rule names.
fn check_address(
    rules: &PolicyRules,
    tool: &str,
    target: &NetworkTarget,
    address: IpAddr,
) -> Result<(), ConnectionFailure> {
    let shown = target.to_string();
    let address = address.to_canonical();
    match rules.judge_address(tool, address, target.port) {
        Some(verdict) if verdict.decision == PolicyDecision::Deny => {
            let cause = format!("it leads to {address}: {}", verdict.explain_cause());
            Err(ConnectionFailure::by_rule(&shown, &cause))
        }
        Some(_) => Ok(()),
        None => match guarded_kind(address) {
            None => Ok(()),
            Some(kind) => {
                let host = &target.host;
                Err(ConnectionFailure::guarded(&shown, host, address, kind))
            }
        },
    }
}
