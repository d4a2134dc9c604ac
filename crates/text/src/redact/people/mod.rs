//! Names, mail addresses and phone numbers of people, and their aliases: replaced in what leaves, and resolved in
//! arguments. Pure. Not here: where people are stored (home), and the arguments that are resolved (tool).

mod alias_stream;
mod alias_text;
mod folded_text;
mod person_aliases;
mod phone_numbers;
mod word_boundary;

pub(super) use alias_stream::{AliasStream, as_text};
pub use alias_text::{ALIAS_CODES, make_alias};
pub use folded_text::fold_text;
pub use person_aliases::PersonAliases;
pub(super) use person_aliases::may_have_alias;
pub use phone_numbers::{normalized_digits, phone_forms};
pub use word_boundary::is_unspaced;

/// The kinds of text that identify a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IdentifierKind {
    /// A name, in one spelling.
    Name,
    /// A mail address.
    Mail,
    /// A phone number.
    Phone,
}

/// One identifier of a person, and its alias.
#[derive(Debug, Clone)]
pub struct PersonIdentifier {
    /// Its kind.
    pub kind: IdentifierKind,
    /// The text as the owner wrote it.
    pub text: String,
    /// The text that replaces it.
    pub alias: String,
}

/// The owner's identity map, reloaded when it changed.
pub trait IdentityMapSource: Send + Sync {
    /// Returns the aliases if they changed since the last call: `None` inside without a map, and an error if there is a
    /// map that cannot be read.
    fn load_if_changed(&self) -> Option<Result<Option<PersonAliases>, String>>;
}
