//! The second wire: the program as a process, and a worker at the other end of a real socket. What the official shape of
//! the conversation is, a worker in another language shows (synapse).

mod delivery;
mod frames;
mod lines;
