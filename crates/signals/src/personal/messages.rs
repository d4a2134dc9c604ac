//! Conversations in `chat.db` of Messages: the messages of the last thirty days, by conversation.

use std::cmp::Reverse;

use super::{collect_lines, format_count};
use crate::epoch::{apple_seconds, days_before};
use crate::foreign_rows::{for_each_row, read_count, read_text, require_columns};
use crate::{Budget, Person, SignalPlaces, SourceReport, System};

const DAYS: u64 = 30;
const MAX_CONTACTS: usize = 30;
const MAX_GROUPS: usize = 20;
/// The number by which Messages tells a conversation of several people.
const GROUP_STYLE: u64 = 43;

/// Counts messages. A contact is a number in the text: the address is in `people`, in the same order.
pub(super) fn collect(places: &SignalPlaces, budget: &Budget) -> SourceReport {
    let paths = match places.system {
        System::MacOs => vec![places.user_home.join("Library/Messages/chat.db")],
        System::Linux | System::Windows => Vec::new(),
    };
    // Before macOS 10.13, dates were seconds; since then they are nanoseconds. Both count from 2001.
    let sql = "SELECT c.style, substr(c.chat_identifier, 1, 400), COUNT(*),
            (SELECT COUNT(*) FROM chat_handle_join h WHERE h.chat_id = c.ROWID)
        FROM message m JOIN chat_message_join j ON j.message_id = m.ROWID JOIN chat c ON c.ROWID = j.chat_id
        WHERE CASE WHEN m.date > 100000000000 THEN m.date / 1000000000 ELSE m.date END >= ?1
        GROUP BY c.ROWID ORDER BY COUNT(*) DESC, c.ROWID";
    let since = apple_seconds(days_before(places.now, DAYS));
    let mut contacts: Vec<(String, u64)> = Vec::new();
    let mut report = collect_lines(
        "messages",
        "Messages (Last 30 Days)",
        &paths,
        (places, budget),
        |database, lines| {
            require_columns(database, "message", &["date"])?;
            require_columns(database, "chat", &["style", "chat_identifier"])?;
            require_columns(database, "chat_message_join", &["chat_id", "message_id"])?;
            require_columns(database, "chat_handle_join", &["chat_id"])?;
            let mut groups = Vec::new();
            for_each_row(database, budget, sql, [since], |row| {
                let address = read_text(row, 1);
                let messages = read_count(row, 2);
                if read_count(row, 0) == GROUP_STYLE {
                    groups.push((read_count(row, 3), messages));
                    return;
                }
                // One person has one conversation for each service.
                match contacts.iter().position(|(known, _)| *known == address) {
                    Some(at) => contacts[at].1 += messages,
                    None if contacts.len() < MAX_CONTACTS => contacts.push((address, messages)),
                    None => {}
                }
            })?;
            contacts.sort_by_key(|(_, messages)| Reverse(*messages));
            for (number, (_, messages)) in (1..).zip(&contacts) {
                lines.push(format!(
                    "- Contact {number}: {}",
                    format_count(*messages, "message")
                ));
            }
            for (others, messages) in groups.iter().take(MAX_GROUPS) {
                lines.push(format!(
                    "- A group of {others} others: {}",
                    format_count(*messages, "message")
                ));
            }
            Ok(())
        },
    );
    // Messages has no names: those are in another program's contacts.
    report.people = contacts
        .into_iter()
        .map(|(address, _)| Person {
            name: String::new(),
            identifiers: vec![address],
        })
        .collect();
    report
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::super::test_places::{NOW, make_database, only_text, places};
    use super::*;
    use crate::SourceState;
    use crate::test_places::{budget, schema};

    const CONVERSATIONS: &str = "
        INSERT INTO handle (ROWID, id, service) VALUES (1, '+491701234567', 'iMessage'), (2, 'anna@example.org', 'iMessage');
        INSERT INTO chat (ROWID, guid, style, chat_identifier, display_name) VALUES
            (1, 'a', 45, '+491701234567', ''), (2, 'b', 45, 'anna@example.org', ''), (3, 'c', 43, 'chat99', 'Family'),
            (4, 'd', 45, '+491701234567', '');
        INSERT INTO chat_handle_join VALUES (1, 1), (2, 2), (3, 1), (3, 2);";

    fn script(schema: &str, ticks_per_second: i64) -> String {
        let mut script = schema.to_owned() + CONVERSATIONS;
        // Conversation, and age of the message in days.
        let messages = [
            (1, 1),
            (1, 29),
            (1, 31),
            (2, 1),
            (2, 2),
            (2, 3),
            (2, 400),
            (3, 5),
            (4, 6),
        ];
        for (id, (chat, days)) in (1..).zip(messages) {
            let seconds = i64::try_from(NOW).expect("a time") - 978_307_200 - days * 86_400;
            let date = seconds * ticks_per_second;
            let _ = write!(
                script,
                "INSERT INTO message (ROWID, guid, text, date) VALUES ({id}, '{id}', 'a secret', {date});
                INSERT INTO chat_message_join (chat_id, message_id) VALUES ({chat}, {id});"
            );
        }
        script
    }

    #[test]
    fn messages_of_thirty_days_are_counted_in_each_schema_and_unit_of_time() {
        for (schema, ticks_per_second) in [
            (schema!("imessage_10_11"), 1),
            (schema!("imessage_10_12"), 1),
            (schema!("imessage_10_13"), 1_000_000_000),
        ] {
            let home = tempfile::tempdir().expect("a folder");
            let script = script(schema, ticks_per_second);
            make_database(home.path(), "Library/Messages/chat.db", &script);
            let report = collect(&places(home.path(), System::MacOs), &budget());
            let expected = "- Contact 1: 3 messages\n- Contact 2: 3 messages\n- A group of 2 others: 1 message";
            assert_eq!(only_text(&report), expected, "{schema}");
        }
    }

    #[test]
    fn contacts_are_numbers_in_the_text() {
        let home = tempfile::tempdir().expect("a folder");
        make_database(
            home.path(),
            "Library/Messages/chat.db",
            &script(schema!("imessage_10_13"), 1_000_000_000),
        );
        let report = collect(&places(home.path(), System::MacOs), &budget());
        let written = serde_json::to_string(&report).expect("JSON");
        for hidden in ["anna", "49170", "Family", "secret"] {
            assert!(!written.contains(hidden), "{written}");
        }
        let addresses: Vec<&str> = report
            .people
            .iter()
            .flat_map(|person| &person.identifiers)
            .map(String::as_str)
            .collect();
        assert_eq!(addresses.len(), 2);
        assert!(addresses.contains(&"anna@example.org") && addresses.contains(&"+491701234567"));
    }

    #[test]
    fn an_unknown_schema_is_a_failure_with_a_reason() {
        let home = tempfile::tempdir().expect("a folder");
        make_database(
            home.path(),
            "Library/Messages/chat.db",
            "CREATE TABLE message (ROWID INTEGER, moment INTEGER)",
        );
        let report = collect(&places(home.path(), System::MacOs), &budget());
        let expected = "its table message is not one that this version of punie-runner knows";
        assert_eq!(report.state, SourceState::Failed(expected.to_owned()));
        let elsewhere = collect(&places(home.path(), System::Linux), &budget());
        assert_eq!(elsewhere.state, SourceState::Absent);
    }
}
