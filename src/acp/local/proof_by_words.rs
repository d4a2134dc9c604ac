//! Confines commands by a wrapper program, as on macOS, and tests it. Not here: the owner's settings (confinement),
//! and the wrapper's arguments (sandbox::seatbelt).

use std::io;
use std::path::Path;

use super::super::process::{Plan, Spawner};
use super::super::self_test::{led_by, said_by, script};
use super::Shared;
use crate::sandbox::Level;
use crate::sandbox::self_test::{Outside, SCRIPT};

/// Runs the self-test with a wrapper that also protects this file from being written.
async fn tried_with(shared: &Shared, words: impl FnOnce(&Path) -> Vec<String>) -> io::Result<Option<Level>> {
    let temp = &shared.setup.rules.temp;
    let outside = Outside::lay_out(&shared.setup.self_test, temp)?;
    let plan = script(SCRIPT, outside.arguments()?, &shared.setup.rules)?;
    let (program, args) = led_by(words(outside.covered()), plan.program.clone(), plan.args.clone());
    let said = said_by(&Spawner::new()?, Plan { program, args, ..plan }).await?;
    Ok(outside.level(&said, shared.setup.rules.network))
}

#[cfg(target_os = "macos")]
pub(super) use macos::tried;

#[cfg(target_os = "macos")]
mod macos {
    use std::io;
    use std::path::{Path, PathBuf};

    use super::super::{Confinement, Shared};
    use crate::acp::local::guarded::Cover;
    use crate::sandbox::{Level, seatbelt};
    use crate::tool::ToolError;

    impl Confinement {
        /// Returns the wrapper program and its arguments, or nothing if nothing is confined.
        ///
        /// # Errors
        /// None.
        pub async fn words_before(&self, cwd: &Path) -> Result<Vec<String>, ToolError> {
            let Some(shared) = self.shared.as_ref().filter(|shared| shared.setup.confine) else {
                return Ok(Vec::new());
            };
            if self.level().await == Level::None {
                return Ok(Vec::new());
            }
            let watch = self.watch(cwd).await;
            let covered = |wanted: Cover| -> Vec<PathBuf> {
                let all = watch.iter().flat_map(|watch| watch.covers());
                all.filter(|(_, cover)| *cover == wanted).map(|(path, _)| path.to_owned()).collect()
            };
            Ok(words(shared, &covered(Cover::ReadOnly), &covered(Cover::InPlace)))
        }
    }

    fn words(shared: &Shared, read_only: &[PathBuf], in_place: &[PathBuf]) -> Vec<String> {
        let mut words = vec![seatbelt::PROGRAM.to_owned()];
        words.extend(seatbelt::words(&shared.setup.rules, read_only, in_place));
        words
    }

    /// Runs the self-test and returns the level that it proves.
    pub(in super::super) async fn tried(shared: &Shared) -> io::Result<Option<Level>> {
        super::tried_with(shared, |covered| words(shared, &[covered.to_owned()], &[])).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acp::local::confinement::{Confinement, Setup};
    use crate::sandbox::{Require, Rules};

    #[tokio::test]
    async fn words_that_confine_nothing_are_found_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let temp = folder.path().to_owned();
        let rules = Rules::least(temp.join("home"), temp.clone());
        let (self_test, require) = (temp.join("self-test"), Require::Full);
        let setup = Setup { rules, require, confine: true, apps: false, self_test };
        let confinement = Confinement::new(setup);
        let shared = confinement.shared.as_ref().expect("it is set up");
        let level = tried_with(shared, |_| vec!["/usr/bin/env".to_owned()]).await.expect("it runs");
        let level = level.expect("it got to its end").to_string();
        assert!(level == "none" || level.contains("write_outside") && level.contains("tcp"), "{level}");
        let gone = tried_with(shared, |_| vec!["/no/such/program".to_owned()]).await;
        assert!(gone.is_err(), "{gone:?}");
    }
}
