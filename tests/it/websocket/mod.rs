//! The WebSocket backend: the program as a process, and a worker at the other end of a real socket. A worker in another
//! language checks the official message format (synapse).

mod delivery;
mod frames;
mod lines;
