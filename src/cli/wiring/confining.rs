//! The owner's settings as the rules of confinement, and its level as the engine takes it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::acp::local::confinement::{Confinement, Setup};
use crate::config::{self, Config, Environment};
use crate::home::Home;
use crate::sandbox::{Network, Require, Rules};

/// What confines the commands of this machine.
pub fn confinement(config: &Config, home: &Home, environment: &Environment) -> Confinement {
    let sandbox = &config.sandbox;
    let path = environment.path().map(std::env::split_paths).into_iter().flatten();
    // Paths as the kernel knows them: what a link leads to.
    let rules = Rules {
        workspaces: config.workspaces.clone(),
        user_home: environment.user_dir().map(real),
        own_home: real(home.root()),
        shown: vec![real(&home.skills_dir())],
        pipes: real(&home.shells_dir()),
        temp: real(&home.temp_dir()),
        search_path: path.filter(|folder| folder.is_absolute()).collect(),
        write: sandbox.write.iter().map(|path| real(path)).collect(),
        read: sandbox.read.iter().map(|path| real(path)).collect(),
        hide: sandbox.hide.iter().map(|path| real(path)).collect(),
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

/// The level, for results and heartbeats.
pub(super) fn in_words(confinement: Confinement) -> Arc<dyn Fn() -> String + Send + Sync> {
    Arc::new(move || confinement.in_words())
}

fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
