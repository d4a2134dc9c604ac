//! (room: dev_backend)
