//! From typed tools to entries found by name, and back: the one place where types are erased.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;

use super::{Tool, ToolCx, ToolError, ToolSpec, decode};
use crate::request::{Effect, ErrorCode, Reply};

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
                effect: if T::EFFECT_VARIES { arguments.effect() } else { T::EFFECT },
                declares: T::DECLARES,
                run: Box::new(move |cx| {
                    Box::pin(async move { arguments.run(&cx, &deps).await.map(Into::into) })
                }),
            })
        };
        self.entries.push(Entry { spec, varies: T::EFFECT_VARIES, decode: Box::new(decode) });
        self
    }

    /// The domain's tools, ready for a [`Registry`].
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
}

impl Entry {
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
        (self.decode)(&self.spec, args)
    }
}

/// A call whose arguments are decoded.
pub struct ReadyCall {
    effect: Effect,
    declares: bool,
    run: Run,
}

impl ReadyCall {
    /// What it may do.
    pub fn effect(&self) -> Effect {
        self.effect
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
        (self.run)(cx).await
    }
}

/// Two tools want one name; found at start, never at a call.
#[derive(Debug, thiserror::Error)]
#[error("two tools are called {0}; a name belongs to one tool")]
pub struct DuplicateName(&'static str);

/// Every tool of this device, by name.
pub struct Registry {
    entries: BTreeMap<&'static str, Entry>,
}

impl Registry {
    /// Takes the domains' tools.
    ///
    /// # Errors
    /// [`DuplicateName`].
    pub fn new(domains: impl IntoIterator<Item = Vec<Entry>>) -> Result<Self, DuplicateName> {
        let mut entries = BTreeMap::new();
        for entry in domains.into_iter().flatten() {
            let name = entry.spec.name;
            if entries.insert(name, entry).is_some() {
                return Err(DuplicateName(name));
            }
        }
        Ok(Self { entries })
    }

    /// The tool of this name.
    ///
    /// # Errors
    /// `unknown_tool`, with the names that are close.
    pub fn find(&self, name: &str) -> Result<&Entry, ToolError> {
        self.entries.get(name).ok_or_else(|| self.unknown(name))
    }

    /// What the catalog shows, in order of name.
    pub fn specs(&self) -> impl Iterator<Item = &ToolSpec> {
        self.entries.values().map(Entry::spec)
    }

    /// What this call may do, if there is a tool of that name.
    pub fn effect(&self, name: &str, args: &str) -> Option<Effect> {
        self.entries.get(name).map(|entry| entry.effect_of(args))
    }

    fn unknown(&self, name: &str) -> ToolError {
        let near = decode::nearest(name, self.entries.keys().copied());
        let hint = if near.is_empty() {
            let all: Vec<_> = self.entries.keys().copied().collect();
            format!("This device has: {}.", all.join(", "))
        } else {
            format!("Did you mean {}?", near.join(" or "))
        };
        ToolError::new(ErrorCode::UnknownTool, format!("There is no tool called {name:?}. {hint}"))
    }
}
