//! `people`: adds, removes and lists the contacts whose names leave this device only as aliases. Names are shown here
//! and nowhere else.

use clap::{Args, Subcommand};

use super::console;
use super::context::CliContext;
use super::exit::{CommandError, Exit};
use punie_home::{IdentityMapError, IdentityMapStore, ListedPerson, NewPerson};

#[derive(Debug, Args)]
pub struct PeopleArgs {
    #[command(subcommand)]
    word: Option<PeopleCommand>,
}

#[derive(Debug, Subcommand)]
enum PeopleCommand {
    /// List people with their aliases (the default)
    List,
    /// Add a person, or more spellings and addresses of one
    Add {
        /// The full name
        name: String,
        /// Another spelling of the name; repeatable
        #[arg(long, value_name = "SPELLING")]
        also: Vec<String>,
        /// A mail address; repeatable
        #[arg(long, value_name = "ADDRESS")]
        mail: Vec<String>,
        /// A phone number, best with the country code; repeatable
        #[arg(long, value_name = "NUMBER", allow_hyphen_values = true)]
        phone: Vec<String>,
    },
    /// Remove a person; their aliases then stay as they are
    Remove {
        /// A name or the alias
        name: String,
    },
}

/// Lists the people, or changes them.
pub fn run_people(args: &PeopleArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let store = IdentityMapStore::in_home(&context.open_home()?);
    match &args.word {
        None | Some(PeopleCommand::List) => print_people(&store, context.is_json()),
        Some(PeopleCommand::Add {
            name,
            also,
            mail,
            phone,
        }) => {
            let person = NewPerson {
                name: name.clone(),
                also: also.clone(),
                mails: mail.clone(),
                phones: phone.clone(),
            };
            let added = store.add_person(&person).map_err(|error| match error {
                IdentityMapError::Refused(_) => {
                    CommandError::with_exit(Exit::Usage, error.to_string())
                }
                IdentityMapError::Home(error) => error.into(),
            })?;
            let text = format!("{name} is {} for agents from now on.", added.alias);
            print_change(&added, &text, context.is_json());
            Ok(Exit::Done)
        }
        Some(PeopleCommand::Remove { name }) => {
            let Some(removed) = store.remove_person(name)? else {
                let text = format!("Nobody in the identity map is called {name:?}");
                return Err(CommandError::with_exit(Exit::Usage, text));
            };
            let text = format!("{name} is removed: agents see the name from now on.");
            print_change(&removed, &text, context.is_json());
            Ok(Exit::Done)
        }
    }
}

fn print_change(person: &ListedPerson, text: &str, as_json: bool) {
    if as_json {
        console::print_json(person);
    } else {
        console::print_line(text);
    }
}

fn print_people(store: &IdentityMapStore, as_json: bool) -> anyhow::Result<Exit> {
    let people = store.list_people()?.unwrap_or_default();
    if as_json {
        people.iter().for_each(console::print_json);
        return Ok(Exit::Done);
    }
    let rows: Vec<Vec<String>> = people
        .iter()
        .flat_map(|person| &person.identifiers)
        .map(|(text, alias)| vec![console::cell_text(text, usize::MAX), alias.clone()])
        .collect();
    console::print_list(
        &["PERSON", "ALIAS"],
        &rows,
        "No people are in the identity map, so no name is replaced. Add one: punie-runner people add NAME",
    );
    Ok(Exit::Done)
}
