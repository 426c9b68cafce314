//! `--record`, `--replay`, `--format`, `--speed`: what they can be together, and the trace itself,
//! read through once so that nothing in it can be refused later.

use crate::params::Params;
use crate::planned_engine::PlannedEngine;
use crate::program::{Playback, Workload, share_of};
use crate::settings::{Bound, Settings};
use crate::surroundings::{Refusal, Surroundings, refusal};
use keyrack_trace::{Format, Survey, survey};
use keyrack_vfs::Fs;
use keyrack_workload::{Phase, Rng, SizeDistribution, ValueSource, ValueSpec};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The share of a value's bytes that compresses away, where neither trace nor user says.
const COMPRESS: f64 = 0.5;

/// The workload of `--replay`, where there is one; the settings get the trace's threads, bound and
/// rate.
pub(super) fn replay(
    settings: &mut Settings,
    surroundings: &Surroundings,
    params: &Params,
    notes: &mut Vec<String>,
) -> Result<Option<Workload>, Refusal> {
    let Some(path) = settings.replay.clone() else {
        for (flag, given) in
            [("--format", settings.format.is_some()), ("--speed", settings.speed.is_some())]
        {
            if given {
                return Err(refusal(format!("{flag} is of --replay FILE, which is not given")));
            }
        }
        return Ok(None);
    };
    check_replay(settings)?;
    if settings.warmup > 0.0 {
        notes.push("a replay has the warm-up of its trace, running without --warmup".to_owned());
        settings.warmup = 0.0;
    }
    let fs = &surroundings.fs;
    let failed = |error: keyrack_trace::Error| refusal(format!("--replay: {error}"));
    let format = match settings.format {
        Some(format) => format,
        None => Format::detect(&**fs, &path).map_err(failed)?,
    };
    let (survey, shares) = survey_shares(settings, &**fs, &path, format)?;
    if let Some(what) = &survey.skipped {
        notes.push(format!("{}: passed over {what}, which stores do not have", path.display()));
    }
    let compress = compress_of(params, &survey)?;
    let size = SizeDistribution::Fixed(survey.value_bytes_max);
    let spec = ValueSpec { size, compress, seed: settings.seed };
    let values = ValueSource::new(&spec, Rng::stream(settings.seed, Phase::Run, 0, 0));
    let values = values.map_err(|error| refusal(format!("{}: {error}", path.display())))?;
    let speed = settings.speed;
    let playback = Playback {
        fs: Arc::clone(fs),
        path: path.clone(),
        format,
        survey,
        shares,
        speed,
        values: Arc::new(values),
    };
    if speed.is_some() {
        match playback.mean_rate() {
            Some(rate) if playback.survey.has_times => settings.rate = vec![rate],
            _ => {
                return Err(refusal(format!(
                    "{}: its operations have no times, or all the same; say --speed max",
                    path.display()
                )));
            }
        }
    }
    if !settings.bounded {
        settings.bound = Bound::Ops(playback.survey.timed_records());
    }
    Ok(Some(Workload::playback(playback, settings.bound)))
}

/// What cannot be given together with `--replay`.
fn check_replay(settings: &Settings) -> Result<(), Refusal> {
    if let Some(workload) = settings.workloads.first() {
        return Err(refusal(format!(
            "--replay runs its trace instead of a workload: leave {workload} out"
        )));
    }
    if !settings.rate.is_empty() || settings.rate_search.is_some() {
        return Err(refusal(
            "a replay has the times of its trace: say --speed X instead of --rate or --rate-search",
        ));
    }
    if settings.batch.len() > 1 {
        return Err(refusal("--batch: the batches of a replay are those of its trace"));
    }
    Ok(())
}

/// Timed operations of each thread, by the number of threads.
type Shares = BTreeMap<u32, Vec<u64>>;

/// Reads the trace through, once for each number of threads, as each has shares of its own. A trace
/// of Keyrack has its own threads, which the settings get.
fn survey_shares(
    settings: &mut Settings,
    fs: &dyn Fs,
    path: &Path,
    format: Format,
) -> Result<(Survey, Shares), Refusal> {
    let mut shares = BTreeMap::new();
    let is_ours = format == Format::Keyrack;
    let mut found = None;
    for &threads in settings.threads.iter().take(if is_ours { 1 } else { usize::MAX }) {
        let thread_of =
            |record: &_, thread| if is_ours { thread } else { share_of(record, threads) };
        let mut survey = survey(fs, path, format, &thread_of)
            .map_err(|error| refusal(format!("--replay: {error}")))?;
        if !is_ours {
            survey.timed.resize(threads as usize, 0);
        }
        shares.insert(survey.timed.len() as u32, survey.timed.clone());
        found = Some(survey);
    }
    let Some(survey) = found else { return Err(refusal("--threads names none")) };
    if is_ours {
        let recorded = survey.timed.len() as u32;
        shares.insert(1, vec![survey.timed_records()]);
        if recorded > 1 {
            shares.insert(recorded, survey.timed.clone());
        }
        if !settings.threaded {
            settings.threads = vec![recorded];
        }
        if let Some(other) = settings.threads.iter().find(|n| **n != 1 && **n != recorded) {
            return Err(refusal(format!(
                "--threads {other}: the trace is of {recorded}; leave --threads out, or say 1 for \
                 all operations in the order of their times"
            )));
        }
    }
    Ok((survey, shares))
}

/// The share of a value's bytes that compresses away.
fn compress_of(params: &Params, survey: &Survey) -> Result<f64, Refusal> {
    let Some(text) = params.get("compress") else {
        return Ok(survey.compress.unwrap_or(COMPRESS));
    };
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err(refusal(format!("-P compress={text}: write a number of 0 to 1"))),
    }
}

/// Whether what is to be recorded is one measurement.
pub(super) fn check_record(
    settings: &Settings,
    engines: &[PlannedEngine],
    workloads: &[Workload],
) -> Result<(), Refusal> {
    let Some(path) = &settings.record else { return Ok(()) };
    let sweeps =
        |workload: &Workload| workload.sweep.as_ref().is_some_and(|sweep| sweep.values.len() > 1);
    let many = [
        ("--backend", engines.len() > 1),
        ("WORKLOAD", workloads.len() > 1),
        ("--threads", settings.threads.len() > 1),
        ("--rate", settings.rate.len() > 1),
        ("--repeat", settings.repeat > 1),
        ("the sweep of the workload", workloads.iter().any(sweeps)),
        ("--rate-search", settings.rate_search.is_some()),
    ];
    if let Some((what, _)) = many.iter().find(|(_, is_many)| *is_many) {
        return Err(refusal(format!(
            "--record {}: a trace is of one measurement, and {what} asks for several; give one",
            path.display()
        )));
    }
    if settings.replay.as_ref() == Some(path) {
        return Err(refusal("--record and --replay name the same file; give another"));
    }
    if path.extension().is_some_and(|name| name == "zst") {
        return Err(refusal(format!(
            "--record {}: the blocks of a trace are compressed already; leave .zst out",
            path.display()
        )));
    }
    Ok(())
}
