//! The owner's identity map: contacts whose names, mail addresses and phone numbers leave this device only as aliases.
//! One file, encrypted.

mod named_people;
mod person_checks;
mod store;

pub use named_people::{NamedPerson, TextAliases};
pub use store::{IdentityMapError, IdentityMapStore, ListedPerson, NewPerson};
