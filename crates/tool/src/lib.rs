//! The contract between the engine and the tools: a tool's declaration, its inputs, and its answers. The engine and the
//! tools do not know each other; the program connects them.
//!
//! Read first: `Tool`, one struct a tool, which is its arguments; [`ToolRegistry`], the tools by their names;
//! [`request::CallOutcome`], how a call ended, which [`request`] makes the only thing that may be posted.
//!
//! The engine, the tools and what serves them use this crate. It uses `punie-core` and `punie-text`.

#[cfg(any(fuzzing, debug_assertions))]
pub mod fuzzing;
pub mod request;
pub mod time_limit;

mod allowed_calls;
mod argument_schema;
mod argument_text;
mod before_images;
mod call_progress;
mod call_subject;
mod catalog_markdown;
mod catalog_schema;
mod confinement_report;
mod declared_access;
mod decode;
mod description;
mod dynamic_tools;
mod error;
mod gate;
mod intent;
mod key_synonyms;
mod observer;
mod people_fields;
mod registry;
mod schema_arguments;
mod schema_words;
mod strict_json;
mod tool_context;
mod tool_entry;
mod tool_profile;
mod tool_spec;

pub use allowed_calls::AllowedCalls;
pub use argument_schema::ArgumentSchema;
pub use argument_text::format_call_arguments;
pub use before_images::{BeforeImages, CallBeforeImages, CallSnapshot, SaveFuture, SnapshotFuture};
pub use call_progress::{CallProgress, ProgressReader, UnreadProgress};
pub use catalog_markdown::{domain_rank, render_catalog_markdown};
pub use confinement_report::ConfinementReport;
pub use declared_access::{
    CommandAccess, CommandFolder, DeclaredAccess, DefaultLocation, RequestedCommand, StartedCall,
};
pub use description::{
    AllowScope, CallDescription, CallTitle, ProposedChange, ProposedContent, TextReplacement,
};
pub use dynamic_tools::ToolRegistration;
pub use error::ToolError;
pub use gate::{
    ApprovalSubject, CallGate, DecodedCall, GateDecision, GateFuture, NETWORK_RULE, OWNER_RULE,
    RecheckFuture,
};
pub use intent::{CallIntent, IntentFuture, IntentOutcome, IntentRecorder, UnrecordedIntents};
pub use observer::{
    CallEnding, CallFollower, CallObserver, CallView, ChoiceFuture, DecisionFuture, FollowerChoice,
    NoObserver, ObservedCall, ObserverDecision, advice_when_stopped,
};
pub use people_fields::PeopleField;
pub use registry::{DuplicateToolName, ToolRegistry};
pub use schema_arguments::{SchemaArgument, list_arguments};
pub use tool_context::ToolContext;
pub use tool_entry::{ReadyCall, ToolDeps, ToolEntry, ToolSet};
pub use tool_profile::{ModelFormat, ToolProfile, is_entry_in_profile};
pub use tool_spec::{CallLane, DEVICE_ORIGIN, EDITOR_ORIGIN, SchemaText, ToolSpec};

/// Re-exported so that code that serves or implements tools needs this module only.
pub use crate::request::{ErrorCode, FileChange, ReplyBody, ResultMeta, ToolEffect, ToolReply};

use std::future::Future;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// A tool. The implementing struct is its arguments; its doc comment is the description for models.
///
/// Everything else comes from this declaration: the name, the catalog's schema, the question for approval, the queue,
/// and the treatment after a crash.
pub trait Tool: DeserializeOwned + JsonSchema + Send + 'static {
    /// The name in the catalog and in requests.
    const NAME: &'static str;
    /// The most that any call of it may do, as the catalog shows it.
    const EFFECT: ToolEffect;
    /// The argument that decides how much of [`Tool::EFFECT`] a call may do; [`Tool::effect`] reads it.
    const EFFECT_DEPENDS_ON: Option<&'static str> = None;
    /// True if it declares every effect through its context before it makes it: without a declaration nothing has
    /// happened. After a crash the next process then inspects the declared effects. It runs the call again or reports
    /// its effects.
    const DECLARES: bool = false;
    /// The queue of its calls.
    const LANE: CallLane = CallLane::Conversation;
    /// True if its calls can only end something that runs already. Such calls need no approval.
    const ONLY_ENDS: bool = false;
    /// Other names that models use for a key, each with the key. A key's camelCase form is accepted without an entry.
    const ALIASES: &'static [(&'static str, &'static str)] = &[];
    /// Working arguments as JSON text, for readers of the catalog.
    const EXAMPLES: &'static [&'static str] = &[];
    /// Keys of other agents' tools that this one accepts beside those of its schema. [`Tool::normalize`] interprets
    /// them; the rest is dropped.
    const ACCEPTED: &'static [&'static str] = &[];
    /// Names of such a tool at other agents. They are suggested for an unknown name, and never run.
    const KNOWN_AS: &'static [&'static str] = &[];
    /// The tool that does the same work with the current arguments; this one accepts those of older callers.
    const SAME_AS: Option<&'static str> = None;
    /// Its limits in words, each with its number, for readers of the catalog: `2,000 lines a call, 10,000 at most`.
    const LIMITS: &'static [&'static str] = &[];
    /// The fields in which an alias of one of the owner's contacts means the person.
    const PEOPLE_FIELDS: &'static [PeopleField] = &[];
    /// The dependencies that its domain provides.
    type Deps: Clone + Send + Sync + 'static;
    /// The type of its answers.
    type Output: Into<ToolReply>;

    /// Returns the most that this call may do, never more than [`Tool::EFFECT`]. It is called only if
    /// [`Tool::EFFECT_DEPENDS_ON`] names an argument; otherwise the effect does not depend on the arguments.
    fn effect(&self) -> ToolEffect {
        Self::EFFECT
    }

    /// Converts arguments in other agents' form to this tool's own, before the policy reads them.
    fn normalize(_arguments: &mut Map<String, Value>) {}

    /// Declares the call's access. Policy, approvals and confinement decide by this alone, so it contains every
    /// argument that is a path.
    fn access(&self) -> DeclaredAccess;

    /// Describes the call for a person. The default names its command, or the tool with its arguments.
    fn describe(&self) -> CallDescription {
        CallDescription::default()
    }

    /// Runs the call. Long waits race the context's cancellation; the engine adds deadline, panic guard and budget.
    ///
    /// # Errors
    /// A [`ToolError`] whose text gives the model the reason and the next step.
    fn run(
        self,
        cx: &ToolContext,
        deps: &Self::Deps,
    ) -> impl Future<Output = Result<Self::Output, ToolError>> + Send;
}
