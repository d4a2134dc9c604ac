//! (room: runner)
