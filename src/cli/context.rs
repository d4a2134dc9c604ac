//! What every command begins with: its flags, the environment, and from them the configuration and the home.

use super::exit::{Exit, Stop};
use super::{Global, caller::Caller, logging, print, wiring};
use crate::config::{BackendKind, Config, Environment, Flags, WorkspaceRule};
use crate::home::{DeviceIdentity, Home, TokenName, Tokens};
use crate::ids::DeviceId;

/// What was typed and where.
pub struct Context {
    flags: Flags,
    environment: Environment,
}

impl Context {
    pub(super) fn new(global: Global, environment: Environment) -> Self {
        let flags = Flags {
            home: global.home,
            config: global.config,
            workspaces: global.workspaces,
            backend_url: global.backend_url,
            backend_kind: None,
            log: global.log,
            json: global.json,
            color: global.color,
            caller_token: global.caller_token,
            device: global.device,
        };
        Self { flags, environment }
    }

    /// The same with these flags changed: for commands that run others' work in a place of their own.
    pub fn with_flags(&self, change: impl FnOnce(&mut Flags)) -> Self {
        let mut flags = self.flags.clone();
        change(&mut flags);
        Self { flags, environment: self.environment.clone() }
    }

    /// The same for work with the embedded backend at this address, whatever backend the configuration names.
    pub fn with_embedded_backend(&self, url: &str) -> Self {
        self.with_flags(|flags| {
            flags.backend_url = Some(url.to_owned());
            flags.backend_kind = Some(BackendKind::Convex);
        })
    }

    /// The environment, captured once.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Whether stdout carries JSON.
    pub fn json(&self) -> bool {
        self.flags.json
    }

    /// The configuration in force; logging starts with it.
    pub fn config(&self, workspaces: WorkspaceRule) -> anyhow::Result<Config> {
        self.configured(workspaces, |_| None)
    }

    /// The same for a runner, whose log is kept in the home while it is in the background.
    pub fn config_of_runner(&self, workspaces: WorkspaceRule) -> anyhow::Result<Config> {
        self.configured(workspaces, |config| {
            logging::is_kept(config.log.file).then(|| Home::logs_below(&config.home))
        })
    }

    fn configured(
        &self,
        workspaces: WorkspaceRule,
        kept: impl FnOnce(&Config) -> Option<std::path::PathBuf>,
    ) -> anyhow::Result<Config> {
        let config = Config::load(&self.flags, &self.environment, workspaces)?;
        logging::start(config.log.level, config.color, kept(&config));
        for warning in &config.warnings {
            tracing::warn!("{warning}");
        }
        Ok(config)
    }

    /// The home of a configuration, made where it is not there. Tokens of a version that did not say whose they are go to
    /// the configured backend.
    pub fn home(config: &Config) -> anyhow::Result<Home> {
        let home = Home::open(&config.home)?;
        if let Some(url) = &config.configured_url {
            Tokens::of(&home, url.as_str()).adopt_unassigned(&home)?;
        }
        Ok(home)
    }

    /// The device that the caller asks: the one named, else this one, else the only one that the backend knows.
    pub async fn device(&self, config: &Config, home: &Home, caller: &Caller) -> anyhow::Result<DeviceId> {
        if let Some(device) = &config.caller.device {
            return Ok(device.clone());
        }
        if home.device_file().exists() {
            return Ok(DeviceIdentity::load_or_create(home)?.id().clone());
        }
        let known = caller.devices().await?;
        match known.as_slice() {
            [(only, _)] => Ok(DeviceId::parse(only.clone())?),
            [] => Err(Stop::with(
                Exit::Failed,
                "the backend knows no device yet; pair one, or name it with --device",
            )),
            many => {
                let names: Vec<&str> = many.iter().map(|(id, _)| id.as_str()).collect();
                Err(Stop::with(
                    Exit::Usage,
                    format!(
                        "the backend knows several devices; name one with --device: {}",
                        names.join(", ")
                    ),
                ))
            }
        }
    }

    /// The caller's side of the configured backend.
    pub fn caller(config: &Config, home: &Home) -> anyhow::Result<Caller> {
        let functions = wiring::functions(config)?;
        let token = match &config.caller.token {
            Some(token) => token.clone(),
            None => wiring::tokens(config, home)?.read(TokenName::Caller)?.ok_or_else(|| {
                let path = Tokens::of(home, functions.url()).path(TokenName::Caller);
                let text = format!(
                    "no caller token: set PUNIE_CALLER_TOKEN, or put it into {} (mode 0600)",
                    path.display()
                );
                Stop::with(Exit::Refused, text)
            })?,
        };
        Ok(Caller::new(functions, token))
    }

    /// Whether somebody sits at this command.
    pub fn is_interactive() -> bool {
        print::is_terminal()
    }
}

/// A runtime for one command.
pub fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build()?)
}

/// A runtime for the runner: all that only waits is done by the thread that runs it, so that an event wakes one thread
/// and not three. What works through files or waits for them has threads of its own, which end when they rest; so have the
/// tools, whatever they do.
pub fn lone_runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

/// Runs this to its end, good or bad, and does not wait for what still blocks a thread then: a file call that hangs
/// must not keep the process, and with it the lock on the home.
pub fn to_the_end<T>(
    runtime: tokio::runtime::Runtime,
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    let ended = runtime.block_on(work);
    runtime.shutdown_background();
    ended
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_not_held_up_by_a_file_call_that_hangs() {
        let (let_go, hangs) = std::sync::mpsc::channel::<()>();
        let (done, was_done) = std::sync::mpsc::channel();
        let ended = to_the_end(lone_runtime().expect("a runtime"), async {
            let (running, runs) = tokio::sync::oneshot::channel();
            tokio::task::spawn_blocking(move || {
                let _ = running.send(());
                let _ = hangs.recv_timeout(std::time::Duration::from_mins(1));
                let _ = done.send(());
            });
            runs.await?;
            Err::<(), _>(anyhow::anyhow!("it failed"))
        });
        assert_eq!(ended.expect_err("it failed").to_string(), "it failed");
        assert!(was_done.try_recv().is_err(), "the call still hangs");
        drop(let_go);
        was_done.recv().expect("it goes on by itself");
    }
}
