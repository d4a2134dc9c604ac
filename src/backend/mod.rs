//! (room: backend)
