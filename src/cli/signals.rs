//! `signals`: what this device can tell about its owner: shows it, and records the owner's consents.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Args, Subcommand};
use serde_json::json;

use super::context::{CliContext, command_runtime};
use super::exit::{CommandError, Exit};
use super::process_signals::Interrupts;
use super::table::Column;
use super::{console, display_time, wiring};
use crate::config::{Config, SignalSwitch, WorkspaceRule};
use punie_engine::runner::Clock;
use punie_handlers::user::{SignalText, consent_text};
use punie_home::{ConsentAct, ConsentRecord, Home, HomeError, SignalConsents, command_to_type};
use punie_signals::Category;

/// The place of a consent that was given to a command.
const TERMINAL: &str = "terminal";

#[derive(Debug, Args)]
pub struct SignalsArgs {
    #[command(subcommand)]
    word: Option<SignalsCommand>,
}

#[derive(Debug, Subcommand)]
enum SignalsCommand {
    /// List the categories, and what you agreed to (the default)
    List,
    /// Print exactly what agents would get; nothing is sent
    ///
    /// Reads the categories that are set to preview or on. Nothing of a category that is off is opened.
    Preview(CategoryArgs),
    /// Print what agents get, after you agreed to it here
    ///
    /// Reads the categories that are on. Your consent is recorded with its text; it holds for agents, too.
    Collect(CategoryArgs),
    /// Withdraw your consent: agents are asked for it again
    Withdraw(CategoryArgs),
}

#[derive(Debug, Args)]
struct CategoryArgs {
    /// The category; repeatable. None: all that may be read
    #[arg(long = "category", value_name = "NAME", value_delimiter = ',', value_parser = category_parser())]
    categories: Vec<Category>,
}

fn category_parser() -> impl clap::builder::TypedValueParser<Value = Category> {
    PossibleValuesParser::new(Category::ALL.map(Category::name))
        .try_map(|name| name.parse::<Category>())
}

/// Shows user signals, or changes the owner's consents.
pub fn run_signals(args: &SignalsArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let (config, home) = context.config_and_home(WorkspaceRule::NotNeeded)?;
    let consents = SignalConsents::in_home(&home);
    match &args.word {
        None | Some(SignalsCommand::List) => list_categories(&config, &consents, context),
        Some(SignalsCommand::Preview(args)) => {
            let least = SignalSwitch::Preview;
            let readable = readable_categories(&config, &args.categories, least)?;
            print_signals(&readable, (&config, &home), context)?;
            if !context.is_json() {
                let text = format!(
                    "\nNothing was sent. Agents get this text of categories that are on and to which you agreed; `{}` \
                     lists them.\n",
                    command_to_type("signals")
                );
                console::print_stderr(&text);
            }
            Ok(Exit::Done)
        }
        Some(SignalsCommand::Collect(args)) => {
            let readable = readable_categories(&config, &args.categories, SignalSwitch::On)?;
            if readable.is_empty() {
                let command = command_to_type("config set signals.CATEGORY on");
                let text = format!("no category is on. To turn one on: {command}");
                return Err(CommandError::with_exit(Exit::Refused, text));
            }
            for category in &readable {
                ask_consent(&consents, *category)?;
            }
            print_signals(&readable, (&config, &home), context)?;
            Ok(Exit::Done)
        }
        Some(SignalsCommand::Withdraw(args)) => {
            withdraw_consents(&consents, &args.categories, context)
        }
    }
}

/// Returns the named categories, or all that are switched at least to this. One that is named and is not is an error.
fn readable_categories(
    config: &Config,
    named: &[Category],
    least: SignalSwitch,
) -> anyhow::Result<Vec<Category>> {
    let is_readable = |category: &Category| {
        let switch = wiring::signal_switch(config, *category);
        switch == SignalSwitch::On || switch == least
    };
    if let Some(closed) = named.iter().find(|category| !is_readable(category)) {
        let switch = wiring::signal_switch(config, *closed).as_str();
        let wanted = least.as_str();
        let command = command_to_type(&format!("config set signals.{closed} {wanted}"));
        let text = format!(
            "{closed} is set to {switch}, so nothing of it was opened. To change that: {command}"
        );
        return Err(CommandError::with_exit(Exit::Refused, text));
    }
    let all = if named.is_empty() {
        &Category::ALL[..]
    } else {
        named
    };
    let mut readable: Vec<Category> = all.iter().copied().filter(is_readable).collect();
    readable.sort_unstable();
    readable.dedup();
    Ok(readable)
}

/// Prints the text of these categories, and on stderr those that are off.
fn print_signals(
    readable: &[Category],
    (config, home): (&Config, &Home),
    context: &CliContext,
) -> anyhow::Result<()> {
    let read = read_or_interrupt(readable, (config, home), context)?;
    let is_off =
        |category: &Category| wiring::signal_switch(config, *category) == SignalSwitch::Off;
    let off: Vec<Category> = Category::ALL.into_iter().filter(is_off).collect();
    if context.is_json() {
        console::print_json(&json!({ "text": read.text, "sources": read.sources, "off": off }));
        return Ok(());
    }
    console::print_text(&read.text);
    for category in off {
        console::print_stderr(&format!("{category} is off: nothing of it was opened.\n"));
    }
    Ok(())
}

/// Reads these categories. Ctrl-C ends it, and leaves no copy of a database behind.
fn read_or_interrupt(
    readable: &[Category],
    (config, home): (&Config, &Home),
    context: &CliContext,
) -> anyhow::Result<SignalText> {
    let environment = context.environment();
    let reader = wiring::open_signal_reader(home, environment)?;
    let places = wiring::signal_settings(config, home, environment).places;
    command_runtime()?.block_on(async {
        let mut interrupts = Interrupts::listen()?;
        let read = reader.read_until(places, readable.to_vec(), interrupts.next_press());
        let interrupted =
            || CommandError::with_exit(Exit::Failed, "interrupted; nothing was shown".to_owned());
        Ok(read.await.ok_or_else(interrupted)??)
    })
}

/// Asks the person at the terminal, unless they agreed before.
fn ask_consent(consents: &SignalConsents, category: Category) -> anyhow::Result<()> {
    let text = consent_text(category);
    if consents.has_consent(category.name(), &text)? {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        let command = command_to_type(&format!("signals collect --category {category}"));
        let why = format!(
            "you have not agreed that agents read {category}, so nothing was read. To read the text and answer, on a \
             terminal: {command}"
        );
        return Err(CommandError::with_exit(Exit::Refused, why));
    }
    console::print_stderr(&format!("{category}\n{text}\n"));
    if !console::ask_yes_no("Do you agree?")? {
        let why = format!("you did not agree that agents read {category}, so nothing was read");
        return Err(CommandError::with_exit(Exit::Refused, why));
    }
    Ok(consents.add_record(&record(category, ConsentAct::Given, text))?)
}

fn record(category: Category, act: ConsentAct, text: String) -> ConsentRecord {
    ConsentRecord {
        at_ms: Clock::system().now_ms(),
        category: category.name().to_owned(),
        act,
        text,
        place: TERMINAL.to_owned(),
    }
}

/// Returns the consents in force, by category, and says on stderr what of their record cannot be read.
fn read_consents(consents: &SignalConsents) -> Result<BTreeMap<String, ConsentRecord>, HomeError> {
    let in_force = consents.list_in_force()?;
    if let Some(line) = in_force.unreadable_line {
        console::print_error(&format!(
            "Line {line} of {} cannot be read. No consent before it counts.",
            consents.file().display()
        ));
    }
    Ok(in_force.by_category)
}

fn withdraw_consents(
    consents: &SignalConsents,
    named: &[Category],
    context: &CliContext,
) -> anyhow::Result<Exit> {
    let in_force = read_consents(consents)?;
    let mut withdrawn = Vec::new();
    for category in Category::ALL {
        let given = in_force.get(category.name());
        if let Some(given) = given.filter(|_| named.is_empty() || named.contains(&category)) {
            let text = given.text.clone();
            consents.add_record(&record(category, ConsentAct::Withdrawn, text))?;
            withdrawn.push(category.name());
        }
    }
    if context.is_json() {
        console::print_json(&json!({ "withdrawn": withdrawn }));
    } else if withdrawn.is_empty() {
        console::print_line("There was no consent to withdraw.");
    } else {
        let list = withdrawn.join(", ");
        let text = format!("Withdrawn: {list}. Agents cannot read it until you agree again.");
        console::print_paragraph("", &text);
    }
    Ok(Exit::Done)
}

fn list_categories(
    config: &Config,
    consents: &SignalConsents,
    context: &CliContext,
) -> anyhow::Result<Exit> {
    let in_force = read_consents(consents)?;
    let mut rows = Vec::new();
    for category in Category::ALL {
        let switch = wiring::signal_switch(config, category).as_str();
        let text = consent_text(category);
        let given = in_force.get(category.name()).filter(|one| one.text == text);
        if context.is_json() {
            console::print_json(&json!({
                "category": category, "switch": switch, "consentText": text,
                "consentedAtMs": given.map(|one| one.at_ms), "consentPlace": given.map(|one| &one.place),
            }));
            continue;
        }
        let consent = match given {
            Some(one) => format!("given {}", display_time::format_moment(one.at_ms)),
            None if in_force.contains_key(category.name()) => "to an earlier text only".to_owned(),
            None => "not given".to_owned(),
        };
        rows.push(vec![category.name().to_owned(), switch.to_owned(), consent]);
    }
    if !context.is_json() {
        let columns = [
            Column::text("CATEGORY"),
            Column::text("SWITCH"),
            Column::text("CONSENT"),
        ];
        console::print_table(&columns, &rows);
        let text = format!(
            "\nAgents read a category only if it is on and you agreed. To look at it first: `{}`, then `{}`.",
            command_to_type("config set signals.CATEGORY preview"),
            command_to_type("signals preview")
        );
        console::print_paragraph("", &text);
    }
    Ok(Exit::Done)
}
