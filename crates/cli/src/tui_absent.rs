//! `--tui` in a build without it: a refusal, and nothing that could be on.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const REFUSAL: &str = "--tui: this build has no screen; build keyrack-cli with --features tui";

pub(crate) fn install() {}

pub(crate) fn refusal() -> Option<&'static str> {
    None
}

/// Never there.
#[derive(Debug)]
pub(crate) struct LoadScreen(Infallible);

impl LoadScreen {
    pub(crate) fn start(
        _: &keyrack_loadgen::plan::Plan,
        _: keyrack_measure::Clock,
        _: &Arc<AtomicBool>,
    ) -> Result<LoadScreen, String> {
        Err(REFUSAL.to_owned())
    }

    pub(crate) fn show(&mut self, _: &keyrack_loadgen::run::Event<'_>) {
        match self.0 {}
    }

    pub(crate) fn has_quit(&self) -> bool {
        match self.0 {}
    }
}

/// Never there.
#[derive(Debug)]
pub(crate) struct BenchScreen(Infallible);

impl BenchScreen {
    pub(crate) fn start(_: &keyrack_harness::Stop) -> Result<BenchScreen, String> {
        Err(REFUSAL.to_owned())
    }

    pub(crate) fn step(&mut self, _: usize, _: usize) {
        match self.0 {}
    }

    pub(crate) fn event(
        &mut self,
        _: &keyrack_harness::Event<'_>,
        _: &dyn Fn(&keyrack_harness::At<'_>) -> String,
    ) {
        match self.0 {}
    }

    pub(crate) fn second(&mut self, _: &keyrack_harness::Second) {
        match self.0 {}
    }
}
