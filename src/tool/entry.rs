//! From typed tools to entries found by name, and from an entry to a call that can run: the one place where types are
//! erased. Not here: which entries there are (registry).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::{
    Access, BeforeImages, CallDescription, Decoded, Keeping, Tool, ToolCx, ToolError, ToolSpec, decode,
};
use crate::request::{Effect, Reply};

/// The tools of one domain, with what they share.
pub struct ToolSet<D> {
    domain: &'static str,
    deps: D,
    entries: Vec<Entry>,
}

impl<D: Clone + Send + Sync + 'static> ToolSet<D> {
    /// An empty domain.
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

    /// Adds a tool that is offered where it can work. Elsewhere a call of it says why it cannot.
    #[must_use]
    pub fn with_where<T: Tool<Deps = D>>(self, can_work: bool) -> Self {
        let mut set = self.with::<T>();
        if let Some(entry) = set.entries.last_mut() {
            entry.spec.offered = can_work;
        }
        set
    }

    /// Adds to the catalog's description of the tool added last what holds on this device.
    #[must_use]
    pub fn on_this_device(mut self, facts: &str) -> Self {
        if let Some(entry) = self.entries.last_mut() {
            facts.clone_into(&mut entry.spec.on_this_device);
        }
        self
    }

    /// The domain's tools, ready for a [`Registry`](super::Registry).
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
    /// Keeps what its calls change.
    images: Option<Arc<dyn BeforeImages>>,
}

impl Entry {
    /// A tool that is described while the program runs. `check` says what is wrong with arguments, as a part of a
    /// sentence; `run` is given the effect that the call was promised with, and must not do more.
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
            // Files that only its own party knows by these names.
            let access = Access::nothing();
            Ok(ReadyCall { effect, access, declares: false, keeping: None, run })
        };
        Self::from_decode(spec, Box::new(decode))
    }

    /// Several described tools of one name as one, for calls of which only running them tells whose they are: with the
    /// first one's description, the most that any of them may do, and arguments that any of them takes.
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

    /// Describes a call with these arguments for a person; `None` where the tool knows nothing of it.
    pub(super) fn describe(&self, args: &str) -> Option<CallDescription> {
        (self.describe)(&self.spec, args)
    }

    /// What the catalog shows of it.
    pub fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// What a call with these arguments may do. Arguments that cannot be decoded count as the most that the tool may
    /// do: such a call is refused before it does anything.
    pub fn effect_of(&self, args: &str) -> Effect {
        if !self.varies {
            return self.spec.effect;
        }
        self.decode(args).map_or(self.spec.effect, |ready| ready.effect)
    }

    /// Decodes the arguments; nothing has been touched yet.
    ///
    /// # Errors
    /// `invalid_args`, naming the key, what it must be and the known keys.
    pub fn decode(&self, args: &str) -> Result<ReadyCall, ToolError> {
        let mut ready = (self.decode)(&self.spec, args)?;
        ready.keeping = self.images.clone().map(|images| Keeping::of(images, &self.spec.name));
        Ok(ready)
    }

    /// From now on what its calls change is kept here.
    pub(super) fn keep_in(&mut self, images: Arc<dyn BeforeImages>) {
        self.images = Some(images);
    }
}

/// A call whose arguments are decoded.
pub struct ReadyCall {
    effect: Effect,
    access: Access,
    declares: bool,
    keeping: Option<Keeping>,
    run: Run,
}

impl ReadyCall {
    /// What it may do.
    pub fn effect(&self) -> Effect {
        self.effect
    }

    /// What it touches.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// What a gate decides by.
    pub fn decoded<'a>(&'a self, args: &'a str) -> Decoded<'a> {
        Decoded { effect: self.effect, access: &self.access, args }
    }

    /// Whether it declares its effects before it makes them.
    pub fn declares(&self) -> bool {
        self.declares
    }

    /// Runs it.
    ///
    /// # Errors
    /// Whatever the tool answers.
    pub async fn run(self, cx: ToolCx) -> Result<Reply, ToolError> {
        let Some(keeping) = self.keeping else { return (self.run)(cx).await };
        let cx = ToolCx { keeping: Some(keeping.clone()), ..cx };
        (self.run)(cx).await.map(|reply| keeping.remarked(reply))
    }
}
