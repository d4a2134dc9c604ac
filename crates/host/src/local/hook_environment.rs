//! The hooks of git, which git starts with its own environment. Wrappers give them the environment of a command.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use super::local_terminals::LocalTerminals;
use crate::network_proxy::CallNetwork;
use crate::terminals::CreateTerminal;
use punie_core::variable_name::is_variable_name;
use punie_policy::command_line::quote_word;
use punie_tool::ToolError;

/// The variable that has the rest of the wrapper.
const SCRIPT_VARIABLE: &str = "PUNIE_HOOK";
/// A wrapper. Everything else depends on the call.
const WRAPPER: &str = "#!/bin/sh\neval \"$PUNIE_HOOK\"\n";

/// The wrappers of hooks, in a folder that commands may read only.
#[derive(Clone)]
pub struct HookWrappers {
    folder: PathBuf,
    terminals: LocalTerminals,
}

/// The environment of the hooks of one call.
pub struct HookEnvironment {
    /// The folder with the wrappers, for `core.hooksPath`.
    pub wrappers: PathBuf,
    /// The variable for git with which the wrappers work: its name and value.
    pub variable: (&'static str, String),
    /// Their folder for temporary files, if commands have one.
    pub temp: Option<PathBuf>,
    /// Their network, if they reach other hosts through the proxy.
    pub network: Option<Arc<CallNetwork>>,
}

impl HookWrappers {
    /// Writes the wrappers of the hooks with these names.
    ///
    /// # Errors
    /// The system's, also where it starts no programs in this folder: git would pass over the hooks without a word.
    pub fn install(folder: &Path, names: &[&str], terminals: LocalTerminals) -> io::Result<Self> {
        // In the view of a command, a link on the way to it may be missing.
        let folder = folder.canonicalize()?;
        for name in names {
            let file = folder.join(name);
            if !fs::read_to_string(&file).is_ok_and(|text| text == WRAPPER) {
                // Under another name first: a commit of another runner may be about to start the old one.
                let draft = folder.join(format!(".{name}.tmp"));
                fs::write(&draft, WRAPPER)?;
                #[cfg(unix)]
                fs::set_permissions(&draft, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
                fs::rename(&draft, &file)?;
            }
            #[cfg(unix)]
            rustix::fs::access(&file, rustix::fs::Access::EXEC_OK)?;
        }
        Ok(Self { folder, terminals })
    }

    /// Prepares the hooks in a folder for a call. They find what a command of this request would find, and not what git
    /// is `restricted` by: these variables and settings in the environment.
    ///
    /// # Errors
    /// As for the environment of a command.
    pub async fn prepare(
        &self,
        hooks: &Path,
        request: &CreateTerminal,
        restricted: &[&str],
    ) -> Result<HookEnvironment, ToolError> {
        let found = self.terminals.environment_of_request(request).await?;
        Ok(HookEnvironment {
            wrappers: self.folder.clone(),
            variable: (
                SCRIPT_VARIABLE,
                build_script(hooks, &found.variables, restricted),
            ),
            temp: found.temp,
            network: found.network,
        })
    }
}

/// Writes the script. It uses no variable of its own, which a hook would find.
fn build_script(hooks: &Path, variables: &BTreeMap<String, String>, restricted: &[&str]) -> String {
    let mut script = format!(
        "while [ \"${{GIT_CONFIG_COUNT:-0}}\" -gt 0 ]; do\n\
         GIT_CONFIG_COUNT=$((GIT_CONFIG_COUNT - 1))\n\
         unset \"GIT_CONFIG_KEY_$GIT_CONFIG_COUNT\" \"GIT_CONFIG_VALUE_$GIT_CONFIG_COUNT\"\n\
         done\n\
         unset GIT_CONFIG_COUNT {SCRIPT_VARIABLE} {}\n",
        restricted.join(" ")
    );
    for (name, value) in variables.iter().filter(|(name, _)| is_variable_name(name)) {
        let _ = writeln!(script, "export {name}={}", quote_word(value));
    }
    let _ = write!(
        script,
        "set -- {}/\"${{0##*/}}\" \"$@\"\n[ -x \"$1\" ] || exit 0\nexec \"$@\"\n",
        quote_word(&hooks.to_string_lossy())
    );
    script
}

#[cfg(all(test, unix))]
mod tests {
    use std::sync::Arc;

    use punie_text::output::OutputStore;
    use punie_text::redact::Redactor;

    use super::*;
    use crate::local::child_log::NoChildLog;
    use crate::local::confinement::Confinement;
    use crate::local::local_terminals::LocalTerminalSetup;

    #[test]
    fn wrappers_are_named_without_a_link_that_a_command_may_not_see() {
        let place = tempfile::tempdir().expect("a folder");
        let top = place.path().canonicalize().expect("real");
        fs::create_dir(top.join("hooks")).expect("made");
        std::os::unix::fs::symlink("hooks", top.join("link")).expect("linked");
        let setup = LocalTerminalSetup {
            base_env: Vec::new(),
            store: OutputStore::open_output_folder(&top.join("outputs")).expect("a store"),
            redactor: Redactor::default(),
            log: Arc::new(NoChildLog),
            confinement: Confinement::default(),
        };
        let terminals = LocalTerminals::new(setup).expect("a thread");
        let wrappers = HookWrappers::install(&top.join("link"), &["pre-commit"], terminals);
        assert_eq!(wrappers.expect("installed").folder, top.join("hooks"));
    }
}
