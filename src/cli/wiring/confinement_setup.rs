//! Converts the owner's settings to sandbox rules, and exposes the confinement level to the engine.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use crate::acp::local::confinement::{Confinement, ConfinementSetup};
use crate::config::{self, Config, ProcessEnvironment};
use crate::home::Home;
use crate::runner::ConfinementReport;
use crate::sandbox::{NetworkAccess, RequiredLevel, SandboxRules, resolve_owner_paths};

/// Builds the confinement for this machine's commands. They may move removed files into the trash, through shims of
/// this program.
pub fn build_confinement(
    config: &Config,
    home: &Home,
    environment: &ProcessEnvironment,
) -> Confinement {
    let sandbox = &config.sandbox;
    let keeps = config.trash.max_mb > 0;
    let of_trash = if keeps {
        super::open_trash(config, home).command_trash_folders()
    } else {
        Vec::new()
    };
    let own_program = std::env::current_exe().ok().filter(|_| keeps);
    let path = environment
        .path_variable()
        .map(std::env::split_paths)
        .into_iter()
        .flatten();
    // A link in a folder that commands write may be theirs. It must not lead to another grant.
    let writes = [config.workspaces.as_slice(), &sandbox.write].concat();
    // Resolved paths, as the kernel sees them.
    let rules = SandboxRules {
        workspaces: config.workspaces.clone(),
        user_home: environment.user_dir().map(canonical_or_same),
        own_home: canonical_or_same(home.root_dir()),
        shown: [home.skills_dir(), home.trash_programs_dir()]
            .iter()
            .chain(&own_program)
            .map(|path| canonical_or_same(path))
            .collect(),
        pipes: canonical_or_same(&home.shells_dir()),
        temp: canonical_or_same(&home.temp_dir()),
        search_path: path.filter(|folder| folder.is_absolute()).collect(),
        write: resolve_owner_paths(
            &writes,
            sandbox.write.iter().chain(&of_trash).map(PathBuf::as_path),
        ),
        read: resolve_owner_paths(&writes, sandbox.read.iter().map(PathBuf::as_path)),
        hide: sandbox
            .hide
            .iter()
            .map(|path| canonical_or_same(path))
            .collect(),
        sockets: vec![
            canonical_or_same(home.root_dir()).join(
                home.editor_socket()
                    .strip_prefix(home.root_dir())
                    .unwrap_or(Path::new("s")),
            ),
        ],
        resolved_hidden: Arc::default(),
        network: match sandbox.network {
            config::Network::None => NetworkAccess::None,
            config::Network::Loopback => NetworkAccess::Loopback,
            config::Network::Full => NetworkAccess::Full,
        },
    };
    Confinement::new(ConfinementSetup {
        rules,
        require: match sandbox.require {
            config::Require::Full => RequiredLevel::Full,
            config::Require::Partial => RequiredLevel::Partial,
            config::Require::None => RequiredLevel::None,
        },
        confine: sandbox.confine,
        apps: sandbox.apps,
        self_test: canonical_or_same(home.root_dir()).join(
            home.self_test_dir()
                .strip_prefix(home.root_dir())
                .unwrap_or(Path::new("t")),
        ),
    })
}

impl ConfinementReport for Confinement {
    fn describe_confinement(&self) -> String {
        Self::level_text(self)
    }

    fn when_proven(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async { drop(self.confinement_level().await) })
    }
}

fn canonical_or_same(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
