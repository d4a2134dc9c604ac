//! The faults that the delivery promises are held against, each as a test named by its number. Not here: faults that
//! belong to one tool or to the wire alone.

mod cancels;
mod homes;
mod processes;
mod room;
mod stops;
