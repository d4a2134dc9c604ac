//! The Agent Client Protocol, version 1, as its official crate has it: the one place from which the rest of the
//! program takes the crate's names, so that a new major version of it is a change of few files.

pub use agent_client_protocol::v1::schema::*;
pub use agent_client_protocol::v1::{ConnectionTo, Responder};
pub use agent_client_protocol::{
    Agent, Channel, Client, ConnectTo, ConnectionTermination, Error, Handled, JsonRpcResponse, Lines,
    RequestCancellation, UntypedMessage, is_connection_terminated, is_incoming_transport_closed,
    on_receive_notification, on_receive_request, schema::ProtocolVersion,
};

/// The error for a session that was never opened, or is over.
pub fn session_not_found(id: &SessionId) -> Error {
    agent_client_protocol::v1::schema::Error::session_not_found(id.clone()).into()
}

/// The error for what is not there: a file, a terminal.
pub fn missing(what: String) -> Error {
    agent_client_protocol::v1::schema::Error::resource_not_found(Some(what)).into()
}
