//! What belongs to one connection besides its bytes: its draws, its schedule, its part of the
//! loading and of the removal half-way, its window of misses.

use keyrack_measure::Clock;
use keyrack_wire::outcome::Kind;
use keyrack_workload::{ArrivalSchedule, KeySource, Rng, mix64};

use super::Phase;
use super::in_flight::{InFlight, flags};
use crate::arrival::{self, Purpose, Stream};
use crate::control::RampSchedule;
use crate::error::Result;
use crate::plan::{Filling, Plan};

/// No tick: nothing is due.
pub(super) const NEVER: u64 = u64::MAX;

/// Indexes that one connection walks over.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StridedIndexes {
    next: u64,
    step: u64,
    end: u64,
}

impl StridedIndexes {
    /// Every `step`th index from `first` on, below `end`.
    pub(super) fn new(first: u64, step: u64, end: u64) -> StridedIndexes {
        StridedIndexes { next: first, step, end }
    }

    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.next >= self.end
    }
}

impl Iterator for StridedIndexes {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let index = self.next;
        (index < self.end).then(|| {
            self.next = index.saturating_add(self.step.max(1));
            index
        })
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MissWindow {
    pub(super) gets_so_far: u64,
    pub(super) gets: u64,
    pub(super) misses: u64,
    pub(super) accesses: u64,
}

/// When requests are due.
#[derive(Debug, Clone)]
enum Schedule {
    /// At one rate.
    Steady(ArrivalSchedule),
    /// At a rate that changes.
    Ramped(RampSchedule),
}

impl Schedule {
    /// The offset of the next arrival; `None` when there is none any more.
    #[inline]
    fn next_at_ns(&mut self) -> Option<u64> {
        match self {
            Schedule::Steady(schedule) => Some(schedule.next_at_ns()),
            Schedule::Ramped(schedule) => schedule.next_at_ns(),
        }
    }
}

/// One connection's share of the workload.
#[derive(Debug)]
pub(super) struct ConnectionWorkload {
    stream: Stream,
    /// Which of all connections of the process, and how many there are.
    index: u32,
    count: u32,
    keys: KeySource,
    mix: Rng,
    sizes: Rng,
    pub(super) offset: usize,
    pub(super) nonce: u64,
    schedule: Option<Schedule>,
    /// When the next request is due.
    pub(super) due: u64,
    /// Is a timer set for that?
    pub(super) is_timed: bool,
    /// When the next request may leave, under `--moderate`.
    pub(super) not_before: u64,
    pub(super) load: StridedIndexes,
    pub(super) purge: StridedIndexes,
    pub(super) window: MissWindow,
}

impl ConnectionWorkload {
    pub(super) fn new(
        plan: &Plan,
        stream: Stream,
        index: u32,
        count: u32,
    ) -> Result<ConnectionWorkload> {
        let shard = (index, count);
        let mut sizes = stream.rng(Purpose::Values);
        Ok(ConnectionWorkload {
            stream,
            index,
            count,
            keys: plan.popularity.source(plan.records, stream.rng(Purpose::Keys), shard)?,
            mix: stream.rng(Purpose::Mix),
            offset: plan.values.offset(&mut sizes),
            nonce: mix64(u64::from(index)),
            sizes,
            schedule: None,
            due: NEVER,
            is_timed: false,
            not_before: 0,
            load: StridedIndexes::default(),
            purge: StridedIndexes::default(),
            window: MissWindow::default(),
        })
    }

    /// Gets ready for a phase.
    pub(super) fn begin(&mut self, plan: &Plan, phase: &Phase, clock: &Clock) -> Result<()> {
        (self.due, self.is_timed, self.not_before) = (NEVER, false, 0);
        self.window = MissWindow::default();
        self.schedule = None;
        // A trace has one schedule for all connections of its thread, and a client whose keys say
        // where they go has one for all of its: the first has it.
        let (index, count) = if plan.settings.trace.is_some() {
            (self.stream.thread, plan.settings.threads as u32)
        } else {
            (self.index, self.count)
        };
        let at = self.stream.connection as usize;
        let is_scheduled = match (plan.settings.trace.is_some(), plan.settings.sharding.is_some()) {
            (true, _) => at == 0,
            (false, true) => at < plan.settings.connections,
            (false, false) => true,
        };
        if phase.rate > 0.0 && is_scheduled {
            // Each phase has gaps of its own; the first has those of the seed.
            let seed = self.stream.seed.wrapping_add(u64::from(phase.number) << 40);
            let stream = Stream { seed, ..self.stream };
            let distribution = &plan.gaps;
            self.schedule = Some(match &plan.ramp {
                Some(ramp) if phase.is_ramped => {
                    // The rate of the settings is the mean of the whole ramp.
                    let share = phase.rate / plan.settings.rate;
                    Schedule::Ramped(RampSchedule::new(
                        ramp,
                        distribution,
                        &stream,
                        index,
                        count,
                        share,
                    )?)
                }
                _ => {
                    let rate = phase.rate;
                    Schedule::Steady(arrival::schedule(distribution, rate, &stream, index, count)?)
                }
            });
            self.advance(phase, clock);
        }
        Ok(())
    }

    /// Moves on to the next arrival; none is due at the end of the phase or later.
    #[inline]
    pub(super) fn advance(&mut self, phase: &Phase, clock: &Clock) {
        let Some(schedule) = &mut self.schedule else { return };
        self.due = match schedule.next_at_ns() {
            Some(at_ns) if at_ns < phase.length_ns => phase.start + clock.ticks_of_ns(at_ns),
            _ => NEVER,
        };
    }

    /// How many arrivals are due before `tick`, of those that have not been taken.
    pub(super) fn due_before(&self, tick: u64, phase: &Phase, clock: &Clock) -> u64 {
        let Some(schedule) = &self.schedule else { return 0 };
        let (mut schedule, mut due, mut count) = (schedule.clone(), self.due, 0);
        while due < tick {
            count += 1;
            let Some(at_ns) = schedule.next_at_ns().filter(|at_ns| *at_ns < phase.length_ns) else {
                break;
            };
            due = phase.start + clock.ticks_of_ns(at_ns);
        }
        count
    }

    #[inline]
    pub(super) fn draw(&mut self, plan: &Plan, intended: u64) -> InFlight {
        let settings = &plan.settings;
        let stores = settings.filling != Filling::GetSet
            && settings.update > 0.0
            && self.mix.chance(settings.update);
        let kind = if stores {
            Kind::Set
        } else if settings.mget > 1 {
            Kind::Mget
        } else {
            Kind::Get
        };
        let sized = stores || settings.filling != Filling::Never;
        let size = match (kind, sized) {
            (Kind::Mget, _) => settings.mget as u32,
            (_, true) => plan.sizes.sample(&mut self.sizes),
            (_, false) => 0,
        };
        let ttl_s = if sized { settings.ttl_s } else { 0 };
        let key = self.keys.next_index();
        InFlight { intended, sent: 0, key, size, ttl_s, kind, flags: 0, redirects: 0 }
    }

    /// A lookup of a closed loop, as [`ConnectionWorkload::draw`] draws it where there is nothing
    /// but lookups.
    #[inline]
    pub(super) fn lookup(&mut self) -> InFlight {
        let key = self.keys.next_index();
        let (kind, flags, redirects) = (Kind::Get, 0, 0);
        InFlight { intended: 0, sent: 0, key, size: 0, ttl_s: 0, kind, flags, redirects }
    }

    /// Draws one more key, for a lookup of several.
    #[inline]
    pub(super) fn draw_key(&mut self) -> u64 {
        self.keys.next_index()
    }

    pub(super) fn next_load(&mut self, plan: &Plan) -> Option<InFlight> {
        let key = self.load.next()?;
        let size = plan.sizes.sample(&mut self.sizes);
        let ttl_s = plan.settings.ttl_s;
        let (kind, flags) = (Kind::Set, flags::LOAD);
        Some(InFlight { intended: 0, sent: 0, key, size, ttl_s, kind, flags, redirects: 0 })
    }

    /// A removal half-way.
    pub(super) fn next_purge(&mut self, plan: &Plan) -> Option<InFlight> {
        let key = self.purge.find(|key| plan.purged.contains(*key))?;
        let (kind, flags) = (Kind::Delete, flags::PURGE);
        Some(InFlight { intended: 0, sent: 0, key, size: 0, ttl_s: 0, kind, flags, redirects: 0 })
    }
}
