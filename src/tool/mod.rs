//! The contract between the engine and the tools: what a tool declares, what it gets, what it may answer.
//! The engine knows no tool and a tool knows no engine; they meet in `handlers::registry`.

mod access;
mod allowed_calls;
mod catalog_schema;
mod context;
mod decode;
mod description;
mod entry;
mod error;
mod gate;
mod guests;
mod intent;
mod keeping;
mod observer;
mod page;
mod progress;
mod registry;
mod spec;
mod strict;

pub use access::{Access, CommandAccess, CommandFolder, CommandText, DefaultLocation, StartedCall};
pub use allowed_calls::AllowedCalls;
pub use context::ToolCx;
pub use description::{AllowScope, CallDescription, CallTitle, ProposedChange, ProposedContent, Replacement};
pub use entry::{Entry, ReadyCall, ToolSet};
pub use error::ToolError;
pub use gate::{Asked, Decoded, Gate, Permission, Permit, Still};
pub use guests::Stay;
pub use intent::{Aftermath, Declared, Intent, Intents, Unrecorded};
pub use keeping::{BeforeImages, Keeping, Kept};
pub use observer::{CallView, Ended, ObservedCall, Observer, Unobserved, Verdict, Word, advice_when_stopped};
pub use page::page;
pub use progress::{Audience, Progress, Untold};
pub use registry::{DuplicateName, Registry};
pub use spec::{DEVICE, Lane, ToolSpec};

/// What a tool says about its calls, handed on so that whoever serves or implements a tool needs this room only.
pub use crate::request::{Body, Effect, ErrorCode, FileChange, Meta, Reply};

use std::future::Future;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// One tool. The implementing struct is its arguments; its doc comment is what a model reads.
///
/// Everything else is read from this one declaration: the name, the schema in the catalog, what the gate is
/// asked, which lane a call takes and what a crash means for it.
pub trait Tool: DeserializeOwned + JsonSchema + Send + 'static {
    /// The name on the wire.
    const NAME: &'static str;
    /// The most that any call of it may do: what the catalog says.
    const EFFECT: Effect;
    /// The argument that decides how much of [`Tool::EFFECT`] a call may do, as [`Tool::effect`] reads it.
    const EFFECT_DEPENDS_ON: Option<&'static str> = None;
    /// Whether it declares every effect through its context before it makes it, so that nothing has happened where
    /// nothing is declared. Then a crash leads to no guess: the next life looks, and runs it again or says what it did.
    const DECLARES: bool = false;
    /// Whether its calls wait in their conversation's queue.
    const LANE: Lane = Lane::Conversation;
    /// Whether its calls can do nothing but end what was begun before: nobody needs to be asked about those.
    const ONLY_ENDS: bool = false;
    /// Names that models use for a key, each with the key it stands for. Any camelCase spelling of a key is
    /// accepted without being listed.
    const ALIASES: &'static [(&'static str, &'static str)] = &[];
    /// Arguments that work, as JSON text, for the catalog's reader.
    const EXAMPLES: &'static [&'static str] = &[];
    /// Keys that tools of other agents have and this one accepts beside those of its schema: [`Tool::normalize`] gives
    /// them their meaning, and what it leaves is dropped.
    const ACCEPTED: &'static [&'static str] = &[];
    /// Names that other agents have for such a tool: suggested where one of them is called, never run.
    const KNOWN_AS: &'static [&'static str] = &[];
    /// The tool whose work this one does with the arguments that older callers know.
    const SAME_AS: Option<&'static str> = None;
    /// Its bounds in words, each with its figure, for the catalog's reader: `2,000 lines a call, 10,000 at most`.
    const LIMITS: &'static [&'static str] = &[];
    /// What its domain hands it.
    type Deps: Clone + Send + Sync + 'static;
    /// What it answers with.
    type Output: Into<Reply>;

    /// What a call with these arguments may do, never more than [`Tool::EFFECT`]. It is asked only of a tool whose
    /// [`Tool::EFFECT_DEPENDS_ON`] an argument, for every other call is known without looking at its arguments.
    fn effect(&self) -> Effect {
        Self::EFFECT
    }

    /// Turns arguments that are written as other agents write them into this tool's own. It runs before the policy
    /// reads them.
    fn normalize(_arguments: &mut Map<String, Value>) {}

    /// Declares what the call accesses. Policy, approvals and confinement decide by this alone, so every argument that is
    /// a path is in it.
    fn access(&self) -> Access;

    /// Describes the call for a person. The default names the command that it runs, or the tool with its arguments.
    fn describe(&self) -> CallDescription {
        CallDescription::default()
    }

    /// Does the work. Long waits race `cx.cancelled()`; the engine adds deadline, panic guard and budget.
    ///
    /// # Errors
    /// A [`ToolError`] whose text tells the model why and what to do next.
    fn run(
        self,
        cx: &ToolCx,
        deps: &Self::Deps,
    ) -> impl Future<Output = Result<Self::Output, ToolError>> + Send;
}
