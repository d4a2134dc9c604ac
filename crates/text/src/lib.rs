//! Text on its way out of the runner.
//!
//! [`output`] decodes, cleans and clips what tools and commands print, and stores what an answer leaves out. [`redact`] masks
//! secrets, and shows people by aliases.
//!
//! Read first: [`output::OutputStore`], the outputs that `ReadOutput` pages through; [`output::TextBudget`], the size of an
//! answer; [`redact::Redactor`], which masks a result.
//!
//! Every crate of the runner may use this one. It knows no request, tool or process, and uses `punie-core` alone.

#[cfg(any(fuzzing, debug_assertions))]
pub mod fuzzing;
pub mod normal_forms;
pub mod output;
pub mod redact;
