//! How long a fuzzer goes on: so many inputs, or so many seconds.

use keyrack_measure::Clock;

/// What is left to spend.
#[derive(Debug)]
pub struct Budget(Left);

#[derive(Debug)]
enum Left {
    Rounds(u64),
    Until { clock: Clock, start: u64, ns: u64 },
}

/// The number in a variable, if it is set.
///
/// # Panics
/// When it is no number.
pub(super) fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{name} is a decimal number, not '{text}'")))
}

impl Budget {
    /// The seconds of `KEYRACK_FUZZ_S`, divided by `share`; where that is not set the inputs of
    /// `KEYRACK_FUZZ`; where that is not set either `rounds` inputs.
    ///
    /// # Panics
    /// When one of the variables is no number.
    #[must_use]
    pub fn new(rounds: u64, share: u64) -> Self {
        match variable("KEYRACK_FUZZ_S") {
            Some(seconds) => {
                let ns = seconds.saturating_mul(1_000_000_000) / share.max(1);
                Budget::time(Clock::vdso(), ns)
            }
            None => Budget::rounds(variable("KEYRACK_FUZZ").unwrap_or(rounds)),
        }
    }

    pub(super) fn rounds(rounds: u64) -> Self {
        Budget(Left::Rounds(rounds))
    }

    fn time(clock: Clock, ns: u64) -> Self {
        let start = clock.ticks();
        Budget(Left::Until { clock, start, ns })
    }

    /// Whether it is one of time.
    #[must_use]
    pub fn is_time(&self) -> bool {
        matches!(self.0, Left::Until { .. })
    }

    /// Spends one input. False when there is nothing left.
    pub fn spend(&mut self) -> bool {
        self.spend_many(1)
    }

    /// Spends some inputs at once.
    pub fn spend_many(&mut self, rounds: u64) -> bool {
        match &mut self.0 {
            Left::Rounds(left) => {
                let is_left = *left > 0;
                *left = left.saturating_sub(rounds);
                is_left
            }
            Left::Until { clock, start, ns } => clock.ns_between(*start, clock.ticks()) < *ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_counted_down() {
        let mut budget = Budget::rounds(5);
        assert!(!budget.is_time());
        let spent: Vec<bool> = (0..4).map(|_| budget.spend_many(2)).collect();
        assert_eq!(spent, [true, true, true, false]);
    }

    #[test]
    fn time_ends_whatever_was_done_in_it() {
        let mut budget = Budget::time(Clock::fake(10), 35);
        assert!(budget.is_time());
        let spent: Vec<bool> = (0..5).map(|_| budget.spend()).collect();
        assert_eq!(spent, [true, true, true, false, false]);
    }
}
