//! Converts the owner's settings to sandbox rules, and exposes the confinement level to the engine.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use crate::acp::local::confinement::{Confinement, Setup};
use crate::config::{self, Config, Environment};
use crate::home::Home;
use crate::runner::Confines;
use crate::sandbox::{Network, Require, Rules, settled};

/// Builds the confinement for this machine's commands. They may move removed files into the trash, through shims of
/// this program.
pub fn confinement(config: &Config, home: &Home, environment: &Environment) -> Confinement {
    let sandbox = &config.sandbox;
    let keeps = config.trash.max_mb > 0;
    let of_trash = if keeps { super::trash(config, home).folders_for_commands() } else { Vec::new() };
    let own_program = std::env::current_exe().ok().filter(|_| keeps);
    let path = environment.path().map(std::env::split_paths).into_iter().flatten();
    // A link in a folder that commands write may be theirs. It must not lead to another grant.
    let writes = [config.workspaces.as_slice(), &sandbox.write].concat();
    // Resolved paths, as the kernel sees them.
    let rules = Rules {
        workspaces: config.workspaces.clone(),
        user_home: environment.user_dir().map(real),
        own_home: real(home.root()),
        shown: [home.skills_dir(), home.trash_programs_dir()]
            .iter()
            .chain(&own_program)
            .map(|path| real(path))
            .collect(),
        pipes: real(&home.shells_dir()),
        temp: real(&home.temp_dir()),
        search_path: path.filter(|folder| folder.is_absolute()).collect(),
        write: settled(&writes, sandbox.write.iter().chain(&of_trash).map(PathBuf::as_path)),
        read: settled(&writes, sandbox.read.iter().map(PathBuf::as_path)),
        hide: sandbox.hide.iter().map(|path| real(path)).collect(),
        sockets: vec![
            real(home.root()).join(home.editor_socket().strip_prefix(home.root()).unwrap_or(Path::new("s"))),
        ],
        found: Arc::default(),
        network: match sandbox.network {
            config::Network::None => Network::None,
            config::Network::Loopback => Network::Loopback,
            config::Network::Full => Network::Full,
        },
    };
    Confinement::new(Setup {
        rules,
        require: match sandbox.require {
            config::Require::Full => Require::Full,
            config::Require::Partial => Require::Partial,
            config::Require::None => Require::None,
        },
        confine: sandbox.confine,
        apps: sandbox.apps,
        self_test: real(home.root())
            .join(home.self_test_dir().strip_prefix(home.root()).unwrap_or(Path::new("t"))),
    })
}

impl Confines for Confinement {
    fn in_words(&self) -> String {
        Self::in_words(self)
    }

    fn proven(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async { drop(self.level().await) })
    }
}

fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
