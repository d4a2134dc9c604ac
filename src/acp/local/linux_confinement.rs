//! Tests and applies confinement on Linux: namespaces created in advance, the self-test, a sandbox profile for each
//! process. Not here: the owner's settings (confinement), and entering the sandbox in the child.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{Mode, OFlags, open};

use super::super::child_process::ProcessSpawner;
use super::super::command_checks::resolve_program;
use super::super::enter_sandbox;
use super::super::protected_path_watch::{self, ProtectedPathWatch};
use super::super::self_test_run::{build_script_plan, capture_output};
use super::super::spawn_plan::SpawnPlan;
use super::{Confinement, ConfinementState};
use crate::acp::terminals::{CommandLaunch, WindowSize};
use crate::sandbox::profile::{NamespaceSet, ProtectedMount, SandboxProfile};
use crate::sandbox::self_test::{SCRIPT, SelfTestTargets};
use crate::sandbox::{ConfinementLevel, NetworkAccess};
use crate::tool::ToolError;

impl Confinement {
    /// Returns the profile for the next process, or `None` if nothing is confined. It mounts the watched paths
    /// read-only, and it alone may also read in `shown`.
    ///
    /// # Errors
    /// `io` if the kernel now refuses a step that it allowed before: nothing runs unconfined then.
    pub(in crate::acp::local) async fn sandbox_profile(
        &self,
        watch: Option<&ProtectedPathWatch>,
        shown: Option<&std::path::Path>,
    ) -> Result<Option<SandboxProfile>, ToolError> {
        let Some(shared) = self.shared.as_ref().filter(|shared| shared.setup.confine) else {
            return Ok(None);
        };
        let level = self.confinement_level().await;
        if level == ConfinementLevel::None {
            return Ok(None);
        }
        let made = shown.map_or_else(
            || shared.profiles.build_profile(),
            |folder| shared.profiles.build_profile_showing(folder),
        );
        let mut profile =
            made.map_err(|cause| ToolError::from_io("the confinement of the command", &cause))?;
        if level.has_mount_namespaces() {
            profile.protected_mounts = watch.map(protected_mounts).unwrap_or_default();
            profile.blocked_paths = shared.profiles.blocked_paths();
        }
        Ok(Some(profile))
    }

    /// Adds the folders of this PATH to those searched for programs, which makes them visible to commands.
    pub(in crate::acp::local) fn add_search_path(&self, path: &str) {
        if let Some(shared) = &self.shared {
            shared
                .profiles
                .add_search_folders(std::env::split_paths(path));
        }
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
    /// it sees the protected paths read-only.
    ///
    /// # Errors
    /// As for a command's confinement.
    pub async fn apply_confinement(
        &self,
        command: &mut tokio::process::Command,
        writes: bool,
    ) -> Result<(), ToolError> {
        let cwd = command
            .as_std()
            .get_current_dir()
            .filter(|_| writes)
            .map(std::path::Path::to_owned);
        let watch = match cwd {
            Some(cwd) => self.watch_protected_paths(&cwd).await,
            None => None,
        };
        if let Some(profile) = self.sandbox_profile(watch.as_ref(), None).await? {
            enter_sandbox::confine_command(command, profile);
        }
        Ok(())
    }
}

fn to_c_path(path: &std::path::Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

fn protected_mounts(watch: &ProtectedPathWatch) -> Vec<ProtectedMount> {
    let cover = |(path, how): (&std::path::Path, protected_path_watch::CoverMode)| {
        let path = CString::new(path.as_os_str().as_bytes()).ok()?;
        Some(ProtectedMount {
            path,
            read_only: how == protected_path_watch::CoverMode::ReadOnly,
        })
    };
    watch.covered_paths().filter_map(cover).collect()
}

/// Runs the self-test and returns the level that it proves.
pub(super) async fn run_self_test(
    shared: &ConfinementState,
) -> io::Result<Option<ConfinementLevel>> {
    let spawner = ProcessSpawner::new()?;
    let made = create_namespaces(
        &spawner,
        shared.setup.rules.network == NetworkAccess::Loopback,
    )
    .await;
    if let Err(cause) = &made {
        tracing::info!(%cause, "commands get no namespaces of their own, and so no loopback and no covers");
    }
    let can_cover = made.is_ok();
    shared.profiles.set_namespaces(made.ok());
    let (folder, inside) = (
        shared.setup.self_test.clone(),
        shared.setup.rules.temp.clone(),
    );
    let laid_out =
        tokio::task::spawn_blocking(move || SelfTestTargets::create_targets(&folder, &inside));
    let outside = laid_out.await.map_err(io::Error::other)??;
    let profile = shared.profiles.build_self_test_profile()?;
    let mut blocked_paths = shared.profiles.blocked_paths();
    for path in outside.paths_to_block() {
        blocked_paths.push(to_c_path(&path)?);
    }
    let with_view = SandboxProfile {
        protected_mounts: vec![ProtectedMount {
            path: to_c_path(outside.protected_file())?,
            read_only: true,
        }],
        blocked_paths,
        ..profile.clone()
    };
    // Twice, because the level holds for the whole run and a machine can be busy.
    for _ in 0..2 {
        if !can_cover {
            break;
        }
        match run_self_test_once(&spawner, &outside, shared, with_view.clone()).await {
            Ok(Some(level)) => return Ok(Some(level)),
            Ok(None) => {}
            Err(cause) => {
                tracing::info!(%cause, "a command with a view of the files of its own did not start");
            }
        }
    }
    // If the system refuses only the mounts, the rest may still hold.
    run_self_test_once(&spawner, &outside, shared, profile).await
}

async fn run_self_test_once(
    spawner: &ProcessSpawner,
    outside: &SelfTestTargets,
    shared: &ConfinementState,
    profile: SandboxProfile,
) -> io::Result<Option<ConfinementLevel>> {
    let plan = SpawnPlan {
        profile: Some(profile),
        ..build_script_plan(SCRIPT, outside.script_arguments()?, &shared.setup.rules)?
    };
    let said = capture_output(spawner, plan).await?;
    Ok(outside.evaluate_output(&said, shared.profiles.network_access()))
}

/// Creates the namespaces in a process that waits until they are opened here, and then ends.
async fn create_namespaces(spawner: &ProcessSpawner, network: bool) -> io::Result<NamespaceSet> {
    let (program, args) = resolve_program(&CommandLaunch::Shell("read -r _".to_owned()))
        .map_err(|error| io::Error::other(error.model_text().to_owned()))?;
    let plan = SpawnPlan {
        // An input that never ends.
        tty: Some(WindowSize::default()),
        profile: Some(SandboxProfile::for_new_namespaces(network)),
        ..SpawnPlan::new(program, args)
    };
    let maker = spawner.spawn_process(plan).await?;
    let held = |kind: &str| {
        let path = format!("/proc/{}/ns/{kind}", maker.child.pid());
        open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
    };
    let network = network.then(|| held("net")).transpose()?;
    // Without its own IPC namespace, the runner's would be held, and the filter would take it for a separate one.
    let own = |path: &str| std::fs::read_link(format!("{path}/ns/ipc")).ok();
    let is_apart = own("/proc/self") != own(&format!("/proc/{}", maker.child.pid()));
    let names = if is_apart { held("ipc").ok() } else { None };
    Ok(NamespaceSet {
        user: held("user")?,
        ipc: names,
        network,
    })
}

#[cfg(test)]
mod tests {
    use super::super::ConfinementSetup;
    use super::*;
    use crate::sandbox::{RequiredLevel, SandboxRules};

    #[tokio::test]
    async fn proofs_beside_each_other_find_the_same() {
        let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        let [home, temp] = folders
            .each_ref()
            .map(|folder| folder.path().canonicalize().expect("real"));
        let level = async || {
            let (rules, self_test) = (
                SandboxRules::minimal_rules(home.clone(), temp.clone()),
                home.join("self-test"),
            );
            let setup = ConfinementSetup {
                rules,
                require: RequiredLevel::Full,
                confine: true,
                apps: false,
                self_test,
            };
            Confinement::new(setup).confinement_level().await
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
        let rules = SandboxRules::minimal_rules(temp.join("home"), temp.clone());
        let (self_test, require) = (temp.join("self-test"), RequiredLevel::Full);
        let setup = ConfinementSetup {
            rules: rules.clone(),
            require,
            confine: true,
            apps: false,
            self_test,
        };
        let confinement = Confinement::new(setup);
        let profile = confinement
            .sandbox_profile(None, None)
            .await
            .expect("it is made")
            .expect("this system confines");
        let spawner = ProcessSpawner::new().expect("a thread");
        let run = async |path: String| {
            let covers = vec![ProtectedMount {
                path: CString::new(path).expect("no NUL"),
                read_only: true,
            }];
            let plan = build_script_plan("echo ran", Vec::new(), &rules).expect("a plan");
            capture_output(
                &spawner,
                SpawnPlan {
                    profile: Some(SandboxProfile {
                        protected_mounts: covers,
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
