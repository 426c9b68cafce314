//! Whole structures under shuttle: so many schedules of one test, from a seed.
//!
//! Half of the schedules change threads at random at each step, which finds what needs many
//! changes. The other half run the thread of the highest of random priorities and change these a
//! few times (Burckhardt, Kothari, Musuvathi and Nagarakatte, "A Randomized Scheduler with
//! Probabilistic Guarantees of Finding Bugs", ASPLOS 2010), which finds what needs one thread to
//! stand still for long.
//!
//! ```text
//!   KEYRACK_SEED=N        other schedules
//!   KEYRACK_SCHEDULES=N   so many, instead of what the test says
//!   KEYRACK_SCHEDULE=S    the one schedule that a failure has printed
//! ```

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, MaxSteps, Runner};

/// The seed when none is given.
const SEED: u64 = 20_261;

/// How often priorities change in a schedule, at most.
const CHANGES_MAX: usize = 3;

/// Steps of one schedule: more are threads that wait for each other for ever.
const STEPS_MAX: usize = 1_000_000;

/// Bytes of a thread's stack. A tree is 32 KiB, and moves through several frames of a test.
const STACK_BYTES: usize = 1 << 19;

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{name} is a decimal number, not '{text}'")))
}

/// Runs `test` in `schedules` schedules. A failing one is printed as text, and so is the seed.
///
/// # Panics
/// When `test` does, when its threads wait for each other, or a variable is no number.
pub fn explore(schedules: usize, test: impl Fn() + Send + Sync + 'static) {
    if let Ok(schedule) = std::env::var("KEYRACK_SCHEDULE") {
        shuttle::replay(test, &schedule);
        return;
    }
    let seed = variable("KEYRACK_SEED").unwrap_or(SEED);
    let schedules = variable("KEYRACK_SCHEDULES").map_or(schedules, |number| number as usize);
    let _seed = Announced(seed);
    let test = std::sync::Arc::new(test);
    let again = std::sync::Arc::clone(&test);
    let half = schedules.div_ceil(2);
    Runner::new(RandomScheduler::new_from_seed(seed, half), config()).run(move || test());
    let priorities = PctScheduler::new_from_seed(seed, CHANGES_MAX, half);
    Runner::new(priorities, config()).run(move || again());
}

fn config() -> Config {
    let mut config = Config::new();
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    config.stack_size = STACK_BYTES;
    // docs/testing.md says that shuttle knows only the strongest memory order.
    config.silence_warnings = true;
    config
}

/// Prints the seed when the test fails.
struct Announced(u64);

impl Drop for Announced {
    #[expect(clippy::print_stderr, reason = "what a failing test has to say")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("KEYRACK_SEED={}; the schedule above is for KEYRACK_SCHEDULE", self.0);
        }
    }
}
