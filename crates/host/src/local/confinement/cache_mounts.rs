//! Mounts the caches that commands share with the user: once in a run of the runner, in a mount namespace from which
//! all views are made.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::OnceCell;

use super::super::child_process::ProcessSpawner;
use super::namespace_maker::{open_namespace, spawn_maker};
use super::{CachesInUse, ConfinementState, EmptyCache};
use punie_sandbox::profile::{HeldView, NamespaceChoice, NamespaceSet, SandboxProfile};
use punie_sandbox::{CacheContent, CacheLayers, CommandCache, SandboxRules};

/// The most sets of layers in use at a time. Each is held by a runner, a `call`, or what a killed one left.
const MAX_SETS: u32 = 64;

/// The caches of this process, and the user namespace that owns their mounts. All confinements of the process share
/// them.
#[derive(Default)]
pub(in crate::local) struct CacheMounts {
    user: OnceCell<Arc<OwnedFd>>,
    mounted: OnceCell<MountedCaches>,
}

/// The caches once they are mounted.
pub(in crate::local) struct MountedCaches {
    /// The mount namespace from which views are made.
    pub base: Arc<HeldView>,
    pub caches: Vec<CommandCache>,
}

impl CacheMounts {
    /// Returns the user namespace of commands, which is created for the first caller.
    pub async fn user_namespace(&self, spawner: &ProcessSpawner) -> io::Result<Arc<OwnedFd>> {
        let create = async || {
            let choice = NamespaceChoice::New {
                user: None,
                network: false,
                ports: Vec::new(),
            };
            let profile = SandboxProfile::for_making(choice, Vec::new());
            let maker = spawn_maker(spawner, profile).await?;
            Ok(Arc::new(open_namespace(&maker, "user")?))
        };
        self.user.get_or_try_init(create).await.cloned()
    }

    /// Returns the caches, which are mounted for the first caller. `None` for processes that get none.
    pub async fn mount_once(
        &self,
        shared: &ConfinementState,
        spawner: &ProcessSpawner,
    ) -> io::Result<Option<&MountedCaches>> {
        let rules = &shared.setup.rules;
        let Some(namespaces) = shared.profiles.namespaces() else {
            return Ok(None);
        };
        if rules.user_home.is_none() || rules.own_folder.is_some() {
            return Ok(None);
        }
        let mount = || mount_caches(rules, &namespaces, spawner);
        self.mounted.get_or_try_init(mount).await.map(Some)
    }

    /// Describes the caches for `status`.
    pub fn describe(&self, rules: &SandboxRules) -> CachesInUse {
        let Some(mounted) = self.mounted.get() else {
            return CachesInUse::Unknown;
        };
        let mut shared = Vec::new();
        let mut empty = Vec::new();
        for cache in &mounted.caches {
            let path = cache.path.display().to_string();
            match cache.content {
                CacheContent::Removed => {}
                CacheContent::ChangedInPlace => {
                    let why = "your tools change files of it in place".to_owned();
                    empty.push(EmptyCache { path, why });
                }
                CacheContent::Shared => shared.push(path),
                CacheContent::Refused(error) => {
                    let why = describe_refusal(&rules.cache_layers, error);
                    empty.push(EmptyCache { path, why });
                }
            }
        }
        CachesInUse::OfCommands { shared, empty }
    }
}

/// Mounts the caches with the first set of layers that no process uses.
async fn mount_caches(
    rules: &SandboxRules,
    namespaces: &Arc<NamespaceSet>,
    spawner: &ProcessSpawner,
) -> io::Result<MountedCaches> {
    for number in 1..=MAX_SETS {
        let rules = rules.clone();
        let plan = move || CacheLayers::plan(&rules, number);
        let layers = tokio::task::spawn_blocking(plan).await;
        let layers = Arc::new(layers.map_err(io::Error::other)??);
        let choice = NamespaceChoice::Existing(Arc::clone(namespaces));
        let mut profile = SandboxProfile::for_making(choice, Vec::new());
        profile.caches = Some(Arc::clone(&layers));
        let maker = spawn_maker(spawner, profile).await?;
        let base = Arc::new(HeldView::without_ruleset(open_namespace(&maker, "mnt")?));
        if let Some(caches) = layers.list() {
            return Ok(MountedCaches { base, caches });
        }
        tracing::info!(
            number,
            "a process that an earlier runner left uses these layers of the caches"
        );
    }
    let text = "too many processes of earlier runners hold the caches of commands";
    Err(io::Error::other(text))
}

/// Describes why the kernel refused an overlay, by the file system of the layers.
fn describe_refusal(layers: &Path, error: i32) -> String {
    const OVERLAY: u32 = 0x794c_7630;
    const NFS: u32 = 0x6969;
    let kind = rustix::fs::statfs(layers).map_or(0, |stat| u32::try_from(stat.f_type).unwrap_or(0));
    match (kind, error) {
        (OVERLAY, _) => "the runner's home lies on an overlay, as in a container".to_owned(),
        (NFS, _) => "the runner's home lies on NFS".to_owned(),
        (_, libc::EPERM | libc::ENODEV) => {
            "this system lets no user mount an overlay (Linux 5.11 or later does)".to_owned()
        }
        _ => {
            let cause = io::Error::from_raw_os_error(error);
            format!("this system refuses an overlay of it: {cause}")
        }
    }
}
