//! `bridges deploy`: checks the arguments, stages the bridge, has its dependencies installed, and puts it in place.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;

use super::npm_registry::find_registry;
use super::{finish_change, print_outcome};
use crate::bridges::install_dependencies;
use crate::cli::context::{CliContext, command_runtime};
use crate::cli::exit::{CommandError, Exit};
use crate::cli::wiring;
use crate::config::WorkspaceRule;
use punie_engine::runner::Clock;
use punie_home::{
    BridgeStore, Home, StagedBridge, WantedState, check_bridge_name, check_pin, check_secret_name,
    check_variable_name, command_to_type,
};
use punie_host::local::variable_names::can_hold_secret;
use punie_host::terminals::StopSequence;
use punie_policy::HostPattern;

#[derive(Debug, Args)]
pub struct DeployArgs {
    /// Its name: lower-case letters, digits, - and _
    name: String,
    /// A folder with bridge.js (or main in its package.json), or one file .js, .mjs or .cjs
    source: PathBuf,
    /// A package of npm's registry, by its exact version; repeatable
    #[arg(long = "dependency", value_name = "NAME@1.2.3")]
    dependencies: Vec<String>,
    /// A secret of yours that it gets in a variable; repeatable
    #[arg(long = "secret", value_name = "VAR=SECRET")]
    secrets: Vec<String>,
    /// A host that it may reach, as in rules: name, *.name, address or network, with :PORT for one port; repeatable
    #[arg(long = "host", value_name = "HOST")]
    hosts: Vec<String>,
}

/// Puts a bridge in place, or a new version of it. One that runs is stopped meanwhile.
pub(super) fn deploy_bridge(
    args: &DeployArgs,
    home: &Home,
    store: &BridgeStore,
    context: &CliContext,
) -> anyhow::Result<Exit> {
    let usage = |text: String| CommandError::with_exit(Exit::Usage, text);
    check_bridge_name(&args.name).map_err(usage)?;
    for pin in &args.dependencies {
        check_pin(pin).map_err(usage)?;
    }
    for host in &args.hosts {
        HostPattern::new(host).map_err(usage)?;
    }
    let secrets = parse_secrets(&args.secrets).map_err(usage)?;
    let staged = store.stage(&args.name, &args.source, &args.dependencies)?;
    let runtime = command_runtime()?;
    if !staged.dependencies().is_empty() {
        let installed = runtime.block_on(install(&staged, home, context))?;
        installed.map_err(|why| {
            let text = format!("{} is not deployed, because {why}", args.name);
            CommandError::with_exit(Exit::Failed, text)
        })?;
    }
    let now_ms = Clock::system().now_ms();
    staged.decide_deployment(secrets, args.hosts.clone(), now_ms)?;
    runtime.block_on(finish_change(store, &args.name))?;
    runtime.shutdown_background();
    let deployed = store.read_state()?.bridges.remove(&args.name);
    let deployed = deployed.filter(|record| record.deployed_at_ms == now_ms);
    let Some(record) = deployed else {
        let text = format!(
            "{} was not put in place; the log of the runner says why",
            args.name
        );
        return Err(CommandError::with_exit(Exit::Failed, text));
    };
    let next = match record.wanted {
        WantedState::Started => {
            "It was started before, and is started again by the runner.".to_owned()
        }
        WantedState::Stopped => {
            let start = command_to_type(&format!("bridges start {}", args.name));
            format!("To start it: `{start}`")
        }
    };
    let text = format!("{} is deployed. {next}", args.name);
    print_outcome(&args.name, "deployed", &text, context);
    Ok(Exit::Done)
}

fn parse_secrets(texts: &[String]) -> Result<BTreeMap<String, String>, String> {
    let mut secrets = BTreeMap::new();
    for text in texts {
        let wrong =
            || format!("--secret {text}: write VAR=SECRET, the variable and the secret's name");
        let (variable, name) = text.split_once('=').ok_or_else(wrong)?;
        check_variable_name(variable)?;
        check_secret_name(name)?;
        if !can_hold_secret(variable) || variable.to_ascii_uppercase().ends_with("_PROXY") {
            return Err(format!(
                "--secret {text}: programs get {variable} for another purpose, or it changes which code they load. Name \
                 another variable"
            ));
        }
        if secrets
            .insert(variable.to_owned(), name.to_owned())
            .is_some()
        {
            return Err(format!("--secret names the variable {variable} twice"));
        }
    }
    Ok(secrets)
}

/// Installs the dependencies. The inner error is a part of a sentence.
async fn install(
    staged: &StagedBridge,
    home: &Home,
    context: &CliContext,
) -> anyhow::Result<Result<(), String>> {
    let config = context.effective_config(WorkspaceRule::NotNeeded)?;
    let registry = match find_registry(context.environment()).await {
        Ok(registry) => registry,
        Err(why) => return Ok(Err(why)),
    };
    let host = wiring::assemble_lone_host(&config, home, context.environment())?;
    let installed = install_dependencies(&host.base.terminals, staged, &registry).await;
    let stop = StopSequence::kill_at_once();
    host.base.terminals.stop_all_commands(stop).await;
    Ok(installed)
}
