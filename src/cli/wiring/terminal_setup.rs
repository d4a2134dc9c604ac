//! Opens the terminals of this machine for a configuration.

use std::ffi::OsString;

use anyhow::Context;

use super::adapters;
use punie_engine::journal::Journal;
use punie_host::local::command_environment::withheld_values;
use punie_host::local::confinement::Confinement;
use punie_host::local::local_terminals::{LocalTerminalSetup, LocalTerminals};
use punie_text::output::OutputStore;
use punie_text::redact::{Redactor, Secret};

/// Opens the local terminals. Environment values that are withheld from commands are masked from then on.
pub(super) fn open_terminals(
    variables: &[(OsString, OsString)],
    outputs: &OutputStore,
    redactor: &Redactor,
    journal: Option<&Journal>,
    confinement: &Confinement,
) -> anyhow::Result<LocalTerminals> {
    let base_env = utf8_variables(variables);
    redactor.add_secrets(withheld_values(&base_env).into_iter().map(Secret::new));
    let terminals = LocalTerminals::new(LocalTerminalSetup {
        base_env,
        store: outputs.clone(),
        redactor: redactor.clone(),
        log: adapters::open_child_log(journal),
        confinement: confinement.clone(),
    })
    .context("no thread for starting processes")?;
    terminals.set_withheld_observer(adapters::mask_withheld_values(redactor));
    Ok(terminals)
}

/// Returns the variables that are UTF-8; others cannot be passed on.
fn utf8_variables(variables: &[(OsString, OsString)]) -> Vec<(String, String)> {
    let text = |(name, value): &(OsString, OsString)| {
        Some((name.to_str()?.to_owned(), value.to_str()?.to_owned()))
    };
    variables.iter().filter_map(text).collect()
}
