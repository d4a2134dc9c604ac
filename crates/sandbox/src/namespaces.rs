//! The namespaces of commands: which ones a process enters, and the descriptors that hold them.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The namespaces that a process is in.
#[derive(Debug, Clone)]
pub enum NamespaceChoice {
    /// The runner's own.
    Inherited,
    /// New namespaces, created by the process itself: for IPC, and optionally for the network.
    New {
        /// The user namespace to enter; `None` to create one.
        user: Option<Arc<OwnedFd>>,
        /// Also create a network namespace.
        network: bool,
        /// The ports of its loopback at which the process listens, by descriptors from [`FIRST_PORT_DESCRIPTOR`] on in
        /// this order.
        ports: Vec<u16>,
    },
    /// Existing namespaces.
    Existing(Arc<NamespaceSet>),
}

impl NamespaceChoice {
    /// Returns the descriptors of the namespaces to enter.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = &OwnedFd> {
        let descriptors = match self {
            Self::Existing(set) => [
                Some(set.user.as_ref()),
                set.ipc.as_ref(),
                set.network.as_ref(),
            ],
            Self::New { user, .. } => [user.as_deref(), None, None],
            Self::Inherited => [None; 3],
        };
        descriptors.into_iter().flatten()
    }
}

/// The first descriptor of a port's listener in the process that creates the namespaces, where its limit allows that.
pub const FIRST_PORT_DESCRIPTOR: i32 = 100;

/// A user namespace, which the others require; an IPC namespace, if the kernel has them; and, for loopback only, a
/// network namespace with nothing but a loopback.
#[derive(Debug)]
pub struct NamespaceSet {
    /// The user namespace, entered first.
    pub user: Arc<OwnedFd>,
    /// The IPC namespace, entered with the rights that the first one gives.
    pub ipc: Option<OwnedFd>,
    /// The network namespace, entered likewise.
    pub network: Option<OwnedFd>,
}

impl NamespaceSet {
    /// Copies the set without its network namespace: a process in it stays in the runner's network.
    pub(super) fn without_network(&self) -> io::Result<Self> {
        Ok(Self {
            user: Arc::clone(&self.user),
            ipc: self.ipc.as_ref().map(OwnedFd::try_clone).transpose()?,
            network: None,
        })
    }
}

/// A view of the files that is held for the commands of one conversation.
#[derive(Debug)]
pub struct HeldView {
    /// The mount namespace.
    pub mounts: OwnedFd,
    /// The overlays in it over the user's caches.
    pub shared_caches: Vec<CString>,
    pub(super) ruleset: Option<Arc<OwnedFd>>,
}

impl HeldView {
    /// Returns the descriptors by which a process enters this view.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = &OwnedFd> {
        [Some(&self.mounts), self.ruleset.as_deref()]
            .into_iter()
            .flatten()
    }

    /// Wraps a mount namespace from which views are made and in which no program runs.
    pub fn without_ruleset(mounts: OwnedFd) -> Self {
        Self {
            mounts,
            shared_caches: Vec::new(),
            ruleset: None,
        }
    }
}
