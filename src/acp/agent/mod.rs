//! The runner as an agent that an editor launches: the protocol's agent side over a connection, whose one prompt opens
//! a turn for the backend's calls. Not here: what is shown in that turn and who serves the calls (`acp::editor`).
