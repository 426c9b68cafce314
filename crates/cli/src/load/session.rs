//! One call of `keyrack load`, from checked options to what is printed and written.

use super::coordinator::Coordinator;
use super::{Options, TableShape};
use crate::tui::LoadScreen;
use keyrack_compat::LoadStyle;
use keyrack_console::say;
use keyrack_loadgen::account::{Report, Second};
use keyrack_loadgen::control::{Figures, Goal, Scan, Search, Until, repeat};
use keyrack_loadgen::export::{Exporter, Stage, page_endpoint};
use keyrack_loadgen::output::{Columns, csv, hgrm, json, scan_header, scan_row, table};
use keyrack_loadgen::plan::{Loading, Plan, Settings, Waiting};
use keyrack_loadgen::run::{Event, Measurement, Surroundings};
use keyrack_loadgen::target::Class;
use keyrack_loadgen::verdict::{AgentShare, Evidence, Grade, Verdict};
use keyrack_measure::Clock;
use keyrack_measure::CpuTimes;
use keyrack_measure::stats::Interval;
use keyrack_vfs::{Fs, OutputFile, RealFs};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The verdict warns, and `--strict` was given.
const NOT_TO_BE_TRUSTED: u8 = 3;
/// Pieces of `--time` that `--until` measures at most.
const PIECES_MAX: usize = 1000;
/// Measurements of `--repeat` at most.
const REPEATS_MAX: u32 = 1000;

/// What the options ask for besides one measurement.
enum Task {
    Once,
    Search(Search),
    Scan(Scan),
    Until(Until),
    Repeat(u32),
}

/// Runs the options; returns the exit status.
pub(super) fn run(options: &Options, style: &LoadStyle) -> Result<u8, String> {
    let fs = RealFs;
    let clock = Clock::calibrated();
    let began = clock.ticks();
    let task = task(options)?;
    let plan = Plan::new(options.settings()?, &fs).map_err(|error| error.to_string())?;
    let plan = Arc::new(plan);
    let mut files = Files::open(options)?;
    let stop = Arc::<AtomicBool>::default();
    keyrack_console::set_on_signals(&stop)?;
    let mut status = StatusLine::new(options);
    let exporter = exporter(options)?;
    let mut screen = None;
    if let (true, Some(why)) = (options.tui, crate::tui::refusal()) {
        say!("{why}");
        status.display = Display::Plain;
    } else if options.tui {
        status.display = Display::Nothing;
        screen = Some(LoadScreen::start(&plan, clock.clone(), &stop)?);
    }
    let mut observer = |event: &Event<'_>| {
        status.show(event);
        if let Some(screen) = &mut screen {
            screen.show(event);
        }
        if let Some(exporter) = &exporter {
            export(exporter, event);
        }
    };
    let mut surroundings = Surroundings {
        clock,
        stop: Arc::clone(&stop),
        observer: &mut observer,
        fs: &fs,
        save: files.save.take(),
        began,
    };
    let columns = options.table.map_or(style.columns, columns);
    let mut printer =
        Printer { options, style, columns, text: String::new(), failed: false, has_quit: false };
    let times =
        || fs.read_to_string(Path::new("/proc/stat")).ok().and_then(|t| CpuTimes::parse(&t));
    let before = times();
    let mut led = || -> keyrack_loadgen::Result<Report> {
        let mut coordinator = Coordinator::start(&plan, options, &mut surroundings)?;
        let loading = coordinator.load(&mut surroundings)?;
        if plan.settings.loading == Loading::Only || loading.is_interrupted {
            return Ok(loading);
        }
        let mut measure = |what: &Measurement| coordinator.measure(what, &mut surroundings);
        let mut report = printer.carry_out(&task, &mut measure, &plan)?;
        report.troubles.splice(0..0, loading.troubles);
        report.account.errors.merge(&loading.account.errors);
        Ok(report)
    };
    let led = led();
    let has_quit = screen.take().is_some_and(|screen| screen.has_quit());
    keyrack_console::release();
    let report = led.map_err(|error| error.to_string())?;
    let share = before.zip(times()).and_then(|(before, after)| after.since(&before));
    let verdict = verdict(&report, &plan, share.map(|share| share.steal_pct));
    printer.has_quit = has_quit;
    printer.end(&report, &plan, &verdict, files)
}

/// The files of a run. They are opened before anything is sent, so that none is refused at the end.
struct Files {
    /// Samples as they come.
    save: Option<OutputFile>,
    json: Option<OutputFile>,
    csv: Option<OutputFile>,
    hgrm: Option<OutputFile>,
}

impl Files {
    fn open(options: &Options) -> Result<Files, String> {
        let fs: Arc<dyn Fs> = Arc::new(RealFs);
        let whole = |option: &str, path: &Option<PathBuf>| {
            let opened = path.as_deref().map(|path| OutputFile::whole(&fs, path)).transpose();
            opened.map_err(|error| format!("--{option}: {error}"))
        };
        let save = options.save.as_deref().map(|path| OutputFile::growing(&RealFs, path));
        let json = options.json.clone().filter(|path| path != Path::new("-"));
        Ok(Files {
            save: save.transpose().map_err(|error| format!("--save: {error}"))?,
            json: whole("json", &json)?,
            csv: whole("csv", &options.csv)?,
            hgrm: whole("hgrm", &options.hgrm)?,
        })
    }
}

/// The page for Prometheus, where one is asked for.
fn exporter(options: &Options) -> Result<Option<Exporter>, String> {
    let Some(text) = &options.prometheus else { return Ok(None) };
    let failed = |error: keyrack_net::Error| format!("--prometheus: {error}");
    let exporter = Exporter::start(page_endpoint(text).map_err(failed)?).map_err(failed)?;
    if let Some(place) = exporter.endpoint() {
        say!("figures at http://{place}/metrics");
    }
    Ok(Some(exporter))
}

fn export(exporter: &Exporter, event: &Event<'_>) {
    match event {
        Event::Connected { connections, live } => exporter.follow(live, *connections),
        Event::Loading { .. } => exporter.enter(Stage::Loading),
        Event::WarmingUp => exporter.enter(Stage::WarmingUp),
        Event::Measuring => exporter.enter(Stage::Measuring),
        Event::Loaded { .. } | Event::Finished => exporter.enter(Stage::Resting),
        Event::Second(_) => {}
    }
}

/// The line of mutilate about its samples.
fn saved(options: &Options, style: &LoadStyle) -> String {
    match options.save.as_deref().filter(|_| style.program == "mutilate") {
        Some(path) => format!("Saving latency samples to {}.\n", path.display()),
        None => String::new(),
    }
}

/// Whether the figures are worth their name.
fn verdict(report: &Report, plan: &Plan, steal_pct: Option<f64>) -> Verdict {
    let counts = &report.account.counts;
    let agents: Vec<AgentShare> = report
        .agents
        .iter()
        .filter_map(|agent| {
            let (name, achieved_per_s) = (agent.name.clone(), agent.achieved_per_s);
            agent.offered_per_s.map(|offered_per_s| AgentShare {
                name,
                offered_per_s,
                achieved_per_s,
            })
        })
        .collect();
    let is_spinning = plan.settings.waiting == Waiting::Spin;
    Verdict::of(&Evidence {
        offered_per_s: report.offered_rate,
        variation: plan.variation(),
        drawn: counts.offered,
        completed: counts.ops_in_time,
        elapsed_s: report.window_s,
        backlog: counts.backlog,
        lost: report.account.errors.total() + counts.unanswered + counts.unsent,
        delay: &report.account.delay,
        response: &report.account.all().response,
        threads: if is_spinning { &[] } else { &report.threads },
        steal_pct,
        gaps_ns: if plan.is_poisson() { &report.send_gaps_ns } else { &[] },
        agents: &agents,
    })
}

fn task(options: &Options) -> Result<Task, String> {
    if let Some(text) = &options.search {
        let goal = Goal::parse(text).map_err(|error| format!("--search: {error}"))?;
        return Ok(Task::Search(Search::new(goal)));
    }
    if let Some(text) = &options.scan {
        return Scan::parse(text).map(Task::Scan).map_err(|error| format!("--scan: {error}"));
    }
    if let Some(text) = &options.until {
        return Until::parse(text).map(Task::Until).map_err(|error| format!("--until: {error}"));
    }
    match options.repeat {
        None => Ok(Task::Once),
        Some(count) if (1..=REPEATS_MAX).contains(&count) => Ok(Task::Repeat(count)),
        Some(count) => Err(format!("--repeat is {count}, expected 1 to {REPEATS_MAX}")),
    }
}

fn columns(shape: TableShape) -> Columns {
    match shape {
        TableShape::Readme => Columns::Readme,
        TableShape::Std => Columns::Std,
        TableShape::Fork => Columns::Fork,
        TableShape::Full => Columns::Full,
    }
}

/// Measures once, whoever does it.
type Measure<'a> = &'a mut dyn FnMut(&Measurement) -> keyrack_loadgen::Result<Report>;

/// What goes to standard output, as it becomes known.
struct Printer<'a> {
    options: &'a Options,
    style: &'a LoadStyle,
    columns: Columns,
    text: String,
    /// The answer is no.
    failed: bool,
    /// Whoever watches had seen enough.
    has_quit: bool,
}

impl Printer<'_> {
    fn carry_out(
        &mut self,
        task: &Task,
        measure: Measure<'_>,
        plan: &Plan,
    ) -> keyrack_loadgen::Result<Report> {
        let once = Measurement::of(plan);
        match task {
            Task::Once => measure(&once),
            Task::Search(search) => self.search(search, measure, &once),
            Task::Scan(scan) => self.scan(scan, measure, plan, &once),
            Task::Until(until) => {
                let mut report = measure(&once)?;
                for _ in 1..PIECES_MAX {
                    if report.is_interrupted
                        || !report.troubles.is_empty()
                        || until.is_reached(&latencies(&report))
                    {
                        break;
                    }
                    report.absorb(measure(&Measurement { warmup_s: 0.0, ..once })?);
                }
                self.failed |= !until.is_reached(&latencies(&report));
                for progress in until.progress(&latencies(&report)) {
                    let interval = progress.interval.map_or_else(String::new, |interval| {
                        format!(
                            " within {:.1} to {:.1} us",
                            interval.low / 1e3,
                            interval.high / 1e3
                        )
                    });
                    let reached = if progress.is_reached { "" } else { ", not as exact as wished" };
                    let p = progress.percentile;
                    self.text.push_str(&format!("Interval: p{p}{interval}{reached}\n"));
                }
                Ok(report)
            }
            Task::Repeat(count) => {
                let mut whole: Option<Report> = None;
                let seed = plan.settings.seed;
                let repeated = repeat(*count, seed, &mut |_| {
                    let report = measure(&once)?;
                    let figures = figures(&report);
                    match &mut whole {
                        Some(whole) => whole.absorb(report),
                        None => whole = Some(report),
                    }
                    Ok::<Figures, keyrack_loadgen::Error>(figures)
                })?;
                let mut line = |name: &str, unit: f64, found: Option<(f64, Option<Interval>)>| {
                    if let Some((median, interval)) = found {
                        let ends = interval.map_or_else(String::new, |interval| {
                            format!(" ({:.1} to {:.1})", interval.low / unit, interval.high / unit)
                        });
                        self.text.push_str(&format!("{name} = {:.1}{ends}\n", median / unit));
                    }
                };
                line("Median QPS", 1.0, repeated.rate_per_s());
                line("Median p50 us", 1e3, repeated.percentile_ns(50.0));
                line("Median p99 us", 1e3, repeated.percentile_ns(99.0));
                Ok(whole.unwrap_or_default())
            }
        }
    }

    /// Probes are measurements; the last one is what the table shows.
    fn search(
        &mut self,
        search: &Search,
        measure: Measure<'_>,
        once: &Measurement,
    ) -> keyrack_loadgen::Result<Report> {
        let mut last = Report::default();
        let finding = search.run(&mut |rate| {
            let report = measure(&Measurement { rate: rate.unwrap_or(0.0), ..*once })?;
            if report.is_interrupted {
                return Err(Stopped::Interrupted(Box::new(report)));
            }
            let figures = figures(&report);
            if self.options.verbose > 0 {
                let p = search.goal.percentile;
                let us = figures.response.percentile(p).unwrap_or(0) as f64 / 1e3;
                say!(
                    "cur_qps = {:.1}, get_qps = {:.1}, p{p} = {us:.1} us",
                    rate.unwrap_or(0.0),
                    report.rate()
                );
            }
            if !report.troubles.is_empty() {
                return Err(Stopped::Interrupted(Box::new(report)));
            }
            last = report;
            Ok(figures)
        });
        match finding {
            Ok(finding) => {
                self.failed |= finding.met.is_none();
                self.text.push_str(&format!("Search: {finding}\n"));
                let peak = finding.peak.achieved_per_s();
                self.text.push_str(&format!("Peak QPS  = {peak:.1}\n"));
                Ok(last)
            }
            Err(Stopped::Interrupted(report)) => Ok(*report),
            Err(Stopped::Failed(error)) => Err(error),
        }
    }

    fn scan(
        &mut self,
        scan: &Scan,
        measure: Measure<'_>,
        plan: &Plan,
        once: &Measurement,
    ) -> keyrack_loadgen::Result<Report> {
        // Rows are printed as they come: a scan takes long.
        keyrack_console::print(&format!("{}\n", scan_header(self.columns)));
        let mut whole = Report::default();
        for rate in scan.rates_per_s() {
            let report = measure(&Measurement { rate: *rate, ..*once })?;
            let settings = Settings { rate: *rate, ..plan.settings.clone() };
            keyrack_console::print(&format!(
                "{}\n",
                scan_row(&report, &settings, *rate, self.columns)
            ));
            let is_over = report.is_interrupted || !report.troubles.is_empty();
            whole.absorb(report);
            if is_over {
                break;
            }
        }
        Ok(whole)
    }

    /// Prints, writes the files, and says how it went.
    fn end(
        mut self,
        report: &Report,
        plan: &Plan,
        verdict: &Verdict,
        files: Files,
    ) -> Result<u8, String> {
        let (options, settings) = (self.options, &plan.settings);
        let is_load_only = settings.loading == Loading::Only;
        let to_stdout = options.json.as_deref().is_some_and(|path| path == Path::new("-"));
        let record = || {
            let mut value = json(report, settings);
            let checks = verdict.checks.iter().map(|check| {
                serde_json::json!({
                    "name": check.name,
                    "passed": match check.grade {
                        Grade::Pass => Some(true),
                        Grade::Open => None,
                        Grade::Warn => Some(false),
                    },
                    "text": check.text,
                })
            });
            value["verdict"] = checks.collect();
            format!("{value:#}\n")
        };
        let mut text = String::new();
        for window in &report.windows {
            let ratio = window.misses as f64 / (window.gets.max(1)) as f64;
            text.push_str(&format!("{},{ratio:.4}\n", window.gets_so_far));
        }
        if !is_load_only && options.scan.is_none() {
            text.push_str(&table(report, settings, self.columns));
        }
        text.push_str(&self.text);
        text.push_str(&saved(options, self.style));
        if to_stdout {
            text = record();
        }
        let printed = keyrack_console::print(&text);
        let write = |file: Option<OutputFile>, text: &dyn Fn() -> String| {
            let Some(mut file) = file else { return Ok(()) };
            let written = file.append(text().as_bytes()).and_then(|()| file.finish());
            written.map_err(|error| error.to_string())
        };
        write(files.json, &record)?;
        write(files.csv, &|| csv(&report.series))?;
        write(files.hgrm, &|| hgrm(&report.account.tally(Class::Read).response))?;
        for trouble in &report.troubles {
            keyrack_console::refuse(self.style.program, trouble);
            self.failed = true;
        }
        self.failed |= report.account.errors.total() > 0;
        let is_judged = !is_load_only && options.scan.is_none() && options.search.is_none();
        if is_judged && !options.quiet {
            say!("{}", verdict.to_string().trim_end());
        }
        if printed != keyrack_console::DONE {
            return Ok(printed);
        }
        if report.is_interrupted && !self.has_quit {
            return Ok(keyrack_console::INTERRUPTED);
        }
        Ok(match (self.failed, options.strict && is_judged && !verdict.is_clean()) {
            (true, _) => keyrack_console::NO,
            (false, true) => NOT_TO_BE_TRUSTED,
            (false, false) => keyrack_console::DONE,
        })
    }
}

/// Why a search ended before it had an answer.
enum Stopped {
    Interrupted(Box<Report>),
    Failed(keyrack_loadgen::Error),
}

impl From<keyrack_loadgen::Error> for Stopped {
    fn from(error: keyrack_loadgen::Error) -> Stopped {
        Stopped::Failed(error)
    }
}

/// The response times that decisions are about: those of lookups, or of all where there is none.
fn latencies(report: &Report) -> keyrack_measure::Histogram {
    let reads = &report.account.tally(Class::Read).response;
    if reads.is_empty() { report.account.all().response } else { reads.clone() }
}

fn figures(report: &Report) -> Figures {
    let counts = &report.account.counts;
    Figures {
        offered_per_s: report.offered_rate,
        completed: counts.ops_in_time,
        // What was not answered stands in the histogram with the time that it waited.
        lost: report.account.errors.total(),
        elapsed_s: report.window_s,
        response: latencies(report),
    }
}

/// What a person sees while it goes on, on standard error.
struct StatusLine {
    display: Display,
    is_verbose: bool,
}

/// How the present second is shown.
#[derive(Clone, Copy, PartialEq)]
enum Display {
    Nothing,
    /// A line that is drawn over.
    Line,
    /// A line of its own.
    Plain,
}

impl StatusLine {
    fn new(options: &Options) -> StatusLine {
        let has_line = std::io::stderr().is_terminal() && !options.quiet;
        StatusLine {
            display: if has_line { Display::Line } else { Display::Nothing },
            is_verbose: options.verbose > 0 && !options.quiet,
        }
    }

    fn show(&self, event: &Event<'_>) {
        match event {
            Event::Connected { connections, .. } if self.is_verbose => {
                say!("{connections} connections");
            }
            Event::Loaded { records, elapsed_s } if self.is_verbose => {
                say!("{records} records written in {elapsed_s:.1} s");
            }
            Event::WarmingUp if self.is_verbose => say!("warming up"),
            Event::Measuring if self.is_verbose => say!("measuring"),
            Event::Second(second) if self.display == Display::Plain => say!("{}", line(second)),
            Event::Second(second) if self.display == Display::Line => {
                // The line is drawn over; a terminal that is gone needs none.
                let _ = write!(std::io::stderr(), "\r\x1b[K{}", line(second));
            }
            Event::Finished if self.display == Display::Line => {
                let _ = write!(std::io::stderr(), "\r\x1b[K");
            }
            _ => {}
        }
    }
}

/// A second in a line.
fn line(second: &Second) -> String {
    let us = |p| second.latency.percentile(p).unwrap_or(0) as f64 / 1e3;
    let rate = second.ops as f64 / second.length_s.max(1e-9);
    format!(
        "{:7.1} s {rate:12.0} QPS   p50 {:9.1} us   p99 {:9.1} us   {} errors",
        second.end_s,
        us(50.0),
        us(99.0),
        second.errors,
    )
}
