//! (room: journal)
