//! The Agent Client Protocol, version 1, from its official crate. The rest of the program uses the crate only through
//! this module, so that a new major version changes few files.

pub use agent_client_protocol::v1::schema::*;
pub use agent_client_protocol::v1::{ConnectionTo, Responder};
pub use agent_client_protocol::{
    Agent, Channel, Client, ConnectTo, Error, Handled, JsonRpcRequest, JsonRpcResponse, Lines,
    UntypedMessage, is_connection_terminated, is_incoming_transport_closed,
    on_receive_notification, on_receive_request, schema::ProtocolVersion,
};

/// Builds the error for a session that was never opened or has ended.
pub fn session_not_found(id: &SessionId) -> Error {
    agent_client_protocol::v1::schema::Error::session_not_found(id.clone()).into()
}
