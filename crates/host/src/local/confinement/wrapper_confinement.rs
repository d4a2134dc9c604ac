//! Confines commands by a wrapper program, as on macOS, and tests it.

use std::io;
use std::path::Path;

use super::super::child_process::ProcessSpawner;
use super::super::self_test_run::{build_script_plan, capture_output, wrap_program};
use super::super::spawn_plan::SpawnPlan;
use super::ConfinementState;
use punie_sandbox::ConfinementLevel;
use punie_sandbox::self_test::{SCRIPT, SelfTestTargets};

/// Runs the self-test with a wrapper that also protects this file from being written.
async fn run_wrapped_self_test(
    shared: &ConfinementState,
    words: impl FnOnce(&Path) -> Vec<String>,
) -> io::Result<Option<ConfinementLevel>> {
    let temp = &shared.setup.rules.temp;
    let outside = SelfTestTargets::create(&shared.setup.self_test, temp)?;
    let plan = build_script_plan(SCRIPT, outside.script_arguments()?, &shared.setup.rules)?;
    let (program, args) = wrap_program(
        words(outside.protected_file()),
        plan.program.clone(),
        plan.args.clone(),
    );
    let said = capture_output(
        &ProcessSpawner::new()?,
        SpawnPlan {
            program,
            args,
            ..plan
        },
    )
    .await?;
    Ok(outside.evaluate_output(&said, shared.setup.rules.network))
}

#[cfg(target_os = "macos")]
pub(super) use macos::run_self_test;

#[cfg(target_os = "macos")]
mod macos {
    use std::io;
    use std::path::{Path, PathBuf};

    use super::super::{Confinement, ConfinementState};
    use crate::local::protected_path_watch::CoverMode;
    use punie_sandbox::{ConfinementLevel, seatbelt};
    use punie_tool::ToolError;

    impl Confinement {
        /// Returns the wrapper program and its arguments, or nothing if nothing is confined.
        ///
        /// # Errors
        /// None.
        pub async fn wrapper_arguments(&self, cwd: &Path) -> Result<Vec<String>, ToolError> {
            let Some(shared) = self.state().filter(|shared| shared.setup.confine) else {
                return Ok(Vec::new());
            };
            shared.check_required_level().await?;
            if shared.prove_level_once().await == ConfinementLevel::None {
                return Ok(Vec::new());
            }
            let watch = self.watch_protected_paths(cwd).await;
            let covered = |wanted: CoverMode| -> Vec<PathBuf> {
                let all = watch.iter().flat_map(|watch| watch.covered_paths());
                all.filter(|(_, cover)| *cover == wanted)
                    .map(|(path, _)| path.to_owned())
                    .collect()
            };
            Ok(wrapper_for_paths(
                &shared,
                &covered(CoverMode::ReadOnly),
                &covered(CoverMode::InPlace),
            ))
        }
    }

    fn wrapper_for_paths(
        shared: &ConfinementState,
        read_only: &[PathBuf],
        in_place: &[PathBuf],
    ) -> Vec<String> {
        let mut words = vec![seatbelt::PROGRAM.to_owned()];
        words.extend(seatbelt::sandbox_exec_args(
            &shared.setup.rules,
            read_only,
            in_place,
        ));
        words
    }

    /// Runs the self-test and returns the level that it proves.
    pub(in super::super) async fn run_self_test(
        shared: &ConfinementState,
    ) -> io::Result<Option<ConfinementLevel>> {
        super::run_wrapped_self_test(shared, |covered| {
            wrapper_for_paths(shared, &[covered.to_owned()], &[])
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::confinement::{Confinement, ConfinementSetup};
    use punie_sandbox::{RequiredLevel, SandboxRules};

    #[tokio::test]
    async fn words_that_confine_nothing_are_found_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let temp = folder.path().to_owned();
        let rules = SandboxRules::minimal(temp.join("home"), temp.clone());
        let self_test = temp.join("self-test");
        let require = RequiredLevel::Full;
        let setup = ConfinementSetup {
            rules,
            require,
            confine: true,
            apps: false,
            java_trust_store: self_test.join("java.jks"),
            self_test,
        };
        let confinement = Confinement::new(setup);
        let shared = confinement.state().expect("it is set up");
        let level = run_wrapped_self_test(&shared, |_| vec!["/usr/bin/env".to_owned()])
            .await
            .expect("it runs");
        let level = level.expect("it got to its end").to_string();
        assert!(
            level == "none" || level.contains("write_outside") && level.contains("tcp"),
            "{level}"
        );
        let gone = run_wrapped_self_test(&shared, |_| vec!["/no/such/program".to_owned()]).await;
        assert!(gone.is_err(), "{gone:?}");
    }
}
