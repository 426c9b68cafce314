//! The live status: a bar on a terminal, one line a second where plain text is asked for, else
//! nothing.
//!
//! Everything goes to standard error, so it never lands in a result. The plain lines are those of
//! the original; the bar shows the same figures in one line that is drawn over.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use keyrack_harness::sink::Dialect;
use keyrack_harness::{At, Event, Observer, ProgressMode};
use std::io::{IsTerminal, Write};

/// Shows a run's events to a person.
#[derive(Debug)]
pub(crate) struct Progress {
    look: Look,
    dialect: Dialect,
}

#[derive(Debug)]
enum Look {
    Nothing,
    Plain,
    Bar(ProgressBar),
}

impl Progress {
    pub(crate) fn new(mode: ProgressMode, dialect: Dialect) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let look = match mode {
            ProgressMode::None => Look::Nothing,
            ProgressMode::Plain => Look::Plain,
            // The original scrolled lines; under its name so do we.
            ProgressMode::Auto if terminal && dialect == Dialect::Seed => Look::Plain,
            ProgressMode::Auto if !terminal => Look::Nothing,
            ProgressMode::Auto | ProgressMode::Bar => Look::Bar(bar()),
        };
        Progress { look, dialect }
    }

    /// The cell in a few letters: `t8`, `t8 batch=256`; under the old name always with `b`.
    fn tag(&self, at: &At<'_>) -> String {
        let batch = at.sweep.filter(|(param, _)| *param == "batch").map(|(_, value)| value);
        let mut tag = format!("t{}", at.threads);
        match (self.dialect, at.sweep) {
            (Dialect::Seed, _) => tag.push_str(&format!(" b{}", batch.unwrap_or(1))),
            (Dialect::Keyrack, Some((param, value))) => tag.push_str(&format!(" {param}={value}")),
            (Dialect::Keyrack, None) => {}
        }
        if let Some(rate) = at.rate {
            tag.push_str(&format!(" rate={rate:.0}"));
        }
        tag
    }

    fn plain(&self, event: &Event<'_>) {
        match event {
            Event::Seeding { at, threads } if self.dialect == Dialect::Seed => {
                eprint!("  seeding {} on {} with {threads} threads ...", at.workload, at.engine);
                let _ = std::io::stderr().flush();
            }
            Event::Seeded { elapsed_s, .. } if self.dialect == Dialect::Seed => {
                eprintln!(" done ({elapsed_s:.1}s)");
            }
            Event::SeedTick { .. } if self.dialect == Dialect::Seed => {}
            Event::Seeding { at, threads } => {
                eprintln!("  seeding {} on {} with {threads} threads", at.workload, at.engine);
            }
            Event::SeedTick { at, elapsed_s, keys, keys_per_s } => eprintln!(
                "  seeding {} {}  {elapsed_s:5.1}s  {keys:12} keys  {keys_per_s:10.0} keys/s",
                at.workload, at.engine
            ),
            Event::Seeded { at, elapsed_s, keys } => eprintln!(
                "  seeded {} in {elapsed_s:.1}s  {keys} keys  {:.0} keys/s",
                at.workload,
                *keys as f64 / elapsed_s.max(1e-9)
            ),
            Event::Running { at, repeat, repeats } => {
                let tag = self.tag(at);
                let (workload, engine) = (at.workload, at.engine);
                eprintln!("  running {workload} on {engine}  {tag}  run {repeat}/{repeats}");
            }
            Event::Tick { at, .. } => {
                eprintln!("  {} {} {}", at.workload, at.engine, self.line(event))
            }
            Event::Finished => {}
            Event::Note(note) => eprintln!("{note}"),
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
    fn event(&mut self, event: &Event<'_>) {
        match &self.look {
            // What a person has to know is said without a terminal too.
            Look::Nothing => {
                if let Event::Note(note) = event {
                    eprintln!("{note}");
                }
            }
            Look::Plain => self.plain(event),
            Look::Bar(bar) => {
                match event {
                    Event::Seeding { at, .. } => {
                        bar.set_length(1);
                        bar.set_position(0);
                        bar.set_message(format!("{} on {}: loading", at.workload, at.engine));
                    }
                    Event::SeedTick { at, keys, keys_per_s, .. } => bar.set_message(format!(
                        "{} on {}: loading, {keys} keys, {keys_per_s:.0} keys/s",
                        at.workload, at.engine
                    )),
                    Event::Running { at, repeat, repeats } => bar.set_message(format!(
                        "{} on {} {} run {repeat}/{repeats}",
                        at.workload,
                        at.engine,
                        self.tag(at)
                    )),
                    Event::Tick { at, elapsed_s, budget_s, units, total, .. } => {
                        let (position, length) = match (budget_s, total) {
                            (Some(budget), _) => ((elapsed_s * 1e3) as u64, (budget * 1e3) as u64),
                            (None, Some(total)) => (*units, *total),
                            (None, None) => (0, 1),
                        };
                        bar.set_length(length);
                        bar.set_position(position.min(length));
                        bar.set_message(format!(
                            "{} on {} {}",
                            at.workload,
                            at.engine,
                            self.line(event)
                        ));
                    }
                    Event::Seeded { .. } => {}
                    // Results are printed where the bar stands.
                    Event::Finished => {
                        bar.set_message("");
                        bar.suspend(|| {});
                    }
                    Event::Note(note) => bar.suspend(|| eprintln!("{note}")),
                }
                bar.tick();
                if matches!(event, Event::Finished) {
                    bar.finish_and_clear();
                    bar.reset();
                }
            }
        }
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr());
    match ProgressStyle::with_template("{bar:24} {msg}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
