//! What came of the rounds. Not here: what counts as a violation of what (round).

use std::collections::BTreeMap;
use std::time::Duration;

/// Figures of one round or of all.
#[derive(Debug, Default)]
pub struct Tally {
    pub rounds: u64,
    pub requests: u64,
    pub results: u64,
    /// By outcome and code.
    pub outcomes: BTreeMap<String, u64>,
    pub effects: u64,
    pub recovered: u64,
    pub kills: u64,
    pub network_faults: u64,
    /// Stops of a backend, each followed by a start on the same file.
    pub backend_stops: u64,
    /// Runs of the runner at another backend than the run before.
    pub switches: u64,
    pub violations: Vec<String>,
}

impl Tally {
    pub fn add(&mut self, other: Self) {
        self.rounds += other.rounds;
        self.requests += other.requests;
        self.results += other.results;
        for (outcome, count) in other.outcomes {
            *self.outcomes.entry(outcome).or_default() += count;
        }
        self.effects += other.effects;
        self.recovered += other.recovered;
        self.kills += other.kills;
        self.network_faults += other.network_faults;
        self.backend_stops += other.backend_stops;
        self.switches += other.switches;
        self.violations.extend(other.violations);
    }

    pub fn print(&self, took: Duration) {
        println!("rounds          {}", self.rounds);
        println!("kills           {}", self.kills);
        println!("network faults  {}", self.network_faults);
        println!("backend stops   {}", self.backend_stops);
        println!("switches        {}", self.switches);
        println!("requests        {}", self.requests);
        println!("results         {}", self.results);
        for (outcome, count) in &self.outcomes {
            println!("  {outcome:<22} {count}");
        }
        println!("recovered       {}", self.recovered);
        println!("effects         {}", self.effects);
        println!("took            {:.1} s", took.as_secs_f64());
        for violation in self.violations.iter().take(20) {
            println!("VIOLATION: {violation}");
        }
        println!("violations      {}", self.violations.len());
    }
}
