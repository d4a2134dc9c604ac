//! Faults, one test each: `fNN` is the fault's number in the catalogue of the delivery promises.

mod kill;
