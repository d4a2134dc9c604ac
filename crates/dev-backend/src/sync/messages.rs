//! The messages of the sync protocol.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::timestamp::CommitTimestamp;
use crate::failure::{FunctionFailure, FunctionResult, ThrownError};
use crate::functions::canonical_path;

/// A message that is invalid in this protocol.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the message cannot be understood: {0}")]
pub(super) struct BadMessage(String);

/// A message of the client. Unused fields are not parsed.
#[derive(Debug)]
pub(super) enum ClientMessage<'m> {
    Connect(ConnectMessage),
    ModifyQuerySet(ModifyQuerySet<'m>),
    Mutation(SyncCall<'m>),
    Action(SyncCall<'m>),
    Authenticate(AuthenticateMessage),
    /// A client's own measurements.
    Event,
}

/// The first message of every socket.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ConnectMessage {
    pub session_id: Uuid,
    #[serde(default)]
    pub max_observed_timestamp: Option<CommitTimestamp>,
    /// The client's time in milliseconds; 0 if it does not say.
    #[serde(default)]
    pub client_ts: f64,
}

/// Queries to add and to remove.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ModifyQuerySet<'m> {
    pub base_version: u32,
    pub new_version: u32,
    #[serde(borrow)]
    modifications: Vec<&'m RawValue>,
}

impl<'m> ModifyQuerySet<'m> {
    pub fn len(&self) -> usize {
        self.modifications.len()
    }

    pub fn parse_modifications(
        &self,
    ) -> impl Iterator<Item = Result<QuerySetChange<'m>, BadMessage>> + '_ {
        self.modifications
            .iter()
            .map(|raw| match message_type(raw.get())?.as_str() {
                "Add" => Ok(QuerySetChange::Add(parse_json(raw.get())?)),
                "Remove" => Ok(QuerySetChange::Remove(
                    parse_json::<RemoveQuery>(raw.get())?.query_id,
                )),
                other => Err(unknown_type(other)),
            })
    }
}

#[derive(Debug)]
pub(super) enum QuerySetChange<'m> {
    Add(AddQuery<'m>),
    Remove(u32),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AddQuery<'m> {
    pub query_id: u32,
    pub udf_path: String,
    #[serde(borrow)]
    pub args: SyncArgs<'m>,
    #[serde(default)]
    pub component_path: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RemoveQuery {
    query_id: u32,
}

/// A mutation or an action.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SyncCall<'m> {
    pub request_id: u32,
    pub udf_path: String,
    #[serde(borrow)]
    pub args: SyncArgs<'m>,
    #[serde(default)]
    pub component_path: Option<String>,
}

/// A function's arguments: one object in an array.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct SyncArgs<'m>(#[serde(borrow)] Vec<&'m RawValue>);

impl<'m> SyncArgs<'m> {
    pub fn single_object(&self) -> FunctionResult<&'m RawValue> {
        match self.0.as_slice() {
            [only] => Ok(only),
            other => Err(FunctionFailure::Refused(format!(
                "args must hold one object, not {}",
                other.len()
            ))),
        }
    }
}

/// Returns the function that a message names.
pub(super) fn sync_function_path(path: &str, component: Option<&str>) -> FunctionResult<String> {
    match component {
        None | Some("") => canonical_path(path).map_err(FunctionFailure::Refused),
        Some(_) => Err(FunctionFailure::Refused(
            "there are no components here".into(),
        )),
    }
}

/// The identity that the client claims.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AuthenticateMessage {
    pub base_version: u32,
    pub token_type: TokenType,
    #[serde(default)]
    pub value: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) enum TokenType {
    User,
    Admin,
    None,
}

impl<'m> ClientMessage<'m> {
    pub fn parse(text: &'m str) -> Result<Self, BadMessage> {
        Ok(match message_type(text)?.as_str() {
            "Connect" => Self::Connect(parse_json(text)?),
            "ModifyQuerySet" => Self::ModifyQuerySet(parse_json(text)?),
            "Mutation" => Self::Mutation(parse_json(text)?),
            "Action" => Self::Action(parse_json(text)?),
            "Authenticate" => Self::Authenticate(parse_json(text)?),
            "Event" => Self::Event,
            other => return Err(unknown_type(other)),
        })
    }
}

fn message_type(text: &str) -> Result<String, BadMessage> {
    #[derive(Deserialize)]
    struct TypedMessage {
        r#type: String,
    }
    parse_json::<TypedMessage>(text).map(|typed| typed.r#type)
}

fn parse_json<'m, T: Deserialize<'m>>(text: &'m str) -> Result<T, BadMessage> {
    serde_json::from_str(text).map_err(|bad| BadMessage(bad.to_string()))
}

fn unknown_type(kind: &str) -> BadMessage {
    let shown: String = kind.chars().take(40).collect();
    BadMessage(format!("the type {shown:?} is unknown"))
}

/// The version of a socket: the number of changes of its query set and of its identity, and the snapshot of its values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SyncVersion {
    pub query_set: u32,
    pub identity: u32,
    pub ts: CommitTimestamp,
}

/// A message to the client.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub(super) enum ServerMessage<'m> {
    Transition {
        start_version: SyncVersion,
        end_version: SyncVersion,
        modifications: &'m [QueryModification],
        /// The milliseconds by which the client's clock is behind ours, and the server's time in nanoseconds. Clients
        /// use both or neither.
        #[serde(flatten)]
        measured: Option<ClockMeasurement>,
    },
    TransitionChunk {
        chunk: &'m str,
        part_number: usize,
        total_parts: usize,
        transition_id: &'m str,
    },
    MutationResponse {
        request_id: u32,
        success: bool,
        /// The value, or the error message.
        result: &'m RawValue,
        ts: Option<CommitTimestamp>,
        log_lines: [(); 0],
        #[serde(skip_serializing_if = "Option::is_none")]
        error_data: Option<&'m ThrownError>,
    },
    ActionResponse {
        request_id: u32,
        success: bool,
        result: &'m str,
        log_lines: [(); 0],
    },
    AuthError {
        error: &'m str,
        base_version: u32,
        auth_update_attempted: bool,
    },
    FatalError {
        error: &'m str,
    },
    Ping,
}

impl ServerMessage<'_> {
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("texts and JSON are JSON")
    }
}

/// The data from which a client computes how long a Transition took to arrive.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClockMeasurement {
    pub client_clock_skew: i64,
    pub server_ts: i64,
}

/// The change of one query.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub(super) enum QueryModification {
    #[serde(rename = "QueryUpdated")]
    Updated {
        query_id: u32,
        value: Box<RawValue>,
        log_lines: [(); 0],
        journal: (),
    },
    #[serde(rename = "QueryFailed")]
    Failed {
        query_id: u32,
        error_message: String,
        log_lines: [(); 0],
        journal: (),
        #[serde(skip_serializing_if = "Option::is_none")]
        error_data: Option<ThrownError>,
    },
    #[serde(rename = "QueryRemoved")]
    Removed { query_id: u32 },
}

impl QueryModification {
    pub fn updated(query_id: u32, value: Box<RawValue>) -> Self {
        Self::Updated {
            query_id,
            value,
            log_lines: [],
            journal: (),
        }
    }

    pub fn failed(query_id: u32, failure: &FunctionFailure) -> Self {
        Self::Failed {
            query_id,
            error_message: failure.client_message(),
            log_lines: [],
            journal: (),
            error_data: failure.thrown_data().cloned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_official_clients_send_is_read() {
        let connect = r#"{"type":"Connect","sessionId":"0199f7a1-0000-7000-8000-000000000001","connectionCount":2,
            "lastCloseReason":"InactiveServer","maxObservedTimestamp":"AQAAAAAAAAA=","clientTs":0}"#;
        let Ok(ClientMessage::Connect(connect)) = ClientMessage::parse(connect) else {
            panic!("a Connect")
        };
        assert_eq!(
            connect.max_observed_timestamp,
            Some(CommitTimestamp::from_seq(1))
        );

        let modify = r#"{"type":"ModifyQuerySet","baseVersion":1,"newVersion":2,"modifications":[
            {"type":"Add","queryId":3,"udfPath":"events:head","args":[{"a":"\u00e9"}],"journal":null},
            {"type":"Remove","queryId":2}]}"#;
        let Ok(ClientMessage::ModifyQuerySet(modify)) = ClientMessage::parse(modify) else {
            panic!("a ModifyQuerySet")
        };
        assert_eq!(
            (modify.base_version, modify.new_version, modify.len()),
            (1, 2, 2)
        );
        let read: Vec<_> = modify
            .parse_modifications()
            .collect::<Result<_, _>>()
            .expect("both");
        let [QuerySetChange::Add(add), QuerySetChange::Remove(2)] = read.as_slice() else {
            panic!("{read:?}")
        };
        assert_eq!(
            add.args.single_object().expect("an object").get(),
            r#"{"a":"\u00e9"}"#
        );

        let none = r#"{"type":"Authenticate","baseVersion":0,"tokenType":"None"}"#;
        let Ok(ClientMessage::Authenticate(none)) = ClientMessage::parse(none) else {
            panic!("an Authenticate")
        };
        assert_eq!((none.token_type, none.value), (TokenType::None, None));
        assert!(matches!(
            ClientMessage::parse(r#"{"type":"Event","eventType":"x","event":{}}"#),
            Ok(ClientMessage::Event)
        ));
    }

    #[test]
    fn what_no_client_sends_is_refused_by_name() {
        let deep = format!(
            r#"{{"type":"Mutation","requestId":1,"udfPath":"a:b","args":{}"#,
            "[".repeat(100_000)
        );
        for bad in [
            "",
            "nonsense",
            "[]",
            "{}",
            r#"{"type":7}"#,
            r#"{"type":"Explode"}"#,
            r#"{"type":"Connect","sessionId":"me"}"#,
            r#"{"type":"Mutation","requestId":-1,"udfPath":"a:b","args":[{}]}"#,
            r#"{"type":"Mutation","requestId":4294967296,"udfPath":"a:b","args":[{}]}"#,
            r#"{"type":"Mutation","requestId":1,"udfPath":"a:b","args":{}}"#,
            r#"{"type":"ModifyQuerySet","baseVersion":0,"newVersion":1,"modifications":{}}"#,
            r#"{"type":"Authenticate","baseVersion":0,"tokenType":"Root","value":"x"}"#,
            &deep,
        ] {
            assert!(
                ClientMessage::parse(bad).is_err(),
                "{}",
                &bad[..bad.len().min(80)]
            );
        }
        let long = format!(r#"{{"type":"{}"}}"#, "x".repeat(1 << 20));
        assert!(
            ClientMessage::parse(&long)
                .expect_err("unknown")
                .to_string()
                .len()
                < 200
        );
        let odd = r#"{"type":"ModifyQuerySet","baseVersion":0,"newVersion":1,"modifications":[{"type":"Keep"}]}"#;
        let Ok(ClientMessage::ModifyQuerySet(odd)) = ClientMessage::parse(odd) else {
            panic!("a ModifyQuerySet")
        };
        assert!(odd.parse_modifications().next().expect("one").is_err());
    }

    #[test]
    fn a_response_has_what_every_client_requires() {
        let result = RawValue::from_string(r#"{"n":1.0}"#.into()).expect("JSON");
        let ts = Some(CommitTimestamp::from_seq(1));
        let log_lines = [];
        let response = ServerMessage::MutationResponse {
            request_id: 4,
            success: true,
            result: &result,
            ts,
            log_lines,
            error_data: None,
        };
        let expected = r#"{"type":"MutationResponse","requestId":4,"success":true,"result":{"n":1.0},"ts":"AQAAAAAAAAA=","logLines":[]}"#;
        assert_eq!(response.to_text(), expected);
        let version = SyncVersion::default();
        let updated = [QueryModification::updated(
            7,
            RawValue::from_string("null".into()).expect("JSON"),
        )];
        let transition = ServerMessage::Transition {
            start_version: version,
            end_version: SyncVersion {
                query_set: 1,
                ..version
            },
            modifications: &updated,
            measured: Some(ClockMeasurement {
                client_clock_skew: -3,
                server_ts: 5,
            }),
        };
        let expected = concat!(
            r#"{"type":"Transition","startVersion":{"querySet":0,"identity":0,"ts":"AAAAAAAAAAA="},"#,
            r#""endVersion":{"querySet":1,"identity":0,"ts":"AAAAAAAAAAA="},"modifications":["#,
            r#"{"type":"QueryUpdated","queryId":7,"value":null,"logLines":[],"journal":null}],"#,
            r#""clientClockSkew":-3,"serverTs":5}"#,
        );
        assert_eq!(transition.to_text(), expected);
    }
}
