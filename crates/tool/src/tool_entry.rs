//! Erases the types of tools: a tool becomes an entry with a name, and an entry decodes calls that can run.

use std::borrow::Cow;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::{
    BeforeImages, CallBeforeImages, CallDescription, DeclaredAccess, DecodedCall, Tool,
    ToolContext, ToolError, ToolSpec, decode, people_fields, schema_words,
};
use crate::request::{ErrorCode, RequestSession, ToolEffect, ToolReply};
use punie_core::ids::RequestId;
use punie_text::output::OutputStore;
use punie_text::redact::Redactor;

/// The dependencies of a domain's tools.
pub trait ToolDeps: Clone + Send + Sync + 'static {
    /// Returns the dependencies of a call whose session works in these folders alone. The default serves a domain whose
    /// tools reach no files of the owner.
    ///
    /// # Errors
    /// `outside_workspace` if a folder cannot be used.
    fn narrowed_to(&self, _folders: &[PathBuf]) -> Result<Self, ToolError> {
        Ok(self.clone())
    }
}

impl ToolDeps for () {}

/// A stored output is read by whoever knows its handle.
impl ToolDeps for OutputStore {}

/// Shared state of tools that reach no files of the owner.
impl<T: Send + Sync + 'static> ToolDeps for Arc<T> {}

/// The tools of one domain, with their shared dependencies.
pub struct ToolSet<D> {
    domain: &'static str,
    deps: D,
    entries: Vec<ToolEntry>,
}

impl<D: ToolDeps> ToolSet<D> {
    /// Creates an empty domain.
    pub fn new(domain: &'static str, deps: D) -> Self {
        Self {
            domain,
            deps,
            entries: Vec::new(),
        }
    }

    /// Adds a tool.
    #[must_use]
    pub fn with_tool<T: Tool<Deps = D>>(mut self) -> Self {
        let deps = self.deps.clone();
        let spec = ToolSpec::from_tool::<T>(self.domain);
        let decode = move |spec: &ToolSpec, text: &str| {
            let arguments: T = decode::decode_arguments(spec, text)?;
            let deps = deps.clone();
            Ok(ReadyCall {
                effect: if T::EFFECT_DEPENDS_ON.is_some() {
                    arguments.effect()
                } else {
                    T::EFFECT
                },
                access: arguments.access(),
                declares: T::DECLARES,
                keeping: None,
                run: Box::new(move |cx| {
                    Box::pin(async move {
                        let deps = match &cx.session {
                            Some(session) => deps.narrowed_to(&session.folders)?,
                            None => deps,
                        };
                        arguments.run(&cx, &deps).await.map(Into::into)
                    })
                }),
            })
        };
        let describe = |spec: &ToolSpec, text: &str| {
            let arguments: T = decode::decode_arguments(spec, text).ok()?;
            Some(CallDescription {
                access: arguments.access(),
                ..arguments.describe()
            })
        };
        self.entries.push(ToolEntry {
            spec,
            varies: T::EFFECT_DEPENDS_ON.is_some(),
            decode: Box::new(decode),
            describe,
            before_images: None,
            redactor: Redactor::default(),
        });
        self
    }

    /// Adds a tool that the catalog offers unless this keeps it from working on this device. Then a call of it returns
    /// the reason.
    #[must_use]
    pub fn with_tool_unless<T: Tool<Deps = D>>(self, obstacle: Option<&str>) -> Self {
        let mut set = self.with_tool::<T>();
        if let Some(entry) = set.entries.last_mut() {
            entry.spec.offered = obstacle.is_none();
        }
        set.with_device_note(obstacle.unwrap_or_default())
    }

    /// Adds a note about this device to the description of the last added tool.
    #[must_use]
    pub fn with_device_note(mut self, facts: &str) -> Self {
        if let Some(entry) = self.entries.last_mut() {
            facts.clone_into(&mut entry.spec.on_this_device);
        }
        self
    }

    /// Returns the tools for a [`ToolRegistry`](super::ToolRegistry).
    pub fn into_entries(self) -> Vec<ToolEntry> {
        self.entries
    }
}

type Decode = Box<dyn Fn(&ToolSpec, &str) -> Result<ReadyCall, ToolError> + Send + Sync>;
type Run = Box<
    dyn FnOnce(ToolContext) -> Pin<Box<dyn Future<Output = Result<ToolReply, ToolError>> + Send>>
        + Send,
>;

/// One tool with its types erased.
pub struct ToolEntry {
    spec: ToolSpec,
    varies: bool,
    decode: Decode,
    describe: fn(&ToolSpec, &str) -> Option<CallDescription>,
    /// Stores before-images for its calls.
    before_images: Option<Arc<dyn BeforeImages>>,
    /// Resolves aliases of people in its arguments.
    redactor: Redactor,
}

impl ToolEntry {
    /// Creates a tool that is described at run time, with the access of all its calls. `check` returns the problem with the arguments, as part of a
    /// sentence. `run` gets the effect that was declared for the call, and must not exceed it.
    pub fn from_spec<C, R, F>(spec: ToolSpec, access: DeclaredAccess, check: C, run: R) -> Self
    where
        C: Fn(&Map<String, Value>) -> Result<(), String> + Send + Sync + 'static,
        R: Fn(ToolContext, Map<String, Value>, ToolEffect) -> F + Send + Sync + 'static,
        F: Future<Output = Result<ToolReply, ToolError>> + Send + 'static,
    {
        let run = Arc::new(run);
        let decode = move |spec: &ToolSpec, text: &str| {
            let arguments = decode::parse_object(spec, text)?;
            check(&arguments).map_err(|cause| schema_words::invalid_args_error(spec, &cause))?;
            let run = Arc::clone(&run);
            let effect = spec.effect;
            let run: Run =
                Box::new(move |cx| Box::pin(async move { run(cx, arguments, effect).await }));
            Ok(ReadyCall {
                effect,
                access: access.clone(),
                declares: false,
                keeping: None,
                run,
            })
        };
        Self::from_decoder(spec, Box::new(decode))
    }

    /// Merges several tools of one name into one, for calls whose owner is known only when they run. The result has the
    /// first one's description and the strongest effect, and accepts arguments of any of them.
    pub(super) fn merge_entries(entries: Vec<Arc<ToolEntry>>) -> Option<Arc<Self>> {
        let mut spec = match entries.as_slice() {
            [] | [_] => return entries.into_iter().next(),
            [first, ..] => first.spec.clone(),
        };
        if let Some(most) = entries
            .iter()
            .map(|entry| entry.spec.effect)
            .find(|effect| effect.runs_at_most_once())
        {
            spec.effect = most;
        }
        spec.always_asks = entries.iter().any(|entry| entry.spec.always_asks);
        let decode = move |spec: &ToolSpec, text: &str| {
            let mut refused = None;
            for entry in &entries {
                match (entry.decode)(spec, text) {
                    Ok(ready) => return Ok(ready),
                    Err(error) => refused = refused.or(Some(error)),
                }
            }
            Err(refused.unwrap_or_else(|| ToolError::internal("no tool of this name is left")))
        };
        Some(Arc::new(Self::from_decoder(spec, Box::new(decode))))
    }

    fn from_decoder(spec: ToolSpec, decode: Decode) -> Self {
        Self {
            spec,
            varies: false,
            decode,
            describe: |_, _| None,
            before_images: None,
            redactor: Redactor::default(),
        }
    }

    /// Describes a call with these arguments for a person; `None` if the tool cannot describe it.
    pub(super) fn describe_call(&self, args: &str) -> Option<CallDescription> {
        (self.describe)(&self.spec, &self.real_arguments(args))
    }

    /// Returns the catalog's view of the tool.
    pub fn tool_spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// Returns the effect of a call with these arguments. Undecodable arguments count as the tool's strongest effect,
    /// because such a call is refused before it does anything.
    pub fn effect_of_call(&self, args: &str) -> ToolEffect {
        if !self.varies {
            return self.spec.effect;
        }
        self.decode_call(args)
            .map_or(self.spec.effect, |ready| ready.effect)
    }

    /// Returns the arguments with aliases of people resolved where the tool declares it.
    pub fn real_arguments<'t>(&self, args: &'t str) -> Cow<'t, str> {
        people_fields::resolve_arguments(&self.spec, args, &self.redactor)
    }

    /// Resolves aliases of people in its arguments from now on.
    pub(super) fn set_aliases(&mut self, redactor: Redactor) {
        self.redactor = redactor;
    }

    /// Decodes the arguments, without any effect.
    ///
    /// # Errors
    /// `invalid_args`, with the key, the expected value and the known keys.
    pub fn decode_call(&self, args: &str) -> Result<ReadyCall, ToolError> {
        self.redactor.refresh_people();
        if let Some(why) = self.redactor.people_obstacle() {
            return Err(ToolError::new(ErrorCode::PermissionDenied, why));
        }
        let mut ready = (self.decode)(&self.spec, &self.real_arguments(args))?;
        ready.keeping = self
            .before_images
            .clone()
            .map(|images| CallBeforeImages::for_call(images, &self.spec.name));
        Ok(ready)
    }

    /// Stores before-images of its calls here from now on.
    pub(super) fn set_before_images(&mut self, images: Arc<dyn BeforeImages>) {
        self.before_images = Some(images);
    }
}

/// A call with decoded arguments.
pub struct ReadyCall {
    effect: ToolEffect,
    access: DeclaredAccess,
    declares: bool,
    keeping: Option<CallBeforeImages>,
    run: Run,
}

impl ReadyCall {
    /// Keeps before-images of the folders of the call's session alone.
    #[must_use]
    pub fn narrowed_to(self, session: Option<&Arc<RequestSession>>) -> Self {
        let Some(session) = session else {
            return self;
        };
        let keeping = self.keeping;
        Self {
            keeping: keeping.map(|keeping| keeping.narrowed_to(&session.folders)),
            ..self
        }
    }

    /// Returns the effect of the call.
    pub fn actual_effect(&self) -> ToolEffect {
        self.effect
    }

    /// Returns the access of the call.
    pub fn declared_access(&self) -> &DeclaredAccess {
        &self.access
    }

    /// Returns the input for the gate.
    pub fn as_gate_input<'a>(&'a self, args: &'a str) -> DecodedCall<'a> {
        DecodedCall {
            effect: self.effect,
            access: &self.access,
            args,
        }
    }

    /// Returns whether it declares its effects before it makes them.
    pub fn declares_intents(&self) -> bool {
        self.declares
    }

    /// Takes a snapshot of the workspaces, so that what the call changes can be undone. For a call that is about to run;
    /// one that never begins has changed nothing.
    pub fn take_snapshot(&self, request: &RequestId) -> impl Future<Output = ()> + Send + use<> {
        let starts = self.access.command.is_some() || self.access.starts_programs;
        let is_wanted = starts && self.effect == ToolEffect::Executes;
        let keeping = self.keeping.clone().filter(|_| is_wanted);
        let request = request.clone();
        let access = self.access.clone();
        async move {
            if let Some(keeping) = keeping {
                keeping.take_snapshot(&request, &access).await;
            }
        }
    }

    /// Runs the call, with a snapshot before and after it where that is wanted.
    ///
    /// # Errors
    /// The tool's error.
    pub async fn run_call(self, cx: ToolContext) -> Result<ToolReply, ToolError> {
        self.take_snapshot(&cx.request).await;
        let Some(keeping) = self.keeping else {
            return (self.run)(cx).await;
        };
        let cx = ToolContext {
            before_images: Some(keeping.clone()),
            ..cx
        };
        keeping.mark_begun();
        let reply = (self.run)(cx).await;
        keeping.end_snapshot().await;
        reply.map(|reply| keeping.append_remarks(reply))
    }
}
