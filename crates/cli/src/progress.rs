//! The live status: a bar on a terminal, one line a second where plain text is asked for, else
//! nothing.
//!
//! Everything goes to standard error, so it never lands in a result. The plain lines are those of
//! the original; the bar shows the same figures in one line that is drawn over.

use crate::tui::{self, BenchScreen};
use crate::watch::Watch;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use keyrack_console::say;
use keyrack_harness::sink::Dialect;
use keyrack_harness::{At, Event, Observer, ProgressMode, Second, Stop};
use std::io::{IsTerminal, Write};

/// Shows a run's events to a person.
#[derive(Debug)]
pub(crate) struct Progress {
    display: Display,
    dialect: Dialect,
    watch: Option<Watch>,
    /// Says how a long load goes on where there is no terminal.
    tells_loads: bool,
    /// When the present load was told of last, in seconds since it began.
    told_s: f64,
}

/// Seconds between two lines about a load where there is no terminal.
const LOAD_LINE_S: f64 = 10.0;

#[derive(Debug)]
enum Display {
    Nothing,
    Plain,
    /// The bar of the running phase.
    Bar(Option<ProgressBar>),
    /// The whole terminal.
    Screen(Box<BenchScreen>),
}

impl Progress {
    pub(crate) fn new(mode: ProgressMode, dialect: Dialect) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let display = match mode {
            ProgressMode::None => Display::Nothing,
            ProgressMode::Plain => Display::Plain,
            // The original scrolled lines; under its name so do we.
            ProgressMode::Auto if terminal && dialect == Dialect::Seed => Display::Plain,
            ProgressMode::Auto if !terminal => Display::Nothing,
            ProgressMode::Auto | ProgressMode::Bar => Display::Bar(None),
        };
        let tells_loads = mode == ProgressMode::Auto && dialect == Dialect::Keyrack;
        Progress { display, dialect, watch: None, tells_loads, told_s: 0.0 }
    }

    /// The whole terminal, or plain lines where there is none.
    ///
    /// # Errors
    /// One line: a build without screens.
    pub(crate) fn on_a_screen(dialect: Dialect, stop: &Stop) -> Result<Self, String> {
        let display = match tui::refusal() {
            Some(why) => {
                say!("{why}");
                Display::Plain
            }
            None => Display::Screen(Box::new(BenchScreen::start(stop)?)),
        };
        Ok(Progress { display, dialect, watch: None, tells_loads: false, told_s: 0.0 })
    }

    /// The same, and whoever asks over HTTP sees it too.
    pub(crate) fn watched(self, watch: Option<Watch>) -> Self {
        Progress { watch, ..self }
    }

    /// Gives the terminal back.
    pub(crate) fn close(&mut self) {
        if let Display::Screen(_) = self.display {
            self.display = Display::Nothing;
        }
        keyrack_console::release();
    }

    /// The cell in a few letters: `t8`, `t8 batch=256`; under the old name always with `b`.
    fn tag(&self, at: &At<'_>) -> String {
        tag(self.dialect, at)
    }

    fn plain(&self, event: &Event<'_>) {
        match event {
            Event::Seeding { at, threads } if self.dialect == Dialect::Seed => {
                // Standard error is not buffered; the end of the line comes with `Seeded`.
                let (workload, engine) = (at.workload, at.engine);
                let _ = write!(
                    std::io::stderr(),
                    "  seeding {workload} on {engine} with {threads} threads ..."
                );
            }
            Event::Seeded { elapsed_s, .. } if self.dialect == Dialect::Seed => {
                say!(" done ({elapsed_s:.1}s)");
            }
            Event::SeedTick { .. } if self.dialect == Dialect::Seed => {}
            Event::Seeding { at, threads } => {
                say!("  seeding {} on {} with {threads} threads", at.workload, at.engine);
            }
            Event::SeedTick { at, elapsed_s, keys, keys_per_s, .. } => say!(
                "  seeding {} {}  {elapsed_s:5.1}s  {keys:12} keys  {keys_per_s:10.0} keys/s{}",
                at.workload,
                at.engine,
                left(event)
            ),
            Event::Seeded { at, elapsed_s, keys } => say!(
                "  seeded {} in {elapsed_s:.1}s  {keys} keys  {:.0} keys/s",
                at.workload,
                *keys as f64 / elapsed_s.max(1e-9)
            ),
            Event::Running { at, repeat, repeats } => {
                let tag = self.tag(at);
                let (workload, engine) = (at.workload, at.engine);
                say!("  running {workload} on {engine}  {tag}  run {repeat}/{repeats}");
            }
            Event::Tick { at, .. } => {
                say!("  {} {} {}", at.workload, at.engine, self.line(event));
            }
            Event::Notice { at, thread, text } => {
                say!("  {} {}  thread {thread}: {text}", at.workload, at.engine);
            }
            Event::Finished => {}
            Event::Note(note) => say!("{note}"),
        }
    }

    /// What stands beside the bar.
    fn bar_text(&self, event: &Event<'_>) -> String {
        match event {
            Event::Seeding { at, .. } => format!("{} on {}: loading", at.workload, at.engine),
            Event::SeedTick { at, keys, keys_per_s, .. } => format!(
                "{} on {}: loading, {keys} keys, {keys_per_s:.0} keys/s{}",
                at.workload,
                at.engine,
                left(event)
            ),
            Event::Running { at, repeat, repeats } => {
                let tag = self.tag(at);
                format!("{} on {} {tag} run {repeat}/{repeats}", at.workload, at.engine)
            }
            Event::Tick { at, .. } => {
                format!("{} on {} {}", at.workload, at.engine, self.line(event))
            }
            Event::Notice { at, thread, text } => {
                format!("{} on {}: thread {thread} {text}", at.workload, at.engine)
            }
            Event::Seeded { .. } | Event::Finished | Event::Note(_) => String::new(),
        }
    }

    /// Elapsed time, rate and share done of a tick.
    fn line(&self, event: &Event<'_>) -> String {
        let Event::Tick { at, elapsed_s, budget_s, units, total, units_per_s } = event else {
            return String::new();
        };
        let tag = self.tag(at);
        match (budget_s, total) {
            (Some(budget), _) => {
                format!("{tag}  {elapsed_s:5.1}/{budget:.0}s  {units_per_s:9.0} wu/s")
            }
            (None, Some(total)) => {
                let percent = 100.0 * *units as f64 / (*total).max(1) as f64;
                format!(
                    "{tag}  {elapsed_s:5.1}s  {units_per_s:9.0} wu/s  {percent:3.0}% \
                     ({units}/{total})"
                )
            }
            (None, None) => format!("{tag}  {elapsed_s:5.1}s  {units_per_s:9.0} wu/s"),
        }
    }
}

impl Observer for Progress {
    fn step(&mut self, number: usize, count: usize) {
        if let Some(watch) = &self.watch {
            watch.step(number, count);
        }
        if let Display::Screen(screen) = &mut self.display {
            screen.step(number, count);
        }
    }

    fn wants_seconds(&self) -> bool {
        matches!(self.display, Display::Screen(_)) || self.watch.is_some()
    }

    fn second(&mut self, at: &At<'_>, second: &Second) {
        if let Some(watch) = &self.watch {
            watch.second(at, second);
        }
        if let Display::Screen(screen) = &mut self.display {
            screen.second(second);
        }
    }

    fn event(&mut self, event: &Event<'_>) {
        if let Some(watch) = &self.watch {
            watch.event(event);
        }
        let dialect = self.dialect;
        if let Display::Screen(screen) = &mut self.display {
            screen.event(event, &|at| tag(dialect, at));
            return;
        }
        let text = match (&self.display, event) {
            (Display::Plain, _) => {
                self.plain(event);
                return;
            }
            // What a person has to know is said without a terminal too.
            (Display::Nothing, Event::Note(note)) => {
                say!("{note}");
                return;
            }
            // So is a load that takes long.
            (Display::Nothing, Event::SeedTick { elapsed_s, .. }) if self.tells_loads => {
                if *elapsed_s >= self.told_s + LOAD_LINE_S {
                    self.told_s = *elapsed_s;
                    say!("{}", self.bar_text(event));
                }
                return;
            }
            (Display::Nothing, Event::Seeding { .. }) => {
                self.told_s = 0.0;
                return;
            }
            (Display::Nothing, _) => return,
            (Display::Bar(_) | Display::Screen(_), _) => self.bar_text(event),
        };
        let Display::Bar(slot) = &mut self.display else { return };
        match event {
            // Results are printed where the bar stood: it goes, and the next phase has its own.
            Event::Finished => {
                if let Some(bar) = slot.take() {
                    bar.finish_and_clear();
                }
            }
            Event::Note(note) => match slot {
                Some(bar) => bar.suspend(|| say!("{note}")),
                None => say!("{note}"),
            },
            Event::Seeded { .. } => {}
            _ => {
                let bar = slot.get_or_insert_with(bar);
                let (position, length) = share(event);
                bar.set_length(length);
                bar.set_position(position.min(length));
                bar.set_message(text);
                bar.tick();
            }
        }
    }
}

/// The cell in a few letters: `t8`, `t8 batch=256`; under the old name always with `b`.
fn tag(dialect: Dialect, at: &At<'_>) -> String {
    let batch = at.sweep.filter(|(param, _)| *param == "batch").map(|(_, value)| value);
    let mut tag = match at.phase {
        Some(phase) => format!("{phase} t{}", at.threads),
        None => format!("t{}", at.threads),
    };
    match (dialect, at.sweep) {
        (Dialect::Seed, _) => tag.push_str(&format!(" b{}", batch.unwrap_or(1))),
        (Dialect::Keyrack, Some((param, value))) => tag.push_str(&format!(" {param}={value}")),
        (Dialect::Keyrack, None) => {}
    }
    if let Some(rate) = at.rate {
        tag.push_str(&format!(" rate={rate:.0}"));
    }
    tag
}

/// What share of a load is done, and when it will be whole at its mean rate so far.
fn left(event: &Event<'_>) -> String {
    let Event::SeedTick { elapsed_s, keys, total: Some(total), .. } = event else {
        return String::new();
    };
    let percent = (100.0 * *keys as f64 / (*total).max(1) as f64).min(100.0);
    let missing = total.saturating_sub(*keys);
    let eta_s = match *keys {
        0 => return format!(", {percent:.0}% of {total}"),
        keys => missing as f64 * elapsed_s / keys as f64,
    };
    format!(", {percent:.0}% of {total}, {eta_s:.0} s left")
}

/// How much of a phase is done, and of how much.
fn share(event: &Event<'_>) -> (u64, u64) {
    match event {
        Event::Tick { elapsed_s, budget_s: Some(budget), .. } => {
            ((elapsed_s * 1e3) as u64, (budget * 1e3) as u64)
        }
        Event::Tick { units, total: Some(total), .. } => (*units, *total),
        Event::SeedTick { keys, total: Some(total), .. } => (*keys, *total),
        _ => (0, 1),
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr());
    match ProgressStyle::with_template("{bar:24} {msg}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tick(keys: u64, total: Option<u64>) -> String {
        let at =
            At { workload: "w", engine: "e", phase: None, threads: 1, sweep: None, rate: None };
        let event = Event::SeedTick { at, elapsed_s: 20.0, keys, keys_per_s: 7.0, total };
        let progress = Progress {
            display: Display::Nothing,
            dialect: Dialect::Keyrack,
            watch: None,
            tells_loads: true,
            told_s: 0.0,
        };
        progress.bar_text(&event)
    }

    /// A load of an hour went by without a word of how much of it was done.
    #[test]
    fn a_load_says_its_share_and_the_time_left() {
        assert_eq!(
            tick(250, Some(1000)),
            "w on e: loading, 250 keys, 7 keys/s, 25% of 1000, 60 s left"
        );
        assert_eq!(tick(0, Some(1000)), "w on e: loading, 0 keys, 7 keys/s, 0% of 1000");
        assert_eq!(tick(250, None), "w on e: loading, 250 keys, 7 keys/s");
        // A script that writes more than it said.
        assert_eq!(tick(9, Some(0)), "w on e: loading, 9 keys, 7 keys/s, 100% of 0, 0 s left");
    }
}
