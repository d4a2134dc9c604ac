//! (room: home)
