//! Tests and applies confinement on Linux: namespaces created in advance, the self-test, a sandbox profile for each
//! process. Not here: the owner's settings (confinement), and entering the sandbox in the child.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{Mode, OFlags, open};

use super::super::command::command_of;
use super::super::guarded::{self, Watch};
use super::super::process::{Plan, Spawner};
use super::super::self_test::{said_by, script};
use super::super::shut_in;
use super::super::ties::Ties;
use super::{Confinement, Shared};
use crate::acp::terminals::{Launch, WindowSize};
use crate::sandbox::cage::{Cage, Cover, Namespaces};
use crate::sandbox::self_test::{Outside, SCRIPT};
use crate::sandbox::{Level, Network};
use crate::tool::ToolError;

impl Confinement {
    /// Returns the profile for the next process, or `None` if nothing is confined. It mounts the watched paths
    /// read-only, and it alone may also read in `shown`.
    ///
    /// # Errors
    /// `io` if the kernel now refuses a step that it allowed before: nothing runs unconfined then.
    pub(in crate::acp::local) async fn cage(
        &self,
        watch: Option<&Watch>,
        shown: Option<&std::path::Path>,
    ) -> Result<Option<Cage>, ToolError> {
        let Some(shared) = self.shared.as_ref().filter(|shared| shared.setup.confine) else {
            return Ok(None);
        };
        let level = self.level().await;
        if level == Level::None {
            return Ok(None);
        }
        let made = shown.map_or_else(|| shared.cages.cage(), |folder| shared.cages.cage_showing(folder));
        let mut cage = made.map_err(|cause| ToolError::io("the confinement of the command", &cause))?;
        if level.has_views() {
            cage.covers = watch.map(covers).unwrap_or_default();
            cage.doors = shared.cages.doors();
        }
        Ok(Some(cage))
    }

    /// Adds the folders of this PATH to those searched for programs, which makes them visible to commands.
    pub(in crate::acp::local) fn learn_path(&self, path: &str) {
        if let Some(shared) = &self.shared {
            shared.cages.look_for_programs_in(std::env::split_paths(path));
        }
    }

    /// Returns the wrapper's arguments: none, because a process here enters its confinement by itself.
    ///
    /// # Errors
    /// None.
    #[expect(clippy::unused_async, reason = "as where there is something to wait for")]
    pub async fn words_before(&self, _cwd: &std::path::Path) -> Result<Vec<String>, ToolError> {
        Ok(Vec::new())
    }

    /// Confines a program that the standard library starts, like a command. If it writes, or starts other programs,
    /// it sees the protected paths read-only.
    ///
    /// # Errors
    /// As for a command's confinement.
    pub async fn confine(
        &self,
        command: &mut tokio::process::Command,
        writes: bool,
    ) -> Result<(), ToolError> {
        let cwd = command.as_std().get_current_dir().filter(|_| writes).map(std::path::Path::to_owned);
        let watch = match cwd {
            Some(cwd) => self.watch(&cwd).await,
            None => None,
        };
        if let Some(cage) = self.cage(watch.as_ref(), None).await? {
            shut_in::confine(command, cage);
        }
        Ok(())
    }
}

fn text(path: &std::path::Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

fn covers(watch: &Watch) -> Vec<Cover> {
    let cover = |(path, how): (&std::path::Path, guarded::Cover)| {
        let path = CString::new(path.as_os_str().as_bytes()).ok()?;
        Some(Cover { path, read_only: how == guarded::Cover::ReadOnly })
    };
    watch.covers().filter_map(cover).collect()
}

/// Runs the self-test and returns the level that it proves.
pub(super) async fn tried(shared: &Shared) -> io::Result<Option<Level>> {
    let spawner = Spawner::new()?;
    let made = namespaces(&spawner, shared.setup.rules.network == Network::Loopback).await;
    if let Err(cause) = &made {
        tracing::info!(%cause, "commands get no namespaces of their own, and so no loopback and no covers");
    }
    let can_cover = made.is_ok();
    shared.cages.found(made.ok());
    let (folder, inside) = (shared.setup.self_test.clone(), shared.setup.rules.temp.clone());
    let laid_out = tokio::task::spawn_blocking(move || Outside::lay_out(&folder, &inside));
    let outside = laid_out.await.map_err(io::Error::other)??;
    let cage = shared.cages.cage_for_a_trial()?;
    let mut doors = shared.cages.doors();
    for door in outside.doors() {
        doors.push(text(&door)?);
    }
    let with_view = Cage {
        covers: vec![Cover { path: text(outside.covered())?, read_only: true }],
        doors,
        ..cage.clone()
    };
    // Twice, because the level holds for the whole run and a machine can be busy.
    for _ in 0..2 {
        if !can_cover {
            break;
        }
        match attempt(&spawner, &outside, shared, with_view.clone()).await {
            Ok(Some(level)) => return Ok(Some(level)),
            Ok(None) => {}
            Err(cause) => {
                tracing::info!(%cause, "a command with a view of the files of its own did not start");
            }
        }
    }
    // If the system refuses only the mounts, the rest may still hold.
    attempt(&spawner, &outside, shared, cage).await
}

async fn attempt(
    spawner: &Spawner,
    outside: &Outside,
    shared: &Shared,
    cage: Cage,
) -> io::Result<Option<Level>> {
    let plan = Plan { cage: Some(cage), ..script(SCRIPT, outside.arguments()?, &shared.setup.rules)? };
    let said = said_by(spawner, plan).await?;
    Ok(outside.level(&said, shared.cages.network()))
}

/// Creates the namespaces in a process that waits until they are opened here, and then ends.
async fn namespaces(spawner: &Spawner, network: bool) -> io::Result<Namespaces> {
    let (program, args) = command_of(&Launch::Shell("read -r _".to_owned()))
        .map_err(|error| io::Error::other(error.text().to_owned()))?;
    let plan = Plan {
        program,
        args,
        env: std::collections::BTreeMap::new(),
        cwd: "/".into(),
        stdin: None,
        // An input that never ends.
        tty: Some(WindowSize::default()),
        ties: Ties::default(),
        cage: Some(Cage::to_make_namespaces(network)),
    };
    let maker = spawner.spawn(plan).await?;
    let held = |kind: &str| {
        let path = format!("/proc/{}/ns/{kind}", maker.child.pid());
        open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
    };
    let network = network.then(|| held("net")).transpose()?;
    // Without its own IPC namespace, the runner's would be held, and the filter would take it for a separate one.
    let own = |path: &str| std::fs::read_link(format!("{path}/ns/ipc")).ok();
    let is_apart = own("/proc/self") != own(&format!("/proc/{}", maker.child.pid()));
    let names = if is_apart { held("ipc").ok() } else { None };
    Ok(Namespaces { user: held("user")?, names, network })
}

#[cfg(test)]
mod tests {
    use super::super::Setup;
    use super::*;
    use crate::sandbox::{Require, Rules};

    #[tokio::test]
    async fn proofs_beside_each_other_find_the_same() {
        let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        let [home, temp] = folders.each_ref().map(|folder| folder.path().canonicalize().expect("real"));
        let level = async || {
            let (rules, self_test) = (Rules::least(home.clone(), temp.clone()), home.join("self-test"));
            let setup = Setup { rules, require: Require::Full, confine: true, apps: false, self_test };
            Confinement::new(setup).level().await
        };
        for _ in 0..5 {
            let found = tokio::join!(level(), level(), level());
            assert_eq!(found, (Level::Full, Level::Full, Level::Full));
        }
    }

    #[tokio::test]
    async fn a_command_whose_cover_the_system_refuses_is_not_started() {
        let folder = tempfile::tempdir().expect("a folder");
        let temp = folder.path().canonicalize().expect("real");
        let rules = Rules::least(temp.join("home"), temp.clone());
        let (self_test, require) = (temp.join("self-test"), Require::Full);
        let setup = Setup { rules: rules.clone(), require, confine: true, apps: false, self_test };
        let confinement = Confinement::new(setup);
        let cage = confinement.cage(None, None).await.expect("it is made").expect("this system confines");
        let spawner = Spawner::new().expect("a thread");
        let run = async |path: String| {
            let covers = vec![Cover { path: CString::new(path).expect("no NUL"), read_only: true }];
            let plan = script("echo ran", Vec::new(), &rules).expect("a plan");
            said_by(&spawner, Plan { cage: Some(Cage { covers, ..cage.clone() }), ..plan }).await
        };
        assert_eq!(run("/no/such/file".to_owned()).await.expect("it runs").trim(), "ran", "gone meanwhile");
        let refused = run(format!("/{}", "x".repeat(300))).await.expect_err("its name is too long");
        assert!(refused.to_string().starts_with("it cannot be confined: "), "{refused}");
    }
}
