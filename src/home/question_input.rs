//! The answer that a question of a running call wants where it is more than yes or no: a choice, own words, a secret.

use serde::{Deserialize, Serialize};

use punie_core::approval_answer::{AnswerPlace, ApprovalOption};

/// The most bytes of an answer in words; the wire takes a little more.
const MAX_ANSWER_BYTES: usize = 4_000;

/// An answer of a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersonReply {
    /// Yes or no. With a text it is a yes.
    pub option: ApprovalOption,
    /// Where it was given.
    pub place: AnswerPlace,
    /// The answer in words: the labels of the chosen options, or the person's own words.
    pub text: Option<String>,
}

impl PersonReply {
    /// Creates an answer of yes or no.
    pub fn without_text(option: ApprovalOption, place: AnswerPlace) -> Self {
        Self {
            option,
            place,
            text: None,
        }
    }
}

/// An option of a choice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChoiceOption {
    /// Its name.
    pub label: String,
    /// More about it; empty if there is no more.
    pub description: String,
}

impl ChoiceOption {
    /// Returns its line in a numbered list: `2. Blue: like the sky`.
    pub fn numbered_line(&self, number: usize) -> String {
        let colon = if self.description.is_empty() {
            ""
        } else {
            ": "
        };
        format!("{number}. {}{colon}{}", self.label, self.description)
    }
}

/// The answer that a question wants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum QuestionInput {
    /// Options, or the person's own words.
    Choice {
        /// The options; none if only own words are wanted.
        options: Vec<ChoiceOption>,
        /// True if several options may be chosen.
        is_multiple: bool,
    },
    /// The value of a secret, typed on a terminal of this device.
    Secret {
        /// The name under which it is stored.
        name: String,
    },
    /// The word that something was done elsewhere, such as a code entered on a page.
    Confirmation,
    /// A yes that only a person at this device can give.
    Consent {
        /// The word for what is agreed to.
        subject: String,
    },
}

impl QuestionInput {
    /// Returns whether only a person at this device can say yes.
    pub fn wants_this_device(&self) -> bool {
        matches!(self, Self::Secret { .. } | Self::Consent { .. })
    }

    /// Returns the answer that a person means by a typed line: the labels of the options with these numbers or this
    /// label, else the line itself. The error says what to type.
    ///
    /// # Errors
    /// An empty line, one that is too long, a number that no option has, several numbers where one is wanted.
    pub fn read_typed_answer(&self, typed: &str) -> Result<String, String> {
        let Self::Choice {
            options,
            is_multiple,
        } = self
        else {
            return Err("it takes no text".to_owned());
        };
        let own = read_own_words(typed)?;
        let typed = own.as_str();
        let is_numbers = typed
            .chars()
            .all(|c| c.is_ascii_digit() || c == ',' || c == ' ');
        if options.is_empty() || !is_numbers {
            let same = |option: &&ChoiceOption| option.label.to_lowercase() == typed.to_lowercase();
            let label = options.iter().find(same).map(|option| &option.label);
            return Ok(label.map_or(typed, String::as_str).to_owned());
        }
        let numbers = typed.split([',', ' ']).filter(|number| !number.is_empty());
        let mut chosen = Vec::new();
        for number in numbers {
            let at = number.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
            let option = at.and_then(|at| options.get(at));
            let option = option.ok_or_else(|| format!("there is no option {number}"))?;
            if !chosen.contains(&option.label.as_str()) {
                chosen.push(&option.label);
            }
        }
        match chosen.len() {
            0 => Err("the answer is empty".to_owned()),
            2.. if !is_multiple => Err("it takes one option only".to_owned()),
            _ => read_own_words(&chosen.join(", ")),
        }
    }
}

/// Returns an answer in a person's own words, as it is stored and sent.
///
/// # Errors
/// It is empty or too long.
pub fn read_own_words(typed: &str) -> Result<String, String> {
    let typed = typed.trim();
    if typed.is_empty() {
        return Err("the answer is empty".to_owned());
    }
    if typed.len() > MAX_ANSWER_BYTES {
        return Err(format!("it has more than {MAX_ANSWER_BYTES} bytes"));
    }
    Ok(typed.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(is_multiple: bool) -> QuestionInput {
        let option = |label: &str| ChoiceOption {
            label: label.to_owned(),
            description: String::new(),
        };
        QuestionInput::Choice {
            options: ["Red", "Blue", "Grün"].map(option).into(),
            is_multiple,
        }
    }

    #[test]
    fn a_typed_line_means_options_by_number_or_label_or_itself() {
        let read = |typed: &str| choice(false).read_typed_answer(typed).ok();
        for (typed, meant) in [
            ("2", Some("Blue")),
            (" 1 \n", Some("Red")),
            ("grün", Some("Grün")),
            ("none of them", Some("none of them")),
            ("2 of them", Some("2 of them")),
            ("0", None),
            ("4", None),
            ("1,2", None),
            ("", None),
            (",", None),
            ("99999999999999999999999", None),
        ] {
            assert_eq!(read(typed).as_deref(), meant, "{typed:?}");
        }
        let several = choice(true).read_typed_answer("3, 1 3");
        assert_eq!(several.as_deref(), Ok("Grün, Red"));
        let own = QuestionInput::Choice {
            options: Vec::new(),
            is_multiple: false,
        };
        assert_eq!(own.read_typed_answer("42").as_deref(), Ok("42"));
        assert!(own.read_typed_answer(&"x".repeat(4_001)).is_err());
        assert!(read_own_words(&"é".repeat(2_001)).is_err(), "bytes count");
        assert!(read_own_words(&"é".repeat(2_000)).is_ok());
        assert!(QuestionInput::Confirmation.read_typed_answer("x").is_err());
    }
}
