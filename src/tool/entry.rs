//! Erases the types of tools: a tool becomes an entry with a name, and an entry decodes calls that can run.
//! Not here: the set of entries (`registry`).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::{
    Access, BeforeImages, CallDescription, Decoded, Keeping, Tool, ToolCx, ToolError, ToolSpec, decode,
};
use crate::request::{Effect, Reply};

/// The tools of one domain, with their shared dependencies.
pub struct ToolSet<D> {
    domain: &'static str,
    deps: D,
    entries: Vec<Entry>,
}

impl<D: Clone + Send + Sync + 'static> ToolSet<D> {
    /// Creates an empty domain.
    pub fn new(domain: &'static str, deps: D) -> Self {
        Self { domain, deps, entries: Vec::new() }
    }

    /// Adds a tool.
    #[must_use]
    pub fn with<T: Tool<Deps = D>>(mut self) -> Self {
        let deps = self.deps.clone();
        let spec = ToolSpec::of::<T>(self.domain);
        let decode = move |spec: &ToolSpec, text: &str| {
            let arguments: T = decode::arguments(spec, text)?;
            let deps = deps.clone();
            Ok(ReadyCall {
                effect: if T::EFFECT_DEPENDS_ON.is_some() { arguments.effect() } else { T::EFFECT },
                access: arguments.access(),
                declares: T::DECLARES,
                keeping: None,
                run: Box::new(move |cx| {
                    Box::pin(async move { arguments.run(&cx, &deps).await.map(Into::into) })
                }),
            })
        };
        let describe = |spec: &ToolSpec, text: &str| {
            let arguments: T = decode::arguments(spec, text).ok()?;
            Some(CallDescription { access: arguments.access(), ..arguments.describe() })
        };
        self.entries.push(Entry {
            spec,
            varies: T::EFFECT_DEPENDS_ON.is_some(),
            decode: Box::new(decode),
            describe,
            images: None,
        });
        self
    }

    /// Adds a tool that the catalog offers only if it can work on this device. Otherwise a call of it returns the
    /// reason.
    #[must_use]
    pub fn with_where<T: Tool<Deps = D>>(self, can_work: bool) -> Self {
        let mut set = self.with::<T>();
        if let Some(entry) = set.entries.last_mut() {
            entry.spec.offered = can_work;
        }
        set
    }

    /// Adds a note about this device to the description of the last added tool.
    #[must_use]
    pub fn on_this_device(mut self, facts: &str) -> Self {
        if let Some(entry) = self.entries.last_mut() {
            facts.clone_into(&mut entry.spec.on_this_device);
        }
        self
    }

    /// Returns the tools for a [`Registry`](super::Registry).
    pub fn into_entries(self) -> Vec<Entry> {
        self.entries
    }
}

type Decode = Box<dyn Fn(&ToolSpec, &str) -> Result<ReadyCall, ToolError> + Send + Sync>;
type Run = Box<dyn FnOnce(ToolCx) -> Pin<Box<dyn Future<Output = Result<Reply, ToolError>> + Send>> + Send>;

/// One tool with its types erased.
pub struct Entry {
    spec: ToolSpec,
    varies: bool,
    decode: Decode,
    describe: fn(&ToolSpec, &str) -> Option<CallDescription>,
    /// Stores before-images for its calls.
    images: Option<Arc<dyn BeforeImages>>,
}

impl Entry {
    /// Creates a tool that is described at run time. `check` returns the problem with the arguments, as part of a
    /// sentence. `run` gets the effect that was declared for the call, and must not exceed it.
    pub fn described<C, R, F>(spec: ToolSpec, check: C, run: R) -> Self
    where
        C: Fn(&Map<String, Value>) -> Result<(), String> + Send + Sync + 'static,
        R: Fn(ToolCx, Map<String, Value>, Effect) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Reply, ToolError>> + Send + 'static,
    {
        let run = Arc::new(run);
        let decode = move |spec: &ToolSpec, text: &str| {
            let arguments = decode::object(spec, text)?;
            check(&arguments).map_err(|cause| decode::refuse(spec, &cause))?;
            let (run, effect) = (Arc::clone(&run), spec.effect);
            let run: Run = Box::new(move |cx| Box::pin(async move { run(cx, arguments, effect).await }));
            // Only the provider knows its files by these names.
            let access = Access::nothing();
            Ok(ReadyCall { effect, access, declares: false, keeping: None, run })
        };
        Self::from_decode(spec, Box::new(decode))
    }

    /// Merges several tools of one name into one, for calls whose owner is known only when they run. The result has the
    /// first one's description and the strongest effect, and accepts arguments of any of them.
    pub(super) fn together(entries: Vec<Arc<Entry>>) -> Option<Arc<Self>> {
        let mut spec = match entries.as_slice() {
            [] | [_] => return entries.into_iter().next(),
            [first, ..] => first.spec.clone(),
        };
        if let Some(most) = entries.iter().map(|entry| entry.spec.effect).find(|effect| effect.at_most_once())
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
        Some(Arc::new(Self::from_decode(spec, Box::new(decode))))
    }

    fn from_decode(spec: ToolSpec, decode: Decode) -> Self {
        Self { spec, varies: false, decode, describe: |_, _| None, images: None }
    }

    /// Describes a call with these arguments for a person; `None` if the tool cannot describe it.
    pub(super) fn describe(&self, args: &str) -> Option<CallDescription> {
        (self.describe)(&self.spec, args)
    }

    /// Returns the catalog's view of the tool.
    pub fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// Returns the effect of a call with these arguments. Undecodable arguments count as the tool's strongest effect,
    /// because such a call is refused before it does anything.
    pub fn effect_of(&self, args: &str) -> Effect {
        if !self.varies {
            return self.spec.effect;
        }
        self.decode(args).map_or(self.spec.effect, |ready| ready.effect)
    }

    /// Decodes the arguments, without any effect.
    ///
    /// # Errors
    /// `invalid_args`, with the key, the expected value and the known keys.
    pub fn decode(&self, args: &str) -> Result<ReadyCall, ToolError> {
        let mut ready = (self.decode)(&self.spec, args)?;
        ready.keeping = self.images.clone().map(|images| Keeping::of(images, &self.spec.name));
        Ok(ready)
    }

    /// Stores before-images of its calls here from now on.
    pub(super) fn keep_in(&mut self, images: Arc<dyn BeforeImages>) {
        self.images = Some(images);
    }
}

/// A call with decoded arguments.
pub struct ReadyCall {
    effect: Effect,
    access: Access,
    declares: bool,
    keeping: Option<Keeping>,
    run: Run,
}

impl ReadyCall {
    /// Returns the effect of the call.
    pub fn effect(&self) -> Effect {
        self.effect
    }

    /// Returns the access of the call.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Returns the input for the gate.
    pub fn decoded<'a>(&'a self, args: &'a str) -> Decoded<'a> {
        Decoded { effect: self.effect, access: &self.access, args }
    }

    /// Returns whether it declares its effects before it makes them.
    pub fn declares(&self) -> bool {
        self.declares
    }

    /// Runs the call.
    ///
    /// # Errors
    /// The tool's error.
    pub async fn run(self, cx: ToolCx) -> Result<Reply, ToolError> {
        let Some(keeping) = self.keeping else { return (self.run)(cx).await };
        let cx = ToolCx { keeping: Some(keeping.clone()), ..cx };
        (self.run)(cx).await.map(|reply| keeping.remarked(reply))
    }
}
