//! Tests and applies confinement on Linux: namespaces created in advance, views of the files, the self-test, a sandbox
//! profile for each process.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, open};

use super::super::child_process::ProcessSpawner;
use super::super::command_checks::explain_shortage;
use super::super::connection_owner::user_name_finder;
use super::super::local_ports;
use super::super::protected_path_watch::{CoverMode, ProtectedPathWatch};
use super::super::self_test_run::{build_script_plan, capture_output};
use super::super::spawn_plan::SpawnPlan;
use super::cache_mounts::MountedCaches;
use super::namespace_maker::{create_namespaces, open_namespace, spawn_maker};
use super::{Confinement, ConfinementState};
use crate::network_proxy::PROXY_PORT;
use punie_core::durable::{Readers, replace_file};
use punie_sandbox::profile::{NamespaceChoice, SandboxProfile};
use punie_sandbox::self_test::{SCRIPT, SelfTestTargets};
use punie_sandbox::{
    BindAccess, ConfinementLevel, LoginPaths, MountStep, NetworkAccess, ViewPlan,
    build_java_trust_store,
};
use punie_tool::ToolError;

/// What one process is confined for.
#[derive(Clone, Copy, Default)]
pub(in crate::local) struct ConfinedProcess<'a> {
    /// The protected paths, which it finds read-only.
    pub watch: Option<&'a ProtectedPathWatch>,
    /// A folder that it alone may also read.
    pub shown: Option<&'a Path>,
    /// The conversation's folder for temporary files; `None` for one that such processes share.
    pub temp: Option<&'a Path>,
    /// A person allowed it the runner's own network.
    pub whole_network: bool,
}

impl Confinement {
    /// Returns the profile for the next process, or `None` if nothing is confined.
    ///
    /// # Errors
    /// `io` if the kernel now refuses a step that it allowed before: nothing runs unconfined then.
    pub(in crate::local) async fn sandbox_profile(
        &self,
        process: ConfinedProcess<'_>,
    ) -> Result<Option<SandboxProfile>, ToolError> {
        let Some(shared) = self.state() else {
            return Ok(None);
        };
        // The gate checked the settings of that moment; others may be in force now.
        shared.check_required_level().await?;
        let level = shared.prove_level_once().await;
        if level == ConfinementLevel::None {
            return Ok(None);
        }
        let made = if let Some(spawner) = shared.view_spawner.get() {
            let caches = shared.caches.mount_once(&shared, spawner);
            match caches.await {
                Ok(caches) => profile_in_view(&shared, spawner, process, caches).await,
                Err(cause) => Err(cause),
            }
        } else {
            let network = if process.whole_network {
                NetworkAccess::Full
            } else {
                shared.profiles.network_access()
            };
            let profiles = &shared.profiles;
            profiles.build_without_view(process.shown, network)
        };
        let made = made.and_then(|mut profile| {
            if process.whole_network {
                shared.profiles.allow_whole_network(&mut profile)?;
            }
            Ok(profile)
        });
        let mut profile = made.map_err(|cause| {
            // Where there is no room, the next call finds some.
            shared.profiles.release_views();
            explain_shortage("The command", &cause)
                .unwrap_or_else(|| ToolError::from_io("the confinement of the command", &cause))
        })?;
        if level.protects_paths() {
            profile.mounts = process.watch.map(protected_mounts).unwrap_or_default();
        }
        Ok(Some(profile))
    }

    /// Makes the paths that the login shell's variables name visible to commands. Returns the trust store of Java
    /// machines, if these paths name authorities.
    pub(in crate::local) async fn set_login_paths(&self, mut paths: LoginPaths) -> Option<PathBuf> {
        let shared = self.state()?;
        shared.profiles.set_login_paths(paths.clone());
        let state = Arc::clone(&shared);
        let written = tokio::task::spawn_blocking(move || write_java_trust_store(&state)).await;
        paths.java_trust_store = written.ok().flatten();
        shared.profiles.set_login_paths(paths.clone());
        for narrowed in shared.narrowed.lock().values().filter_map(Self::state) {
            narrowed.profiles.set_login_paths(paths.clone());
        }
        paths.java_trust_store
    }

    /// Returns the wrapper's arguments: none, because a process here enters its confinement by itself.
    ///
    /// # Errors
    /// None.
    #[expect(
        clippy::unused_async,
        reason = "as where there is something to wait for"
    )]
    pub async fn wrapper_arguments(
        &self,
        _cwd: &std::path::Path,
    ) -> Result<Vec<String>, ToolError> {
        Ok(Vec::new())
    }

    /// Confines a program that the standard library starts, like a command. If it writes, or starts other programs,
    /// it sees the protected paths read-only. `temp` is the folder for temporary files of its conversation.
    ///
    /// # Errors
    /// As for a command's confinement.
    pub async fn apply_confinement(
        &self,
        command: &mut tokio::process::Command,
        writes: bool,
        temp: Option<&Path>,
    ) -> Result<(), ToolError> {
        let cwd = command
            .as_std()
            .get_current_dir()
            .filter(|_| writes)
            .map(Path::to_owned);
        let watch = match cwd {
            Some(cwd) => self.watch_protected_paths(&cwd).await,
            None => None,
        };
        let process = ConfinedProcess {
            watch: watch.as_ref(),
            temp,
            ..ConfinedProcess::default()
        };
        if let Some(profile) = self.sandbox_profile(process).await? {
            if profile.view.is_some() {
                command.env("TMPDIR", "/tmp");
            }
            punie_sandbox::enter_sandbox::confine_command(command.as_std_mut(), profile);
        }
        Ok(())
    }
}

fn write_java_trust_store(shared: &ConfinementState) -> Option<PathBuf> {
    let store = build_java_trust_store(&shared.profiles)?;
    let path = shared.setup.java_trust_store.clone();
    // The views of another process, which shows the same file, stay as they are.
    if std::fs::read(&path).is_ok_and(|written| written == store) {
        return Some(path);
    }
    if let Err(cause) = replace_file(&path, &store, Readers::OwnerOnly) {
        tracing::warn!(%cause, "Java machines in commands do not trust your authorities");
        return None;
    }
    Some(path)
}

fn to_c_path(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

fn protected_mounts(watch: &ProtectedPathWatch) -> Vec<MountStep> {
    let cover = |(path, how): (&Path, CoverMode)| {
        let access = match how {
            CoverMode::InPlace => BindAccess::Unchanged,
            CoverMode::ReadOnly => BindAccess::ReadOnly,
            CoverMode::Writable => BindAccess::Writable,
        };
        Some(cover_step(to_c_path(path).ok()?, access))
    };
    watch.covered_paths().filter_map(cover).collect()
}

/// Returns the step that mounts a path onto itself: it cannot be moved or removed then.
fn cover_step(path: CString, access: BindAccess) -> MountStep {
    MountStep::Bind {
        from: path.clone(),
        to: path,
        access,
    }
}

/// Builds the profile for a process in the view of its conversation, which is made if it is not held.
async fn profile_in_view(
    shared: &Arc<ConfinementState>,
    spawner: &ProcessSpawner,
    process: ConfinedProcess<'_>,
    mounted: Option<&MountedCaches>,
) -> io::Result<SandboxProfile> {
    let temp = process
        .temp
        .map_or_else(|| shared.shared_temp(), Path::to_owned);
    let shown = process.shown.map(Path::to_owned);
    let state = Arc::clone(shared);
    let folder = temp.clone();
    let caches = mounted.map_or_else(Vec::new, |mounted| mounted.caches.clone());
    let found = tokio::task::spawn_blocking(move || {
        let signature = match state.profiles.find_view(&folder) {
            Ok(view) if shown.is_none() => return Ok(Ok(view)),
            Ok(_) => None,
            Err(signature) => Some(signature).filter(|_| shown.is_none()),
        };
        let plan = state
            .profiles
            .plan_view(&folder, shown.as_deref(), &caches)?;
        io::Result::Ok(Err((plan, signature)))
    });
    let view = match found.await.map_err(io::Error::other)?? {
        Ok(view) => view,
        Err((plan, signature)) => {
            let (mounts, covered) = make_view(spawner, shared, &plan, mounted).await?;
            shared
                .profiles
                .hold_view(&temp, &plan, mounts, covered, signature)?
        }
    };
    shared.profiles.build_in(view)
}

/// Makes a view in a process that waits until its mount namespace is opened here, and then ends. Returns the namespace,
/// and the folders in it that replace others.
async fn make_view(
    spawner: &ProcessSpawner,
    shared: &ConfinementState,
    plan: &ViewPlan,
    mounted: Option<&MountedCaches>,
) -> io::Result<(OwnedFd, Vec<OwnedFd>)> {
    let Some(namespaces) = shared.profiles.namespaces() else {
        return Err(io::ErrorKind::Unsupported.into());
    };
    let mut profile =
        SandboxProfile::for_making(NamespaceChoice::Existing(namespaces), plan.steps.clone());
    profile.view = mounted.map(|mounted| Arc::clone(&mounted.base));
    let maker = spawn_maker(spawner, profile).await?;
    let root = PathBuf::from(format!("/proc/{}/root", maker.child.pid()));
    let in_view = |path: &PathBuf| {
        let path = root.join(path.strip_prefix("/").unwrap_or(path));
        open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
    };
    // One that does not show there needs no right.
    let covered = plan
        .covered
        .iter()
        .filter_map(|path| in_view(path).ok())
        .collect();
    Ok((open_namespace(&maker, "mnt")?, covered))
}

/// Runs the self-test and returns the level that it proves.
pub(super) async fn run_self_test(
    shared: &Arc<ConfinementState>,
) -> io::Result<Option<ConfinementLevel>> {
    let spawner = ProcessSpawner::new()?;
    let rules = &shared.setup.rules;
    let has_proxy = rules.network == NetworkAccess::Ask;
    let mut ports = rules.local_ports.clone();
    if has_proxy {
        ports.retain(|port| *port != PROXY_PORT);
        ports.insert(0, PROXY_PORT);
    }
    let made = match shared.caches.user_namespace(&spawner).await {
        Ok(user) => {
            create_namespaces(&spawner, user, rules.network.needs_own_loopback(), &ports).await
        }
        Err(cause) => Err(cause),
    };
    if let Err(cause) = &made {
        tracing::info!(%cause, "commands get no namespaces of their own, and so no loopback and no view of the files");
    }
    let has_namespaces = made.is_ok();
    let (namespaces, listeners) = made.ok().unzip();
    let find_user_name = user_name_finder(namespaces.as_ref());
    shared.profiles.set_namespaces(namespaces);
    let mut listeners = ports.into_iter().zip(listeners.unwrap_or_default());
    let proxy = if has_proxy { listeners.next() } else { None };
    let mut forwarding = local_ports::forward_ports(listeners);
    if let Some((_, listener)) = proxy {
        let proxy = shared.proxy.clone();
        let listener = local_ports::open_listener(listener)?;
        forwarding.spawn(async move { proxy.serve_listener(listener, find_user_name).await });
    }
    *shared.forwarding.lock() = forwarding;
    let folder = shared.setup.self_test.clone();
    let inside = shared.shared_temp().join("tmp");
    let laid_out = tokio::task::spawn_blocking(move || SelfTestTargets::create(&folder, &inside));
    let outside = laid_out.await.map_err(io::Error::other)??;
    // Twice, because the level holds for the whole run and a machine can be busy.
    for _ in 0..2 {
        if !has_namespaces {
            break;
        }
        match test_in_view(&spawner, &outside, shared).await {
            Ok(Some(level)) => {
                // The thread that starts processes is kept for the views of this run.
                let _ = shared.view_spawner.set(spawner);
                return Ok(Some(level));
            }
            Ok(None) => {}
            Err(cause) => {
                tracing::info!(%cause, "a command with a view of the files of its own did not start");
            }
        }
    }
    // If the system refuses only the mounts, the rest may still hold.
    let profile = shared.profiles.build_self_test()?;
    run_self_test_once(&spawner, &outside, shared, profile).await
}

/// Runs the self-test in a view that also shows one folder of the targets, in which files are read-only.
async fn test_in_view(
    spawner: &ProcessSpawner,
    outside: &SelfTestTargets,
    shared: &Arc<ConfinementState>,
) -> io::Result<Option<ConfinementLevel>> {
    let process = ConfinedProcess {
        shown: Some(outside.shown_folder()),
        ..ConfinedProcess::default()
    };
    let mut profile = profile_in_view(shared, spawner, process, None).await?;
    profile.mounts = vec![cover_step(
        to_c_path(outside.protected_file())?,
        BindAccess::ReadOnly,
    )];
    run_self_test_once(spawner, outside, shared, profile).await
}

async fn run_self_test_once(
    spawner: &ProcessSpawner,
    outside: &SelfTestTargets,
    shared: &ConfinementState,
    profile: SandboxProfile,
) -> io::Result<Option<ConfinementLevel>> {
    let plan = SpawnPlan {
        profile: Some(profile),
        cwd: shared.shared_temp().join("tmp"),
        ..build_script_plan(SCRIPT, outside.script_arguments()?, &shared.setup.rules)?
    };
    let said = capture_output(spawner, plan).await?;
    Ok(outside.evaluate_output(&said, shared.profiles.network_access()))
}

#[cfg(test)]
mod tests {
    use super::super::ConfinementSetup;
    use super::*;
    use punie_sandbox::{RequiredLevel, SandboxRules};

    #[tokio::test]
    async fn proofs_beside_each_other_find_the_same() {
        let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        let [home, temp] = folders
            .each_ref()
            .map(|folder| folder.path().canonicalize().expect("real"));
        let level = async || {
            let rules = SandboxRules::minimal(home.clone(), temp.clone());
            let self_test = home.join("self-test");
            let setup = ConfinementSetup {
                rules,
                require: RequiredLevel::Full,
                confine: true,
                apps: false,
                java_trust_store: self_test.join("java.jks"),
                self_test,
            };
            Confinement::new(setup).level().await
        };
        for _ in 0..5 {
            let found = tokio::join!(level(), level(), level());
            assert_eq!(
                found,
                (
                    ConfinementLevel::Full,
                    ConfinementLevel::Full,
                    ConfinementLevel::Full
                )
            );
        }
    }

    #[tokio::test]
    async fn a_command_whose_cover_the_system_refuses_is_not_started() {
        let folder = tempfile::tempdir().expect("a folder");
        let temp = folder.path().canonicalize().expect("real");
        let rules = SandboxRules::minimal(temp.join("home"), temp.clone());
        let self_test = temp.join("self-test");
        let require = RequiredLevel::Full;
        let setup = ConfinementSetup {
            rules: rules.clone(),
            require,
            confine: true,
            apps: false,
            java_trust_store: self_test.join("java.jks"),
            self_test,
        };
        let confinement = Confinement::new(setup);
        let profile = confinement
            .sandbox_profile(ConfinedProcess::default())
            .await
            .expect("it is made")
            .expect("this system confines");
        let spawner = ProcessSpawner::new().expect("a thread");
        let run = async |path: String| {
            let mounts = vec![cover_step(
                CString::new(path).expect("no NUL"),
                BindAccess::ReadOnly,
            )];
            let plan = build_script_plan("echo ran", Vec::new(), &rules).expect("a plan");
            capture_output(
                &spawner,
                SpawnPlan {
                    profile: Some(SandboxProfile {
                        mounts,
                        ..profile.clone()
                    }),
                    ..plan
                },
            )
            .await
        };
        assert_eq!(
            run("/no/such/file".to_owned())
                .await
                .expect("it runs")
                .trim(),
            "ran",
            "gone meanwhile"
        );
        let refused = run(format!("/{}", "x".repeat(300)))
            .await
            .expect_err("its name is too long");
        assert!(
            refused.to_string().starts_with("it cannot be confined: "),
            "{refused}"
        );
    }
}
