//! The workers of a timed phase: its roles, each with so many workers, an end and perhaps a rate.
//!
//! ```text
//!   phase   |  role 0: workers 0, 1  |  role 1: workers 2, 3, 4  |     threads of the phase
//!   cells      the phase; role 0; role 1                               what gets results
//! ```
//!
//! A workload that declares no phases has one, with one role and one cell, which is the grid's.

use crate::program::{PhasePlan, RoleIndex, RolePlan, Workload};
use crate::settings::{Bound, Settings};
use keyrack_record::{Cell, Part};
use keyrack_workload::{ArrivalSchedule, Arrivals, Rng};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// A timed phase of one measurement.
#[derive(Clone, Debug)]
pub(crate) struct TimedPhase {
    /// Its place among the phases of the measurement.
    pub(crate) index: usize,
    /// The declared name.
    pub(crate) name: Option<String>,
    pub(crate) warmup_s: f64,
    pub(crate) roles: Vec<Role>,
    /// What gets results: the whole phase, then its roles where they have names.
    pub(crate) cells: Vec<Cell>,
}

/// The workers of one role.
#[derive(Clone, Debug)]
pub(crate) struct Role {
    pub(crate) index: Option<RoleIndex>,
    /// Workers of this role among those of the phase.
    pub(crate) workers: Range<u32>,
    /// Workers that share the bound and the rate: all but those beside a job.
    pub(crate) threads: u32,
    /// `None` in the background.
    pub(crate) bound: Option<Bound>,
    pub(crate) rate: Option<f64>,
    pub(crate) arrivals: Arrivals,
}

impl TimedPhase {
    /// The phases of a measurement of `cell`, in order.
    pub(crate) fn all(workload: &Workload, settings: &Settings, cell: &Cell) -> Vec<TimedPhase> {
        if workload.phases.is_empty() {
            let threads = cell.threads;
            let role = Role {
                index: None,
                workers: 0..threads + workload.beside(),
                threads,
                bound: Some(workload.bound()),
                rate: cell.rate,
                arrivals: settings.arrivals,
            };
            return vec![TimedPhase {
                index: 0,
                name: None,
                warmup_s: settings.warmup,
                roles: vec![role],
                cells: vec![cell.clone()],
            }];
        }
        let plans = workload.phases.iter().enumerate();
        plans.map(|(index, plan)| declared(workload, settings, cell, index, plan)).collect()
    }

    pub(crate) fn workers(&self) -> u32 {
        self.roles.last().map_or(0, |role| role.workers.end)
    }

    /// The role of a worker, and its number within.
    pub(crate) fn role_of(&self, worker: u32) -> (usize, u32) {
        let index = self.roles.iter().position(|role| role.workers.contains(&worker));
        let index = index.expect("each worker of a phase is in a role");
        (index, worker - self.roles[index].workers.start)
    }

    /// Whether its roles can be started at their rates. A rate that is too low for a schedule would
    /// else be a closed loop.
    ///
    /// # Errors
    /// The rate and its bounds, in words.
    pub(crate) fn check_rates(&self) -> Result<(), String> {
        for role in &self.roles {
            let Some(rate) = role.rate else { continue };
            let (share, rng) = (rate / f64::from(role.threads), Rng::from_seed(1));
            ArrivalSchedule::new(role.arrivals, share, rng).map_err(|error| {
                format!("{rate} units/s over {} threads: {error}", role.threads)
            })?;
        }
        Ok(())
    }

    /// Whether results are told apart by role.
    pub(crate) fn has_roles(&self) -> bool {
        self.cells.len() > 1
    }

    /// Workers that end by themselves.
    pub(crate) fn foreground(&self) -> u32 {
        let roles = self.roles.iter().filter(|role| role.bound.is_some());
        roles.map(|role| role.workers.len() as u32).sum()
    }

    /// The longest time that a role is to work, where all that end by themselves end by time.
    pub(crate) fn secs(&self) -> Option<f64> {
        let bounds = self.roles.iter().filter_map(|role| role.bound);
        bounds
            .map(|bound| if let Bound::Secs(secs) = bound { Some(secs) } else { None })
            .try_fold(0.0, |most: f64, secs| Some(most.max(secs?)))
    }

    /// Units in all, where every role has a count.
    pub(crate) fn ops(&self) -> Option<u64> {
        self.roles.iter().map(|role| role.bound).try_fold(0, |sum, bound| match bound {
            Some(Bound::Ops(ops)) => Some(sum + ops),
            _ => None,
        })
    }
}

/// The most workers of a phase that `workload` declares, for cells of `threads`; `None` where it
/// declares no phases.
pub(crate) fn workers_max(workload: &Workload, threads: u32) -> Option<u32> {
    let of = |plan: &PhasePlan| plan.roles.iter().map(|role| role.threads.unwrap_or(threads)).sum();
    workload.phases.iter().map(of).max()
}

fn declared(
    workload: &Workload,
    settings: &Settings,
    cell: &Cell,
    index: usize,
    plan: &PhasePlan,
) -> TimedPhase {
    let mut next = 0;
    let role = |(index_of_role, plan): (usize, &RolePlan)| {
        let threads = plan.threads.unwrap_or(cell.threads);
        let workers = next..next + threads;
        next = workers.end;
        Role {
            index: Some(RoleIndex { phase: index, role: index_of_role }),
            workers,
            threads,
            bound: (!plan.background).then(|| plan.bound.unwrap_or(workload.bound())),
            rate: plan.rate,
            arrivals: plan.arrivals.unwrap_or(settings.arrivals),
        }
    };
    let roles: Vec<Role> = plan.roles.iter().enumerate().map(role).collect();
    let cell_of = |role: Option<String>, workers: u32, rate: Option<f64>| Cell {
        part: Some(Part { phase: plan.name.clone(), role, workers }),
        rate,
        ..cell.clone()
    };
    let only = match roles.as_slice() {
        [role] => role.rate,
        _ => None,
    };
    let mut cells = vec![cell_of(None, next, only)];
    cells.extend(roles.iter().zip(&plan.roles).filter_map(|(role, plan)| {
        Some(cell_of(Some(plan.name.clone()?), role.threads, role.rate))
    }));
    TimedPhase { index, name: Some(plan.name.clone()), warmup_s: plan.warmup_s, roles, cells }
}

/// Ends the roles in the background when the last worker of the others has ended, in any way. A run
/// that ends early ends those, and so these too.
#[derive(Debug)]
pub(crate) struct Background {
    pub(crate) stop: AtomicBool,
    /// Workers that have not ended yet.
    left: AtomicU32,
}

/// Says when it is dropped that a worker of the foreground has ended.
#[derive(Debug)]
pub(crate) struct Foreground<'b>(&'b Background);

impl Background {
    pub(crate) fn new(foreground: u32) -> Self {
        Background { stop: AtomicBool::new(false), left: AtomicU32::new(foreground) }
    }

    pub(crate) fn foreground(&self) -> Foreground<'_> {
        Foreground(self)
    }
}

impl Drop for Foreground<'_> {
    fn drop(&mut self) {
        // Nothing is handed over but the flag itself, and workers are joined.
        if self.0.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.stop.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A search that had halved its rate often enough measured a closed loop, and said that the
    /// rate had passed.
    #[test]
    fn a_rate_that_is_too_low_for_a_schedule_is_no_closed_loop() {
        let role = |rate| Role {
            index: None,
            workers: 0..4,
            threads: 4,
            bound: Some(Bound::Ops(1)),
            rate,
            arrivals: Arrivals::Poisson,
        };
        let phase = |rate| TimedPhase {
            index: 0,
            name: None,
            warmup_s: 0.0,
            roles: vec![role(None), role(rate)],
            cells: Vec::new(),
        };
        assert_eq!(phase(None).check_rates(), Ok(()));
        assert_eq!(phase(Some(0.01)).check_rates(), Ok(()));
        let said = phase(Some(1e-6)).check_rates().unwrap_err();
        assert!(said.starts_with("0.000001 units/s over 4 threads: "), "{said}");
    }
}
