//! A run of `keyrack load` on the screen.

use keyrack_live::{Operation, Screen, Second, View};
use keyrack_loadgen::account::{Live, Sampled};
use keyrack_loadgen::plan::Plan;
use keyrack_loadgen::run::Event;
use keyrack_loadgen::target::Class;
use keyrack_measure::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug)]
pub(crate) struct LoadScreen {
    screen: Screen,
    view: View,
    live: Vec<Arc<Live>>,
    /// Counts at the start of the stage and at the last look.
    first: Sampled,
    seen: Sampled,
    connections: usize,
    clock: Clock,
    /// When the stage began.
    began: u64,
    time_s: f64,
    queries: u64,
}

impl LoadScreen {
    /// Takes the terminal; `q` sets `stop`.
    ///
    /// # Errors
    /// One line when there is no terminal.
    pub(crate) fn start(
        plan: &Plan,
        clock: Clock,
        stop: &Arc<AtomicBool>,
    ) -> Result<LoadScreen, String> {
        let stop = Arc::clone(stop);
        let screen = super::screen(move || stop.store(true, Ordering::Relaxed))?;
        let settings = &plan.settings;
        let title = format!("keyrack load  {}", settings.servers.join(" "));
        let view = View::new(&title, "replies/s");
        let (time_s, queries) = (settings.time_s, settings.queries);
        let mut screen = LoadScreen {
            screen,
            view,
            live: Vec::new(),
            first: Sampled::default(),
            seen: Sampled::default(),
            connections: 0,
            began: clock.ticks(),
            clock,
            time_s,
            queries,
        };
        screen.enter("connecting");
        Ok(screen)
    }

    /// Takes note of an event, and draws.
    pub(crate) fn show(&mut self, event: &Event<'_>) {
        match event {
            Event::Connected { connections, live } => {
                (self.connections, self.live) = (*connections, live.to_vec());
                self.enter("connected");
            }
            Event::Loading { records } => self.enter(&format!("writing {records} records")),
            Event::Loaded { records, elapsed_s } => {
                self.view.finish(format!("{records} records written in {elapsed_s:.1} s"));
            }
            Event::WarmingUp => self.enter("warming up"),
            Event::Measuring => self.enter("measuring"),
            Event::Second(second) => {
                let length_s = second.length_s.max(1e-9);
                let now = Sampled::of(self.live.iter().map(|live| &**live));
                let last = now.since(&self.seen);
                let rate_per_s = second.ops as f64 / length_s;
                self.view.push(&Second { rate_per_s, latency: second.latency.clone() });
                self.view.operations = operations(&last, &now, length_s);
                self.seen = now;
                self.facts(second.offered_per_s);
            }
            Event::Finished => {
                let ops = self.seen.ops.saturating_sub(self.first.ops);
                let elapsed_s = self.elapsed_s();
                self.view.finish(format!("{ops} replies in {elapsed_s:.1} s"));
                self.enter("done");
            }
        }
        self.progress();
        self.screen.show(&self.view);
    }

    /// Whether `q` has been pressed.
    pub(crate) fn has_quit(&self) -> bool {
        self.screen.has_quit()
    }

    fn enter(&mut self, stage: &str) {
        self.view.enter(stage);
        self.began = self.clock.ticks();
        self.first = Sampled::of(self.live.iter().map(|live| &**live));
        self.seen = self.first.clone();
        self.facts(None);
        self.screen.show(&self.view);
    }

    fn elapsed_s(&self) -> f64 {
        self.clock.ns_between(self.began, self.clock.ticks()) as f64 / 1e9
    }

    /// How far a measurement is: by the clock, or by the number of requests.
    fn progress(&mut self) {
        self.view.elapsed_s = self.elapsed_s();
        let ops = self.seen.ops.saturating_sub(self.first.ops);
        let by_time = (self.time_s > 0.0).then(|| self.view.elapsed_s / self.time_s);
        let by_count = (self.queries > 0).then(|| ops as f64 / self.queries as f64);
        let is_measuring = self.view.stage == "measuring";
        self.view.share = by_time.into_iter().chain(by_count).reduce(f64::max);
        self.view.share = self.view.share.filter(|_| is_measuring);
    }

    fn facts(&mut self, offered_per_s: Option<f64>) {
        let all = self.seen.since(&self.first);
        let bad = |count: u64| if count > 0 { format!("!{count}") } else { "0".to_owned() };
        self.view.facts = vec![
            ("connections".to_owned(), self.connections.to_string()),
            ("outstanding".to_owned(), all.outstanding.to_string()),
            ("errors".to_owned(), bad(all.errors)),
            ("misses".to_owned(), all.misses.to_string()),
        ];
        if let Some(rate) = offered_per_s {
            self.view.facts.push(("offered".to_owned(), format!("{rate:.0}/s")));
        }
    }
}

/// The classes that there have been replies of, over the last second.
fn operations(last: &Sampled, all: &Sampled, length_s: f64) -> Vec<Operation> {
    let used = Class::ALL.into_iter().filter(|class| !all.classes[*class as usize].is_empty());
    used.map(|class| {
        let latency = last.classes[class as usize].clone();
        let rate_per_s = latency.count() as f64 / length_s;
        Operation { name: class.name().to_owned(), rate_per_s, latency, errors: None }
    })
    .collect()
}
